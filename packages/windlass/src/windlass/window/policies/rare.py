"""Policies that are off in every profile but `spec`: the documented behaviour.

Tool pair folding: an old call and its result become one line.

Observation masking: an old tool result becomes one line that says what it was.

Long arguments of old calls, cut value by value; the JSON stays valid.

Off by default: later calls quote what the assistant wrote itself, and nothing else holds it.

Progressive decay: the newest turns whole, those before folded, the oldest in a summary.

Three zones, in turns, newest last: the summary zone, one message that a model writes; the fold
zone, where tool pairs are lines and long words head and tail; the full zone. The borders move in
blocks of `step` turns, both at the same call, so that what lies behind them is rewritten once in
`step` calls and a summary is asked for as seldom. Between two moves the full zone grows from
`full` to `full + step - 1` turns; the fold zone always holds `fold`.

Finished sub-tasks: the conclusion stays, the way to it becomes a list of lines.

What counts as a finished sub-task is read off the messages, so it is a guess: a request of the
user that was answered in words before the user asked for something else, or the steps between
two calls of a planning tool of which the later one marks an item as done. Off unless asked for.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from windlass.messages import Message, Opaque, Text, ToolCall
from windlass.safety.foreign import parse_json
from windlass.text.prompts import summary_header
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import (
    call_text,
    cut_with_hint,
    exchange_lines,
    head_tail,
    summarised,
    with_lost_names,
    with_text,
    with_texts,
)
from windlass.window.digests import error_lines, lines_of_failure
from windlass.window.kinds import arguments_of, look_of
from windlass.window.policies.shared import ERROR_CHARS, Count


@dataclass(frozen=True, kw_only=True)
class Folding:
    """Folds an exchange, an assistant message and all results of its calls, into words.

    `[Turn 3] web_search("sorting") -> 8 results, most relevant: quicksort; ...; reference ...`,
    a line for each call, behind what the assistant said. Names that nothing else shown holds
    are listed behind the lines.

    Args:
        fold_after: Calls that see an exchange whole.
        names_chars: The most characters of such names for each call.
        error_chars: The most characters of error lines for each call that failed; 0: none.
        min_chars: Exchanges of fewer characters stay.
    """

    fold_after: int
    names_chars: int = 400
    error_chars: int = ERROR_CHARS
    min_chars: int = 200
    name: str = "folding"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the exchanges that have reached their age at this call."""
        after = self.fold_after
        if after is None:
            return
        for at in pending.aged(self.name, after):
            span = pending.exchange(at)
            if not pending.is_whole(at) or pending.put_off(self.name, at, after, span):
                continue
            shown = (entry for entry in map(pending.entry, span) if entry is not None)
            if sum(entry.message.chars for entry in shown) >= self.min_chars:
                reason = f"tool pair seen by {after} calls"
                write = partial(
                    folded, at=at, names_chars=self.names_chars, error_chars=self.error_chars
                )
                yield Proposal(span, "fold", reason, write, folds=True)


def folded(
    pending: PendingEdits,
    at: int,
    names_chars: int,
    error_chars: int,
    text_chars: int | None = None,
) -> Message | None:
    """Return the exchange at `at` as words; the assistant's own keep `text_chars` (None: all)."""
    entry = pending.entry(at)
    if entry is None or not entry.message.tool_calls:
        return None
    own = entry.message.text
    if text_chars is not None:
        own = cut_with_hint(pending, at, own, text_chars)
    lines = exchange_lines(pending, at, error_chars)
    text = "\n".join([*filter(None, [own]), *lines])
    text = with_lost_names(pending, pending.exchange(at), text, names_chars * len(lines))
    return Message("assistant", (Text(text),), name=entry.message.name)


