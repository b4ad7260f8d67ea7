"""Loops: earlier attempts at a task.

It recognises the texts of a retry (`prompts.retry_text`, `prompts.repair_text`); if messages carry
no attempt numbers, these texts show where an attempt begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import (
    ends_within,
    flat,
    with_lost_names,
)
from windlass.window.policies.rare import folded
from windlass.window.policies.shared import ERROR_CHARS

TASK: Final = "[Original Task]"
FAILED: Final = "[Validation Failed]"
INVALID: Final = "[Output Invalid]"
SAME: Final = "For the same reason as attempt #{}."
"""Replaces the reason of a refusal that a newer one in view repeats."""
FIRST_RETRY: Final = 2
_AGAIN: Final = re.compile(r"\n\nPlease try again \(Attempt #(\d{1,9})\)\.[^\n]*+\s*+\Z")
_REASON_CHARS: Final = 120


@dataclass(frozen=True, kw_only=True)
class Loops:
    """Shows a new attempt only the outputs of earlier ones and why they were refused.

    When the newest user message says that a validation failed, the output of the last attempt
    stays whole, and its tool calls become a line each. Of the attempts before it, up to
    `loop_history_limit` with the last, the output stays, cut to `attempt_chars` (head and tail,
    with a reference), each with its `[Validation Failed]` and the reason; those before them become
    one line behind the task. A reason that a newer refusal tells in the same words is told there
    alone. Names that only a removed attempt holds are listed with its output.

    Args:
        loop_history_limit: How many earlier attempts a new one sees, the last of them whole.
        attempt_chars: Characters that an attempt keeps, except the last one.
        error_chars: Characters of error lines that are kept of a call that failed; 0: none.
    """

    loop_history_limit: int = 3
    attempt_chars: int = 500
    error_chars: int = ERROR_CHARS
    name: str = "loops"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield what is an earlier attempt since the newest refusal."""
        if all(_refusal(pending, at) is None for at in pending.fresh):
            return
        places = _openings(pending)
        if not places:
            return
        task, *refusals = places
        numbers = [_refusal(pending, at) for at in refusals]
        # Attempt k lies between openings k and k + 1; the last of them keeps its words.
        count = len(refusals)
        shown = range(max(0, count - self.loop_history_limit), count - 1)
        for k in shown:
            number = (numbers[k] or k + 2) - 1
            span = _attempt(pending, places[k], places[k + 1])
            if span and not any(pending.fixed(at) for at in span):
                reason = f"attempt {number} before the last"
                write = partial(self._output, span=span, number=number)
                yield Proposal(span, "retry", reason, write, folds=True)
            refusal, newer = places[k + 1 : k + 3]
            reason = f"attempt {number + 1} was made: only the reason of the refusal is left"
            same = SAME.format((numbers[k + 1] or k + 3) - 1)
            yield Proposal((refusal,), "retry", reason, _reason_only(pending, refusal, newer, same))
        yield from self._calls(pending, places[count - 1], refusals[-1])
        if shown.start > 0:
            yield from self._old(pending, task, refusals, shown.start, numbers)

    def _calls(self, pending: PendingEdits, begin: int, end: int) -> Iterable[Proposal]:
        """Yield the tool calls of the last attempt in a line each: they led to what was refused.

        At the refusal almost nothing stands behind them, so that now is when it costs least.
        """
        for at in range(begin + 1, end):
            if pending.original(at).tool_calls and pending.is_whole(at):
                span = pending.exchange(at)
                if not any(pending.fixed(place) for place in span):
                    write = partial(
                        folded,
                        at=at,
                        names_chars=self.attempt_chars,
                        error_chars=self.error_chars,
                    )
                    yield Proposal(span, "fold", "it led to what was refused", write, folds=True)

    def _old(
        self,
        pending: PendingEdits,
        task: int,
        openings: Sequence[int],
        count: int,
        numbers: Sequence[int | None],
    ) -> Iterable[Proposal]:
        """One line for the first `count` attempts, which are not shown any more, after the task."""
        refusals = openings[:count]
        first, last = (numbers[0] or 2) - 1, (numbers[len(refusals) - 1] or len(refusals) + 1) - 1
        ends = [task, *refusals]
        span: list[int] = []
        for begin, end in zip(ends, refusals, strict=False):
            span += [*_attempt(pending, begin, end), end]
        if any(pending.fixed(at) for at in span):
            return
        below = {
            _reason(pending, at): SAME.format((numbers[k] or k + 2) - 1)
            for k, at in reversed(list(enumerate(openings))[count:])
        }
        reasons = [_reason(pending, at) for at in refusals]
        why = Counter(_shorter(below.get(each), flat(each, _REASON_CHARS)) for each in reasons)
        summary = "; ".join(f"{text} ({n} times)" if n > 1 else text for text, n in why.items())
        which = f"Attempts #{first} to #{last}" if last > first else f"Attempt #{first}"
        line = f"[{which} failed before: {summary}]"
        reason = f"attempts before the newest {self.loop_history_limit}"
        if pending.fixed(task):
            fold = Message("user", (Text(line),))
        else:
            message = pending.original(task)
            fold = message.with_parts(Text(TASK), *message.parts, Text(line))
            span = [task, *span]
        yield Proposal(tuple(span), "retry", reason, fold, folds=True)

    def _output(self, pending: PendingEdits, span: Sequence[int], number: int) -> Message | None:
        if any(entry.because == "retry" for entry in map(pending.entry, span) if entry):
            return None  # shown so since an earlier refusal
        answers = [at for at in span if pending.original(at).role == "assistant"]
        at = next((at for at in reversed(answers) if pending.original(at).text), answers[-1])
        text = pending.original(at).text or "(no output)"
        between = f"[... {{}} characters; {pending.recall_hint(at)} ...]"
        output = f"[Attempt #{number}]\n{ends_within(text, self.attempt_chars, between)}"
        # How its own originals are got back is no finding of the attempt.
        hints = "\n".join(map(pending.recall_hint, span))
        output = with_lost_names(pending, span, output, self.attempt_chars, hints)
        return Message("assistant", (Text(output),))


