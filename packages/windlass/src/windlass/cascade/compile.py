"""From what a phase says of its context to the one inner form, a `windlass.cascade.rules.Rule`.

Everything that stands for something else is resolved here: the words previous,
first and all, `exclude`, and `context_strategy`. The cascade is taken to be
checked; a name that is unknown stays what it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from windlass.cascade import rules
from windlass.cascade.flow import is_graph
from windlass.cascade.layers import (
    ExplainedOption,
    Layer,
    context_choice,
    explain_choosing,
    explain_injectors,
    explain_options,
    window_layers,
    window_policy,
)
from windlass.cascade.model import Cascade, GenerationSettings, Phase
from windlass.cascade.options import AutoContext
from windlass.declared import Model
from windlass.settings.settings import Settings
from windlass.window.expire import Expiry
from windlass.window.options import Policy

T = TypeVar("T")

INDENT = "  "
RECENT_TURNS = 2
"""What `context_strategy: recent` carries over a boundary where `turns` does not say."""


def compile_rule(
    cascade: Cascade,
    phase: Phase,
    settings: Settings | None = None,
    ran: Sequence[str] | None = None,
) -> rules.Rule:
    """Return what `phase`, which is one of the phases of `cascade`, says of its context.

    `settings` are the user's: what they keep of every cascade, and what they switch off. `ran` are
    the phases that have run, in order, those of sub-cascades included (None: nobody knows yet; then
    those before it in the file will have, and in a graph the words previous, first and all stay
    words).
    """
    index = _index(cascade, phase)
    base = f"phases[{index}]"
    budget = rules.Budget(**dict(phase.max_input_tokens or ()))
    limit = None if phase.context_strategy == "sliding" else _pruned(budget)  # it slides within it
    policy, off = window_policy(cascade, phase, settings, limit)
    commit = _commit(cascade, policy)
    choosing, not_choosing = context_choice(cascade, phase, commit, settings)
    shared: dict[str, Any] = {
        "expiry": Expiry(**dict(phase.context_ttl or ())),
        "budget": budget,
        "output_only": phase.context_retention == "output_only",
        "policy": policy,
        "switched_off": off,
        "choosing": choosing,
        "not_choosing": not_choosing,
    }
    if ran is None and not is_graph(cascade.phases):
        ran = [each.name for each in cascade.phases[:index]]
    own_names = {each.name for each in cascade.phases}
    if phase.context is not None:
        exclude = frozenset(phase.context.exclude)
        sources = _sources(phase.context.from_, ran, f"{base}.context.from", own_names, exclude)
        if choosing is not None:
            return rules.Rule("auto", sources, **shared)
        if not_choosing:
            return rules.Rule("snowball", sources, position="end", **shared)
        include_input = phase.context.include_input
        return rules.Rule("selective", sources, include_input=include_input, **shared)
    if choosing is not None:
        return rules.Rule("auto", **shared)
    if phase.inject_from is not None:
        sources = _sources(phase.inject_from, ran, f"{base}.inject_from", own_names)
        return rules.Rule("snowball", sources, position=phase.position, **shared)
    match phase.context_strategy:
        case "fresh":
            return rules.Rule("selective", include_input=True, **shared)
        case "minimal":
            last = tuple(
                rules.PhaseSource(phase=name, include=("output",), place=f"{base}.context_strategy")
                for name in reach("previous", ran, frozenset(), own_names)
            )
            return rules.Rule("selective", last, **shared)
        case "sliding":
            return rules.Rule("snowball", sliding=True, newest_within=budget.limit, **shared)
        case "recent":
            return rules.Rule("snowball", newest_turns=phase.turns or RECENT_TURNS, **shared)
        case _:
            return rules.Rule("snowball", **shared)


def _commit(cascade: Cascade, policy: Policy | None) -> str:
    """When edits are made, and a context is chosen: what the phase says, else the cascade."""
    if policy is not None and policy.enabled:
        return policy.commit
    auto = cascade.auto_context
    return auto.commit if isinstance(auto, AutoContext) else "priced"


def _pruned(budget: rules.Budget) -> int | None:
    """Return the tokens above which the phase's oldest turns are left out; None: they never are."""
    return budget.limit if budget.on_exceed in {"prune", "summarise"} else None


