"""`windlass report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import OfCascade, PageOptions, Since, StoreOption, Until
from windlass.errors import UsageError


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
        """The options that are given."""
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
        """The options that are given and choose sessions."""
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
    from windlass.cli.call_report import print_call_report, print_prefixes
    from windlass.cli.named_store import read_session_filter
    from windlass.cli.session_report import print_session_report
    from windlass.cli.store_report import print_store_report

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
