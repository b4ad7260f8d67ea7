"""What is said of results that the provider cleared: a note at the end of the newest message.

Windlass goes on sending them, so only their model misses them. Each gets a line: its tool, its
reference, its error lines and the names that nothing else in view holds. The line stands where it
was first said, so that nothing that was sent changes. A note that is itself cleared, with the
result it stands on, is said anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from windlass.messages import Text
from windlass.prompts import CLEARED_HEADER
from windlass.window.entries import Entry
from windlass.window.kinds import arguments_of
from windlass.window.originals import reference
from windlass.window.pending import PendingEdits
from windlass.window.policies.digest import digest_of
from windlass.window.policies.shared import ERROR_CHARS

SHARE: Final = 0.3
"""A note has at most this share of the tokens of the results that it tells of."""
MOST_TOKENS: Final = 2_000
"""And at most so many tokens."""
_MOST_CHARS: Final = 4 * MOST_TOKENS
_CLOSER: Final = 0.9
"""What is too long is written again this much shorter than what should fit."""
_ARGUMENT_CHARS: Final = 40


def unsaid(shown: Sequence[Entry], cleared: Collection[str]) -> tuple[list[Entry], str]:
    """Of the results of the `cleared` calls, by their ids, those that no note in view tells of.

    Also the notes in view, in one text.
    """
    hidden, notes = list[Entry](), list[str]()
    for entry in shown:
        message = entry.message
        if message.role == "tool" and message.tool_call_id in cleared:
            hidden.append(entry)
        elif message.role in ("tool", "user"):
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            notes += [text for text in texts if text.startswith(CLEARED_HEADER)]
    there = "\n".join(notes)
    return [entry for entry in hidden if reference(entry.item.message) not in there], there


def cleared_note(
    pending: PendingEdits,
    places: Sequence[int],
    hidden: Collection[int],
    size: Callable[[str], int],
    there: str,
) -> tuple[str, list[int]]:
    """A note of cleared results, and the positions of those that it tells of; empty: of none.

    A result that is too short for a line within the bounds is left out.

    Args:
        pending: What the next call would see.
        places: The positions of the results that are to be told of, the oldest first.
        hidden: Those of all results that are cleared: what they hold is in no view.
        size: Tokens of a text.
        there: The notes that are in view already.
    """
    chars = {at: len(pending.shown(at).text) for at in places}
    heads = {at: _head(pending, at) for at in places}
    room = _MOST_CHARS
    while told := _those_that_fit(chars, heads, room):
        span = sum(chars[at] for at in told)
        within = min(room, int(SHARE * span))
        text = _written(pending, {at: (chars[at], heads[at]) for at in told}, hidden, within, there)
        most = min(MOST_TOKENS, int(SHARE * sum(pending.size(pending.shown(at)) for at in told)))
        tokens = size(text)
        if tokens <= most:
            return text, sorted(told)
        room = int(within * min(1.0, most / tokens) * _CLOSER)
    return "", []


def _those_that_fit(chars: Mapping[int, int], heads: Mapping[int, str], room: int) -> list[int]:
    """The longest of the results, as many as can be named in the room and in their share.

    None that is shorter than its name.
    """
    named = [at for at in chars if len(heads[at]) < chars[at]]
    longest = sorted(named, key=lambda at: -chars[at])
    lines, span, fit = len(CLEARED_HEADER), 0, 0
    for count, at in enumerate(longest, start=1):
        lines, span = lines + len(heads[at]) + 2, span + chars[at]
        if lines <= min(room, SHARE * span):
            fit = count
    return longest[:fit]


def _written(
    pending: PendingEdits,
    told: Mapping[int, tuple[int, str]],
    hidden: Collection[int],
    room: int,
    there: str,
) -> str:
    """The note in `room` characters; `told` are the characters and the heads of its results."""
    left = room - len(CLEARED_HEADER) - sum(len(head) + 2 for _, head in told.values())
    of = sum(chars for chars, _ in told.values())
    lines: dict[int, str] = {}
    # What a short result does not take of its share is left to the longer ones.
    for at, (chars, head) in sorted(told.items(), key=lambda one: one[1][0]):
        share = max(0, left * chars // of - len(": "))
        kept = digest_of(
            pending, at, share, min(ERROR_CHARS, share), span=hidden, there=f"{there}\n{head}"
        ).replace("\n", " | ")
        lines[at] = f"{head}: {kept}]" if kept else f"{head}]"
        there += f"\n{kept}"
        left, of = left - len(lines[at]) + len(head) + 1, of - chars
    return "\n".join([CLEARED_HEADER, *(lines[at] for at in sorted(lines))])


def _head(pending: PendingEdits, at: int) -> str:
    """How the line of a result begins: its tool, how its first argument begins, its reference."""
    call, message = pending.call(at), pending.original(at)
    name = message.name or (call.name if call else "a tool")
    values = [str(value) for value in arguments_of(call).values()] if call else []
    argument = " ".join(" ".join(values[:1]).split())
    if len(argument) > _ARGUMENT_CHARS:
        argument = f"{argument[: _ARGUMENT_CHARS - 1]}…"
    about = f"{name} {argument.replace(']', ')')}".rstrip()
    return f"[{about}, {reference(message)}"