def reach(
    word: str,
    ran: Sequence[str] | None,
    exclude: frozenset[str],
    own: Collection[str] | None = None,
) -> list[str]:
    """Return the phases that `word` stands for after those that have `ran`.

    A name stands for itself.

    Where nobody knows what has (None) so does a word. `first` and `previous` are phases of the
    cascade's `own` (None: all are).
    """
    if ran is None:
        return [word]
    earlier = [name for name in ran if name not in exclude]
    of_own = [name for name in earlier if own is None or name in own]
    match word:
        case "all":
            return list(dict.fromkeys(earlier))
        case "first":
            return of_own[:1]
        case "previous":
            return of_own[-1:]
        case _:
            return [word]


def _index(cascade: Cascade, phase: Phase) -> int:
    # By identity first: Python users may hand in the same settings under two names.
    same = (index for index, each in enumerate(cascade.phases) if each is phase)
    index = next(same, None)
    return index if index is not None else list(cascade.phases).index(phase)


def _sources(
    sources: Sequence[rules.ContextSource],
    ran: Sequence[str] | None,
    place: str,
    own: Collection[str],
    exclude: frozenset[str] = frozenset(),
) -> tuple[rules.PhaseSource, ...]:
    return tuple(
        rules.PhaseSource.model_construct(
            **{**dict(source), "phase": name, "place": f"{place}[{position}]"}
        )
        for position, source in enumerate(sources)
        for name in reach(source.phase, ran, exclude, own)
    )


# ---- the same for people -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhaseDefaults:
    """All settings of a phase, and the rule they come to, as data and in words."""

    phase: str
    settings: tuple[ExplainedOption, ...]
    rule: rules.Rule
    words: str

    def __str__(self) -> str:
        rows = [(option.name, option.value, option.origin) for option in self.settings]
        return settings_text(f"phase {self.phase!r} {self.words}", rows)


class Explanations(list[T]):
    """One entry for each phase or task; printed, a text for people."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


def settings_text(title: str, rows: Sequence[tuple[str, Any, str]]) -> str:
    """Return settings under a title, a line each: name, value, where the value comes from."""
    width = max(len(name) for name, _, _ in rows)
    lines = [
        f"{INDENT}{name:<{width}}  {'-' if value is None else value}  ({origin})"
        for name, value, origin in rows
    ]
    return "\n".join([title, *lines])


def explain_defaults(
    cascade: Cascade, settings: Settings | None = None
) -> Explanations[PhaseDefaults]:
    """Per phase, every setting with its origin, and what the phase will see in words."""
    entries = Explanations[PhaseDefaults]()
    for phase in cascade.phases:
        rule = compile_rule(cascade, phase, settings)
        listed = (
            *_generation(cascade, phase),
            *_settings(phase),
            *_choosing(cascade, phase, rule, settings),
            *_options(cascade, phase, rule, settings),
            *explain_injectors(cascade, phase),
        )
        entries.append(PhaseDefaults(phase.name, listed, rule, phase_in_words(phase, rule)))
    return entries


def _options(
    cascade: Cascade, phase: Phase, rule: rules.Rule, settings: Settings | None
) -> Iterator[ExplainedOption]:
    """Yield the options of the phase's window, where it has one, else who switched it off."""
    if rule.switched_off and settings is not None:
        origin = _off(settings, rule.switched_off)
        yield ExplainedOption("intra_context", value=False, origin=origin)
    elif rule.policy is None:
        yield ExplainedOption("intra_context", None, _written(phase.intra_context is not None))
    if rule.policy is None:
        return
    layers = window_layers(cascade, phase, settings, _pruned(rule.budget))
    origins, values = {layer.origin for layer in layers}, rule.policy.settings()
    profile = Layer(f"profile {rule.policy.profile}", dict.fromkeys({*values} - {"profile"}))
    for option in explain_options("intra_context", [profile, *layers], values):
        # Where nothing else is shortened, only what was asked for is in force.
        if rule.policy.enabled or option.origin in origins:
            yield option


def _choosing(
    cascade: Cascade, phase: Phase, rule: rules.Rule, settings: Settings | None
) -> Iterator[ExplainedOption]:
    """Yield the options of a phase that chooses its context, or who switched that off."""
    if rule.choosing is not None:
        yield from explain_choosing(cascade, phase, rule.choosing, settings)
    elif rule.not_choosing and settings is not None:
        origin = _off(settings, rule.not_choosing)
        yield ExplainedOption("context.mode", "explicit", origin)


def _off(settings: Settings, name: str) -> str:
    off = settings[name]
    return f"{off.name} is {off.value}: {off.origin}"


_WHOLE: Final = "written, for the whole cascade"


