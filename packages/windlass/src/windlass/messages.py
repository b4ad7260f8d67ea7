"""What was said: frozen messages, equal by content, and their identity.

This module knows no provider, no storage and no session. A message holds text,
pictures (by the hash of their bytes), opaque provider parts (what a provider
signs and wants back unchanged), tool calls and, in a tool result, the id of the
call it answers.

Identity: `Message.key` is the SHA-256 over the canonical JSON of the message
(sorted keys, no white space, ASCII), `content_hash` its first 16 hex digits.
Where a message occurs in a session is not its affair: occurrences have ids of
their own in the history.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

from windlass.safety.foreign import parse_json

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: Final[tuple[Role, ...]] = ("system", "developer", "user", "assistant", "tool")

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of `value`: sorted keys, no white space, ASCII only.

    ASCII, because a lone surrogate then still has bytes and so a hash.
    """
    return _CANONICAL.encode(value)


def clean_text(text: str) -> str:
    """`text` fit for UTF-8: halves of one character joined, a lone surrogate made U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _clean(value: object, *names: str) -> None:
    """Replace lone surrogates in the named fields of a frozen `value` that is being made."""
    for name in names:
        text = getattr(value, name)
        if text is not None and not (text.isascii() or _is_encodable(text)):
            object.__setattr__(value, name, clean_text(text))


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text. Lone surrogates are replaced on the way in."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.isascii():
            _clean(self, "text")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, known by the SHA-256 of its bytes; the bytes are fetched when it is sent.

    `width` and `height` are in pixels (0: unknown). `name` is what a person calls
    it (a file name). A picture given by address has `url` and an empty `sha256`.
    `data` holds the bytes only where the picture did not come out of a store; it
    takes no part in equality.
    """

    sha256: str
    media_type: str
    width: int = 0
    height: int = 0
    name: str = ""
    detail: str = ""
    url: str = ""
    data: bytes | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _clean(self, "name", "detail", "url")

    def describe(self) -> str:
        """Return the picture in words, for models that cannot see: `chart.png, 640x480`."""
        name = self.name or self.url or f"picture {self.sha256[:8]}"
        return f"{name}, {self.width}x{self.height}" if self.width else name


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something only its provider understands (signed thinking, a reasoning item).

    `data` is the provider's JSON, byte for byte; `kind` its name there. Such a
    part never moves to another message and is sent to no other provider.
    """

    provider: str
    kind: str
    data: str
    model: str = ""


Part: TypeAlias = Text | Picture | Opaque


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request by the model to run a tool. `arguments` is its JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str

    def __post_init__(self) -> None:
        _clean(self, "id", "name", "arguments")

    def parsed(self) -> dict[str, Any]:
        """Return the arguments as a dict. Raises ValueError when they are not a JSON object."""
        try:
            value = parse_json(self.arguments or "{}")
        except ValueError as error:
            raise ValueError(f"the arguments of {self.name!r} are no JSON ({error})") from error
        if not isinstance(value, dict):
            # ValueError, so that callers have one error for all that is no JSON object.
            raise ValueError(f"the arguments of {self.name!r} are not a JSON object")  # noqa: TRY004
        return cast("dict[str, Any]", value)

    @property
    def canonical_arguments(self) -> str:
        """The arguments as canonical JSON; where they are no JSON object, as they are written."""
        try:
            return canonical_json(self.parsed())
        except (ValueError, RecursionError):
            return self.arguments


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool: name, purpose, and its parameters as JSON Schema.

    `own` is the tool as the form of one provider has it, where it came in that form.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    own: Opaque | None = None

    def to_openai(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's `tools` list."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class Message:
    """One message, frozen and equal by content.

    The result of a tool that no model called has its name and no `tool_call_id`. `failed` marks the
    result of a tool call that failed. A lone empty text is dropped, but not beside tool calls:
    there `""` is not null.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        if self.tool_call_id is not None or self.name is not None:
            _clean(self, "tool_call_id", "name")
        lone = self.parts[0] if len(self.parts) == 1 and not self.tool_calls else None
        if isinstance(lone, Text) and not lone.text:
            object.__setattr__(self, "parts", ())

    @cached_property
    def text(self) -> str:
        """Return all text of the message, pieces joined by newlines; nothing of its other parts."""
        return "\n".join([part.text for part in self.parts if isinstance(part, Text)])

    @cached_property
    def pictures(self) -> tuple[Picture, ...]:
        """Return the message's pictures, in order."""
        return tuple([part for part in self.parts if isinstance(part, Picture)])

    @property
    def is_system(self) -> bool:
        """Return whether the message speaks for the caller.

        Role `system`, or OpenAI's `developer`.
        """
        return self.role in ("system", "developer")

    @property
    def is_uncalled(self) -> bool:
        """Return whether it is the result of a tool that ran without a model's call."""
        return self.role == "tool" and self.tool_call_id is None and self.name is not None

    @property
    def canonical(self) -> str:
        """Return the canonical JSON that `key` is the hash of, and in which a message is stored.

        Made anew each time: it is as long as the message, and hardly asked for again.
        """
        return canonical_json(to_dict(self))

    @cached_property
    def key(self) -> str:
        """Return SHA-256 of the canonical JSON, 64 hex digits: the message's identity."""
        return hashlib.sha256(self.canonical.encode("ascii")).hexdigest()

    @property
    def content_hash(self) -> str:
        """Return the first 16 hex digits of `key`, for people and for queries."""
        return self.key[:16]

    @cached_property
    def chars(self) -> int:
        """Return characters of text, and of tool-call arguments (pictures count nothing)."""
        return len(self.text) + sum([len(call.arguments) for call in self.tool_calls])

    def with_parts(self, *parts: Part) -> Message:
        """Return the same message saying something else; calls and ids stay."""
        return Message(self.role, parts, self.tool_calls, self.tool_call_id, self.name, self.failed)


