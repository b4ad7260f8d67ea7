"""What pydantic finds wrong with a cascade file, in sentences for the person who wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from windlass.cascade import model
from windlass.cascade.source import Path, path_text, value_at
from windlass.declared import FORMS, SENTENCE, Model
from windlass.errors import did_you_mean, perhaps_newer
from windlass.safety.redaction import redacted_command
from windlass.window.options import GONE

_BY_NAME: Final = ("inputs_schema", "mcp_servers", "validators")
"""Keys of a cascade whose object has the user's own names for keys."""


def _parts_in(annotation: Any) -> Iterator[type[Model]]:
    """Yield the parts that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts_in(inner)


def _parts_under(
    part: type[Model], within: tuple[type[Model], ...] = ()
) -> Iterator[tuple[str, type[Model]]]:
    """Yield each key that holds an object in `part` and below, with the part it holds.

    A part that stands `within` itself is looked into once.
    """
    for name, field in part.model_fields.items():
        for inner in _parts_in(field.annotation):
            key = _named(name) if name in _BY_NAME else spellings(name, field)[0]
            yield key, inner
            if inner not in (*within, part):
                yield from _parts_under(inner, (*within, part))


def _named(key: str) -> str:
    return f"{key}.NAME"


REFUSED: Final[Mapping[str, str]] = {
    "pareto_frontier": "whoever picks among soundings weighs their cost; write"
    " 'cost_aware_evaluation': true",
    "async_cascades": "no cascade runs beside a run; 'sub_cascades' of a phase are waited for",
    "rag": "name the folder as the setting 'search_folder', and give the phase 'web_search'",
}
"""Keys of other runners that Windlass does not take, and why."""

_TWINS: Final = {
    "if": "condition",
    "condition": "if",
    "filter": "messages_filter",
    "messages_filter": "filter",
}

_NAME: Final = (
    "cannot be used as a name: a name becomes a folder, so it must not begin with a space or a"
    ' dot, or contain any of / \\ < > : " | ? *'
)
_OBJECTS: Final[Mapping[str, str]] = {
    "": "an object with 'cascade_id' and 'phases'",
    "phases": "an object with 'name' and 'instructions'",
    "on_error": "the name of a phase, or a phase without a name",
    "inputs": "an object such as {'path': '{{ input.path }}'}",
    "routing": "an object such as {'empty': 'ask', 'default': 'report'}",
    "retry": "an object such as {'max_attempts': 3}",
    "timeout": "a number of seconds, or text such as '30s'",
    "from": "the name of a phase, or an object with 'phase'",
    "inject_from": "the name of a phase, or an object with 'phase'",
    "context": "an object with 'from', or with 'mode': 'auto'",
    "inter_phase": "true, false, or an object such as {'strategy': 'hybrid'}",
    "anchors": "an object such as {'window': 3}",
    "selection": "an object such as {'max_tokens': 30000}",
    "max_input_tokens": "a number of tokens, or an object with 'limit'",
    "auto_context": "true, false, or an object such as {'profile': 'lean'}",
    "intra_phase": "true, false, or an object such as {'window': 5}",
    "intra_context": "true, false, or an object such as {'window': 5}",
    "compress": "true, false, or an object such as {'above_chars': 1500}",
    "free_moments": "true, false, or an object such as {'priced': 3}",
    "keep": "true, false, or an object such as {'share': 0.5}",
    "decay": "true, false, or an object such as {'full': 4, 'fold': 6}",
    "output_extraction": "an object with 'pattern' and 'store_as'",
    "injectors": "true, false, or an object such as {'skills': {'active': ['pdf']}}",
    "memory": "the name of a bank, a list of them, or an object such as {'read': ['notes']}",
    "soundings": "an object such as {'factor': 3, 'evaluator_instructions': 'The clearest one.'}",
    "reforge": "an object such as {'honing_prompt': 'Cut a third.'}",
    "evaluator": "'human', 'hybrid', a model, a function, or an object such as {'validator':"
    " 'my_checks:short'}",
    "human": "an object such as {'timeout_seconds': 600}",
    "human_eval": "an object such as {'timeout_seconds': 600}",
    "models": "a list of models, or an object such as {'openai/gpt-4o': {'factor': 2}}",
    "cost_aware_evaluation": "true, false, or an object such as {'cost_weight': 0.3}",
    "decision_points": "true, false, or an object such as {'routing': {'no': '_retry'}}",
    "human_input": "true, false, the question, or an object such as {'question': 'Is it good?'}",
    "aggregate": "true, false, or an object such as {'instructions': 'Make one text of them.'}",
    "callouts": "an object such as {'decision': '^DECISION:'}",
    "sub_cascades": "an object with 'ref'",
    "handoffs": "the name of a phase, or an object with 'target'",
    "inputs_schema": "an object such as {'file': 'the file to chart'}",
    "inputs_schema.NAME": "a description, or an object such as {'type': 'string'}",
    "validators": "an object such as {'cites': {'instructions': 'Does it name a source?'}}",
    "validators.NAME": "an object with 'instructions'",
    "input_map": "an object such as {'ticket': 'ticket_id'}",
}


_HOMES: Final = {
    "": "the top of the file",
    "phases": "a phase",
    "on_error": "a phase",
    "from": "a source",
    "inject_from": "a source",
    "sub_cascades": "a sub-cascade",
}
_SHOWN: Final = 60


def path_of(error: ErrorDetails, data: Any) -> Path:
    """Give the key path of an error in the data, without the forms that pydantic names in between.

    What is wrong with a value that stands for an object is told of the value.
    """
    steps = error["loc"]
    # An unknown key may be called like a form.
    key = steps[-1:] if error["type"] == "extra_forbidden" else ()
    path = tuple(step for step in steps[: len(steps) - len(key)] if step not in FORMS) + key
    is_short = len(path) > 1 and isinstance(value_at(data, path[:-1]), str | int | float)
    return path[:-1] if is_short else path


def part_at(path: Path) -> str:
    """Return the last key of `path`: list positions do not change what stands there."""
    if path[:1] and path[0] in _BY_NAME and len(path) == 2:  # noqa: PLR2004 - the user's own name
        return _named(str(path[0]))
    if path[-2:-1] == ("models",):
        return "models"
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def keys_of(part: type[Model]) -> list[str]:
    """Return the keys that may be written in `part`, as they are written."""
    return [key for name, field in part.model_fields.items() for key in spellings(name, field)]


def spellings(name: str, field: FieldInfo) -> list[str]:
    """Return how the field may be spelled in a file, the usual way first."""
    alias = field.validation_alias
    choices = [str(choice) for choice in getattr(alias, "choices", [name])]
    return [choice for choice in choices if not choice.endswith("_")]


PARTS: Final[Mapping[str, type[Model]]] = {"": model.Cascade, **dict(_parts_under(model.Cascade))}
"""Which model stands under which key."""


def shown(value: Any) -> str:
    """Return a value as it would be written, short enough for one line."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")
    if isinstance(value, list):
        return "a list"
    # What is no JSON value comes from Python and is shown as there.
    return "an object" if isinstance(value, dict) else json.dumps(value, default=repr)


