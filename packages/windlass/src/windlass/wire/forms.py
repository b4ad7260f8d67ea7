"""Which form a list of messages has: OpenAI chat, OpenAI Responses, Anthropic's or Gemini's.

The forms themselves are read and written beside their formats. An object that looks the same in all
of them (a role and a text) does not show its form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque
from windlass.wire.calls import file_for

FormName: TypeAlias = Literal["openai", "responses", "anthropic", "gemini"]

TITLES: Final[Mapping[str, str]] = {
    "openai": "OpenAI's chat form",
    "responses": "OpenAI's Responses form",
    "anthropic": "Anthropic's form",
    "gemini": "Gemini's form",
}
MODULES: Final[Mapping[str, str]] = {
    "openai": "windlass.wire.openai_chat",
    "responses": "windlass.wire.openai_responses",
    "anthropic": "windlass.wire.anthropic",
    "gemini": "windlass.wire.gemini",
}
"""The modules that write requests in a form and read the answers to them."""
LIST_MODULES: Final[Mapping[str, str]] = {
    **MODULES,
    "openai": "windlass.wire.chat_lists",
    "anthropic": "windlass.wire.anthropic_lists",
    "gemini": "windlass.wire.gemini_lists",
}
"""The modules that read and write lists of messages in a form."""
_CHAT_KEYS: Final = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal"})
_PARTS: Final[Mapping[str, FormName]] = {
    **dict.fromkeys(("image_url", "input_audio", "file", "video_url"), "openai"),
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), "responses"),
    **dict.fromkeys(
        (
            *("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"),
            *("compaction", "search_result", "container_upload"),
        ),
        "anthropic",
    ),
}
_OF_SERVER_TOOLS: Final = ("_tool_use", "_tool_result")
"""How the types of Anthropic's blocks end that hold a call of its own tools, or the result."""
_UNSENT: Final = ("with", "call", "keys", "key:is_error")
"""Kinds of opaque parts that mark a place, or repeat what the message already says."""
_ASIDE: Final = ("key:", "thinking", "redacted_thinking", "item:reasoning", "part:refusal")
"""Kinds of opaque parts that one provider wants back and that mean nothing to another."""


@dataclass(frozen=True, slots=True)
class ListReading:
    """The messages that an object of a list holds, and what was repaired in it.

    `joins`: it continues the assistant's message before it, if nothing comes between.
    """

    messages: tuple[Message, ...]
    mended: tuple[str, ...] = ()
    joins: bool = False


class ListReader(Protocol):
    """Reads the objects of one list, in order."""

    def read(self, given: Mapping[str, Any], where: str) -> ListReading:
        """Return the next object. Raises SequenceError for what the provider refuses."""
        ...


class ListForm(Protocol):
    """A form of lists. The modules of the formats fill it."""

    NOT_SENT: frozenset[str]
    """Keys of an object that are Windlass's own, or that only answers have."""

    def list_reader(self) -> ListReader:
        """Return a reader of one list."""
        ...

    def side(self, message: Message) -> str | None:
        """Return whose turn a message belongs to; neighbours of one side are written together.

        None: it is written on its own.
        """
        ...

    def write(
        self, messages: Sequence[Message], caller: Message | None = None
    ) -> list[dict[str, Any]]:
        """Return messages of one side in this form; results of them answer calls of `caller`."""
        ...

    def opening(self) -> list[dict[str, Any]]:
        """Return what stands before a list that begins with the assistant (empty: nothing)."""
        ...


def form_of(given: Mapping[str, Any]) -> FormName | None:
    """Return the form of one object of a list; None if it looks the same in several forms."""
    if "parts" in given or given.get("role") == "model":
        return "gemini"
    kind = given.get("type")
    if isinstance(kind, str) and "role" not in given:
        return "responses"
    if given.get("role") in ("tool", "function") or not _CHAT_KEYS.isdisjoint(given):
        return "openai"
    content = given.get("content")
    for part in content if isinstance(content, list) else ():
        type_ = str(part.get("type")) if isinstance(part, Mapping) else ""
        is_own = type_.endswith(_OF_SERVER_TOOLS) or (type_ == "text" and "citations" in part)
        form = "anthropic" if is_own else _PARTS.get(type_)
        if form is not None:
            return form
    if kind == "message":
        return "anthropic" if "stop_reason" in given or "model" in given else "responses"
    return None


