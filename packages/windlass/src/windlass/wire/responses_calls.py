"""Calls of OpenAI's Responses form besides functions, which the caller's loop answers itself.

Shells, patches, computers: each has arguments and an output in a shape of its own. Here they become
a tool call with its arguments, and a result with its texts; and the same items again, in the same
shape, whatever the texts have become. The shapes are those of SDK 3.54.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.errors import SequenceError
from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall
from windlass.safety.foreign import parse_json
from windlass.wire.base import Request
from windlass.wire.calls import CALL, opaque, picture_address, picture_of

PROVIDER: Final = "responses"
KEYS: Final = "keys"
"""Opaque kind: keys of the item that begins here: a message's, a result's."""
KEYS_OF_CALL: Final = "keys:"
"""Opaque kind: keys of a call's item; its number follows."""
WHOLE_ITEM: Final = "item:"
"""Opaque kind: a whole item; its type follows."""
_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "shell_call": ("action",),
    "local_shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions"),
}
"""The types of such calls, and where they say what is to be done."""
CALLS: Final = frozenset(_TASKS)
OUTPUTS: Final = frozenset(f"{kind}_output" for kind in _TASKS)
_STREAMS: Final = ("stdout", "stderr")
_LONG: Final = (*_STREAMS, "output", "result", "content", "text")
"""Keys under which programs put what a command printed into a JSON object."""
_IDS: Final = ("call_id", "id")
_PLACES: Final = "places"
"""The key of a shape under which it says where texts stand."""
_STYLES: Final[Sequence[Mapping[str, Any]]] = (
    {"ensure_ascii": False},
    {"ensure_ascii": True},
    {"ensure_ascii": False, "separators": (",", ":")},
    {"ensure_ascii": True, "separators": (",", ":")},
)
"""How programs write JSON."""
_DONE: Final = {"type": "exit", "exit_code": 0}
_FAILED: Final = {"type": "exit", "exit_code": 1}


def ident_of(item: Mapping[str, Any]) -> str:
    """Return the id by which a call and its output know each other (empty: none)."""
    return str(item.get("call_id") or item.get("id") or "")


# ---- calls ------------------------------------------------------------------------------


def read_call(given: Mapping[str, Any]) -> Message:
    """Return a call of one of these types as a reply that calls a tool.

    The tool is called as the type is: a `shell_call` calls `shell`.
    """
    kind, ident = str(given["type"]), ident_of(given)
    key = next((key for key in _TASKS[kind] if given.get(key) is not None), "")
    task = given.get(key, {})
    arguments = json.dumps(task if isinstance(task, Mapping) else {key: task}, ensure_ascii=False)
    held = {key: value for key, value in given.items() if key != "call_id"}
    return Message(
        "assistant",
        (opaque(PROVIDER, f"{KEYS_OF_CALL}0", held), Opaque(PROVIDER, CALL, "0")),
        (ToolCall(ident, kind.removesuffix("_call"), arguments),),
    )


def kind_of_call(caller: Message | None, ident: str | None) -> str:
    """Return the type of the item by which a reply makes the call with this id."""
    if caller is not None:
        numbers = {call.id: at for at, call in enumerate(caller.tool_calls)}
        name = f"{KEYS_OF_CALL}{numbers.get(ident or '', -1)}"
        for part in caller.parts:
            if isinstance(part, Opaque) and part.provider == PROVIDER and part.kind == name:
                return str(json.loads(part.data).get("type") or "function_call")
    return "function_call"


def check_missing(caller: Message, call: ToolCall, where: str) -> None:
    """Refuse a call without an output if none can be made up: no picture of a screen can."""
    kind = kind_of_call(caller, call.id)
    if kind == "computer_call":
        raise SequenceError(f"{where}: {kind} {call.id!r} before it has no {kind}_output")


# ---- outputs ----------------------------------------------------------------------------


def read_output(given: Mapping[str, Any], where: str) -> Message:
    """Give an output of one of these types as a tool's result; whole where its shape is not known.

    Raises SequenceError for a screenshot that is no picture.
    """
    kind, output, ident = str(given["type"]), given.get("output"), ident_of(given)
    texts: list[str] = []
    parts: list[Part] = []
    shape: Any = None
    failed = False
    match kind, output:
        case "shell_call_output", list() if all(map(_is_chunk, output)):
            shape = [
                {**chunk, **dict.fromkeys(_STREAMS, ""), _PLACES: _filled(chunk, _STREAMS)}
                for chunk in output
            ]
            texts = [chunk[key] for chunk in output for key in _filled(chunk, _STREAMS)]
            failed = any(_failed(chunk.get("outcome")) for chunk in output)
        case "local_shell_call_output", str():
            shape, texts = _read_json(output)
            failed = _failed(shape.get("object"))
        case "apply_patch_call_output", str() | None:
            texts = [output] if output else []
            failed = given.get("status") == "failed"
        case "computer_call_output", {"type": str(form), "image_url": str(url), **rest} if url:
            parts = [_read_screen(url, where)]
            shape = {"type": form, **rest}
        case _:
            return Message("tool", (opaque(PROVIDER, WHOLE_ITEM + kind, given),), (), ident)
    about = {
        "type": kind,
        "ids": [key for key in _IDS if given.get(key) == ident],
        "item": {
            key: value
            for key, value in given.items()
            if key not in ("type", "output") and not (key in _IDS and value == ident)
        },
        "shape": shape,
    }
    parts += [Text(text) for text in texts]
    return Message("tool", (opaque(PROVIDER, KEYS, about), *parts), (), ident, None, failed)


