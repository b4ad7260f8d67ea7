"""A phase's windows under a policy: the room they have, what was decided, and its record.

The deciding is `window/conversation.py`'s. This module turns what it decided into records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.history.base import NodeType, Row
from windlass.history.decisions import ThinkingLeftOut
from windlass.history.window_rows import window_selection_of
from windlass.messages import ToolSpec
from windlass.text.tokens import request_tokens
from windlass.window.blocks import assemble
from windlass.window.entries import Edit, Entry, targets
from windlass.window.options import Policy
from windlass.window.originals import file_name
from windlass.wire.thinking import without_thinking


def room_for_messages(run: CascadeRun, phase_run: PhaseRun, limit: int) -> int:
    """Return the tokens that a request's limit leaves for messages once its tools are defined."""
    first = [entry.message for entry in assemble(phase_run.messages.blocks, ())]
    tools: Sequence[ToolSpec] = run.definitions(phase_run.allowed, first)
    added = phase_run.injection.reserve if phase_run.injection else 0
    return max(1, limit - added - request_tokens(phase_run.info.counter, (), tools))


def take_new_edits(phase_run: PhaseRun) -> list[Edit]:
    """The edits that are not in the record yet; they are in force for the phase from now on."""
    conversation = phase_run.conversation
    new: dict[int, Edit] = {}
    for at, edit in conversation.edits.items():
        ident = conversation.items[at].id
        if phase_run.window.edits.get(ident) is not edit:
            phase_run.window.edits[ident] = edit
            new[id(edit)] = edit
    return list(new.values())


def lasting_edits(phase_run: PhaseRun) -> Mapping[str, Edit]:
    """Return the edits of a phase that hold in later phases, too, by occurrence.

    Thinking that had no use in a part of what was said may have one where all of it is shown.
    """
    rule, own = phase_run.rule, {item.id for item in phase_run.messages.own}
    whole = rule.mode == "snowball" and rule.newest_turns is None
    edits = phase_run.window.edits
    return {id_: e for id_, e in edits.items() if whole or e.because != "strip" or id_ in own}


def tell_thinking(run: CascadeRun, phase_run: PhaseRun, edits: Sequence[Edit]) -> None:
    """Say which replies' thinking a call leaves out, and why, where it is the first to do so."""
    stripped = [edit for edit in edits if edit.because == "strip"]
    if not stripped:
        return
    name, number, count = phase_run.phase.name, len(stripped), phase_run.info.counter.message
    ids = {ident for edit in stripped for ident in targets(edit)}
    items = [item for item in phase_run.conversation.items if item.id in ids]
    tokens = sum(count(item.message) - count(without_thinking(item.message)) for item in items)
    of = "1 reply" if number == 1 else f"{number} replies"
    text = f"phase {name!r}: the thinking of {of} is left out from here on ({tokens:,} tokens)"
    run.tell(
        name,
        f"{text}: {stripped[0].reason}",
        ThinkingLeftOut(phase_run.now.turn, sorted(ids), tokens),
        detail=True,
    )


def selection_row(phase_run: PhaseRun, policy: Policy, entries: Sequence[Entry], call: Row) -> Row:
    """The `context_selection` record of a call: what it saw of the session, and by which rules.

    `call` is the row of the call, which has the sizes.
    """
    pinned = {
        phase_run.instructions.id,
        *phase_run.window.kept,
        *(entry.item.id for entry in phase_run.messages.blocks.system),
    }
    return replace(
        phase_run.row(NodeType.CONTEXT_SELECTION),
        parent_id=call.trace_id,
        full_history_size=call.full_history_size,
        context_size=call.context_size,
        tokens_saved=call.tokens_saved,
        details=window_selection_of(policy, entries, pinned, phase_run.now.turn, call),
    )


def keep_originals(run: CascadeRun, phase_run: PhaseRun, edits: Sequence[Edit]) -> None:
    """Make the visible file of each tool result that is shown shortened from now on."""
    if not edits:
        return
    originals = {
        item.id: item.message for item in (*phase_run.messages.injected, *phase_run.messages.own)
    }
    originals |= {item.id: item.message for item in phase_run.conversation.items}
    store, session = run.record.store, run.record.session_id
    for edit in edits:
        for ident in targets(edit):
            original = originals.get(ident)
            if original is not None and original.role == "tool":
                run.session.let_read(
                    store.store_tool_result(session, file_name(original), original.key)
                )
    phase_run.tools.let_read(run.session.readable)
