"""Text that a visible tool result already shows becomes a reference to it before it is sent.

This applies to a whole result or a run of lines, even with different line numbers because a file
was changed. The reference names the result and the exact lines. The text it refers to stays in view
for some calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Part, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._references import REFERENCE, SAME, Reference, may_refer, referred_to
from windlass.window._shown_lines import RUN, LineIndex, LineRun, ShownText, is_shown
from windlass.window._survive import told
from windlass.window.encode.gutters import narrowed, widened
from windlass.window.encode.legend import legend_of
from windlass.window.entries import Entry
from windlass.window.originals import reference

REASON: Final = "it repeats what an earlier result showed"
"""True in every window: what showed it may be a digest by the time this is read."""
_LONG: Final = 6
"""A run of so many lines is worth its source, and names it."""
_MOST_KEPT: Final = 6
"""Shorter runs are worth a source of at most so many times the characters that they save: they are
written once less, at 1.25 where a read costs 0.1, and the source is read by three calls more."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Replaces text in new results by references to other messages that show it.

    Args:
        min_lines: Lines that a run has at least (2 or more). Where a source would not stay in view
            by itself, runs of fewer than six lines refer to it only if it is short, too.
        min_gain: Characters that a reference must save.
        keep: Calls for which what is referred to stays as it is.
    """

    min_lines: int = RUN
    min_gain: int = 40
    keep: int = 3
    name: str = "repeats"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the new results that repeat what is shown, in order."""
        sent, new = pending.index(LineIndex), LineIndex()
        for at in pending.fresh:
            entry = pending.entry(at)
            if entry is None:
                continue
            message = pending.original(at)
            if message.role == "tool":
                self._keep_sources(pending, at)
                if not pending.pinned(at) and entry.message.chars > self.min_gain:
                    yield from self._proposals(pending, at, entry, (new, sent))
            if at != pending.fresh[-1]:
                new.add(pending, at)

    def _proposals(
        self, pending: PendingEdits, at: int, entry: Entry, indexes: tuple[LineIndex, ...]
    ) -> Iterable[Proposal]:
        if _quotes(entry.message.text):
            return
        used: dict[int, ShownText] = {}
        alone = sum(isinstance(part, Text) for part in entry.message.parts) == 1
        again = pending.asked_again(at)
        parts = tuple(
            self._part(pending, part, indexes, used, entry, alone=alone, again=again)
            for part in entry.message.parts
        )
        if used:
            write = partial(self._write, entry.message.with_parts(*parts), tuple(used.values()))
            yield Proposal((at,), "repeat", REASON, write)

    def _keep_sources(self, pending: PendingEdits, at: int) -> None:
        """Keep the sources of a result that came with references, in a window handed back."""
        for ref in referred_to(pending.original(at).text):
            for source in range(at - 1, -1, -1):
                if reference(pending.original(source)) == ref:
                    pending.pin(source, pending.turn + self.keep)
                    break

    def _write(
        self, message: Message, used: Sequence[ShownText], pending: PendingEdits
    ) -> Message | None:
        """Return the message, if everything that it refers to is still shown unchanged."""
        if not all(is_shown(pending, source) for source in used):
            return None
        for source in used:
            pending.pin(source.at, pending.turn + self.keep)
        return message

    def _part(
        self,
        pending: PendingEdits,
        part: Part,
        indexes: tuple[LineIndex, ...],
        used: dict[int, ShownText],
        entry: Entry,
        *,
        alone: bool,
        again: bool,
    ) -> Part:
        if not isinstance(part, Text):
            return part
        encoded = entry.because == "encode" and legend_of(part.text) is None
        text = widened(part.text) if encoded else part.text
        for index in indexes if alone else ():
            source = index.whole(pending, text)
            if source is None and not again:
                source = index.whole_cut(pending, entry.item.message.text)
            if source is not None:
                line = f"[Same as {told(pending, source.at)}, {_reference(pending, source.at)}]"
                if len(part.text) - len(line) >= self.min_gain:
                    used[source.at] = source
                    return Text(line)
        lines = text.split("\n")
        shown: list[str] = []
        done = 0
        named: set[int] = set()
        sources: dict[int, ShownText] = {}
        for run in self._worth(pending, lines, _runs(pending, indexes, text)):
            at = run.source.at
            names = at not in named and run.count >= _LONG
            line = _line(pending, run, told(pending, at) if names else "")
            shown += [*lines[done : run.start], line]
            done = run.start + run.count
            if names:
                named.add(at)
            sources[at] = run.source
        whole = "\n".join([*shown, *lines[done:]])
        short = narrowed(whole) if encoded else whole
        if not done or widened(short) != whole:
            return part
        used.update(sources)
        return Text(short)

    def _worth(
        self, pending: PendingEdits, lines: Sequence[str], runs: Iterable[LineRun]
    ) -> list[LineRun]:
        """Return the runs that are worth a reference."""
        saving: list[LineRun] = []
        gains: dict[int, int] = {}
        for run in runs:
            gain = sum(map(len, lines[run.start : run.start + run.count])) + run.count - 1
            gain -= len(_line(pending, run))
            if run.count >= self.min_lines and gain >= self.min_gain:
                saving.append(run)
                gains[run.source.at] = gains.get(run.source.at, 0) + gain
        keeps = {
            at
            for at, gain in gains.items()
            if pending.holds(at) or pending.shown(at).chars <= _MOST_KEPT * gain
        }
        keeps.update(run.source.at for run in saving if run.count >= _LONG)
        return [run for run in saving if run.source.at in keeps]


def _quotes(text: str) -> bool:
    """Return whether the text itself holds what looks like a reference; then it gets none."""
    return may_refer(text) and bool(REFERENCE.search(text) or SAME.search(text))


def _runs(pending: PendingEdits, indexes: tuple[LineIndex, ...], text: str) -> list[LineRun]:
    """Return the runs that any of the indexes finds; the first index goes first."""
    candidates = [run for index in indexes for run in index.runs(pending, text)]
    runs: list[LineRun] = []
    taken = bytearray(max([run.start + run.count for run in candidates], default=0))
    for run in candidates:
        end = run.start + run.count
        if taken.find(1, run.start, end) < 0:
            taken[run.start : end] = b"\1" * run.count
            runs.append(run)
    return sorted(runs, key=lambda run: run.start)


def _line(pending: PendingEdits, run: LineRun, about: str = "") -> str:
    """Return the line that stands for a run."""
    last = run.first + run.count - 1
    ref = _reference(pending, run.source.at)
    source = run.source
    return Reference(ref, run.first, last, source.path, run.numbered, source.rows).write(about)


def _reference(pending: PendingEdits, at: int) -> str:
    return reference(pending.original(at))
