"""What the formats share: ids, names and arguments of calls, pictures, opaque parts.

Inside Windlass, a call keeps its id and a tool its name. Both are fitted on the way out, by the
request alone, so that the same request always gives the same bytes and a longer one begins with
them; names are read back on the way in.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from windlass.errors import SequenceError
from windlass.messages import (
    Message,
    Opaque,
    Part,
    Picture,
    Text,
    ToolCall,
    canonical_json,
    clean_text,
)
from windlass.safety.foreign import parse_json
from windlass.text.pictures import picture
from windlass.wire.base import Refused, Request
from windlass.wire.thinking import is_note

GO_ON: Final = "Continue."
"""The user's message that is added if a provider requires the last one to be the user's."""
OPENED: Final = f'the list does not begin with the user: "{GO_ON}" stands before it'
ANSWERED: Final = f'the list does not end with the user: "{GO_ON}" stands behind it'
CALL: Final = "call"
"""Opaque kind: the place of the tool call with this number; other calls come at the end."""
NO_RESULT: Final = "[No result of this call was recorded.]"
"""What is sent for a missing result."""
ABOVE: Final = "[The result of this call stands above it.]"
BELOW: Final = "[The result of this call came later; it stands below.]"
"""What is sent in the place of a result that stands elsewhere."""
ORPHAN: Final = "[Result of a tool call that does not stand before it]"
LATE: Final = "[Result of the call of {name} above, which came later]"
AGAIN: Final = "[Another result of a call that has one]"
"""What is sent before a result that no call waits for."""
NULLS: Final = "keys that hold null are left out"
UNREADABLE: Final = "unreadable_arguments"
"""The key under which arguments stand that are no JSON object."""
MOST_TOKENS: Final = 10**12
"""The most tokens of one call; a report of more is rejected."""
_LONGEST_NAME: Final = 64
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]")
"""All take names that match `^[a-zA-Z0-9_-]{1,64}$`; at Anthropic ids match it, too."""
_OWN_NAMES: Final = {
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "responses": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"),
}
"""What else some take, for tools that came in their form."""
_LONGEST_IDS: Final = {"openai": 40, "responses": 64}
"""OpenAI: `string too long. Expected a string with maximum length 40` for tool_calls[].id."""


def wire_names(request: Request, form: str) -> dict[str, str]:
    """Map tool names to names in a form, for all tools that the request defines or calls.

    `server.tool` becomes `server_tool`; of two that become the same, the later gets
    a number. Names that fit are never changed.
    """
    names = dict.fromkeys(spec.name for spec in request.tools)
    names |= dict.fromkeys(call.name for each in request.messages for call in each.tool_calls)
    on_wire = {name: name for name in names if _fitted(name, _LONGEST_NAME) == name}
    if own := _OWN_NAMES.get(form):
        given = (spec.name for spec in request.tools if spec.own and spec.own.provider == form)
        on_wire |= {name: name for name in given if own.fullmatch(name)}
    for name in names:
        if name not in on_wire:
            taken = on_wire.values()
            on_wire[name] = _free(_fitted(name, _LONGEST_NAME), taken, _LONGEST_NAME)
    return on_wire


def own_names(request: Request, form: str) -> dict[str, str]:
    """Map names in a form to the tools' own names, where the two differ."""
    return {wire: own for own, wire in wire_names(request, form).items() if wire != own}


def ends_as_they_are(
    messages: Sequence[Message],  # noqa: ARG001 - one signature for all formats
    model: str,  # noqa: ARG001
    *,
    system_anywhere: bool = False,  # noqa: ARG001
) -> list[str]:
    """Return what a format repairs that lets a list begin and end with anybody: nothing."""
    return []


def _fitted(text: str, longest: int | None, unfit: re.Pattern[str] | None = _UNFIT) -> str:
    return (unfit.sub("_", text) if unfit else text)[:longest] or "_"


def _free(text: str, taken: Collection[str], longest: int | None = None) -> str:
    number, free = 2, text
    while free in taken:
        tail = f"_{number}"
        free = (text if longest is None else text[: longest - len(tail)]) + tail
        number += 1
    return free