def write_output(message: Message, kind: str, request: Request) -> list[dict[str, Any]]:
    """Return a result as the output of a call of this type, in the shape that it came in."""
    about: dict[str, Any] = {}
    for part in message.parts:
        if isinstance(part, Opaque) and part.provider == PROVIDER:
            if part.kind.startswith(WHOLE_ITEM):
                return [json.loads(part.data)]
            if part.kind == KEYS and "shape" in (held := json.loads(part.data)):
                about = held
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    # The reference of a local shell's output says `id`, its guide `call_id`.
    ids = about.get("ids") or _IDS[: 2 if kind == "local_shell_call" else 1]
    item: dict[str, Any] = {"type": f"{kind}_output", **dict.fromkeys(ids, message.tool_call_id)}
    behind: list[dict[str, Any]] = []
    shape = about.get("shape")
    match kind:
        case "shell_call":
            item["output"] = _write_chunks(shape or [], texts, failed=message.failed)
        case "local_shell_call":
            item["output"] = _write_json(shape or {}, texts)
        case "apply_patch_call":
            item["status"] = "failed" if message.failed else "completed"
            item |= {"output": "\n".join(texts)} if texts else {}
        case _:
            screen = _write_screen(message, request)
            item["output"] = {"type": "computer_screenshot", **screen, **(shape or {})}
            if texts:  # which the output has no place for
                behind = [{"role": "user", "content": "\n".join(texts)}]
    return [item | about.get("item", {}), *behind]


def is_keys(part: Part) -> bool:
    """Return whether a part of a result is no content of it, but the keys of its item."""
    return isinstance(part, Opaque) and part.kind == KEYS


def shows_screen(message: Message) -> bool:
    """Return whether it is the output of a computer call, which cannot be without its picture."""
    return any(
        isinstance(part, Opaque) and is_keys(part) and '"computer_call_output"' in part.data
        for part in message.parts
    )


# ---- shells -----------------------------------------------------------------------------


def _is_chunk(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(k, ""), str) for k in _STREAMS)


def _filled(held: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Return those of the keys under which a text stands."""
    return [key for key in keys if isinstance(held.get(key), str) and held[key]]


def _failed(outcome: Any) -> bool:
    """Return whether an object tells of an exit code that is not 0, or of a timeout."""
    if not isinstance(outcome, Mapping):
        return False
    code = outcome.get("exit_code")
    failed = outcome.get("type") == "timeout" or (isinstance(code, int) and code != 0)
    return failed or _failed(outcome.get("metadata"))


def _write_chunks(
    shape: Sequence[Mapping[str, Any]], texts: Sequence[str], *, failed: bool
) -> list[dict[str, Any]]:
    """Give the chunks with the texts in their places; fewer texts stand for all chunks together."""
    places = [(at, key) for at, chunk in enumerate(shape) for key in chunk[_PLACES]]
    chunks = [{k: v for k, v in chunk.items() if k != _PLACES} for chunk in shape]
    if places and len(texts) >= len(places):
        *first, (last, key) = places
        for (at, stream), text in zip(first, texts, strict=False):
            chunks[at][stream] = text
        chunks[last][key] = "\n".join(texts[len(first) :])
        return chunks
    if not texts:
        return chunks
    outcomes = [chunk["outcome"] for chunk in chunks if chunk.get("outcome")]
    known = next(filter(_failed, outcomes), outcomes[-1] if outcomes else None)
    outcome = known or (_FAILED if failed else _DONE)
    return [{"stdout": "\n".join(texts), "stderr": "", "outcome": outcome}]


def _read_json(output: str) -> tuple[dict[str, Any], list[str]]:
    """Return the shape of an output that should be JSON, and its long texts.

    An object that can be written again byte for byte has places for them; of other JSON the
    shape says so, and any other text has none.
    """
    try:
        value = parse_json(output)
    except ValueError:
        return {}, [output] if output else []
    if isinstance(value, dict):
        strings = _filled(value, value)
        places = [key for key in strings if key in _LONG]
        places = places or sorted(strings, key=lambda key: -len(value[key]))[:1]
        for style, options in enumerate(_STYLES):
            if places and json.dumps(value, **options) == output:
                held = {**value, **dict.fromkeys(places, "")}
                texts = [value[key] for key in places]
                return {"object": held, _PLACES: places, "style": style}, texts
    return {"json": True}, [output]


def _write_json(shape: Mapping[str, Any], texts: Sequence[str]) -> str:
    """Return the output with the texts in their places; what was JSON stays JSON."""
    text = "\n".join(texts)
    if shape.get("object"):
        places = shape[_PLACES]
        if len(texts) < len(places):
            texts = [text]
        *first, last = places[: len(texts)]
        held = {**shape["object"], **dict(zip(first, texts, strict=False))}
        held[last] = "\n".join(texts[len(first) :])
        return json.dumps(held, **_STYLES[shape["style"]])
    if shape.get("json"):
        try:
            parse_json(text)
        except ValueError:
            return json.dumps(text, ensure_ascii=False)
    return text


# ---- computers --------------------------------------------------------------------------


def _read_screen(url: str, where: str) -> Picture:
    if not url.startswith("data:"):
        return Picture("", "", url=url)
    return picture_of(url.partition(",")[2], where, "screenshot")


def _write_screen(message: Message, request: Request) -> dict[str, str]:
    for part in message.pictures:
        return {"image_url": picture_address(part, request.load)}
    raise SequenceError(f"the output of computer call {message.tool_call_id!r} has no picture")
