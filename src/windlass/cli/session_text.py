"""A session as `windlass show` prints it: its calls, the sessions under it, its callouts."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.cli.call_text import print_call
from windlass.cli.output import out, printed_as_json
from windlass.cli.store import open_existing
from windlass.cli.tables import Number, dollars, print_table
from windlass.history.base import SessionInfo, in_words
from windlass.history.callout_rows import Callout
from windlass.report.calls import CallView, SessionView, view_call, view_session

_BEGINNING = 80
"""Characters of a callout's text in the table."""
TOTALS = ("calls", "tokens in", "cached", "out")
"""The columns that `totals_of` fills."""


def totals_of(info: SessionInfo) -> list[int]:
    """How many calls a session has, and their tokens."""
    return [info.calls, info.tokens_in, info.tokens_cached, info.tokens_out]


def indented_names(sessions: Sequence[SessionInfo]) -> list[str]:
    """The names of nested sessions, each two spaces further in than its parent."""
    depths: dict[str | None, int] = {}
    for info in sessions:
        depths[info.session_id] = depths.get(info.parent_id, -1) + 1
    return ["  " * depths[info.session_id] + info.session_id for info in sessions]


def print_session(session: str, number: int | None, store: str | None, *, full: bool) -> None:
    """Print a session's calls, or what one call saw; `full`: its messages whole."""
    with open_existing(store) as history:
        view = view_session(history, history.find_session(session))
        call = None if number is None else view_call(view, number)
        if printed_as_json(call or view):
            return
        if call is None:
            _print_session(view)
        else:
            print_call(view, call, full=full)


def _print_session(view: SessionView) -> None:
    out.print(f"session {view.session_id}: {view.cascade_id}, {in_words(view.status, view.reason)}")
    if view.parent_id is not None:
        above = f"sub-cascade of session {view.parent_id}, phase {view.parent_phase}"
        if view.sounding_index is not None:
            above = f"sounding {view.sounding_index} of session {view.parent_id}"
        out.print(above)
    if view.forked_from is not None:
        out.print(
            f"forked from session {view.forked_from};"
            f" where they part: windlass diff {view.forked_from} {view.session_id}"
        )
    out.print(f"model {view.model}")
    if view.error:
        out.print(f"error: {view.error}", style="red")
    sounded = any(call.sounding_index is not None for call in view.calls)
    print_table(
        [
            "call",
            "phase",
            "turn",
            "try",
            *(["sounding"] if sounded else []),
            "kind",
            "tokens in",
            "cached",
            "sending everything",
            "out",
            "messages",
            "cost",
        ],
        [
            [
                Number(call.number),
                call.phase or "-",
                Number(call.turn),
                Number(call.attempt),
                *([_sounding(call)] if sounded else []),
                call.node_type,
                call.tokens_in,
                call.tokens_cached,
                call.snowball_tokens,
                call.tokens_out,
                len(call.seen),
                dollars(call.cost),
            ]
            for call in view.calls
        ],
    )
    if view.children:
        print_table(
            ["session", "ran by", "cascade", "status", *TOTALS, "cost"],
            [
                [
                    name,
                    _ran_by(info),
                    info.cascade_id,
                    in_words(info.status, info.reason),
                    *totals_of(info),
                    dollars(info.cost),
                ]
                for name, info in zip(indented_names(view.children), view.children, strict=True)
            ],
            title="\nsessions under it",
            whole=[0],
        )
    if view.callouts:
        print_table(
            ["name", "message", "role", "said in", "by", "text"],
            [callout_row(callout) for callout in view.callouts],
            title="\ncallouts",
            whole=[1],
        )
    for note in view.notes:
        out.print(f"{note.node_type}: {note.phase or '-'}: {note.text}", style="dim")
    if view.calls:
        out.print(f"\nwhat a call saw: windlass show {view.session_id} --call 1")
        out.print(f"what it cost: windlass report {view.session_id}")
    if view.resume is not None:
        out.print(f"go on with it: {view.resume}")


def _ran_by(info: SessionInfo) -> str:
    if info.sounding_index is not None:
        return f"sounding {info.sounding_index}"
    return f"phase {info.parent_phase}"


def _sounding(call: CallView) -> str:
    return "-" if call.sounding_index is None else str(call.sounding_index)


def callout_row(callout: Callout) -> list[str]:
    """A callout as a row: its name, the message's id, role, place, who marked it, its beginning."""
    row, message = callout.stored.row, callout.stored.row.message
    text = " ".join(message.text.split())[:_BEGINNING] if message else ""
    where = f"{row.phase or '-'}:{row.turn or 0}"
    role = message.role if message else ""
    return [callout.name, callout.message_id, role, where, callout.by, text]
