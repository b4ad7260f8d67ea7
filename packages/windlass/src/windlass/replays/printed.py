"""A replay in words and tables, as the terminal and the page show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from windlass.caching.rates import many, money, table_date
from windlass.cascade.policies import EVERYTHING
from windlass.importing.recording import ESTIMATED, GRADES
from windlass.replays.outcomes import PolicyCost, RecordingReplay, Replay, Span
from windlass.text.cell_tables import Cell, CellTable, Columns, NumberCell, table_of

_MANY: Final = 100_000
"""From so many tokens on, a count is shown in thousands."""


def only_one(replayed: Replay) -> RecordingReplay | None:
    """Return the recording, where there is only one."""
    return replayed.recordings[0] if len(replayed.recordings) == 1 else None


def totals_table(replayed: Replay) -> CellTable:
    """Return what each policy costs and keeps in view."""
    one = only_one(replayed)
    sources = {recording.name: recording.source for recording in replayed.recordings}
    several = len({one.prices for one in replayed.totals}) > 1
    columns: Columns[PolicyCost] = {"policy": lambda one: one.policy}
    if several:
        columns["prices"] = lambda one: one.prices
    columns |= {
        "cost": lambda one: NumberCell(cost_text(one)),
        "of everything": lambda one: NumberCell(percents(one.ratio)),
        "tokens in": lambda one: NumberCell(_range(*map(_thousands, one.tokens))),
        "fetched again": lambda one: one.misses,
        "values": lambda one: NumberCell(_share(one.values_seen, one.values)),
        "lines": lambda one: NumberCell(_share(one.lines_seen, one.lines)),
    }
    if one:
        columns["first differs"] = lambda one: NumberCell(_calls(one)[0])
        columns["dearest call"] = lambda one: NumberCell(_calls(one)[1])
    else:
        columns["worst recording"] = lambda one: _worst(one, sources)
    return table_of(replayed.totals, columns)


def sessions_table(replayed: Replay) -> CellTable:
    """Return a row for each recording, the dearest first: its cost, and that under each policy."""
    prices = replayed.totals[0].prices
    policies = [one.policy for one in replayed.totals if one.prices == prices]
    others = [policy for policy in policies if policy != EVERYTHING] or policies
    rows: list[list[Cell]] = []
    for one in sorted(replayed.recordings, key=lambda each: each.recorded or 0.0, reverse=True):
        costs = {each.policy: each for each in one.outlays if each.prices == prices}
        cells = (
            NumberCell(cell)
            for policy in others
            for cell in (cost_text(costs[policy]), percents(costs[policy].ratio))
        )
        recorded = NumberCell("-" if one.recorded is None else money(one.recorded))
        rows.append([one.title, one.call_count, recorded, *cells])
    heads = [head for policy in others for head in (policy, "of everything")]
    return CellTable(["session", "calls", "recorded", *heads], rows)


def describe_replay(replayed: Replay) -> Iterator[str]:
    """Yield what was replayed, what it cost, and what the columns of the table mean."""
    one = only_one(replayed)
    recorded = "not known" if replayed.recorded is None else money(replayed.recorded)
    if replayed.recorded is not None and replayed.unknown:
        recorded += f", and not known of {many(replayed.unknown, 'recording')}"
    if one is not None:
        yield (
            f"{one.title or one.name}: {many(one.call_count, 'call')} of {one.model}, {one.format},"
            f" {GRADES[one.grade]}"
        )
    else:
        grades = sorted({recording.grade for recording in replayed.recordings})
        evidence = ", ".join(GRADES[grade] for grade in grades)
        calls = many(sum(one.call_count for one in replayed.recordings), "call")
        yield f"{many(len(replayed.recordings), 'recording')} with {calls} ({evidence})"
    beside = sum(one.beside for one in replayed.recordings)
    if beside:
        recorded += f", of it {money(beside)} for what models were asked beside these calls"
    yield f"what it cost, as recorded: {recorded}"
    if estimated := sum(recording.estimated for recording in replayed.recordings):
        yield ESTIMATED.format(many(estimated, "call"))
    yield (
        "cost: input, output and what is fetched again; fetched again: results that a call needed"
        " and did not see"
    )
    yield (
        "values: names, paths and numbers of results that later calls needed, and how many were in"
        " view; lines: the same of whole lines"
    )


def list_notes(replayed: Replay) -> Iterator[str]:
    """Yield what the figures are based on, and what they leave out."""
    one = only_one(replayed)
    if any(one.grade == "C" and one.unseen.high for one in replayed.recordings):
        unseen = ""
        if one is not None and one.unseen.high:
            low, high = (f"{tokens:,.0f}" for tokens in one.unseen)
            unseen = f", here {low} to {high} tokens of each call"
        yield (
            "system prompt and tools are not in the transcript; they count by what the"
            f" provider counted{unseen}"
        )
    if note := _cache_note(replayed):
        yield note
    yield from replayed.assumed
    if unpriced := max(one.unpriced for one in replayed.totals):
        yield f"without a price, and so in no cost: {many(unpriced, 'recording')}"
    if any(one.dollars is not None for one in replayed.totals):
        yield f"prices: {table_date()}"
    if one is not None and one.results_as_words:
        yield "results are told as words of the user: what calls need of them counts, and they stay"
    elif one is not None and not one.results:
        yield "no message is a result of a tool, so what later calls needed is not known"
    counts: dict[str, int] = {}
    for recording in replayed.recordings:
        for reason, count in recording.skipped.items():
            counts[reason] = counts.get(reason, 0) + count
    for reason, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        yield f"skipped: {count:,} {reason}"
    if replayed.skipped:
        yield f"left out, and named above: {len(replayed.skipped):,}"


def _cache_note(replayed: Replay) -> str:
    """How much the provider's cache held, and how much the bill counts on; empty: unknown."""
    tokens_in = sum(recording.recorded_in for recording in replayed.recordings)
    cached = sum(recording.recorded_cached for recording in replayed.recordings)
    whole = next((one for one in replayed.totals if one.ratio == (1, 1)), None)
    if not tokens_in or whole is None or not whole.cached.high:
        return ""
    share = whole.cached.middle / whole.tokens.middle
    return (
        f"as recorded, {cached / tokens_in:.0%} of the input was read from the cache; the bill of"
        f" {whole.policy} counts on {share:.0%}"
    )


