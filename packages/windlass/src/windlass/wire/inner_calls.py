"""Calls that stand in opaque parts: of tools that a provider runs, and of programs that it runs.

Their results stand in opaque parts, too: in the same reply, in a later one, or in an item of their
own. Anthropic names them `…_tool_use` and `…_tool_result`; in OpenAI's Responses form every item
with a `call_id` is a call, or the output of one if its type ends so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windlass.messages import Message, Opaque, Part
from windlass.wire.thinking import is_thinking

_USE: Final = "_tool_use"
_RESULT: Final = "_tool_result"
_ITEM: Final = "item:"
_APPROVAL: Final = "mcp_approval_request"


def calls_made(message: Message) -> Iterator[str]:
    """Yield the ids of the calls in the opaque parts of a message."""
    for part in message.parts:
        if isinstance(part, Opaque):
            if use := _use(part):
                yield use
            elif part.kind.startswith(_ITEM) and not part.kind.endswith("_output"):
                yield from _texts(part, "id" if part.kind.endswith(_APPROVAL) else "call_id")


def calls_named(message: Message) -> Iterator[str]:
    """The ids of the calls that opaque parts of a message answer, or that made its own calls."""
    for part in message.parts:
        if not isinstance(part, Opaque):
            continue
        if answered := _answered(part):
            yield answered
        elif part.kind.startswith(_ITEM):
            yield from _texts(part, "call_id")
            yield from _texts(part, "approval_request_id")
        if '"caller"' in part.data:
            held = json.loads(part.data)
            caller = held.get("caller") if isinstance(held, Mapping) else None
            ids = map(caller.get, ("caller_id", "tool_id")) if isinstance(caller, Mapping) else ()
            yield from (id_ for id_ in ids if isinstance(id_, str))


def _texts(part: Opaque, key: str) -> Iterator[str]:
    """Yield the text under a key of the object that a part holds, if there is one."""
    held = json.loads(part.data) if f'"{key}"' in part.data else {}
    if isinstance(held, Mapping) and isinstance(held.get(key), str):
        yield held[key]


def _use(part: Part) -> str:
    """Return the id of a call to a tool that Anthropic runs; empty for any other part."""
    if not isinstance(part, Opaque) or part.provider != "anthropic":
        return ""
    return str(json.loads(part.data).get("id") or "") if part.kind.endswith(_USE) else ""


def _answered(part: Part) -> str:
    """Give the id of the call whose result Anthropic put into a part; empty for any other part."""
    if not isinstance(part, Opaque) or part.provider != "anthropic":
        return ""
    is_result = part.kind.endswith(_RESULT)
    return str(json.loads(part.data).get("tool_use_id") or "") if is_result else ""


def waits(reply: Message) -> bool:
    """Return whether Anthropic goes on with a reply as it is: see `is_paused`."""
    blocks: list[dict[str, Any]] = []
    for part in reply.parts:
        if not isinstance(part, Opaque):
            blocks.append({"type": "text"})
        elif part.kind.endswith((_USE, _RESULT, "thinking")):
            blocks.append(json.loads(part.data))
    return is_paused(blocks) and not reply.tool_calls


def is_paused(blocks: list[dict[str, Any]]) -> bool:
    """Return whether Anthropic goes on with a reply that ends in these blocks as it is.

    It ends with a tool that has yet to run, or with the result of one. A word of the user's behind
    it is refused, or makes another turn of it.
    """
    answered = {b.get("tool_use_id") for b in blocks if str(b["type"]).endswith(_RESULT)}
    is_open = any(str(b["type"]).endswith(_USE) and b.get("id") not in answered for b in blocks)
    return is_open or bool(blocks and str(blocks[-1]["type"]).endswith(_RESULT))


@dataclass(frozen=True, slots=True)
class Revision:
    """What an earlier message became: `message` (None: it is left out), and why."""

    ident: str
    message: Message | None
    reason: str


class ServerTools:
    """Follows a list, so that no message parts a call of Anthropic's from its result.

    A call that has no result when a user speaks, or when another reply goes on, is left out. If
    its result comes later, the call stands in front of it. A result without any call is left out.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, Opaque]] = {}
        """The calls without results: in which message they stand, and their parts."""
        self._lost: dict[str, Opaque] = {}
        """The calls that were left out."""
        self._shown: dict[str, Message] = {}
        """The messages of the open calls, as they are sent."""
        self._used: set[str] = set()
        """The calls so far."""
        self._resumed = False
        """Whether results of the caller's tools stand behind the last reply."""

    def mended(self, reply: Message) -> tuple[Message, list[str]]:
        """Return a reply with each result behind its call, and what was changed in it."""
        waiting, used = set(self._open), set(self._used)
        parts: list[Part] = []
        changes: list[str] = []
        for part in reply.parts:
            if use := _use(part):
                if use in used:
                    changes.append(f"another call {use!r} is left out")
                    continue
                used.add(use)
                waiting.add(use)
            if (id_ := _answered(part)) and id_ not in waiting:
                if id_ not in self._lost:
                    changes.append(f"a result of {id_!r}, which no call waits for, is left out")
                    continue
                parts.append(self._lost.pop(id_))
                changes.append(f"call {id_!r} stands here, before its result")
            waiting.discard(id_)
            parts.append(part)
        return (reply.with_parts(*parts) if changes else reply), changes

    def replied(self, ident: str, reply: Message) -> list[Revision]:
        """Take a reply; return what becomes of those before it."""
        own = {
            id_: part for part in reply.parts if isinstance(part, Opaque) and (id_ := _use(part))
        }
        self._used.update(own)
        for id_ in filter(None, map(_answered, reply.parts)):
            self._open.pop(id_, None)
            own.pop(id_, None)
        # A program of the provider's may go on asking for results of the caller's tools.
        goes_on = self._resumed and bool(reply.tool_calls)
        revised = [] if goes_on else self._closed("the next reply came")
        self._resumed = False
        self._open |= {id_: (ident, part) for id_, part in own.items()}
        if own:
            self._shown[ident] = reply
        return revised

    def resulted(self) -> None:
        """Take a result of the caller's own tools: Anthropic goes on with its own behind it."""
        self._resumed = True

    def spoke(self) -> list[Revision]:
        """Take a user's message; return what becomes of the replies before it."""
        return self._closed("a user spoke")

    def _closed(self, when: str) -> list[Revision]:
        """Return the replies without the calls that have no result."""
        left_out: dict[str, list[str]] = {}
        for id_, (ident, part) in self._open.items():
            self._lost[id_] = part
            left_out.setdefault(ident, []).append(repr(id_))
            kept = [one for one in self._shown[ident].parts if one is not part]
            self._shown[ident] = self._shown[ident].with_parts(*kept)
        revised = [
            Revision(
                ident,
                _without_end(self._shown[ident]),
                f"{', '.join(ids)} of the provider's tools had no result when {when}: left out",
            )
            for ident, ids in left_out.items()
        ]
        self._open, self._shown = {}, {}
        return revised


def _without_end(reply: Message) -> Message | None:
    """Return the reply without thinking at its end, which nothing follows.

    None where nothing is left.
    """
    parts = [*reply.parts]
    while parts and not reply.tool_calls and is_thinking(parts[-1]):
        parts.pop()
    said = [p for p in parts if not (isinstance(p, Opaque) and p.kind.startswith(("key:", "with")))]
    return reply.with_parts(*parts) if said or reply.tool_calls else None


def with_whole_pairs(messages: Sequence[Message]) -> list[Message]:
    """The messages without calls of Anthropic's that another message parts from their results."""
    tools = ServerTools()
    shown: list[Message | None] = []
    for at, message in enumerate(messages):
        revised: list[Revision] = []
        if message.role == "assistant":
            message, _ = tools.mended(message)  # noqa: PLW2901
            revised = tools.replied(str(at), message)
        elif message.role == "tool":
            tools.resulted()
        elif not message.is_system:
            revised = tools.spoke()
        for one in revised:
            shown[int(one.ident)] = one.message
        shown.append(message)
    return [message for message in shown if message is not None]
