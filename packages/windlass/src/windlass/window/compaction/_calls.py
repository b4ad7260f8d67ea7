"""What the calls of a conversation did: to which files, with which texts, and the state of a plan.

Calls are known by what they touch, by the kind of their results and by the shape of their
arguments; a name decides only where nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from windlass.messages import ToolCall
from windlass.window._pending import PendingEdits
from windlass.window.kinds import arguments_of, command_of, plain_name

Deed: TypeAlias = Literal[
    "read", "edit", "write", "search", "git", "bash", "agent", "todo", "other"
]
"""What a call does: the classes of the table of points."""

_PATCH: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_PATCH_BEGINS: Final = "*** Begin Patch"
_NOWHERE: Final = "/dev/null"
_GIT: Final = re.compile(r"\s*(?:cd \S+ *&& *)?git\b")
_AGENTS: Final = re.compile(r"agent|^task$|delegate|spawn")
_STEP_TEXTS: Final = ("content", "step", "title", "subject", "text", "description", "task")
_OLD: Final = ("old_string", "old_str", "old_text", "search")
_NEW: Final = ("new_string", "new_str", "new_text", "replace", "content", "file_text")
_TASK_IDS: Final = ("taskId", "task_id")
_NUMBER: Final = re.compile(r"#(\d{1,6})\b")


@dataclass(frozen=True, slots=True)
class CallTexts:
    """A call with what it did.

    `paths` are the files that it read or wrote. `texts` are what its arguments say, as the tool
    gets it; `removed` the lines that it took out of a file.
    """

    deed: Deed
    paths: tuple[str, ...]
    texts: tuple[str, ...]
    removed: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether it changed a file."""
        return self.deed in ("edit", "write")


def read_call(step: PendingEdits, call: ToolCall, at: int | None) -> CallTexts:
    """Return what a call did; `at` is the position of its result (None: it has none)."""
    arguments = arguments_of(call)
    leaves = [*_leaves(arguments)] or [call.arguments]
    if steps_of(arguments) or _task_of(call, arguments) is not None:
        return CallTexts("todo", (), ())
    patch = next((text for text in leaves if _PATCH_BEGINS in text), None)
    if patch is not None:
        lines = patch.split("\n")
        kept = "\n".join(line for line in lines if not line.startswith("-"))
        removed = tuple(line[1:].strip() for line in lines if line.startswith("-"))
        return CallTexts("edit", tuple(_PATCH.findall(patch)), (kept,), removed)
    done = step.file_access(at) if at is not None else None
    if done is not None and done.writes not in (None, _NOWHERE):
        new = [text for name in _NEW for text in _named(arguments, name)]
        if not new:
            return CallTexts("write" if done.whole else "edit", (done.writes,), tuple(leaves))
        there = {line.strip() for text in new for line in text.split("\n")}
        old = (
            line.strip()
            for name in _OLD
            for text in _named(arguments, name)
            for line in text.split("\n")
        )
        removed = tuple(line for line in old if line not in there)
        deed: Deed = "write" if done.whole else "edit"
        return CallTexts(deed, (done.writes,), tuple(new), removed)
    paths = (done.reads.path,) if done is not None and done.reads else ()
    texts = tuple(text for text in leaves if text not in paths)
    return CallTexts(_deed(step, call, at), paths, texts)


def _deed(step: PendingEdits, call: ToolCall, at: int | None) -> Deed:
    kind = step.kind(at, step.original(at).text) if at is not None else "text"
    command = command_of(call)
    if kind == "diff" or _GIT.match(command):
        return "git"
    if kind == "file":
        return "read"
    if kind in ("search", "listing"):
        return "search"
    if command:
        return "bash"
    return "agent" if _AGENTS.search(plain_name(call.name)) else "other"


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts in the arguments of a call, in order."""
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _leaves(each)
        case list():
            for each in value:
                yield from _leaves(each)
        case _:
            pass


def _named(value: Any, name: str) -> Iterator[str]:
    """Yield the texts of this name in the arguments of a call, also in its lists of edits."""
    match value:
        case Mapping():
            if isinstance(value.get(name), str):
                yield value[name]
            for each in value.values():
                if isinstance(each, list):
                    yield from _named(each, name)
        case list():
            for each in value:
                yield from _named(each, name)
        case _:
            pass


# ---- the state of a plan ---------------------------------------------------------------


def steps_of(arguments: Mapping[str, Any]) -> list[str]:
    """The steps of a plan that a call's arguments list, each with its state; empty: no plan."""
    for value in arguments.values():
        if isinstance(value, list) and value and all(map(_is_step, value)):
            return [f"- [{one['status']}] {_step_text(one)}" for one in value]
    return []


def _is_step(value: object) -> bool:
    return (
        isinstance(value, dict) and isinstance(value.get("status"), str) and bool(_step_text(value))
    )


def _step_text(value: Mapping[str, Any]) -> str:
    texts = (value.get(name) for name in _STEP_TEXTS)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _task_of(call: ToolCall, arguments: Mapping[str, Any]) -> tuple[str | None, str, str] | None:
    """A task that a call makes or changes: its number (None: a new one), its text, its state."""
    number = next((arguments[name] for name in _TASK_IDS if name in arguments), None)
    status = arguments.get("status")
    if number is not None and isinstance(status, str):
        return str(number), _step_text(arguments), status
    if plain_name(call.name) in ("taskcreate", "task_create", "create_task"):
        return None, _step_text(arguments), "pending"
    return None


def plan_state(step: PendingEdits, places: Sequence[int]) -> list[str]:
    """The latest state of the plan that the calls of these messages wrote, a line each step."""
    tasks: dict[str, list[str]] = {}
    for at in reversed(places):
        for call in reversed(step.original(at).tool_calls):
            if plan := steps_of(arguments_of(call)):
                return plan
    for at in places:
        message = step.original(at)
        results = {step.original(one).tool_call_id: one for one in step.results(at)}
        for call in message.tool_calls:
            change = _task_of(call, arguments_of(call))
            if change is None:
                continue
            number, text, status = change
            if number is None:
                place = results.get(call.id)
                named = _NUMBER.search(step.original(place).text) if place is not None else None
                number = named[1] if named else str(len(tasks) + 1)
            task = tasks.setdefault(number, [status, text])
            task[0] = status
            task[1] = text or task[1]
    return [
        f"- [{status}] #{number} {text}"
        for number, (status, text) in tasks.items()
        if status != "deleted"
    ]
