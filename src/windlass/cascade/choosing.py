"""`context: {mode: auto}` and `auto_context.inter_phase`: a phase chooses what it sees of before.

Settings merge key by key: the defaults, then the cascade's `inter_phase`, then the phase's
`context`. `inter_phase` sets the mode for each phase after the first that says nothing of its
context; the user's feature flags switch it off for everybody, and never on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, Strict, model_validator

from windlass.cards.embeddings import threshold
from windlass.cards.options import (
    CALLOUT_WEIGHT,
    KEYWORD_WEIGHT,
    RECENCY_WEIGHT,
    SIMILARITY_THRESHOLD,
    Selection,
    Strategy,
)
from windlass.errors import UsageError
from windlass.parts import ONCE, Count, Part, Text, YesNo, refuse, without_repeats
from windlass.rules import Anchored, Choosing
from windlass.rules import Anchors as Always
from windlass.settings import Settings

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade, Phase

FLAG: Final = "auto_context_inter_phase_enabled"
"""The feature flag without which no phase chooses its context, whatever a cascade says."""
LLM_FLAG: Final = "auto_context_llm_selection_enabled"
"""The feature flag without which no model is asked what to choose."""

SHARE: Final = 0.1
OUTLINE: Final = 0.25
"""Both measured: `design/choosing.md`."""

WEIGHTS: Final = ("keyword_weight", "recency_weight", "callout_weight")

_Weight: TypeAlias = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


def _working_threshold(value: float | str) -> float | str:
    try:
        threshold(value)
    except UsageError as error:
        raise refuse(str(error)) from error
    return value


class Anchors(Part):
    """What a phase that chooses its context sees in any case."""

    window: Annotated[int, Strict(), Field(ge=0)] = 3
    """How many last turns of each phase in `from_phases` are taken whole."""

    from_phases: Annotated[
        Sequence[Text], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
    ] = ("previous",)
    """Earlier phases, or the words previous, first, all."""

    include: Annotated[
        Sequence[Anchored], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
    ] = ("output", "callouts", "input")
    """What is always in: output (of `from_phases`), callouts, input, errors."""

    as_role: Literal["user", "system"] = "user"
    """The role in which outputs that stand alone, and errors, are told."""


class SelectionOptions(Part):
    """How the rest of the session is chosen from, and how much of it."""

    strategy: Strategy = "hybrid"
    """heuristic (words, position, callouts), semantic (vectors), llm (a model reads summaries),
    or hybrid (words and vectors, then a model where one is named)."""

    max_tokens: Count = 30_000
    """The most tokens of anchors and chosen messages together."""

    max_messages: Count = 50
    """The most messages that are chosen, besides the anchors."""

    recency_weight: _Weight = RECENCY_WEIGHT
    """How much the position of a message counts."""

    keyword_weight: _Weight = KEYWORD_WEIGHT
    """How much its words and vectors count."""

    callout_weight: _Weight = CALLOUT_WEIGHT
    """How much it counts that a message was called out."""

    similarity_threshold: Annotated[
        Annotated[float, Strict()] | Text, AfterValidator(_working_threshold)
    ] = SIMILARITY_THRESHOLD
    """How near a message must be to the task: a share of the embedding model's scale, or a text
    such as `cosine>=0.7`."""

    share: Annotated[float, Strict(), Field(gt=0, le=1)] = SHARE
    """The most that is chosen of what there is to choose from, as a share of its tokens."""

    outline: Annotated[float, Strict(), Field(ge=0, le=1)] = OUTLINE
    """The share of what is not shown whole that may tell of it, name by name; 0: none."""

    selector_model: Text | None = None
    """The model that strategy llm, and hybrid, asks what to choose, as provider/name."""

    @model_validator(mode="after")
    def _some_weight(self) -> SelectionOptions:
        if not any(getattr(self, name) for name in WEIGHTS):
            raise refuse(f"{', '.join(WEIGHTS)} are all 0: nothing is left to choose by")
        return self


class Choice(Part):
    """What `context` says besides its sources."""

    mode: Literal["explicit", "auto"] = "explicit"
    """explicit: the sources and nothing else; auto: anchors, and what of the session matters."""

    anchors: Anchors | None = None
    """With mode auto: what is always in."""

    selection: SelectionOptions | None = None
    """With mode auto: how the rest is chosen."""


class InterPhase(Part):
    """How each phase after the first chooses what it sees of those before it."""

    enabled: YesNo = True
    """Whether phases that say nothing of their context choose it."""

    strategy: Strategy = "hybrid"
    """The strategy of phases that name none."""

    selector_model: Text | None = None
    """The model that is asked what to choose, of phases that name none."""

    anchors: Anchors | None = None
    """What is always in."""

    selection: SelectionOptions | None = None
    """How the rest is chosen."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a phase says of choosing its context.

    `choosing` None: it does not choose. `switched_off` names the user's setting that keeps it
    from doing so, `asked` whether the phase itself asked for it.
    """

    choosing: Choosing | None = None
    switched_off: str = ""
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """Options that somebody wrote, and where: `anchors` and `selection`."""

    origin: str
    anchors: Mapping[str, Any]
    selection: Mapping[str, Any]


def asks(cascade: Cascade, phase: Phase) -> bool:
    """Whether a phase is to choose its context, because it or its cascade says so."""
    if phase.context is not None:
        return phase.context.mode == "auto"
    if phase.inject_from is not None or phase.context_strategy is not None:
        return False
    inter = _inter(cascade)
    return inter is not None and inter.enabled and cascade.phases[0].name != phase.name


def chosen_of(
    cascade: Cascade, phase: Phase, commit: str, settings: Settings | None = None
) -> Chosen:
    """What a phase chooses by. Raises UsageError where options contradict each other.

    `commit` is that of the phase's windows; phases in `from_phases` stay words.
    """
    if not asks(cascade, phase):
        return Chosen()
    asked = phase.context is not None
    if settings is not None and settings.passthrough:
        return Chosen(None, "passthrough", asked)
    if settings is not None and not settings.auto_context_inter_phase_enabled:
        return Chosen(None, FLAG, asked)
    said = layers(cascade, phase, settings)
    anchors, options = _merged(one.anchors for one in said), _merged(one.selection for one in said)
    helper = options.pop("selector_model", None)
    share, outline = options.pop("share", SHARE), options.pop("outline", OUTLINE)
    llm = settings is None or settings.auto_context_llm_selection_enabled
    listed = ("from_phases", "include")
    known: dict[str, Any] = {
        name: tuple(value) if name in listed else value for name, value in anchors.items()
    }
    always = Always(**known)
    if phase.context is not None and not phase.context.include_input:
        always = replace(always, include=tuple(one for one in always.include if one != "input"))
    choosing = Choosing(
        anchors=always,
        selection=Selection(**options),
        selector=helper,
        no_model=not llm,
        at_once=commit == "at_once",
        share=share,
        outline=outline,
        exclude=frozenset(phase.context.exclude) if phase.context is not None else frozenset(),
    )
    if settings is not None and settings.tripped:
        return Chosen(replace(choosing, only_to_fit=True), "breaker_sessions", asked)
    return Chosen(choosing, asked=asked)


def layers(cascade: Cascade, phase: Phase, settings: Settings | None = None) -> list[Layer]:
    """Who says what of how a phase chooses, the furthest first."""
    said: list[Layer] = []
    if settings is not None and settings.helper_model is not None:
        origin = settings["helper_model"].origin
        said.append(Layer(origin, {}, {"selector_model": settings.helper_model}))
    auto, inter = cascade.auto_context, _inter(cascade)
    helper = getattr(auto, "helper_model", None)
    if helper is not None:
        said.append(Layer("auto_context.helper_model", {}, {"selector_model": helper}))
    if inter is not None:
        own: dict[str, Any] = {
            name: getattr(inter, name)
            for name in ("strategy", "selector_model")
            if name in inter.model_fields_set
        }
        own |= _written(inter.selection)
        said.append(Layer("auto_context.inter_phase", _written(inter.anchors), own))
    if phase.context is not None:
        context = phase.context
        said.append(Layer("context", _written(context.anchors), _written(context.selection)))
    return said


def origins(
    cascade: Cascade, phase: Phase, choosing: Choosing, settings: Settings | None = None
) -> Iterator[tuple[str, Any, str]]:
    """Each option of a phase that chooses, with its value and who chose it."""
    mode = "written" if phase.context is not None else "auto_context.inter_phase"
    yield "context.mode", "auto", mode
    said = layers(cascade, phase, settings)
    values = {name: getattr(choosing.anchors, name) for name in Anchors.model_fields}
    for name, value in values.items():
        by = [one.origin for one in said if name in one.anchors]
        shown = list(value) if isinstance(value, tuple) else value
        yield f"context.anchors.{name}", shown, by[-1] if by else "default"
    for name in SelectionOptions.model_fields:
        owns = {
            "selector_model": choosing.selector,
            "share": choosing.share,
            "outline": choosing.outline,
        }
        value = owns[name] if name in owns else getattr(choosing.selection, name)
        by = [one.origin for one in said if name in one.selection]
        yield f"context.selection.{name}", value, by[-1] if by else "default"


def asked_by(choosing: Choosing | None, own: str) -> str | None:
    """The model that a phase asks what to choose (None: nobody); `own` is the phase's."""
    if choosing is None or choosing.no_model:
        return None
    if choosing.selection.strategy == "llm":
        return choosing.selector or own
    return choosing.selector if choosing.selection.strategy == "hybrid" else None


def helpers(cascade: Cascade, settings: Settings | None = None) -> list[str]:
    """The models that are asked what to choose, and so see content of the session."""
    named: list[str] = []
    for phase in cascade.phases:
        made = chosen_of(cascade, phase, "priced", settings).choosing
        if asker := asked_by(made, ""):
            named.append(asker)
    return list(dict.fromkeys(named))


def _inter(cascade: Cascade) -> InterPhase | None:
    """What a cascade says of choosing between phases; None: nothing, or that it does not."""
    auto = cascade.auto_context
    if auto is None or auto is False:
        return None
    if auto is True:
        return InterPhase()
    said = auto.inter_phase
    if isinstance(said, bool):
        return InterPhase() if said else None
    return said


def _merged(said: Iterator[Mapping[str, Any]] | Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for each in said:
        options.update(each)
    return options


def _written(part: Part | None) -> dict[str, Any]:
    if part is None:
        return {}
    return {name: getattr(part, name) for name in part.model_fields_set}
