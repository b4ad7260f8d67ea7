"""Blocks at the end of messages: what they change of a window, and what they never do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.caching.model_cache import same_until
from windlass.messages import Message, Text, system, user
from windlass.window.blocks import Attachment, let_go, with_blocks, with_own_block
from windlass.window.entries import INJECT, Entry, Item, Replace, apply


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
        entries[at].item.id: Attachment(entries[at].message, f"block {at}", "new" * (at % 2))
        for at in chosen
    }
    chosen.discard(len(entries) - 1)  # the last gets the block of its own call
    blocks = with_blocks(entries, attached)
    shown = blocks.entries
    assert set(blocks.older) == chosen
    assert len(shown) == len(entries)
    for at, (before, after) in enumerate(zip(entries, shown, strict=True)):
        assert after.item is before.item
        if at not in chosen:
            assert after is before
            continue
        assert after.causes == (INJECT,)
        count = len(before.message.parts)
        assert after.message.parts[:count] == before.message.parts
        added = [part.text for part in after.message.parts[count:] if isinstance(part, Text)]
        assert added == [*(["new"] if at % 2 else []), f"block {at}"]
        assert replace(after.message, parts=()) == replace(before.message, parts=())
    first = min(chosen, default=len(entries))
    sent = tuple(one.message for one in shown)
    assert same_until(sent, tuple(one.message for one in entries)) == first


@pytest.mark.req("CE-15")
def test_a_block_goes_with_the_message_it_was_put_on() -> None:
    entries = entries_of([system("S."), user("a long text"), user("go on")])
    attached = {"m1": Attachment(entries[1].message, "block")}
    edit = Replace("m1", user("short"), "mask", "because")
    blocks = with_blocks(apply(entries, {"m1": edit}), attached)
    assert blocks.older == {}
    assert blocks.entries[1].message == user("short")


@pytest.mark.req("CE-15")
def test_what_lasts_stays_when_the_block_goes() -> None:
    entries = entries_of([user("a"), user("b"), user("c")])
    attached = {
        "m0": Attachment(entries[0].message, "block", "lasting"),
        "m1": Attachment(entries[1].message, "block"),
    }
    left = let_go(entries, with_blocks(entries, attached), 0)
    assert left.gone == 2
    assert left.attached == {"m0": Attachment(entries[0].message, "", "lasting")}
    assert [one.message.text for one in left.entries] == ["a\nlasting", "b", "c"]


def test_an_edited_message_with_a_block_says_both() -> None:
    first, last = entries_of([user("long"), user("go on")])
    edited = replace(first, message=user("short"), because="encode")
    shown = with_blocks([edited, last], {"m0": Attachment(user("short"), "block")}).entries
    assert shown[0].causes == ("encode", "inject")


@given(conversations(), st.text(min_size=1), st.text())
def test_only_the_last_word_of_a_user_or_a_tool_gets_a_block(
    messages: list[Message], block: str, lasting: str
) -> None:
    entries = entries_of([user("a"), *messages])
    before = with_blocks(entries, {})
    after = with_own_block(before, block, lasting, len)
    last = entries[-1].message
    assert after.own == (last.role in ("user", "tool"))
    assert after.entries[:-1] == tuple(entries[:-1])
    if after.own:
        assert after.attached[entries[-1].item.id].tokens == len(block)
        assert after.entries[-1].message.parts[len(last.parts) :][-1] == Text(block)
    else:
        assert after == before


def test_a_note_stays_where_the_block_beside_it_goes() -> None:
    entries = entries_of([user("One."), user("Two."), user("Three.")])
    own = with_own_block(with_blocks(entries[:2], {}), "now", "", len, "what was cleared")
    assert own.entries[-1].message.parts[1:] == (Text("what was cleared"), Text("now"))
    later = with_blocks(entries, own.attached)
    left = let_go(entries, later, 0)
    assert left.gone == 1
    assert left.entries[1].message.parts[1:] == (Text("what was cleared"),)
    assert left.attached["m1"].lasting_tokens == len("what was cleared")
    assert let_go(entries, left, 0) is left
