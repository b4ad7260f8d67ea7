"""`injectors` in a cascade: which blocks its phases get, under which caps.

The injectors, their options and their defaults are those of `windlass.injectors`; nothing is
said twice. What a phase says goes over what its cascade says, key by key; `false` switches an
injector off, or all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Strict, Tag, create_model

from windlass.errors import CascadeError, Mistake, UsageError
from windlass.injectors.base import Injector
from windlass.injectors.catalog import BUILTIN, Wanted, class_of
from windlass.modules import Modules, UntrustedError
from windlass.parts import Count, Names, Part, Text, YesNo

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade, Phase

Volatile: TypeAlias = Literal["move", "in_place"]

_PRIORITY: Final = "Where it stands within its tier: lower numbers first, ties by name."
_CAP: Final = "The most tokens of its block"
_UNCUT: Final = f"{_CAP}; never met by cutting, but by a warning, and an error with --strict."
_CUT: Final = f"{_CAP}; what does not fit is left out item by item, and recorded."


def yes_or_object(value: Any) -> str:
    """The form of what is a switch or an object of options."""
    return "<yes>" if isinstance(value, bool) else "<object>"


def _word_or_object(value: Any) -> str:
    return "<word>" if isinstance(value, str) else "<object>"


def _typed(default: Any) -> Any:
    if isinstance(default, tuple):
        return Names
    if isinstance(default, int):
        return Count
    if default is None:
        return Annotated[float, Strict(), Field(ge=0, le=1)] | None
    return Text


def _part(kind: type[Injector]) -> type[Part]:
    stable = kind.tier == "STABLE"
    made: dict[str, Any] = {
        "cap": (Count, Field(default=kind.cap, description=_UNCUT if stable else _CUT)),
        "priority": (Count, Field(default=kind.priority, description=_PRIORITY)),
    }
    for one in fields(kind):  # type: ignore[arg-type]  # every builtin is a dataclass
        if one.init and one.default is not MISSING:
            said = Field(default=one.default, description=one.metadata["meaning"])
            made[one.name] = (_typed(one.default), said)
    return create_model(
        f"{kind.__name__}Options", __base__=Part, __doc__=kind.__doc__, __module__=__name__, **made
    )


OPTIONS: Final[Mapping[str, type[Part]]] = {name: _part(kind) for name, kind in BUILTIN.items()}
"""The options of each injector, as parts of a cascade."""


class OwnInjector(Part):
    """An injector of the user's own."""

    use: Text
    """Its class, as `package.module:Class`, or the name under which a package announces it."""

    cap: Count | None = None
    """The most tokens of its block; by default what its class says."""

    priority: Count | None = None
    """Where it stands within its tier: lower numbers first, ties by name."""

    options: dict[str, Any] = Field(default_factory=dict)
    """What its class is made with, by keyword."""


def _long_forms(said: Sequence[OwnInjector | str]) -> tuple[OwnInjector, ...]:
    return tuple(OwnInjector(use=one) if isinstance(one, str) else one for one in said)


_Own: TypeAlias = Annotated[
    Sequence[
        Annotated[
            Annotated[Text, Tag("<word>")] | Annotated[OwnInjector, Tag("<object>")],
            Discriminator(_word_or_object),
        ]
    ],
    AfterValidator(_long_forms),
]


class _Base(Part):
    """What is injected into the prompts of a phase besides its history."""

    own: _Own = ()
    """Injectors of your own: classes as `package.module:Class`, or objects with `use`."""

    vary: YesNo = False
    """Whether progress, separators, lists and labels are written in changing forms, by a seed
    made of the session."""

    volatile: Volatile = "move"
    """What becomes of values that change by themselves (`now`, `call`, `session_id`, the state in a
    shared system prompt): move puts them behind the last stable seam; in_place leaves them, which
    breaks the cache of all that stands behind them at every call."""


def _switch(name: str, part: Any) -> tuple[Any, Any]:
    form: Any = Annotated[
        Annotated[YesNo, Tag("<yes>")] | Annotated[part, Tag("<object>")],
        Discriminator(yes_or_object),
    ]
    return form, Field(default=True, description=inspect.getdoc(BUILTIN[name]))


_SWITCHES: Final[dict[str, Any]] = {name: _switch(name, part) for name, part in OPTIONS.items()}

