"""What cost most in a store: its cascades, days, sessions, phases, calls and messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from windlass.caching.rates import age_note, many, money
from windlass.cli.cost_tables import messages_table, ranked_table
from windlass.cli.output import out, printed_as_json
from windlass.cli.printed_tables import print_table
from windlass.cli.report_page import open_for_report, write_page
from windlass.history.base import SessionFilter
from windlass.report.ranking import RankedCost, StoreReport, store_report
from windlass.text.cell_tables import CellTable

_CASCADES = 10
"""Cascades, and days, that are printed: the dearest, and the newest."""


def print_store_report(
    store: str | None, which: SessionFilter, limit: int, *, html: Path | None, force: bool
) -> None:
    """Print what cost most in a store, `limit` of each kind, or write it to a page."""
    with open_for_report(store, html, force=force) as (history, price_as):
        report = store_report(history, which, price_as, limit=limit)
    tables = _store_tables(report)
    if html is not None:
        bars = [(each.name, [each.dollars or 0.0], money(each.dollars)) for each in report.cascades]
        title = f"{many(report.total.sessions, 'session')}, {money(report.total.dollars)}"
        write_page(html, "store.html", force=force, title=title, tables=tables, cascades=bars)
    if printed_as_json(report) or html is not None:
        return
    if not report.sessions:
        fits = which != SessionFilter(banks=False, under=())
        out.print("no session fits" if fits else "no sessions yet")
        return
    for title, table in tables.items():
        print_table(table, f"\n{title}")
    name = report.sessions[0].name
    out.print(f"\nmodels that cost nothing are computed at the prices of {price_as}")
    if old := age_note():
        out.print(old)
    out.hint(f"what one cost: windlass report {name}; as a page: --html FILE")


def _store_tables(report: StoreReport) -> dict[str, CellTable]:
    """Return the tables of a store by their titles."""
    dearest = f"the dearest messages of the {report.looked:,} dearest sessions, by our count"
    return {
        f"by cascade{_count_shown(report.cascades)}": ranked_table(
            "cascade", [*report.cascades[:_CASCADES], report.total], summed=True
        ),
        f"by day (UTC){_count_shown(report.days)}": ranked_table("day", report.days[:_CASCADES]),
        "the dearest sessions": ranked_table("session", report.sessions, within="cascade"),
        "the dearest phases": ranked_table("phase", report.phases, within="cascade"),
        "the dearest calls": ranked_table("call", report.calls, within="session"),
        dearest: messages_table(report.messages, with_session=True),
    }


def _count_shown(listed: Sequence[RankedCost]) -> str:
    """Return the end of a heading where not all are listed."""
    return f", {_CASCADES} of {len(listed):,}" if len(listed) > _CASCADES else ""
