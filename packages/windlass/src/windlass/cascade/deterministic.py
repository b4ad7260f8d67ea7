"""Phases that run a tool and ask no model: the keys that stand beside `tool`.

`load` and `Phase` hold them in their long form: seconds as numbers, `python:pkg.mod.fn` as
`pkg.mod:fn`, and the body of a phase under `on_error` as a phase of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, Strict, WithJsonSchema

from windlass.declared import Count, Model, Text, refuse

SQL: Final = "sql:"
"""What a `tool` begins with that is a file with a query."""
INPUTS: Final = "inputs"
"""What the query in such a file calls the arguments."""
PYTHON: Final = "python:"
SHELL: Final = "shell:"

DEFAULT: Final = "default"
"""The key of `routing` that stands for all others."""

ASKING: Final = frozenset(
    {
        "system",
        "tackle",
        "context",
        "callouts",
        "inject_from",
        "position",
        "context_strategy",
        "turns",
        "memory",
        "intra_context",
        "context_ttl",
        "max_input_tokens",
        "injectors",
        "model",
        "max_output_tokens",
        "temperature",
        "tool_choice",
        "reasoning_effort",
        "output_schema",
    }
)
"""Keys of a phase that are about asking a model."""

_SPAN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h)?\s*", re.ASCII)
_SECONDS: Final = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def fallback_name(phase: str) -> str:
    """Return what the phase is called whose body stands under `on_error` of a phase."""
    return f"{phase}_fallback"


def stands_for(phase: str, on_errors: Mapping[str, object]) -> str | None:
    """The phase whose output that of `phase` is, too, because its body stood under its `on_error`.

    `on_errors` says where each phase goes on when its tool fails.

    >>> stands_for("load_fallback", {"load": "load_fallback", "report": None})
    'load'
    """
    named = (name for name, target in on_errors.items() if target == phase)
    return next((name for name in named if fallback_name(name) == phase), None)


def bodies_in(data: Mapping[str, Any]) -> dict[tuple[str | int, ...], tuple[str | int, ...]]:
    """Where a cascade's data has the phases that it holds after all others, by their place there.

    >>> body = {"instructions": "Mend it."}
    >>> bodies_in({"phases": [{"name": "a", "tool": "load", "on_error": body}]})
    {('phases', 1): ('phases', 0, 'on_error')}
    """
    phases = data["phases"]
    written = (at for at, each in enumerate(phases) if isinstance(each, Mapping))
    bodies = [at for at in written if isinstance(phases[at].get("on_error"), Mapping)]
    return {
        ("phases", len(phases) + number): ("phases", at, "on_error")
        for number, at in enumerate(bodies)
    }


def as_tool(written: str) -> str:
    """Return a tool as it is called: `python:pkg.mod.fn` is `pkg.mod:fn`.

    >>> as_tool("python:shop.orders.load"), as_tool("read_file")
    ('shop.orders:load', 'read_file')
    """
    if written.startswith(SHELL):
        raise refuse(
            "commands of a shell are not run; put them into a function of your own and name it as"
            " 'module:function'"
        )
    if not written.startswith(PYTHON):
        return written
    module, dot, function = written.removeprefix(PYTHON).strip().replace(":", ".").rpartition(".")
    if not dot or not module or not function:
        raise refuse(f"{written!r} names no function; write it as 'python:package.module.function'")
    return f"{module}:{function}"


def as_seconds(written: Any) -> Any:
    """Return a span of time in seconds; what is no text stays as it is.

    >>> as_seconds("30s"), as_seconds("5m"), as_seconds(2)
    (30.0, 300.0, 2.0)
    """
    if not isinstance(written, str):
        return float(written) if type(written) is int else written
    span = _SPAN.fullmatch(written)
    seconds = float(span[1]) * _SECONDS[span[2]] if span else 0.0
    if not seconds:
        raise refuse(
            f"{written!r} is no span of time; write seconds as a number, or '30s', '5m' or '1h'"
        )
    return seconds


Amount: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]

Span: TypeAlias = Annotated[
    Amount,
    BeforeValidator(as_seconds),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "minLength": 1}]}
    ),
]
"""Seconds as a number, or text such as `30s`, `5m` and `1h`; held as seconds."""


class Retry(Model):
    """How often a tool phase tries its tool, and how long it waits in between."""

    max_attempts: Count = 3
    """How often the tool is tried until it does not fail."""

    backoff: Literal["none", "linear", "exponential"] = "linear"
    """How the wait grows: not at all (no wait), by the base, or twice as long each time."""

    backoff_base_seconds: Span = 1.0
    """The wait before the second attempt, in seconds (or as `30s`)."""

    def wait_before(self, attempt: int) -> float:
        """Return the seconds to wait before an attempt; attempts count from 1.

        >>> [Retry(backoff="exponential").wait_before(attempt) for attempt in (2, 3, 4)]
        [1.0, 2.0, 4.0]
        """
        before = attempt - 2
        factors = {"none": 0.0, "linear": before + 1.0, "exponential": 2.0**before}
        return self.backoff_base_seconds * factors[self.backoff]


class WithTool(Model):
    """The keys of a phase that runs a tool in place of asking a model."""

    tool: Annotated[Text, AfterValidator(as_tool)] | None = None
    """The tool that the phase runs in place of asking a model: its name, `module:function`, or
    `sql:FILE` for a query beside this file."""

    inputs: dict[str, Any] = Field(default_factory=dict)
    """The arguments of `tool`, by name: texts are templates over input, state, outputs, lineage and
    history, and what they render to is read as JSON where it looks like it."""

    routing: dict[str, Text] = Field(default_factory=dict)
    """The phase that comes next, by what the tool's result says under `_route`, else under
    `status`, else by `success`; `default` stands for the rest."""

    retry: Retry | None = None
    """How often `tool` is tried (default: once)."""

    timeout: Span | None = None
    """How long an attempt at `tool` may take (default: as the tool says): seconds, or `30s`, `5m`,
    `1h`."""


BESIDE_TOOL: Final = (*(name for name in WithTool.model_fields if name != "tool"), "on_error")
"""Keys that say something of a `tool` alone."""