def _shorter(instead: str | None, text: str) -> str:
    """Return what stands in the place of a text, where it is shorter; else the text."""
    return instead if instead is not None and len(instead) < len(text) else text


def _refusal(pending: PendingEdits, at: int) -> int | None:
    """Return the attempt that a user message asks for after a refusal.

    None: it is no such message.
    """
    item = pending.item(at)
    if item.message.role != "user" or not item.message.text.startswith(FAILED):
        return None
    match = _AGAIN.search(item.message.text)
    return int(match[1]) if match else item.attempt


def _reason(pending: PendingEdits, at: int) -> str:
    text = _AGAIN.sub("", pending.original(at).text)
    return text.removeprefix(FAILED).strip()


def _openings(pending: PendingEdits) -> list[int]:
    """Where the attempts begin, in order: the task, and the refusals after it; empty: unknown."""
    refusals: list[int] = []
    phase = pending.item(len(pending) - 1).phase
    for at in range(len(pending) - 1, -1, -1):
        if pending.item(at).phase != phase:
            break
        number = _refusal(pending, at)
        if number is not None:
            refusals.append(at)
            if number == FIRST_RETRY:
                task = _task_before(pending, at, phase)
                return [] if task is None else [task, *reversed(refusals)]
    return []


def _task_before(pending: PendingEdits, refusal: int, phase: str | None) -> int | None:
    """Return the user message that the first attempt answers, before the refusal of its output."""
    answered = False
    for at in range(refusal - 1, -1, -1):
        item = pending.item(at)
        if item.phase != phase:
            return None
        answered = answered or item.message.role == "assistant"
        asks = item.message.role == "user" and not item.message.text.startswith(INVALID)
        if answered and asks and not item.turn:  # a phase's instructions are said in turn 0
            return at
    return None


def _attempt(pending: PendingEdits, begin: int, end: int) -> tuple[int, ...]:
    """Return the messages of an attempt: all between its openings but what a person said."""
    return tuple(
        at
        for at in range(begin + 1, end)
        if pending.original(at).role in ("assistant", "tool")
        or pending.original(at).text.startswith(INVALID)
    )


def _reason_only(pending: PendingEdits, at: int, newer: int, same: str) -> Message:
    """Return a refusal without its request to try again.

    `same` stands for its reason where `newer`, the refusal after it, gives the same: that one is
    shown as long as this.
    """
    message = pending.original(at)
    text = _AGAIN.sub("", message.text)
    if _reason(pending, at) == _reason(pending, newer):
        text = _shorter(f"{FAILED}\n{same}", text)
    return message.with_parts(Text(text))
