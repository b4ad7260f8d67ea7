"""Templates: sandboxed Jinja2 over `input`, `state` and `outputs`, and nothing else.

A template cannot reach files, the network, Python's internals, a clock or chance, and cannot
change what it is given: the same values always render to the same text. This module knows no
history; what `outputs` offers is fetched by functions it is handed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast

import jinja2
from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from windlass.errors import ContextError, did_you_mean
from windlass.safety.foreign import parse_json
from windlass.safety.sandbox import (
    LONGEST,
    TemplateEnvironment,
    check_containers,
    check_length,
    start_counting,
    written_length,
)

NAMES: Final = ("input", "outputs", "state")
"""What a template can see."""
MOMENTS: Final = ("call", "now", "session_id")
"""What `system` and `instructions` see besides: text that the run hands in."""
SOUNDING: Final = ("is_sounding", "sounding_factor", "sounding_index")
"""What `instructions` and `rules` see of soundings: whether it is one, of how many, and which it
is, from 0."""
RULES: Final = (
    "attempt",
    "max_attempts",
    "max_turns",
    "schema_error",
    "turn",
    "validation_error",
)
"""What they see of a phase's attempts, turns, and of why the last attempt was refused."""
JUDGED: Final = ("asked", "content", "original_input", "output")
"""What the instructions of a validator see besides: what the phase was asked, the text that is
judged, under two names, and the cascade's input."""
CALLOUT: Final = ("phase", "turn")
"""What the names of callouts see besides: the phase, and its turn."""
RECORDED: Final = ("history", "lineage")
"""What instructions, and `inputs` of a tool phase, see besides: the messages so far, and the phases
that ran."""

LAST_ERROR: Final = "last_deterministic_error"
"""The state key that says what the newest tool phase with an `on_error` failed by."""
OUTPUT_OF: Final = "output_"
"""What stands before a phase's name in the key of the state that is its output."""

_LIKE_JSON: Final = re.compile(r'\s*(?:[\[{"].*|true|false|null)\s*', re.DOTALL)
_SHOWN: Final = 80
_FALSE: Final = frozenset({"", "false", "0", "no", "none"})

# What expressions of a template raise by themselves, such as `1 / 0` or `'a' + 1`.
_FAULTS: Final = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class ToolResults:
    """The stored tool results of a phase, by reference or by the name of a tool.

    Args:
        result: gives the original text of a reference, or of a tool's latest result;
            raises KeyError for what it does not know.
        known: the references and tool names there are.
    """

    def __init__(self, result: Callable[[str], str], known: Callable[[], Sequence[str]]) -> None:
        self._result = result
        self._known = known

    def __getitem__(self, name: str) -> str:
        return self._result(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __str__(self) -> str:
        return ", ".join(self)


def _no_result(name: str) -> str:
    raise KeyError(name)


class _Rows(dict[str, Any]):
    """The answer to a query as a template sees it: `data` is its rows, too."""

    COLUMNS: Final = frozenset({"columns", "row_count", "rows"})

    def __missing__(self, key: str) -> Any:
        if key == "data":
            return self["rows"]
        raise KeyError(key)


def _readable(value: Any) -> Any:
    """Return a value that was read from a text, as templates see it."""
    if isinstance(value, dict) and value.keys() == _Rows.COLUMNS:
        return _Rows(value)
    return value


class PhaseOutput:
    """What `{{ outputs.PHASE }}` is: prints the text of the phase's output, and offers more.

    Everything is fetched when a template first asks for it. What is not one of its
    own names is that of the text: filters, tests and methods of a text work on it.

    Args:
        text: gives the output; `json` is its value where it is JSON.
        state: gives the state keys that were set during the phase.
        images: gives the names of the phase's pictures.
        result: gives the original text of a stored tool result; raises KeyError.
        known_results: gives the references and tool names `result` knows.
        soundings: gives the output of each sounding, by its index.
        is_result: whether it is the result of a tool, and no text of a model.
    """

    NAMES: Final = ("text", "json", "state", "images", "tool_results", "soundings")

    def __init__(
        self,
        text: Callable[[], str],
        state: Callable[[], Mapping[str, Any]] = dict,
        images: Callable[[], Sequence[str]] = tuple,
        result: Callable[[str], str] = _no_result,
        known_results: Callable[[], Sequence[str]] = tuple,
        *,
        soundings: Callable[[], Sequence[str]] = tuple,
        is_result: bool = False,
    ) -> None:
        self.is_result = is_result
        self._fetch: dict[str, Callable[[], Any]] = {
            "text": text,
            "json": lambda: _readable(parse_json(str(self.text))),
            "state": state,
            "images": lambda: list(images()),
            "soundings": lambda: list(soundings()),
            "tool_results": lambda: ToolResults(result, known_results),
        }

    def __getattr__(self, name: str) -> Any:
        # Called only for what the object does not have yet: each value is kept.
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._fetch:
            return getattr(self.text, name)
        value = self._fetch[name]()
        setattr(self, name, value)
        return value

    def __str__(self) -> str:
        return str(self.text)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __len__(self) -> int:
        return len(self.text)

    def __contains__(self, piece: str) -> bool:
        return piece in self.text

    def __getitem__(self, at: int | slice) -> str:
        return str(self.text[at])

    def __add__(self, other: Any) -> str:
        return str(self) + str(other)

    def __radd__(self, other: Any) -> str:
        return str(other) + str(self)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, str | PhaseOutput) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


