"""Marking messages as important: by the tool `callout`, by a phase's names and patterns.

A mark is recorded at once. A marked message is kept as it was said in every window from then
on: it is pinned, and a time to live does not mask it. Together such messages take at most half
of what a request may have, or a pattern that matches too much would end the run; what comes on
top is marked and not kept. What was shortened before it was marked stays as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from windlass.cascade.callout_rules import MESSAGES, OUTPUT, CalloutRule, name_for, patterns_of
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.history.base import NodeType
from windlass.history.marks import (
    LONGEST_NAME,
    By,
    CalloutMark,
    check_callout_name,
    find_callouts,
    find_message,
)
from windlass.messages import Message
from windlass.safety.patterns import compile_pattern
from windlass.text.templates import render
from windlass.window.blocks import assemble
from windlass.window.entries import Item

THIS: Final = "this"
"""Stands for the message that makes the call."""
LAST: Final = "last"
"""Stands for the message before it."""

KEPT_SHARE: Final = 0.5
"""The share of a request that marked messages may take."""

_FOR_EVER: Final = float("inf")

_COPIES: Final = frozenset({"callout", "recall", "remember", "search_memory"})
"""Tools whose results repeat what stands elsewhere; patterns leave them alone."""


def refresh_callouts(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Read anew what is marked, and keep it in the phase that begins.

    Somebody outside may have marked more since the last phase began.
    """
    rows = run.record.rows()
    run.session.callouts = {callout.message_id: callout.name for callout in find_callouts(rows)}
    for entry in assemble(phase_run.messages.blocks, ()):
        if entry.item.id in run.session.callouts:
            _keep(phase_run, entry.item.id, entry.message)


def call_out(run: CascadeRun, phase_run: PhaseRun, ref: str, name: str) -> str:
    """Mark the message that the model names, and say which it was. Raises UsageError."""
    called = check_callout_name(name)
    word = ref.strip().casefold()
    if word in (THIS, LAST):
        own = phase_run.messages.own
        reply = max(at for at, item in enumerate(own) if item.message.role == "assistant")
        item = own[reply if word == THIS else reply - 1]
        message_id, message = item.id, item.message
    else:
        stored = find_message(run.record.rows(), ref)
        assert stored.id is not None
        assert stored.row.message is not None
        message_id, message = stored.id, stored.row.message
    kept = _mark(run, phase_run, message_id, message, called, by="tool")
    what = f"result of {message.name}" if message.role == "tool" else f"{message.role} message"
    text = f"called out as {called!r}: the {what} {message.content_hash}, {message.chars:,} chars"
    return text if kept else f"{text}; too long to be kept whole in view beside the others"


def mark_matches(run: CascadeRun, phase_run: PhaseRun, items: Sequence[Item]) -> None:
    """Mark what the phase names, or its patterns find, among what was just said.

    Raises ContextError where the template of a name is wrong.
    """
    named = name_for(phase_run.phase.callouts, MESSAGES)
    patterns = patterns_of(phase_run.phase.callouts)
    for item in items:
        if item.message.name in _COPIES:
            continue
        if named is not None and _names_at_once(named, item):
            _mark_named(run, phase_run, item, MESSAGES, named)
        for name, pattern in patterns.items():
            if compile_pattern(pattern, re.MULTILINE).search(item.message.text):
                _mark(run, phase_run, item.id, item.message, name, by="pattern", pattern=pattern)
                break


def _names_at_once(rule: CalloutRule, item: Item) -> bool:
    """Return whether a rule for messages names this one as soon as it is said."""
    return rule.filter == "all" or (
        rule.filter == "assistant_only" and item.message.role == "assistant"
    )


def mark_output(run: CascadeRun, phase_run: PhaseRun, output: Item | None) -> None:
    """Mark the phase's output, and what it said in its last turn, where it names them.

    Raises ContextError where the template of a name is wrong.
    """
    messages = name_for(phase_run.phase.callouts, MESSAGES)
    if messages is not None and messages.filter == "last_turn":
        for item in phase_run.messages.own:
            if item.turn == phase_run.now.turn and item.message.role in ("assistant", "tool"):
                _mark_named(run, phase_run, item, MESSAGES, messages)
    named = name_for(phase_run.phase.callouts, OUTPUT)
    if named is not None and output is not None:
        _mark_named(run, phase_run, output, OUTPUT, named)


def _mark_named(
    run: CascadeRun, phase_run: PhaseRun, item: Item, what: str, rule: CalloutRule
) -> None:
    """Mark a message under the name that a template makes; one that is empty marks nothing."""
    name = phase_run.phase.name
    called = render(
        str(rule.as_),
        **run.template_values(),
        where=f"phase {name!r}, callouts.{what}",
        moments={"phase": name, "turn": phase_run.now.turn},
    )
    if called := " ".join(called.split())[:LONGEST_NAME]:
        _mark(run, phase_run, item.id, item.message, called, by="phase")


def pin(phase_run: PhaseRun) -> None:
    """Keep what the phase's window holds already, and what was marked after it was said."""
    conversation = phase_run.conversation
    pins = conversation.standing.pins
    if not phase_run.window.kept:
        return
    for at, item in enumerate(conversation.items):
        if item.id in phase_run.window.kept and pins.get(at, 0) != _FOR_EVER:
            conversation.pin(item.id)


def _keep(phase_run: PhaseRun, message_id: str, message: Message) -> bool:
    """Have a message stay as it is in the phase's windows; False: there is no room for it."""
    policy = phase_run.rule.policy
    room = phase_run.room
    limit = min(room, (policy and policy.max_input_tokens) or room)
    tokens = phase_run.info.counter.message(message)
    kept = phase_run.window.kept
    if sum(kept.values()) - kept.get(message_id, 0) + tokens > KEPT_SHARE * limit:
        return False
    kept[message_id] = tokens
    return True


def _mark(
    run: CascadeRun,
    phase_run: PhaseRun,
    message_id: str,
    message: Message,
    name: str,
    *,
    by: By,
    pattern: str | None = None,
) -> bool:
    """Record a mark; answers whether the message is kept whole from now on."""
    kept = _keep(phase_run, message_id, message)
    mark = CalloutMark(message_id, name, by, kept, pattern)
    row = replace(phase_run.row(NodeType.DECISION), text=mark.text, details=mark)
    run.record.append([replace(row, parent_id=run.record.traces.get(message_id))])
    run.session.callouts[message_id] = name
    return kept
