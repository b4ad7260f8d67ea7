"""Every command with its arguments and options, and nothing that a command needs to run.

What a command does is imported when it is called, so that each page of help comes at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from windlass import __version__
from windlass.cli.ending import silence
from windlass.cli.output import out, own_streams, progress, silence_streams
from windlass.errors import Interrupted, UsageError

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The history: a folder, clickhouse://… or chdb://… "
        "(default: WINDLASS_STORE or ./.windlass).",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Tell of each request, and how its context was made, too."
    ),
]
Trust: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust", help="Trust the code, commands and addresses that this folder names, this once."
    ),
]
Session: TypeAlias = Annotated[
    str, typer.Argument(help="A session: its id, the beginning of it, or `latest`.")
]
Input: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help="JSON, a JSON or YAML file, or key=value; may be repeated."),
]
Model: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", help="provider/model for every call.")
]
Root: TypeAlias = Annotated[
    str | None, typer.Option(help="The only folder that tools and inputs may touch (default: .).")
]
SearchFolder: TypeAlias = Annotated[
    str | None, typer.Option(help="The folder of texts that the tool web_search looks in.")
]
SessionName: TypeAlias = Annotated[
    str | None,
    typer.Option("--session", help="A name for the session (default: made of the time)."),
]
Auto: TypeAlias = Annotated[
    bool, typer.Option("--auto", help="Shorten calls as they grow: `auto_context: {}`.")
]
BudgetOption: TypeAlias = Annotated[
    float | None,
    typer.Option("--budget", help="US dollars; the run ends before the call that could cost more."),
]
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Tokens in and out; the run ends before the call that could use more."),
]
MaxSeconds: TypeAlias = Annotated[
    float | None, typer.Option(help="Seconds; after them the run begins no call and no tool.")
]
MaxTurns: TypeAlias = Annotated[
    int | None, typer.Option(help="Calls of models that the run may make.")
]
AnswersFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--answers", help="Answers to questions: JSON lines in order, or an object by question."
    ),
]
Answer: TypeAlias = Annotated[
    str | None, typer.Option(help="The answer to the first question that is asked.")
]
Approve: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A tool that needs approval and may run, one call as a waiting run names it, or all.",
    ),
]
Deny: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Likewise one that may not; NAME=WHY tells the model why."),
]
Again: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="With --resume: a tool that may run again though it may have run."),
]
Results: TypeAlias = Annotated[
    Path, typer.Option("--out", help="The file of results: a line of JSON as each run ends.")
]
Workers: TypeAlias = Annotated[int, typer.Option(min=1, help="How many runs go on side by side.")]
ResumeOut: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Go on with --out: what it answers is not run again.")
]
MaxBatchCost: TypeAlias = Annotated[
    float | None, typer.Option(help="US dollars that the whole batch may cost.")
]
MaxBatchTokens: TypeAlias = Annotated[
    int | None, typer.Option(help="Tokens, in and out, that the whole batch may use.")
]
MaxBatchSeconds: TypeAlias = Annotated[
    float | None, typer.Option(help="Begin no run that could end after so many seconds.")
]
MaxRuns: TypeAlias = Annotated[int | None, typer.Option(help="Begin so many runs at most.")]
RunBudget: TypeAlias = Annotated[
    float | None, typer.Option("--budget", help="US dollars that each run may cost.")
]
OutputOnly: TypeAlias = Annotated[
    bool, typer.Option("--output-only", help="Print the result, and nothing else.")
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace a file that Windlass did not write.")
]
Bank: TypeAlias = Annotated[str, typer.Argument(help="A bank, as `windlass memory list` lists it.")]
Key: TypeAlias = Annotated[str, typer.Argument(help="The key of the memory.")]


class _Commands(TyperGroup):
    """Commands; `main` prints what ends one early, and typer does not."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with the first line of their help, none of it cut."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, str(each.help).partition("\n")[0]) for name, each in self.commands.items()]
            )

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Read the words of the command line, which prints pages of help. As `invoke`."""
        with _ended():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises Interrupted after a signal."""
        with _ended():
            return super().invoke(ctx)


@contextmanager
def _ended() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted") from error
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: nobody is left to tell.
        silence(1)
        raise typer.Exit from None


