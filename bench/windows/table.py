"""Outcomes of many recordings as one table: sources by figures, one a price vector."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.windows.measure import Outcome
from bench.windows.prices import MARKED

from windlass.replays.tuning import LINES_IN_VIEW, VALUES_IN_VIEW

_MARKED = frozenset(vector.name for vector in MARKED)


@dataclass(frozen=True)
class Row:
    """One contestant on one source at one price vector.

    `strict` is the bill where only what ends at a mark is cached, with the better of its own
    marks (`strict_own`) and marks at the end (`strict_end`).
    `bill`, `total` (bill + reacquisition), `worst` (total of the worst recording),
    `worst_bill` and `clairvoyant` are divided by sending everything, whose bill is `everything`.
    Of the mean over sources `weighted` is the total of all recordings together. `legal` is
    the share of the calls that a model which binds thinking takes, `thoughts` that of the signed
    blocks that are still sent (None: it is handed none), `epochs` the calls of a hundred that
    send fewer than they could. `values` and
    `lines` are the shares in view, `own` that of values and lines which only the assistant had
    said, `misses` a hundred calls, `invalid` windows, `ms`
    the median time to one window.
    """

    contestant: str
    vector: str
    source: str
    recordings: int
    calls: int
    bill: float
    total: float
    strict: float
    strict_own: float
    strict_end: float
    values: float
    lines: float
    own: float
    misses: float
    worst: float
    worst_bill: float
    clairvoyant: float
    invalid: float
    ms: float
    tokens: float
    everything: float
    weighted: float
    legal: float | None
    thoughts: float | None
    epochs: float | None


def row(contestant: str, vector: str, source: str, outcomes: Sequence[Outcome]) -> Row:
    """The recordings of a source, summed."""
    everything = sum(one.everything for one in outcomes)
    bill = sum(one.bill for one in outcomes)
    calls = sum(one.calls for one in outcomes)
    own, end = (sum(one.strict_own for one in outcomes), sum(one.strict_end for one in outcomes))
    signed = all(one.signed for one in outcomes)
    strictly = sum(one.strict_everything for one in outcomes)
    return Row(
        contestant=contestant,
        vector=vector,
        source=source,
        recordings=len(outcomes),
        calls=calls,
        bill=bill / everything,
        total=(bill + sum(one.again for one in outcomes)) / everything,
        strict=min(own, end) / strictly,
        strict_own=own / strictly,
        strict_end=end / strictly,
        values=_share(sum(o.values_seen for o in outcomes), sum(o.values for o in outcomes)),
        lines=_share(sum(o.lines_seen for o in outcomes), sum(o.lines for o in outcomes)),
        own=_share(sum(o.own_seen for o in outcomes), sum(o.own for o in outcomes)),
        misses=100 * sum(one.misses for one in outcomes) / calls,
        worst=max(one.ratio for one in outcomes),
        worst_bill=max(one.bill / one.everything for one in outcomes),
        clairvoyant=sum(one.clairvoyant for one in outcomes) / everything,
        invalid=sum(one.invalid for one in outcomes),
        ms=1_000 * statistics.median(second for one in outcomes for second in one.seconds),
        tokens=sum(one.tokens for one in outcomes),
        everything=everything,
        weighted=(bill + sum(one.again for one in outcomes)) / everything,
        legal=sum(one.legal for one in outcomes) / calls if signed else None,
        thoughts=sum(o.blocks for o in outcomes) / sum(o.blocks_made for o in outcomes)
        if signed
        else None,
        epochs=100 * sum(one.epochs for one in outcomes) / calls if signed else None,
    )


def _share(seen: int, needed: int) -> float:
    return seen / needed if needed else 1.0


def mean(rows: Sequence[Row]) -> Row:
    """The mean over sources; of counts the sum, of the worst the worst."""
    first = rows[0]
    figures = {
        name: statistics.mean(getattr(one, name) for one in rows)
        for name in (
            "bill",
            "total",
            "strict",
            "strict_own",
            "strict_end",
            "values",
            "lines",
            "own",
            "misses",
            "clairvoyant",
            "ms",
        )
    }
    everything = sum(one.everything for one in rows)
    worst = {name: max(getattr(one, name) for one in rows) for name in ("worst", "worst_bill")}
    return Row(
        contestant=first.contestant,
        vector=first.vector,
        source=f"mean of {len(rows)}",
        recordings=sum(one.recordings for one in rows),
        calls=sum(one.calls for one in rows),
        invalid=sum(one.invalid for one in rows),
        tokens=sum(one.tokens for one in rows),
        everything=everything,
        weighted=sum(one.total * one.everything for one in rows) / everything,
        legal=_mean(one.legal for one in rows),
        thoughts=_mean(one.thoughts for one in rows),
        epochs=_mean(one.epochs for one in rows),
        **figures,
        **worst,
    )


def _mean(figures: Iterable[float | None]) -> float | None:
    """The mean of what is known of all or of none of them."""
    known = [each for each in figures if each is not None]
    return statistics.mean(known) if known else None


HEAD = (
    f"{'source':24} {'bill':>7} {'+again':>7} {'weighted':>8}"
    f" {'strict':>7} {'marks':>7} {'at end':>7}"
    f" {'values':>7} {'lines':>7} {'own':>6} {'miss/100':>8}"
    f" {'worst':>6} {'w.bill':>6} {'clairv.':>7} {'invalid':>7}"
    f" {'legal':>6} {'thoughts':>8} {'epochs':>6} {'ms/call':>8}"
)


def line(one: Row) -> str:
    """The row as it is printed; the strict bill at the prices that it is defined by."""
    figures = (one.strict, one.strict_own, one.strict_end)
    strict = " ".join(f"{each:7.3f}" if one.vector in _MARKED else f"{'-':>7}" for each in figures)
    places = ((one.legal, "6.3f"), (one.thoughts, "8.3f"), (one.epochs, "6.2f"))
    thinking = " ".join(
        f"{'-':>{form[0]}}" if each is None else f"{each:{form}}" for each, form in places
    )
    return (
        f"{one.source:24} {one.bill:7.3f} {one.total:7.3f} {one.weighted:8.3f} {strict}"
        f" {one.values:7.3f} {one.lines:7.3f} {one.own:6.3f} {one.misses:8.2f}"
        f" {one.worst:6.2f} {one.worst_bill:6.2f}"
        f" {one.clairvoyant:7.3f} {one.invalid:7.0f} {thinking} {one.ms:8.3f}"
    )


def tables(rows: Iterable[Row]) -> str:
    """One table a contestant and price vector, each with its mean."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for one in rows:
        grouped.setdefault((one.contestant, one.vector), []).append(one)
    said: list[str] = []
    for (contestant, vector), group in grouped.items():
        said += [f"{contestant}, prices '{vector}'", HEAD, *map(line, group)]
        if len(group) > 1:
            said.append(line(mean(group)))
        said.append("")
    return "\n".join(said)


