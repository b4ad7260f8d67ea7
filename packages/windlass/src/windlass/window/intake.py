"""Messages from outside, made fit to be sent: mended where the meaning is clear, else refused.

What is mended, each with a reason for the record:

- what is said between a call and its result stands behind the result;
- a call without a result gets one that says so (an interrupted run leaves such calls);
- a result that no call waits for becomes a user message with the same text;
- a call to a tool of the provider's that it did not answer is left out;
- a call id that was used before, or is empty, gets a number, and so does its result;
- a result without an id answers the one call that is open;
- a message that says nothing and calls nothing is left out;
- pictures of results stand in a user's message behind them, and those of others become words,
  where only users' messages hold pictures;
- keys that hold null, empty lists of calls, arguments that are an object, a result without
  content, bare texts among parts, halves of characters are written as the endpoint takes them.

Everything else that no provider takes is refused with its position and the rule: an
unknown role, a call without name, a content that is neither text nor parts, values that are
no JSON. Keys and parts of vendors, which Windlass has no word for, travel as they are.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_not
from typing import Any, Final, Literal

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque, Part, Text, ToolCall, canonical_json, tool
from windlass.window.entries import Item
from windlass.wire.calls import (
    ABOVE,
    AGAIN,
    BELOW,
    LATE,
    NO_RESULT,
    NULLS,
    ORPHAN,
    images_of,
    without_pictures,
)
from windlass.wire.inner_calls import Revision, ServerTools, calls_made
from windlass.wire.openai import from_openai
from windlass.wire.responses_calls import WHOLE_ITEM, check_missing

OWN_KEYS: Final = frozenset({"id", "at", "usage"})
"""Keys of a chat dict that are Windlass's: what the occurrence is called, when it was said, and
what the provider counted of the call that it answers."""

_DEEPEST: Final = 100
"""Levels of lists and objects in one message; encoders of JSON give up at some hundreds."""
_LONGEST_INT: Final = 1_024
"""Bits of a whole number; no double holds more, and Python writes none of 4,300 digits."""
_KEPT: Final = ("document", "search_result", "image", "part")
"""Parts of results that users' messages hold, too."""
_MARK: Final = "cache_control"
_NEVER_NULL: Final = frozenset({"tool_calls", "tool_call_id", "name"})
"""Keys that the endpoint refuses where they hold null."""
_OF_USERS: Final = frozenset({"part:input_audio", "part:file"})
"""Parts that OpenAI takes from users alone."""


@dataclass(frozen=True, slots=True)
class IntakeMessage:
    """One message that goes on: `repair` says what was mended (None: nothing).

    `source` is the position in the caller's list (None: it stands in no list).
    `left_out`: it is recorded and not sent.
    """

    item: Item
    source: int | None
    repair: str | None = None
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class _Fate:
    """What became of a call id.

    `missed`: its call was answered by `item` when the next reply came. `lone`: a result of it came
    before any call.
    """

    what: Literal["unknown", "answered", "missed", "lone"] = "unknown"
    call: ToolCall | None = None
    item: Item | None = None


_UNKNOWN: Final = _Fate()


