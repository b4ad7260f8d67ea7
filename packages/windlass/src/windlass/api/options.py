"""The options of an engine and of its calls: each is described once, here, at its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.engine.events import Event
    from windlass.engine.people.questions import Approvals, Asked
    from windlass.providers.base import Provider
    from windlass.providers.spending import Allowance

Tools: TypeAlias = Sequence["Callable[..., Any] | str"]
"""A user's tools: functions, modules (`my_tools`) or dotted paths (`my_tools:search`)."""

CascadeSource: TypeAlias = "Cascade | Mapping[str, Any] | str | Path"
"""A `Cascade`, the same as a dict, or the path of a JSON or YAML file."""


class RunLimits(TypedDict, total=False):
    """What one run may use. A run that a limit stops ends as `incomplete`; `reason` says which."""

    budget: float | None
    """US dollars. No call is sent that could pass them (`money`)."""

    max_tokens: int | None
    """Tokens in and out. No call is sent that could pass them (`tokens`)."""

    max_seconds: float | None
    """Seconds after which no call and no tool begins (`time`). Messages of a session have no such
    limit."""

    max_turns: int | None
    """Calls of models, those of helpers included (`turns`)."""


class EngineOptions(TypedDict, total=False):
    """What all runs of an engine share."""

    model: str | None
    """`provider/model` for every phase, whatever the cascade says. A session that is gone on with
    keeps the model that it was started with where none is given."""

    through: str | None
    """The provider through which all models of a cascade are asked, such as `openrouter`. Default:
    the setting `models.through`."""

    store: str | Path | None
    """The folder of the history, or its address (`clickhouse://…`). Default: `WINDLASS_STORE`, else
    `./.windlass`."""

    root: str | Path | None
    """The only folder that file tools may touch. Default: the current folder."""

    search_folder: str | Path | None
    """The folder of texts that `web_search` looks in."""

    otel: Literal["off", "on", "content"] | None
    """Whether runs send OpenTelemetry's spans and metrics, and with `content` what is said, too.
    Default: the setting `otel`."""

    tools: Tools
    """Functions, modules or dotted paths to register beside the builtin tools."""

    providers: Mapping[str, Provider] | None
    """Providers by name, beside the builtin ones; a test gives `{"scripted": Scripted(function)}`
    for the model `scripted/anything`. The engine closes them."""

    on_event: Callable[[Event], None] | None
    """Called with each event (`windlass.engine.events`), and in a batch with `BatchStarted` and
    `RowEnded` (`windlass.api.batches.workers`), too. If it raises, the run ends as failed, and the
    error is raised again to the caller."""

    auto: bool
    """Whether a cascade or task that says nothing of `auto_context` gets it with its defaults. A
    comparison does not ask: it sets the policy of every run."""

    trust: bool
    """Whether `windlass.toml` of the current folder may name modules, commands and where keys go,
    although the folder is not marked as trusted (`windlass trust`). Also lets a session that is
    gone on with load what only its record names."""

    lenient: bool
    """Whether keys of a cascade that are not known, and tools that are not there, are left out with
    a warning. A session that is gone on with is read as it was begun."""

    limits: RunLimits
    """What each run may use. What the record answers at no cost does not count."""

    allowances: Sequence[Allowance]
    """Limits that its runs share with each other, and with runs of other engines
    (`windlass.providers.spending.Allowance`)."""

    approve: Approvals
    """The tools that need approval and may run: `all`, names of tools, or of single calls as a
    waiting run tells them. A mapping says of each whether it may: True or `yes`, else `no` or why
    not."""

    on_question: Asked | None
    """Called with a `Question` (`windlass.engine.people.questions`) where neither `answers` nor
    `approve` settles it; may be async. If it returns None, the run ends as `waiting`."""


class RunCall(EngineOptions, RunLimits, total=False):
    """The options of an engine that are others for one run; its limits may stand alone."""


class BatchOptions(TypedDict, total=False):
    """How the rows of a batch are run."""

    workers: int
    """How many runs go on side by side. Default: 8."""

    resume: bool
    """Whether to go on with a file of results that exists. What it answers is not run again; a row
    that failed, or that a limit of the batch ended, is."""

    max_cost: float | None
    """US dollars that the whole batch may cost, with what it cost before it is resumed and, in a
    comparison, what the judge costs. No run is begun, and no call is sent, that could pass them."""

    max_tokens: int | None
    """Tokens in and out that the whole batch may use, with what it used before it is resumed. No
    run is begun that could pass them if it used as many as the largest one so far."""

    max_seconds: float | None
    """Seconds from now on. No run is begun that could pass them if it took as long as the longest
    one so far."""

    max_runs: int | None
    """How many runs are begun from now on."""


class CompareOptions(BatchOptions, total=False):
    """How the runs of a comparison are run and compared."""

    repeat: int
    """How often each input runs under each policy. Default: 1."""

    margin: float
    """The smallest difference of rates or scores that matters. Default: 0.05."""


class BatchCall(BatchOptions, EngineOptions, total=False):
    """The options of a batch, and those of its engine that are others for it."""

    budget: float | None
    """US dollars that each run may cost."""


class CompareCall(CompareOptions, BatchCall, total=False):
    """The options of a comparison, and those of its engine that are others for it."""
