"""Commands that run cascades and tasks: run, evaluate, chat, fork, batch, compare."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.app import command
from windlass.cli.options import (
    ApprovalOptions,
    Auto,
    Budget,
    CascadeFile,
    Input,
    InputsFile,
    Lenient,
    MaxTokens,
    PriceAs,
    ResumeOptions,
    RowOptions,
    RunOptions,
    Session,
    SettingOptions,
    Trust,
)
from windlass.cli.output import out, printed_as_json
from windlass.errors import UsageError


@command(has_verbose=True)
def run(
    cascade: Annotated[Path | None, Argument(help="A cascade in JSON or YAML.")] = None,
    *,
    given: Input = None,
    resuming: ResumeOptions,
    price_as: PriceAs = None,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Send nothing: show the first request and the largest cost."),
    ] = False,
    auto: Auto = False,
    lenient: Lenient = False,
    shared: RunOptions,
) -> None:
    """Run a cascade or resume one, show its progress, and print what each phase sent."""
    from windlass.api import engine as api
    from windlass.api.loading import ReadingOptions
    from windlass.cli.one_run import finish_run, resume_command, show_forecast
    from windlass.cli.run_input import read_input
    from windlass.cli.untrusted import read_trusted_settings

    options = {**shared.for_library(), "auto": auto, "lenient": lenient}
    flags = {**shared.settings.flags(), "price_as": price_as}
    if shared.output_only and (dry_run or out.as_json):
        raise UsageError("--output-only excludes --json and --dry-run; give one of them")
    if resuming.resume is not None:
        if given or shared.session_name or dry_run:
            raise UsageError(
                "a session that is resumed has its own input and name: leave out --input,"
                " --session and --dry-run"
            )
        again = resuming.again or ()
        options |= {"again": again, "accept": resuming.accept}
        work = partial(api.resume, resuming.resume, cascade, **options)
    elif cascade is None or resuming.again or resuming.accept:
        raise UsageError("give a cascade to run, or a session with --resume")
    elif dry_run:
        how = ReadingOptions(trust=shared.trust, lenient=lenient)
        show_forecast(cascade, given, flags, how, auto=auto)
        return
    else:
        options["session_id"] = shared.session_name
        work = partial(api.run, cascade, read_input(given or ()), **options)
    finish_run(
        work,
        read_trusted_settings(flags, trusted=shared.trust),
        again=resume_command("run", cascade),
        output_only=shared.output_only,
    )


@command(has_verbose=True)
def evaluate(
    task: Annotated[Path | None, Argument(help="A task in XML.")] = None,
    *,
    given: Input = None,
    context: Annotated[
        Path | None, Option(help="A text file: the context that the task inherits.")
    ] = None,
    resuming: ResumeOptions,
    engine: Annotated[
        str, Option(help="Where inner tasks of a reduce run: local, or ray.")
    ] = "local",
    auto: Auto = False,
    shared: RunOptions,
) -> None:
    """Run a task in XML (atomic, sequential, reduce), or resume one."""
    from windlass.api import engine as api
    from windlass.cli.one_run import finish_run, print_task, resume_command
    from windlass.cli.run_input import read_input
    from windlass.cli.untrusted import read_trusted_settings

    if shared.output_only and out.as_json:
        raise UsageError("--output-only excludes --json; give one of them")
    options = {**shared.for_library(), "engine": engine, "auto": auto}
    values, name = read_input(given or ()), shared.session_name
    inherited = "" if context is None else _read_context(context)
    if resuming.resume is not None:
        if values or inherited or name:
            raise UsageError(
                "a resumed session has its own input, context and name; leave them out"
            )
        options |= {"again": resuming.again or (), "accept": resuming.accept}
        work = partial(api.resume_task, resuming.resume, task, **options)
    elif task is None:
        raise UsageError("give a task file to run, or a session to resume")
    elif resuming.again or resuming.accept:
        raise UsageError("--again and --accept are for a session that is resumed; name it, too")
    else:
        options |= {"context": inherited, "session_id": name}
        work = partial(api.evaluate, task, values, **options)
    finish_run(
        work,
        read_trusted_settings(shared.settings.flags(), trusted=shared.trust),
        again=resume_command("evaluate", task),
        output_only=shared.output_only,
        show=print_task,
    )


def _read_context(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--context {str(path)!r} cannot be read as text: {error}") from error


@command(has_json=False, has_verbose=True)
def chat(
    cascade: Annotated[
        Path | None, Argument(help="A cascade in JSON or YAML, which is run first.")
    ] = None,
    *,
    given: Input = None,
    session: Annotated[str | None, Option(help="A session (as in show) to go on with.")] = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    setting: SettingOptions,
    approvals: ApprovalOptions,
    lenient: Lenient = False,
    trust: Trust = False,
) -> None:
    """Talk with a model, or go on with a session: one line, one reply.

    /show [CALL] shows what calls saw, /cost what they cost, /exit ends it. Ctrl-C ends a reply.
    """
    from windlass.cli.chat_loop import Chat
    from windlass.cli.ending import run_interruptibly
    from windlass.cli.run_input import read_input
    from windlass.cli.untrusted import read_trusted_settings, retry_with_trust
    from windlass.providers.spending import Allowance

    if session is not None and (cascade is not None or given):
        raise UsageError(
            "--session continues with the cascade that it ran; leave out CASCADE and --input"
        )
    if cascade is None and given:
        raise UsageError("--input is the input of a cascade; give the cascade, too")
    values = read_input(given or ())
    flags = setting.flags()
    settings = read_trusted_settings(flags, trusted=trust)
    if session is None and cascade is None and settings["model"].origin == "default":
        raise UsageError(
            "give a cascade, --model to talk to, or --session to go on with; `model` in"
            " windlass.toml or WINDLASS_MODEL names the usual one"
        )
    options = {
        **flags,
        "allowances": [Allowance("the chat", budget=budget, max_tokens=max_tokens)],
        "approve": approvals.by_tool(),
        "lenient": lenient,
        "trust": trust,
    }
    retry_with_trust(
        lambda: run_interruptibly(Chat(settings, options).talk(cascade, session, values))
    )


@command(has_verbose=True)
def fork(
    session: Session,
    *,
    at: Annotated[int, Option(help="The first call to send again, counted from 1.")],
    changes: Annotated[
        list[str] | None,
        Option(
            "--set",
            help="What to change: PHASE.instructions=…, model=…, profile=…; @FILE is a text.",
        ),
    ] = None,
    message: Annotated[str, Option(help="One more message of the user before that call.")] = "",
    price_as: PriceAs = None,
    lenient: Lenient = False,
    shared: RunOptions,
) -> None:
    """Run a session again from one of its calls on, as a new session."""
    from windlass.api import engine as api
    from windlass.cli.one_run import finish_run, resume_command
    from windlass.cli.run_input import read_changes
    from windlass.cli.untrusted import read_trusted_settings

    flags = {**shared.settings.flags(), "price_as": price_as}
    settings = read_trusted_settings(flags, trusted=shared.trust)
    work = partial(
        api.fork,
        session,
        at=at,
        changes=read_changes(changes or ()),
        message=message,
        session_id=shared.session_name,
        lenient=lenient,
        **shared.for_library(),
    )
    again = resume_command("run", None)
    finish_run(work, settings, again=again, output_only=shared.output_only)


@command(has_verbose=True)
def batch(
    cascade: CascadeFile,
    inputs: InputsFile,
    *,
    auto: Auto = False,
    lenient: Lenient = False,
    shared: RowOptions,
) -> None:
    """Run a cascade on many inputs side by side, and go on where it ended."""
    from windlass.api import engine as api
    from windlass.caching.rates import many, money_but_for
    from windlass.cli.many_runs import WrittenCommand, describe_unfinished, print_troubles, run_rows
    from windlass.cli.untrusted import read_trusted_settings

    options = {**shared.for_library(), "auto": auto, "lenient": lenient}
    settings = read_trusted_settings(shared.settings.flags(), trusted=shared.trust)
    line = WrittenCommand(["batch", str(cascade), str(inputs)], options)
    result = run_rows(partial(api.batch, cascade, inputs, **options), settings, line)
    tokens = result.tokens_in + result.tokens_out
    if not printed_as_json(result):
        print_troubles(result.troubles)
        out.print(
            f"\n{result.completed:,} of {many(result.rows, 'row')} completed,"
            f" {money_but_for(result.cost, result.unpriced, 'run')}, {result.tokens_in:,} tokens"
            f" in, {result.tokens_out:,} out;"
            f" results: {result.out}"
        )
    if result.completed == result.rows:
        return
    counts = {"failed": result.failed, "incomplete": result.incomplete}
    counts["not started"] = result.rows - result.completed - sum(counts.values())
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    text = f"of {many(result.rows, 'row')} {told}"
    spent = {"money": result.cost or 0.0, "tokens": tokens}
    raise describe_unfinished(text, line, result.reason, spent, again=result.again)


@command()
def compare(
    cascade: CascadeFile,
    inputs: InputsFile,
    *,
    policies: Annotated[
        list[str] | None,
        Option(
            "--policy",
            help="A profile, `everything` or a file with `auto_context`; at least two. The others"
            " are compared with the first.",
        ),
    ] = None,
    judge: Annotated[
        str,
        Option(
            help="What says how good an answer is: validator, module:function, or provider/model."
        ),
    ] = "validator",
    repeat: Annotated[int, Option(min=1, help="How often each input runs under each policy.")] = 1,
    margin: Annotated[
        float, Option(help="The smallest difference of rates or scores that matters.")
    ] = 0.05,
    lenient: Lenient = False,
    shared: RowOptions,
) -> None:
    """Compare policies on the same inputs: do answers get worse, and what is saved?"""
    from windlass.api import engine as api
    from windlass.caching.rates import many
    from windlass.cli.many_runs import WrittenCommand, describe_unfinished, run_rows
    from windlass.cli.policy_tables import print_comparison
    from windlass.cli.untrusted import read_trusted_settings

    named = policies or []
    options = {
        **shared.for_library(),
        "judge": judge,
        "repeat": repeat,
        "margin": margin,
        "lenient": lenient,
    }
    settings = read_trusted_settings(shared.settings.flags(), trusted=shared.trust)
    words = [word for name in named for word in ("--policy", name)]
    line = WrittenCommand(["compare", str(cascade), str(inputs), *words], options)
    work = partial(api.compare, cascade, inputs, named, **options)
    result = run_rows(work, settings, line)
    if not printed_as_json(result):
        print_comparison(result)
    left = {"to be run": result.again, "to be judged": result.unjudged, "waiting": result.waiting}
    if not any(left.values()):
        return
    told = ", ".join(f"{count:,} are {name}" for name, count in left.items() if count)
    text = f"of {many(result.runs, 'run')} {told}"
    spent = {"money": result.spent or 0.0, "tokens": result.tokens}
    raise describe_unfinished(
        text, line, result.reason, spent, again=result.again + result.unjudged
    )
