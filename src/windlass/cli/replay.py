"""`windlass replay` and `tune`: what other policies would have cost, and which serves best."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from windlass.api.recordings import replay, tune
from windlass.caching.rates import many
from windlass.cli.agents import find_agent_recording, list_agent_sessions
from windlass.cli.output import note, out, print_table, printed_as_json
from windlass.errors import WindlassError
from windlass.replays.gate import Gate
from windlass.replays.outcomes import RecordingReplay, Replay
from windlass.replays.pricing import OWN
from windlass.replays.printed import about, notes, only_one, sessions_table, totals_table
from windlass.replays.tuning import PARTS, TunedFigure
from windlass.safety.outputs import MARK, check_output, write_output

_BARS = " ▁▂▃▄▅▆▇█"
_FEWEST = 3
"""Calls that are plotted at least."""
_PLOT = 64
"""Columns of a plot."""


def show_replay(
    recording: str | None,
    policies: Sequence[str],
    prices: Sequence[str],
    store: str | None,
    *,
    html: Path | None,
    force: bool,
    gate: Gate,
    workers: int | None,
) -> None:
    """Replay and print what came of it; without a recording, list those of coding agents.

    Raises WindlassError where the gate fails.
    """
    if recording is None:
        list_agent_sessions("replay")
        return
    found = find_agent_recording(recording, store) or recording
    read = [Path(name) for name in (found, *policies)]
    if html is not None:
        check_output(html, read, force=force)
    replayed = replay(
        found,
        policies or None,
        prices or None,
        store=store,
        workers=workers or os.cpu_count() or 1,
        on_skip=note,
    )
    failures = gate.failures(replayed.totals)
    if html is not None:
        from windlass.report.replay_page import replay_page

        write_output(html, replay_page(replayed), read, force=force)
    if not printed_as_json(replayed):
        if gate.is_set:
            out.print("\n".join(gate.markdown(replayed.totals)))
        else:
            _print(replayed)
        if html is not None:
            out.print(f"the page: {html}")
    if failures:
        raise WindlassError(f"the gate fails: {'; '.join(failures)}")


def _print(replayed: Replay) -> None:
    for line in about(replayed):
        out.print(line)
    out.print()
    table = totals_table(replayed)
    print_table(table.columns, table.rows, right=table.numbers)
    if (one := only_one(replayed)) is not None:
        _plot(one)
    else:
        out.print()
        table = sessions_table(replayed)
        print_table(table.columns, table.rows, right=table.numbers)
    out.print()
    for line in notes(replayed):
        out.print(line)


def _plot(one: RecordingReplay) -> None:
    """Print what was spent by then under each policy, from the first call to the last."""
    prices = one.outlays[0].prices
    outlays = [outlay for outlay in one.outlays if outlay.prices == prices]
    if one.call_count < _FEWEST:
        return
    names = max(len(outlay.policy) for outlay in outlays)
    width = max(8, min(_PLOT, out.width - names - 2, one.call_count))
    columns = [_spent([call.cost for call in outlay.calls], width) for outlay in outlays]
    most = max(map(max, columns)) or 1.0
    at = "" if prices == OWN else f" at {prices}"
    out.print(f"\nwhat was spent by then{at}, from call 1 to call {one.call_count:,}")
    for outlay, costs in zip(outlays, columns, strict=True):
        bars = "".join(_BARS[max(1, round(cost / most * 8)) if cost else 0] for cost in costs)
        out.print(f"{outlay.policy:{names}}  {bars}")


def _spent(costs: Sequence[float], width: int) -> list[float]:
    """The sums of the costs up to so many places, the last of which is the end."""
    sums = list(accumulate(costs))
    return [sums[round((at + 1) * len(sums) / width) - 1] for at in range(width)]


def show_tuning(
    folder: Path,
    prices: str | None,
    result: Path | None,
    workers: int | None,
    *,
    force: bool,
) -> None:
    """Tune and print what came of it."""
    if result is not None:
        check_output(result, [folder], force=force)
    tuning = tune(folder, prices, workers=workers or os.cpu_count() or 1, on_skip=note)
    if tuning.is_better and result is not None:
        write_output(result, [f"# {MARK}\n", tuning.yaml()], [folder], force=force)
    if printed_as_json(tuning):
        return
    out.print(
        f"{many(tuning.sessions, 'session')} with {many(tuning.calls, 'call')},"
        f" {many(len(tuning.figures), 'setting')};"
        " on all sessions:"
    )
    print_table(
        ["settings", "of everything", "values in view", "lines in view"],
        [_figure(figure) for figure in tuning.figures],
        right=range(1, 4),
    )
    choices = ", ".join(f"{name} ({count})" for name, count in tuning.choices.items())
    out.print(
        f"\non sessions not tuned on ({PARTS} parts, each by what the others choose: {choices}):"
    )
    print_table(
        ["settings", "of everything", "values in view", "lines in view"],
        [_figure(tuning.unseen), _figure(tuning.default)],
        right=range(1, 4),
    )
    out.print()
    for line in tuning.assumed:
        out.print(line)
    if not tuning.is_better:
        out.print("nothing better than the default was found")
        return
    out.print(f"better than the default: {tuning.chosen}\n\n{tuning.yaml()}")
    if result is not None:
        out.print(f"written to {result}; windlass replay {folder} --policy {result}")


def _figure(figure: TunedFigure) -> list[str]:
    shares = (figure.values, figure.lines)
    return [figure.settings, f"{figure.ratio:.1%}", *(f"{share:.2%}" for share in shares)]