def frontier(rows: Sequence[Row]) -> str:
    """The contestants' means at each vector, dearest first; `*`: no other one is better.

    Better is at most as dear (bill + reacquisition) with at least as much in view, values
    and lines, and not the same in all three.
    """
    said: list[str] = []
    for vector in dict.fromkeys(one.vector for one in rows):
        names = dict.fromkeys(one.contestant for one in rows if one.vector == vector)
        means = [
            mean([one for one in rows if (one.contestant, one.vector) == (name, vector)])
            for name in names
        ]
        said += [f"frontier, prices '{vector}'", f"  {'contestant':40} {HEAD[25:]}"]
        for one in sorted(means, key=lambda one: -one.total):
            beaten = any(_better(other, one) for other in means)
            said.append(f"{' ' if beaten else '*'} {one.contestant:40} {line(one)[25:]}")
        said.append("")
    return "\n".join(said)


def choices(rows: Sequence[Row]) -> str:
    """For each source the contestant that the others choose, and how it does on the one left out.

    They choose by what falls short in view, then by the bill: strict, where it is.
    """
    sources = list(dict.fromkeys(one.source for one in rows))
    vectors = list(dict.fromkeys(one.vector for one in rows))
    said = [f"{'left out':24} {'lines':20} {'values':20} {'bill + again':20} the others choose"]
    for left in sources:
        groups: dict[str, list[Row]] = {}
        for one in rows:
            if one.source != left or len(sources) == 1:
                groups.setdefault(one.contestant, []).append(one)
        chosen = min(groups, key=lambda name: _falls_short(groups[name]))
        there = [one for one in rows if (one.contestant, one.source) == (chosen, left)]
        figures = (
            " ".join(f"{figure:6.4f}" for figure in column)
            for column in zip(*((one.lines, one.values, one.total) for one in there), strict=True)
        )
        said.append(" ".join([f"{left:24}", *figures, chosen]))
    return "\n".join([*said, f"prices: {', '.join(vectors)}", ""])


def _falls_short(rows: Sequence[Row]) -> tuple[float, float]:
    short = sum(
        max(0.0, LINES_IN_VIEW - one.lines) + max(0.0, VALUES_IN_VIEW - one.values) for one in rows
    )
    return round(short, 4), sum(one.strict for one in rows)


def margins(rows: Sequence[Row]) -> str:
    """What each contestant's total is more than the first one's, in points, over the sources.

    Beside the mean of all stand the least and the most that it is without one of them, and the
    source without which it changes most; `carried`: without that one it is of the other sign.
    """
    first = rows[0].contestant
    said = [
        f"{'points more than ' + first:56} mean  least   most values  lines  changes most without"
    ]
    for vector in dict.fromkeys(one.vector for one in rows):
        of = {(one.contestant, one.source): one for one in rows if one.vector == vector}
        sources = list(dict.fromkeys(one.source for one in rows))
        for name in list(dict.fromkeys(one.contestant for one in rows))[1:]:
            pairs = [(of[name, source], of[first, source]) for source in sources]
            more = [100 * (one.total - base.total) for one, base in pairs]
            whole = statistics.mean(more)
            left = [(sum(more) - one) / max(1, len(more) - 1) for one in more]
            most = max(range(len(left)), key=lambda at: abs(left[at] - whole))
            carried = " carried" if whole * left[most] < 0 else ""
            values = min(one.values - base.values for one, base in pairs)
            lines = min(one.lines - base.lines for one, base in pairs)
            said.append(
                f"{name:50} {vector[-5:]:>5} {whole:5.2f} {min(left):6.2f} {max(left):6.2f}"
                f" {values:6.3f} {lines:6.3f}  {sources[most]} {more[most]:+.2f}{carried}"
            )
    return "\n".join([*said, ""])


def _better(one: Row, other: Row) -> bool:
    mine, theirs = ((-it.total, it.values, it.lines) for it in (one, other))
    return mine != theirs and all(a >= b for a, b in zip(mine, theirs, strict=True))


def as_json(rows: Sequence[Row]) -> list[Mapping[str, object]]:
    """The rows and their means, as JSON objects."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for one in rows:
        grouped.setdefault((one.contestant, one.vector), []).append(one)
    means = [mean(group) for group in grouped.values() if len(group) > 1]
    return [asdict(one) for one in [*rows, *means]]
