"""The pieces of a conversation, and how likely each is to be needed.

The points are logarithms of how much more often later calls quoted such a piece, measured on
recorded sessions of people at work; they are added up, less half a point for each doubling of its
length. What a later message repeats, and lines that a later edit removed, are worth the least.

What the calls of a conversation did: to which files, with which texts, and the state of a plan.

Calls are known by what they touch, by the kind of their results and by the shape of their
arguments; a name decides only where nothing else does.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from windlass.messages import Message, ToolCall
from windlass.window._pending import PendingEdits
from windlass.window.digests import ERROR, has_failed
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
_PLAN: Final = "plan"
"""The argument of a call that hands a plan in as a text."""
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
        """Return whether it changed a file."""
        return self.deed in ("edit", "write")


def read_call(step: PendingEdits, call: ToolCall, at: int | None) -> CallTexts:
    """Return what a call did; `at` is the position of its result (None: it has none)."""
    arguments = arguments_of(call)
    leaves = [*_leaves(arguments)] or [call.arguments]
    is_plan = isinstance(arguments.get(_PLAN), str)
    if is_plan or steps_of(arguments) or _task_of(call, arguments) is not None:
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
    """Get the steps of a plan that a call's arguments list, each with its state; empty: no plan."""
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
    """Get the latest plan that calls of these messages wrote: its text, and a line each step."""
    return [*_plan_text(step, places), *_plan_steps(step, places)]


def _plan_text(step: PendingEdits, places: Sequence[int]) -> list[str]:
    for at in reversed(places):
        for call in reversed(step.original(at).tool_calls):
            plan = arguments_of(call).get(_PLAN)
            if isinstance(plan, str) and plan.strip():
                return [plan]
    return []


def _plan_steps(step: PendingEdits, places: Sequence[int]) -> list[str]:
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


