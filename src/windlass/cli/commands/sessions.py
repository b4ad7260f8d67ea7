"""`windlass sessions`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import OfCascade, Since, StoreOption, Until
from windlass.cli.output import out, printed_as_json
from windlass.errors import UsageError, did_you_mean

_WORDS = 40
"""Characters of a session's first words."""


@command()
def sessions(
    *,
    store: StoreOption = None,
    cascade: OfCascade = None,
    status: Annotated[
        str | None, Option(help="Only sessions that ended so, or are `running` or `broken off`.")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Option(min=0, help="How many at most, newest first.")] = 20,
) -> None:
    """List the sessions in the store, newest first."""
    from datetime import UTC, datetime

    from windlass.cli.named_store import open_existing, read_session_filter
    from windlass.cli.printed_tables import print_table
    from windlass.cli.session_text import TOTALS, indented_names
    from windlass.history.base import STATES, SessionFilter, SessionInfo, in_words
    from windlass.history.nesting import nest_with_totals, sessions_below
    from windlass.report.call_views import words_of
    from windlass.text.cell_tables import Columns, table_of

    if status is not None and status not in STATES:
        raise UsageError(f"--status {status!r}: {did_you_mean(status, STATES)}")
    which = read_session_filter(cascade=cascade, status=status, since=since, until=until)
    with open_existing(store) as history:
        fitting = history.sessions(which, limit=limit)
        below = sessions_below(history, [info.session_id for info in fitting])
        listed = () if out.as_json else (*fitting, *below)
        words = {info.session_id: words_of(history, info.session_id, _WORDS) for info in listed}
    # What is asked for by its cascade or status is listed alone; otherwise each with all below it.
    found = nest_with_totals([*fitting, *below] if which.under == () else fitting, below)
    if printed_as_json(found):
        return
    names = indented_names(found)
    columns: Columns[SessionInfo] = {
        "session": lambda info: names[info.session_id],
        "first words": lambda info: words[info.session_id],
        "started (UTC)": lambda info: f"{datetime.fromtimestamp(info.started, UTC):%Y-%m-%d %H:%M}",
        "status": lambda info: in_words(info.status, info.reason),
        **TOTALS,
        "cascade": lambda info: info.cascade_id,
    }
    print_table(table_of(found, columns), whole=["session"])
    if found:
        out.hint(f"\nwindlass show {found[0].session_id}")
    else:
        fits = which != SessionFilter(banks=False, under=())
        out.print("no session fits" if fits else "no sessions yet")
