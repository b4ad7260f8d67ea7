"""What the readers of the formats share: lists of messages, answers counted once, fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from typing import Any, Final, cast

from windlass.errors import SequenceError
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import Grade, Kind, RecordedCall, Recording, RecordingFormat
from windlass.messages import Message, ToolSpec, assistant, canonical_json, user
from windlass.wire.base import Usage
from windlass.wire.calls import count
from windlass.wire.forms import LIST_MODULES, FormName, ListForm
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
CODEX_HEADER: Final = frozenset({"id", "timestamp", "instructions"})
"""The keys of the first record of an older file of Codex."""

_MOST_MONEY: Final = 10**9
"""The most US dollars that are believed for one call."""
_LATEST: Final = 10**11
"""Seconds: of the year 5138. A larger number is one of milli-, micro- or nanoseconds."""


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

    def _key(self, ident: str, request: str) -> str:
        """The key of an answer, whether or not a record names its request, too."""
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
        """The name, model and usage of each answer of a session, whatever file has it."""
        for ident, model in self._sessions.get(session, {}).items():
            answer = self._answers.get(self._key(ident, ""))
            if answer is not None and answer.usage is not None:
                yield ident, model, answer.usage

    def claim(self, ident: str, request: str = "") -> _Answer | None:
        """The answer, for the first caller; None for later ones: it is counted already."""
        answer = self._answers.setdefault(self._key(ident, request), _Answer(None))
        if answer.claimed:
            return None
        answer.claimed = True
        return answer


class RecordedList:
    """A conversation that is read message by message, with the calls that its answers were."""

    def __init__(
        self, file: RecordedFile, answers: Answers, form: FormName, recorded: RecordingFormat
    ) -> None:
        self._file = file
        self._answers = answers
        self._form = form
        self._recorded: RecordingFormat = recorded
        self._limit = MemoryLimit(file.path)
        self.messages: list[Message] = []
        self.calls: list[RecordedCall] = []

    def add(self, item: object, call: RecordedCall | None = None) -> None:
        """Read the next message; `call` made it, wherever that says it stands."""
        self.extend(read_list(self._form, [item], self._file.skipped, self._limit), call)

    def extend(self, messages: Sequence[Message], call: RecordedCall | None = None) -> None:
        """Take the next messages, the last of which `call` made.

        An answer of which nothing can be read was paid for: a word stands in its place.
        """
        self.messages += messages
        if call is None:
            return
        if call.id and self._answers.claim(call.id) is None:
            self._file.skipped[COUNTED] += 1
            return
        if not messages:
            self.messages.append(assistant(UNRECORDED))
        self.calls.append(replace(call, at=len(self.messages) - 1))

    def recordings(
        self,
        session: str,
        number: int = 1,
        *,
        later: Kind = "branch",
        parent: str | None = None,
        project: str = "",
        grade: Grade = "C",
        writes_commands: bool = False,
    ) -> Iterator[Recording]:
        """The recording, unless no call was made in it.

        `number` is which one of the session it is. The first is a side chain of `parent`, if there
        is one (empty: its name is not known); `later` ones are of that kind. An agent that
        `writes_commands` calls tools, or has its commands in its text. In the second case results
        are words of the user, and it is known that there were no tools.
        """
        if not self.calls:
            return
        first: Kind = "session" if parent is None else "side chain"
        is_known = writes_commands and not any(message.tool_calls for message in self.messages)
        has_results = any(message.role == "tool" for message in self.messages)
        yield Recording(
            session if number == 1 else f"{session}/{number}",
            self._recorded,
            grade if is_known else "C",
            self.calls[0].model,
            tuple(self.messages),
            tuple(self.calls),
            tools=() if is_known else None,
            kind=first if number == 1 else later,
            parent=(parent or None) if number == 1 else session,
            skipped=self._file.take_skipped(),
            source=str(self._file.path),
            project=project,
            results_as_words=writes_commands and not has_results,
        )


def chat_call(ident: str, name: str, arguments: object) -> dict[str, Any]:
    """A call of a tool in OpenAI's chat form; arguments may be text already."""
    text = arguments if isinstance(arguments, str) else canonical_json(arguments)
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": text}}


