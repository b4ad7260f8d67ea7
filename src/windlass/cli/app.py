"""The commands and their flags. What a command does stands in the room it opens.

More than 400 lines because every flag of every command stands here, and nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from windlass import __version__
from windlass.cli.commands import Commands
from windlass.cli.ending import silence
from windlass.cli.memory import memory
from windlass.errors import Interrupted


class _Commands(TyperGroup):
    """The commands; what ends one early is said by `main`, and not by typer."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises Interrupted after a signal."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted") from error
        except BrokenPipeError as error:
            # The reader of a pipe (head, less) went away: nobody is left to tell.
            silence(1)
            raise typer.Exit from error


app = Commands(
    name="windlass",
    cls=_Commands,
    help="Windlass, the context engine for LLM workflows: run cascades, see what each call saw.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(memory, name="memory")

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The history: a folder, clickhouse://… or chdb://… "
        "(default: WINDLASS_STORE or ./.windlass).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Trust the code, commands and addresses that this folder names, this once."
    ),
]
File = Annotated[Path, typer.Argument(help="A cascade in JSON or YAML.")]
Either = Annotated[Path, typer.Argument(help="A cascade in JSON or YAML, or a task in XML.")]
Session = Annotated[str, typer.Argument(help="A session, as `windlass sessions` lists it.")]


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