class _Missing(jinja2.StrictUndefined):
    """A name that is not there: using it fails, and the message says what is there."""

    @property
    def _undefined_message(self) -> str:
        holder, key = self._undefined_obj, cast("Any", self._undefined_name)
        # What is no plain key may hold any number of texts.
        name = str(key) if isinstance(key, str | int | float) else f"<{type(key).__name__}>"
        if self._undefined_hint:
            return str(self._undefined_hint)
        if holder is jinja2.utils.missing:
            return f"there is no {name!r}; {did_you_mean(name, NAMES)}"
        return f"there is no {name!r} here; {did_you_mean(name, _names_in(holder))}"


def _names_in(holder: Any) -> list[str]:
    if isinstance(holder, PhaseOutput):
        return list(PhaseOutput.NAMES)
    return [str(name) for name in holder] if isinstance(holder, Mapping | ToolResults) else []


class NotRun(jinja2.ChainableUndefined):
    """The output of a phase that may have run, and has not: it prints nothing.

    `tell` is called where it is printed.
    """

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[], object]) -> None:
        super().__init__()
        self._tell = tell

    def __str__(self) -> str:
        self._tell()
        return ""

    def __add__(self, other: Any) -> str:  # type: ignore[override]
        return f"{self}{other}"

    def __radd__(self, other: Any) -> str:  # type: ignore[override]
        return f"{other}{self}"


class _Nothing(jinja2.ChainableUndefined):
    """A name that is not there where names that are not there print nothing."""

    __slots__ = ()

    def __add__(self, other: Any) -> str:  # type: ignore[override]
        return f"{other}"

    def __radd__(self, other: Any) -> str:  # type: ignore[override]
        return f"{other}"


class _State(dict[str, Any]):
    """The state as a template sees it: `state.output_PHASE` is the output of that phase, too.

    As long as no tool phase has failed, `last_deterministic_error` prints nothing. A key of the
    state goes before. To a condition (`is_lenient`) a key that was never set counts
    as nothing: a phase may or may not set it, and whether it did is what conditions ask.
    """

    def __init__(
        self, state: Mapping[str, Any], outputs: Mapping[str, Any], *, is_lenient: bool
    ) -> None:
        super().__init__(state)
        self._outputs = outputs
        self._is_lenient = is_lenient

    def __missing__(self, key: str) -> Any:
        name = key.removeprefix(OUTPUT_OF) if isinstance(key, str) else key
        if name != key and name in self._outputs:
            return _value_of(self._outputs[name])
        if key == LAST_ERROR:
            return jinja2.ChainableUndefined(name=key)
        if self._is_lenient:
            return _Nothing(name=key)
        raise KeyError(key)


def _value_of(output: Any) -> Any:
    """Return an output as a value of the state: its text, or what a tool's result is as JSON."""
    if isinstance(output, jinja2.Undefined):
        return output
    if isinstance(output, PhaseOutput) and output.is_result:
        with suppress(ValueError):
            return output.json
    return str(output)


def _to_json(value: Any, indent: int | None = None) -> str:
    def other(item: Any) -> Any:
        if isinstance(item, PhaseOutput):
            return str(item)
        if isinstance(item, jinja2.Undefined):
            return None
        if isinstance(item, Mapping):
            return dict(item)
        if isinstance(item, ToolResults | tuple | set | frozenset):
            return list(item)
        raise TypeError(f"{type(item).__name__} is no JSON value")

    written_length(value)
    if indent is None:
        return json.dumps(value, ensure_ascii=False, default=other)
    pieces: list[str] = []
    length = 0
    check_length(indent)
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent, default=other).iterencode(
        value
    ):
        length += len(piece)
        if length > LONGEST:
            check_length(length)
        pieces.append(piece)
    return "".join(pieces)


def _finalize(value: Any) -> Any:
    # Objects and lists read as JSON, not as Python.
    if isinstance(value, dict | list | MutableMapping):
        return _to_json(value)
    check_containers(value)
    return value


def _make_environment(
    undefined: type[jinja2.Undefined], finalize: Callable[[Any], Any] = _finalize
) -> TemplateEnvironment:
    made = TemplateEnvironment(finalize, undefined)
    made.filters["tojson"] = _to_json
    return made


_ENVIRONMENT: Final = _make_environment(_Missing)
_LENIENT: Final = _make_environment(_Nothing)