MASK: Final = "[Tool {sort}, {chars} chars, hash={hash}; {recall_hint}]"
"""The line that stands for a masked result: its sort and size, its hash, how to get it back."""
_HASH_CHARS: Final = 8
_FINAL: Final = frozenset({"digest", "mask", "fold", "summarise", "expire"})


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Masks each tool result that was seen often enough. Its call stays, so pairs stay whole.

    Args:
        mask_observations_after: Calls that see a result whole.
        min_masked_chars: Results of fewer characters stay.
        error_chars: Characters of error lines that a failed result keeps; 0: none.
    """

    mask_observations_after: int
    min_masked_chars: int = 200
    error_chars: int = ERROR_CHARS
    name: str = "masking"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the results that have reached their age at this call."""
        after = self.mask_observations_after
        for at in pending.born(after):
            entry = pending.entry(at)
            if entry is None or entry.because in _FINAL or entry.message.role != "tool":
                continue
            if len(entry.message.text) >= self.min_masked_chars:
                reason = f"tool result seen by {after} calls"
                yield Proposal((at,), "mask", reason, partial(self._mask, at=at))

    def _mask(self, pending: PendingEdits, at: int) -> Message:
        message = pending.original(at)
        line = MASK.format(
            sort=_sort_of(message),
            chars=len(message.text),
            hash=message.content_hash[:_HASH_CHARS],
            recall_hint=pending.recall_hint(at),
        )
        errors = ""
        if self.error_chars:
            errors = lines_of_failure(message, self.error_chars) or error_lines(
                message.text, self.error_chars
            )
        pictures = [part for part in message.parts if not isinstance(part, Text)]
        return message.with_parts(Text(f"{line}\n{errors}" if errors else line), *pictures)


def _sort_of(message: Message) -> str:
    """Return what the result was, in the words of the document."""
    if any(not isinstance(part, Text) for part in message.parts):
        return "result"
    return "structured result" if look_of(message.text) == "json" else "text result"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Cuts each text in the arguments of a call that `window` calls have seen.

    A value keeps its head and tail, `max_chars` in all, with the reference of the message
    between them. Arguments that are no JSON, and calls that a provider signed, stay.

    Args:
        window: Calls that see the arguments whole.
        max_chars: Characters that one text in the arguments keeps.
    """

    window: int = 1
    max_chars: int = 500
    name: str = "arguments"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the calls that have reached their age at this call."""
        for at in pending.aged(self.name, self.window):
            entry = pending.entry(at)
            if entry is None or any(isinstance(part, Opaque) for part in entry.message.parts):
                continue
            is_long = any(len(call.arguments) > self.max_chars for call in entry.message.tool_calls)
            if is_long and not pending.put_off(self.name, at, self.window):
                reason = f"arguments seen by {self.window} calls"
                yield Proposal((at,), "truncate", reason, partial(self._write, at=at))

    def _write(self, pending: PendingEdits, at: int) -> Message:
        message = pending.shown(at)
        between = f"[... {{}} characters; {pending.recall_hint(at)} ...]"
        calls = tuple(
            replace(call, arguments=self._cut(call.arguments, between))
            for call in message.tool_calls
        )
        return replace(message, tool_calls=calls)

    def _cut(self, arguments: str, between: str) -> str:
        if len(arguments) <= self.max_chars:
            return arguments
        try:
            value = parse_json(arguments)
        except ValueError:
            return arguments
        cut = with_texts(value, partial(self._shorter, between=between))
        return arguments if cut == value else json.dumps(cut, ensure_ascii=False)

    def _shorter(self, text: str, between: str) -> str:
        cut = head_tail(text, self.max_chars, between)
        return cut if len(cut) < len(text) else text


USER_TOKENS: Final = 500
"""A user message of more tokens is pasted material, of which the summary zone keeps the ends."""


@dataclass(frozen=True, kw_only=True)
class DecayOptions:
    """The zones of a decaying history: the newest turns whole, those before folded."""

    full: Count = 4
    """Turns that stay as they are."""
    fold: Count = 6
    """Turns before those, folded to a line; older: a summary."""


