"""What a request shares with the one before it: the part a provider's cache may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.engine.state import PhaseRun, Run
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.prices import rate
from windlass.tokens import Counter, Reading
from windlass.window.assemble import assemble
from windlass.window.entries import show

Weighed = list[tuple[str, int]]
"""A request as (identity, tokens): its tools, and each message, in the order of a cache."""


def weigh(
    counter: Counter,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    tools_first: bool = True,
) -> Weighed:
    """The request as identities and tokens, in the order its provider caches it.

    Hosted providers put the tools first; a model that is handed its own prompt may
    put them behind the system prompt (`tools_first=False`). The tokens that open every
    answer are counted with the tools: they never change.
    """
    named = "tools:" + canonical_json([spec.to_openai() for spec in tools])
    weighed = [(message.key, counter.message(message)) for message in messages]
    behind = 0 if tools_first or not messages or not messages[0].is_system else 1
    weighed.insert(behind, (named, counter.tools(tools) + counter.opening))
    return weighed


def pieces(
    counter: Counter, messages: Sequence[Message], tools: Sequence[ToolSpec], weighed: Weighed
) -> Weighed:
    """The request in the pieces that a cache compares: to the token, where the counter can.

    `weighed` is the same request message by message.
    """
    if not isinstance(counter, Reading):
        return weighed
    return [(str(token), 1) for token in counter.prompt(messages, tools)]


def shared_tokens(one: Sequence[tuple[str, int]], other: Sequence[tuple[str, int]]) -> int:
    """Tokens of the common beginning of two requests."""
    total = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine[0] != theirs[0]:
            break
        total += mine[1]
    return total


def prefix_report(
    before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """How much of the request stands as it stood, in tokens, and what broke it.

    `broken_by` is None for a first request and for one that only goes on; else
    `tools`, or the place of the first message that differs, counted from 0.
    """
    shared = shared_tokens(now, before)
    same = 0
    for mine, theirs in zip(now, before, strict=False):
        if mine[0] != theirs[0]:
            break
        same += 1
    if not before or same == len(before):
        broken = None
    else:
        at_tools = same < len(now) and now[same][0].startswith("tools:")
        messages = sum(not name.startswith("tools:") for name, _ in now[:same])
        broken = "tools" if at_tools else f"message {messages}"
    return {"shared_tokens": shared, "new_prefix": broken is not None, "broken_by": broken}


def position_report(run: Run, phase: PhaseRun) -> dict[str, Any]:
    """What it costs that injected sources stand where they stand, beside the other place.

    For each place: tokens that still stand as in the request before (a cache may hold
    them), and the input cost in US dollars if it does (None: the model has no price).
    """
    info = phase.info
    told: dict[str, Any] = {"chosen": phase.blocks.position}
    for place in ("start", "end"):
        entries = assemble(replace(phase.blocks, position=place), show(phase.own, ""))
        messages = [entry.message for entry in entries]
        weighed = weigh(
            info.counter,
            messages,
            run.definitions(phase.allowed, messages),
            tools_first=info.tools_first,
        )
        total = sum(tokens for _, tokens in weighed)
        shared = shared_tokens(weighed, run.previous)
        price = rate(info.name) if not info.free else None
        dollars = (
            None
            if price is None
            else (shared * price.cache_read + (total - shared) * price.cache_write) / 1e6
        )
        told[place] = {"tokens": total, "shared_tokens": shared, "dollars": dollars}
    return told
