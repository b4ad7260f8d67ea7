"""Where a list of messages may be cut without breaking a tool pair.

A turn is one assistant message with all its tool results, and what the user said
before it. Cuts lie between turns only, so nothing that cuts here needs to know
about tool calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.messages import Message
from windlass.window.entries import Entry


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