app = typer.Typer(
    name="windlass",
    cls=_Commands,
    help="Windlass, the context engine for LLM workflows: run cascades, see what each call saw.",
    epilog="Exit codes: 0 completed; 1 the run or the machine failed; 2 a mistake of yours; "
    "3 the run is incomplete, or waits; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
memory_app = typer.Typer(cls=_Commands, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(memory_app, name="memory", help="Look into the memory banks that sessions share.")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"windlass {__version__}")
        raise typer.Exit


@app.callback()
def windlass(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run cascades, and see afterwards exactly what each call saw."""


class _WithSql(TyperCommand):
    """A command whose argument may begin with `--`, as comments of SQL do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move a comment, and what follows it, behind the options."""
        end = args.index("--") if "--" in args else len(args)
        sql = [arg for arg in args[:end] if self._is_comment(arg)]
        options = [arg for arg in args[:end] if not self._is_comment(arg)]
        return super().parse_args(ctx, [*options, *(["--", *sql] if sql else []), *args[end:]])

    def _is_comment(self, arg: str) -> bool:
        option = re.match(r"--[^\s=]*", arg)
        known = {name for param in self.params for name in param.opts}
        return option is not None and option[0] not in known and bool(re.search(r"\s", arg))


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def _command(
    function: Callable[..., None],
    *,
    of: typer.Typer = app,
    cls: type[TyperCommand] | None = None,
    has_json: bool = True,
    has_progress: bool = False,
) -> Callable[..., None]:
    """Make a function the command that the last word of its name says.

    While it runs nothing but Windlass prints. `has_json`: it takes `--json`, and `out.as_json`
    holds whether that was given; `has_progress`: likewise `--verbose`, and `progress.verbose`.
    """

    @wraps(function)
    def command(*, as_json: bool = False, verbose: bool = False, **arguments: Any) -> None:
        out.as_json, progress.verbose = as_json, verbose
        with own_streams():
            function(**arguments)
        silence_streams()  # `main` prints errors, so only after a success

    signature = inspect.signature(function, eval_str=True)
    added = {"verbose": Verbose} if has_progress else {}
    added |= {"as_json": AsJson} if has_json else {}
    options = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=of_it)
        for name, of_it in added.items()
    )
    parameters = [*signature.parameters.values(), *options]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return of.command(function.__name__.rpartition("_")[2], cls=cls)(command)


_memory_command = partial(_command, of=memory_app)


# ---- running ------------------------------------------------------------------------


@partial(_command, has_progress=True)
def run(
    cascade: Annotated[Path | None, typer.Argument(help="A cascade in JSON or YAML.")] = None,
    *,
    given: Input = None,
    model: Model = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    session: SessionName = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with this session (latest: the newest run): what was answered is not sent"
            " again."
        ),
    ] = None,
    again: Again = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="With --resume: go on in a new session from the first step that has changed.",
        ),
    ] = False,
    price_as: Annotated[
        str | None, typer.Option(help="Hosted model at whose prices the table is computed.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Send nothing: show the first request and the largest cost."
        ),
    ] = False,
    auto: Auto = False,
    budget: BudgetOption = None,
    max_tokens: MaxTokens = None,
    max_seconds: MaxSeconds = None,
    max_turns: MaxTurns = None,
    answers: AnswersFile = None,
    answer: Answer = None,
    approve: Approve = None,
    deny: Deny = None,
    output_only: OutputOnly = False,
    trust: Trust = False,
) -> None:
    """Run a cascade or resume one, show its progress, and print what each phase sent."""
    from windlass.cli.answers import read_answers, read_approvals
    from windlass.cli.run import forecast_run, resume_cascade, run_cascade

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    options: dict[str, Any] = {"auto": auto, "trust": trust}
    given_with: dict[str, Any] = {"budget": budget, "max_tokens": max_tokens}
    given_with |= {"max_seconds": max_seconds, "max_turns": max_turns}
    given_with |= {"answers": read_answers(answers, answer)}
    given_with |= {"approve": read_approvals(approve, deny), "output_only": output_only}
    if output_only and (dry_run or out.as_json):
        raise UsageError("--output-only excludes --json and --dry-run; give one of them")
    if resume is not None:
        if given or session or dry_run:
            raise UsageError("a resumed session has its own input and name, and is no dry run")
        options |= {**given_with, "again": again or (), "accept": accept}
        resume_cascade(resume, cascade, flags, price_as=price_as, **options)
        return
    if cascade is None or again or accept:
        raise UsageError("give a cascade to run, or a session with --resume")
    if dry_run:
        forecast_run(cascade, given, {**flags, "price_as": price_as}, **options)
    else:
        options |= {**given_with, "session_id": session}
        run_cascade(cascade, given, flags, price_as=price_as, **options)


@partial(_command, has_json=False, has_progress=True)
def chat(
    cascade: Annotated[
        Path | None, typer.Argument(help="A cascade in JSON or YAML, which is run first.")
    ] = None,
    *,
    given: Input = None,
    model: Model = None,
    session: Annotated[
        str | None, typer.Option(help="A session (as in show) to go on with.")
    ] = None,
    budget: BudgetOption = None,
    max_tokens: MaxTokens = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    approve: Approve = None,
    deny: Deny = None,
    trust: Trust = False,
) -> None:
    """Talk with a model, or go on with a session: one line, one reply.

    /show [CALL] shows what calls saw, /cost what they cost, /exit ends it. Ctrl-C ends a reply.
    """
    from windlass.cli.answers import read_approvals
    from windlass.cli.chat import chat as talk

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    limits = {"budget": budget, "max_tokens": max_tokens}
    said = read_approvals(approve, deny)
    talk(cascade, session, given, flags, limits=limits, approve=said, trust=trust)


@partial(_command, has_progress=True)
def fork(
    session: Session,
    *,
    at: Annotated[int, typer.Option(help="The first call that is sent anew, from 1.")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="What is another one: PHASE.instructions=…, model=…, profile=…; @FILE is a text.",
        ),
    ] = None,
    message: Annotated[str, typer.Option(help="What the user says before that call.")] = "",
    model: Model = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    name: SessionName = None,
    price_as: Annotated[
        str | None, typer.Option(help="Hosted model at whose prices the table is computed.")
    ] = None,
    budget: BudgetOption = None,
    max_tokens: MaxTokens = None,
    max_seconds: MaxSeconds = None,
    max_turns: MaxTurns = None,
    answers: AnswersFile = None,
    answer: Answer = None,
    approve: Approve = None,
    deny: Deny = None,
    output_only: OutputOnly = False,
    trust: Trust = False,
) -> None:
    """Run a session anew from one of its calls on, in a session of its own."""
    from windlass.cli.answers import read_answers, read_approvals
    from windlass.cli.run import fork_session

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    options: dict[str, Any] = {"at": at, "message": message, "session_id": name}
    options |= {"budget": budget, "trust": trust, "output_only": output_only}
    options |= {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
    options |= {"answers": read_answers(answers, answer)}
    options |= {"approve": read_approvals(approve, deny)}
    fork_session(session, changes or (), flags, price_as=price_as, **options)


@_command
def diff(
    session: Session,
    other: Annotated[str, typer.Argument(help="The other session.")],
    *,
    store: StoreOption = None,
) -> None:
    """Show where two sessions part, and what each cost."""
    from windlass.cli.show import show_difference

    show_difference(session, other, store)


@partial(_command, has_progress=True)
def evaluate(
    task: Annotated[Path | None, typer.Argument(help="A task in XML.")] = None,
    *,
    given: Input = None,
    context: Annotated[
        Path | None, typer.Option(help="A text file: the context that the task inherits.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="A session (as in show) to take up again; what was answered is kept."),
    ] = None,
    again: Again = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="With --resume: run tasks anew that would ask something else now."
        ),
    ] = False,
    engine: Annotated[
        str, typer.Option(help="Where inner tasks of a reduce run: local, or ray.")
    ] = "local",
    model: Model = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    session: SessionName = None,
    auto: Auto = False,
    budget: BudgetOption = None,
    max_tokens: MaxTokens = None,
    max_seconds: MaxSeconds = None,
    max_turns: MaxTurns = None,
    answers: AnswersFile = None,
    answer: Answer = None,
    approve: Approve = None,
    deny: Deny = None,
    output_only: OutputOnly = False,
    trust: Trust = False,
) -> None:
    """Run a task in XML (atomic, sequential, reduce), or resume one."""
    from windlass.cli.answers import read_answers, read_approvals
    from windlass.cli.run import run_task

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    options: dict[str, Any] = {"resume": resume, "engine": engine, "session_id": session}
    options |= {"auto": auto, "budget": budget, "output_only": output_only}
    options |= {"again": again or (), "accept": accept}
    options |= {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
    options |= {"answers": read_answers(answers, answer)}
    options |= {"approve": read_approvals(approve, deny)}
    if output_only and out.as_json:
        raise UsageError("--output-only excludes --json; give one of them")
    run_task(task, given, flags, context=context, trust=trust, **options)


@partial(_command, has_progress=True)
def batch(
    cascade: Annotated[Path, typer.Argument(help="A cascade in JSON or YAML.")],
    inputs: Annotated[
        Path, typer.Argument(help="The inputs, one a row: JSON lines (.jsonl) or CSV (.csv).")
    ],
    *,
    results: Results,
    workers: Workers = 8,
    resume: ResumeOut = False,
    max_cost: MaxBatchCost = None,
    max_tokens: MaxBatchTokens = None,
    max_seconds: MaxBatchSeconds = None,
    max_runs: MaxRuns = None,
    budget: RunBudget = None,
    model: Model = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    approve: Approve = None,
    deny: Deny = None,
    auto: Auto = False,
    trust: Trust = False,
) -> None:
    """Run a cascade on many inputs side by side, and go on where it ended."""
    from windlass.cli.answers import read_approvals
    from windlass.cli.batch import run_batch

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    given: dict[str, Any] = {"out": results, "workers": workers, "resume": resume}
    given |= {"max_cost": max_cost, "max_tokens": max_tokens, "max_seconds": max_seconds}
    given |= {"max_runs": max_runs, "budget": budget, "auto": auto, "trust": trust}
    given |= {"approve": read_approvals(approve, deny)}
    run_batch(cascade, inputs, flags, given=given)


@_command
def compare(
    cascade: Annotated[Path, typer.Argument(help="A cascade in JSON or YAML.")],
    inputs: Annotated[
        Path, typer.Argument(help="The inputs, one a row: JSON lines (.jsonl) or CSV (.csv).")
    ],
    *,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="A profile, `everything` or a file with `auto_context`; twice at least. The others"
            " are compared with the first.",
        ),
    ] = None,
    results: Results,
    judge: Annotated[
        str,
        typer.Option(
            help="What says how good an answer is: validator, module:function, or provider/model."
        ),
    ] = "validator",
    repeat: Annotated[
        int, typer.Option(min=1, help="How often each input runs under each policy.")
    ] = 1,
    margin: Annotated[
        float, typer.Option(help="The smallest difference of rates or scores that matters.")
    ] = 0.05,
    workers: Workers = 8,
    resume: ResumeOut = False,
    max_cost: MaxBatchCost = None,
    max_tokens: MaxBatchTokens = None,
    max_seconds: MaxBatchSeconds = None,
    max_runs: MaxRuns = None,
    budget: RunBudget = None,
    model: Model = None,
    store: StoreOption = None,
    root: Root = None,
    search_folder: SearchFolder = None,
    approve: Approve = None,
    deny: Deny = None,
    trust: Trust = False,
) -> None:
    """Compare policies on the same inputs: do answers get worse, and what is saved?"""
    from windlass.cli.answers import read_approvals
    from windlass.cli.compare import run_comparison

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    given: dict[str, Any] = {"out": results, "judge": judge, "repeat": repeat, "margin": margin}
    given |= {"workers": workers, "resume": resume, "max_cost": max_cost, "max_tokens": max_tokens}
    given |= {"max_seconds": max_seconds, "max_runs": max_runs, "budget": budget, "trust": trust}
    given |= {"approve": read_approvals(approve, deny)}
    run_comparison(cascade, inputs, policies or [], flags, given=given)


# ---- what was recorded --------------------------------------------------------------


@_command
def sessions(
    *,
    store: StoreOption = None,
    cascade: Annotated[str | None, typer.Option(help="Only those of this cascade.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only those that ended so, or are `running`.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only those begun since: 2026-01-31, 2026-01-31T08:00 (UTC), 2h, 3d."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only those begun until then; a day counts whole.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many at most, newest first.")] = 20,
) -> None:
    """List the sessions in the store, newest first."""
    from windlass.cli.show import show_sessions

    show_sessions(store, limit, cascade=cascade, status=status, since=since, until=until)


@_command
def show(
    session: Session,
    *,
    call: Annotated[
        int | None, typer.Option("--call", help="The number of one call, from 1.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print messages whole.")] = False,
    store: StoreOption = None,
) -> None:
    """Show what each call of a session saw: messages, reasons, originals."""
    from windlass.cli.show import show_session

    show_session(session, call, store, full=full)


@_command
def explain(
    session: Session,
    call: Annotated[int, typer.Argument(help="The number of the call, from 1.")],
    *,
    store: StoreOption = None,
) -> None:
    """Explain what became of each message at a call, and why."""
    from windlass.cli.explain import show_explanation

    show_explanation(session, call, store)


@_command
def report(
    session: Annotated[
        str | None,
        typer.Argument(
            help="A session (as in show), a file or folder of recordings, or a number of the list."
            " Without it: what cost most in the store; where that is empty, a list of the newest"
            " sessions of coding agents."
        ),
    ] = None,
    *,
    by: Annotated[
        str | None,
        typer.Option(
            help="A row for each day, project, model or session of a folder (default: of all"
            " folders of coding agents)."
        ),
    ] = None,
    calls: Annotated[bool, typer.Option("--calls", help="Print each call.")] = False,
    call: Annotated[
        int | None, typer.Option("--call", help="What one call cost, and was made of.")
    ] = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Print what each call shares with the one before it.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write all of it to this file, as a page.")
    ] = None,
    force: Force = False,
    cascade: Annotated[str | None, typer.Option(help="Only sessions of this cascade.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only sessions begun since (as in sessions).")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only sessions begun until then; a day counts whole.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="How many sessions, phases, calls and messages.")
    ] = 5,
    store: StoreOption = None,
) -> None:
    """Report what sessions, folders or the whole store cost, and could have cost."""
    from windlass.cli.agents import (
        find_agent_recording,
        has_agent_sessions,
        import_agent_session,
        is_empty_store,
        list_agent_sessions,
        show_folder,
    )
    from windlass.cli.report import show_call_costs, show_prefixes, show_report, show_store
    from windlass.errors import UsageError

    one = (("--calls", calls), ("--call", call is not None), ("--prefix", prefix))
    every = (("--cascade", cascade), ("--since", since), ("--until", until))
    if wrong := [name for name, given in (every if session else one) if given]:
        which = "the whole store: leave out SESSION" if session else "one session: name it"
        raise UsageError(f"{wrong[0]} is for a report of {which}")
    if html is not None and (call is not None or prefix):
        raise UsageError("--html is for the whole report: leave out --call and --prefix")
    is_plain = not any(given for _, given in (*one, *every)) and html is None
    folder = None if session is None or not Path(session).exists() else Path(session)
    if folder is not None and not is_plain:
        raise UsageError(f"{str(folder)!r} is a folder or file: it takes --by and no other option")
    if by is not None and (not is_plain or (session is not None and folder is None)):
        raise UsageError("--by is for a folder or a file, and takes no other option")
    if folder is not None or by is not None:
        show_folder(folder, by or "session")
        return
    if session is not None and (file := find_agent_recording(session, store)) is not None:
        session = import_agent_session(file)
    if session is None and is_plain and not store and is_empty_store(None) and has_agent_sessions():
        list_agent_sessions("report")
    elif session is None:
        chosen: dict[str, Any] = {"since": since, "until": until, "limit": limit}
        show_store(store, html, cascade=cascade, force=force, **chosen)
    elif call is not None:
        show_call_costs(session, call, store)
    elif prefix:
        show_prefixes(session, store)
    else:
        show_report(session, store, calls=calls, html=html, force=force)


@_command
def replay(
    recording: Annotated[
        str | None,
        typer.Argument(
            help="A file, a folder with files, a session (as in show), or a number of the list."
            " Without it: the newest sessions of coding agents on this machine."
        ),
    ] = None,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A profile, everything, mask:TURNS, OPTION=VALUE,… or a file with an auto_context;"
            " may be repeated (default: everything and default)."
        ),
    ] = None,
    prices: Annotated[
        list[str] | None,
        typer.Option(
            help="A model, anthropic, automatic, none or READ,WRITE; may be repeated (default: the"
            " recording's own model)."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at to this file.")] = None,
    force: Force = False,
    fail_over: Annotated[
        float | None,
        typer.Option(help="As a gate: exit with 1 where a policy costs more of everything."),
    ] = None,
    min_recall: Annotated[
        float | None,
        typer.Option(help="As a gate: exit with 1 where less of what was needed is in view."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for a folder (default: one a core).")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Replay recorded calls under other policies: what they would have cost. Nothing is sent."""
    from windlass.cli.replay import show_replay
    from windlass.replays.gate import Gate

    gate = Gate(fail_over, min_recall)
    given: dict[str, Any] = {"html": html, "force": force, "gate": gate, "workers": workers}
    show_replay(recording, policy or [], prices or [], store, **given)


@_command
def tune(
    folder: Annotated[Path, typer.Argument(help="A folder with recordings, or a file.")],
    *,
    prices: Annotated[
        str | None,
        typer.Option(help="As in replay (default: those of each recording's own model)."),
    ] = None,
    result: Annotated[
        Path | None, typer.Option("--out", help="Write the settings to this file, as YAML.")
    ] = None,
    force: Force = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes (default: one a core).")
    ] = None,
) -> None:
    """Find the window settings that serve your own recordings best. Nothing is sent."""
    from windlass.cli.replay import show_tuning

    show_tuning(folder, prices, result, workers, force=force)


@_command
def callout(
    session: Session,
    ref: Annotated[
        str, typer.Argument(help="A message: its id, its hash or the beginning of it, a tool.")
    ],
    name: Annotated[str, typer.Argument(help="The name of the callout.")],
    *,
    store: StoreOption = None,
) -> None:
    """Mark a message as important: windows keep it whole, and its name finds it."""
    from windlass.cli.cards import call_out

    call_out(session, ref, name, store)


@_command
def cards(
    session: Session,
    *,
    make: Annotated[
        bool, typer.Option("--make", help="Make those that are missing or lack something.")
    ] = False,
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Make all of them anew.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those that lack a summary or a vector.")
    ] = False,
    pin: Annotated[
        str | None, typer.Option(help="A message (as in callout) that is always included.")
    ] = None,
    unpin: Annotated[
        str | None, typer.Option(help="A message that is no longer always included.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Show or make the context cards by which messages are chosen."""
    from windlass.cli.cards import show_cards

    pins = [(ref, pinned) for ref, pinned in ((pin, True), (unpin, False)) if ref is not None]
    show_cards(session, store, make=make, regenerate=regenerate, failed=failed, pins=pins)


# ---- files and stores ---------------------------------------------------------------


@_command
def check(
    file: Annotated[
        Path, typer.Argument(metavar="CASCADE", help="A cascade in JSON or YAML, or a task in XML.")
    ],
    *,
    explain_defaults: Annotated[
        bool, typer.Option("--explain-defaults", help="Print each setting with its origin.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as mistakes.")] = False,
    trust: Trust = False,
) -> None:
    """Find every mistake in a cascade or task, with file and line."""
    from windlass.cli.check import check_file

    check_file(file, strict=strict, trust=trust, explain=explain_defaults)


@partial(_command, cls=_WithSql)
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; the main view is unified_logs.")],
    *,
    form: Annotated[
        RowFormat, typer.Option("--format", help="How rows are printed; --json means json.")
    ] = RowFormat.TABLE,
    store: StoreOption = None,
) -> None:
    """Query the history with one read-only SQL statement."""
    from windlass.cli.show import show_rows

    out.as_json = out.as_json or form is RowFormat.JSON
    show_rows(sql, store, as_csv=form is RowFormat.CSV)


@_command
def verify(*, store: StoreOption = None) -> None:
    """Verify the store: recompute its hashes and windows, list damage."""
    from windlass.cli.store import verify_store

    verify_store(store)


@_command
def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="An age such as 90d, 12h or 30m.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="One session (as in show).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Delete sessions and what only they use. Nothing else deletes anything."""
    from windlass.cli.store import prune_store

    prune_store(older_than, session, store, dry_run=dry_run)


@_command
def do_import(
    path: Annotated[Path, typer.Argument(help="A file, or a folder with files.")],
    *,
    form: Annotated[
        str | None,
        typer.Option("--as", help="The format (default: recognised by what the file holds)."),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Import recordings of other programs as sessions; may be repeated."""
    from windlass.cli.recordings import show_import

    show_import(path, form, store)


@_command
def export(
    session: Session,
    *,
    form: Annotated[
        str, typer.Option("--as", help="openai, anthropic, markdown, jsonl or html.")
    ] = "markdown",
    redact: Annotated[
        bool, typer.Option("--redact", help="Take out what looks like a credential.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--out", help="Write to this file, whole or not at all.")
    ] = None,
    force: Force = False,
    store: StoreOption = None,
) -> None:
    """Write out a session: for another program, or to read."""
    from windlass.cli.recordings import print_export

    print_export(session, form, store, redact=redact, file=file, force=force)


@_command
def migrate(
    source: Annotated[str, typer.Argument(help="The store to copy: a folder or an address.")],
    target: Annotated[str, typer.Argument(help="The store to copy to.")],
) -> None:
    """Copy a history to another store and prove that it arrived; may be repeated."""
    from windlass.cli.store import migrate_store

    migrate_store(source, target)


@partial(_command, has_json=False)
def schema(
    of: Annotated[
        str, typer.Argument(help="cascade (JSON Schema), operators (RELAX NG) or clickhouse (SQL).")
    ] = "cascade",
    *,
    cluster: Annotated[
        str | None, typer.Option(help="clickhouse: Replicated and Distributed tables on it.")
    ] = None,
    ttl_days: Annotated[
        int | None, typer.Option(help="clickhouse: sessions expire so many days after they began.")
    ] = None,
    vectors: Annotated[
        int | None, typer.Option(help="clickhouse: index embeddings of so many dimensions.")
    ] = None,
) -> None:
    """Print the schema of cascades or tasks, or the SQL of ClickHouse tables."""
    from windlass.cli.config import print_schema

    print_schema(of, cluster=cluster, ttl_days=ttl_days, vectors=vectors)


# ---- models and settings ------------------------------------------------------------


@_command
def models(
    model: Annotated[
        str | None, typer.Argument(help="provider/model: its prices, window and cache.")
    ] = None,
) -> None:
    """List the providers and their keys, or describe one model."""
    from windlass.cli.models import show_model, show_providers

    show_providers() if model is None else show_model(model)


@_command
def config(*, store: StoreOption = None) -> None:
    """Print each setting with its value and its origin."""
    from windlass.cli.config import show_settings

    show_settings(store)


@_command
def trust(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder (none: list the trusted ones).")
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the mark away.")] = False,
) -> None:
    """Trust a folder: its windlass.toml may name code, commands and where keys go."""
    from windlass.cli.trust import mark_folder

    mark_folder(folder, remove=remove)


@_command
def policies(
    name: Annotated[str | None, typer.Argument(help="A profile: its options.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Also options that are rarely on.")] = False,
) -> None:
    """List the window profiles, or print the options of one."""
    from windlass.cli.config import show_profile, show_profiles

    show_profiles() if name is None else show_profile(name, every=every)


# ---- memory -------------------------------------------------------------------------


@_memory_command
def memory_list(
    bank: Annotated[str | None, typer.Argument(help="One bank: what it holds.")] = None,
    *,
    store: StoreOption = None,
) -> None:
    """List the banks, or the memories in force in one bank."""
    from windlass.cli.memory import list_bank, list_banks

    list_banks(store) if bank is None else list_bank(bank, store)


@_memory_command
def memory_show(bank: Bank, key: Key, *, store: StoreOption = None) -> None:
    """Show every version of a memory, also those no longer in force."""
    from windlass.cli.memory import show_versions

    show_versions(bank, key, store)


@_memory_command
def memory_forget(bank: Bank, key: Key, *, store: StoreOption = None) -> None:
    """Take back a memory: sessions no longer find it.

    Its versions stay readable; `windlass prune --session memory:BANK` removes a whole bank.
    """
    from windlass.cli.memory import forget

    forget(bank, key, store)


@_memory_command
def memory_match(
    task: Annotated[str, typer.Argument(help="The task.")],
    *,
    bank: Annotated[
        list[str] | None, typer.Option("--bank", help="A bank to look in; may be repeated.")
    ] = None,
    folder: Annotated[
        list[Path] | None, typer.Option("--folder", help="A folder to look in; may be repeated.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Print what banks and folders hold on a task, in the standard sections, unranked."""
    from windlass.cli.memory import match

    match(task, bank or [], folder or [], store)
