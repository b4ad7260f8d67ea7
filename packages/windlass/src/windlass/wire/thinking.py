"""What models do with the signed thinking of their earlier replies, as data.

A Claude signs its thinking and wants it back. From some version of each family on, a block is bound
to everything before it: system prompt, tools and messages, thinking included. These models refuse a
request in which any of that differs. Older ones accept an outdated block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from windlass.messages import Message, Opaque, Text
from windlass.wire.editing import is_compaction

AS_OF: Final = "2026-11-24"
"""The day on which the facts of this module were gathered."""
_PAGES: Final = "platform.claude.com, docs, build-with-claude"


@dataclass(frozen=True, slots=True)
class ThinkingRules:
    """What thinking a model takes back, and which requests it refuses.

    `bound`: signed thinking is checked against everything before it. `read`: earlier thinking is
    accepted whatever happened to the messages before it. `open_round`: the thinking of an
    unfinished tool round must be sent back. `forces`: a tool can be forced by `tool_choice`.
    `disables`: thinking can be switched off. `notes`: it puts what it says between tool calls into
    thinking. `source` says where the facts are from.
    """

    bound: bool = False
    read: bool = False
    open_round: bool = False
    forces: bool = True
    disables: bool = True
    notes: bool = False
    source: str = ""


NO_THINKING: Final = ThinkingRules()
"""The rules of a model that signs nothing, as far as is known."""
BOUND: Final = ThinkingRules(bound=True)
"""The rules of a model that refused thinking because something before it had changed."""

_BOUND_FROM: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    # build-with-claude/preserved-thinking and its page on prefix checks; the what's-new pages of
    # Fable 5.2, Opus 5.5, Sonnet 5.5 and Haiku 5.5.
    {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (5, 5)}
)
_FORCES_UNTIL: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    # The same pages: `tool_choice` any and tool answer 400 from here on; Haiku takes them.
    {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5), "haiku": (99, 0)}
)
_DISABLES_UNTIL: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    # The same pages: `thinking: disabled` answers 400 from here on.
    {"fable": (0, 0), "mythos": (0, 0), "opus": (5, 5), "sonnet": (5, 5), "haiku": (99, 0)}
)
_NOTES_FROM: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    # The what's-new pages of Opus 5.5 and Sonnet 5.5; nothing of the kind on the others'.
    {"fable": (99, 0), "mythos": (99, 0), "opus": (5, 5), "sonnet": (5, 5), "haiku": (99, 0)}
)
_READ_FROM: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    # build-with-claude/context-editing: earlier thinking is kept as input from here on; older
    # ones and Haiku keep that of the last turn.
    {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 5), "sonnet": (4, 6), "haiku": (99, 0)}
)
_NAME: Final = re.compile(
    r"claude-(?:(?P<family>[a-z]+)-)?(?P<major>\d)(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"(?:-(?P<behind>opus|sonnet|haiku))?"
)
_NEWEST: Final = (99, 0)


def claude_version(model: str) -> tuple[int, int]:
    """Return the version of a Claude; a name without one counts as the newest, which refuses most.

    >>> claude_version("claude-sonnet-4-5-20250929"), claude_version("claude-3-5-haiku-latest")
    ((4, 5), (3, 5))
    """
    named = _NAME.search(model)
    return (int(named["major"]), int(named["minor"] or 0)) if named else _NEWEST


def thinking_rules(model: str) -> ThinkingRules:
    """Give the rules of a model by its name, at whatever provider; NO_THINKING for other vendors'.

    A family or a version that is not known counts as the newest.

    >>> thinking_rules("claude-opus-5-5").bound, thinking_rules("claude-opus-5").bound
    (True, False)
    """
    if "claude" not in model:
        return NO_THINKING
    named, version = _NAME.search(model), claude_version(model)
    family = (named["family"] or named["behind"] or "" if named else "") or "opus"
    known = family if family in _BOUND_FROM else "opus"
    bound = version >= _BOUND_FROM[known]
    return ThinkingRules(
        bound=bound,
        read=not bound and version >= _READ_FROM[known],
        open_round=not bound,
        forces=version < _FORCES_UNTIL[known],
        disables=version < _DISABLES_UNTIL[known],
        notes=version >= _NOTES_FROM[known],
        source=f"{_PAGES}, {AS_OF}",
    )


_REFUSAL: Final = re.compile(r"Invalid .?signature.? in .?(redacted_)?thinking|block is bound to a")
"""Anthropic's refusals of changed thinking, and of thinking whose context changed."""


def refuses_thinking(text: str) -> bool:
    """Return whether a provider's refusal is about thinking in the request."""
    return _REFUSAL.search(text) is not None


def takes_choice(model: str, choice: str) -> bool:
    """Say whether a model accepts a `tool_choice`: some always decide themselves whether to call.

    >>> takes_choice("anthropic/claude-opus-5-5", "required"), takes_choice("openai/x", "look")
    (False, True)
    """
    return choice in ("auto", "none") or thinking_rules(model).forces


def drops_thinking(model: str, effort: str | None, choice: str) -> bool:
    """Return whether a request to a model can ask for thinking that no longer fits to be dropped.

    That needs thinking to be on: not switched off by `effort`, nor by a forced `choice`.
    """
    rules = thinking_rules(model)
    off = effort == "none" and rules.disables
    forced = choice not in ("auto", "none") and rules.forces
    return rules.bound and not off and not forced


_BLOCKS: Final = ("thinking", "redacted_thinking")
_IN_CHAT: Final = ("key:reasoning_details", "key:thinking_blocks")
"""Keys of a chat message in which routers hand a Claude's thinking on."""


def is_thinking(part: object) -> bool:
    """Return whether a part of a message is signed thinking of a Claude, in any of the forms."""
    if not isinstance(part, Opaque):
        return False
    return part.kind.removeprefix("part:") in _BLOCKS or part.kind in _IN_CHAT


def is_note(part: Opaque) -> bool:
    """Return whether a part is thinking in which its model tells the user what it does, and why."""
    if part.kind != "thinking" or not thinking_rules(part.model).notes:
        return False
    block = json.loads(part.data)
    return bool(str(block.get("thinking") or "").strip())


def thinks(message: Message) -> bool:
    """Return whether a message carries signed thinking."""
    return message.role == "assistant" and any(map(is_thinking, message.parts))


_ALONE: Final = "[thinking, left out]"


def without_thinking(message: Message) -> Message:
    """Return the message without its signed thinking; one of thinking alone says so."""
    parts = tuple(part for part in message.parts if not is_thinking(part))
    said = message.tool_calls or any(
        not isinstance(part, Opaque) or is_compaction(part) for part in parts
    )
    return message.with_parts(*parts, *(() if said else (Text(_ALONE),)))
