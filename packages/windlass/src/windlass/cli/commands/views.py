"""Commands that show recorded sessions: sessions, show, explain, diff, report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.app import command
from windlass.cli.options import OfCascade, PageOptions, Session, Since, StoreOption, Until
from windlass.cli.output import out, printed_as_json, shorten
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


@command()
def show(
    session: Session,
    *,
    call: Annotated[
        int | None, Option("--call", help="One call, by its number, counted from 1.")
    ] = None,
    full: Annotated[bool, Option("--full", help="Print messages whole.")] = False,
    store: StoreOption = None,
) -> None:
    """Show what each call of a session saw: messages, reasons, originals."""
    from windlass.cli.session_text import print_session

    print_session(session, call, store, full=full)


@command()
def explain(
    session: Session,
    call: Annotated[int, Argument(help="The number of the call, counted from 1.")],
    *,
    store: StoreOption = None,
) -> None:
    """Explain what became of each message at a call, and why."""
    from windlass.cli.session_text import print_explanation

    print_explanation(session, call, store)


@command()
def diff(
    session: Session,
    other: Annotated[str, Argument(help="The other session.")],
    *,
    store: StoreOption = None,
) -> None:
    """Show where two sessions part, and what each cost."""
    from windlass.cli.named_store import open_existing
    from windlass.cli.printed_tables import print_table
    from windlass.cli.session_text import ENDING
    from windlass.report.diff import compare_sessions
    from windlass.text.cell_tables import table_of

    with open_existing(store) as history:
        names = [history.find_session(name) for name in (session, other)]
        found = compare_sessions(history, names[0], names[1])
    if printed_as_json(found):
        return
    where = "" if found.call is None else f"call {found.call}: "
    out.print(f"{where}{found.what}")
    for info, text in zip(found.sessions, found.texts, strict=True):
        if text:
            out.print(f"  {info.session_id}: {shorten(text, 400)}")
    out.print()
    print_table(table_of(found.sessions, {"session": lambda info: info.session_id, **ENDING}))


@dataclass(frozen=True, kw_only=True)
class _SessionOptions:
    """What is reported of one session."""

    calls: Annotated[bool, Option("--calls", help="Print each call.")] = False
    call: Annotated[
        int | None, Option("--call", help="What one call cost, and what it was made of.")
    ] = None
    prefix: Annotated[
        bool, Option("--prefix", help="Print what each call shares with the one before it.")
    ] = False

    def given(self) -> list[str]:
        """Return the options that are given."""
        given = {"--calls": self.calls, "--call": self.call is not None, "--prefix": self.prefix}
        return [name for name, is_given in given.items() if is_given]


@dataclass(frozen=True, kw_only=True)
class _StoreOptions:
    """Which sessions of the whole store are reported, and how many of each kind."""

    cascade: OfCascade = None
    since: Since = None
    until: Until = None
    limit: Annotated[
        int, Option(min=1, help="How many sessions, phases, calls and messages to list.")
    ] = 5

    def given(self) -> list[str]:
        """Return the options that are given and choose sessions."""
        named = {"--cascade": self.cascade, "--since": self.since, "--until": self.until}
        return [name for name, value in named.items() if value]


@command()
def report(
    session: Annotated[
        str | None,
        Argument(
            help="A session (as in show), a file or folder of recordings, or a number of the list."
            " Without it: what cost most in the store; where that is empty, a list of the newest"
            " sessions of coding agents."
        ),
    ] = None,
    *,
    by: Annotated[
        str | None,
        Option(
            help="A row for each day, project, model or session of a folder (default: of all"
            " folders of coding agents)."
        ),
    ] = None,
    of_session: _SessionOptions,
    page: PageOptions,
    of_store: _StoreOptions,
    store: StoreOption = None,
) -> None:
    """Report what sessions, folders or the whole store cost, and could have cost."""
    from windlass.cli.agents import (
        find_agent_recording,
        has_agent_sessions,
        import_agent_session,
        is_empty_store,
        list_agent_sessions,
        print_folder,
    )
    from windlass.cli.named_store import read_session_filter
    from windlass.cli.reports import (
        print_call_report,
        print_prefixes,
        print_session_report,
        print_store_report,
    )

    if wrong := (of_store if session else of_session).given():
        which = "the whole store: leave out SESSION" if session else "one session: name it"
        raise UsageError(f"{wrong[0]} is for a report of {which}")
    if page.html is not None and (of_session.call is not None or of_session.prefix):
        raise UsageError("--html is for the whole report: leave out --call and --prefix")
    is_plain = not of_session.given() and not of_store.given() and page.html is None
    folder = None if session is None or not Path(session).exists() else Path(session)
    if folder is not None and not is_plain:
        raise UsageError(f"{str(folder)!r} is a folder or file: it takes --by and no other option")
    if by is not None and (not is_plain or (session is not None and folder is None)):
        raise UsageError("--by is for a folder or a file, and takes no other option")
    if folder is not None or by is not None:
        print_folder(folder, by or "session")
        return
    if session is not None and (file := find_agent_recording(session, store)) is not None:
        session = import_agent_session(file)
    if session is None and is_plain and not store and is_empty_store(None) and has_agent_sessions():
        list_agent_sessions("report")
    elif session is None:
        which_sessions = read_session_filter(
            cascade=of_store.cascade, since=of_store.since, until=of_store.until
        )
        print_store_report(store, which_sessions, of_store.limit, html=page.html, force=page.force)
    elif of_session.call is not None:
        print_call_report(session, of_session.call, store)
    elif of_session.prefix:
        print_prefixes(session, store)
    else:
        print_session_report(
            session, store, calls=of_session.calls, html=page.html, force=page.force
        )
