"""Blocks to messages: one assembler, one order.

    selective:        system, input, sources in their order, the phase's own messages
    snowball, start:  system, sources, all that was said before, the phase's own
    snowball, end:    system, all that was said before, sources, the phase's own

The user context, where injectors bring one, stands behind the system prompt. The phase's own
messages begin with its instructions. There is one system prompt and it stands first, so that a
snowball keeps its prefix from phase to phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.messages import Message, ToolSpec
from windlass.window.entries import Entry


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a request is made of before its order is fixed; each is empty where there is none."""

    system: tuple[Entry, ...] = ()
    input: tuple[Entry, ...] = ()
    sources: tuple[Entry, ...] = ()
    snowball: tuple[Entry, ...] = ()
    position: Literal["start", "end"] = "start"
    context: tuple[Entry, ...] = ()


def assemble(blocks: Blocks, own: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a request, in order.

    A reply that said nothing and called nothing is left out: no provider takes it back.
    """
    if blocks.position == "end":
        middle = blocks.snowball + blocks.sources
    else:
        middle = blocks.sources + blocks.snowball
    entries = blocks.system + blocks.context + blocks.input + middle + tuple(own)
    return tuple(entry for entry in entries if not says_nothing(entry.message))


def says_nothing(message: Message) -> bool:
    """Return whether it is a reply without words and calls."""
    return message.role == "assistant" and not message.parts and not message.tool_calls


def tools_needed(
    allowed: Sequence[ToolSpec], messages: Sequence[Message], definitions: dict[str, ToolSpec]
) -> tuple[ToolSpec, ...]:
    """Return the tools a request must define: the phase's, then those its messages call.

    A provider refuses a call in the history whose tool the request does not define
    (Anthropic), so replayed and snowballed calls bring their definitions along.
    `known` holds definitions by name; a tool that is no longer known gets a bare one.
    """
    named = {spec.name: spec for spec in allowed}
    for message in messages:
        for call in message.tool_calls:
            if call.name not in named:
                bare = ToolSpec(call.name, "Used earlier in this session.", {"type": "object"})
                named[call.name] = definitions.get(call.name, bare)
    return tuple(named.values())
