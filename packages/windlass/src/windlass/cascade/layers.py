"""What the options of a phase come to: layer over layer, key by key, and who said what.

For windows the profile comes first, then the user's own settings, the cascade's `auto_context`,
the phase's `intra_context`. For choosing a context the defaults come first, then the cascade's
`inter_phase`, the phase's `context`; `inter_phase` sets the mode for each phase after the first
that says nothing of its context. For injectors the phase goes over the cascade. The user's
feature flags switch windows and choosing off for everybody, and never on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from windlass.cascade.model import Cascade, Phase, PhaseContext
from windlass.cascade.options import (
    INJECTOR_OPTIONS,
    AutoContext,
    InterPhase,
    OwnInjector,
    SelectionOptions,
    Volatile,
)
from windlass.cascade.rules import OUTLINE, SHARE, Anchors, Choosing
from windlass.cascade.source import Path
from windlass.declared import Model
from windlass.errors import CascadeError, Mistake, UsageError
from windlass.injectors.orchestrate import BUILTIN, InjectorSpec, injector_class
from windlass.selection.options import Selection
from windlass.settings.modules import Modules, UntrustedError
from windlass.settings.settings import Settings
from windlass.window.options import Policy, over

WINDOWS_FLAG: Final = "auto_context_intra_phase_enabled"
"""The feature flag without which no phase has a window of its own, whatever a cascade says."""
CHOOSING_FLAG: Final = "auto_context_inter_phase_enabled"
"""The feature flag without which no phase chooses its context, whatever a cascade says."""

BREAKER: Final = "breaker_sessions"
"""The setting by which windows are off where they lost money, and what must leave still leaves."""

KEPT: Final = ("keep_recent_turns", "keep_recent_images", "max_input_tokens")
"""The options of a window that hold with and without auto-context."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Options that were written in one place, and the place."""

    origin: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExplainedOption:
    """An option of a phase, its value, and where the value comes from."""

    name: str
    value: Any
    origin: str


def merge_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return one set of options out of many, the nearer over the further, key by key."""
    return reduce(over, (layer.options for layer in layers), {})


def explain_options(
    prefix: str, layers: Sequence[Layer], values: Mapping[str, Any]
) -> Iterator[ExplainedOption]:
    """Yield each option with its value and the last layer that says it, blocks key by key."""
    for name, value in values.items():
        by = [(layer.origin, layer.options[name]) for layer in layers if name in layer.options]
        if not isinstance(value, dict):
            origin = by[-1][0] if by else "default"
            yield ExplainedOption(f"{prefix}.{name}", value, origin)
            continue
        whole = [origin for origin, option in by if not isinstance(option, Mapping)]
        for key, held in value.items():
            inside = [origin for origin, own in by if isinstance(own, Mapping) and key in own]
            origin = (inside or whole or ["default"])[-1]
            yield ExplainedOption(f"{prefix}.{name}.{key}", held, origin)


def _written(options: Any) -> dict[str, Any]:
    """Return what was written of a block of options, and of the blocks in it, as plain data."""
    return options.model_dump(exclude_unset=True) if isinstance(options, Model) else {}


# ---- windows -------------------------------------------------------------------------


def window_policy(
    cascade: Cascade, phase: Phase, settings: Settings | None = None, limit: int | None = None
) -> tuple[Policy | None, str]:
    """Return the policy of a phase, from what its cascade and itself say; None: everything is sent.

    With it the user's setting that keeps the phase from what the cascade asks for ('': none does).
    `settings` are the user's; `limit` are the tokens above which its oldest turns are left out.
    """
    options = merge_layers(window_layers(cascade, phase, settings, limit))
    intra = phase.intra_context
    wants_window = bool(cascade.auto_context) if intra is None else intra is not False
    wants_window = wants_window and options.get("enabled", True)
    off = _switched_off(settings, WINDOWS_FLAG)
    if not off and settings is not None and settings.tripped:
        off = BREAKER
    if wants_window and not off:
        return Policy.of(options), ""
    kept = {name: options[name] for name in KEPT if options.get(name)}
    if off == "passthrough":
        return None, off if wants_window or kept else ""
    # With the breaker, what the model cannot take still leaves.
    must_leave = bool(kept) or (off == BREAKER and wants_window)
    policy = Policy(enabled=False, **kept) if must_leave else None
    return policy, off if wants_window else ""


def _switched_off(settings: Settings | None, flag: str) -> str:
    """Return the setting that keeps the feature of `flag` from everybody; empty where none does."""
    if settings is None:
        return ""
    if settings.passthrough:
        return "passthrough"
    return "" if getattr(settings, flag) else flag


def window_layers(
    cascade: Cascade, phase: Phase, settings: Settings | None = None, limit: int | None = None
) -> list[Layer]:
    """Return who says what of a phase's window, the furthest first."""
    layers: list[Layer] = []
    if settings is not None:
        own = [settings[name] for name in ("keep_recent_turns", "keep_recent_images")]
        layers += [Layer(each.origin, {each.name: each.value}) for each in own if each.value]
    auto = _written(cascade.auto_context)
    inner = auto.pop("intra_phase", {})
    shown = {key: auto[key] for key in auto if key not in {"inter_phase", "helper_model"}}
    layers += [Layer("auto_context", shown), Layer("auto_context.intra_phase", _switch(inner))]
    if limit is not None:
        layers.append(Layer("max_input_tokens", {"max_input_tokens": limit}))
    if phase.intra_context is not None:
        layers.append(Layer("intra_context", _switch(phase.intra_context)))
    return [layer for layer in layers if layer.options]


