"""`windlass evaluate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import Auto, Input, ResumeOptions, RunOptions
from windlass.cli.output import out
from windlass.errors import UsageError


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
    from windlass.api import functions
    from windlass.cli.one_run import finish_run, resume_command
    from windlass.cli.run_input import read_input
    from windlass.cli.task_results import print_task
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
        work = partial(functions.resume_task, resuming.resume, task, **options)
    elif task is None:
        raise UsageError("give a task file to run, or a session to resume")
    elif resuming.again or resuming.accept:
        raise UsageError("--again and --accept are for a session that is resumed; name it, too")
    else:
        options |= {"context": inherited, "session_id": name}
        work = partial(functions.evaluate, task, values, **options)
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
