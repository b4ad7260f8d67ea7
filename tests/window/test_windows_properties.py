"""What holds for every window of every call, whatever the history and the options.

Each history is walked call by call: a conversation is asked for the window of each call, and every
window is looked at, so that one example of hypothesis is some seven windows.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from tests.support.window_windows_properties import items, problems, signed, walked
from tests.window.conversations import messages_for, policies, seeds
from windlass.messages import Message, to_dict
from windlass.text.tokens import size
from windlass.window import names
from windlass.window.conversation import Conversation
from windlass.window.entries import Drop, Edit, Fold, Item, targets
from windlass.window.options import Policy
from windlass.window.steps import steps
from windlass.wire.openai import check_sequence


def made(options: dict[str, Any]) -> Conversation:
    return Conversation(policies=steps(Policy.of(options)))


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@given(seeds(), policies())
def test_every_call_is_valid(provider: str, numbers: list[int], options: dict[str, Any]) -> None:
    said = items(messages_for(numbers))
    for window, _ in walked(made(options), said):
        check_sequence(window.messages)
        assert problems(window.messages, provider) == []


@pytest.mark.req("AC-2")
@given(seeds(), policies())
def test_every_call_is_valid_where_texts_are_read_in_part(
    numbers: list[int], options: dict[str, Any]
) -> None:
    said = items(messages_for(numbers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "MOST_READ", 40)
        names.names_said.cache_clear()
        for window, _ in walked(made(options), said):
            check_sequence(window.messages)
            assert problems(window.messages, "openai") == []
    names.names_said.cache_clear()


@given(seeds(), policies())
def test_nothing_vanishes_and_nothing_grows(numbers: list[int], options: dict[str, Any]) -> None:
    messages = messages_for(numbers)
    before = [to_dict(message) for message in messages]
    said = items(messages)
    edits: dict[str, Edit] = {}
    shown: dict[str, Message] = {}
    saved = 0
    for window, count in walked(made(options), said):
        edits |= {target_: edit for edit in window.edits for target_ in targets(edit)}
        was, shown = shown, {entry.item.id: entry.message for entry in window.entries}
        assert len(shown) == len(window.entries), "a message is shown twice"
        own = [ident for ident in shown if ident in {item.id for item in said}]
        assert own == sorted(own, key=lambda ident: int(ident[1:])), "the order changed"
        for item in said[:count]:
            now = shown.get(item.id)
            edit = edits.get(item.id)
            if edit is None:
                assert now is item.message, "shown otherwise, and no edit says why"
            elif isinstance(edit, Drop) or (isinstance(edit, Fold) and edit.ids[0] != item.id):
                assert now is None
            else:
                assert now == edit.replacement
            earlier = was.get(item.id)
            if earlier is not None and earlier is not item.message and now != earlier:
                wider = isinstance(edit, Fold)  # and what it folds more is gone
                assert now is None or size(now) < size(earlier) or wider, "an edit was undone"
        whole = sum(size(item.message) for item in said[:count])
        sent = sum(size(shown[ident]) for ident in own)
        assert sent <= whole
        saved += whole - sent
    target(float(saved))
    assert [to_dict(message) for message in messages] == before


@given(seeds(), policies())
def test_what_was_signed_stays_as_it_was_in_an_open_loop(
    numbers: list[int], options: dict[str, Any]
) -> None:
    said = items(messages_for(numbers))
    for window, count in walked(made(options), said):
        last = max(at for at in range(count) if said[at].message.role == "user")
        shown = {entry.item.id: entry.message for entry in window.entries}
        for item in said[last + 1 : count]:
            if signed(item.message):
                assert shown[item.id] is item.message
        for entry in window.entries:
            kept = signed(entry.message)
            assert not kept or kept == signed(entry.item.message), "signed, and cut"


@given(seeds(), policies())
def test_asking_again_changes_nothing(numbers: list[int], options: dict[str, Any]) -> None:
    said = items(messages_for(numbers))
    asking, silent = made(options), made(options)
    for window, _ in walked(asking, said):
        again = asking.window()
        assert again == window
    for item in said:
        silent.append(item)
    assert silent.window() == asking.window()


@given(seeds(), policies(), st.data())
def test_a_pinned_message_stays_as_it_was_said(
    numbers: list[int], options: dict[str, Any], data: st.DataObject
) -> None:
    said = items(messages_for(numbers))
    pinned = data.draw(st.sampled_from(said))
    conversation = made(options)
    for item in said:
        if item.message.role == "assistant":
            assert (
                pinned.message in conversation.window().messages or pinned not in conversation.items
            )
        conversation.append(item)
        if item is pinned:
            conversation.pin(pinned.id)
    assert pinned.message in conversation.window().messages


@given(seeds(), st.sampled_from(["default", "lean", "careful", "spec"]))
def test_a_second_pass_leaves_what_the_first_made(numbers: list[int], profile: str) -> None:
    said = items(messages_for(numbers))
    once = made({"profile": profile})
    for item in said:
        once.append(item)
    first = once.window()
    twice = made({"profile": profile})
    for entry in first.entries:
        twice.append(Item(entry.item.id, entry.message, entry.item.node))
    shown = {entry.item.id: entry.message for entry in twice.window().entries}
    for entry in first.entries:
        if entry.because in ("digest", "mask"):
            assert shown[entry.item.id] == entry.message