def with_wire_ids(messages: Iterable[Message], form: str, model: str) -> list[Message]:
    """Return the messages with ids that fit a form and do not repeat; a result follows its call.

    Anthropic: `tool_use ids must be unique`. The phases of one conversation, or two models of it,
    may have used the same one. Other vendors' models get their ids back letter for letter: Kimi
    reads `functions.look:0`, and routers put Gemini's signatures into long ones.
    """
    longest = None if "gemini" in model else _LONGEST_IDS.get(form)
    unfit = _UNFIT if form == "anthropic" or "claude" in model else None
    taken: set[str] = set()

    def fitted(id_: str) -> str:
        free = _free(_fitted(id_, longest, unfit), taken, longest)
        taken.add(free)
        return free

    return _with_ids(
        messages,
        lambda message: [fitted(call.id) for call in message.tool_calls],
        lambda id_: _fitted(id_, longest, unfit),
    )


def with_own_ids(messages: Iterable[Message]) -> list[Message]:
    """Return the messages with calls that can be told apart; a result follows its call.

    No two calls of one message share an id, and none is empty: a second `c1` is `c1_2`, a call
    without one `call_1`. Ids that are fit stay, so it changes nothing the second time.
    """

    def own(message: Message) -> list[str]:
        taken: dict[str, None] = {}
        for call in message.tool_calls:
            taken[_free(call.id or "call_1", taken)] = None
        return list(taken)

    return _with_ids(messages, own, lambda id_: id_)


def _with_ids(
    messages: Iterable[Message],
    new: Callable[[Message], Sequence[str]],
    lone: Callable[[str], str],
) -> list[Message]:
    """Return the messages with `new` ids of their calls; a result has that of its call.

    Where calls of one message share an id, their results follow in the order of the calls. `lone`
    is the id of a result whose call is not there.
    """
    waiting = defaultdict[str, deque[str]](deque)
    renamed: list[Message] = []
    for message in messages:
        if message.tool_calls:
            waiting, ids = defaultdict[str, deque[str]](deque), new(message)
            for call, id_ in zip(message.tool_calls, ids, strict=True):
                waiting[call.id].append(id_)
            if ids != [call.id for call in message.tool_calls]:
                pairs = zip(message.tool_calls, ids, strict=True)
                calls = tuple(replace(call, id=id_) for call, id_ in pairs)
                message = replace(message, tool_calls=calls)  # noqa: PLW2901
        elif message.tool_call_id is not None:
            id_ = lone(message.tool_call_id)
            if held := waiting.get(message.tool_call_id):
                id_ = held.popleft() if len(held) > 1 else held[0]
            if id_ != message.tool_call_id:
                message = replace(message, tool_call_id=id_)  # noqa: PLW2901
        renamed.append(message)
    return renamed


def next_call(request: Request) -> int:
    """Return the number of the next call where the provider gives no ids: `call_{n}`.

    Higher than the count of calls in the request, and than any id of that form in
    it, so that a window which left calls out does not lead to an id used before.
    """
    calls = [call for message in request.messages for call in message.tool_calls]
    numbers = [int(match[1]) + 1 for call in calls if (match := _NUMBERED.match(call.id))]
    return max([len(calls), *numbers])