# ---- storage form -------------------------------------------------------------------


def _part_dict(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Picture():
            told = {
                "sha256": part.sha256,
                "media_type": part.media_type,
                "width": part.width,
                "height": part.height,
                "name": part.name,
                "detail": part.detail,
                "url": part.url,
            }
            return {"type": "picture"} | {key: value for key, value in told.items() if value}
        case Opaque():
            told = {"provider": part.provider, "kind": part.kind, "data": part.data}
            return {"type": "opaque", **told} | ({"model": part.model} if part.model else {})


def to_dict(message: Message) -> dict[str, Any]:
    """Return the message as the JSON object that is hashed and stored.

    Keys: role, content (a string where the message is one piece of text, else a
    list of parts), tool_calls, tool_call_id, name, failed; empty ones are left out.
    """
    parts = message.parts
    content: str | list[dict[str, Any]] | None = None
    if len(parts) == 1 and isinstance(parts[0], Text):
        content = parts[0].text
    elif parts:
        content = [_part_dict(part) for part in parts]
    result: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        result["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        result["name"] = message.name
    if message.failed:
        result["failed"] = True
    return result


def _part_from_dict(part: Mapping[str, Any]) -> Part:
    match part["type"]:
        case "text":
            return Text(part["text"])
        case "picture":
            return Picture(
                sha256=part.get("sha256", ""),
                media_type=part.get("media_type", ""),
                width=part.get("width", 0),
                height=part.get("height", 0),
                name=part.get("name", ""),
                detail=part.get("detail", ""),
                url=part.get("url", ""),
            )
        case "opaque":
            return Opaque(part["provider"], part["kind"], part["data"], part.get("model", ""))
        case other:
            raise ValueError(f"unknown part type {other!r}")


def from_dict(stored: Mapping[str, Any]) -> Message:
    """Return the message whose `to_dict` is `stored`.

    Raises KeyError or ValueError on anything else.
    """
    content = stored["content"]
    parts: tuple[Part, ...]
    if content is None:
        parts = ()
    elif isinstance(content, str):
        parts = (Text(content),)
    else:
        parts = tuple(_part_from_dict(part) for part in content)
    return Message(
        role=stored["role"],
        parts=parts,
        tool_calls=tuple(
            ToolCall(call["id"], call["name"], call["arguments"])
            for call in stored.get("tool_calls", ())
        ),
        tool_call_id=stored.get("tool_call_id"),
        name=stored.get("name"),
        failed=stored.get("failed", False),
    )


def _parts(content: tuple[str | Part, ...]) -> tuple[Part, ...]:
    return tuple(Text(item) if isinstance(item, str) else item for item in content if item != "")


def system(*content: str | Part) -> Message:
    """Return a system message."""
    return Message("system", _parts(content))


def user(*content: str | Part) -> Message:
    """Return a user message of texts and pictures."""
    return Message("user", _parts(content))


def assistant(*content: str | Part, calls: Sequence[ToolCall] = ()) -> Message:
    """Return an assistant message, with the tools it calls."""
    return Message("assistant", _parts(content), tool_calls=tuple(calls))


def tool(
    call: ToolCall | str, *content: str | Part, name: str | None = None, failed: bool = False
) -> Message:
    """Return the result of a tool call; `call` is the call or its id."""
    ident = call if isinstance(call, str) else call.id
    name = name if isinstance(call, str) else name or call.name
    return Message("tool", _parts(content), tool_call_id=ident, name=name, failed=failed)
