"""Image decay: a picture that calls have seen becomes a line that says what it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Opaque, Part, Picture, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import first_sentence, turn_number
from windlass.window.entries import Item

DESCRIPTION_CHARS: Final = 120
_ABOUT: Final = re.compile(
    r"(?<![^.!?\n])[^.!?\n]*\b(?:image|picture|screen(?:shot)?|chart|plot|diagram|photo|page|window|shows?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Images:
    """Replaces each picture that calls have seen by a line; the text beside it stays.

    `[Image at turn 3: chart.png, 640x480, The chart shows sales by month., saved: ...]`. A sentence
    of the assistant's next message, if there is one, says what the picture shows.

    Args:
        images_after: Calls that see a picture (None: all do).
        keep_recent_images: How many of the newest pictures are kept, whatever their age (0: all).
        where: The path of the file of a picture, by its message and its number in it from 0;
            without it the line names the reference of the message.
    """

    images_after: int | None = 2
    keep_recent_images: int = 0
    where: Callable[[Item, int], str | None] | None = None
    name: str = "images"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the messages whose pictures have been seen often enough, or are too many."""
        ages = pending.born(self.images_after) if self.images_after is not None else ()
        for at in (*pending.due(self.name), *ages):
            yield from self._proposal(pending, at, self._stay(pending, at))
        if self.keep_recent_images:
            left = self.keep_recent_images
            for at in reversed(pending.transcript.pictured):
                entry = pending.entry(at)
                count = len(entry.message.pictures) if entry else 0
                if not left and not count:
                    break  # all before it left when they were too many
                if count > left:
                    yield from self._proposal(pending, at, left)
                left = max(0, left - count)

    def _stay(self, pending: PendingEdits, at: int) -> int:
        """Return how many pictures of a message that had to wait stay now."""
        if not self.keep_recent_images or self._is_old(pending, at):
            return 0
        newer = (pending.entry(later) for later in pending.transcript.pictured if later > at)
        count = sum(len(entry.message.pictures) for entry in newer if entry)
        return max(0, self.keep_recent_images - count)

    def _is_old(self, pending: PendingEdits, at: int) -> bool:
        """Return whether enough calls have seen the pictures of a message."""
        return self.images_after is not None and pending.seen(at) >= self.images_after

    def _proposal(self, pending: PendingEdits, at: int, stay: int) -> Iterable[Proposal]:
        entry = pending.entry(at)
        if entry is None or len(entry.message.pictures) <= stay:
            return
        if pending.put_off(self.name, at, 1):
            return
        write = partial(self._write, at=at, stay=stay)
        if self._is_old(pending, at):
            reason = f"picture seen by {self.images_after} calls"
            yield Proposal((at,), "decay", reason, write)
        else:
            reason = f"not among the newest {self.keep_recent_images} pictures"
            yield Proposal((at,), "prune", reason, write, must=True)

    def _write(self, pending: PendingEdits, at: int, stay: int) -> Message:
        message = pending.shown(at)
        now = len(message.pictures)
        before = len(pending.original(at).pictures) - now  # the oldest leave first
        parts: list[Part] = []
        number, gone = 0, False
        for part in message.parts:
            if isinstance(part, Picture):
                gone = number < now - stay
                line = Text(self._line(pending, at, part, before + number)) if gone else part
                parts.append(line)
                number += 1
            elif not (gone and isinstance(part, Opaque) and part.kind == "with"):
                parts.append(part)  # what was said about the picture goes with it
                gone = False
        return message.with_parts(*parts)

    def _line(self, pending: PendingEdits, at: int, picture: Picture, number: int) -> str:
        path = self.where(pending.item(at), number) if self.where else None
        head = f"[Image at turn {turn_number(pending, at)}: {picture.describe()}"
        hint = f"saved: {path}]" if path else f"{pending.recall_hint(at)}]"
        return ", ".join(filter(None, (head, _description(pending, at), hint)))


def _description(pending: PendingEdits, at: int) -> str:
    """Say what the assistant said next about the picture: a sentence about it, else the first."""
    following = pending.born(pending.seen(at) - 1) if pending.seen(at) else ()
    for later in following:
        message = pending.original(later)
        if message.role == "assistant":
            text = message.text
            about = _ABOUT.search(text[:2_000])
            return first_sentence(text[about.start() :] if about else text, DESCRIPTION_CHARS)
    return ""
