"""What templates need of their input: the names without which they cannot be rendered.

Only what is certain counts. What stands behind a condition, in a loop, under `default` or in a
test such as `is defined` may never be looked at, and is no need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from windlass.cascade.compile import reach
from windlass.cascade.flow import certain
from windlass.cascade.inputs_schema import InputField, fields_of
from windlass.cascade.load import LoadedCascade, PartialCascade
from windlass.cascade.templates import Template, templates_of
from windlass.errors import Mistake, did_you_mean
from windlass.text.lookups import lookups
from windlass.text.templates import TemplateError


class Need(NamedTuple):
    """A name of the input that a template needs, and the first line in it that uses it."""

    name: str
    line: int


def needs_of(template: str, of: str = "input") -> tuple[Need, ...]:
    """Return the names of the input without which the template fails, in the order of their lines.

    `of` is what the template calls the input. Raises TemplateError where it cannot be read.
    """
    used: dict[str, int] = {}
    for each in lookups(template):
        # `input.items` may be the method that every mapping has.
        if each.certain and each.name == of and each.needed and not hasattr(dict, each.keys[0]):
            used[each.keys[0]] = min(each.line, used.get(each.keys[0], each.line))
    needs = (Need(name, line) for name, line in used.items())
    return tuple(sorted(needs, key=lambda need: (need.line, need.name)))


def names_of(template: str) -> set[str] | None:
    """Return the names of the input that a template may look at (None: perhaps all of them).

    Raises TemplateError where it cannot be read.
    """
    keys = [each.keys for each in lookups(template) if each.name == "input"]
    if any(not each or hasattr(dict, each[0]) for each in keys):
        return None
    return {each[0] for each in keys}


# ---- what a whole cascade needs of its input --------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputNeed:
    """A name of the input that a run cannot do without; `use` is where a template uses it first."""

    name: str
    use: Mistake


def input_needs(
    loaded: LoadedCascade, own: Mapping[int, Collection[str]] = MappingProxyType({})
) -> tuple[InputNeed, ...]:
    """Return what a checked cascade needs of its input, each name once, in the order of use.

    `own` are names that a phase's input has without being given them, by the phase's number.
    """
    if loaded.partial is None:
        return ()
    uses: dict[str, InputNeed] = {}
    declared = fields_of(loaded.partial.cascade.inputs_schema)
    for path, template, index in _always_rendered(loaded.partial):
        names = () if index is None else own.get(index, ())
        for need in needs_of(template):
            field = declared.get(need.name)
            if need.name in names or (field is not None and field.default is not None):
                continue
            text = f"the template needs the input {_described(need.name, field)}"
            use = loaded.partial.in_template(path, template, need.line, text)
            uses.setdefault(need.name, InputNeed(need.name, use))
    for name, field in declared.items():
        if field.required and field.default is None:
            text = f"the cascade needs the input {_described(name, field)}"
            use = loaded.partial.mistake(("inputs_schema", name), text)
            uses.setdefault(name, InputNeed(name, use))
    return tuple(uses.values())


def _described(name: str, field: InputField | None) -> str:
    """Return a name of the input with what is said of it."""
    return f"{name!r} ({field.description})" if field and field.description else repr(name)


def undeclared_inputs(loaded: LoadedCascade) -> Iterator[Mistake]:
    """A warning for each template that uses a name of the input which `inputs_schema` leaves out.

    A cascade without `inputs_schema` says nothing of its input.
    """
    partial = loaded.partial
    declared = fields_of(partial.cascade.inputs_schema) if partial is not None else {}
    if partial is None or not declared:
        return
    seen: set[str] = set()
    for path, template, _ in _always_rendered(partial):
        try:
            names = names_of(template) or set[str]()
        except TemplateError:  # a mistake of its own
            continue
        for name in sorted(names - declared.keys() - seen):
            seen.add(name)
            text = f"'inputs_schema' has no input {name!r}; {did_you_mean(name, declared)}"
            yield partial.mistake(path, text)


def not_given(needs: Iterable[InputNeed], given: Collection[str]) -> list[Mistake]:
    """Return one mistake for each need that the names of the input do not meet."""
    mistakes = []
    for need in needs:
        if need.name not in given:
            way = f"give it with -i {need.name}=... (in Python: input={{{need.name!r}: ...}})"
            near = did_you_mean(need.name, given)
            way = f"{near}; {way}" if near.startswith("did") else way
            text = f"{need.use.text}, which is not given; {way}"
            mistakes.append(replace(need.use, text=text))
    return mistakes


def flags(needs: Iterable[InputNeed]) -> str:
    """Return the needs as flags of the command line: `-i file=... -i region=...`."""
    return " ".join(f"-i {need.name}=..." for need in needs)


def _always_rendered(partial: PartialCascade) -> Iterator[Template]:
    """Yield each template that is rendered in every run that gets that far."""
    phases = partial.cascade.phases
    names, sure = [phase.name for phase in phases], certain(phases)
    for each in templates_of(partial):
        phase = None if each.phase is None else phases[each.phase]
        if phase is not None and phase.name not in sure:
            continue
        match each.path:
            case ("validators", *_) | ("phases", _, "callouts", *_):
                continue
            case ("phases", _, "human_input", *_):
                continue
            case ("phases", _, "inputs", *_):
                pass
            case ("system",) if not any(each.system is None for each in phases):
                continue
            case ("phases", _, "rules", key):
                assert phase is not None
                if key != "loop_until_prompt" or phase.rules.loop_until_silent:
                    continue
            case ("phases", _, *place, "if" | "condition"):
                assert phase is not None
                exclude = frozenset(phase.context.exclude if phase.context else ())
                if not reach(phase.sources[tuple(place)].phase, names[: each.phase], exclude):
                    continue
        yield each
