"""`--dry-run`: the first request of a run, and the most the run could cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, cycle, islice

from windlass.caching.rates import cost, priced_as
from windlass.cascade.compile import compile_rule
from windlass.cascade.flow import most_visits
from windlass.cascade.handoffs import are_chosen
from windlass.cascade.layers import selector_of
from windlass.cascade.model import Phase
from windlass.cascade.sounding_options import AttemptModel, Soundings, VariedOptions
from windlass.cascade.tools_named import all_soundings, wards_of
from windlass.cascade.validators import asking_validator
from windlass.engine._subcascades import open_child
from windlass.engine.cascade import add_server_tools, needed_servers, start_session
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing.selector import MENU_TOKENS, MOST_ANSWERED
from windlass.engine.injecting.each_call import prepare_blocks
from windlass.engine.phase.phase_setup import begin_phase
from windlass.engine.phase.verdicts import VERDICT_TOKENS
from windlass.engine.soundings.evaluating import ANSWER_TOKENS
from windlass.engine.turn._plan import next_call
from windlass.errors import UsageError
from windlass.ledger.charges import Charge
from windlass.messages import Message
from windlass.providers.base import ModelInfo
from windlass.text.tokens import FamilyCounter, request_tokens
from windlass.window.blocks import assemble
from windlass.window.entries import show


@dataclass(frozen=True, slots=True)
class Forecast:
    """The first request of a run, and the most that the run could cost.

    `tokens` by the running model's counter; dollars are US dollars (None: no price is
    known for one of the models). `most_dollars` assumes that every allowed turn of every
    allowed attempt fills its window and its reply, without a cache, and that a phase in a loop
    runs as often as it may. `priced_as` tells of each model at whose prices it is told: its own,
    where it is hosted. `search` is the model that searches the web for tools (None: none). Its
    calls, and those of cascades that are tools, are not bounded and not counted here.
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
    """Yield the run and those of its sub-cascades, each with how often its phases may run."""
    soundings = run.cascade.soundings
    times *= sum(soundings.rounds) if soundings else 1
    yield run, times
    for index, phase in enumerate(run.cascade.phases):
        visits = most_visits(run.cascade.phases, index)
        for position in range(len(phase.sub_cascades) if visits else 0):
            yield from _runs(open_child(run, phase, position), times * visits)


def _tries(phase: Phase) -> Iterable[tuple[AttemptModel | None, int]]:
    """Return each model that a phase may run with (None: its own), and how often it may.

    Of models that are drawn, each may be drawn every time.
    """
    soundings = phase.soundings
    if soundings is None:
        return [(None, 1)]
    models, rounds = soundings.attempt_models or (None,), soundings.rounds
    if soundings.model_strategy == "random":
        return [(each, sum(rounds)) for each in dict.fromkeys(models)]
    return Counter(chain.from_iterable(islice(cycle(models), n) for n in rounds)).items()


def _rewrites(phase: Phase) -> int:
    """Return how often a model may write the instructions of an attempt anew."""
    soundings = phase.soundings
    varied: tuple[VariedOptions | None, ...] = (soundings, soundings.reforge) if soundings else ()
    return int(any(each and each.mutate and each.mutation_mode == "rewrite" for each in varied))


def _evaluator_calls(soundings: Soundings) -> tuple[str | None, int]:
    """The model that picks or joins soundings (None: the phase's), and how often it is asked."""
    if soundings.joins is not None:
        return soundings.joins.model, int(soundings.joins.instructions is not None)
    picks = soundings.picks
    asks = picks.function is None and picks.validator is None
    times = 2  # it may mend its answer
    if picks.human is not None:  # a model shortens the list, or picks when time is over
        falls_back = picks.human.timeout_seconds and picks.human.on_timeout == "llm_fallback"
        times = (picks.human.llm_prefilter is not None) + (2 if falls_back else 0)
    return picks.model, times * asks * len(soundings.rounds)


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
    if first.tool is not None:
        raise UsageError(
            f"a dry run shows the first request, and before it the phase {first.name!r} runs the"
            f" tool {first.tool!r}, which a dry run does not"
        )
    models = first.soundings.attempt_models if first.soundings else ()
    if first.tackle == "manifest" or models:
        changes = models[0].changes if models else {}
        changes |= {"tackle": ()} if first.tackle == "manifest" else {}
        first = first.model_copy(update=changes)
        run = run.with_cascade(whole.model_copy(update={"phases": (first, *phases[1:])}))
    servers = needed_servers(run)
    try:
        await add_server_tools(run, servers)
        phase_run = await begin_phase(run, first)
    finally:
        await servers.stop()
    entries = assemble(
        phase_run.messages.blocks, show(phase_run.messages.own, "said in this phase")
    )
    phase_run.now.turn = 1
    prepare_blocks(run, phase_run, entries, phase_run.allowed)
    shown = next_call(run, phase_run, entries, phase_run.allowed, run.record.clock())
    messages = tuple(entry.message for entry in shown.entries)
    bound = _Bound(price_as)
    for of_run, times in family:
        for index, phase in enumerate(of_run.cascade.phases):
            visits = times * most_visits(of_run.cascade.phases, index)
            if phase.tool is None:
                _add_phase(bound, of_run, phase, visits)
            _add_validator(bound, of_run, phase, visits)
    for of_run, times in family:
        for place, soundings in all_soundings(of_run.cascade).items():
            is_phase = len(place) > 1
            index = int(place[1]) if is_phase else -1
            visits = times * most_visits(of_run.cascade.phases, index) if is_phase else 1
            _add_evaluator(bound, of_run, of_run.cascade.phases[index], soundings, visits)
    name = bound.priced_as[phase_run.info.name]
    hosted = request_tokens(FamilyCounter(name), messages, phase_run.allowed)
    return Forecast(
        models=seeing,
        phase=first.name,
        messages=messages,
        tools=tuple(phase_run.tools.by_name),
        tokens=request_tokens(phase_run.info.counter, messages, phase_run.allowed),
        priced_as=bound.priced_as,
        dollars=cost(name, hosted, 0),
        most_calls=bound.total.calls,
        most_dollars=None if bound.total.unpriced else bound.total.dollars,
        search=run.access.search.model if run.access.search else None,
    )


