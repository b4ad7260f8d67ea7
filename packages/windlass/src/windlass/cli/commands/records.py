"""Commands on the store: query, verify, prune, import, export, migrate."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.core import TyperCommand

from windlass.cli.app import command
from windlass.cli.options import Force, Session, StoreOption
from windlass.cli.output import (
    note,
    out,
    print_csv,
    print_json,
    printed_as_json,
    progress,
    shorten,
    to_plain,
)
from windlass.errors import StoreError, UsageError
from windlass.settings.plugins import PRUNE, announced, load_announced

if TYPE_CHECKING:
    from windlass.importing.storing import ImportedSession
    from windlass.text.cell_tables import Columns, NumberCell


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class _WithSql(TyperCommand):
    """A command whose argument may begin with `--`, as comments of SQL do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move a comment, and what follows it, behind the options."""
        end = args.index("--") if "--" in args else len(args)
        sql = [arg for arg in args[:end] if self._is_comment(arg)]
        options = [arg for arg in args[:end] if not self._is_comment(arg)]
        return super().parse_args(ctx, [*options, *(["--", *sql] if sql else []), *args[end:]])

    def _is_comment(self, arg: str) -> bool:
        option = re.match(r"--[^\s=]*", arg)
        known = {name for param in self.params for name in param.opts}
        return option is not None and option[0] not in known and bool(re.search(r"\s", arg))


@command(cls=_WithSql)
def query(
    sql: Annotated[str, Argument(help="One SELECT; the main view is unified_logs.")],
    *,
    form: Annotated[
        RowFormat, Option("--format", help="How rows are printed; --json means json.")
    ] = RowFormat.TABLE,
    store: StoreOption = None,
) -> None:
    """Query the history with one read-only SQL statement."""
    from windlass.caching.rates import many
    from windlass.cli.named_store import open_existing
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable

    out.as_json = out.as_json or form is RowFormat.JSON
    if form is RowFormat.CSV and out.as_json:
        raise UsageError("--format csv and --json exclude each other; give one of them")
    with open_existing(store) as history:
        rows = history.query(sql)
    if printed_as_json(rows):
        return
    if form is RowFormat.CSV:
        print_csv(rows)
    elif rows:
        columns = list(rows[0])
        cells = [
            ["" if row[name] is None else shorten(str(row[name]), 200) for name in columns]
            for row in rows
        ]
        ids = [name for name in columns if name.endswith(("_id", "hash"))]
        print_table(CellTable(columns, cells), whole=ids)
        out.print(many(len(rows), "row"))
    else:
        out.print("no rows")


@command()
def verify(*, store: StoreOption = None) -> None:
    """Verify the store: recompute its hashes and windows, list damage."""
    from pathlib import Path

    from windlass.api.opening import open_store
    from windlass.caching.rates import many
    from windlass.cli.named_store import read_settings
    from windlass.cli.progress import show_count
    from windlass.history import sqlite
    from windlass.history.places import check_folder

    settings = read_settings(store)
    place = settings.store
    if isinstance(place, Path):
        check_folder(place)
    with show_count(progress, "verifying") as count:
        if not isinstance(place, Path):
            with open_store(settings, existing=True) as history:
                findings = list(history.verify(count))
        elif place.is_dir():
            # Not through the history: a store may be too damaged to be opened.
            findings = list(sqlite.verify_store(place, count))
        else:
            raise UsageError(f"there is no store in {str(place)!r}")
    damage = [finding for finding in findings if finding.severity == "damage"]
    if not printed_as_json(findings):
        for finding in findings:
            out.print(f"{finding.severity}: {finding.where}: {finding.what}")
        if not damage:
            out.print(f"the store {str(place)!r} is sound")
    if damage:
        raise StoreError(
            f"the store {str(place)!r} is damaged in {many(len(damage), 'place')};"
            " what is undamaged can still be read"
        )


@command()
def prune(
    *,
    older_than: Annotated[
        str | None, Option("--older-than", help="An age such as 90d, 12h or 30m.")
    ] = None,
    session: Annotated[str | None, Option("--session", help="One session (as in show).")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Delete sessions, what plugins noted of them and what only they use. Nothing else deletes."""
    import time
    from functools import partial

    from windlass.api.opening import open_store
    from windlass.caching.rates import many
    from windlass.cli.named_store import read_age, read_settings

    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else read_age(older_than)
    if older_than is not None and age is None:
        raise UsageError(
            f"--older-than {older_than!r} must be a number with a unit: 90d, 12h, 30m, 45s"
        )
    now = time.time()
    with open_store(read_settings(store), existing=True, writing=True) as history:
        session_id = None if session is None else history.find_session(session)
        ask = partial(history.prune, older_than_s=age, session_id=session_id, now=now)
        others = [
            load_announced(entry, "pruning")(history, ask(dry_run=True).sessions, age, now)
            for entry in announced(PRUNE)
        ]
        pruned = ask(dry_run=dry_run)
        removed = [other(dry_run) for other in others]
    plain = to_plain(pruned)
    for other in removed:
        plain |= to_plain(other)
    if printed_as_json(plain):
        return
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{verb} {many(len(pruned.sessions), 'session')}, {many(pruned.rows, 'row')},"
        f" {many(pruned.bodies, 'body', 'bodies')}, {many(pruned.blobs, 'file')} of"
        f" {many(pruned.bytes, 'byte')}"
    )
    for name in pruned.sessions:
        out.print(f"  {name}")
    left = [(pruned.running, "running")]
    for other in removed:
        if other.names:
            out.print(f"{verb} {other.what} {many(len(other.names), 'session')}")
        for name in other.names:
            out.print(f"  {name}")
        left.append((other.in_use, other.user))
    for names_left, why in left:
        if names_left:
            out.print(f"left alone, as they are {why}: {', '.join(names_left)}")


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


