"""`--dry-run`: the first request of a run, and the most the run could cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from typing import Any

from windlass.caching.rates import cost, priced_as
from windlass.cascade.compile import compile_rule
from windlass.cascade.layers import selector_of
from windlass.cascade.model import Phase
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.tools_named import all_soundings
from windlass.engine._subcascades import open_child
from windlass.engine.cascade import add_server_tools, needed_servers, start_session
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing.selector import MENU_TOKENS, MOST_ANSWERED
from windlass.engine.injecting.dynamic_block import prepare_blocks
from windlass.engine.phase.phase import begin
from windlass.engine.soundings.evaluating import ANSWER_TOKENS
from windlass.engine.turn._plan import next_call
from windlass.engine.turn.fitting import input_room
from windlass.messages import Message
from windlass.text.tokens import FamilyCounter, request_tokens
from windlass.window.assemble import assemble
from windlass.window.entries import show


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would be sent first, and the upper bound of the run.

    `tokens` by the running model's counter; dollars are US dollars (None: no price is
    known for one of the models). `most_dollars` assumes that every allowed turn of every
    allowed attempt fills its window and its reply, without a cache. `priced_as` tells of
    each model at whose prices it is told: its own, where it is hosted. `search` is the
    model that searches the web for tools, whose calls are not bounded and not counted here
    (None: none).
    """

    models: tuple[str, ...]
    phase: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    tokens: int
    priced_as: Mapping[str, str]
    dollars: float | None
    most_calls: int
    most_dollars: float | None
    search: str | None = None


def _runs(run: CascadeRun, times: int = 1) -> Iterator[tuple[CascadeRun, int]]:
    """The run and those of its sub-cascades, each with how often its phases may run."""
    soundings = run.cascade.soundings
    times *= sum(soundings.rounds) if soundings else 1
    yield run, times
    for phase in run.cascade.phases:
        for position in range(len(phase.sub_cascades)):
            yield from _runs(open_child(run, phase, position), times)


def _tries(phase: Phase) -> Iterable[tuple[str | None, int]]:
    """Each model that a phase may run with (None: its own), and how often it may."""
    if phase.soundings is None:
        return [(None, 1)]
    models, rounds = phase.soundings.models or (None,), phase.soundings.rounds
    return Counter(chain.from_iterable(islice(cycle(models), n) for n in rounds)).items()


def _asked_beside(soundings: Soundings) -> tuple[str | None, int]:
    """The model that picks or joins soundings (None: the phase's), and how often it is asked."""
    if soundings.joins is not None:
        return soundings.joins.model, int(soundings.joins.instructions is not None)
    picks = soundings.picks
    asks = picks.function is None and picks.validator is None
    return picks.model, 2 * asks * len(soundings.rounds)  # it may mend each answer


async def forecast_cost(run: CascadeRun, price_as: str) -> Forecast:
    """Prepare the first phase as a run would, send nothing, and bound the whole.

    Models that cost nothing are told at the prices of `price_as`.

    The run's store is written to: hand in one that is thrown away.

    MCP servers are started, to learn what their tools are, and stopped again.

    Where the phase's tools are a manifest, the model would choose them first: none
    are shown then.
    """
    family = list(_runs(run))
    seeing = start_session(run)
    while run.cascade.phases[0].sub_cascades:  # what runs first sends first
        run = open_child(run, run.cascade.phases[0], 0)
        start_session(run)
    whole, phases = run.cascade, tuple(run.cascade.phases)
    first = phases[0]
    models = first.soundings.models if first.soundings else ()
    if first.tackle == "manifest" or models:
        changes: dict[str, Any] = {"model": models[0]} if models else {}
        changes |= {"tackle": ()} if first.tackle == "manifest" else {}
        first = first.model_copy(update=changes)
        run = replace(run, cascade=whole.model_copy(update={"phases": (first, *phases[1:])}))
    servers = needed_servers(run)
    try:
        await add_server_tools(run, servers)
        phase_run = await begin(run, first)
    finally:
        await servers.stop()
    entries = assemble(
        phase_run.progress.blocks, show(phase_run.progress.own, "said in this phase")
    )
    phase_run.progress.turn = 1
    prepare_blocks(run, phase_run, entries, phase_run.allowed)
    shown = next_call(run, phase_run, entries, phase_run.allowed, run.record.clock())
    messages = tuple(entry.message for entry in shown.entries)
    names: dict[str, str] = {}
    calls = 0
    most: float | None = 0.0
    tries = [
        (each, phase, model, runs * times)
        for each, runs in family
        for phase in each.cascade.phases
        for model, times in _tries(phase)
    ]
    for of_run, phase, model, times in tries:
        tried = phase if model is None else phase.model_copy(update={"model": model})
        generation = of_run.generation_of(tried)
        _, info = run.resolve(generation.model)
        name = names[info.name] = priced_as(info.name, price_as, free=info.free)
        repairs = generation.output_schema is not None
        judged = repairs or phase.rules.loop_until is not None
        attempts = phase.rules.max_attempts if judged else 1
        closing = bool(phase.tackle)
        # Each reply may be cut at its limit, and goes on once then.
        turns = 2 * attempts * (phase.rules.max_turns + closing + repairs)
        turns = times * (turns + (phase.tackle == "manifest"))
        calls += turns
        room = input_room(info, generation.max_output_tokens)
        per_call = cost(name, room, generation.max_output_tokens)
        most = None if most is None or per_call is None else most + turns * per_call
        rule = compile_rule(of_run.cascade, phase, run.settings)
        selector = selector_of(rule.choosing, generation.model)
        if selector is not None:
            _, info = run.resolve(selector)
            name = names[info.name] = priced_as(info.name, price_as, free=info.free)
            asking = cost(name, MENU_TOKENS, MOST_ANSWERED)
            calls += times
            most = None if most is None or asking is None else most + times * asking
    for of_run, place, soundings, runs in [
        (each, place, soundings, runs if len(place) > 1 else 1)
        for each, runs in family
        for place, soundings in all_soundings(each.cascade).items()
    ]:
        asker, times = _asked_beside(soundings)
        phase = of_run.cascade.phases[int(place[1]) if len(place) > 1 else -1]
        if times := runs * times:
            _, info = run.resolve(asker or of_run.generation_of(phase).model)
            name = names[info.name] = priced_as(info.name, price_as, free=info.free)
            answer = max(ANSWER_TOKENS, of_run.generation_of(phase).max_output_tokens)
            asking = cost(name, input_room(info, ANSWER_TOKENS), answer)
            calls += times
            most = None if most is None or asking is None else most + times * asking
    name = names[phase_run.info.name]
    hosted = request_tokens(FamilyCounter(name), messages, phase_run.allowed)
    return Forecast(
        models=seeing,
        phase=first.name,
        messages=messages,
        tools=tuple(phase_run.progress.tools),
        tokens=request_tokens(phase_run.info.counter, messages, phase_run.allowed),
        priced_as=names,
        dollars=cost(name, hosted, 0),
        most_calls=calls,
        most_dollars=most,
        search=run.search.model if run.search else None,
    )