@dataclass(slots=True)
class _Bound:
    """The most that a run could take, added up model by model."""

    price_as: str
    """The model at whose prices those that cost nothing are told."""
    total: Charge = field(default_factory=Charge)
    priced_as: dict[str, str] = field(default_factory=dict[str, str])
    """Each model, and the one at whose prices it is told."""

    def add(self, info: ModelInfo, calls: int, tokens_in: int, tokens_out: int) -> None:
        """Add so many calls of a model, each with so many tokens."""
        name = priced_as(info.name, self.price_as, free=info.free)
        self.priced_as[info.name] = name
        each = cost(name, tokens_in, tokens_out)
        most = None if each is None else calls * each
        self.total.add(Charge(calls=calls, dollars=most, unpriced=calls if each is None else 0))


def _add_phase(bound: _Bound, run: CascadeRun, phase: Phase, runs: int) -> None:
    """Add the calls of a phase that may run so many times."""
    for model, tries in _tries(phase):
        times = runs * tries
        tried = phase if model is None else phase.model_copy(update=model.changes)
        generation = run.generation_of(tried)
        _, info = run.resolve(generation.model)
        repairs = generation.output_schema is not None
        attempts = _most_attempts(phase, repairs=repairs)
        closing = bool(phase.tackle) or are_chosen(phase.handoffs)
        # Each reply may be cut at its limit, and goes on once then.
        turns = 2 * attempts * (phase.rules.max_turns + closing + repairs)
        turns += phase.tackle == "manifest"
        turns += _rewrites(phase)
        most = generation.max_output_tokens
        bound.add(info, times * turns, info.input_room(most), most)
        choosing = compile_rule(run.cascade, phase, run.settings).choosing
        selector = selector_of(choosing, generation.model)
        if selector is not None:
            bound.add(run.resolve(selector)[1], times, MENU_TOKENS, MOST_ANSWERED)


def _most_attempts(phase: Phase, *, repairs: bool) -> int:
    """Return how often a phase may be tried: by its own rules, and by its wards."""
    judged = repairs or phase.rules.loop_until is not None
    retrying = [ward for _, _, ward in wards_of(phase) if ward.mode == "retry"]
    own = phase.rules.max_attempts if judged else 1
    return own + sum(ward.max_attempts - 1 for ward in retrying)


def _add_validator(bound: _Bound, run: CascadeRun, phase: Phase, runs: int) -> None:
    """Add the calls of models that judge the outputs of a phase that may run so many times."""
    rules, soundings = phase.rules, phase.soundings
    tries = runs * (sum(soundings.rounds) if soundings else 1)
    judged = rules.max_attempts * (rules.max_turns if rules.turn_prompt else 1)
    asked = [(rules.loop_until, tries * judged)] if rules.loop_until else []
    asked += [(name, tries) for name in (soundings.judges.values() if soundings else ())]
    attempts = _most_attempts(phase, repairs=True)
    often = {"pre": 1, "post": attempts, "turn": attempts * (rules.max_turns + 1)}
    asked += [(ward.validator, tries * often[place]) for place, _, ward in wards_of(phase)]
    for name, times in asked:
        found = asking_validator(run.cascade.validators, run.registry, name)
        if found is not None:
            _, info = run.resolve(found.model or run.generation_of(phase).model)
            most = (info.input_room(VERDICT_TOKENS), VERDICT_TOKENS)
            bound.add(info, times * found.max_turns, *most)


def _add_evaluator(
    bound: _Bound, run: CascadeRun, phase: Phase, soundings: Soundings, runs: int
) -> None:
    """Add the calls that pick or join the soundings of what may run so many times."""
    model, times = _evaluator_calls(soundings)
    if times := runs * times:
        generation = run.generation_of(phase)
        _, info = run.resolve(model or generation.model)
        answer = max(ANSWER_TOKENS, generation.max_output_tokens)
        bound.add(info, times, info.input_room(ANSWER_TOKENS), answer)