@command()
def export(
    session: Session,
    *,
    form: Annotated[
        str,
        Option(
            "--as", help="openai, anthropic, markdown, jsonl, html, otel (spans) or otel-content."
        ),
    ] = "markdown",
    redact: Annotated[
        bool, Option("--redact", help="Take out what looks like a credential.")
    ] = False,
    file: Annotated[
        Path | None, Option("--out", help="Write to this file, whole or not at all.")
    ] = None,
    force: Force = False,
    store: StoreOption = None,
) -> None:
    """Write out a session: for another program, or to read."""
    from windlass.cli.named_store import open_existing
    from windlass.report import exporting
    from windlass.safety.escaping import escaped, escaped_json
    from windlass.safety.outputs import check_output, write_output

    if file is not None:
        check_output(file, force=force)
    with open_existing(store) as history:
        found = history.find_session(session)
        pieces = exporting.export(history, found, form, redact=redact)
        shown = map(escaped if form in exporting.PAGES else escaped_json, pieces)
        if file is not None:
            write_output(file, shown, force=force)
            if not printed_as_json({"as": form, "file": file}):
                out.print(f"written: {file}")
        elif out.as_json:
            print_json({"as": form, "text": "".join(pieces)})
        else:
            for piece in shown:
                print(piece, end="", file=out.file)


@command()
def migrate(
    source: Annotated[str, Argument(help="The store to copy: a folder or an address.")],
    target: Annotated[str, Argument(help="The store to copy to.")],
) -> None:
    """Copy a history to another store and prove that it arrived; may be repeated."""
    from os import environ
    from pathlib import Path

    from windlass.caching.rates import many
    from windlass.history import migrating
    from windlass.history.places import open_place
    from windlass.settings.fields import read_store

    here = Path.cwd()
    places = read_store(source, here), read_store(target, here)
    if places[0] == places[1]:
        raise UsageError(f"{source!r} and {target!r} are one store")

    def show_progress(number: int, count: int, name: str) -> None:
        if not out.as_json:
            progress.print(f"[{number}/{count}] {name}")

    with (
        open_place(places[0], environ, existing=True) as old,
        open_place(places[1], environ) as new,
    ):
        copies = list(migrating.migrate(old, new, on_session=show_progress, on_lost=note))
    if printed_as_json(copies):
        return
    out.print(
        f"{many(len(copies), 'session')}, {many(sum(copy.rows for copy in copies), 'row')}"
        f" ({sum(copy.new_rows for copy in copies):,} of them new there),"
        f" {many(sum(copy.calls for copy in copies), 'call')},"
        f" {many(sum(copy.edits for copy in copies), 'edit')}: counts and hashes agree;"
        f" {many(sum(copy.cards for copy in copies), 'card')}"
    )