class Intake:
    """Takes messages one by one, in order; remembers ids and open calls.

    `prefix` goes before the names of occurrences, where several lists share one. `refused` are
    types of parts that the provider refuses. `pictures_of_users`: whether only users' messages
    hold pictures. `waits`: what is said while calls are open waits for their results.
    """

    def __init__(
        self,
        prefix: str = "",
        refused: Collection[str] = (),
        *,
        pictures_of_users: bool = False,
        waits: bool = True,
    ) -> None:
        self._prefix = prefix
        self._waits = waits
        self._refused = refused
        self._pictures_of_users = pictures_of_users
        self._count = 0
        self._ids: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._open: dict[str, deque[ToolCall]] = {}
        self._caller = Message("assistant")
        """The reply that made the open calls."""
        self._late: list[IntakeMessage] = []
        self._fates: dict[str, _Fate] = {}
        """What became of the calls that are not open, and of the results without any."""
        self._inner: set[str] = set()
        """The calls in opaque parts."""
        self._server_tools = ServerTools()
        self._revised: list[Revision] = []
        self._met: dict[str, int] = {}
        self._named: set[str] = set()

    def take(self, chat: Mapping[str, Any]) -> list[IntakeMessage]:
        """Return the next chat dict, as what goes on.

        Raises SequenceError with the position and the rule where it cannot be mended; the
        next dict then has this position.
        """
        position = self._count
        where = f"message {position}"
        if not isinstance(chat, Mapping):
            raise SequenceError(f"{where}: is {type(chat).__name__}, not an object with a role")
        halves = _has_halves(_told(chat, where), where)
        chat, mended = _as_meant(chat, where)
        said = chat
        if not OWN_KEYS.isdisjoint(chat):
            said = {key: value for key, value in chat.items() if key not in OWN_KEYS}
        message = from_openai(said, where=where)
        if halves:
            mended.append("halves of characters became U+FFFD")
        if message.tool_call_id is not None and message.role != "tool":
            message = replace(message, tool_call_id=None)
            mended.append("only a result has a tool_call_id")
        self.check_rules(message, where)
        if self._pictures_of_users and message.role not in ("user", "tool") and message.pictures:
            message = _in_words(message)
            mended.append("a picture became words: only a user's message holds one")
        for at, part in enumerate(message.parts if self._refused else ()):
            if isinstance(part, Opaque) and part.kind.removeprefix("part:") in self._refused:
                kind = part.kind.partition(":")[2]
                raise SequenceError(f"{where}, part {at}: the provider takes no {kind} part")
        self._count += 1
        given = chat.get("id")
        ident = given if isinstance(given, str) and given else None
        apart = self._pictures_of_users and message.role == "tool"
        return self.take_message(message, position, ident, mended, apart=apart)

    @staticmethod
    def check(given: Mapping[str, Any], where: str) -> None:
        """Refuse an object that is no JSON. Halves of characters are mended where it is read."""
        _has_halves(_told(given, where), where)

    @staticmethod
    def check_rules(message: Message, where: str) -> None:
        """Refuse what no provider takes, whatever stands around it."""
        _check_rules(message, where)

    def take_message(
        self,
        message: Message,
        position: int,
        ident: str | None = None,
        mended: list[str] | None = None,
        *,
        apart: bool = False,
    ) -> list[IntakeMessage]:
        """Return the next message, as what goes on.

        `ident` is the name its occurrence has already, `mended` what was done to it before.
        `apart`: the pictures of a result stand in a message of their own.
        """
        said = list(mended or ())
        if message.role == "tool":
            return self._result(message, position, ident, said, apart=apart)
        changes: list[str] = []
        if message.role == "assistant":
            message, changes = self._server_tools.mended(message)
            said += changes
        if _says_nothing(message):
            why = "; ".join(changes) or "it says nothing"
            return [IntakeMessage(self._item(message, ident), position, why, left_out=True)]
        if message.role == "assistant":
            return [*self.close(position), self._reply(message, position, ident, said)]
        taken = IntakeMessage(self._item(message, ident), position, "; ".join(said) or None)
        if not message.is_system:
            self._revised += self._server_tools.spoke()
        if not self._waits:
            return [*self.close(position), taken]
        if self._open:
            self._late.append(taken)  # nothing may stand between a call and its results
            return []
        return [taken]

    def _reply(
        self, message: Message, position: int, ident: str | None, said: list[str]
    ) -> IntakeMessage:
        """Return a reply, whose calls are open from here on."""
        if before := message.tool_calls:
            message = self._with_new_ids(message)
            self._caller = message
            for old, call in zip(before, message.tool_calls, strict=True):
                self._open.setdefault(old.id, deque()).append(call)
                if old.id != call.id:
                    said.append(f"call id {old.id!r} is {'used before' if old.id else 'empty'}")
        self._inner.update(calls_made(message))
        item = self._item(message, ident)
        self._revised += self._server_tools.replied(item.id, message)
        return IntakeMessage(item, position, "; ".join(said) or None)

    def revised(self) -> list[Revision]:
        """Return what became of earlier messages since this was asked last."""
        revised, self._revised = self._revised, []
        return revised

    def close(self, position: int) -> list[IntakeMessage]:
        """Return what must stand before the next reply: answers to the calls that have none.

        Raises SequenceError, naming the position of that, for a call whose answer cannot be made
        up.
        """
        missing: list[IntakeMessage] = []
        for call in self.open_calls:
            check_missing(self._caller, call, f"message {position}")
        for old, calls in self._open.items():
            for call in calls:
                text, why = NO_RESULT, "a call without a result before the next reply"
                if self._fates.get(old, _UNKNOWN).what == "lone":
                    text, why = ABOVE, f"the result of call {old!r} stands before it"
                item = self._item(tool(call, text), None)
                self._fates[old] = _Fate("missed", call, item)
                missing.append(IntakeMessage(item, None, why))
        late, self._late = self._late, []
        self._open = {}
        return missing + late

    def unanswered(self) -> list[IntakeMessage]:
        """Return what stands at the end of a list whose last calls are open.

        Nothing is closed by it.

        Raises SequenceError for a call whose answer cannot be made up.
        """
        where = next((one.source for one in self._late if one.source is not None), None)
        missing: list[IntakeMessage] = []
        for call in self.open_calls:
            place = "the end of the list" if where is None else f"message {where}"
            check_missing(self._caller, call, place)
            item = Item(f"open:{call.id}", message := tool(call, NO_RESULT), message.role)
            missing.append(IntakeMessage(item, None, "a call without a result"))
        return [*missing, *self._late]

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait for their results."""
        return tuple(call for calls in self._open.values() for call in calls)

    @property
    def late(self) -> tuple[IntakeMessage, ...]:
        """Return what was taken and waits for the open calls: it goes on behind their results."""
        return tuple(self._late)

    def _result(
        self,
        message: Message,
        position: int,
        ident: str | None,
        said: list[str],
        *,
        apart: bool,
    ) -> list[IntakeMessage]:
        key = message.tool_call_id
        if key in self._inner and key not in self._open:
            self._server_tools.resulted()
            self._inner.discard(key)
            self._fates[key] = _Fate("answered")
            return [IntakeMessage(self._item(message, ident), position, "; ".join(said) or None)]
        if not key and len(self.open_calls) == 1:
            key = next(iter(self._open))
            said.append("a result without an id, for the one call that is open")
        if key is None or key not in self._open:
            return self._unasked(message, position, ident, said)
        self._server_tools.resulted()
        if any(one.source not in (None, position) for one in self._late):
            said.append("moved to its call, before what was said in between")
        call = self._open[key].popleft()
        if not self._open[key]:
            del self._open[key]
            self._fates[key] = _Fate("answered")
        if message.tool_call_id != call.id:
            if message.tool_call_id:
                said.append(f"call id {key!r} is used before")
            elif not said:
                said.append("call id '' is empty")
            message = replace(message, tool_call_id=call.id)
        if apart and message.pictures:
            shown = images_of(message, call.name)
            why = "pictures of a result, which holds text alone"
            self._late.append(IntakeMessage(self._item(shown, None), None, why))
            message = without_pictures(message)
            said.append("its pictures stand in a user's message behind the results")
        taken_now = IntakeMessage(self._item(message, ident), position, "; ".join(said) or None)
        if self._open:
            return [taken_now]
        late, self._late = self._late, []
        return [taken_now, *late]

    def _unasked(
        self, message: Message, position: int, ident: str | None, said: list[str]
    ) -> list[IntakeMessage]:
        """Return a result that no open call waits for, as a user's message."""
        key = message.tool_call_id
        fate = self._fates.get(key or "", _UNKNOWN)
        head = ORPHAN
        match fate.what:
            case "answered":
                head = AGAIN
                said.append(f"another result of call {key!r}, which has one")
            case "missed" if fate.item is not None and fate.call is not None:
                head = LATE.format(name=fate.call.name)
                said.append(f"the result of call {key!r}, which came after the next reply")
                below = fate.item.message.with_parts(Text(BELOW))
                why = f"the result of call {key!r} came after the next reply"
                self._revised.append(Revision(fate.item.id, below, why))
                self._fates[key or ""] = _Fate("answered")
            case _:
                said.append(f"answers call {key!r}, which is not open")
                self._fates[key or ""] = _Fate("lone")
        kept, lost = _besides_text(message)
        if lost:
            said.append(f"{', '.join(lost)} left out")
        texts = [message.text] if message.text else []
        texts += [
            part.data
            for part in message.parts
            if isinstance(part, Opaque) and part.kind.startswith(WHOLE_ITEM)
        ]
        self._revised += self._server_tools.spoke()
        lone = Message("user", (Text("\n".join([head, *texts])), *kept))
        taken = IntakeMessage(self._item(lone, ident), position, "; ".join(said))
        if self._open:
            self._late.append(taken)
            return []
        return [taken]

    def _with_new_ids(self, message: Message) -> Message:
        """Return the message with ids that were not used before."""
        calls: list[ToolCall] = []
        for call in message.tool_calls:
            new = call.id
            while not new or new in self._ids:
                self._numbers[call.id] += 1
                number = self._numbers[call.id]
                new = f"{call.id}_{number + 1}" if call.id else f"call_{number}"
            self._ids.add(new)
            calls.append(call if new == call.id else replace(call, id=new))
        same = all(new is old for new, old in zip(calls, message.tool_calls, strict=True))
        return message if same else replace(message, tool_calls=tuple(calls))

    def _item(self, message: Message, ident: str | None) -> Item:
        """Return the occurrence under its own name; a name that was used before counts as none."""
        while ident is None or ident in self._named:
            short = _without_marks(message).content_hash
            met = self._met[short] = self._met.get(short, 0) + 1
            ident = f"{self._prefix}{short}.{met}"
        self._named.add(ident)
        return Item(ident, message, message.role)


