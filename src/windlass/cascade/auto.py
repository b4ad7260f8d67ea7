"""`auto_context` and `intra_context`: the options of windows in a cascade, and what they come to.

The options, their types and their meanings are those of `windlass.window.options`; nothing is
said twice. Settings merge key by key: the profile, then the user's own settings, then the
cascade's `auto_context`, then the phase's `intra_context`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_origin

from pydantic import Discriminator, Field, Strict, Tag, create_model

from windlass.cascade.choosing import InterPhase
from windlass.parts import Part, Text, YesNo
from windlass.settings import Settings
from windlass.window.options import BLOCKS, Option, Policy, groups_of, options_of, over, plain
from windlass.window.profiles import Commit, Profile

FLAG: Final = "auto_context_intra_phase_enabled"
"""The feature flag without which no phase has a window of its own, whatever a cascade says."""

BREAKER: Final = "breaker_sessions"
"""The setting by which windows are off where they lost money, and what must leave still leaves."""

KEPT: Final = ("keep_recent_turns", "keep_recent_images", "max_input_tokens")
"""The options that hold with and without auto-context."""


def yes_or_object(value: Any) -> str:
    """The form of what is a switch or an object of options."""
    return "<yes>" if isinstance(value, bool) else "<object>"


def _typed(option: Option) -> Any:
    """What pydantic holds the value of an option against."""
    if option.is_block:
        block: Any = Annotated[BLOCK_PARTS[option.kind], Tag("<object>")]
        switch = Annotated[Annotated[YesNo, Tag("<yes>")] | block, Discriminator(yes_or_object)]
        return switch | None
    kind: Any = option.kind
    if get_origin(kind) is Literal:
        return kind
    bounds = option.bounds
    limits = Field(ge=bounds.ge, gt=bounds.gt, le=bounds.le) if bounds else Field()
    value: Any = Annotated[kind, Strict(), limits]
    return value | None if option.optional else value


def _part(name: str, options: type, doc: str) -> Any:
    """The part of a cascade that has the options of a dataclass."""
    made: dict[str, Any] = {}
    for key, option in options_of(options).items():
        described = partial(_describe, options=options, name=key)
        made[key] = (
            _typed(option),
            Field(default=plain(option.default), json_schema_extra=described),
        )
    return create_model(name, __base__=Part, __doc__=doc, __module__=__name__, **made)


def _describe(schema: dict[str, Any], *, options: type, name: str) -> None:
    """Put what an option means into its schema; reading it takes too long for every start."""
    schema["description"] = first_paragraph(meanings_of(options)[name])


def first_paragraph(prose: str) -> str:
    """The first paragraph of a text, in one line."""
    return " ".join(prose.split("\n\n", maxsplit=1)[0].split())


@cache
def meanings_of(options: type) -> Mapping[str, str]:
    """What each option of `Policy` or of one of its blocks means: the prose under its field.

    The first paragraph says it in one sentence.
    """
    return {
        under.target.id: cleandoc(prose.value.value)
        for group, _ in groups_of(options)
        for under, prose in pairwise(_body_of(group))
        if isinstance(under, ast.AnnAssign) and isinstance(under.target, ast.Name)
        if isinstance(prose, ast.Expr) and isinstance(prose.value, ast.Constant)
        if isinstance(prose.value.value, str)
    }


def _body_of(group: type) -> list[ast.stmt]:
    """The statements of a class as they are written."""
    (written,) = ast.parse(getsource(group)).body
    assert isinstance(written, ast.ClassDef)
    return written.body


BLOCK_PARTS: Final[dict[type, type[Part]]] = {}
"""The options that are objects of options, as parts of a cascade."""
BLOCK_PARTS.update((kind, _part(kind.__name__, kind, str(kind.__doc__))) for kind in BLOCKS)

INTRA: Final[type[Part]] = _part("IntraContext", Policy, "How the calls of a phase are shortened.")
"""All options of a window, as a part of a cascade."""

if TYPE_CHECKING:
    IntraContext: TypeAlias = Mapping[str, Any]  # what a user of Python writes
else:
    IntraContext = INTRA

Switch: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[IntraContext, Tag("<object>")],
    Discriminator(yes_or_object),
]
"""True, false, or options; `{}` is true."""


class AutoContext(Part):
    """Windows for every phase: what each call sees is shortened, the record keeps all."""

    profile: Profile = "default"
    """The profile that holds for the options not written: `windlass policies` lists them."""

    commit: Commit = "priced"
    """When edits are made: at_once, or priced: once they lower the bill."""

    intra_phase: Switch = True
    """What each phase sees of itself; a phase's `intra_context` goes before it, key by key."""

    inter_phase: Annotated[
        Annotated[YesNo, Tag("<yes>")] | Annotated[InterPhase, Tag("<object>")],
        Discriminator(yes_or_object),
    ] = True
    """What phases after the first see of those before; a phase's `context` goes before it."""

    helper_model: Text | None = None
    """The model that is asked what to choose, as provider/name; without one none is asked."""


