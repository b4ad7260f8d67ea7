"""The dicts of windows: no copy of what did not change, and none that leads to what decides."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given

import windlass
from tests.support.context_bound import bytes_of, lookup, loop
from tests.window.conversations import chats, policies
from windlass.context.bound import forget


def by_id(window: Any) -> dict[str, dict[str, Any]]:
    """The dicts of a window by the id of what they show, but for what stands behind the list."""
    behind = {entry.id for entry in window.entries if entry.because == "repair"}
    ids = [entry.item.id for entry in window.next_call.entries]
    shown = zip(ids, window.messages, strict=True)
    return {ident: chat for ident, chat in shown if ident not in behind}


class TestNoCopy:
    @given(chats(), policies())
    def test_what_did_not_change_is_the_same_object(
        self, messages: list[dict[str, Any]], options: dict[str, Any]
    ) -> None:
        context = windlass.Context(policy=options)
        before: dict[str, dict[str, Any]] = {}
        for message in messages:
            context.append(message)
            now = by_id(context.window())
            for ident, chat in now.items():
                if ident in before and before[ident] == chat:
                    assert before[ident] is chat
            before = now

    def test_a_shortened_message_is_made_once(self) -> None:
        context = windlass.Context()
        seen: dict[str, set[int]] = {}
        windows = []
        for message in loop(12):
            context.append(message)
            windows.append(context.window())  # kept, so that no id is given twice
            for entry, chat in zip(windows[-1].entries, windows[-1].messages, strict=False):
                if entry.action == "replaced":
                    seen.setdefault(entry.id, set()).add(id(chat))
        assert len(seen) > 8
        assert {len(objects) for objects in seen.values()} == {1}

    def test_the_list_is_new_each_time(self) -> None:
        context = windlass.Context()
        for message in loop(3):
            context.append(message)
        first = context.window().messages
        length = len(first)
        first.clear()
        for message in lookup(3):
            context.append(message)
        assert len(context.window().messages) == length + 2

    def test_equal_copies_are_shown_and_what_was_made_is_kept(self) -> None:
        forget()
        messages = loop(8)
        first = windlass.bound(messages)
        copies = copy.deepcopy(messages)
        second = windlass.bound(copies)
        assert bytes_of(second) == bytes_of(first)
        assert {entry.action for entry in second.entries} == {"shown", "replaced"}
        for at, entry in enumerate(second.entries):
            wanted = copies if entry.action == "shown" else first.messages
            assert second.messages[at] is wanted[at]


class TestWhatDecides:
    """A dict that a caller writes into changes what he sees, and nothing else."""

    @staticmethod
    def _spoilt(window: Any) -> None:
        for entry, chat in zip(window.entries, window.messages, strict=True):
            if entry.action == "replaced":
                chat["content"] = [{"type": "text", "text": "x", "cache_control": {}}]
                chat["name"] = "spoilt"

    @staticmethod
    def _told(window: Any) -> str:
        forms = [window.wire(provider) for provider in ("openai", "anthropic", "gemini")]
        entries = [repr(entry) for entry in window.entries]
        return json.dumps([forms, entries, window.tokens, window.saved_tokens, window.breakpoints])

    def test_a_context_goes_on_as_it_was(self) -> None:
        clean, spoilt = windlass.Context(), windlass.Context()
        for message in copy.deepcopy(loop(10)):
            clean.append(message)
            spoilt.append(copy.deepcopy(message))
            mine, theirs = clean.window(), spoilt.window()
            assert self._told(mine) == self._told(theirs)
            self._spoilt(theirs)
            assert self._told(mine) == self._told(theirs)
        (first, *_) = [one for one in theirs.entries if one.action == "replaced"]
        assert spoilt.recall(first.reference) == clean.recall(first.reference)
        assert "spoilt" in bytes_of(spoilt.window())

    @given(chats(), policies())
    def test_a_list_has_its_window_whatever_was_written_into_an_earlier_one(
        self, messages: list[dict[str, Any]], options: dict[str, Any]
    ) -> None:
        counts = range(1, len(messages) + 1)
        forget()
        clean = [bytes_of(windlass.bound(messages[:n], policy=options)) for n in counts]
        forget()
        own = set(map(id, messages))
        for count in counts:
            window = windlass.bound(messages[:count], policy=options)
            assert bytes_of(window) == clean[count - 1]
            for chat in window.messages:
                if id(chat) not in own:
                    chat["content"], chat["cache_control"] = "spoilt", {"type": "ephemeral"}
