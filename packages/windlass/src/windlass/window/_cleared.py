"""The note about results that the provider cleared, at the end of the newest message.

Windlass still sends these results, so only the model misses them. Each gets a line: its tool, its
reference, its error lines and the names that nothing else in view holds. The line stays where it
was first added, so that nothing already sent changes. If the provider clears a note together with
the result that it is attached to, the note is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.messages import Text
from windlass.text.prompts import CLEARED_HEADER
from windlass.window._pending import PendingEdits
from windlass.window._survive import told
from windlass.window.entries import Entry
from windlass.window.names import names_said
from windlass.window.originals import reference
from windlass.window.policies.digest import digest_of
from windlass.window.policies.shared import ERROR_CHARS

SHARE: Final = 0.3
"""The most tokens of a note, as a share of those of the results that it lists."""
MOST_TOKENS: Final = 2_000
"""The most tokens of a note."""
_MOST_CHARS: Final = 4 * MOST_TOKENS
_CLOSER: Final = 0.9
"""A note that is too long is rewritten this much shorter than the room allows."""


def unsaid(shown: Sequence[Entry], cleared: Collection[str]) -> tuple[list[Entry], str]:
    """Return the results of the `cleared` calls, by id, that no note in view lists.

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
    """A note on cleared results, and the positions of those that it names; empty if there is none.

    A result that is too short for a line within the limits is left out.

    Args:
        pending: What the next call would see.
        places: The positions of the results that the note may name, the oldest first.
        hidden: The positions of all cleared results: no call sees what they hold.
        size: Tokens of a text.
        there: The notes that are already in view.
    """
    results = _results(pending, places, hidden, there)
    room = _MOST_CHARS
    while chosen := _choose_results(results, room):
        within = min(room, int(SHARE * sum(one.chars for one in chosen)))
        text = _write_note(pending, chosen, within)
        shown = sum(pending.size(pending.shown(one.at)) for one in chosen)
        most, tokens = min(MOST_TOKENS, int(SHARE * shown)), size(text)
        if tokens <= most:
            return text, sorted(one.at for one in chosen)
        room = int(within * min(1.0, most / tokens) * _CLOSER)
    return "", []


@dataclass(frozen=True, slots=True)
class _Result:
    """A cleared result."""

    at: int
    chars: int
    head: str
    """The beginning of its line in the note."""
    names: Sequence[str]
    """The names that only cleared results hold."""


def _results(
    pending: PendingEdits, places: Sequence[int], hidden: Collection[int], there: str
) -> list[_Result]:
    """Return the results that are long enough to have a line."""
    heads = {at: _head(pending, at) for at in places}
    texts = {at: pending.shown(at).text for at in places}
    texts = {at: text for at, text in texts.items() if len(text) > len(heads[at])}
    names = {at: names_said(text) for at, text in texts.items()}
    only = dict.fromkeys(name for each in names.values() for name in each)
    new = set(pending.names_held_only(hidden, only)) - names_said(there).keys()
    return [
        _Result(at, len(text), heads[at], [name for name in names[at] if name in new])
        for at, text in texts.items()
    ]


def _choose_results(results: Iterable[_Result], room: int) -> list[_Result]:
    """Return the longest results, as many as fit into the room and the share."""
    longest = sorted(results, key=lambda one: -one.chars)
    lines, chars, fit = len(CLEARED_HEADER), 0, 0
    for count, one in enumerate(longest, start=1):
        lines, chars = lines + len(one.head) + 2, chars + one.chars
        if lines <= min(room, SHARE * chars):
            fit = count
    return longest[:fit]


def _write_note(pending: PendingEdits, results: Sequence[_Result], room: int) -> str:
    """Return the note of these results, the longest first, in `room` characters."""
    left = room - len(CLEARED_HEADER) - sum(len(one.head) + 2 for one in results)
    of = sum(one.chars for one in results)
    lines: dict[int, str] = {}
    written: set[str] = set()
    # The part of its share that a short result does not use is left to the longer ones.
    for one in reversed(results):
        share = max(0, left * one.chars // of - len(": "))
        names = [name for name in one.names if name not in written and name not in one.head]
        digest = digest_of(pending, one.at, names, share, min(ERROR_CHARS, share))
        written.update(digest.split())
        line = f"{one.head}: {digest}]" if digest else f"{one.head}]"
        lines[one.at] = line.replace("\n", " | ")
        left, of = left - len(line) + len(one.head) + 1, of - one.chars
    return "\n".join([CLEARED_HEADER, *(lines[at] for at in sorted(lines))])


def _head(pending: PendingEdits, at: int) -> str:
    """Give the head of a result's line: its tool, how its first argument begins, its reference."""
    return f"[{told(pending, at)}, {reference(pending.original(at))}"
