"""`windlass replay`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import PageOptions, Processes, StoreOption
from windlass.cli.output import note, out, printed_as_json
from windlass.errors import WindlassError


@dataclass(frozen=True, kw_only=True)
class _GateOptions:
    """What a policy must hold to, so that the command may serve as a gate."""

    fail_over: Annotated[
        float | None,
        Option(help="As a gate: exit with 1 where a policy costs more of everything."),
    ] = None
    min_recall: Annotated[
        float | None,
        Option(help="As a gate: exit with 1 where less of what was needed is in view."),
    ] = None


@command()
def replay(
    recording: Annotated[
        str | None,
        Argument(
            help="A file, a folder with files, a session (as in show), or a number of the list."
            " Without it: the newest sessions of coding agents on this machine."
        ),
    ] = None,
    *,
    policy: Annotated[
        list[str] | None,
        Option(
            help="A profile, everything, mask:TURNS, OPTION=VALUE,… or a file with an auto_context;"
            " may be repeated (default: everything and default)."
        ),
    ] = None,
    prices: Annotated[
        list[str] | None,
        Option(
            help="A model, anthropic, automatic, none or READ,WRITE; may be repeated (default: the"
            " recording's own model)."
        ),
    ] = None,
    page: PageOptions,
    gating: _GateOptions,
    workers: Processes = None,
    store: StoreOption = None,
) -> None:
    """Replay recorded calls under other policies: what they would have cost. Nothing is sent."""
    import os

    from windlass.api import recordings
    from windlass.cli.agents import find_agent_recording, list_agent_sessions
    from windlass.cli.replay_text import print_replay
    from windlass.replays.gate import Gate
    from windlass.safety.outputs import check_output, write_output

    gate = Gate(gating.fail_over, gating.min_recall)
    if recording is None:
        list_agent_sessions("replay")
        return
    found = find_agent_recording(recording, store) or recording
    read = [Path(name) for name in (found, *(policy or ()))]
    if page.html is not None:
        check_output(page.html, read, force=page.force)
    replayed = recordings.replay(
        found,
        policy or None,
        prices or None,
        store=store,
        workers=workers or os.cpu_count() or 1,
        on_skip=note,
    )
    failures = gate.failures(replayed.totals)
    if page.html is not None:
        from windlass.report.replay_page import replay_page

        write_output(page.html, replay_page(replayed), read, force=page.force)
    if not printed_as_json(replayed):
        if gate.is_set:
            out.print("\n".join(gate.markdown(replayed.totals)))
        else:
            print_replay(replayed)
        if page.html is not None:
            out.print(f"the page: {page.html}")
    if failures:
        raise WindlassError(f"the gate fails: {'; '.join(failures)}")
