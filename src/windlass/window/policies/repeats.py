"""What a visible tool result already shows becomes a reference to it, before it is sent.

A whole result, or a run of lines, be it with other numbers before them because a file was
changed. The reference names the result and the lines, exactly. What is referred to stays in
view for some calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Part, Text, ToolCall
from windlass.window.index import RUN, LineIndex, LineRun
from windlass.window.kinds import arguments_of
from windlass.window.originals import reference
from windlass.window.pending import PendingEdits, Proposal
from windlass.window.references import REFERENCE, SAME, may_refer, referred_to

REASON: Final = "it repeats what an earlier result showed"
"""True in every window: what showed it may be a digest by the time this is read."""
_SHORT: Final = 6
"""A run of fewer lines is a short one."""
_MOST_KEPT: Final = 6
"""A short run is worth a source of at most so many times the characters that it saves: they are
written once less, at 1.25 where a read costs 0.1, and the source is read by three calls more."""
_ARGUMENT_CHARS: Final = 40
"""Characters of a call's arguments that name its result beside the tool."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Replaces what other results show by references to them, in results no call has seen.

    Args:
        min_lines: Lines that a run has at least (4 or more). One of fewer than six, such as the
            state of a shell behind each result, refers only to a result that is short, too.
        min_gain: Characters that a reference must save.
        keep: Calls for which what is referred to stays as it is.
    """

    min_lines: int = RUN
    min_gain: int = 40
    keep: int = 3
    name: str = "repeats"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The new results that repeat what is shown, in order."""
        sent = pending.derived(LineIndex)
        sent.grow(pending)
        new = LineIndex()
        fresh = [at for at in pending.fresh if pending.original(at).role == "tool"]
        for at in fresh:
            entry = pending.entry(at)
            if entry is None:
                continue
            self._keep_sources(pending, at)
            if entry.message.chars > self.min_gain and not _quotes(entry.message.text):
                used: dict[int, Message] = {}
                indexes = (new, sent)
                alone = sum(isinstance(part, Text) for part in entry.message.parts) == 1
                parts = tuple(
                    self._part(pending, part, indexes, used, alone=alone)
                    for part in entry.message.parts
                )
                if used:
                    write = partial(self._write, entry.message.with_parts(*parts), used)
                    yield Proposal((at,), "repeat", REASON, write)
            if at != fresh[-1]:
                new.add(pending, at)

    def _keep_sources(self, pending: PendingEdits, at: int) -> None:
        """Keep what a result refers to that came with its references: in a window handed back."""
        for ref in referred_to(pending.original(at).text):
            for source in range(at - 1, -1, -1):
                if reference(pending.original(source)) == ref:
                    pending.pin(source, pending.turn + self.keep)
                    break

    def _write(
        self, message: Message, used: Mapping[int, Message], pending: PendingEdits
    ) -> Message | None:
        """The message, if all that it refers to is still shown as it was."""
        for at, before in used.items():
            entry = pending.entry(at)
            if entry is None or entry.message is not before:
                return None
        for at in used:
            pending.pin(at, pending.turn + self.keep)
        return message

    def _part(
        self,
        pending: PendingEdits,
        part: Part,
        indexes: tuple[LineIndex, ...],
        used: dict[int, Message],
        *,
        alone: bool,
    ) -> Part:
        if not isinstance(part, Text):
            return part
        for index in indexes if alone else ():
            source = index.whole(pending, part.text)
            if source is not None:
                line = f"[Same as {_told(pending, source)}]"
                if len(part.text) - len(line) >= self.min_gain:
                    used[source] = _shown(pending, source)
                    return Text(line)
        runs = _runs(pending, indexes, part.text)
        if not runs:
            return part
        lines = part.text.split("\n")
        shown: list[str] = []
        done = 0
        for run in runs:
            line = _reference(run, _told(pending, run.at, briefly=run.count < _SHORT))
            gain = sum(map(len, lines[run.start : run.start + run.count])) + run.count - len(line)
            if self._is_worth(run, gain, _shown(pending, run.at)):
                shown += [*lines[done : run.start], line]
                done = run.start + run.count
                used[run.at] = _shown(pending, run.at)
        return Text("\n".join([*shown, *lines[done:]])) if done else part

    def _is_worth(self, run: LineRun, gain: int, source: Message) -> bool:
        if run.count < self.min_lines or gain <= self.min_gain:
            return False
        return run.count >= _SHORT or source.chars <= _MOST_KEPT * gain


def _quotes(text: str) -> bool:
    """Whether the text itself holds what looks like a reference; then it gets none."""
    return may_refer(text) and bool(REFERENCE.search(text) or SAME.search(text))


def _shown(pending: PendingEdits, at: int) -> Message:
    entry = pending.entry(at)
    assert entry is not None  # an index finds only what is shown
    return entry.message


def _runs(pending: PendingEdits, indexes: tuple[LineIndex, ...], text: str) -> list[LineRun]:
    """The runs that any of the indexes finds; the first index goes first."""
    candidates = [run for index in indexes for run in index.runs(pending, text)]
    runs: list[LineRun] = []
    taken = bytearray(max([run.start + run.count for run in candidates], default=0))
    for run in candidates:
        end = run.start + run.count
        if taken.find(1, run.start, end) < 0:
            taken[run.start : end] = b"\1" * run.count
            runs.append(run)
    return sorted(runs, key=lambda run: run.start)


def _reference(run: LineRun, source: str) -> str:
    numbered = f", numbered {run.numbered[0]}-{run.numbered[1]}" if run.numbered else ""
    last = run.first + run.count - 1
    return f"[{run.count} lines: lines {run.first}-{last} of {source}{numbered}]"


def _told(pending: PendingEdits, at: int, *, briefly: bool = False) -> str:
    """A result in words: its tool, how its arguments begin (not `briefly`), its reference."""
    call = pending.call(at)
    message = pending.original(at)
    name = message.name or (call.name if call else "a tool")
    argument = _argument(call) if call and not briefly else ""
    return f"{name}{argument}, {reference(message)}"


def _argument(call: ToolCall) -> str:
    """How the first argument begins; nothing where there is none to read."""
    values = arguments_of(call)
    if not values:
        return ""
    text = " ".join(str(next(iter(values.values()))).split())
    short = text if len(text) <= _ARGUMENT_CHARS else f"{text[: _ARGUMENT_CHARS - 1]}…"
    return f" {short.replace(']', ')')}" if short else ""
