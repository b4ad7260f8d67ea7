"""The model that is asked what a phase is to see: which it is, and its answer.

Nothing of a session goes to a model that nobody named: the selector is the one that the cascade
names, and for strategy `llm` without one the phase's own model, which sees the content anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from windlass.cascade.rules import Choosing
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import take_step
from windlass.errors import WindlassError
from windlass.history.base import NodeType, Row
from windlass.history.step import Step
from windlass.messages import user
from windlass.providers.base import ModelInfo, Provider

MENU_TOKENS: Final = 10_000
"""Tokens that no question passes: a hundred lines of a few hundred characters, and the task."""
MOST_ANSWERED: Final = 1_024
"""Tokens of an answer: a hundred names and a sentence."""


Selector: TypeAlias = tuple[Provider, ModelInfo]
"""The model that is asked, and who has it."""


@dataclass(frozen=True, slots=True)
class SelectorReply:
    """What was asked and answered. `failure` says why there is no answer (empty: there is one).

    `row` has what it took: the model, its tokens, and US dollars.
    """

    question: str
    text: str = ""
    failure: str = ""
    row: Row = field(default_factory=lambda: Row(NodeType.CONTEXT_SELECTION))


def selector_of(
    run: CascadeRun, phase_run: PhaseRun, rule: Choosing
) -> tuple[Selector | None, str]:
    """The model that the phase's strategy asks (None: nobody), and why not where it would."""
    strategy = rule.selection.strategy
    if strategy not in ("llm", "hybrid") or (strategy == "hybrid" and rule.selector is None):
        return None, ""
    if rule.no_model:
        origin = run.settings["auto_context_llm_selection_enabled"].origin
        return None, f"no model is asked: {origin} switches it off"
    if rule.selector is None:
        return (phase_run.provider, phase_run.info), ""
    return run.resolve(rule.selector), ""


async def ask_selector(
    run: CascadeRun, phase: str, selector: Selector, question: str
) -> SelectorReply:
    """The selector's answer; its tokens are charged to the run. A failure is told, not raised."""
    provider, info = selector
    request = info.question([user(question)], MOST_ANSWERED)
    try:
        taken = await take_step(run, Step(phase, asks="selector"), provider, info.name, request)
    except WindlassError as error:
        failed = f"the selector {info.name} gave no answer: {error}"
        row = Row(NodeType.CONTEXT_SELECTION, model=info.name)
        return SelectorReply(question, failure=failed, row=row)
    reply = taken.reply
    price = run.charge(info, reply.usage, saved=0)
    run.totals.net.spent += price or 0.0
    row = with_usage(Row(NodeType.CONTEXT_SELECTION), info.name, reply.usage, price)
    return SelectorReply(question, reply.message.text, row=row)
