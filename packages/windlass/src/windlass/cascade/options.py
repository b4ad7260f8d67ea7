"""Blocks of options in a cascade: windows, choosing a context, injectors, each as a pydantic part.

Options that belong to another room (those of windows and of injectors) are made out of its
declarations: name, type, default and meaning are said there, once. What the blocks come to for a
phase is the affair of `layers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_origin

from pydantic import AfterValidator, BeforeValidator, Field, Strict, create_model, model_validator

from windlass.cascade.rules import OUTLINE, SHARE, Anchors
from windlass.declared import (
    Count,
    Model,
    Names,
    Short,
    Switchable,
    Text,
    YesNo,
    meanings_in,
    refuse,
    without_repeats,
)
from windlass.errors import UsageError
from windlass.injectors.base import Injector
from windlass.injectors.orchestrate import BUILTIN
from windlass.selection.options import (
    CALLOUT_WEIGHT,
    KEYWORD_WEIGHT,
    MAX_TOKENS,
    RECENCY_WEIGHT,
    SIMILARITY_THRESHOLD,
    Strategy,
    read_threshold,
)
from windlass.window.options import BLOCKS, Option, Policy, options_of, plain
from windlass.window.policies import shared as policies
from windlass.window.policies.free_moments import FreeMomentsOptions
from windlass.window.profiles import Commit, Profile
from windlass.window.thoughts import Thinking

# ---- choosing a context ----------------------------------------------------------------

WEIGHTS: Final = ("keyword_weight", "recency_weight", "callout_weight")

_Weight: TypeAlias = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


def _working_threshold(value: float | str) -> float | str:
    try:
        read_threshold(value)
    except UsageError as error:
        raise refuse(str(error)) from error
    return value


class SelectionOptions(Model):
    """How the rest of the session is chosen from, and how much of it."""

    strategy: Strategy = "hybrid"
    """heuristic (words, position, callouts), semantic (vectors), llm (a model reads summaries),
    or hybrid (words and vectors, then a model where one is named)."""

    max_tokens: Count = MAX_TOKENS
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


class InterPhase(Model):
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


# ---- windows ---------------------------------------------------------------------------


def _switchable(part: Any) -> Any:
    form: Any = Switchable
    return form[part]


def _type_of(option: Option) -> Any:
    """Return what pydantic holds the value of an option against."""
    if option.is_block:
        return _switchable(BLOCK_PARTS[option.kind]) | None
    kind: Any = option.kind
    if get_origin(kind) is Literal:
        return _or_off(kind) if option.optional else kind
    if kind == policies.Names:
        return Annotated[Sequence[Text], AfterValidator(without_repeats)]
    bounds = option.bounds
    limits = Field(ge=bounds.ge, gt=bounds.gt, le=bounds.le) if bounds else Field()
    value: Any = Annotated[kind, Strict(), limits]
    return _or_off(value) if option.optional else value


def _or_off(value: Any) -> Any:
    """Return a value, or null or false, which switch its option off."""
    written = value | Literal[False] | None
    return Annotated[value | None, BeforeValidator(_off, json_schema_input_type=written)]


def _off(value: Any) -> Any:
    return None if value is False else value


def _options_part(name: str, options: type, doc: str) -> Any:
    """Return the part of a cascade that has the options of a dataclass."""
    declared: dict[str, Any] = {}
    for key, option in options_of(options).items():
        described = partial(_describe, options=options, name=key)
        declared[key] = (
            _type_of(option),
            Field(default=plain(option.default), json_schema_extra=described),
        )
    return create_model(name, __base__=Model, __doc__=doc, __module__=__name__, **declared)


def _describe(schema: dict[str, Any], *, options: type, name: str) -> None:
    """Put what an option means into its schema; reading it takes too long for every start."""
    schema["description"] = first_paragraph(meanings_in(options)[name])


def first_paragraph(prose: str) -> str:
    """Return the first paragraph of a text, in one line."""
    return " ".join(prose.split("\n\n", maxsplit=1)[0].split())


BLOCK_PARTS: Final[dict[type, type[Model]]] = {}
"""The options that are objects of options, as parts of a cascade."""
BLOCK_PARTS.update((kind, _options_part(kind.__name__, kind, str(kind.__doc__))) for kind in BLOCKS)

INTRA: Final[type[Model]] = _options_part(
    "IntraContext", Policy, "How the calls of a phase are shortened."
)
"""All options of a window, as a part of a cascade."""

if TYPE_CHECKING:
    IntraContext: TypeAlias = Mapping[str, Any]  # what a user of Python writes
    FreeMoments: TypeAlias = Mapping[str, Any]
else:
    IntraContext = INTRA
    FreeMoments = BLOCK_PARTS[FreeMomentsOptions]


class AutoContext(Model):
    """Windows for every phase: what each call sees is shortened, the record keeps all."""

    profile: Profile = "default"
    """The profile that holds for the options not written: `windlass policies` lists them."""

    commit: Commit = "priced"
    """When edits are made: at_once, or priced: once they lower the bill."""

    thinking: Thinking = "keep"
    """What becomes of signed thinking where a model binds it to all that stood before it: keep
    or drop_block."""

    free_moments: Switchable[FreeMoments] | None = True
    """When one message takes the place of the earlier conversation, and how much it keeps."""

    intra_phase: Switchable[IntraContext] = True
    """What each phase sees of itself; a phase's `intra_context` goes before it, key by key."""

    inter_phase: Switchable[InterPhase] = True
    """What phases after the first see of those before; a phase's `context` goes before it."""

    helper_model: Text | None = None
    """The model that is asked what to choose, as provider/name; without one none is asked."""