@dataclass(frozen=True, kw_only=True)
class Decay:
    """Lets turns decay by zones.

    No user message is folded: in the summary zone each stands beside the summary as it was
    said, or, above 500 tokens, with its head and tail and a reference; the task stays whole.

    Until a summary is supplied, and where the one supplied does not hold what it must, the
    folded lines stand. A summary must say something, be at most `summary_tokens` long, not
    report an error and be smaller than what it replaces; names that only the replaced messages
    hold and that it lacks are written behind it, within as many tokens again. The next block
    is summarised together with the summary before it.

    Args:
        options: The zones.
        summary_tokens: Tokens that a summary may take.
        step: Turns by which the borders move.
        text_chars: Characters that words of the assistant keep in the fold zone.
        names_chars: Characters of names that a folded call keeps.
        error_chars: Characters of error lines that a folded call keeps that failed; 0: none.
    """

    options: DecayOptions = DecayOptions()
    summary_tokens: int = 500
    step: int = 4
    text_chars: int = 1_200
    names_chars: int = 400
    error_chars: int = ERROR_CHARS
    name: str = "decay"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield what crosses a border at this call, and the summary once it is there."""
        border = self._border(pending.turn)
        fresh = range(border - self.step + 1, border + 1)
        if border == self._border(pending.turn - 1):
            fresh = range(0)
        waiting = tuple(pending.due(self.name))
        crossing = (at for turn in fresh for at in pending.born(pending.turn - 1 - turn))
        for at in (*waiting, *crossing):
            yield from self._folded(pending, at)
        last = border - self.options.fold
        if last > 0:
            if fresh:
                first = max(0, last - self.step + 1) if last > self.step else 0
                yield from self._pasted(pending, range(first, last + 1))
            yield from self._summary(pending, last)

    def _border(self, turn: int) -> int:
        """Return the newest turn of the fold zone at a call; 0: there is none."""
        return max(0, turn - 1 - self.options.full) // self.step * self.step

    def _folded(self, pending: PendingEdits, at: int) -> Iterable[Proposal]:
        entry = pending.entry(at)
        if entry is None or pending.original(at).role != "assistant":
            return
        span, chars = pending.exchange(at), self.text_chars
        if pending.is_whole(at):
            if not pending.put_off(self.name, at, self.step, span):
                write = partial(
                    folded,
                    at=at,
                    names_chars=self.names_chars,
                    error_chars=self.error_chars,
                    text_chars=chars,
                )
                reason = f"tool pair older than {self.options.full} turns"
                yield Proposal(span, "fold", reason, write, folds=True)
            return
        is_long = len(entry.message.text) > chars and entry.because is None
        if is_long and not pending.put_off(self.name, at, self.step, span):
            reason = f"words older than {self.options.full} turns"
            yield Proposal((at,), "decay", reason, partial(_ends, at=at, chars=chars))

    def _pasted(self, pending: PendingEdits, turns: range) -> Iterable[Proposal]:
        """Yield long user messages of turns that enter the summary zone."""
        chars = USER_TOKENS * CHARS_A_TOKEN
        for turn in turns:
            for at in pending.born(pending.turn - 1 - turn):
                message = pending.original(at)
                if message.role != "user" or at in pending.transcript.asking:
                    continue
                if len(message.text) > chars and pending.untouched(at) and not pending.fixed(at):
                    reason = f"pasted text of more than {USER_TOKENS} tokens, in the summary zone"
                    yield Proposal((at,), "decay", reason, partial(_ends, at=at, chars=chars))

    def _summary(self, pending: PendingEdits, last: int) -> Iterable[Proposal]:
        """The summary of turns 1 to `last`: asked for, and shown once it is there and holds."""
        start = next(iter(pending.born(pending.turn - 2)), None)  # the first answer
        entry = None if start is None else pending.entry(start)
        if start is None or entry is None:
            return
        header = summary_header(1, last)
        if entry.because == "summarise" and entry.message.text.startswith(header):
            return
        ends = pending.born(pending.turn - 1 - last)
        places = range(start, ends.stop)
        seal = pending.original(ends.start).content_hash
        shown = [entry for entry in map(pending.entry, places) if entry is not None]
        key = f"{self.name}:{last}:{pending.original(start).content_hash}:{seal}"
        kept = {at for at in places if pending.fixed(at)}
        beside = {at for each in kept for at in (each, pending.caller(each)) if at is not None}
        beside |= {result for at in beside for result in pending.results(at)}
        span = [
            at
            for at in places
            if at not in beside and pending.original(at).role in ("assistant", "tool")
        ]
        yield from summarised(
            pending,
            span if span[:1] == [start] else (),
            shown,
            key=key,
            header=header,
            tokens=self.summary_tokens,
            reason=f"turns 1 to {last} summarised by a model",
        )


def _ends(pending: PendingEdits, at: int, chars: int) -> Message:
    """Return a message with the head and tail of its text."""
    message = pending.shown(at)
    return with_text(message, cut_with_hint(pending, at, message.text, chars))


PLAN_TOOLS: Final = (
    "plan",
    "todo",
    "todowrite",
    "todo_write",
    "write_todos",
    "update_plan",
    "update_todos",
)
_DONE: Final = frozenset({"completed", "complete", "done", "finished"})


@dataclass(frozen=True, slots=True)
class Subtasks:
    """Folds the steps of a finished sub-task to one message, a line for each call.

    A sub-task is finished (1) where the assistant answered a user in words, without calls, and
    the user then said something else: the answer is the conclusion and stays whole; (2) where a
    planning tool marks an item as done that it had not marked before: that call stays whole.
    What users said stays. The exchange of a sub-agent is its own conclusion and stays.

    Args:
        after: Calls that see a conclusion together with its steps.
        most_lines: Calls that become a line each; of more only the last do.
        names_chars: Characters of names that only the folded steps hold.
        error_chars: Characters of error lines behind the line of a call that failed; 0: none.
        plan_tools: Names of planning tools, in small letters.
    """

    after: int = 2
    most_lines: int = 8
    names_chars: int = 800
    error_chars: int = ERROR_CHARS
    plan_tools: tuple[str, ...] = PLAN_TOOLS
    name: str = "subtasks"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the sub-tasks whose conclusion has reached its age at this call."""
        for at in pending.aged(self.name, self.after):
            span = self._steps(pending, at) if pending.original(at).role == "assistant" else ()
            if span and not pending.put_off(self.name, at, self.after, span):
                reason = "steps of a finished sub-task"
                write = partial(self._write, span=span)
                yield Proposal(span, "fold", reason, write, folds=True)

    def _steps(self, pending: PendingEdits, at: int) -> tuple[int, ...]:
        """Return the exchanges that led to the conclusion at `at`; none where it is none."""
        message = pending.original(at)
        if not message.tool_calls:
            following = at + 1 < len(pending) and pending.original(at + 1).role == "user"
            return _back_to(pending, at, lambda _: False) if following else ()
        plan = self._plan(message)
        if plan is None:
            return ()
        span = _back_to(pending, at, self._is_plan)
        before = self._plan(pending.original(span[0])) if span else None
        finished = {key for key, done in plan.items() if done}
        if before is None or not finished - {key for key, done in before.items() if done}:
            return ()
        return span[len(pending.exchange(span[0])) :]

    def _is_plan(self, call: ToolCall) -> bool:
        return call.name.lower() in self.plan_tools

    def _plan(self, message: Message) -> Mapping[str, bool] | None:
        """Return the items of a plan that the message writes, and whether each is done."""
        for call in message.tool_calls:
            if self._is_plan(call):
                return _items(call)
        return None

    def _write(self, pending: PendingEdits, span: Sequence[int]) -> Message | None:
        steps = [at for at in span if pending.original(at).tool_calls]
        if not steps:
            return None
        lines = [line for at in steps for line in exchange_lines(pending, at, self.error_chars)]
        if len(lines) > self.most_lines:
            count = len(lines) - self.most_lines
            first = call_text(pending.original(steps[0]).tool_calls[0])
            lines = [f"[{count} calls before, the first {first}]", *lines[count:]]
        text = with_lost_names(pending, span, "\n".join(lines), self.names_chars)
        return Message("assistant", (Text(text),))


def _back_to(pending: PendingEdits, at: int, ends: Callable[[ToolCall], bool]) -> tuple[int, ...]:
    """What the assistant did before `at`, back to a user's message or a call that `ends` knows."""
    start = at
    while start > 0:
        message = pending.original(start - 1)
        if message.role not in ("assistant", "tool"):
            break
        start -= 1
        if any(map(ends, message.tool_calls)):
            break
    return tuple(range(start, at))


def _items(call: ToolCall) -> Mapping[str, bool]:
    arguments = arguments_of(call)
    if "step" in arguments:  # one step of a plan that was written before
        return {str(arguments["step"]): str(arguments.get("status", "")).lower() in _DONE}
    lists: Iterable[Any] = (value for value in arguments.values() if isinstance(value, list))
    items: list[Any] = next(iter(lists), [])
    return {
        str(item.get("content") or item.get("step") or item.get("title") or item.get("id")): str(
            item.get("status", "")
        ).lower()
        in _DONE
        for item in items
        if isinstance(item, dict)
    }
