"""What other policies would have cost, as `windlass replay` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from windlass.cli.output import out
from windlass.cli.printed_tables import print_table
from windlass.replays.outcomes import RecordingReplay, Replay
from windlass.replays.pricing import OWN
from windlass.replays.printed import (
    describe_replay,
    list_notes,
    only_one,
    sessions_table,
    totals_table,
)

_BARS = " ▁▂▃▄▅▆▇█"
_FEWEST = 3
"""Calls that are plotted at least."""
_PLOT = 64
"""Columns of a plot."""


def print_replay(replayed: Replay) -> None:
    """Print the totals, and each session or, of only one, what was spent call by call."""
    for line in describe_replay(replayed):
        out.print(line)
    out.print()
    print_table(totals_table(replayed))
    if (one := only_one(replayed)) is not None:
        _plot(one)
    else:
        out.print()
        print_table(sessions_table(replayed))
    out.print()
    for line in list_notes(replayed):
        out.print(line)


def _plot(one: RecordingReplay) -> None:
    """Print what was spent by then under each policy, from the first call to the last."""
    prices = one.outlays[0].prices
    outlays = [each for each in one.outlays if each.prices == prices]
    if one.call_count < _FEWEST:
        return
    names = max(len(each.policy) for each in outlays)
    width = max(8, min(_PLOT, out.width - names - 2, one.call_count))
    columns = [_spent([call.cost for call in each.calls], width) for each in outlays]
    most = max(map(max, columns)) or 1.0
    at = "" if prices == OWN else f" at {prices}"
    out.print(f"\nwhat was spent by then{at}, from call 1 to call {one.call_count:,}")
    for each, costs in zip(outlays, columns, strict=True):
        bars = "".join(_BARS[max(1, round(cost / most * 8)) if cost else 0] for cost in costs)
        out.print(f"{each.policy:{names}}  {bars}")


def _spent(costs: Sequence[float], width: int) -> list[float]:
    """Return the sums of the costs up to `width` places, the last of which is the end."""
    sums = list(accumulate(costs))
    return [sums[round((at + 1) * len(sums) / width) - 1] for at in range(width)]
