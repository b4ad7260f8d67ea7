"""What the readers of the formats share: lists of messages, answers counted once, fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias, cast

from windlass.errors import SequenceError
from windlass.importing.json_files import MemoryLimit
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message, ToolSpec, assistant, canonical_json, user
from windlass.wire.base import Usage
from windlass.wire.calls import count
from windlass.wire.forms import LIST_MODULES, FormName, ListForm, ListReader, ListReading
from windlass.wire.openai import from_openai
from windlass.wire.openai_responses import joined
from windlass.wire.usage import possible, read_usage

MALFORMED: Final = (
    *(AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError),
    SequenceError,
)
"""What reading a malformed record raises: it is counted and left out."""

COUNTED: Final = "answers that another file has, too"
"""Why an answer is left out that `Answers` has counted already."""
UNSENT: Final = "messages that were sent in no recorded call"
"""Why messages are left out that can be read."""
CODEX_HEADER: Final = frozenset({"id", "timestamp", "instructions"})
"""The keys of the first record of an older file of Codex."""

_MOST_MONEY: Final = 10**9
"""The most US dollars that are believed for one call."""
_LATEST: Final = 10**11
"""Seconds: of the year 5138. A larger number is one of milli-, micro- or nanoseconds."""


Records: TypeAlias = Sequence[Mapping[str, Any]]
"""The first records of a file."""


@dataclass(slots=True)
class _Answer:
    usage: Usage | None
    claimed: bool = False


@dataclass(slots=True)
class Answers:
    """The answers of all files of an import, so that each is counted once.

    An answer may stand in several records of a file, because it was streamed, and in several files,
    because the session was continued in another one. Its usage is that with the most output.
    """

    _answers: dict[str, _Answer] = field(default_factory=dict[str, _Answer])
    _requests: dict[str, str] = field(default_factory=dict[str, str])
    _sessions: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The answers of each session, by their names, and their models."""
    threads: set[str] = field(default_factory=set[str])
    """The sessions of Codex whose rollouts are read."""

    def _key(self, ident: str, request: str) -> str:
        """Return the key of an answer, whether or not a record names its request, too."""
        if not request:
            return ident + self._requests.get(ident, "")
        tail = ":" + request
        self._requests.setdefault(ident, tail)
        if ident in self._answers:  # seen without its request before
            self._answers.setdefault(ident + tail, self._answers.pop(ident))
        return ident + tail

    def note(self, ident: str, request: str, usage: Usage | None) -> None:
        """Note what a record says of an answer."""
        key = self._key(ident, request)
        answer = self._answers.get(key)
        if answer is None:
            self._answers[key] = _Answer(usage)
        elif usage and (answer.usage is None or usage.tokens_out > answer.usage.tokens_out):
            answer.usage = usage

    def note_session(self, session: str, ident: str, model: str) -> None:
        """Note of which session an answer is."""
        self._sessions.setdefault(session, {})[ident] = model

    def of_session(self, session: str) -> Iterator[tuple[str, str, Usage]]:
        """Yield the name, model and usage of each answer of a session, whatever file has it."""
        for ident, model in self._sessions.get(session, {}).items():
            answer = self._answers.get(self._key(ident, ""))
            if answer is not None and answer.usage is not None:
                yield ident, model, answer.usage

    def claim(self, ident: str, request: str = "") -> _Answer | None:
        """Return the answer, for the first caller; None for later ones: it is counted already."""
        answer = self._answers.setdefault(self._key(ident, request), _Answer(None))
        if answer.claimed:
            return None
        answer.claimed = True
        return answer


def chat_call(ident: str, name: str, arguments: object) -> dict[str, Any]:
    """Return a call of a tool in OpenAI's chat form; arguments may be text already."""
    text = arguments if isinstance(arguments, str) else canonical_json(arguments)
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": text}}


def chat_result(ident: str, content: str, *, failed: bool = False) -> dict[str, Any]:
    """Return the result of a call in OpenAI's chat form, with a mark if it failed."""
    result = {"role": "tool", "tool_call_id": ident, "content": content}
    return {**result, "is_error": True} if failed else result


UNRECORDED: Final = "[not recorded]"
"""What stands in the place of words that a program did not record."""


def unseen(recorded: str, call: RecordedCall, of: Recording) -> Recording:
    """Return calls that a file bills without telling what they said: one call, beside a recording.

    Its answer is another one where the bill has grown: then the import puts it in the old one's
    place.
    """
    times = [one.time for one in of.calls if one.time is not None]
    told = replace(call, at=1, time=call.time or max(times, default=None))
    used = call.usage or Usage(0, 0)
    counts = f"{used.tokens_in:,} tokens in, {used.tokens_out:,} out"
    messages = (user(f"[{call.id}]"), assistant(f"{UNRECORDED} {counts}"))
    return Recording(
        *(f"{of.name}/{call.id}", recorded, "C", call.model, messages, (told,)),
        kind="side chain",
        parent=of.name,
        source=of.source,
        project=of.project,
    )


# ---- lists --------------------------------------------------------------------------


