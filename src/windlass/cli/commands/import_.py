"""`windlass import`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import StoreOption
from windlass.cli.output import note, out, printed_as_json

if TYPE_CHECKING:
    from windlass.importing.imported import ImportedSession
    from windlass.text.cell_tables import Columns, NumberCell

_STATES = {
    "new": "new",
    "grew": "with more calls than before",
    "unchanged": "here already, so nothing was added",
}


@command(name="import")
def import_(
    path: Annotated[Path, Argument(help="A file, or a folder with files.")],
    *,
    form: Annotated[
        str | None, Option("--as", help="The format (default: recognised by what the file holds).")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Import recordings of other programs as sessions; may be repeated."""
    from windlass.api.recordings import import_sessions
    from windlass.caching.rates import many
    from windlass.cli.printed_tables import print_table
    from windlass.importing.recording import ESTIMATED, GRADES
    from windlass.text.cell_tables import table_of

    imported = import_sessions(path, form=form, store=store, on_skip=note)
    if printed_as_json(imported):
        return
    columns: Columns[list[ImportedSession]] = {
        "format": lambda group: group[0].format,
        "grade": lambda group: group[0].grade,
        "sessions": len,
        "calls": lambda group: sum(one.calls for one in group),
        "tokens in": lambda group: sum(one.tokens_in for one in group),
        "cached": lambda group: sum(one.tokens_cached for one in group),
        "out": lambda group: sum(one.tokens_out for one in group),
        "cost": _cost,
        "skipped": lambda group: sum(sum(one.skipped.values()) for one in group),
    }
    print_table(table_of(imported.by_format(), columns))
    grades = dict.fromkeys(session.grade for session in imported.sessions)
    out.print("; ".join(f"{grade}: {GRADES[grade]}" for grade in sorted(grades)))
    if estimated := sum(session.estimated for session in imported.sessions):
        out.print(ESTIMATED.format(many(estimated, "call")))
    skipped: Counter[str] = Counter()
    for session in imported.sessions:
        skipped.update(session.skipped)
    for reason, count in skipped.most_common():
        out.print(f"skipped: {count:,} {reason}")
    states = Counter(session.state for session in imported.sessions)
    told = (f"{states[state]:,} {words}" for state, words in _STATES.items() if states[state])
    out.print("sessions: " + ", ".join(told))
    new = [session.session_id for session in imported.sessions if session.state != "unchanged"]
    if new:
        out.hint(f"what one cost: windlass report {new[0]}")


def _cost(group: list[ImportedSession]) -> NumberCell:
    from windlass.caching.rates import money
    from windlass.text.cell_tables import NumberCell

    dollars = [session.cost for session in group]
    known = [one for one in dollars if one is not None]
    cost = money(sum(known)) if known else "unknown"
    if known and len(known) < len(dollars):
        cost += f" and {len(dollars) - len(known)} unknown"
    return NumberCell(cost)
