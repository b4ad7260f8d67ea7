"""Commands that weigh policies on recordings: replay, tune, policies."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from windlass.cli.app import command
from windlass.cli.options import Force, PageOptions, Processes, StoreOption
from windlass.cli.output import note, out, printed_as_json
from windlass.errors import UsageError, WindlassError, did_you_mean

if TYPE_CHECKING:
    from windlass.replays.tuning import TunedFigure


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
    from windlass.cli.policy_tables import print_replay
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
        from windlass.report.page import replay_page

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


@command()
def tune(
    folder: Annotated[Path, Argument(help="A folder with recordings, or a file.")],
    *,
    prices: Annotated[
        str | None, Option(help="As in replay (default: those of each recording's own model).")
    ] = None,
    result: Annotated[
        Path | None, Option("--out", help="Write the settings to this file, as YAML.")
    ] = None,
    force: Force = False,
    workers: Processes = None,
) -> None:
    """Find the window settings that serve your own recordings best. Nothing is sent."""
    import os

    from windlass.api import recordings
    from windlass.caching.rates import many
    from windlass.replays.tuning import PARTS
    from windlass.safety.outputs import MARK, check_output, write_output

    if result is not None:
        check_output(result, [folder], force=force)
    count = workers or os.cpu_count() or 1
    tuning = recordings.tune(folder, prices, workers=count, on_skip=note)
    if tuning.is_better and result is not None:
        write_output(result, [f"# {MARK}\n", tuning.yaml()], [folder], force=force)
    if printed_as_json(tuning):
        return
    out.print(
        f"{many(tuning.sessions, 'session')} with {many(tuning.calls, 'call')},"
        f" {many(len(tuning.figures), 'setting')};"
        " on all sessions:"
    )
    _print_figures(tuning.figures)
    choices = ", ".join(f"{name} ({times})" for name, times in tuning.choices.items())
    out.print(
        f"\non sessions not tuned on ({PARTS} parts, each by what the others choose: {choices}):"
    )
    _print_figures([tuning.unseen, tuning.default])
    out.print()
    for line in tuning.assumed:
        out.print(line)
    if not tuning.is_better:
        out.print("nothing better than the default was found")
        return
    out.print(f"better than the default: {tuning.chosen}\n\n{tuning.yaml()}")
    if result is not None:
        out.hint(f"written to {result}; windlass replay {folder} --policy {result}")


def _print_figures(figures: Sequence[TunedFigure]) -> None:
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import Columns, NumberCell, table_of

    columns: Columns[TunedFigure] = {
        "settings": lambda each: each.settings,
        "of everything": lambda each: NumberCell(f"{each.ratio:.1%}"),
        "values in view": lambda each: NumberCell(f"{each.values:.2%}"),
        "lines in view": lambda each: NumberCell(f"{each.lines:.2%}"),
    }
    print_table(table_of(figures, columns))


@command()
def policies(
    name: Annotated[str | None, Argument(help="A profile: its options.")] = None,
    *,
    every: Annotated[bool, Option("--all", help="Also options that are rarely on.")] = False,
) -> None:
    """List the window profiles, or print the options of one."""
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable
    from windlass.window.options import Policy
    from windlass.window.profiles import ABOUT, PROFILES, RARE

    if name is not None and name not in PROFILES:
        raise UsageError(f"there is no profile {name!r}; {did_you_mean(name, PROFILES)}")
    settings = {each: Policy.of(each).settings() for each in PROFILES}
    if printed_as_json(settings if name is None else settings[name]):
        return
    if name is None:
        rows = [
            [each, ABOUT[each], ", ".join(_other(options, settings["default"])) or "-"]
            for each, options in settings.items()
        ]
        print_table(CellTable(["profile", "what it is for", "other than the default"], rows))
        out.print("\nwindlass policies NAME prints the options of one")
        return
    hidden = frozenset() if every or name == "spec" else RARE
    for line in _yaml(settings[name], Policy, hidden):
        out.print(line)
    if hidden:
        out.print("# windlass policies NAME --all also prints options that are rarely on")


def _other(options: Mapping[str, Any], default: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the options that differ from the default, with their values."""
    for key, value in options.items():
        held = default.get(key)
        if isinstance(value, dict) and isinstance(held, dict):
            yield from _other(value, held, f"{at}{key}.")
        elif key != "profile" and value != held:
            yield f"{at}{key} {json.dumps(value)}"


def _yaml(
    settings: Mapping[str, Any], options: type, hidden: Container[str], inside: str = ""
) -> Iterator[str]:
    """Yield the options as YAML that a cascade can take over, each with its meaning."""
    from windlass.cascade.options import first_paragraph
    from windlass.declared import meanings_in
    from windlass.window.options import options_of

    indent = "  " * inside.count(".")
    for name, meaning in meanings_in(options).items():
        value = settings[name]
        if f"{inside}{name}" in hidden:
            continue
        comment = f"# {first_paragraph(meaning)}"
        if isinstance(value, dict):
            yield f"{indent}{name}:  {comment}"
            yield from _yaml(value, options_of(options)[name].kind, hidden, f"{inside}{name}.")
        else:
            yield f"{f'{indent}{name}: {json.dumps(value)}':<32}  {comment}"
