"""A choice in the record, and the sentence of it that people read."""

from __future__ import annotations

from dataclasses import asdict, replace

from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_run import Run
from windlass.engine.choosing._anchors import Piece
from windlass.engine.choosing._picking import Candidates, Choice
from windlass.engine.choosing._worth import Worth
from windlass.engine.choosing.selector import SelectorReply
from windlass.engine.events import Noted
from windlass.history.base import NodeType, Row
from windlass.history.decisions import ChoiceSizes, ChoiceWay, ChosenMessages, PhaseChoice
from windlass.history.details import AnchorDetails, ChoiceBudget
from windlass.window.originals import reference


def record_choice(
    run: Run,
    phase_run: PhaseRun,
    candidates: Candidates,
    choice: Choice,
    worth: Worth,
    *,
    why_kept: str,
    reply: SelectorReply | None,
) -> None:
    """Record what the phase sees and why, with the tokens and money of the choosing.

    `why_kept` says why it sees all that was said before (empty: it sees its choice).
    """
    rule, messages = phase_run.rule.choosing, phase_run.messages
    assert rule is not None
    given = choice.anchors.input
    anchors = [*([] if given is None else [given]), *choice.anchors.pieces]
    shown = messages.entries
    count = phase_run.info.counter.message
    full = len(phase_run.choice.whole or ()) + len(messages.blocks.system) + len(messages.own)
    chosen_tokens = sum(count(piece.message) for piece in choice.chosen)
    way = worth.go_on if why_kept else worth.select
    saved = worth.whole.tokens - way.tokens
    text = _sentence(phase_run, candidates, choice, why_kept)
    strategy = choice.strategy
    if why_kept:
        strategy = "go_on" if phase_run.choice.made else "snowball"
    budget = ChoiceBudget(
        rule.selection.max_tokens, choice.anchors.cap, choice.anchors.tokens, chosen_tokens
    )
    outline = choice.outline
    details = PhaseChoice(
        ChoiceWay(strategy, rule.selection.strategy, choice.note, why_kept, choice.anchors.warning),
        ChoiceSizes(
            full_history_size=full,
            context_size=len(shown),
            masked_count=sum(piece.because is not None for piece in choice.in_order()),
            tokens_saved=saved,
            candidates=candidates.count,
            candidate_tokens=candidates.tokens,
            budget=budget,
        ),
        ChosenMessages(
            anchor_hashes=[piece.message.content_hash for piece in anchors],
            anchors=[_anchor_told(piece, count(piece.message)) for piece in anchors],
            selected_hashes=[row["hash"] for row in choice.told],
            selected=list(choice.told),
            left_out=list(choice.left_out),
            not_chosen=[] if why_kept else list(choice.not_chosen),
        ),
        reasoning=choice.reasoning,
        refused=list(choice.refused),
        worth={**asdict(worth), "commit": "at_once" if rule.at_once else "priced"},
        outline=None if outline is None else _anchor_told(outline, count(outline.message)),
        config={
            **asdict(rule.selection),
            "share": rule.share,
            "outline": rule.outline,
            "selector_model": rule.selector,
            "anchors": rule.anchors.model_dump(),
        },
        asked=None if reply is None else reply.question,
        answer=None if reply is None else reply.text,
    )
    row = replace(
        Row(NodeType.CONTEXT_SELECTION) if reply is None else reply.row,
        phase=phase_run.phase.name,
        turn=0,
        attempt=1,
        parent_id=phase_run.trace_id,
        full_history_size=full,
        context_size=len(shown),
        # With a policy each call tells what it saved.
        tokens_saved=saved if phase_run.rule.policy is None else None,
        text=text,
        details=details,
    )
    run.record.append([row])
    phase_run.choice.text = text
    if warning := choice.anchors.warning:
        name = phase_run.phase.name
        run.emit(Noted(name, f"phase {name!r}: {warning}"))


def _anchor_told(piece: Piece, tokens: int) -> AnchorDetails:
    return AnchorDetails(
        piece.kind,
        piece.item.id if piece.item is not None else None,
        reference(piece.original or (piece.item or piece).message),
        tokens,
        piece.because is not None,
    )


def _sentence(phase_run: PhaseRun, candidates: Candidates, choice: Choice, why_kept: str) -> str:
    name = phase_run.phase.name
    if why_kept:
        goes_on = "goes on from what the phase before saw"
        seen = goes_on if phase_run.choice.made else "sees all that was said"
        return f"phase {name!r} {seen}: {why_kept}"
    anchors = len(choice.anchors.pieces) + (choice.anchors.input is not None)
    text = (
        f"phase {name!r} sees {anchors} anchors and {len(choice.chosen)} of"
        f" {candidates.count:,} messages, chosen by {choice.strategy}"
    )
    return f"{text} ({choice.note})" if choice.note else text
