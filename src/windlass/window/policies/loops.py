"""Loops: earlier attempts at a task, and the same call made again and again.

It recognises the texts of a retry (`prompts.retry_text`, `prompts.repair_text`); if messages carry
no attempt numbers, these texts show where an attempt begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from windlass.messages import Message, Text
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import (
    call_text,
    ends_within,
    first_sentence,
    flat,
    outcome,
    turn_number,
    with_lost_names,
)
from windlass.window.failures import has_failed, with_failure
from windlass.window.policies.rare.folding import folded
from windlass.window.policies.shared import ERROR_CHARS, Count

TASK: Final = "[Original Task]"
FAILED: Final = "[Validation Failed]"
INVALID: Final = "[Output Invalid]"
SAME: Final = "For the same reason as attempt #{}."
"""Replaces the reason of a refusal that a newer one in view repeats."""
FIRST_RETRY: Final = 2
_AGAIN: Final = re.compile(r"\n\nPlease try again \(Attempt #(\d{1,9})\)\.[^\n]*+\s*+\Z")
_REASON_CHARS: Final = 120
_WORDS_CHARS: Final = 160


@dataclass(frozen=True, kw_only=True)
class LoopsOptions:
    """How much of earlier attempts a new one sees."""

    loop_history_limit: Count = 3
    """How many earlier attempts a new one sees, the last of them whole."""
    attempt_chars: Count = 500
    """Characters that an attempt keeps, except the last one.

    The line with its reference counts. If a newer refusal gives the same reason, only that one
    keeps it.
    """


@dataclass(frozen=True, kw_only=True)
class Loops:
    """Shows a new attempt only the outputs of earlier ones and why they were refused.

    When the newest user message says that a validation failed, the output of the last attempt
    stays whole, and its tool calls become a line each. Of the attempts before it, up to
    `loop_history_limit` with the last, the output stays, cut to `attempt_chars` (head and tail,
    with a reference), each with its `[Validation Failed]` and the reason; those before them become
    one line behind the task. A reason that a newer refusal tells in the same words is told there
    alone. Names that only a removed attempt holds are listed with its output.

    A call that was made `same_calls` times in a row with the same arguments and the same result,
    or a failure each time, becomes one line with a count; the newest stays whole.

    Args:
        options: How much of earlier attempts stays.
        same_calls: Equal calls in a row from which on they are told in a line; 0: never.
        error_chars: Characters of error lines that are kept of a call that failed; 0: none.
    """

    options: LoopsOptions = LoopsOptions()
    same_calls: int = 3
    error_chars: int = ERROR_CHARS
    name: str = "loops"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """What is an earlier attempt since the newest refusal, or the newest call."""
        if any(_refusal(pending, at) is not None for at in pending.fresh):
            yield from self._attempts(pending)
        elif self.same_calls:
            yield from self._repeats(pending)

    # ---- attempts --------------------------------------------------------------------------

    def _attempts(self, pending: PendingEdits) -> Iterable[Proposal]:
        places = _openings(pending)
        if not places:
            return
        task, *refusals = places
        numbers = [_refusal(pending, at) for at in refusals]
        # Attempt k lies between openings k and k + 1; the last of them keeps its words.
        count = len(refusals)
        shown = range(max(0, count - self.options.loop_history_limit), count - 1)
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
        """The tool calls of the last attempt in a line each: they led to what was refused.

        At the refusal almost nothing stands behind them, so that now is when it costs least.
        """
        for at in range(begin + 1, end):
            if pending.original(at).tool_calls and pending.is_whole(at):
                span = pending.exchange(at)
                if not any(pending.fixed(place) for place in span):
                    write = partial(
                        folded,
                        at=at,
                        names_chars=self.options.attempt_chars,
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
        reason = f"attempts before the newest {self.options.loop_history_limit}"
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
        output = f"[Attempt #{number}]\n{ends_within(text, self.options.attempt_chars, between)}"
        # How its own originals are got back is no finding of the attempt.
        hints = "\n".join(map(pending.recall_hint, span))
        output = with_lost_names(pending, span, output, self.options.attempt_chars, hints)
        return Message("assistant", (Text(output),))

    # ---- the same call again and again -------------------------------------------------------

    def _repeats(self, pending: PendingEdits) -> Iterable[Proposal]:
        newest = next(
            (at for at in pending.fresh if pending.original(at).role == "assistant"), None
        )
        if newest is None or not pending.is_whole(newest):
            return
        run = pending.derived(_Run)
        run.go_on(pending, newest)
        if len(run.places) < max(2, self.same_calls):
            return
        earlier = run.places[:-1]
        # What an earlier fold hid stays hidden; a fold of folds would look at it again.
        span: list[int] = []
        for at in earlier:
            if pending.entry(at) is not None:
                span += pending.exchange(at)
                if any(map(pending.fixed, pending.exchange(at))):
                    return
        if span:
            reason = f"the same call {len(run.places)} times in a row"
            message = self._counted(pending, earlier, [*run.words])
            yield Proposal(tuple(span), "fold", reason, message, folds=True)

    def _counted(
        self, pending: PendingEdits, places: Sequence[int], words: Sequence[str]
    ) -> Message:
        """Equal exchanges as a line: the call, how often it was made, and the outcome.

        The words that came with them stand before it, error lines after it.
        """
        first, last = places[0], places[-1]
        message = pending.original(first)
        results = [[*map(pending.original, pending.results(at))] for at in places]
        same = len({tuple(result.parts for result in each) for each in results}) == 1
        last_outcomes = [*map(outcome, results[-1])]
        outcomes = "; ".join(
            f"{call_text(call)} -> {what}"
            for call, what in zip(message.tool_calls, last_outcomes, strict=False)
        )
        turns = f"Turns {turn_number(pending, first)}-{turn_number(pending, last)}"
        hint = pending.recall_hint(pending.results(last)[-1])
        how = "the same" if same else "the same call, and another failure; the last"
        line = f"[{turns}] {len(places)} times {how}: {outcomes}; {hint}"
        failures = [result.text for result in chain(*results) if has_failed(result)]
        failure = Message("tool", (Text("\n".join(failures)),), failed=bool(failures))
        line = with_failure(line, failure, self.error_chars, *last_outcomes)
        return Message("assistant", (Text("\n".join([*words, line])),), name=message.name)


class _Run:
    """The newest equal calls in a row: where they stand, and the words beside the earlier."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.words: dict[str, None] = {}

    def go_on(self, pending: PendingEdits, newest: int) -> None:
        """Take in the newest call; looks back no further than what is known."""
        if self.places and self.places[-1] == newest:
            return
        new: list[int] = [newest]
        at = newest - 1
        while at >= 0 and not (self.places and at == self.places[-1]):
            message = pending.original(at)
            if message.role != "tool":
                if message.role != "assistant" or not _same(pending, at, newest):
                    self.places, self.words = [], {}
                    break
                new.append(at)
            at -= 1
        if self.places and not _same(pending, self.places[-1], newest):
            self.places, self.words = [], {}
        self.places += reversed(new)
        for at in self.places[-len(new) - 1 : -1]:
            words = first_sentence(pending.original(at).text, _WORDS_CHARS)
            if words:
                self.words[words] = None


