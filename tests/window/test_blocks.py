"""Blocks at the end of messages: what they change of a window, and what they never do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.messages import Message, Text, system, user
from windlass.window.blocks import BECAUSE, Attached, same_until, with_blocks, without_block
from windlass.window.entries import Entry, Item, Replace, apply


def entries_of(messages: list[Message]) -> list[Entry]:
    return [
        Entry(Item(f"m{at}", message, message.role), message, "said before")
        for at, message in enumerate(messages)
    ]


@pytest.mark.req("CE-15")
@given(conversations(), st.data())
def test_blocks_only_add_parts_at_the_end(messages: list[Message], data: st.DataObject) -> None:
    entries = entries_of(messages)
    chosen = data.draw(st.sets(st.sampled_from(range(len(entries)))) if entries else st.just(set()))
    attached = {
        entries[at].item.id: Attached(entries[at].message.key, f"block {at}", "new" * (at % 2))
        for at in chosen
    }
    shown, places = with_blocks(entries, attached)
    assert set(places) == chosen
    assert len(shown) == len(entries)
    for at, (before, after) in enumerate(zip(entries, shown, strict=True)):
        assert after.item is before.item
        if at not in chosen:
            assert after is before
            continue
        assert after.because == BECAUSE
        count = len(before.message.parts)
        assert after.message.parts[:count] == before.message.parts
        added = [part.text for part in after.message.parts[count:] if isinstance(part, Text)]
        assert added == [*(["new"] if at % 2 else []), f"block {at}"]
        assert replace(after.message, parts=()) == replace(before.message, parts=())
    first = min(chosen, default=len(entries))
    sent = [one.message for one in shown]
    assert same_until(sent, [one.message for one in entries]) == first


@pytest.mark.req("CE-15")
def test_a_block_goes_with_the_message_it_was_put_on() -> None:
    entries = entries_of([system("S."), user("a long text")])
    attached = {"m1": Attached(entries[1].message.key, "block")}
    edit = Replace("m1", user("short"), "mask", "because")
    shown, places = with_blocks(apply(entries, {"m1": edit}), attached)
    assert places == {}
    assert shown[1].message == user("short")


def test_what_lasts_stays_when_the_block_goes() -> None:
    left = without_block(Attached("key", "block", "lasting"))
    assert left == Attached("key", "", "lasting")
    assert without_block(Attached("key", "block")) is None


def test_an_edited_message_with_a_block_says_both() -> None:
    (entry,) = entries_of([user("long")])
    edited = replace(entry, message=user("short"), because="encode")
    shown, _ = with_blocks([edited], {"m0": Attached(user("short").key, "block")})
    assert shown[0].because == "encode, inject"