def form_of_list(messages: Iterable[Any]) -> FormName | None:
    """Return the form of the first object that shows one."""
    return next(
        (form for one in messages if isinstance(one, Mapping) and (form := form_of(one))), None
    )


# ---- objects of SDKs ------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """Return the value with SDK objects replaced by their dumps.

    The value itself if it holds none.
    """
    if isinstance(value, str) or value is None:
        return value
    if _is_object(value):
        try:
            # As its SDK writes it: the nulls that a vendor gave go back, as thinking may be bound
            # to them; Google's leaves out all.
            own = {"exclude_none": True} if _is_googles(value) else {"exclude_unset": True}
            dumped = value.model_dump(mode="json", by_alias=True, **own)
        except TypeError:  # somebody's own class, without pydantic's options
            return as_json(_without_none(value.model_dump()))
        return _without_none(dumped)
    if isinstance(value, Mapping):
        fields = {key: as_json(one) for key, one in value.items()}
        return value if all(fields[key] is value[key] for key in fields) else fields
    if isinstance(value, list | tuple):
        items = [as_json(one) for one in value]
        return value if all(map(_is_same, items, value)) else items
    return value


def _is_googles(value: object) -> bool:
    return type(value).__module__.startswith("google.")


def _is_same(new: Any, old: Any) -> bool:
    return new is old


def _without_none(dumped: Any) -> Any:
    if not isinstance(dumped, Mapping):
        return dumped
    return {key: value for key, value in dumped.items() if value is not None}


def has_objects(given: Any) -> bool:
    """Return whether an object of a list is an SDK object, or holds some in the usual places."""
    if type(given) is not dict:
        return _is_object(given)
    for value in given.values():
        if type(value) is list:
            for one in value:
                if type(one) is dict:
                    inner = one.get("content")
                    if type(inner) is list and any(map(_is_object, inner)):
                        return True
                elif _is_object(one):
                    return True
        elif _is_object(value):
            return True
    return False


def _is_object(value: Any) -> bool:
    return type(value) not in _PLAIN and callable(getattr(value, "model_dump", None))


_PLAIN: Final = frozenset({str, dict, list, int, float, bool, type(None)})


# ---- what has no place in another form -------------------------------------------------------


def aside(message: Message) -> tuple[str, ...]:
    """Return the names, in order, of the parts that only the message's own form has a place for."""
    names = [
        part.kind.removeprefix("key:").removeprefix("item:")
        for part in message.parts
        if isinstance(part, Opaque) and not part.kind.startswith(_UNSENT) and _is_aside(part)
    ]
    return tuple(dict.fromkeys(names))


def _is_aside(part: Opaque) -> bool:
    return part.kind.startswith(_ASIDE) or (part.provider == "gemini" and '"thought' in part.data)


def check_places(message: Message, target: str, where: str, first: int = 0) -> None:
    """Refuse parts that a form has no place for.

    `first` is the number of the message's first part in the object that it came in. Raises
    SequenceError naming message and part.
    """
    at = first
    for part in message.parts:
        if isinstance(part, Opaque):
            if part.kind.startswith((*_UNSENT, "key:")):
                continue
            has_place = part.provider == target or file_for(part, target, message.role) is not None
            if not has_place and not _is_aside(part):
                kind = part.kind.rpartition(":")[2]
                if kind == "part":  # of Gemini's, which are named by what they hold
                    kind = next(iter(json.loads(part.data)))
                raise SequenceError(
                    f"{where}, part {at}: {kind!r} of {TITLES.get(part.provider, part.provider)}"
                    f" has no place in {TITLES[target]}"
                )
        at += 1