@dataclass(frozen=True, slots=True)
class Said:
    """Options that somebody wrote, and where."""

    origin: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Windowed:
    """What a phase's options come to.

    `policy` None: everything is sent. `switched_off` says which setting of the user's keeps
    the phase from what the cascade asks for; empty where none does.
    """

    policy: Policy | None = None
    switched_off: str = ""


def windowed(
    auto: AutoContext | bool | None,
    intra: IntraContext | bool | None,
    settings: Settings | None = None,
    limit: int | None = None,
) -> Windowed:
    """The policy of a phase, from what its cascade and itself say.

    `settings` are the user's; `limit` are the tokens above which its oldest turns are left out.
    """
    options = merged(layers(auto, intra, settings, limit))
    asked = bool(auto) if intra is None else intra is not False
    asked = asked and options.get("enabled", True)
    off = _switched_off(settings)
    if asked and not off:
        return Windowed(Policy.of(options))
    kept = {name: options[name] for name in KEPT if options.get(name)}
    if off == "passthrough":
        return Windowed(None, off if asked or kept else "")
    if off == BREAKER and asked:
        return Windowed(
            Policy(enabled=False, **kept), off
        )  # also what the model cannot take leaves
    return Windowed(Policy(enabled=False, **kept) if kept else None, off if asked else "")


def _switched_off(settings: Settings | None) -> str:
    """The setting that keeps windows from everybody; empty where none does."""
    if settings is None:
        return ""
    if settings.passthrough:
        return "passthrough"
    if not settings.auto_context_intra_phase_enabled:
        return FLAG
    return BREAKER if settings.tripped else ""


def layers(
    auto: AutoContext | bool | None,
    intra: IntraContext | bool | None,
    settings: Settings | None = None,
    limit: int | None = None,
) -> list[Said]:
    """Who says what of a phase's options, the furthest first."""
    said: list[Said] = []
    if settings is not None:
        chosen = [settings[name] for name in ("keep_recent_turns", "keep_recent_images")]
        said += [Said(one.origin, {one.name: one.value}) for one in chosen if one.value]
    if isinstance(auto, AutoContext):
        top = _written(auto)
        inner = top.pop("intra_phase", {})
        for other in ("inter_phase", "helper_model"):
            top.pop(other, None)
        said += [Said("auto_context", top), Said("auto_context.intra_phase", _switched(inner))]
    if limit is not None:
        said.append(Said("max_input_tokens", {"max_input_tokens": limit}))
    if intra is not None:
        said.append(Said("intra_context", _switched(_written(intra))))
    return [each for each in said if each.options]


def merged(said: list[Said]) -> dict[str, Any]:
    """One set of options out of many, the nearer over the further, key by key."""
    options: dict[str, Any] = {}
    for each in said:
        options = over(options, each.options)
    return options


def origins(said: list[Said], policy: Policy) -> Iterator[tuple[str, Any, str]]:
    """Each option with its value and who chose it: a setting, the cascade, the phase, a profile.

    The options of a block are listed one by one, with a dot.
    """
    for name, value in policy.settings().items():
        by = [(each.origin, each.options[name]) for each in said if name in each.options]
        profile = "default" if name == "profile" else f"profile {policy.profile}"
        whole = [origin for origin, one in by if not isinstance(one, Mapping)]
        if not isinstance(value, dict):
            yield name, value, by[-1][0] if by else profile
            continue
        for key, one in value.items():
            inside = [origin for origin, own in by if isinstance(own, Mapping) and key in own]
            yield f"{name}.{key}", one, (inside or whole or [profile])[-1]


def _written(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, Part) else value


def _switched(value: Any) -> Mapping[str, Any]:
    if isinstance(value, bool):
        return {"enabled": value}
    options: Mapping[str, Any] = value
    return options
