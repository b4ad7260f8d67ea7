"""`windlass fork`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import Lenient, PriceAs, RunOptions, Session


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
    from windlass.api import functions
    from windlass.cli.one_run import finish_run, resume_command
    from windlass.cli.run_input import read_changes
    from windlass.cli.untrusted import read_trusted_settings

    flags = {**shared.settings.flags(), "price_as": price_as}
    settings = read_trusted_settings(flags, trusted=shared.trust)
    work = partial(
        functions.fork,
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
