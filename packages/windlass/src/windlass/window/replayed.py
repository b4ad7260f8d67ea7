"""Replaying another phase's conversation: its messages, filtered, with pairs kept whole.

Where a list of messages may be cut without breaking a tool pair.

A turn is one assistant message with all its tool results, and what the user said
before it. Cuts lie between turns only, so nothing that cuts here needs to know
about tool calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Literal

from windlass.messages import Message, Part, Picture, Text, ToolCall
from windlass.window.entries import Entry, Item, show

_ARGUMENT_CHARS = 60


def replay(
    items: Sequence[Item],
    which: Literal["all", "assistant_only", "last_turn"],
    *,
    reason: str,
) -> tuple[Entry, ...]:
    """Return the messages of a phase as a later phase sees them.

    `all`: everything, with original roles. `assistant_only`: what the assistant said,
    each tool pair folded to one line. `last_turn`: the last assistant message with
    text, and the tool pairs since the user message before it.
    """
    match which:
        case "all":
            return show(items, reason)
        case "last_turn":
            return show(_last_turn(items), reason)
        case "assistant_only":
            pairs = {call.id for item in items for call in item.message.tool_calls}
            folded = _fold(show(items, reason), pairs)
            return tuple(entry for entry in folded if entry.message.role == "assistant")


def without_repeats(
    entries: Sequence[Entry], pictures: Collection[str], calls: Collection[str]
) -> tuple[Entry, ...]:
    """Return the entries without what the window holds already.

    A picture whose SHA-256 is in `pictures`, or came before among the entries, is
    described instead. A tool pair whose call id is in `calls` is folded to a line: a
    request that holds one call id twice is refused (Anthropic: "`tool_use` ids must be
    unique").
    """
    seen = set(pictures)
    return tuple(_described(entry, seen) for entry in _fold(entries, calls))


def held_by(entries: Sequence[Entry]) -> tuple[set[str], set[str]]:
    """Return the pictures (by SHA-256) and the call ids that these entries hold."""
    pictures = {p.sha256 for entry in entries for p in entry.message.pictures if p.sha256}
    return pictures, {call.id for entry in entries for call in entry.message.tool_calls}


def _fold(entries: Sequence[Entry], calls: Collection[str]) -> list[Entry]:
    """Return the entries with each assistant message that made one of `calls` told in words."""
    shown: list[Entry] = []
    gone: set[str | None] = set()
    for at, entry in enumerate(entries):
        message = entry.message
        if message.role == "tool" and message.tool_call_id in gone:
            continue
        if message.tool_calls:
            gone = set()  # the same id in another message is another call
        if any(call.id in calls for call in message.tool_calls):
            gone.update(call.id for call in message.tool_calls)
            behind = takewhile(
                lambda one: not one.message.tool_calls, islice(entries, at + 1, None)
            )
            results = {
                e.message.tool_call_id: e.message for e in behind if e.message.role == "tool"
            }
            lines = [folded_pair(call, results.get(call.id)) for call in message.tool_calls]
            words = [message.text] if message.text else []
            text = Message("assistant", (Text("\n".join(words + lines)),), name=message.name)
            shown.append(replace(entry, message=text, because="fold"))
        else:
            shown.append(entry)
    return shown


def _last_turn(items: Sequence[Item]) -> Sequence[Item]:
    last = max(
        (
            at
            for at, item in enumerate(items)
            if item.message.role == "assistant" and item.message.text
        ),
        default=None,
    )
    if last is None:
        return ()
    start = last
    while start > 0 and items[start - 1].message.role in ("assistant", "tool"):
        start -= 1
    end = last + 1
    while end < len(items) and items[end].message.role == "tool":
        end += 1
    return items[start:end]


def folded_pair(call: ToolCall, result: Message | None) -> str:
    """Return a tool pair in one line: `[Called run_sql(query="SEL...") -> 812 characters]`."""
    try:
        arguments = call.parsed()
    except ValueError:
        arguments = {}
    given = ", ".join(f"{name}={_short(value)}" for name, value in arguments.items())
    if result is None:
        outcome = "no result"
    else:
        outcome = f"{len(result.text):,} characters"
        if result.pictures:
            names = "; ".join(picture.describe() for picture in result.pictures)
            outcome += f" and [Image: {names}]"
    return f"[Called {call.name}({given}) -> {outcome}]"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _ARGUMENT_CHARS else text[: _ARGUMENT_CHARS - 3] + "..."


def _described(entry: Entry, seen: set[str]) -> Entry:
    parts: list[Part] = []
    for part in entry.message.parts:
        if isinstance(part, Picture) and part.sha256:
            if part.sha256 in seen:
                parts.append(Text(f"[Image shown before: {part.describe()}]"))
                continue
            seen.add(part.sha256)
        parts.append(part)
    if tuple(parts) == entry.message.parts:
        return entry
    return replace(entry, message=entry.message.with_parts(*parts), because="repeated picture")


def text_only(entry: Entry, because: str) -> Entry:
    """Get an assistant's words without the calls it made, for where their results are not shown."""
    if not entry.message.tool_calls:
        return entry
    words = Message("assistant", (Text(entry.message.text),), name=entry.message.name)
    return replace(entry, message=words, because=because)


def turns(entries: Sequence[Entry]) -> list[tuple[Entry, ...]]:
    """Return the entries cut at every cut point, in order; the last turn may lack its answer."""
    groups: list[list[Entry]] = []
    answered = True
    for entry in entries:
        role = entry.message.role
        if role == "tool" and groups:
            groups[-1].append(entry)
            continue
        if answered:
            groups.append([])
        groups[-1].append(entry)
        answered = role == "assistant"
    return [tuple(group) for group in groups]


def last_turns(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """The last `count` whole turns, with the user message that they answer where it lies before."""
    kept = [entry for turn in turns(entries)[-count:] for entry in turn]
    before = entries[: len(entries) - len(kept)]
    if kept and kept[0].message.role != "user":
        questions = (entry for entry in reversed(before) if entry.message.role == "user")
        kept[:0] = [entry for entry in (next(questions, None),) if entry is not None]
    return tuple(kept)


def newest_within(
    entries: Sequence[Entry], limit: int, count: Callable[[Message], int]
) -> tuple[Entry, ...]:
    """Return the newest whole turns whose messages together take at most `limit` tokens."""
    kept: list[tuple[Entry, ...]] = []
    left = limit
    for turn in reversed(turns(entries)):
        left -= sum(count(entry.message) for entry in turn)
        if left < 0:
            break
        kept.append(turn)
    return tuple(entry for turn in reversed(kept) for entry in turn)


def from_user(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries, less those that stand before the first user message and are no system prompt.

    A cut may fall inside a loop of tool calls; some providers refuse a conversation
    that begins with the assistant.
    """
    roles = [entry.message.role for entry in entries]
    start = roles.index("user") if "user" in roles else 0
    return (*(entry for entry in entries[:start] if entry.message.is_system), *entries[start:])