def chat_result(ident: str, content: str, *, failed: bool = False) -> dict[str, Any]:
    """The result of a call in OpenAI's chat form, with a mark if it failed."""
    result = {"role": "tool", "tool_call_id": ident, "content": content}
    return {**result, "is_error": True} if failed else result


UNRECORDED: Final = "[not recorded]"
"""What stands in the place of words that a program did not record."""


def unseen(recorded: RecordingFormat, call: RecordedCall, of: Recording) -> Recording:
    """Calls that a file bills without telling what they said: one call, beside a recording.

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


class ListOfForm:
    """Reads the objects of one list, in order; what no provider would take is left out.

    `limit` counts what is kept.
    """

    def __init__(
        self, form: FormName, skipped: Counter[str], limit: MemoryLimit | None = None
    ) -> None:
        self.form = form
        self._skipped = skipped
        self._limit = limit
        self._reader = None
        if form != "openai":
            self._reader = cast("ListForm", import_module(LIST_MODULES[form])).list_reader()
        self._open = False
        self._messages: list[Message] = []
        self._pieces: list[Message] = []
        """Of the last message, which is an answer, where there are several."""

    @property
    def messages(self) -> list[Message]:
        """What was read so far."""
        if self._pieces:
            self._messages[-1] = joined(self._messages[-1], *self._pieces)
            self._pieces = []
        return self._messages

    @property
    def last(self) -> tuple[int, str]:
        """How many messages there are, and the role of the last, also while its pieces come in."""
        return len(self._messages), self._messages[-1].role if self._messages else ""

    def add(self, item: object) -> None:
        """Read the next object."""
        where = f"message {len(self._messages)}"
        try:
            if not isinstance(item, Mapping):
                raise SequenceError(f"{where}: a message is an object")
            is_apart = self.form == "gemini" and item.get("role") == "system"
            if self._reader is None or is_apart:
                self._append(from_openai(item, where=where))
                self.close()
                return
            reading = self._reader.read(item, where)
        except MALFORMED as error:
            self._skipped[f"messages that cannot be read ({str(error).partition(': ')[2]})"] += 1
            return
        for message in reading.messages:
            if reading.joins and self._open:
                self._take(message)
                self._pieces.append(message)
            else:
                self._append(message)
            self._open = reading.joins

    def close(self) -> None:
        """End the answer before: what follows is not joined to it."""
        self._open = False

    def _append(self, message: Message) -> None:
        self._take(message)
        self.messages.append(message)

    def _take(self, message: Message) -> None:
        if self._limit is not None:
            self._limit.take(message)


def read_list(
    form: FormName,
    items: Iterable[object],
    skipped: Counter[str],
    limit: MemoryLimit | None = None,
) -> list[Message]:
    """The messages of a list in a form; what cannot be read is counted in `skipped`."""
    reader = ListOfForm(form, skipped, limit)
    for item in items:
        reader.add(item)
    return reader.messages


def read_tools(definitions: object) -> tuple[ToolSpec, ...]:
    """Definitions of tools in any provider's form; tools that are not functions are left out."""
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
    """A JSON object; an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}


def usage_of(value: object) -> Usage | None:
    """A usage in any provider's words; None where it is not one, or an impossible one."""
    try:
        return read_usage(value)
    except ValueError:
        return None


def usage_of_counts(
    sent: object, out: object, read: object, written: object, *, is_all: bool = True
) -> Usage | None:
    """A usage of four counts, as a file has them; None where none of them is a number above 0.

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
    """An amount in US dollars; None for anything that is not a number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_MONEY:
        return None
    return float(value)


def text_of(record: Mapping[str, Any], *keys: str) -> str:
    """The text under the first of the keys that has one; empty where none has."""
    return next((value for key in keys if isinstance(value := record.get(key), str)), "")


def model_of(name: object, provider: str) -> str:
    """A model as `provider/model`; `provider` where its name has none."""
    text = name if isinstance(name, str) and name else "unknown"
    return text if "/" in text.strip("/") else f"{provider}/{text}"
