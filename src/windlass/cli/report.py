"""`windlass report`: what a session cost, and what of its requests the caches could hold."""

from __future__ import annotations

from collections.abc import Sequence
from os import environ
from pathlib import Path

from windlass.cli.look import open_marked
from windlass.cli.output import out, print_json, print_table
from windlass.cli.run import print_costs
from windlass.report.costs import session_cost
from windlass.report.prefix import Prefix, prefix_of
from windlass.settings import Settings

_COLUMNS = ["call", "said in", "sent", "shared", "predicted", "reported", "broken at", "by"]


def report_command(session: str, store: str | None, *, prefix: bool, as_json: bool) -> None:
    """Print what a session cost; with `prefix` what each call shares with the one before it."""
    settings = Settings.read({"store": store}, environ, Path.cwd())
    keeper = open_marked(settings)
    try:
        costs = None if prefix else session_cost(keeper, session, settings.price_as)
        prefixes = prefix_of(keeper, session) if prefix else ()
    finally:
        keeper.close()
    if as_json:
        print_json(prefixes if prefix else costs)
    elif costs is not None:
        print_costs(costs)
        out.print(f"\nwhat its caches could hold: windlass report {session} --prefix")
        out.print(f"what a call saw, and why: windlass show {session}, windlass explain")
    else:
        _print(session, prefixes)


def _print(session: str, prefixes: Sequence[Prefix]) -> None:
    print_table("", _COLUMNS, [_row(one) for one in prefixes], right=range(2, 6), whole=[1, 6])
    later = [one for one in prefixes if one.call > 1]
    sent, shared = sum(one.sent for one in later), sum(one.shared for one in later)
    reported = sum(one.reported for one in later)
    if sent:
        out.print(
            f"\nafter the first call: {shared / sent:.1%} of {sent:,} tokens stand as in the call"
            f" before, {reported:,} tokens were reported as cached"
        )
    out.print(f"what a call saw: windlass show {session} --call 1")


def _row(one: Prefix) -> list[str]:
    place = "-"
    if one.broken_by:
        place = "tools" if one.message is None else f"message {one.message}"
        place += f", character {one.character}" if one.character is not None else ""
    return [
        str(one.call),
        f"{one.phase or '-'}:{one.turn or 0}",
        f"{one.sent:,}",
        f"{one.shared:,}",
        "-" if one.predicted is None else f"{one.predicted:,}",
        f"{one.reported:,}",
        place,
        one.broken_by or "-",
    ]