@app.command()
def run(
    cascade: File,
    *,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", help="JSON, a JSON or YAML file, or key=value; may be repeated."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="provider/model for every phase.")
    ] = None,
    store: Store = None,
    root: Annotated[
        str | None, typer.Option(help="The only folder that file tools may touch (default: .).")
    ] = None,
    search_folder: Annotated[
        str | None, typer.Option(help="Folder of texts that the tool web_search looks in.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="A name for the session (default: made of the time).")
    ] = None,
    price_as: Annotated[
        str | None, typer.Option(help="Hosted model at whose prices the table is computed.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Send nothing: show the first request and the largest cost."
        ),
    ] = False,
    auto: Annotated[
        bool, typer.Option("--auto", help="Shorten calls as they grow: `auto_context: {}`.")
    ] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Run a cascade, showing its progress, and end with a table of what each phase sent."""
    from windlass.cli.run import dry_run_command, run_command

    flags = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
        "price_as": price_as,
    }
    if dry_run:
        dry_run_command(cascade, given or [], flags, auto=auto, trust=trust, as_json=as_json)
    else:
        run_command(
            cascade, given or [], flags, session=session, auto=auto, trust=trust, as_json=as_json
        )


@app.command()
def evaluate(
    task: Annotated[Path | None, typer.Argument(help="A task in XML.")] = None,
    *,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", help="JSON, a JSON or YAML file, or key=value; may be repeated."
        ),
    ] = None,
    context: Annotated[
        Path | None, typer.Option(help="A text: the context that the task inherits.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="A session to take up again; what is finished is kept.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where inner tasks of a reduce run: local, or ray.")
    ] = "local",
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="provider/model for every task.")
    ] = None,
    store: Store = None,
    root: Annotated[
        str | None, typer.Option(help="The only folder that inputs and tools may touch.")
    ] = None,
    search_folder: Annotated[
        str | None, typer.Option(help="Folder of texts that the tool web_search looks in.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="A name for the session (default: made of the time).")
    ] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Shorten calls as they grow.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Run a task in XML (atomic, sequential, reduce), or take a session of one up again."""
    from windlass.cli.evaluate import evaluate_command

    flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
    evaluate_command(
        task,
        given or [],
        flags,
        context=context,
        resume=resume,
        engine=engine,
        session=session,
        auto=auto,
        trust=trust,
        as_json=as_json,
    )


@app.command()
def sessions(
    *,
    store: Store = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the sessions in the store, newest first."""
    from windlass.cli.look import sessions_command

    sessions_command(store, limit=limit, as_json=as_json)


@app.command()
def show(
    session: Session,
    *,
    call: Annotated[
        int | None, typer.Option("--call", help="The number of one call, from 1.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print messages whole.")] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show what a session's calls saw, message by message: reasons, tokens, originals."""
    from windlass.cli.look import show_command

    show_command(session, call, store, full=full, as_json=as_json)


@app.command()
def explain(
    session: Session,
    call: Annotated[int, typer.Argument(help="The number of the call, from 1.")],
    *,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Explain what a call saw: for each message what became of it, and by which rule."""
    from windlass.cli.explain import explain_command

    explain_command(session, call, store, as_json=as_json)


@app.command()
def report(
    session: Session,
    *,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="Print what each call shares with the one before it.")
    ] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Report what a session cost, or what of its requests a cache could hold."""
    from windlass.cli.report import report_command

    report_command(session, store, prefix=prefix, as_json=as_json)


@app.command()
def callout(
    session: Session,
    ref: Annotated[
        str, typer.Argument(help="A message: its id, its hash or the beginning of it, a tool.")
    ],
    name: Annotated[str, typer.Argument(help="What it is to be called.")],
    *,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Mark a message as important: windows keep it whole, later phases find it by its name."""
    from windlass.cli.callouts import callout_command

    callout_command(session, ref, name, store, as_json=as_json)


@app.command()
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
    unpin: Annotated[str | None, typer.Option(help="A message that is not, any more.")] = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show the context cards of a session, by which messages are chosen; or make them."""
    from windlass.cli.cards import cards_command

    cards_command(
        session,
        store,
        make=make,
        regenerate=regenerate,
        failed=failed,
        pin=pin,
        unpin=unpin,
        as_json=as_json,
    )


@app.command()
def check(
    cascade: Either,
    *,
    explain_defaults: Annotated[
        bool, typer.Option("--explain-defaults", help="Print each setting with its origin.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Take what is told as a warning for a mistake.")
    ] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Find every mistake in a cascade or a task at once, with file and line."""
    if cascade.suffix.lower() == ".xml":
        from windlass.cli.tasks import check_task_command

        check_task_command(
            cascade, explain_defaults=explain_defaults, strict=strict, trust=trust, as_json=as_json
        )
        return
    from windlass.cli.files import check_command

    check_command(
        cascade, explain_defaults=explain_defaults, as_json=as_json, strict=strict, trust=trust
    )


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; the main view is unified_logs.")],
    *,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Ask the history in SQL: one statement, read-only."""
    from windlass.cli.look import query_command

    query_command(sql, store, as_json=as_json)


@app.command()
def verify(*, store: Store = None, as_json: AsJson = False) -> None:
    """Prove the store: derive hashes and windows again, and name what disagrees."""
    from windlass.cli.files import verify_command

    verify_command(store, as_json=as_json)


@app.command()
def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="An age such as 90d, 12h or 30m.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="One session.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, remove nothing.")
    ] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Remove sessions, and what no other session uses. The only thing that ever deletes."""
    from windlass.cli.files import prune_command

    prune_command(older_than, session, store, dry_run=dry_run, as_json=as_json)


@app.command()
def migrate(
    source: Annotated[str, typer.Argument(help="The store to copy: a folder or an address.")],
    target: Annotated[str, typer.Argument(help="The store to copy to.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a history to another store and prove that it arrived; may be repeated."""
    from windlass.cli.stores import migrate_command

    migrate_command(source, target, as_json=as_json)


@app.command()
def schema(
    of: Annotated[
        str, typer.Argument(help="cascade (JSON Schema), operators (RELAX NG) or clickhouse (SQL).")
    ] = "cascade",
    *,
    cluster: Annotated[
        str | None, typer.Option(help="clickhouse: Replicated and Distributed tables on it.")
    ] = None,
    ttl_days: Annotated[
        int | None, typer.Option(help="clickhouse: sessions vanish so many days after they began.")
    ] = None,
    vectors: Annotated[
        int | None, typer.Option(help="clickhouse: index embeddings of so many dimensions.")
    ] = None,
) -> None:
    """Print the schema of cascades or tasks, for editors; or a store's tables in ClickHouse."""
    from windlass.cli.stores import schema_command

    schema_command(of, cluster=cluster, ttl_days=ttl_days, vectors=vectors)


@app.command()
def models(
    model: Annotated[
        str | None, typer.Argument(help="provider/model: its prices, window and cache.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the providers, and whether their keys are there; or what is known of one model."""
    from windlass.cli.models import model_command, providers_command

    if model is None:
        providers_command(as_json=as_json)
    else:
        model_command(model, as_json=as_json)


@app.command()
def config(*, store: Store = None, as_json: AsJson = False) -> None:
    """Print each setting with its value and its origin."""
    from windlass.cli.files import config_command

    config_command({"store": store}, as_json=as_json)


@app.command()
def trust(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder (none: list the trusted ones).")
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the mark away.")] = False,
    as_json: AsJson = False,
) -> None:
    """Trust a folder: its windlass.toml may name code, commands and where keys go."""
    from windlass.cli.trusting import trust_command

    trust_command(folder, remove=remove, as_json=as_json)


@app.command()
def policies(
    name: Annotated[str | None, typer.Argument(help="A profile: its options.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Also options that are rarely on.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the profiles of windows, or print the options of one."""
    from windlass.cli.policies import policies_command, policy_command

    if name is None:
        policies_command(as_json=as_json)
    else:
        policy_command(name, every=every, as_json=as_json)
