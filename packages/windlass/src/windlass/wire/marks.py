"""Cache marks in the providers' words: set where a request says, with nothing else changed.

Anthropic takes `cache_control` on a block, but not on thinking, and with `ttl` for an hour; those
for an hour stand before the others. OpenAI since GPT-5.6 `prompt_cache_breakpoint` on a part of a
system, user or tool message's content, and routers `cache_control` there for the models of vendors
who want that. `caching/provider_rules.py` says which it is.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from windlass.caching.provider_rules import Mark, cache_rules
from windlass.messages import Message, Opaque, Part, Picture, Text
from windlass.wire.base import Request
from windlass.wire.calls import CALL, is_foreign

_EPHEMERAL: Final[Mapping[str, str]] = {"type": "ephemeral"}
_HOUR: Final[Mapping[str, str]] = {"type": "ephemeral", "ttl": "1h"}
_EXPLICIT: Final[Mapping[str, str]] = {"mode": "explicit"}
_WITH: Final = "with"
"""The opaque kind by which a part of chat content has further keys; see `openai.py`."""


def _places(request: Request) -> dict[int, set[int]]:
    places: dict[int, set[int]] = {}
    for message, part in request.breakpoints:
        places.setdefault(message, set()).add(part)
    return places


# ---- Anthropic --------------------------------------------------------------------------


def mark_blocks(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of `/v1/messages` with its marks.

    Places that cannot be marked are skipped.
    """
    places = _places(request)
    if not places:
        return body
    if tools := body.get("tools"):
        for part in places.get(-1, ()):
            if part < len(tools):
                tools[part]["cache_control"] = _control(request, (-1, part))
    blocks = [*body.get("system", ()), *(b for turn in body["messages"] for b in turn["content"])]
    start, head, opened = 0, True, False
    for at, message in enumerate(request.messages):
        head = head and message.is_system
        count = len(_yielding(message, request)) + len(message.tool_calls)
        if message.role == "tool":
            count = 1
        if count and not head and not opened:
            opened = True
            # Behind what is said for the user, if anything is.
            start += message.role == "assistant" and body["messages"][0]["role"] == "user"
        own = blocks[start : start + count]
        start += count
        for part in places.get(at, ()):
            block = _block(message, own, part, request)
            if block is not None:
                block["cache_control"] = _control(request, (at, part))
    return body


def _control(request: Request, place: tuple[int, int]) -> dict[str, str]:
    return dict(_HOUR if place in request.long_breakpoints else _EPHEMERAL)


def block_parts(message: Message) -> list[int]:
    """Get the parts of a message in Anthropic's list form, one for each block that it is, in order.

    A call's part is its number behind the parts; a result is one block, known by its last part.
    """
    if message.role == "tool":
        return [max(0, len(message.parts) - 1)]
    request, calls = Request("", (message,), 1), len(message.parts)
    placed: list[int] = []
    for at, part in enumerate(message.parts):
        if isinstance(part, Opaque) and part.kind == CALL:
            placed.append(calls + int(part.data))
        elif _yields(message, part, request):
            placed.append(at)
    behind = range(calls, calls + len(message.tool_calls))
    return [*placed, *(at for at in behind if at not in placed)]


def content_parts(message: Message) -> list[int]:
    """Return the parts of a message in chat form that its content holds, in order.

    Other keys of a chat dict also travel as parts.
    """
    return [
        at
        for at, each in enumerate(message.parts)
        if not isinstance(each, Opaque) or each.kind.startswith("part:")
    ]


def _yielding(message: Message, request: Request) -> list[int]:
    """Return the parts of a message that become a block of their own."""
    return [at for at, part in enumerate(message.parts) if _yields(message, part, request)]


def _yields(message: Message, part: Part, request: Request) -> bool:
    match part:
        case Text(text):
            return bool(text.strip())
        case Picture():
            return True
        case Opaque(kind=kind):
            own = not message.is_system and not is_foreign(part, "anthropic", request.model)
            return own and kind != CALL and not kind.startswith(("with", "key:"))


def _block(
    message: Message, own: list[dict[str, Any]], part: int, request: Request
) -> dict[str, Any] | None:
    """Return the block that a part of a message became, if it can be marked."""
    if message.role == "tool":
        return own[0]
    call = part - len(message.parts)
    if call >= 0:
        called = [block for block in own if block["type"] == "tool_use"]
        return called[call] if call < len(called) else None
    yielding = _yielding(message, request)
    if part not in yielding:
        return None
    spoken = [block for block in own if block["type"] != "tool_use"]
    block = spoken[yielding.index(part)]
    return None if str(block["type"]).endswith("thinking") else block


# ---- chat form --------------------------------------------------------------------------


def mark_key(model: str) -> Mark | None:
    """Return the key of a mark for `model`; a router's models begin with their vendor."""
    if "/" not in model:  # at a server whose vendor its provider's name alone tells
        marks = (cache_rules(vendor, model).mark for vendor in ("openai", "vertex_ai", "qwen"))
        return next(filter(None, marks), None)
    return cache_rules("openrouter", model).mark or cache_rules("litellm", model).mark


def marked(request: Request) -> tuple[Message, ...]:
    """Return the messages with their marks as extra keys of the marked parts."""
    key = mark_key(request.model) if request.breakpoints else None
    if key is None:
        return request.messages
    explicit = key == "prompt_cache_breakpoint"
    messages = list(request.messages)
    for at, parts in _places(request).items():
        if not 0 <= at < len(messages) or messages[at].role == "assistant":
            continue
        message = messages[at]
        takes = [n for n in parts if n < len(message.parts) and _takes(message, message.parts[n])]
        if takes:
            parts_with_marks: list[Part] = []
            for n, part in enumerate(message.parts):
                parts_with_marks.append(part)
                if n in takes:
                    value = dict(_EXPLICIT) if explicit else _control(request, (at, n))
                    parts_with_marks.append(Opaque("openai", _WITH, json.dumps({key: value})))
            messages[at] = replace(message, parts=tuple(parts_with_marks))
    return tuple(messages)


def _takes(message: Message, part: Part) -> bool:
    """Return whether a part can be marked: text that is not empty, and a picture of the user's."""
    if isinstance(part, Text):
        return bool(part.text.strip())
    return isinstance(part, Picture) and message.role == "user"


def in_chat(message: Message, part: int) -> int:
    """Return the part of a message in chat form: parts of its content, then its calls."""
    content = content_parts(message)
    if part >= len(message.parts):
        return len(content) + part - len(message.parts)
    return max(0, bisect_left(content, part + 1) - 1)


def mark_keys(request: Request) -> dict[str, Any]:
    """Return the keys of a body for its marks and its cache key."""
    keys: dict[str, Any] = {}
    if request.cache_key is not None:
        keys["prompt_cache_key"] = request.cache_key
    if request.breakpoints and mark_key(request.model) == "prompt_cache_breakpoint":
        # Else OpenAI sets one mark of its own, in place of one of the four.
        keys["prompt_cache_options"] = dict(_EXPLICIT)
    return keys