def _besides_text(message: Message) -> tuple[list[Part], list[str]]:
    """What of a result a user's message can hold besides its text, and the names of the rest."""
    kept: list[Part] = []
    lost: dict[str, None] = {}
    is_kept = False
    for part in message.parts:
        if isinstance(part, Opaque):
            if part.kind == "with":  # further keys of what stands before it
                is_kept = is_kept and bool(kept)
            elif part.kind.startswith(("with", "keys", "key:", WHOLE_ITEM)):
                is_kept = False
                if '"parts"' in part.data:
                    lost["parts"] = None
            else:
                is_kept = part.kind in _KEPT or part.kind.startswith("part:input_")
                if not is_kept:
                    lost[part.kind.rpartition(":")[2]] = None
        else:
            is_kept = not isinstance(part, Text)
        if is_kept:
            kept.append(part)
    return kept, list(lost)


def _without_marks(message: Message) -> Message:
    """Give the message without its cache marks: they move from call to call, and its name stays."""
    parts: list[Part] = []
    marked = False
    for part in message.parts:
        if not isinstance(part, Opaque) or not (_MARK in part.data or part.kind.endswith(_MARK)):
            parts.append(part)
            continue
        marked = True
        held = {} if part.kind.endswith(_MARK) else json.loads(part.data)
        bare = {key: held[key] for key in held if key != _MARK} if isinstance(held, dict) else held
        if bare:
            parts.append(replace(part, data=canonical_json(bare)))
    return message.with_parts(*parts) if marked else message


