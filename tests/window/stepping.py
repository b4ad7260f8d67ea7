"""Driving a conversation over messages, and what holds for the windows of every policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.wire_formats import FORMATS, problems, spec
from windlass.messages import Message
from windlass.text.tokens import size
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.names import names_in
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence

MODELS = {"openai": "gpt-5.6", "anthropic": "claude-opus-4-8", "gemini": "gemini-2.5-flash"}


def items_of(messages: Sequence[Message], **more: Any) -> list[Item]:
    """Occurrences without phase, turn or attempt, unless `more` says them."""
    return [Item(f"id{n}", message, message.role, **more) for n, message in enumerate(messages)]


def windows(
    items: Sequence[Item | Message],
    *policies: Any,
    supply: Callable[[Window], Mapping[str, str]] | None = None,
    **options: Any,
) -> list[Window]:
    """The window of each call: before every assistant message, and after the last message."""
    conversation = Conversation(policies, **options)
    seen: list[Window] = []
    for number, given in enumerate(items):
        item = given if isinstance(given, Item) else Item(f"id{number}", given, given.role)
        if item.message.role == "assistant" and number:
            seen.append(_asked(conversation, supply))
        conversation.append(item)
    if items and last_is_whole(items):
        seen.append(_asked(conversation, supply))
    return seen


def _asked(
    conversation: Conversation, supply: Callable[[Window], Mapping[str, str]] | None
) -> Window:
    window = conversation.window()
    for key, text in (supply(window) if supply else {}).items():
        conversation.supply(key, text)
    return conversation.window()


def last_is_whole(items: Sequence[Item | Message]) -> bool:
    """Whether the list ends where a call may be made."""
    last = items[-1]
    return (last.message if isinstance(last, Item) else last).role in ("user", "tool", "system")


def texts(window: Window) -> list[str]:
    """The texts of a window's messages."""
    return [message.text for message in window.messages]


def refusals(messages: Sequence[Message]) -> list[str]:
    """What the three providers would refuse of the messages, each told in its own body."""
    told: list[str] = []
    called = sorted({call.name for message in messages for call in message.tool_calls})
    for wire, model in MODELS.items():
        request = Request(model, tuple(messages), 1_000, tuple(map(spec, called)))
        told += [f"{wire}: {one}" for one in problems(wire, FORMATS[wire].body(request), model)]
    return told


def holds_for_every_window(
    messages: Sequence[Message], *policies: Any, providers: bool = True, **options: Any
) -> list[Window]:
    """Checks what every policy owes, at every call, and returns the windows.

    Valid for the chat endpoint and the three providers, no larger than what was said, folded
    once and then the same, and the same from a fresh conversation and when asked twice.
    """
    before = list(messages)
    seen = windows(messages, *policies, **options)
    shown: dict[str, Message] = {}
    gone: set[str] = set()
    for window in seen:
        check_sequence(window.messages)
        said = [m for m in window.messages if not m.is_system]
        if any(m.role == "user" for m in messages) and said:
            assert said[0].role == "user"
        if providers:
            assert refusals(window.messages) == []
        count = len(window.messages)
        assert sum(map(size, window.messages)) <= sum(map(size, messages[: _until(window)]))
        assert count <= _until(window)
        ids = [entry.item.id for entry in window.entries]
        assert len(ids) == len(set(ids))
        assert not gone & set(ids), "what was folded away or dropped does not come back"
        moved = {t for edit in window.edits for t in _targets(edit)}
        for entry in window.entries:
            ident = entry.item.id
            if ident in shown and ident not in moved:
                assert entry.message == shown[ident], "sticky: only an edit changes what is shown"
        gone |= shown.keys() - set(ids)
        shown = {entry.item.id: entry.message for entry in window.entries}
    assert messages == before or list(messages) == before
    again = windows(messages, *policies, **options)
    assert [w.messages for w in again] == [w.messages for w in seen]
    _counts_agree(messages, *policies, **options)
    return seen


def _until(window: Window) -> int:
    return max(int(e.item.id.removeprefix("id").partition("+")[0]) for e in window.entries) + 1


def _targets(edit: Any) -> tuple[str, ...]:
    return edit.ids if hasattr(edit, "ids") else (edit.id,)


def _counts_agree(messages: Sequence[Message], *policies: Any, **options: Any) -> None:
    """The conversation's own counts are those of what it shows: tokens, and holders of names."""
    conversation = Conversation(policies, **options)
    for number, message in enumerate(messages):
        conversation.append(Item(f"id{number}", message, message.role))
    window = conversation.window()
    pending = conversation.step
    assert pending.tokens == sum(map(conversation.rules.count, window.messages))
    for at in [at for at in range(len(pending)) if pending.entry(at) is not None][:3]:
        for name in list(names_in(pending.shown(at)))[:3]:
            alone = sum(name in names_in(message) for message in window.messages) == 1
            assert bool(pending.names_held_only((at,), [name])) == alone
