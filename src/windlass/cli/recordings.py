"""`windlass import` and `windlass export`: sessions of other programs in, sessions out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from windlass.api.recordings import import_sessions
from windlass.caching.rates import many, money
from windlass.cli.output import (
    note,
    out,
    print_json,
    print_table,
    printed_as_json,
)
from windlass.cli.store import open_existing
from windlass.importing.imported import ImportedSession
from windlass.importing.recording import ESTIMATED, GRADES
from windlass.report.exporting import JSON_FORMS, export
from windlass.safety.escaping import escaped, escaped_json
from windlass.safety.outputs import check_output, write_output


def show_import(path: Path, form: str | None, store: str | None) -> None:
    """Import a file or folder and print what came of it."""
    imported = import_sessions(path, form=form, store=store, on_skip=note)
    if printed_as_json(imported):
        return
    print_table(
        ["format", "grade", "sessions", "calls", "tokens in", "cached", "out", "cost", "skipped"],
        [_line(group) for group in imported.by_format()],
        right=range(2, 9),
    )
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
    told = [
        f"{states[state]:,} {words}"
        for state, words in (
            ("new", "new"),
            ("grew", "with more calls than before"),
            ("unchanged", "here already, so nothing was added"),
        )
        if states[state]
    ]
    out.print("sessions: " + ", ".join(told))
    new = [session.session_id for session in imported.sessions if session.state != "unchanged"]
    if new:
        out.print(f"what one cost: windlass report {new[0]}")


def print_export(
    session: str, form: str, store: str | None, *, redact: bool, file: Path | None, force: bool
) -> None:
    """Print a session in a form, or write it to a file."""
    if file is not None:
        check_output(file, force=force)
    with open_existing(store) as history:
        pieces = export(history, history.find_session(session), form, redact=redact)
        shown = map(escaped_json if form in JSON_FORMS else escaped, pieces)
        if file is not None:
            write_output(file, shown, force=force)
            if not printed_as_json({"as": form, "file": file}):
                out.print(f"written: {file}")
            return
        if out.as_json:
            print_json({"as": form, "text": "".join(pieces)})
            return
        for piece in shown:
            print(piece, end="", file=out.file)


def _line(group: list[ImportedSession]) -> list[str]:
    dollars = [session.cost for session in group]
    known = [one for one in dollars if one is not None]
    cost = money(sum(known)) if known else "unknown"
    if known and len(known) < len(dollars):
        cost += f" and {len(dollars) - len(known)} unknown"
    return [
        group[0].format,
        group[0].grade,
        f"{len(group):,}",
        f"{sum(one.calls for one in group):,}",
        f"{sum(one.tokens_in for one in group):,}",
        f"{sum(one.tokens_cached for one in group):,}",
        f"{sum(one.tokens_out for one in group):,}",
        cost,
        f"{sum(sum(one.skipped.values()) for one in group):,}",
    ]