def _generation(cascade: Cascade, phase: Phase) -> Iterator[ExplainedOption]:
    used = cascade.settings_for(phase)
    for name in GenerationSettings.model_fields:
        value, is_own = getattr(used, name), getattr(phase, name) is not None
        origin = "written" if is_own else "default" if value is None else _WHOLE
        yield ExplainedOption(name, value, origin)
    if phase.system is None and cascade.system is not None:
        yield ExplainedOption("system", cascade.system, _WHOLE)


_EXPLAINED_ELSEWHERE = frozenset({"name", "instructions", "intra_context", "injectors"})


def _settings(phase: Phase) -> Iterator[ExplainedOption]:
    for name in Phase.model_fields:
        value = getattr(phase, name)
        written = name in phase.model_fields_set
        if name in GenerationSettings.model_fields or name in _EXPLAINED_ELSEWHERE:
            continue
        if name == "system" and value is None:
            continue
        if name == "rules" or (isinstance(value, Model) and name != "context"):
            yield from _inner(name, value)
        elif name in {"context", "inject_from"}:
            is_short = name == "context" and phase.context_strategy in {"fresh", "minimal"}
            short = f"shorthand: context_strategy {phase.context_strategy}"
            yield ExplainedOption(name, _plain(value), short if is_short else _written(written))
        else:
            yield ExplainedOption(name, _plain(value), _written(written))


def _inner(name: str, part: Model) -> Iterator[ExplainedOption]:
    for key in type(part).model_fields:
        value = _plain(getattr(part, key))
        yield ExplainedOption(f"{name}.{key}", value, _written(key in part.model_fields_set))


def _written(written: bool) -> str:
    return "written" if written else "default"


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def phase_in_words(phase: Phase, rule: rules.Rule) -> str:
    """Return what a phase sees, or which tool it runs, in sentences."""
    if phase.tool is not None:
        return f"runs the tool {phase.tool}, and asks no model."
    return rule_in_words(rule)


def rule_in_words(rule: rules.Rule) -> str:
    """Return what a phase with this rule sees, in sentences."""
    sources = [_source_in_words(source) for source in rule.sources]
    listed = "; ".join(sources)
    if rule.carried is not None:
        text = f"sees only: {rule.carried.words}"
    elif rule.mode == "selective":
        start = "the input" if rule.include_input else ""
        seen = "; ".join(part for part in (start, listed) if part) or "nothing of what was before"
        text = f"sees only: {seen}"
    elif rule.mode == "auto" and rule.choosing is not None:
        text = _choice_in_words(rule.choosing)
        text += f"; and in any case {listed}" if sources else ""
    elif rule.sliding:
        share = f"{rules.SLIDING_SHARE:.0%} of the model's window"
        room = f"{rule.newest_within:,} tokens" if rule.newest_within else share
        text = f"sees the newest whole turns of all that was said before, within {room}"
    else:
        text = "sees all that was said before"
        if rule.newest_turns is not None:
            text = f"sees the last {rule.newest_turns} turns of all that was said before"
        if sources:
            side = "before" if rule.position == "start" else "after"
            text += f", and {side} it: {listed}"
    if rule.policy is not None and rule.policy.enabled:
        text += f". Its calls are shortened (profile {rule.policy.profile})"
    if rule.output_only:
        text += ". Later phases see its output only"
    return text + "."


def _choice_in_words(choosing: rules.Choosing) -> str:
    anchors, options = choosing.anchors, choosing.selection
    always: list[str] = [*anchors.include]
    if anchors.window:
        always.append(f"the last {anchors.window} turns")
    of = f" of {', '.join(anchors.from_phases)}" if anchors.from_phases else ""
    text = (
        f"chooses by {options.strategy} what it sees of what was said before, within"
        f" {options.max_tokens:,} tokens; always {', '.join(always) or 'nothing'}{of}"
    )
    return text if choosing.at_once else f"{text}; where all of it costs less, it sees all (priced)"


_REACHED: Final = {
    "all": "each phase before",
    "first": "the first phase",
    "previous": "the phase before",
}
"""What words stand for until it is known what ran."""


def _source_in_words(source: rules.PhaseSource) -> str:
    kinds = []
    for kind in source.include:
        if kind == "images" and source.images_filter != "all":
            many = source.images_filter == "last_n"
            kinds.append(f"the last {source.images_count} images" if many else "the last image")
        elif kind == "messages" and source.messages_filter != "all":
            kinds.append(f"messages ({source.messages_filter})")
        else:
            kinds.append(kind)
    text = f"{', '.join(kinds)} of {_REACHED.get(source.phase, repr(source.phase))}"
    if source.as_role != "user":
        text += f" as {source.as_role}"
    return text + (f" if {source.condition}" if source.condition else "")