def where(path: Path, data: Any) -> str:
    """Return the place in words: `phase 'validate', context.from[0]`."""
    if path[:1] != ("phases",) or len(path) == 1:
        return path_text(path)
    phase = value_at(data, path[:2])
    name = phase.get("name") if isinstance(phase, dict) else None
    if not isinstance(name, str) or not name:
        return path_text(path)
    head, rest = f"phase {shown(name)}", path_text(path[2:])
    return f"{head}, {rest}" if rest else head


def sentence(error: ErrorDetails, data: Any, written: str | None) -> str:
    """Return what is wrong, with its place in front.

    Args:
        error: what pydantic says.
        data: the whole file's data.
        written: the text in the file, where YAML read it as something else than text.
    """
    path = path_of(error, data)
    if error["type"] == "extra_forbidden":
        return unknown_key(str(path[-1]), path[:-1], data)
    if error["type"] == "missing":
        path, text = path[:-1], f"{path[-1]!r} is missing"
    else:
        text = _about_value(error, path, written)
    place = where(path, data)
    return f"{place}: {text}" if place else text


def unknown_key(key: str, holder: Path, data: Any) -> str:
    """Return what is wrong with a key that the object at `holder` does not have, place in front."""
    place = where(holder, data)
    text = _about_unknown_key(key, holder, data)
    return f"{place}: {text}" if place else text