def _in_words(message: Message) -> Message:
    """Return the message with words in the place of its pictures and of their further keys."""
    texts = [f"[Image: {part.describe()}]" for part in message.pictures]
    bare = without_pictures(message)
    return bare.with_parts(*bare.parts, *map(Text, texts))


def _says_nothing(message: Message) -> bool:
    """Return whether there is nothing to send: no calls, blank text, and of vendors' keys at most.

    A reply may be a vendor's key alone (a refusal, reasoning).
    """
    if message.tool_calls:
        return False
    keys = message.role != "assistant"
    return all(
        not part.text.strip()
        if isinstance(part, Text)
        else keys and isinstance(part, Opaque) and part.kind.startswith("key:")
        for part in message.parts
    )


def _check_rules(message: Message, where: str) -> None:
    """Refuse what no provider takes, whatever stands around it."""
    if message.tool_calls and message.role != "assistant":
        raise SequenceError(f"{where}: only an assistant calls tools, not role {message.role!r}")
    for index, call in enumerate(message.tool_calls):
        if not call.name.strip():
            raise SequenceError(f"{where}, tool call {index}: the name of its function is empty")
    for part in message.parts:
        if isinstance(part, Opaque) and part.kind in _OF_USERS and message.role != "user":
            kind = part.kind.partition(":")[2]
            raise SequenceError(
                f"{where}: {kind} in a message of role {message.role!r}; only a user's holds it"
            )
    for picture in message.pictures:
        if picture.url and not picture.url.lower().startswith(("http://", "https://", "gs://")):
            raise SequenceError(
                f"{where}: the picture's url {picture.url[:80]!r} is neither an http address nor"
                " a data URL"
            )


