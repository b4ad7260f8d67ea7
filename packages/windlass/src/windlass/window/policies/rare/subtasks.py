"""Finished sub-tasks: the conclusion stays, the way to it becomes a list of lines.

What counts as a finished sub-task is read off the messages, so it is a guess: a request of the
user that was answered in words before the user asked for something else, or the steps between
two calls of a planning tool of which the later one marks an item as done. Off unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from windlass.messages import Message, Text, ToolCall
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import call_text, exchange_lines, with_lost_names
from windlass.window.kinds import arguments_of
from windlass.window.policies.shared import ERROR_CHARS

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