LINES: Final = 12
"""Lines of a piece."""
_ARGUMENTS: Final[dict[Deed, float]] = {
    "edit": 1.3, "bash": 1.2, "read": 1.2, "git": 1.0, "write": 0.7, "search": -0.5,
    "agent": -1.0, "todo": -1.0, "other": -1.0,
}  # fmt: skip
_RESULTS: Final[dict[Deed, float]] = {
    "read": 0.0, "edit": 0.0, "write": 0.0, "git": -0.3, "search": -0.8, "agent": -1.0,
    "todo": -1.0, "bash": -1.5, "other": -1.5,
}  # fmt: skip
_WORDS: Final = -1.5
_AGES: Final = ((5, 2.0), (10, 1.4), (20, 1.0), (40, 0.0), (80, -0.5), (160, -1.0))
_OLDEST: Final = -2.0
_NEAR: Final = 25
"""Calls within which a file was touched lately, and a failing command ran lately."""
_READ_LATELY: Final = 1.5
_READ_ONCE: Final = -0.2
_READ_EDITED: Final = -0.7
_EDITED_SINCE: Final = -0.8
_REPEATED: Final = -2.5
_REMOVED: Final = -2.5
_NO_LINE: Final = -2.0
_MOST_REPEATED: Final = 0.8
_MOST_REMOVED: Final = 0.3
_LEAST_LINE: Final = 12
"""Characters of a line that says something."""
_ASKED: Final = (0.0, 0.2, 0.2, 0.5)
"""Points for none, one, two and more words of the user's newest messages."""
_WORD: Final = re.compile(r"[^\W\d_]{5,}")
_COMMON: Final = 0.1
"""A word in a larger share of the pieces distinguishes none of them."""
_FAILING: Final = 4.0
"""Lines of a failure that stands, and the change that failed, come before all else."""
_REFERRED_TO: Final = 4.0
"""What newer messages refer to instead of saying it again."""
_KEY_CHARS: Final = 40
_USUAL_CHARS: Final = 400
HEADER_CHARS: Final = 56
"""Characters by which the line above a piece is reckoned."""
_GUTTER: Final = re.compile(r" *\d{1,9}(?:→|\t)")
_NUMBERED: Final = 0.8
"""The share of lines that begin with a number where a text numbers its lines."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of what one message said.

    `part` is which text of the message it is of (0: its words or its result), `about` says what
    that is; `first` is the number of its first line there, from 1.
    """

    at: int
    part: int
    about: str
    first: int
    lines: tuple[str, ...]
    points: float

    @property
    def chars(self) -> int:
        """Return its characters with the ends of its lines."""
        return sum(map(len, self.lines)) + len(self.lines)

    @property
    def text(self) -> str:
        """Return what it says."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class _Source:
    """One text of a message, with what is known of it."""

    at: int
    part: int
    about: str
    lines: tuple[str, ...]
    base: float
    age: int
    call: CallTexts | None = None
    is_result: bool = False
    failing: bool = False
    first: int = 1
    """The number of its first line."""


def chunks_of(step: PendingEdits, places: Sequence[int], upto: int) -> list[Chunk]:
    """Return the pieces of what the messages at `places` said, with their points, in order.

    What stands up to `upto` tells which of it is repeated, edited or removed later.
    """
    history = _History(step, upto)
    inside = frozenset(places)
    sources = [source for source in history.sources if source.at in inside]
    pieces = [piece for source in sources for piece in history.pieces(source)]
    words = history.words
    if not words:
        return pieces
    shared = [words.intersection(map(str.lower, _WORD.findall(piece.text))) for piece in pieces]
    count = Counter(word for each in shared for word in each)
    common = {word for word, times in count.items() if times > _COMMON * len(pieces)}
    return [
        Chunk(
            piece.at, piece.part, piece.about, piece.first, piece.lines,
            piece.points + _ASKED[min(len(each - common), len(_ASKED) - 1)],
        )
        for piece, each in zip(pieces, shared, strict=True)
    ]  # fmt: skip


class _History:
    """What was said up to a position: the texts, and what became of their lines and files."""

    def __init__(self, step: PendingEdits, upto: int) -> None:
        self._step = step
        self.sources: list[_Source] = []
        self._last: dict[str, int] = {}
        """The last position at which each line stands."""
        self._removed: dict[str, int] = {}
        """The last position at which an edit removed a line."""
        self._touched: dict[str, int] = {}
        self._edited: dict[str, int] = {}
        """The last positions at which a file was touched, and changed."""
        self._unfinished: dict[str, int] = {}
        """The position of the last change of a file, where that failed."""
        self._ran: dict[str, int] = {}
        """The position of the last result of each command."""
        asked: list[str] = []
        calls: dict[int, CallTexts] = {}
        for at in range(upto):
            message = step.original(at)
            age = step.seen(at)
            if message.role == "user":
                asked.append(message.text)
            elif message.role == "assistant":
                if message.text.strip():
                    self._add(_Source(at, 0, "", _lines(message.text), _WORDS, age))
                results = {step.original(one).tool_call_id: one for one in step.results(at)}
                for number, call in enumerate(message.tool_calls, 1):
                    place = results.get(call.id)
                    done = read_call(step, call, place)
                    if place is not None:
                        calls[place] = done
                        self._ran[_key(call.name, done)] = place
                    for path in done.paths:
                        self._touched[path] = at
                        if done.writes:
                            self._edited[path] = at
                            self._unfinished.pop(path, None)
                            if place is not None and has_failed(step.original(place)):
                                self._unfinished[path] = at
                    self._removed |= dict.fromkeys(
                        [line for line in done.removed if len(line) >= _LEAST_LINE], at
                    )
                    about = " ".join((call.name, *done.paths[:1]))
                    if text := "\n".join(done.texts):
                        base = _ARGUMENTS[done.deed]
                        self._add(_Source(at, number, about, _lines(text), base, age, done))
            elif message.role == "tool" and message.text.strip():
                result_of, called = calls.get(at), step.call(at)
                if result_of is not None and _says_only_ok(message, result_of):
                    continue
                deed: Deed = result_of.deed if result_of else "other"
                about = " ".join(
                    (called.name if called else "", *(result_of.paths[:1] if result_of else ()))
                ).strip()
                lines, first = _plain_lines(message.text)
                self._add(
                    _Source(
                        at, 0, about, lines, _RESULTS[deed], age, result_of,
                        is_result=True, failing=has_failed(message), first=first,
                    )
                )  # fmt: skip
        self.words = frozenset(word.lower() for text in asked[-2:] for word in _WORD.findall(text))

    def _add(self, source: _Source) -> None:
        self.sources.append(source)
        at = source.at
        for line in source.lines:
            if len(line) >= _LEAST_LINE:
                self._last[line.strip()] = at

    def pieces(self, source: _Source) -> Iterator[Chunk]:
        """Yield the pieces of a text with their points, but for words of the user."""
        base = source.base + next((p for age, p in _AGES if source.age < age), _OLDEST)
        base += self._of_file(source)
        if self._step.pinned(source.at):
            base += _REFERRED_TO
        failing = self._is_failing(source)
        lines = source.lines
        for begin in range(0, len(lines), LINES):
            piece = lines[begin : begin + LINES]
            said = [line.strip() for line in piece if len(line) >= _LEAST_LINE]
            points = base
            if not said:
                points += _NO_LINE
            else:
                again = sum([self._last.get(line, -1) > source.at for line in said])
                gone = sum([self._removed.get(line, -1) > source.at for line in said])
                points += _REPEATED if again >= _MOST_REPEATED * len(said) else 0.0
                points += _REMOVED if gone > _MOST_REMOVED * len(said) else 0.0
            chars = sum(map(len, piece)) + len(piece)
            points -= 0.5 * math.log2((chars + HEADER_CHARS) / _USUAL_CHARS)
            if failing and any(map(ERROR.search, piece)):
                points += _FAILING
            if chars > len(piece):
                yield Chunk(
                    source.at, source.part, source.about, source.first + begin, piece, points
                )

    def _of_file(self, source: _Source) -> float:
        """Return points for a read of a file, by what was done with the file since."""
        call = source.call
        if call is None or not call.paths:
            return 0.0
        path, points = call.paths[0], 0.0
        if not source.is_result and self._unfinished.get(path) == source.at:
            points += _FAILING
        edited = self._edited.get(path)
        if source.is_result and call.deed == "read":
            touched = self._step.seen(self._touched.get(path, 0))
            if edited is not None:
                points += _READ_EDITED
            else:
                points += _READ_LATELY if touched <= _NEAR else _READ_ONCE
        if edited is not None and edited > source.at:
            points += _EDITED_SINCE
        return points

    def _is_failing(self, source: _Source) -> bool:
        """Return whether it is the result of the last run of a command, which failed lately."""
        if not (source.is_result and source.failing and source.call is not None):
            return False
        called = self._step.call(source.at)
        return (
            called is not None
            and source.age <= _NEAR
            and self._ran.get(_key(called.name, source.call)) == source.at
        )


def _says_only_ok(result: Message, call: CallTexts) -> bool:
    """Return whether a result says no more than that the plan or the file is written."""
    if call.deed == "todo":
        return True
    return call.writes and not has_failed(result) and "\n" not in result.text.strip()


def _key(name: str, call: CallTexts) -> str:
    """Return what runs of one command have in common."""
    return f"{name}:{' '.join(call.texts)[:_KEY_CHARS]}"


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


def _plain_lines(text: str) -> tuple[tuple[str, ...], int]:
    """The lines of a text without the numbers that a tool wrote before them, and the first one."""
    lines = text.split("\n")
    begins = [match.end() if (match := _GUTTER.match(line)) else 0 for line in lines]
    some = [begin for begin, line in zip(begins, lines, strict=True) if line.strip()]
    if sum(map(bool, some)) < _NUMBERED * len(some):
        return tuple(lines), 1
    first = next(at for at, begin in enumerate(begins) if begin)
    number = int(re.sub(r"\D", "", lines[first][: begins[first]]))
    plain = tuple(line[begin:] for begin, line in zip(begins, lines, strict=True))
    return plain, max(1, number - first)