def _as_meant(chat: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], list[str]]:
    """Return the dict as the endpoint takes it, and what was changed: its meaning is the same."""
    changed: dict[str, Any] = {}
    said: list[str] = []
    nulls = [key for key, value in chat.items() if value is None and key != "content"]
    if refused := [key for key in nulls if key in _NEVER_NULL]:
        said.append(f"{', '.join(refused)} held null: left out")
    if len(nulls) > len(refused):
        said.append(NULLS)  # `from_openai` leaves them out
    content, calls = chat.get("content"), chat.get("tool_calls")
    if isinstance(content, list) and content:
        spoken = [part for part in content if not _is_empty_text(part)]
        if 0 < len(spoken) < len(content):
            changed["content"] = content = spoken
            said.append("empty text is left out")
        parts = [_part_as_meant(part, f"{where}, part {at}") for at, part in enumerate(content)]
        if any(map(is_not, parts, content)):
            changed["content"] = parts
            said.append("parts are objects with a type")
    elif chat.get("role") == "tool" and not isinstance(content, str):
        said.append("a result has a content")
    elif isinstance(content, list):
        changed["content"] = content = None
        said.append("an empty list of parts is left out")
    if calls is not None and not calls:
        said.append("an empty list of calls is left out")
    elif isinstance(calls, list | tuple) and not all(map(_is_full_call, calls)):
        changed["tool_calls"] = list(map(_call_as_meant, calls))
        said.append("a call has an id, a type, and arguments that are text")
    return ({**chat, **changed} if changed else chat), said


def _is_empty_text(part: Any) -> bool:
    return part == "" or (
        isinstance(part, Mapping) and part.get("type") == "text" and part.get("text") == ""
    )


def _part_as_meant(part: Any, where: str) -> Any:
    match part:
        case str():
            return {"type": "text", "text": part}
        case {"type": "image_url", "image_url": str(url)}:
            return {**part, "image_url": {"url": url}}
        case {"type": "image_url", **rest} if not isinstance(_at(rest, "image_url", "url"), str):
            raise SequenceError(f"{where}: an image_url part has an image_url with a url")
        case _:
            return part


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _is_full_call(call: Any) -> bool:
    match call:
        case {"id": str(), "type": "function", "function": {"arguments": str()}}:
            return True
        case _:
            return False


def _call_as_meant(call: Any) -> Any:
    """Return the call with an empty id where it has none: it gets a number then."""
    return {**call, "id": ""} if isinstance(call, Mapping) and call.get("id") is None else call


def _has_halves(values: Sequence[Any], where: str, level: int = 0) -> bool:
    """Return whether a text in JSON values has halves of characters. Raises for what is no JSON."""
    if level > _DEEPEST:
        raise SequenceError(f"{where}: is nested deeper than {_DEEPEST} levels")
    halves = False
    for one in values:
        if isinstance(one, str):
            if not (one.isascii() or _is_whole(one)):
                halves = True
        elif isinstance(one, dict):
            halves = _has_halves(_told(one, where), where, level + 1) or halves
        elif isinstance(one, list | tuple):
            halves = _has_halves(one, where, level + 1) or halves
        elif one is not None:
            _check_number(one, where)
    return halves


def _told(value: Mapping[Any, Any], where: str) -> list[Any]:
    """Return the keys and values of an object. Raises where a key is not text."""
    for key in value:
        if not isinstance(key, str):
            raise SequenceError(f"{where}: the key {key!r} is not text")
    return [*value, *value.values()]


def _check_number(value: object, where: str) -> None:
    """Refuse what is no number, or none that JSON can hold; truth values are numbers here."""
    if isinstance(value, int):
        if value.bit_length() > _LONGEST_INT:
            raise SequenceError(f"{where}: holds a number of more than {_LONGEST_INT} bits")
    elif not isinstance(value, float):
        raise SequenceError(f"{where}: holds a {type(value).__name__}, which is no JSON")
    elif not math.isfinite(value):
        raise SequenceError(f"{where}: holds the number {value}, which is no JSON")


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def said_at(chat: Mapping[str, Any], where: str) -> float | None:
    """When a message was said, in seconds from any moment; None: it does not say.

    Raises SequenceError for anything but a number.
    """
    at = chat.get("at")
    if at is None:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise SequenceError(f"{where}: at {at!r} is no number of seconds")
    return float(at)