def _switch(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"enabled": value}
    return dict(value) if isinstance(value, Mapping) else _written(value)


# ---- choosing a context --------------------------------------------------------------


def _chooses(cascade: Cascade, phase: Phase) -> bool:
    """Return whether a phase is to choose its context, because it or its cascade says so."""
    if phase.context is not None:
        return phase.context.mode == "auto"
    if phase.inject_from is not None or phase.context_strategy is not None:
        return False
    inter = _inter_phase(cascade)
    return inter is not None and inter.enabled and cascade.phases[0].name != phase.name


def context_choice(
    cascade: Cascade, phase: Phase, commit: str, settings: Settings | None = None
) -> tuple[Choosing | None, str]:
    """Return what a phase chooses by (None: it does not).

    Raises UsageError for contradicting options.

    With it the user's setting that keeps the phase from choosing ('': none does). `commit` is that
    of the phase's windows; phases in `from_phases` stay words.
    """
    if not _chooses(cascade, phase):
        return None, ""
    if off := _switched_off(settings, CHOOSING_FLAG):
        return None, off
    options = merge_layers(choosing_layers(cascade, phase, settings))
    selection = options.get("selection", {})
    selector = selection.pop("selector_model", None)
    share, outline = selection.pop("share", SHARE), selection.pop("outline", OUTLINE)
    anchors, context = Anchors(**options.get("anchors", {})), phase.context
    if context is not None and not context.include_input:
        include = tuple(each for each in anchors.include if each != "input")
        anchors = anchors.model_copy(update={"include": include})
    choosing = Choosing(
        anchors=anchors,
        selection=Selection(**selection),
        selector=selector,
        no_model=settings is not None and not settings.auto_context_llm_selection_enabled,
        at_once=commit == "at_once",
        share=share,
        outline=outline,
        exclude=frozenset(context.exclude) if context is not None else frozenset(),
    )
    if settings is not None and settings.tripped:
        return replace(choosing, only_to_fit=True), BREAKER
    return choosing, ""


def choosing_layers(
    cascade: Cascade, phase: Phase, settings: Settings | None = None
) -> list[Layer]:
    """Say who says what of how a phase chooses, the furthest first: `anchors` and `selection`."""
    layers: list[Layer] = []
    if settings is not None and settings.helper_model is not None:
        origin = settings["helper_model"].origin
        layers.append(Layer(origin, {"selection": {"selector_model": settings.helper_model}}))
    helper = getattr(cascade.auto_context, "helper_model", None)
    if helper is not None:
        selection = {"selection": {"selector_model": helper}}
        layers.append(Layer("auto_context.helper_model", selection))
    inter = _inter_phase(cascade)
    if inter is not None:
        written = _written(inter)
        short: dict[str, Any] = {
            key: written[key] for key in ("strategy", "selector_model") if key in written
        }
        layers.append(_choosing_layer("auto_context.inter_phase", inter, short))
    if phase.context is not None:
        layers.append(_choosing_layer("context", phase.context, {}))
    return layers


def _choosing_layer(
    origin: str, block: InterPhase | PhaseContext, short: Mapping[str, Any]
) -> Layer:
    selection = {**short, **_written(block.selection)}
    return Layer(origin, {"anchors": _written(block.anchors), "selection": selection})


def explain_choosing(
    cascade: Cascade, phase: Phase, choosing: Choosing, settings: Settings | None = None
) -> Iterator[ExplainedOption]:
    """Yield each option of a phase that chooses, with its value and who chose it."""
    mode = "written" if phase.context is not None else "auto_context.inter_phase"
    yield ExplainedOption("context.mode", "auto", mode)
    own = {name: getattr(choosing, name) for name in ("share", "outline")}
    own["selector_model"] = choosing.selector
    selection = {
        name: own[name] if name in own else getattr(choosing.selection, name)
        for name in SelectionOptions.model_fields
    }
    values = {"anchors": choosing.anchors.model_dump(mode="json"), "selection": selection}
    yield from explain_options("context", choosing_layers(cascade, phase, settings), values)


def selector_of(choosing: Choosing | None, own: str) -> str | None:
    """Return the model that a phase asks what to choose (None: nobody); `own` is the phase's."""
    if choosing is None or choosing.no_model:
        return None
    if choosing.selection.strategy == "llm":
        return choosing.selector or own
    return choosing.selector if choosing.selection.strategy == "hybrid" else None


