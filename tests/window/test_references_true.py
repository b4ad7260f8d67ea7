"""What a reference says is so in the window in which it is first shown, and reasons stay true."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.window.conversations import messages_for, policies, seeds
from windlass.messages import Message
from windlass.window._references import SAME, references_in
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Entry, Item
from windlass.window.options import Policy
from windlass.window.originals import reference
from windlass.window.steps import steps

WHOLE = (None, "encode", "repeat", "compress")
NOW = ("in view", "shows", "says", "stays", "is named")
"""Words of a reason that would be of the window in which it is read, not of when it was made."""


def windows_of(said: list[Message], options: dict[str, Any]) -> list[Window]:
    """The windows of each call."""
    conversation = Conversation(steps(Policy.of(options)))
    windows: list[Window] = []
    for at, message in enumerate(said):
        if message.role == "assistant":
            windows.append(conversation.window())
        conversation.append(Item(f"m{at}", message, message.role))
    return [*windows, conversation.window()]


def sources(window: Window, entry: Entry, ref: str) -> list[Entry]:
    """What stands above an entry and has the reference."""
    above = window.entries[: window.entries.index(entry)]
    return [each for each in above if reference(each.item.message) == ref]


@given(seeds(), policies(), st.booleans())
def test_what_is_referred_to_is_in_view_as_it_is_said(
    numbers: list[int], options: dict[str, Any], at_once: bool
) -> None:
    options = {**options, "repeats": True, "commit": "at_once" if at_once else "priced"}
    for window in windows_of(messages_for(numbers), options):
        new = {edit.id for edit in window.edits if hasattr(edit, "id")}
        for edit in window.edits:
            assert not any(word in edit.reason for word in NOW), edit.reason
        for entry in window.entries:
            if entry.because != "repeat" or entry.item.id not in new:
                continue
            text = entry.message.text
            refs = [match[1] for match in SAME.finditer(text)]
            refs += [one.ref for one in references_in(text)]
            assert refs
            for ref in refs:
                assert any(each.because in WHOLE for each in sources(window, entry, ref))


@given(seeds(), policies(), st.booleans())
def test_no_text_says_where_another_stands(
    numbers: list[int], options: dict[str, Any], at_once: bool
) -> None:
    """What it refers to may be shortened, folded or gone at a later call, and the text stays.

    A mark of a cut speaks of its own text.
    """
    options = {**options, "commit": "at_once" if at_once else "priced"}
    said = messages_for(numbers)
    own = {line for message in said for line in lines_of(message)}
    for window in windows_of(said, options):
        for entry in window.entries:
            for line in lines_of(entry.message) if entry.because else ():
                if line not in own and not line.startswith("[... "):
                    assert not re.search(r"\[[^\]]*\b(above|below)\b", line), line


def lines_of(message: Message) -> list[str]:
    """The lines of a message's text and of the arguments of its calls."""
    return "\n".join([message.text, *(call.arguments for call in message.tool_calls)]).split("\n")


def test_the_reason_of_a_repeat_is_true_when_its_source_is_a_digest() -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    text = "\n".join(f"user_{n} owns ticket #{n}42 of today" for n in range(40))
    for number in range(12):
        call = {"name": "run", "arguments": f'{{"n": {number}}}'}
        calls = [{"id": f"c{number}", "type": "function", "function": call}]
        said += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text if number < 2 else "ok"},
        ]
    entries = windlass.bound(said, policy={"commit": "at_once"}, recall=True).entries
    repeat = next(each for each in entries if each.because == "repeat")
    assert repeat.reason == "it repeats what an earlier result showed"
    assert next(each for each in entries if each.because == "digest")
