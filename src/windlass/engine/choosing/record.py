"""The `context_selection` record of a phase that chose its context, and the line people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from windlass.engine.choosing.anchors import Piece
from windlass.engine.choosing.picking import Choice
from windlass.engine.choosing.selector import SelectorReply
from windlass.engine.choosing.worth import Worth
from windlass.engine.events import Noted
from windlass.engine.state import PhaseRun, Run
from windlass.history.base import NodeType
from windlass.window.assemble import assemble
from windlass.window.entries import show
from windlass.window.originals import reference


def record_choice(
    run: Run,
    phase_run: PhaseRun,
    choice: Choice,
    worth: Worth,
    *,
    why_kept: str,
    reply: SelectorReply | None,
) -> None:
    """Record what the phase sees and why, with the tokens and money of the choosing.

    `why_kept` says why it sees all that was said before (empty: it sees its choice).
    """
    rule, progress = phase_run.rule.choosing, phase_run.progress
    assert rule is not None
    anchors = [piece for piece in (choice.input, *choice.anchors) if piece is not None]
    shown = assemble(progress.blocks, show(progress.own, ""))
    count = phase_run.info.counter.message
    full = len(progress.whole or ()) + len(progress.blocks.system) + len(progress.own)
    chosen_tokens = sum(count(piece.message) for piece in choice.chosen)
    way = worth.go_on if why_kept else worth.select
    saved = worth.whole.tokens - way.tokens
    text = _sentence(phase_run, choice, worth, why_kept)
    strategy = choice.strategy
    if why_kept:
        strategy = "go_on" if progress.chose else "snowball"
    metadata = {
        "semantic_actor": "auto_context",
        "selection_type": "inter_phase",
        "text": text,
        "strategy": strategy,
        "strategy_asked": rule.selection.strategy,
        "note": choice.note,
        "kept": why_kept,
        "warning": choice.warning,
        "full_history_size": full,
        "context_size": len(shown),
        "masked_count": sum(piece.because is not None for piece in choice.in_order()),
        "tokens_saved": saved,
        "candidates": choice.candidates,
        "candidate_tokens": choice.candidate_tokens,
        "budget": {
            "max_tokens": rule.selection.max_tokens,
            "cap": choice.cap,
            "anchors": choice.anchor_tokens,
            "selected": chosen_tokens,
        },
        "anchor_hashes": [piece.message.content_hash for piece in anchors],
        "anchors": [_anchor_told(piece, count(piece.message)) for piece in anchors],
        "selected_hashes": [row["hash"] for row in choice.told],
        "selected": choice.told,
        "left_out": choice.left_out,
        "reasoning": choice.reasoning,
        "refused": list(choice.refused),
        "worth": {**asdict(worth), "commit": "at_once" if rule.at_once else "priced"},
        "outline": None
        if choice.outline is None
        else _anchor_told(choice.outline, count(choice.outline.message)),
        "config": {
            **asdict(rule.selection),
            "share": rule.share,
            "outline": rule.outline,
            "selector_model": rule.selector,
            "anchors": rule.anchors.model_dump(),
        },
    }
    columns: dict[str, Any] = {"full_history_size": full, "context_size": len(shown)}
    if phase_run.rule.policy is None:
        columns["tokens_saved"] = saved  # else each call tells what it saved
    if reply is not None:
        columns |= reply.columns
        metadata |= {"asked": reply.question, "answer": reply.text}
    row = run.record.row(
        NodeType.CONTEXT_SELECTION,
        phase=phase_run.phase.name,
        turn=0,
        attempt=1,
        parent_id=phase_run.trace_id,
        metadata=metadata,
        **columns,
    )
    run.record.append([row])
    run.emit(Noted(phase_run.phase.name, text))
    if choice.warning:
        run.emit(Noted(phase_run.phase.name, f"phase {phase_run.phase.name!r}: {choice.warning}"))


def _anchor_told(piece: Piece, tokens: int) -> Mapping[str, Any]:
    return {
        "kind": piece.kind,
        "id": piece.item.id if piece.item is not None else None,
        "reference": reference(piece.original or (piece.item or piece).message),
        "tokens": tokens,
        "shortened": piece.because is not None,
    }


def _sentence(phase_run: PhaseRun, choice: Choice, worth: Worth, why_kept: str) -> str:
    name = phase_run.phase.name
    if why_kept:
        seen = (
            f"goes on from {worth.go_on.tokens:,} tokens"
            if phase_run.progress.chose
            else "sees all that was said"
        )
        return f"phase {name!r} {seen}: {why_kept}"
    anchors = len(choice.anchors) + (choice.input is not None)
    text = (
        f"phase {name!r} sees {anchors} anchors and {len(choice.chosen)} of"
        f" {choice.candidates:,} messages, chosen by {choice.strategy}:"
        f" {worth.select.tokens:,} tokens where all would be {worth.whole.tokens:,}"
    )
    return f"{text} ({choice.note})" if choice.note else text