def _shorter(instead: str | None, text: str) -> str:
    """What stands in the place of a text, where it is shorter; else the text."""
    return instead if instead is not None and len(instead) < len(text) else text


def _refusal(pending: PendingEdits, at: int) -> int | None:
    """The attempt that a user message asks for after a refusal; None: it is no such message."""
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
    """The user message that the first attempt answers, before the refusal of its output."""
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
    """The messages of an attempt: all between its openings but what a person said."""
    return tuple(
        at
        for at in range(begin + 1, end)
        if pending.original(at).role in ("assistant", "tool")
        or pending.original(at).text.startswith(INVALID)
    )


def _reason_only(pending: PendingEdits, at: int, newer: int, same: str) -> Message:
    """A refusal without its request to try again.

    `same` stands for its reason where `newer`, the refusal after it, gives the same: that one is
    shown as long as this.
    """
    message = pending.original(at)
    text = _AGAIN.sub("", message.text)
    if _reason(pending, at) == _reason(pending, newer):
        text = _shorter(f"{FAILED}\n{same}", text)
    return message.with_parts(Text(text))


def _same(pending: PendingEdits, at: int, other: int) -> bool:
    """Whether two exchanges make the same calls with the same results, or fail alike."""
    one, two = pending.original(at), pending.original(other)
    calls = [(call.name, call.arguments) for call in one.tool_calls]
    if calls != [(call.name, call.arguments) for call in two.tool_calls]:
        return False
    results, others = pending.results(at), pending.results(other)
    return len(results) == len(others) and all(
        (a := pending.original(x)).parts == (b := pending.original(y)).parts
        or (has_failed(a) and has_failed(b))
        for x, y in zip(results, others, strict=True)
    )
