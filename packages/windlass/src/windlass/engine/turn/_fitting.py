"""Limits, checked before a request is sent: the model's window, and the user's budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.engine._phase_run import PhaseRun
from windlass.engine.events import Event, Noted
from windlass.errors import BudgetExceeded, ContextTooLong
from windlass.history.details import BudgetDetails
from windlass.window.entries import Entry

_LARGEST = 5


def has_room(phase_run: PhaseRun, tokens: int) -> bool:
    """Whether a request of so many tokens keeps to the model's window and the user's limit."""
    budget = phase_run.rule.budget
    limit = budget.limit if budget.limit and budget.on_exceed != "warn" else tokens
    return tokens <= min(limit, phase_run.room)


def check_fits(phase_run: PhaseRun, entries: Sequence[Entry], tokens: int) -> None:
    """Raise ContextTooLong, naming the five largest messages and the settings that help."""
    room = phase_run.room
    if tokens <= room:
        return
    count = phase_run.info.counter.message
    largest = sorted(entries, key=lambda entry: -count(entry.message))[:_LARGEST]
    listed = "\n".join(
        f"  {count(entry.message):>8,} tokens  {entry.message.role:<9}"
        f" {entry.item.phase or '-'}  {entry.item.id}  ({entry.reason})"
        for entry in largest
    )
    info, kept = phase_run.info, phase_run.generation.max_output_tokens
    margin = "" if info.counter.exact else ", 10 % margin"
    raise ContextTooLong(
        f"phase {phase_run.phase.name!r} would send {tokens:,} tokens, but {info.name} takes"
        f" {room:,} (window {info.window:,}, {kept:,} kept for the reply{margin})."
        f" The largest messages:\n{listed}\n"
        "Give the phase a `context` with only the sources it needs, or `context_strategy:"
        ' "sliding"`, or set `context_retention: "output_only"` on the phase they come from.'
    )


def check_budget(phase_run: PhaseRun, tokens: int) -> BudgetDetails | None:
    """Hold the request against `max_input_tokens`; returns what the record says of it.

    None: there is no limit, or it is far. Raises BudgetExceeded where the phase says
    `on_exceed: fail`.
    """
    budget = phase_run.rule.budget
    if budget.limit is None or tokens < budget.limit * budget.warn:
        return None
    if tokens > budget.limit and budget.on_exceed == "fail":
        near = _near(phase_run, tokens)
        raise BudgetExceeded(
            f"{near} with on_exceed 'fail'; raise the limit or give the phase less context"
        )
    return BudgetDetails(budget.limit, tokens, exceeded=tokens > budget.limit)


def tell_budget(emit: Callable[[Event], None], phase_run: PhaseRun, tokens: int) -> None:
    """Tell the user that a request comes near `max_input_tokens`, or is beyond it."""
    emit(Noted(phase_run.phase.name, _near(phase_run, tokens)))


def _near(phase_run: PhaseRun, tokens: int) -> str:
    return (
        f"phase {phase_run.phase.name!r} sends {tokens:,} input tokens; its max_input_tokens is"
        f" {phase_run.rule.budget.limit:,}"
    )


def tell_choice(
    emit: Callable[[Event], None], phase_run: PhaseRun, sent: int, snowball: int
) -> None:
    """Say once what the phase chose, with the tokens of its first call, which windows shorten."""
    text, phase_run.choice.text = phase_run.choice.text, ""
    if text:
        text += f"; its first call sends {sent:,} tokens, sending everything {snowball:,}"
        emit(Noted(phase_run.phase.name, text, detail=True))