# ---- injectors -------------------------------------------------------------------------

Volatile: TypeAlias = Literal["move", "in_place"]

_PRIORITY: Final = "Where it stands within its tier: lower numbers first, ties by name."
_CAP: Final = "The most tokens of its block"
_UNCUT: Final = f"{_CAP}; never met by cutting, but by a warning, and an error with --strict."
_CUT: Final = f"{_CAP}; what does not fit is left out item by item, and recorded."


def _injector_part(kind: type[Injector]) -> type[Model]:
    stable = kind.tier == "STABLE"
    declared: dict[str, Any] = {
        "cap": (Count, Field(default=kind.cap, description=_UNCUT if stable else _CUT)),
        "priority": (Count, Field(default=kind.priority, description=_PRIORITY)),
    }
    for each in fields(kind):  # type: ignore[arg-type]  # every builtin is a dataclass
        if each.init and each.default is not MISSING:
            described = Field(default=each.default, description=each.metadata["meaning"])
            declared[each.name] = (_INJECTOR_TYPES[type(each.default)], described)
    name = f"{kind.__name__}Options"
    return create_model(name, __base__=Model, __doc__=kind.__doc__, __module__=__name__, **declared)


_INJECTOR_TYPES: Final[Mapping[type, Any]] = {
    tuple: Names,
    int: Count,
    type(None): Annotated[float, Strict(), Field(ge=0, le=1)] | None,
    str: Text,
}
"""What the value of an injector's option must be, by the type of its default."""

INJECTOR_OPTIONS: Final[Mapping[str, type[Model]]] = {
    name: _injector_part(kind) for name, kind in BUILTIN.items()
}
"""The options of each injector, as parts of a cascade."""


class OwnInjector(Model):
    """An injector of the user's own."""

    use: Text
    """Its class, as `package.module:Class`, or the name under which a package announces it."""

    cap: Count | None = None
    """The most tokens of its block; by default what its class says."""

    priority: Count | None = None
    """Where it stands within its tier: lower numbers first, ties by name."""

    options: dict[str, Any] = Field(default_factory=dict)
    """What its class is made with, by keyword."""


class _Base(Model):
    """What is injected into the prompts of a phase besides its history."""

    own: Annotated[Sequence[Annotated[OwnInjector, Short("use")]], AfterValidator(tuple)] = ()
    """Injectors of your own: classes as `package.module:Class`, or objects with `use`."""

    vary: YesNo = False
    """Whether progress, separators, lists and labels are written in changing forms, by a seed
    made of the session."""

    volatile: Volatile = "move"
    """What becomes of values that change by themselves (`now`, `call`, `session_id`, the state in a
    shared system prompt): move puts them behind the last stable cut point; in_place leaves them,
    which breaks the cache of all that stands behind them at every call."""


_SWITCHES: Final[dict[str, Any]] = {
    name: (_switchable(part), Field(default=True, description=inspect.getdoc(BUILTIN[name])))
    for name, part in INJECTOR_OPTIONS.items()
}

INJECTORS: Final[type[Model]] = create_model(
    "Injectors", __base__=_Base, __doc__=str(_Base.__doc__), __module__=__name__, **_SWITCHES
)
"""All injectors with their options, as a part of a cascade."""

if TYPE_CHECKING:
    Injectors: TypeAlias = Mapping[str, Any]  # what a user of Python writes
else:
    Injectors = INJECTORS


class WithInjectors(Model):
    """What cascades and phases share: their injectors."""

    injectors: Switchable[Injectors] | None = None
    """What is put into prompts besides the history: true for all injectors with their defaults, or
    an object. What a phase says goes over what its cascade says, key by key."""