class ItemReader:
    """Reads the objects of one list, in order; what no provider would take is counted."""

    def __init__(self, form: FormName, skipped: Counter[str]) -> None:
        self._form = form
        self._skipped = skipped
        self._reader = self._new()

    def _new(self) -> ListReader | None:
        if self._form == "openai":
            return None
        return cast("ListForm", import_module(LIST_MODULES[self._form])).list_reader()

    def read(self, item: object, number: int) -> ListReading:
        """Return the messages of the next object, which has a number."""
        where = f"message {number}"
        try:
            if not isinstance(item, Mapping):
                raise SequenceError(f"{where}: a message is an object")
            try:
                return self._read(self._reader, item, where)
            except MALFORMED:
                readable = self._without_unreadable(item, where)
                if readable is None:
                    raise
                reading = self._read(self._reader, readable, where)
                self._skipped["parts of messages that cannot be read"] += 1
                return reading
        except MALFORMED as error:
            self._skipped[f"messages that cannot be read ({str(error).partition(': ')[2]})"] += 1
            return ListReading(())

    def _read(self, reader: ListReader | None, item: Mapping[str, Any], where: str) -> ListReading:
        if reader is None or (self._form == "gemini" and item.get("role") == "system"):
            return ListReading((from_openai(item, where=where),))
        return reader.read(item, where)

    def _without_unreadable(self, item: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
        """Return the same without those of its parts that cannot be read.

        None: none of them can.
        """
        for key in ("content", "parts", "tool_calls"):
            given = item.get(key)
            if not isinstance(given, list):
                continue
            kept = []
            for part in given:
                inner = object_of(part).get("content")
                whole = part
                if isinstance(inner, list):  # a result, which is to stay
                    one_by_one = ((one, {**part, "content": [one]}) for one in inner)
                    told = [one for one, each in one_by_one if self._reads(item, key, each, where)]
                    whole = {**part, "content": told}
                kept += [whole] if self._reads(item, key, whole, where) else []
            if not kept:
                return None
            item = {**item, key: kept}
        return item

    def _reads(self, item: Mapping[str, Any], key: str, part: Any, where: str) -> bool:
        with suppress(*MALFORMED):
            self._read(self._new(), {**item, key: [part]}, where)
            return True
        return False


def read_list(
    form: FormName,
    items: Iterable[object],
    skipped: Counter[str],
    limit: MemoryLimit | None = None,
) -> list[Message]:
    """Return the messages of a list in a form, the pieces of each answer as one."""
    reader = ItemReader(form, skipped)
    messages: list[list[Message]] = []
    is_open = False
    for item in items:
        reading = reader.read(item, len(messages))
        for message in reading.messages:
            if limit is not None:
                limit.take(message)
            if reading.joins and is_open:
                messages[-1].append(message)
            else:
                messages.append([message])
            is_open = reading.joins
    return [joined(*one) if len(one) > 1 else one[0] for one in messages]


def read_tools(definitions: object) -> tuple[ToolSpec, ...]:
    """Return definitions of tools in any provider's form.

    Tools that are not functions are left out.
    """
    tools: list[ToolSpec] = []
    for one in map(object_of, definitions if isinstance(definitions, list) else ()):
        more = one.get("functionDeclarations")
        for definition in [one.get("function", one), *(more if isinstance(more, list) else ())]:
            if isinstance(definition, Mapping) and isinstance(name := definition.get("name"), str):
                schema = next((definition[key] for key in _SCHEMAS if definition.get(key)), None)
                tools.append(
                    ToolSpec(name, str(definition.get("description") or ""), object_of(schema))
                )
    return tuple(tools)


_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")


# ---- fields -------------------------------------------------------------------------


def object_of(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}


def usage_of(value: object) -> Usage | None:
    """Return a usage in any provider's words; None where it is not one, or an impossible one."""
    try:
        return read_usage(value)
    except ValueError:
        return None


def usage_of_counts(
    sent: object, out: object, read: object, written: object, *, is_all: bool = True
) -> Usage | None:
    """Return a usage of four counts, as a file has them.

    None where none of them is a number above 0.

    `is_all`: what was read from a cache and written to it is among what was `sent`.
    """
    told = {"sent": sent, "out": out, "read": read, "written": written}
    try:
        counts = {key: count(told, key) for key in told}
    except ValueError:
        return None
    if not any(counts.values()):
        return None
    all_ = counts["sent"] + (0 if is_all else counts["read"] + counts["written"])
    return possible(Usage(all_, counts["out"], counts["read"], counts["written"]))


def time_of(value: object) -> float | None:
    """Seconds since 1970: of an ISO time, or a number of seconds, milli-, micro- or nanoseconds.

    None for anything else, and for a time before 1970 or after the year 5138.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str) and not value.isdigit():
            seconds = datetime.fromisoformat(value).timestamp()
            return seconds if 0 < seconds <= _LATEST else None
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    for _ in ("milli", "micro", "nano"):
        seconds = seconds / 1e3 if seconds > _LATEST else seconds
    return seconds if 0 < seconds <= _LATEST else None


def dollars_of(value: object) -> float | None:
    """Return an amount in US dollars; None for anything that is not a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_MONEY:
        return None
    return float(value)


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """Return a whole number shared out in the proportion of weights: the shares add up to it."""
    weights = weights if any(weights) else [1] * len(weights)
    ends = list(accumulate(weights, initial=0))
    return [total * end // ends[-1] - total * at // ends[-1] for at, end in pairwise(ends)]


def text_of(record: Mapping[str, Any], *keys: str) -> str:
    """Return the text under the first of the keys that has one; empty where none has."""
    return next((value for key in keys if isinstance(value := record.get(key), str)), "")


def model_of(name: object, provider: str) -> str:
    """Return a model as `provider/model`; `provider` where its name has none."""
    text = name if isinstance(name, str) and name else "unknown"
    return text if "/" in text.strip("/") else f"{provider}/{text}"
