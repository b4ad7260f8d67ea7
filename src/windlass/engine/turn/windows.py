"""A phase's windows under a policy: the room they have, what was decided, and its record.

The deciding is `window/conversation.py`'s. This module turns what it decided into records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

from windlass.engine._call_needs import CallPolicy
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_run import Run
from windlass.engine.turn.record import Recorder
from windlass.history.base import EditRecord, NodeType, Row
from windlass.history.decisions import ThinkingLeftOut
from windlass.history.details import WindowSelection
from windlass.messages import ToolSpec
from windlass.text.tokens import request_tokens
from windlass.window.assemble import assemble
from windlass.window.entries import INJECT, Drop, Edit, Entry, Fold, Replace, targets
from windlass.window.originals import file_name
from windlass.wire.thinking import without_thinking

FOLDED: Final = "told in message"
"""In the reason of an edit: the message is folded into the one whose id follows."""

STRATEGIES: Final[Mapping[str, str]] = {
    "encode": "lossless_encoding",
    "mask": "observation_masking",
    "digest": "observation_masking",
    "compress": "compression",
    "repeat": "deduplication",
    "supersede": "deduplication",
    "fold": "tool_pair_folding",
    "decay": "progressive_decay",
    "summarise": "progressive_decay",
    "compact": "compaction",
    "truncate": "reasoning_truncation",
    "retry": "loop_compression",
    "prune": "token_budget",
    "expire": "time_to_live",
    "strip": "thinking_removal",
}
"""The strategy of each kind of edit, as a `context_selection` record names it."""


def room_for_messages(run: Run, phase_run: PhaseRun, limit: int) -> int:
    """The tokens that a request's limit leaves for messages once its tools are defined."""
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
    """The edits of a phase that hold in later phases, too, by occurrence.

    Thinking that had no use in a part of what was said may have one where all of it is shown.
    """
    rule, own = phase_run.rule, {item.id for item in phase_run.messages.own}
    whole = rule.mode == "snowball" and rule.newest_turns is None
    edits = phase_run.window.edits
    return {id_: e for id_, e in edits.items() if whole or e.because != "strip" or id_ in own}


def tell_thinking(run: Run, phase_run: PhaseRun, edits: Sequence[Edit]) -> None:
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


def edit_records(edits: Sequence[Edit]) -> list[EditRecord]:
    """The edits as they are kept: one for each message, a fold's text with its first."""
    records: list[EditRecord] = []
    for edit in edits:
        because, reason = edit.because, edit.reason
        match edit:
            case Replace():
                records.append(EditRecord(edit.id, "replace", because, reason, edit.replacement))
            case Drop():
                records.append(EditRecord(edit.id, "drop", because, reason))
            case Fold(ids=(first, *others)):
                records.append(EditRecord(first, "replace", because, reason, edit.replacement))
                inside = f"{reason}; {FOLDED} {first}"
                records += [EditRecord(other, "drop", because, inside) for other in others]
    return records


def selection_row(
    record: Recorder,
    phase_run: PhaseRun,
    policy: CallPolicy,
    entries: Sequence[Entry],
    **columns: Any,
) -> Row:
    """The `context_selection` record of a call: what it saw of the session, and by which rules.

    `columns` are those of the row: full_history_size and context_size in messages,
    tokens_saved in tokens, parent_id the call.
    """
    pinned = {
        phase_run.instructions.id,
        *phase_run.window.kept,
        *(entry.item.id for entry in phase_run.messages.blocks.system),
    }
    hashes = [entry.item.message.content_hash for entry in entries]
    anchors = [entry.item.id in pinned for entry in entries]
    why = Counter(entry.because for entry in entries if entry.because not in (None, INJECT))
    used = dict.fromkeys(STRATEGIES[because] for because in why if because in STRATEGIES)
    metadata: WindowSelection = {
        "semantic_actor": "auto_context",
        "selection_type": "intra_phase",
        "strategy": "+".join(used) or "full",
        "turn": phase_run.now.turn,
        "full_history_size": columns["full_history_size"],
        "context_size": columns["context_size"],
        "tokens_saved": columns["tokens_saved"],
        "masked_count": sum(why.values()),
        "because": dict(why),
        "anchor_hashes": list(compress(hashes, anchors)),
        "selected_hashes": list(compress(hashes, map(not_, anchors))),
        "policy": policy.profile,
        "policy_hash": policy.key,
        "config": policy.settings(),
    }
    return record.row(
        NodeType.CONTEXT_SELECTION,
        **phase_run.columns,
        metadata=metadata,
        **columns,
    )


def keep_originals(run: Run, phase_run: PhaseRun, edits: Sequence[Edit]) -> None:
    """Make the visible file of each tool result that is shown shortened from now on."""
    if not edits:
        return
    originals = {item.id: item.message for item in (*phase_run.injected, *phase_run.messages.own)}
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
