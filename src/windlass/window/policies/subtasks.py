"""Finished sub-tasks: the conclusion stays, the way to it becomes a list of lines.

What counts as a finished sub-task is read off the messages, so it is a guess: a request of the
user that was answered in words before the user asked for something else, or the steps between
two calls of a planning tool of which the later one marks an item as done. Off unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windlass.messages import Message, Text, ToolCall
from windlass.window.kinds import arguments_of
from windlass.window.pending import PendingEdits, Proposal
from windlass.window.survive import ALSO, call_text, exchange, exchange_lines, lost_names

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
        most_lines: Calls that are told each in a line; of more only the last are.
        names_chars: Characters of names that only the folded steps hold.
        plan_tools: Names of planning tools, in small letters.
    """

    after: int = 2
    most_lines: int = 8
    names_chars: int = 800
    plan_tools: tuple[str, ...] = PLAN_TOOLS
    name: str = "subtasks"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """The sub-tasks whose conclusion has reached its age at this call."""
        for at in (*pending.due(self.name), *pending.born(self.after)):
            if pending.item(at).message.role != "assistant":
                continue
            span = self._steps(pending, at)
            if not span:
                continue
            if any(pending.fixed(place) for place in span):
                pending.again(self.name, at, pending.turn + self.after)
                continue
            reason = "steps of a finished sub-task; its conclusion stays"
            yield Proposal(span, "fold", reason, self._write(span), folds=True)

    def _steps(self, pending: PendingEdits, at: int) -> tuple[int, ...]:
        """The exchanges that led to the conclusion at `at`; none where it is none."""
        message = pending.item(at).message
        if not message.tool_calls:
            following = at + 1 < len(pending) and pending.item(at + 1).message.role == "user"
            return _back_to(pending, at, lambda _: False) if following else ()
        plan = self._plan(message)
        if plan is None:
            return ()
        span = _back_to(pending, at, self._is_plan)
        before = self._plan(pending.item(span[0]).message) if span else None
        finished = {key for key, done in plan.items() if done}
        if before is None or not finished - {key for key, done in before.items() if done}:
            return ()
        return span[len(exchange(pending, span[0])) :]

    def _is_plan(self, call: ToolCall) -> bool:
        return call.name.lower() in self.plan_tools

    def _plan(self, message: Message) -> Mapping[str, bool] | None:
        """The items of a plan that the message writes, and whether each is done."""
        for call in message.tool_calls:
            if self._is_plan(call):
                return _items(call)
        return None

    def _write(self, span: Sequence[int]) -> Callable[[PendingEdits], Message | None]:
        def write(pending: PendingEdits) -> Message | None:
            steps = [at for at in span if pending.item(at).message.tool_calls]
            if not steps:
                return None
            lines = [line for at in steps for line in exchange_lines(pending, at)]
            if len(lines) > self.most_lines:
                left = len(lines) - self.most_lines
                first = call_text(pending.item(steps[0]).message.tool_calls[0])
                lines = [f"[{left} calls before, the first {first}]", *lines[left:]]
            text = "\n".join(lines)
            lost = lost_names(pending, span, text, self.names_chars)
            if lost:
                text += f"\n{ALSO}{' '.join(lost.split())}"
            return Message("assistant", (Text(text),))

        return write


def _back_to(pending: PendingEdits, at: int, ends: Callable[[ToolCall], bool]) -> tuple[int, ...]:
    """What the assistant did before `at`, back to a user's message or a call that `ends` knows."""
    start = at
    while start > 0:
        message = pending.item(start - 1).message
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
