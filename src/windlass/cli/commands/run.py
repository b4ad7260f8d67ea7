"""`windlass run`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import Auto, Input, Lenient, PriceAs, ResumeOptions, RunOptions
from windlass.cli.output import out
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
    from windlass.api import functions
    from windlass.api.loading import ReadingOptions
    from windlass.cli.dry_run import show_forecast
    from windlass.cli.one_run import finish_run, resume_command
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
        work = partial(functions.resume, resuming.resume, cascade, **options)
    elif cascade is None or resuming.again or resuming.accept:
        raise UsageError("give a cascade to run, or a session with --resume")
    elif dry_run:
        how = ReadingOptions(trust=shared.trust, lenient=lenient)
        show_forecast(cascade, given, flags, how, auto=auto)
        return
    else:
        options["session_id"] = shared.session_name
        work = partial(functions.run, cascade, read_input(given or ()), **options)
    finish_run(
        work,
        read_trusted_settings(flags, trusted=shared.trust),
        again=resume_command("run", cascade),
        output_only=shared.output_only,
    )
