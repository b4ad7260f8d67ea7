"""Tables of costs, of phases and of messages, and at whose prices they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from windlass.caching.rates import money, money_but_for, price_source, rate
from windlass.cli.output import out
from windlass.cli.printed_tables import dollar_cell, print_table
from windlass.ledger.charges import Charge
from windlass.report.contents import MessageCost
from windlass.report.costs import PhaseCost, SessionCost
from windlass.report.ranking import RankedCost
from windlass.text.cell_tables import CellTable, Columns, NumberCell, table_of


def phases_table(costs: SessionCost, *, parts: bool) -> CellTable:
    """Return what each phase sent, and what sending everything would have been, where that differs.

    `parts`: tokens sent are split into fresh ones, those read from a cache and those written to it.
    """
    columns: Columns[PhaseCost] = {
        "phase": lambda line: line.phase,
        "calls": lambda line: line.calls,
    }
    if parts:
        columns["fresh"] = lambda line: line.fresh
        columns["read"] = lambda line: line.tokens_cached
        columns["written"] = lambda line: line.tokens_written
    else:
        columns["tokens sent"] = lambda line: line.tokens_in
        columns["reported cached"] = lambda line: line.tokens_cached
    columns["out"] = lambda line: tokens_out_cell(line.tokens_out, estimated=bool(line.estimated))
    columns["billed" if costs.billed else "cost"] = lambda line: part_cell(line, line.dollars)
    if not costs.is_everything:
        columns["sending everything"] = lambda line: line.snowball
        columns["cost of everything"] = lambda line: part_cell(line, line.snowball_dollars)
    return table_of([*costs.phases, costs.total], columns, is_summed=True)


def part_cell(line: Charge, dollars: float | None) -> NumberCell:
    """Return a sum of money as a cell, with the number of the calls that are not in it."""
    return NumberCell(money_but_for(dollars, line.unpriced))


def tokens_out_cell(tokens: int, *, estimated: bool) -> NumberCell:
    """Return tokens of output as a cell, with a mark where they are estimated."""
    return NumberCell(f"{'~' if estimated else ''}{tokens:,}")


def price_note(costs: SessionCost) -> str:
    """Return a sentence on the prices at which the costs are computed."""
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
    print_table(phases_table(costs, parts=parts))
    out.print(price_note(costs))
    if windows := costs.windows:
        out.print(
            f"windows: saved {money(windows['saved'])} compared with the same calls without them,"
            f" {money(windows['spent'])} spent on texts for them: net {money(windows['net'])}"
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


def messages_table(
    messages: Iterable[MessageCost],
    *,
    with_session: bool = False,
    is_in_dearest: Callable[[MessageCost], bool] | None = None,
) -> CellTable:
    """Messages with what all calls paid for them; and whether the dearest call was sent each."""
    columns: Columns[MessageCost] = {
        "message": lambda message: message.what,
        "said in": lambda each: f"{each.phase}:{each.turn or 0}" if each.phase else "-",
    }
    if with_session:
        columns["session"] = lambda message: message.session_id
    columns["characters"] = lambda message: message.chars
    columns["tokens"] = lambda message: message.tokens
    columns["in calls"] = lambda message: message.calls
    columns["cost"] = lambda message: dollar_cell(message.dollars)
    if is_in_dearest is not None:
        columns["in the dearest call"] = lambda each: "yes" if is_in_dearest(each) else ""
    return table_of(messages, columns)


def ranked_table(
    what: str, costs: Iterable[RankedCost], *, within: str = "", summed: bool = False
) -> CellTable:
    """Costs as rows, each named by what it is."""
    columns: Columns[RankedCost] = {what: lambda cost: cost.name}
    if within:
        columns[within] = lambda cost: cost.within
    if what not in ("call", "session"):
        columns["sessions"] = lambda cost: cost.sessions
    if what != "call":
        columns["calls"] = lambda cost: cost.calls
    columns["tokens in"] = lambda cost: cost.tokens_in
    columns["cached"] = lambda cost: cost.tokens_cached
    columns["out"] = lambda cost: cost.tokens_out
    columns["cost"] = lambda cost: part_cell(cost, cost.dollars)
    return table_of(costs, columns, is_summed=summed)