_NUMBERED: Final = re.compile(r"call_(\d{1,9})(?:_\d+)?$", re.ASCII)


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments as an object, for providers that take nothing else.

    What a model wrote that is no JSON object is sent back as the text it is, under
    one key, so that the model can see its mistake.
    """
    try:
        value = parse_json(call.arguments or "{}")
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {UNREADABLE: call.arguments}


def arguments_text(value: Any) -> str:
    """Return the text of arguments that came as an object; a text stays as it is."""
    return value if isinstance(value, str) else canonical_json({} if value is None else value)


def opaque(provider: str, kind: str, value: Any, model: str = "") -> Opaque:
    """Return a part that only `provider` understands, as JSON that has a UTF-8 form."""
    data = json.dumps(value, ensure_ascii=False)
    if data != clean_text(data):
        # A lone surrogate has no UTF-8; escaped it can be stored and comes back as it was.
        data = json.dumps(value)
    return Opaque(provider, kind, data, model)


def is_foreign(part: Part, provider: str, model: str) -> bool:
    """Return whether another provider or model made an opaque part: signatures are not portable."""
    return isinstance(part, Opaque) and not (
        part.provider == provider and part.model in ("", model)
    )


def words(parts: Iterable[Part]) -> list[str]:
    """Return texts, and descriptions of pictures, for places that hold no pictures."""
    return [
        part.text if isinstance(part, Text) else picture_text(part)
        for part in parts
        if not isinstance(part, Opaque)
    ]


def picture_text(part: Picture) -> str:
    """Return the text that replaces a picture if the provider accepts none."""
    return f"[Image: {part.describe()}]"


def pictures_in_words(message: Message) -> Message:
    """Return the message with a text in place of each picture."""
    if not message.pictures:
        return message
    return message.with_parts(
        *(Text(picture_text(part)) if isinstance(part, Picture) else part for part in message.parts)
    )


def without_pictures(message: Message) -> Message:
    """Return the message without its pictures and their extra keys."""
    if not message.pictures:
        return message
    kept: list[Part] = []
    shown = False
    for part in message.parts:
        if isinstance(part, Picture):
            shown = True
        elif not (shown and isinstance(part, Opaque) and part.kind == "with"):
            kept.append(part)
            shown = False
    return message.with_parts(*kept)


def images_of(message: Message, called: str) -> Message:
    """The user message that shows a result's pictures, for formats whose results are text alone."""
    name = message.name or called
    return Message("user", (Text(f"[Images of tool result {name}]"), *message.pictures))


@dataclass(frozen=True, slots=True)
class FileData:
    """A file that a form has a part for: its bytes as base64, or its address."""

    media_type: str
    data: str = ""
    url: str = ""
    name: str = ""

    @property
    def data_url(self) -> str:
        """Return the bytes as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


def file_for(part: Part, target: str, role: str) -> FileData | None:
    """Return the file that an opaque part of another form is, if `target` has a place for it."""
    if not isinstance(part, Opaque) or part.provider == target or role not in ("user", "tool"):
        return None
    file = _file_of(part)
    if file is None:
        return None
    pdf = file.media_type == "application/pdf"
    match target:
        case "anthropic":
            takes = pdf or (file.media_type == "text/plain" and bool(file.data))
        case "responses":
            takes = file.media_type.startswith(("application/", "text/"))
        case "openai":  # chat takes files from users alone, and no addresses of them
            takes = role == "user" and bool(file.data) and pdf
        case _:
            takes = True
    return file if takes else None


def _file_of(part: Opaque) -> FileData | None:
    """Return the file that a part is; None if it is none, or if its provider keeps it."""
    held = json.loads(part.data)
    match part.provider, part.kind, held:
        case "openai", "part:file", {"file": {"file_data": str(url), **rest}}:
            return _of_data_url(url, rest)
        case "responses", "part:input_file", {"file_data": str(url), **rest}:
            return _of_data_url(url, rest)
        case "responses", "part:input_file", {"file_url": str(url)}:
            return FileData("application/pdf", url=url)
        case "anthropic", "document", {"source": {"type": "base64", **source}}:
            title = str(held.get("title") or "")
            kind = str(source.get("media_type") or "")
            return FileData(kind, str(source.get("data") or ""), name=title)
        case "anthropic", "document", {"source": {"type": "url", "url": str(url)}}:
            return FileData("application/pdf", url=url, name=str(held.get("title") or ""))
        case "anthropic", "document", {"source": {"type": "text", "data": str(text)}}:
            data = base64.b64encode(text.encode()).decode("ascii")
            return FileData("text/plain", data, name=str(held.get("title") or ""))
        case "gemini", "part", {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
            name = str(held["inlineData"].get("displayName") or "")
            data = data.translate(_STANDARD)  # SDKs write the alphabet of addresses
            return None if kind.startswith("image/") else FileData(kind, data, name=name)
        case "gemini", "part", {"fileData": {"mimeType": str(kind), "fileUri": str(url)}}:
            own = "generativelanguage.googleapis.com" in url or not url.startswith("http")
            return None if own else FileData(kind, url=url)
        case _:
            return None


_STANDARD: Final = str.maketrans("-_", "+/")


def _of_data_url(url: str, keys: Mapping[Any, Any]) -> FileData | None:
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:"):
        return None
    return FileData(head.removeprefix("data:"), data, name=str(keys.get("filename") or ""))


def picture_base64(part: Picture, load: Callable[[str], bytes] | None) -> str:
    """Return the bytes of a picture as base64. Raises ValueError if they cannot be loaded."""
    data = part.data
    if data is None:
        if load is None:
            raise ValueError(f"picture {part.sha256[:16]} has no bytes and nothing to load them")
        data = load(part.sha256)
    return base64.b64encode(data).decode("ascii")


def picture_address(part: Picture, load: Callable[[str], bytes] | None) -> str:
    """Return the address of a picture: its own, or its bytes as a data URL.

    Raises as `picture_base64`.
    """
    return part.url or f"data:{part.media_type};base64,{picture_base64(part, load)}"


def picture_of(data: str, where: str, what: str) -> Picture:
    """Return the picture whose bytes stand in base64.

    Raises SequenceError with both names for others.
    """
    try:
        return picture(base64.b64decode(data, validate=True))
    except ValueError as error:
        raise SequenceError(f"{where}: the {what} is no picture ({error})") from error


_NAMED: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords of JSON Schema that hold schemas by name, and that hold plain values."""


