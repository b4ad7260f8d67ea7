"""What Anthropic's newest models refuse of signed thinking, over a whole conversation.

Written from build-with-claude/preserved-thinking and its page on prefix checks. A signed block is
bound to all that stood before it when it came: system prompt, tools and messages, and the thinking
blocks among them. It is valid as long as all that is what it was, and as long as the thinking
before it is the end of what it was: blocks may be taken away from the front, or all of them, but
not from the middle, and none comes back.

Cache marks are no content, a text may stand as a string or as one text block, messages of one role
in a row count as one, and the order of JSON keys says nothing. Everything else does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CONTROLS = "thinking-binding-controls-2026-08-01"
"""The value of `anthropic-beta` that makes `block_binding` a field of the API."""

_DROP = "drop_block"
_DIFFERENT = "The block is bound to a different conversation."
_WAY_OUT = (
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
_WITHOUT_HEADER = f"That setting requires the `{CONTROLS}` value in the `anthropic-beta` header."
_CHANGED = "Content before this block differs from when it was created, first at"


@dataclass(frozen=True)
class _Piece:
    """A block of a request: `said` is a digest of it, `thinking` names it if it is signed."""

    path: str
    said: str
    thinking: str = ""
    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Prefix:
    """What stands before a block."""

    system: str
    tools: tuple[str, ...]
    said: tuple[str, ...]
    thinking: tuple[str, ...]


@dataclass(frozen=True)
class _Request:
    """A request by its blocks. `tools` are named by the name that defers them, if one does."""

    system: str
    tools: Sequence[tuple[str, str]]
    pieces: Sequence[_Piece]

    def before(self, at: int, thinking: Sequence[str]) -> _Prefix:
        """What stands before the block number `at`, of which `thinking` is read."""
        pieces = self.pieces[:at]
        named = frozenset[str]().union(*(piece.named for piece in pieces))
        return _Prefix(
            self.system,
            # A deferred tool is no part of the prompt before something names it.
            tuple(said for name, said in self.tools if not name or name in named),
            tuple(piece.said for piece in pieces if not piece.thinking),
            tuple(thinking),
        )


@dataclass(frozen=True)
class Read:
    """What a model reads of a request: the paths of the blocks that are dropped, else why not."""

    error: str | None = None
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def transformations(self) -> list[dict[str, str]]:
        """`input_transformations` as the answer tells them."""
        reason = "prefix_binding_mismatch"
        return [
            {"type": "thinking_dropped", "path": path, "reason": reason} for path in self.dropped
        ]


@dataclass
class Thinking:
    """The signed blocks that one account was answered with, each with what stood before it."""

    bound: dict[str, _Prefix] = field(default_factory=dict)

    def note(
        self, body: Mapping[str, Any], answer: Sequence[Mapping[str, Any]], beta: str = ""
    ) -> None:
        """The request `body` was answered with the blocks of `answer`."""
        thinking = list(self.read(body, beta).kept)
        # The blocks of an answer come one by one, each after those before it.
        messages = [*body["messages"], {"role": "assistant", "content": list(answer)}]
        request = _request({**body, "messages": messages})
        begun = len(request.pieces) - len(answer)
        for at, piece in enumerate(request.pieces[begun:], begun):
            if piece.thinking:
                self.bound[piece.thinking] = request.before(at, thinking)
                thinking.append(piece.thinking)

    def check(self, body: Mapping[str, Any], beta: str = "") -> str | None:
        """The API's error text about the earliest block that fails; None: all is well.

        `beta` is the value of the header `anthropic-beta`.
        """
        return self.read(body, beta).error

    def read(self, body: Mapping[str, Any], beta: str = "") -> Read:
        """What a model reads of the signed blocks of a request."""
        setting = body.get("thinking") or {}
        if (wrong := _setting_error(setting, beta)) is not None:
            return Read(wrong)
        drops = (setting.get("block_binding") or {}).get("prefix_mismatch_behavior") == _DROP
        request = _request(body)
        kept: list[str] = []
        dropped: list[str] = []
        for at, piece in enumerate(request.pieces):
            if not piece.thinking:
                continue
            if piece.thinking not in self.bound:
                return Read(f"{piece.path}: {_signature(piece)}")
            came = self.bound[piece.thinking]
            first = _difference(came, request.before(at, kept), request.pieces[: at + 1])
            if first is None:
                kept.append(piece.thinking)
            elif drops:
                dropped.append(piece.path)
            else:
                way_out = _WAY_OUT if CONTROLS in beta else f"{_WAY_OUT} {_WITHOUT_HEADER}"
                told = f"{_signature(piece)} {_DIFFERENT} {way_out} {_CHANGED} {first}."
                return Read(f"{piece.path}: {told}")
        return Read(None, tuple(dropped), tuple(kept))


def _setting_error(setting: Mapping[str, Any], beta: str) -> str | None:
    if "block_binding" not in setting:
        return None
    kind = str(setting.get("type"))
    if CONTROLS not in beta:
        return f"thinking.{kind}.block_binding: Extra inputs are not permitted"
    if kind == "between_tools":
        return "thinking.between_tools.block_binding: Extra inputs are not permitted"
    behavior = (setting["block_binding"] or {}).get("prefix_mismatch_behavior")
    if behavior not in ("error", _DROP):
        return (
            f"thinking.{kind}.block_binding.prefix_mismatch_behavior: Input should be 'error'"
            " or 'drop_block'"
        )
    return None


def _signature(piece: _Piece) -> str:
    kind = piece.thinking.partition(":")[0]
    held = "data" if kind == "redacted_thinking" else "signature"
    return f"Invalid `{held}` in `{kind}` block."


def _difference(came: _Prefix, now: _Prefix, whole: Sequence[_Piece]) -> str | None:
    """Where what stands before a block, the last of `whole`, is first not what it was."""
    if came.tools != now.tools:
        return "the `tools` list"
    if came.system != now.system:
        return "the `system` prompt"
    if came.said != now.said:
        same = _same(came.said, now.said)
        others = [piece for piece in whole[:-1] if not piece.thinking]
        return f"`{others[same].path if same < len(others) else whole[-1].path}`"
    standing = len(now.thinking)
    if standing and came.thinking[-standing:] != now.thinking:
        same = _same(came.thinking[::-1], now.thinking[::-1])
        path = next(
            piece.path for piece in whole if piece.thinking == now.thinking[standing - 1 - same]
        )
        return f"`{path}`"
    return None


def _same(some: Sequence[str], others: Sequence[str]) -> int:
    """How many of two lists are the same at their beginning."""
    at = 0
    while at < min(len(some), len(others)) and some[at] == others[at]:
        at += 1
    return at


# ---- what a request says ----------------------------------------------------------------


def _request(body: Mapping[str, Any]) -> _Request:
    return _Request(
        _digest([_bare(block) for block in _blocks(body.get("system") or [])]),
        [
            (str(one.get("name")) if one.get("defer_loading") else "", _digest(_bare(one)))
            for one in body.get("tools") or []
        ],
        _pieces(body["messages"]),
    )


def _pieces(messages: Sequence[Mapping[str, Any]]) -> list[_Piece]:
    """The blocks of all messages, one after the other: messages of one role flow together."""
    found = []
    for at, message in enumerate(messages):
        role = str(message["role"])
        more = {
            key: value
            for key, value in message.items()
            if key not in ("role", "content", "cache_control")
        }
        blocks = _blocks(message["content"])
        for number, block in enumerate(blocks):
            path = f"messages.{at}.content.{number}"
            kind = block.get("type")
            if kind in ("thinking", "redacted_thinking"):
                held = block.get("signature" if kind == "thinking" else "data")
                found.append(_Piece(path, "", f"{kind}:{held}"))
                continue
            # Keys of the message itself stand with its last block.
            last = [more] if more and number == len(blocks) - 1 else []
            said = _digest([role, _bare(block), *last])
            found.append(_Piece(path, said, named=frozenset(_named(block))))
    return found


def _named(block: Mapping[str, Any]) -> Iterator[str]:
    """The tools that a block names."""
    if block.get("type") == "tool_use":
        yield str(block.get("name"))
    if block.get("type") == "tool_reference":
        yield str(block.get("tool_name"))
    inner = block.get("content")
    for one in inner if isinstance(inner, list) else []:
        yield from _named(one)


def _blocks(content: Any) -> Sequence[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block without cache marks, inside and out; the input of a tool has none."""
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(inner := block.get("content"), list):
        bare["content"] = [_bare(one) for one in inner]
    return bare


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