INJECTORS: Final[type[Part]] = create_model(
    "Injectors", __base__=_Base, __doc__=str(_Base.__doc__), __module__=__name__, **_SWITCHES
)
"""All injectors with their options, as a part of a cascade."""

if TYPE_CHECKING:
    Injectors: TypeAlias = Mapping[str, Any]  # what a user of Python writes
else:
    Injectors = INJECTORS

InjectorsOf: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[Injectors, Tag("<object>")],
    Discriminator(yes_or_object),
]
"""True, false, or an object with the injectors and their options; `{}` is true."""


class WithInjectors(Part):
    """What cascades and phases share: their injectors."""

    injectors: InjectorsOf | None = None
    """What is put into prompts besides the history: true for all injectors with their defaults, or
    an object. What a phase says goes over what its cascade says, key by key."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The injectors of a phase, by name; whether they vary, and what becomes of volatile values."""

    wanted: Mapping[str, Wanted]
    vary: bool = False
    volatile: Volatile = "move"


def declared(cascade: Cascade, phase: Phase) -> Declared | None:
    """The injectors of `phase`: its own keys over the cascade's; None: it has none."""
    said = [one for one in (cascade.injectors, phase.injectors) if one is not None]
    if not said or said[-1] is False:
        return None
    merged: dict[str, Any] = {}
    for layer in map(_written, said):
        for key, value in layer.items():
            before = merged.get(key)
            both = isinstance(value, dict) and isinstance(before, dict)
            merged[key] = {**(before or {}), **value} if both else value
    wanted: dict[str, Wanted] = {}
    for name in BUILTIN:
        options = merged.get(name, True)
        if options is False:
            continue
        given = {} if options is True else dict(options)
        cap, priority = given.pop("cap", None), given.pop("priority", None)
        wanted[name] = Wanted(name, cap, priority, {k: _frozen(v) for k, v in given.items()})
    for own in merged.get("own", ()):
        one = own if isinstance(own, OwnInjector) else OwnInjector.model_validate(own)
        wanted[one.use] = Wanted(one.use, one.cap, one.priority, one.options)
    return Declared(wanted, bool(merged.get("vary", False)), merged.get("volatile", "move"))


def load_own(cascade: Cascade, modules: Modules) -> None:
    """Load the classes of the user's own injectors, so that a run loads no code while it runs.

    Raises CascadeError for one that is not there; one that nobody trusts is left alone.
    """
    mistakes: dict[str, Mistake] = {}
    for at, phase in enumerate(cascade.phases):
        found = declared(cascade, phase)
        for name in found.wanted if found else ():
            try:
                class_of(name, modules)
            except UntrustedError:
                continue
            except UsageError as error:
                own = f"phases[{at}].injectors.own" if phase.injectors else "injectors.own"
                mistakes[name] = Mistake(cascade.where(own), None, str(error))
    if mistakes:
        raise CascadeError(list(mistakes.values()))


def origins(cascade: Cascade, phase: Phase) -> Iterator[tuple[str, Any, str]]:
    """Each option of the phase's injectors with its value and who said it."""
    found = declared(cascade, phase)
    if found is None:
        off = phase.injectors is False
        yield "injectors", False, "written" if off else "default"
        return
    layers = [("phase", _written(phase.injectors)), ("cascade", _written(cascade.injectors))]

    def origin(name: str, key: str = "") -> str:
        for where, layer in layers:
            said = layer.get(name)
            if said is not None and (not key or (isinstance(said, dict) and key in said)):
                return "written" if where == "phase" else "written, for the whole cascade"
        return "default"

    yield "injectors.vary", found.vary, origin("vary")
    yield "injectors.volatile", found.volatile, origin("volatile")
    for name, part in OPTIONS.items():
        if name not in found.wanted:
            yield f"injectors.{name}", False, origin(name)
            continue
        wanted = found.wanted[name]
        held = {**wanted.options, "cap": wanted.cap, "priority": wanted.priority}
        for key, field in part.model_fields.items():
            value = held.get(key)
            yield (
                f"injectors.{name}.{key}",
                field.default if value is None else value,
                origin(name, key),
            )
    for name, one in found.wanted.items():
        if name not in OPTIONS:
            yield f"injectors.own {name}", one.cap or "its own cap", origin("own")


def _written(said: Any) -> dict[str, Any]:
    if isinstance(said, Part):
        return said.model_dump(exclude_unset=True)
    return dict(said) if isinstance(said, Mapping) else {}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
