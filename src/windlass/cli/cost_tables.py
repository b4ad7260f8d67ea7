"""Tables of costs, of phases and of messages, and at whose prices they are computed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from windlass.caching.rates import many, money, price_source, rate
from windlass.cli.output import out
from windlass.cli.printed_tables import (
    Cell,
    NumberCell,
    dollar_cell,
    format_cells,
    number_columns,
    print_table,
)
from windlass.report.contents import MessageCost
from windlass.report.costs import PhaseCost, SessionCost
from windlass.report.ranking import RankedCost


class CostTable(NamedTuple):
    """A table; `is_summed`: its last row is a sum."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_summed: bool = False

    def for_page(self) -> tuple[Sequence[str], list[list[str]], Container[int], bool]:
        """The arguments of the macro `table` in `figures.html`."""
        return self.columns, format_cells(self.rows), number_columns(self.rows), self.is_summed


def print_cost_table(table: CostTable, title: str | None = None) -> None:
    """Print a table, below its title where it has one."""
    print_table(table.columns, table.rows, title=title)


def phases_table(costs: SessionCost, *, parts: bool) -> CostTable:
    """What each phase sent, and what sending everything would have been, where that differs.

    `parts`: tokens sent are split into fresh ones, those read from a cache and those written to it.
    """
    sent = ["fresh", "read", "written"] if parts else ["tokens sent", "reported cached"]
    beside = not costs.is_everything

    def everything(line: PhaseCost) -> list[Cell]:
        return [line.snowball, dollar_cell(line.snowball_dollars)] if beside else []

    rows: list[list[Cell]] = [
        [
            line.phase,
            line.calls,
            line.fresh if parts else line.tokens_in,
            line.tokens_cached,
            *([line.tokens_written] if parts else []),
            NumberCell(f"{'~' if line.estimated else ''}{line.tokens_out:,}"),
            dollar_cell(line.dollars),
            *everything(line),
        ]
        for line in [*costs.phases, costs.total]
    ]
    columns = ["phase", "calls", *sent, "out", "billed" if costs.billed else "cost"]
    columns += ["sending everything", "cost of everything"] if beside else []
    return CostTable(columns, rows, is_summed=True)


def price_note(costs: SessionCost) -> str:
    """A sentence on the prices at which the costs are computed."""
    beside = (
        "" if costs.is_everything else "; everything: had each call been sent all that was said"
    )
    if costs.billed:
        return (
            f"billed: the usage that was reported, at its price{beside}"
            f"\n{price_text(costs.priced_as)}"
        )
    if not costs.priced_as:
        return "no call was answered, so there is nothing to bill"
    names = dict.fromkeys(costs.priced_as.values())
    return (
        f"costs are what {', '.join(names)} would bill for these messages, pictures included and"
        f" its prompt cache counted{beside} ({'; '.join(dict.fromkeys(map(price_source, names)))})"
    )


def print_costs(costs: SessionCost, *, parts: bool = False) -> None:
    """Print what each phase sent and cost; `parts` as in `phases_table`."""
    print_cost_table(phases_table(costs, parts=parts))
    out.print(price_note(costs))
    if windows := costs.windows:
        out.print(
            f"windows: saved {money(windows['saved'])} compared with the same calls without them,"
            f" {money(windows['spent'])} spent on texts for them: net {money(windows['net'])}"
        )
    if (search := costs.search) is not None:
        out.print(
            f"besides, searches of the web by {search.model}:"
            f" {many(search.searches, 'search', 'searches')}, {search.tokens_in:,} tokens sent,"
            f" {search.tokens_out:,} out, {money(search.dollars)}"
        )


def price_text(names: Mapping[str, str]) -> str:
    """Whose prices hold for each model, and where each is from.

    `local/smollm2 at the prices of openai/gpt-5 (genai-prices ...)`.
    """
    lines: list[str] = []
    for model, name in names.items():
        if rate(name) is None:
            lines.append(f"{name} has no price")
        elif model == name:
            lines.append(f"{model} at its own prices ({price_source(name)})")
        else:
            lines.append(f"{model} at the prices of {name} ({price_source(name)})")
    return "; ".join(lines)


def messages_table(messages: Iterable[MessageCost]) -> CostTable:
    """Messages with what all calls paid for them."""
    rows: list[list[Cell]] = [
        [
            message.what,
            f"{message.phase}:{message.turn or 0}" if message.phase else "-",
            message.chars,
            message.tokens,
            message.calls,
            dollar_cell(message.dollars),
        ]
        for message in messages
    ]
    columns = ["message", "said in", "characters", "tokens", "in calls", "cost"]
    return CostTable(columns, rows)


def _cost_text(each: RankedCost) -> str:
    """A cost, with the number of calls whose price is not known."""
    if not each.unpriced:
        return money(each.dollars)
    if each.unpriced == each.calls:
        return money(None)
    return f"{money(each.dollars)} but for {many(each.unpriced, 'call')}"


def ranked_table(
    what: str, costs: Iterable[RankedCost], *, within: str = "", summed: bool = False
) -> CostTable:
    """Costs as rows, each named by what it is."""
    counted = [] if what == "call" else ["sessions", "calls"] if what != "session" else ["calls"]
    columns = [what, *([within] if within else []), *counted]
    rows: list[list[Cell]] = []
    for each in costs:
        counts = {"sessions": each.sessions, "calls": each.calls}
        rows.append(
            [
                each.name,
                *([each.within] if within else []),
                *(counts[name] for name in counted),
                each.tokens_in,
                each.tokens_cached,
                each.tokens_out,
                NumberCell(_cost_text(each)),
            ]
        )
    columns += ["tokens in", "cached", "out", "cost"]
    return CostTable(columns, rows, summed)