def closed_schema(schema: Any) -> Any:
    """Return the schema with every object closed that does not say which other keys it accepts.

    Anthropic and OpenAI's strict mode refuse an object without
    `additionalProperties: false`. What the closed schema takes, the open one takes.
    """
    if isinstance(schema, Mapping):
        closed = {
            key: {name: closed_schema(one) for name, one in value.items()}
            if key in _NAMED and isinstance(value, Mapping)
            else (value if key in _VALUES else closed_schema(value))
            for key, value in schema.items()
        }
        if schema.get("type") == "object":
            closed.setdefault("additionalProperties", False)
        return closed
    if isinstance(schema, list | tuple):
        return [closed_schema(item) for item in schema]
    return schema


def count(usage: Mapping[str, Any], key: str) -> int:
    """Return a number of tokens in a usage report; null and a missing key count as 0.

    Raises ValueError where it is no number, or one that no call can have.
    """
    value = usage.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise ValueError(f"usage.{key} {value!r} is no number of tokens")
    return value


_Kind = TypeVar("_Kind", dict[str, Any], list[Any])


def inside(value: Any, key: str, kind: type[_Kind]) -> _Kind:
    """Return what `value` holds under `key`, an empty one for null.

    Raises ValueError for another kind.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"no object that could hold {key}: {str(value)[:200]!r}")  # noqa: TRY004
    held = value.get(key)
    if held is None:
        return kind()
    if not isinstance(held, kind):
        raise ValueError(f"{key}: {str(held)[:200]!r} is no {kind.__name__}")  # noqa: TRY004
    return held


def needed(value: Any, kind: type, name: str) -> Any:
    """Return `value`, if it is of `kind`. Raises ValueError naming what is missing."""
    if not isinstance(value, kind):
        missing = f"the answer has no {name}"
        # ValueError, so that callers have one error for all that is malformed.
        raise ValueError(missing if value is None else f"{missing}, but {str(value)[:200]!r}")  # noqa: TRY004
    return value


_OUTPUTS: Final = ("inlineData", "image", "audio")


def is_output(part: Part) -> bool:
    """Say whether a part of a reply is output for people: text, a picture or sound, not thinking.

    For models that put text into thinking, thinking counts, too.
    """
    match part:
        case Text(text):
            return bool(text.strip())
        case Picture():
            return True
        case Opaque(_, kind, data):
            made = any(name in kind for name in _OUTPUTS) or '"inlineData"' in data
            return made or is_note(part)
    return False


def refuse_error(answer: Any, *kinds: str) -> None:
    """Raise Refused where an answer holds an error; its kind is the first of `kinds` it has.

    Servers answer errors with status 200, too, and in the middle of a stream. Raises ValueError
    where the answer is no object.
    """
    error = needed(answer, Mapping, "object").get("error")
    if error is None:
        return
    details = error if isinstance(error, Mapping) else {"message": error}
    kind = next(filter(None, map(details.get, kinds)), "error")
    raise Refused(str(kind), str(details.get("message") or ""))
