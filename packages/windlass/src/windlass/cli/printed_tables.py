"""Tables, as wide as the terminal at most.

Tables of costs, of phases and of messages, and at whose prices they are computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from windlass.caching.rates import money, money_but_for, price_source, rate
from windlass.cli.output import PIPE_WIDTH, out
from windlass.ledger.charges import Charge
from windlass.report.contents import MessageCost
from windlass.report.costs import PhaseCost, SessionCost
from windlass.report.ranking import RankedCost
from windlass.safety.escaping import escaped
from windlass.text.cell_tables import CellTable, Columns, NumberCell, table_of

_ID: Final = re.compile(r"(?<![^\W_])[0-9a-f]{8,}(?![^\W_])")
"""What messages, hashes and windows are called by."""
_WHOLE_ID: Final = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]+)*")
_TIMED_ID: Final = re.compile(r"\d{8}-\d{6}-")
_SHORT_ID: Final = 15
"""Characters of the day and the time with which names of sessions begin."""
_LONGEST_ID: Final = 72
_FEWEST: Final = 20
"""Characters up to which a text of a table is not folded."""


def dollar_cell(amount: float | None) -> NumberCell:
    """Return US dollars as a cell; `no price` where they are not known."""
    return NumberCell(money(amount))


def growth_cell(tokens: int | None) -> NumberCell:
    """By how many tokens something grew, with its sign, as a cell (None: nothing to compare)."""
    return NumberCell("-" if tokens is None else f"{tokens:+,}")


def print_table(table: CellTable, title: str | None = None, *, whole: Collection[str] = ()) -> None:
    """Print a table below its title; the columns with the heads `whole` are never folded.

    Numbers and ids are not folded either. Where they do not fit side by side on a terminal, ids
    are shortened to beginnings that tell them apart, then the columns that matter least are left
    out, and named below. Rich prints the heads. It takes milliseconds for a row, and a session has
    thousands, so rows that need no folding are put together here.
    """
    heads, cells = list(table.columns), [[escaped(cell) for cell in row] for row in table.texts]
    kept, left_out, numbers = list(range(len(heads))), list[str](), table.numbers
    right: Container[int] = numbers
    firm: Container[int] = {at for at, head in enumerate(heads) if head in whole}
    widths = _widths(heads, cells, right, firm)
    if widths is None:
        cells = _with_short_ids(cells)
        widths = _widths(heads, cells, right, firm)
    while widths is None and len(kept) > 1:
        at = _least_column(heads)
        left_out.append(heads.pop(at))
        kept.pop(at)
        cells = [[*row[:at], *row[at + 1 :]] for row in cells]
        right = {new for new, old in enumerate(kept) if old in numbers}
        firm = {new for new, head in enumerate(heads) if head in whole}
        widths = _widths(heads, cells, right, firm)
    widths = widths or [out.width]
    if title is not None:
        out.print(title, style="table.title")
    printed = RichTable(pad_edge=False, box=None)
    for index, column in enumerate(heads):
        justify: JustifyMethod = "right" if index in right else "left"
        width = widths[index]
        if index == len(heads) - 1 and justify == "left":  # no blanks at the end of the line
            width = min(width, max(1, cell_len(column)))
        printed.add_column(escaped(column), justify=justify, overflow="fold", width=width)
    out.print(printed, soft_wrap=False)
    lines = []
    for row in cells:
        folded = [
            _fold(cell, width, right=at in right, whole=at in firm)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for line in range(max(map(len, folded))):
            parts = zip(folded, widths, strict=True)
            texts = (cell[line] if line < len(cell) else " " * width for cell, width in parts)
            lines.append("  ".join(texts).rstrip())
    if lines:
        out.print("\n".join(lines))
    if left_out:
        names = ", ".join(name for name in table.columns if name in left_out)
        out.print(f"no room for: {names} (--json has all)", style="dim")


def _widths(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Container[int],
    whole: Container[int],
) -> list[int] | None:
    """Return the width of each column, the widest ones folded to fit; None where they cannot.

    A pipe has room for all that cannot be folded.
    """
    widths, least = [], []
    for at, column in enumerate(columns):
        words = {word for row in cells for word in row[at].split()}
        lines = (line for row in cells for line in row[at].split("\n"))
        widest = max(map(cell_len, lines), default=0)
        head = max(map(cell_len, column.split()), default=0)
        ids = (len(word) for word in words if len(word) <= _LONGEST_ID and _ID.search(word))
        text = max([min(widest, _FEWEST), *ids])
        widths.append(max(widest, cell_len(column)))
        least.append(max(head, widest if at in right or at in whole else text))
    while sum(widths) + 2 * (len(widths) - 1) > out.width:
        over = [at for at, width in enumerate(widths) if width > least[at]]
        if not over:
            return widths if out.width == PIPE_WIDTH else None
        widths[max(over, key=widths.__getitem__)] -= 1
    return widths


_SPARE: Final = (
    *("cached", "reported cached", "read", "written", "try", "turn", "kind", "messages"),
    *("fetched again", "first differs", "dearest call", "lines", "trace", "cap", "out"),
    *("tokens in", "tokens sent", "fresh", "characters", "growth", "cascade", "model"),
)
"""Columns that are left out first where a table has no room, the first of them first of all.

Then the last ones go, from the right; a first column and a cost go last.
"""


def _least_column(columns: Sequence[str]) -> int:
    """Return the place of the column that matters least; the first only where it is alone."""
    spare = (columns.index(name) for name in _SPARE if name in columns[1:])
    others = (at for at in range(len(columns) - 1, 0, -1) if "cost" not in columns[at])
    return next(spare, None) or next(others, None) or len(columns) - 1


def _with_short_ids(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the cells, in columns of ids each cut to a beginning that tells it from the others."""
    turned = [list(column) for column in zip(*cells, strict=True)]
    for column in turned:
        ids = {cell.strip() for cell in column} - {"", "-"}
        if not ids or not all(len(each) > _SHORT_ID and _WHOLE_ID.fullmatch(each) for each in ids):
            continue
        short = {each: _short_id(each, ids) for each in ids}
        for at, cell in enumerate(column):
            name = cell.strip()
            column[at] = cell.replace(name, short.get(name, name)) if name else cell
    return [list(row) for row in zip(*turned, strict=True)]


def _short_id(name: str, names: Collection[str]) -> str:
    """The beginning of an id that no other one has: its time of day, or eight digits of a hash."""
    length = _SHORT_ID if _TIMED_ID.match(name) else 8
    while length < len(name) and sum(other.startswith(name[:length]) for other in names) > 1:
        length += 1
    return name[:length]


def _fold(cell: str, width: int, *, right: bool, whole: bool) -> list[str]:
    """Return the lines of a cell, each as wide as its column."""
    if cell.isascii() and len(cell) <= width and cell.isprintable():
        return [cell.rstrip().rjust(width) if right else cell.ljust(width)]
    lines = Text(cell).wrap(
        out, width, justify="right" if right else "left", overflow="fold", no_wrap=whole
    )
    return [set_cell_size(line.plain, width) for line in lines]


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
    """Return whose prices hold for each model, and where each is from.

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