class TemplateError(ContextError):
    """A template that cannot be read. `line` counts within the template, `text` has no place."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        self.text = text
        super().__init__(f"line {line} of the template: {text}")


@lru_cache(maxsize=512)
def _compile(template: str, *, is_lenient: bool = False) -> jinja2.Template:
    try:
        for node in _ENVIRONMENT.parse(template).find_all(
            (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
        ):
            raise TemplateError(node.lineno, "a template cannot take in other templates")
        return (_LENIENT if is_lenient else _ENVIRONMENT).from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(error.lineno, _fault(error.message or "not a template")) from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(1, f"too long or too deeply nested: {error}") from error


def _with_stand_ins(
    template: str, stand_in: Callable[[Any], str], *, is_lenient: bool
) -> jinja2.Template:
    """Return the template, which prints `stand_in(value)` in the place of each value."""

    def finalize(value: Any) -> str:
        if isinstance(value, jinja2.Undefined | PhaseOutput):
            value = str(value)
        check_containers(value)
        return stand_in(value)

    undefined = _Nothing if is_lenient else _Missing
    return _make_environment(undefined, finalize).from_string(template)


def _fault(message: str) -> str:
    kind, _, name = message.partition(" named ")
    names = {"No filter": _ENVIRONMENT.filters, "No test": _ENVIRONMENT.tests}.get(kind)
    if names is None:
        return message[:1].lower() + message[1:].rstrip(".")
    word, name = kind.split()[1], name.strip(".").strip("'")
    near = did_you_mean(name, names).partition(" known:")[0]
    return f"there is no {word} {name!r}" + (f"; {near}" if near.startswith("did") else "")


def render(
    template: str,
    *,
    input: Any,  # noqa: A002  # the DSL's word
    state: Mapping[str, Any],
    outputs: Mapping[str, Any],
    where: str,
    moments: Mapping[str, object] | None = None,
    missing_state_is_false: bool = False,
    is_lenient: bool = False,
    stand_in: Callable[[Any], str] | None = None,
) -> str:
    """Return the text of a template. `where` names the template's place in messages.

    `is_lenient`: what is not there prints nothing. With `missing_state_is_false` (for conditions)
    a state key that was never set renders to nothing instead of failing. `stand_in` gives what is
    printed in the place of each value.

    Raises:
        ContextError: the template is wrong, uses what is not there, or grows too long.
    """
    readable = _State(state, outputs, is_lenient=missing_state_is_false or is_lenient)
    values = {"input": input, "state": readable, "outputs": outputs, **(moments or {})}
    pieces: list[str] = []
    length = 0
    start_counting()
    try:
        compiled = _compile(template, is_lenient=is_lenient)
        if stand_in is not None:
            compiled = _with_stand_ins(template, stand_in, is_lenient=is_lenient)
        for piece in compiled.generate(values):
            length += len(piece)
            if length > LONGEST:
                check_length(length)
            pieces.append(piece)
    except TemplateError as error:
        raise ContextError(f"{where}: {error}") from error
    except _FAULTS as error:
        line = _line_of(error)
        place = f"line {line} of the template: " if line and "\n" in template.strip() else ""
        reason = str(error) or type(error).__name__
        raise ContextError(f"{where}: {place}{reason}; in: {_excerpt(template, line)}") from error
    return "".join(pieces)


def holds(
    condition: str,
    *,
    input: Any,  # noqa: A002  # the DSL's word
    state: Mapping[str, Any],
    outputs: Mapping[str, Any],
    where: str,
    moments: Mapping[str, object] | None = None,
    is_lenient: bool = False,
) -> bool:
    """Return whether a condition renders to anything but nothing, false, 0, no or none."""
    return is_true(
        render(
            condition,
            input=input,
            state=state,
            outputs=outputs,
            where=where,
            moments=moments,
            missing_state_is_false=True,
            is_lenient=is_lenient,
        )
    )


def is_true(rendered: str) -> bool:
    """Return whether the rendered text of a condition means true."""
    return rendered.strip().lower() not in _FALSE


def as_value(text: str) -> Any:
    """Return a rendered text, read as JSON where it looks like it; numbers stay text.

    >>> as_value('{"a": 1}'), as_value("true"), as_value("12"), as_value("[draft]")
    ({'a': 1}, True, '12', '[draft]')
    """
    if not _LIKE_JSON.fullmatch(text):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _line_of(error: BaseException) -> int | None:
    """Return the line of the template in which it failed: Jinja writes it into the traceback."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _excerpt(template: str, line: int | None) -> str:
    lines = template.splitlines() or [""]
    text = lines[min(line or 1, len(lines)) - 1].strip()
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def syntax(template: str) -> nodes.Template:
    """Return the template as a tree. Raises TemplateError where it cannot be read."""
    _compile(template)
    return _ENVIRONMENT.parse(template)


def free_names(template: str) -> set[str]:
    """Return the names that a template takes from outside.

    Raises TemplateError where it is none.
    """
    return find_undeclared_variables(syntax(template))


def is_constant(template: str) -> bool:
    """Return whether a template always renders to its own text."""
    return all(
        isinstance(node, nodes.Output)
        and all(isinstance(item, nodes.TemplateData) for item in node.nodes)
        for node in syntax(template).body
    )