def selector_models(cascade: Cascade, settings: Settings | None = None) -> list[str]:
    """Return the models that are asked what to choose, and so see content of the session."""
    choices = (context_choice(cascade, phase, "priced", settings) for phase in cascade.phases)
    named = (selector_of(choosing, "") for choosing, _ in choices)
    return list(dict.fromkeys(name for name in named if name))


def _inter_phase(cascade: Cascade) -> InterPhase | None:
    """Return what a cascade says of choosing between phases; None: nothing, or that it does not."""
    auto = cascade.auto_context
    inter = auto.inter_phase if isinstance(auto, AutoContext) else bool(auto)
    if isinstance(inter, bool):
        return InterPhase() if inter else None
    return inter


# ---- injectors -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhaseInjectors:
    """The injectors of a phase, by name; whether they vary, and what becomes of volatile values."""

    specs: Mapping[str, InjectorSpec]
    vary: bool = False
    volatile: Volatile = "move"


def injectors_of(cascade: Cascade, phase: Phase) -> PhaseInjectors | None:
    """Return the injectors of `phase`: its own keys over the cascade's; None: it has none."""
    switch = cascade.injectors if phase.injectors is None else phase.injectors
    if switch is None or switch is False:
        return None
    options: dict[str, Any] = {}
    for layer in _injector_layers(cascade, phase):
        for key, value in layer.options.items():
            before = options.get(key)
            both = isinstance(value, Mapping) and isinstance(before, Mapping)
            options[key] = {**(before or {}), **value} if both else value
    specs: dict[str, InjectorSpec] = {}
    for name in BUILTIN:
        given = options.get(name, True)
        if given is False:
            continue
        held = {} if given is True else dict(given)
        cap, priority = held.pop("cap", None), held.pop("priority", None)
        specs[name] = InjectorSpec(name, cap, priority, held)
    for each in options.get("own", ()):
        own = OwnInjector.model_validate(each)
        specs[own.use] = InjectorSpec(own.use, own.cap, own.priority, own.options)
    return PhaseInjectors(specs, options.get("vary", False), options.get("volatile", "move"))


def injector_folders(holder: Cascade | Phase) -> Iterator[tuple[Path, str]]:
    """The folders that a cascade or a phase names for its injectors, by their place in these."""
    written = _written(holder.injectors)
    options: dict[Path, Any] = {(name,): written.get(name) for name in BUILTIN}
    for at, own in enumerate(written.get("own", ())):
        options["own", at, "options"] = own.get("options") if isinstance(own, Mapping) else None
    for path, held in options.items():
        if isinstance(held, Mapping) and isinstance(folder := held.get("folder"), str):
            yield (*path, "folder"), folder


def _injector_layers(cascade: Cascade, phase: Phase) -> list[Layer]:
    return [
        Layer("written, for the whole cascade", _written(cascade.injectors)),
        Layer("written", _written(phase.injectors)),
    ]


def explain_injectors(cascade: Cascade, phase: Phase) -> Iterator[ExplainedOption]:
    """Yield each option of the phase's injectors with its value and who said it."""
    injectors = injectors_of(cascade, phase)
    if injectors is None:
        off = "written" if phase.injectors is False else "default"
        yield ExplainedOption("injectors", value=False, origin=off)
        return
    values: dict[str, Any] = {"vary": injectors.vary, "volatile": injectors.volatile}
    for name, part in INJECTOR_OPTIONS.items():
        values[name] = False
        if spec := injectors.specs.get(name):
            held = {**spec.options, "cap": spec.cap, "priority": spec.priority}
            values[name] = {
                key: field.default if held.get(key) is None else held[key]
                for key, field in part.model_fields.items()
            }
    # A switch of an injector that is on says nothing of its options.
    layers = [
        Layer(
            layer.origin,
            {
                key: value
                for key, value in layer.options.items()
                if not (key in injectors.specs and isinstance(value, bool))
            },
        )
        for layer in _injector_layers(cascade, phase)
    ]
    yield from explain_options("injectors", layers, values)
    for name, spec in injectors.specs.items():
        if name not in INJECTOR_OPTIONS:
            origin = [layer.origin for layer in layers if "own" in layer.options][-1]
            yield ExplainedOption(f"injectors.own {name}", spec.cap or "its own cap", origin)


def load_own_injectors(cascade: Cascade, modules: Modules) -> None:
    """Load the classes of the user's own injectors, so that a run loads no code while it runs.

    Raises CascadeError for one that is not there; one that nobody trusts is left alone.
    """
    mistakes: dict[str, Mistake] = {}
    for at, phase in enumerate(cascade.phases):
        injectors = injectors_of(cascade, phase)
        for name in injectors.specs if injectors else ():
            try:
                injector_class(name, modules)
            except UntrustedError:
                continue
            except UsageError as error:
                own = f"phases[{at}].injectors.own" if phase.injectors else "injectors.own"
                mistakes[name] = cascade.mistake_at(own, str(error))
    if mistakes:
        raise CascadeError(list(mistakes.values()))
