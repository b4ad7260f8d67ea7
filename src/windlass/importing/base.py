"""What the readers of the formats share: answers counted once, lists of messages, times, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any, Final, cast

from windlass.errors import SequenceError
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Grade, RecordedCall, Recording, RecordingFormat
from windlass.messages import Message, ToolSpec
from windlass.wire.base import Usage
from windlass.wire.forms import LIST_MODULES, FormName, ListForm
from windlass.wire.openai import from_openai
from windlass.wire.openai_responses import joined
from windlass.wire.usage import read_usage

MALFORMED: Final = (
    *(AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError),
    SequenceError,
)
"""What a record raises that is not as its schema says: it is counted and left out."""


CODEX_HEADER: Final = frozenset({"id", "timestamp", "instructions"})
"""The keys of the first record of an older file of Codex."""

_MOST_MONEY: Final = 10**9
"""US dollars of one call: more is not believed."""
_LATEST: Final = 10**11
"""Seconds: of the year 5138. A larger number is one of milli-, micro- or nanoseconds."""


@dataclass(slots=True)
class _Answer:
    usage: Usage | None
    claimed: bool = False


@dataclass(slots=True)
class Answers:
    """The answers of all files of an import, so that each is counted once.

    The same answer may stand in several records of a file, while it is streamed, and in several
    files, after a session went on in another one: its usage is that with the most output.
    """

    _answers: dict[str, _Answer] = field(default_factory=dict[str, _Answer])
    _requests: dict[str, str] = field(default_factory=dict[str, str])

    def _key(self, ident: str, request: str) -> str:
        """One for an answer that some records name with its request, and others without."""
        if not request:
            return ident + self._requests.get(ident, "")
        tail = ":" + request
        self._requests.setdefault(ident, tail)
        if ident in self._answers:  # seen without its request before
            self._answers.setdefault(ident + tail, self._answers.pop(ident))
        return ident + tail

    def note(self, ident: str, request: str, usage: Usage | None) -> None:
        """Take in what a record says of an answer."""
        key = self._key(ident, request)
        answer = self._answers.get(key)
        if answer is None:
            self._answers[key] = _Answer(usage)
        elif usage and (answer.usage is None or usage.tokens_out > answer.usage.tokens_out):
            answer.usage = usage

    def claim(self, ident: str, request: str = "") -> _Answer | None:
        """The answer, for the first who asks; None for the others: it is counted already."""
        answer = self._answers.setdefault(self._key(ident, request), _Answer(None))
        if answer.claimed:
            return None
        answer.claimed = True
        return answer


def trajectory(
    file: RecordedFile,
    name: str,
    form: RecordingFormat,
    model: str,
    messages: Sequence[Message],
    *,
    calls: Sequence[RecordedCall],
    grade: Grade = "C",
) -> Recording:
    """A run of an agent that was asked for commands, either as calls of tools or in its text.

    In the text, results of commands are words of the user, and it is known that there were no
    tools; the definitions of tools are not recorded.
    """
    has_calls = any(message.tool_calls for message in messages)
    return Recording(
        name,
        form,
        grade,
        model,
        tuple(messages),
        tuple(calls),
        tools=None if has_calls else (),
        skipped=file.take_skipped(),
        source=str(file.path),
        results_as_words=not any(message.role == "tool" for message in messages),
    )


# ---- lists --------------------------------------------------------------------------


class ListOfForm:
    """Reads the objects of one list, in order; what no provider would take is left out."""

    def __init__(self, form: FormName, skipped: Counter[str]) -> None:
        self.form = form
        self._skipped = skipped
        self._reader = None
        if form != "openai":
            self._reader = cast("ListForm", import_module(LIST_MODULES[form])).list_reader()
        self._open = False
        self.messages: list[Message] = []

    def add(self, given: object) -> None:
        """Read the next object."""
        where = f"message {len(self.messages)}"
        try:
            if not isinstance(given, Mapping):
                raise SequenceError(f"{where}: a message is an object")
            is_apart = self.form == "gemini" and given.get("role") == "system"
            if self._reader is None or is_apart:
                self._end_of(from_openai(given, where=where))
                return
            reading = self._reader.read(given, where)
        except MALFORMED as error:
            self._skipped[f"messages that cannot be read ({str(error).partition(': ')[2]})"] += 1
            return
        for message in reading.messages:
            if reading.joins and self._open:
                self.messages[-1] = joined(self.messages[-1], message)
            else:
                self._end_of(message)
            self._open = reading.joins

    def close(self) -> None:
        """What comes is no more of the answer before it."""
        self._open = False

    def _end_of(self, message: Message) -> None:
        self.close()
        self.messages.append(message)


def read_list(form: FormName, given: Iterable[object], skipped: Counter[str]) -> list[Message]:
    """The messages of a list in a form; what cannot be read is counted in `skipped`."""
    reading = ListOfForm(form, skipped)
    for one in given:
        reading.add(one)
    return reading.messages


def read_tools(given: object) -> tuple[ToolSpec, ...]:
    """Definitions of tools in any provider's form; those that are no function are left out."""
    tools: list[ToolSpec] = []
    for one in given if isinstance(given, list) else ():
        if not isinstance(one, Mapping):
            continue
        more = one.get("functionDeclarations")
        for told in [one.get("function", one), *(more if isinstance(more, list) else ())]:
            if isinstance(told, Mapping) and isinstance(name := told.get("name"), str):
                schema = told.get("parameters") or told.get("input_schema") or {}
                schema = schema if isinstance(schema, Mapping) else {}
                tools.append(ToolSpec(name, str(told.get("description") or ""), schema))
    return tuple(tools)


# ---- fields -------------------------------------------------------------------------


def usage_of(given: object) -> Usage | None:
    """A usage in any provider's words; None where it is none, or cannot be."""
    try:
        return read_usage(given)
    except ValueError:
        return None


def time_of(given: object) -> float | None:
    """Seconds since 1970 of an ISO time, or of a number of seconds, milli-, micro- or nanoseconds.

    None where it is neither, or no time between 1970 and the year 5138.
    """
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        if isinstance(given, str) and not given.isdigit():
            value = datetime.fromisoformat(given).timestamp()
            return value if 0 < value <= _LATEST else None
        value = float(given)
    except (ValueError, OverflowError):
        return None
    for _ in ("milli", "micro", "nano"):
        value = value / 1e3 if value > _LATEST else value
    return value if 0 < value <= _LATEST else None


def dollars_of(given: object) -> float | None:
    """An amount that a file names, in US dollars; None where it is none, or nothing."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < _MOST_MONEY:
        return None
    return float(given)


def text_of(given: Mapping[str, Any], *keys: str) -> str:
    """The first of the keys whose value is text; empty where none is."""
    return next((value for key in keys if isinstance(value := given.get(key), str)), "")


def model_of(name: object, provider: str) -> str:
    """A model as `provider/model`; `provider` where its name has none."""
    text = name if isinstance(name, str) and name else "unknown"
    return text if "/" in text.strip("/") else f"{provider}/{text}"
