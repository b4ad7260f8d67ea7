"""The options that several commands share, each written once.

A group is a frozen dataclass: a command that takes one has all of its options (`app.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

AsJson: TypeAlias = Annotated[bool, Option("--json", help="Print JSON and nothing else.")]
Verbose: TypeAlias = Annotated[
    bool, Option("--verbose", "-v", help="Also report each request and how its context was made.")
]
StoreOption: TypeAlias = Annotated[
    str | None,
    Option(
        "--store",
        help="The history: a folder, clickhouse://… or chdb://… "
        "(default: WINDLASS_STORE or ./.windlass).",
    ),
]
Trust: TypeAlias = Annotated[
    bool,
    Option(
        "--trust", help="Trust the code, commands and addresses that this folder names, this once."
    ),
]
Through: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="PROVIDER",
        help="Ask all models of a cascade through this provider, such as openrouter.",
    ),
]
Auto: TypeAlias = Annotated[
    bool, Option("--auto", help="Shorten calls as they grow, as `auto_context: {}` does.")
]
PriceAs: TypeAlias = Annotated[
    str | None, Option(help="The hosted model at whose prices the table is computed.")
]
Budget: TypeAlias = Annotated[
    float | None,
    Option("--budget", help="US dollars; the run ends before a call that could exceed them."),
]
MaxTokens: TypeAlias = Annotated[
    int | None,
    Option(help="Tokens in and out; the run ends before a call that could exceed them."),
]
Processes: TypeAlias = Annotated[
    int | None, Option("--workers", min=1, help="Processes for a folder (default: one per core).")
]
Force: TypeAlias = Annotated[
    bool, Option("--force", help="Replace a file that Windlass did not write.")
]
Since: TypeAlias = Annotated[
    str | None,
    Option(help="Only sessions started since: 2026-01-31, 2026-01-31T08:00 (UTC), 2h, 3d."),
]
Until: TypeAlias = Annotated[
    str | None, Option(help="Only sessions started until then; a date includes that whole day.")
]
OfCascade: TypeAlias = Annotated[str | None, Option(help="Only sessions of this cascade.")]
Input: TypeAlias = Annotated[
    list[str] | None,
    Option("--input", "-i", help="JSON, a JSON or YAML file, or key=value; may be repeated."),
]

Lenient: TypeAlias = Annotated[
    bool,
    Option("--lenient", help="Leave out unknown keys and tools, with a warning for each."),
]

CascadeFile: TypeAlias = Annotated[Path, Argument(help="A cascade in JSON or YAML.")]
InputsFile: TypeAlias = Annotated[
    Path, Argument(help="The inputs, one per row: JSON lines (.jsonl) or CSV (.csv).")
]
Session: TypeAlias = Annotated[
    str, Argument(help="A session: its id, the beginning of it, or `latest`.")
]


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """Settings that the command line sets, ahead of variables and files."""

    model: Annotated[str | None, Option("--model", "-m", help="provider/model for every call.")] = (
        None
    )
    through: Through = None
    store: StoreOption = None
    root: Annotated[
        str | None, Option(help="The only folder that tools and inputs may touch (default: .).")
    ] = None
    search_folder: Annotated[
        str | None, Option(help="The folder of texts that the tool web_search looks in.")
    ] = None
    otel: Annotated[
        str | None,
        Option(
            metavar="on|content",
            help="Send OpenTelemetry's spans and metrics; content: with what is said.",
        ),
    ] = None

    def flags(self) -> dict[str, str | None]:
        """The settings by name, as `Settings.read` and the functions of the library take them."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """What one run may use, as the functions of the library take it."""

    budget: Budget = None
    max_tokens: MaxTokens = None
    max_seconds: Annotated[
        float | None, Option(help="Seconds; after that the run starts no call and no tool.")
    ] = None
    max_turns: Annotated[int | None, Option(help="Model calls that the run may make.")] = None


@dataclass(frozen=True, kw_only=True)
class ApprovalOptions:
    """Which tools that need approval may run."""

    approve: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Approve a tool by its name, a single call as a waiting run names it, or `all`.",
        ),
    ] = None
    deny: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Refuse a tool or call, named the same way; NAME=WHY tells the model why.",
        ),
    ] = None

    def by_tool(self) -> dict[str, bool | str]:
        """Return whether each named tool or call may run, as the library takes it.

        Raises UsageError.
        """
        from windlass.cli.answers import read_approvals

        return read_approvals(self.approve, self.deny)


@dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """Going on with a run that is in the store."""

    resume: Annotated[
        str | None,
        Option(help="Go on with this session (or latest): what was answered is not sent again."),
    ] = None
    again: Annotated[
        list[str] | None,
        Option(help="With --resume: a tool that may run again though it may have run."),
    ] = None
    accept: Annotated[
        bool,
        Option(
            "--accept",
            help="With --resume: accept changes made since, and run anew what they affect.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the commands that run one cascade or task have in common."""

    settings: SettingOptions
    session_name: Annotated[
        str | None,
        Option("--session", help="A name for the session (default: made of the time)."),
    ] = None
    limits: LimitOptions
    answers: Annotated[
        Path | None,
        Option(
            "--answers",
            help="Answers to questions: JSON lines in order, or an object by question.",
        ),
    ] = None
    answer: Annotated[
        str | None, Option(help="The answer to the first question that is asked.")
    ] = None
    approvals: ApprovalOptions
    output_only: Annotated[
        bool, Option("--output-only", help="Print the result and nothing else.")
    ] = False
    trust: Trust = False

    def for_library(self) -> dict[str, Any]:
        """Return what `windlass.run`, `resume`, `fork` and `evaluate` take of these, by name.

        The name of the session is not among them. Raises UsageError.
        """
        from windlass.cli.answers import read_answers

        return {
            **self.settings.flags(),
            **vars(self.limits),
            "answers": read_answers(self.answers, self.answer),
            "approve": self.approvals.by_tool(),
            "trust": self.trust,
        }


@dataclass(frozen=True, kw_only=True)
class RowLimitOptions:
    """What all runs together may use, and each of them."""

    max_cost: Annotated[
        float | None, Option(help="US dollars that all runs together may cost.")
    ] = None
    max_tokens: Annotated[
        int | None, Option(help="Tokens, in and out, that all runs together may use.")
    ] = None
    max_seconds: Annotated[
        float | None, Option(help="Start no run that could end after this many seconds.")
    ] = None
    max_runs: Annotated[int | None, Option(help="Start at most this many runs.")] = None
    budget: Annotated[
        float | None, Option("--budget", help="US dollars that each run may cost.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What the commands that run a cascade on many inputs have in common."""

    out: Annotated[
        Path, Option("--out", help="The file of results: one line of JSON as each run ends.")
    ]
    workers: Annotated[int, Option(min=1, help="How many runs go on at the same time.")] = 8
    resume: Annotated[
        bool, Option("--resume", help="Continue the file --out: rows it answers are not run again.")
    ] = False
    limits: RowLimitOptions
    settings: SettingOptions
    approvals: ApprovalOptions
    trust: Trust = False

    def for_library(self) -> dict[str, Any]:
        """Return what `windlass.batch` and `compare` take of these, by name. Raises UsageError."""
        return {
            **self.settings.flags(),
            "out": self.out,
            "workers": self.workers,
            "resume": self.resume,
            **vars(self.limits),
            "approve": self.approvals.by_tool(),
            "trust": self.trust,
        }


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The report as a page."""

    html: Annotated[
        Path | None, Option("--html", help="Write all of it to this file, as a page.")
    ] = None
    force: Force = False