def _about_unknown_key(key: str, holder: Path, data: Any) -> str:
    part = part_at(holder)
    twin = _TWINS.get(key)
    if twin is not None and part in {"from", "inject_from"} and twin in value_at(data, holder):
        return f"{twin!r} and {key!r} are two spellings of the same key; keep one of them"
    if key in GONE:
        return f"there is no option {key!r} any more: {GONE[key]}"
    if key in REFUSED:
        return f"{key!r} is not part of Windlass: {REFUSED[key]}"
    homes = {_HOMES.get(home, repr(home)) for home, kind in PARTS.items() if key in keys_of(kind)}
    if homes:
        return f"{key!r} does not belong here but in {' or '.join(sorted(homes))}"
    keys = keys_of(PARTS.get(part, model.Cascade))
    return f"unknown key {key!r}; {perhaps_newer(key, keys)}"


def _about_value(error: ErrorDetails, path: Path, written: str | None) -> str:
    kind, value, part = error["type"], error["input"], part_at(path)
    if path[:1] == ("mcp_servers",):
        value, written = _without_keys(path, value), None
    context = error.get("ctx", {})
    if kind == SENTENCE:
        return error["msg"]
    if kind == "literal_error":
        return _about_choice(str(context["expected"]), value, part)
    if kind == "string_type":
        return f"expected text, not {shown(value)}{_quote(value, written)}"
    if kind in {"int_type", "float_type"}:
        return f"expected a {'whole ' if kind == 'int_type' else ''}number, not {shown(value)}"
    if kind == "bool_type":
        return f"expected true or false, not {shown(value)}"
    if kind in {"greater_than_equal", "greater_than", "less_than_equal"}:
        bound = {"ge": "at least", "gt": "more than", "le": "at most"}
        expected = next(f"{bound[key]} {limit:g}" for key, limit in context.items() if key in bound)
        return f"must be {expected}, not {shown(value)}"
    if kind in {"sequence_str", "is_instance_of"}:
        example = f"; write [{json.dumps(value)}]" if isinstance(value, str) else ""
        return f"expected a list, not {shown(value)}{example}"
    if kind in {"model_type", "dict_type"}:
        expected = _OBJECTS.get(part) or _keys(part)
        return f"expected {expected}, not {shown(value)}{_quote(value, written)}"
    if kind == "string_too_short" or (kind == "too_short" and part != "phases"):
        return "must not be empty"
    if kind == "too_short":
        return "a cascade needs at least one phase"
    if kind == "string_pattern_mismatch":
        return f"{shown(value)} {_NAME}"
    if kind == "string_too_long":
        return f"is longer than {context['max_length']} characters"
    if kind == "string_unicode":
        return "holds half of a character (a lone surrogate), which no file or model can take"
    return error["msg"]


def _without_keys(path: Path, value: Any) -> Any:
    """Return what a server's declaration holds at `path`, for a message."""
    if {"env", "headers"} & set(path):
        return "***"
    return " ".join(redacted_command(value.split())) if isinstance(value, str) else value


def _keys(part: str) -> str:
    if part not in PARTS:
        return "an object"
    return "an object with keys of " + ", ".join(sorted(keys_of(PARTS[part])))


def _about_choice(expected: str, value: Any, part: str) -> str:
    if part == "tackle":
        return f"{shown(value)} is neither a list of tools nor the word 'manifest'"
    choices = re.findall(r"'([^']*)'", expected)
    near = did_you_mean(value, choices) if isinstance(value, str) else ""
    if near.startswith("did"):
        return f"{shown(value)} is not known here; {near}"
    return f"expected one of {', '.join(choices)}, not {shown(value)}"


def not_as_written(value: Any, written: str) -> str:
    """Return what is said of a text of which YAML made something else."""
    return f"expected text, not {shown(value)}{_quote(value, written)}"


def _quote(value: Any, written: str | None) -> str:
    if written is None or isinstance(value, (dict, list)):
        return ""
    if not written:
        return "; nothing is written here"
    return f"; write '{written}' in quotes, YAML reads it as {json.dumps(value)}"