def cost_text(one: PolicyCost) -> str:
    """Return what a policy costs, for people."""
    if one.dollars is not None:
        return _range(*(money(one) for one in one.dollars))
    units = map(sum, zip(one.bill, one.again, strict=True))
    return _range(*map(_thousands, units)) + " tokens"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} - {high}"


def percents(span: Span) -> str:
    """Return a share for people: `71 %`, or `71 - 73 %`."""
    return _range(f"{100 * span.low:.0f}", f"{100 * span.high:.0f}") + " %"


def _share(seen: int, needed: int) -> str:
    return f"{seen:,}/{needed:,}" if needed else "-"


def _worst(one: PolicyCost, sources: Mapping[str, str]) -> str:
    if one.worst == 1 and one.ratio == (1, 1):
        return "-"
    file = Path(sources[one.worst_recording]).name
    return f"{100 * one.worst:.0f} % {file or one.worst_recording}"


def _calls(one: PolicyCost) -> list[str]:
    first, dearest = one.first_difference, one.dearest
    amount = "-"
    if dearest is not None:
        amount = f"{dearest}: {amount_text(one, one.calls[dearest - 1].cost)}"
    return ["-" if first is None else str(first), amount]


def _thousands(tokens: float) -> str:
    return f"{tokens / 1_000:,.0f}k" if tokens >= _MANY else f"{tokens:,.0f}"


def amount_text(one: PolicyCost, cost: float) -> str:
    """Return the cost of a call, for people."""
    return f"{cost:,.0f}" if one.dollars is None else money(cost)
