"""What the history holds: `windlass sessions`, `windlass show`, `windlass query`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from windlass.caching.rates import many, money
from windlass.cli.output import (
    indented,
    out,
    print_csv,
    print_table,
    printed_as_json,
    shorten,
)
from windlass.cli.store import open_existing, read_time
from windlass.errors import UsageError, did_you_mean
from windlass.history.base import SessionFilter, SessionInfo, Status, in_words
from windlass.history.callout_rows import Callout
from windlass.history.nesting import nested, sessions_below
from windlass.messages import Message, Picture, Text
from windlass.report.calls import (
    CallView,
    SessionView,
    view_call,
    view_session,
    words_of,
)
from windlass.report.diff import compare_sessions
from windlass.report.provider_edits import call_sentences

_PREVIEW = 600
_BEGINNING = 80
_WORDS = 40
"""Characters of a session's first words in a list."""
_TOTALS = ("calls", "tokens in", "cached", "out")


def show_sessions(
    store: str | None,
    limit: int,
    *,
    cascade: str | None,
    status: str | None,
    since: str | None,
    until: str | None,
) -> None:
    """List sessions, newest first: those that fit what is given."""
    statuses = (*get_args(Status), "running")
    if status is not None and status not in statuses:
        raise UsageError(f"--status {status!r}: {did_you_mean(status, statuses)}")
    which = SessionFilter(
        cascade=cascade,
        status=status,
        since=None if since is None else read_time("--since", since),
        until=None if until is None else read_time("--until", until, whole_day=True),
        banks=False,
        under=() if cascade is None and status is None else None,
    )
    with open_existing(store) as history:
        fitting = history.sessions(which, limit=limit)
        below = sessions_below(history, [info.session_id for info in fitting])
        listed = () if out.as_json else (*fitting, *below)
        words = {info.session_id: words_of(history, info.session_id, _WORDS) for info in listed}
    # What is asked for by its cascade or status is listed alone; else each with all below it.
    sessions = nested([*fitting, *below] if which.under == () else fitting, below)
    if printed_as_json(sessions):
        return
    print_table(
        ["session", "first words", "started (UTC)", "status", *_TOTALS, "cascade"],
        [
            [
                name,
                words[info.session_id],
                f"{datetime.fromtimestamp(info.started, UTC):%Y-%m-%d %H:%M}",
                in_words(info.status, info.reason),
                str(info.calls),
                f"{info.tokens_in:,}",
                f"{info.tokens_cached:,}",
                f"{info.tokens_out:,}",
                info.cascade_id,
            ]
            for name, info in zip(_indented(sessions), sessions, strict=True)
        ],
        right=range(4, 8),
        whole=[0],
    )
    if sessions:
        out.print(f"\nwindlass show {sessions[0].session_id}")
    else:
        fits = which != SessionFilter(banks=False, under=())
        out.print("no session fits" if fits else "no sessions yet")


def _ran_by(info: SessionInfo) -> str:
    if info.sounding_index is not None:
        return f"sounding {info.sounding_index}"
    return f"phase {info.parent_phase}"


def _indented(sessions: Sequence[SessionInfo]) -> list[str]:
    """The names of nested sessions, each two spaces further in than its parent."""
    depths: dict[str | None, int] = {}
    for info in sessions:
        depths[info.session_id] = depths.get(info.parent_id, -1) + 1
    return ["  " * depths[info.session_id] + info.session_id for info in sessions]


def show_session(session: str, number: int | None, store: str | None, *, full: bool) -> None:
    """Show a session's calls, or what one call saw."""
    with open_existing(store) as history:
        view = view_session(history, history.find_session(session))
        call = None if number is None else view_call(view, number)
        if printed_as_json(call or view):
            return
        if call is None:
            _print_session(view)
        else:
            _print_call(view, call, full=full)


def show_difference(session: str, other: str, store: str | None) -> None:
    """Show where two sessions part, and what each cost."""
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
    print_table(
        ["session", "status", "calls", "tokens in", "cached", "out", "cost"],
        [
            [
                info.session_id,
                in_words(info.status, info.reason),
                str(info.calls),
                f"{info.tokens_in:,}",
                f"{info.tokens_cached:,}",
                f"{info.tokens_out:,}",
                money(info.cost),
            ]
            for info in found.sessions
        ],
        right=range(2, 7),
    )


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
                str(call.number),
                call.phase or "-",
                str(call.turn),
                str(call.attempt),
                *([_sounding(call)] if sounded else []),
                call.node_type,
                f"{call.tokens_in:,}",
                f"{call.tokens_cached:,}",
                f"{call.snowball_tokens:,}",
                f"{call.tokens_out:,}",
                str(len(call.seen)),
                money(call.cost),
            ]
            for call in view.calls
        ],
        right=[0, 2, 3, *range(5 + sounded, 11 + sounded)],
    )
    if view.children:
        print_table(
            [
                "session",
                "ran by",
                "cascade",
                "status",
                "calls",
                "tokens in",
                "cached",
                "out",
                "cost",
            ],
            [
                [
                    name,
                    _ran_by(info),
                    info.cascade_id,
                    in_words(info.status, info.reason),
                    str(info.calls),
                    f"{info.tokens_in:,}",
                    f"{info.tokens_cached:,}",
                    f"{info.tokens_out:,}",
                    money(info.cost),
                ]
                for name, info in zip(_indented(view.children), view.children, strict=True)
            ],
            title="\nsessions under it",
            right=range(4, 9),
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


def _sounding(call: CallView) -> str:
    return "-" if call.sounding_index is None else str(call.sounding_index)


def callout_row(callout: Callout) -> list[str]:
    """A callout as a row: its name, the message's id, role, place, who marked it, its beginning."""
    row, message = callout.stored.row, callout.stored.row.message
    text = " ".join(message.text.split())[:_BEGINNING] if message else ""
    where = f"{row.phase or '-'}:{row.turn or 0}"
    role = message.role if message else ""
    return [callout.name, callout.message_id, role, where, callout.by, text]


def _print_call(view: SessionView, call: CallView, *, full: bool) -> None:
    out.print(
        f"session {view.session_id}, call {call.number} of {len(view.calls)}:"
        f" {call.place} ({call.node_type})"
    )
    out.print(
        f"{call.model}: {call.tokens_in:,} tokens in, {call.tokens_cached:,} of them cached,"
        f" {call.tokens_out:,} out, {call.seconds:.1f} s, {money(call.cost)};"
        f" sending everything would have taken {call.snowball_tokens:,}"
    )
    if call.tools:
        choice = call.details.get("tool_choice")
        out.print(f"tools: {', '.join(call.tools)}" + (f" (choice {choice})" if choice else ""))
    print_blocks(call.details)
    limit = 10**9 if full else _PREVIEW
    for seen in call.seen:
        where = f"{seen.phase or '-'}, turn {seen.turn or 0}"
        edited = f"  EDITED: {seen.because}" if seen.because else ""
        head = f"\n[{seen.position}] {seen.role}  {seen.tokens:,} tokens  {seen.message_id}"
        head += f"  called out: {seen.callout}" if seen.callout else ""
        out.print(head, style="bold")
        out.print(f"    because: {seen.reason} ({where}){edited}", style="cyan")
        _print_body(seen.message, limit, view.pictures)
        if seen.original is not None:
            out.print(f"    original ({seen.original.content_hash}):", style="magenta")
            _print_body(seen.original, limit, view.pictures)
    out.print(f"\nreply  {call.reply.content_hash}", style="bold green")
    _print_body(call.reply, limit, view.pictures)
    if call.hidden:
        counts = ", ".join(f"{count} of {phase}" for phase, count in call.hidden.items())
        out.print(f"\nnot shown: {counts}", style="dim")
    for sentence in call_sentences(call.details, call.seen):
        out.print(f"\n{sentence}", style="dim")
    if cache := cache_text(call.details):
        out.print(cache, style="dim")
    if prefix := call.details.get("prefix"):
        before = "before" if call.sounding_index is None else "before, of its own sounding"
        out.print(
            f"prefix: {prefix['shared_tokens']:,} tokens stand as in the call {before};"
            f" broken by {prefix['broken_by'] or 'nothing'}",
            style="dim",
        )
    out.print(f"\nwhy: windlass explain {view.session_id} {call.number}")
    out.print(f"what it cost: windlass report {view.session_id} --call {call.number}")


_BLOCK_COLUMNS = ["block", "tier", "version", "tokens", "cap", "message", "record", "left out"]


def print_blocks(details: Mapping[str, Any]) -> None:
    """Print a call's blocks as a table, and what older ones cost; nothing where it has none.

    `details` are those of the call's record.
    """
    injectors = details.get("injectors")
    if not injectors:
        return
    if rows := [_block_row(block) for block in injectors["blocks"]]:
        title = "\nblocks of injectors"
        print_table(_BLOCK_COLUMNS, rows, title=title, right=[3, 4], whole=[0, 1, 6])
    if line := _blocks_text(details):
        out.print(line, style="dim")


def _blocks_text(details: Mapping[str, Any]) -> str:
    """What became of the blocks of earlier calls, and the bill of both ways so far."""
    bill = details.get("blocks_bill")
    old = (details.get("injectors") or {}).get("old") or {}
    lines = []
    if old.get("blocks") or old.get("gone"):
        gone = f", {old['gone']} taken away because {old['because']}" if old["gone"] else ""
        lines.append(f"blocks of earlier calls: {old['blocks']} stand as they were{gone}")
    if bill and bill["kept"] != bill["dropped"]:
        lines.append(
            f"this call's input, in fresh tokens' worth: {bill['kept']:,.0f} as sent,"
            f" {bill['dropped']:,.0f} without blocks of earlier calls"
        )
    return "\n".join(lines)


def _block_row(block: Mapping[str, Any]) -> list[str]:
    cap = f"{block['cap']:,}"
    cap += f" of {block['full_cap']:,}" if block["cap"] != block["full_cap"] else ""
    place = f"{block['message']}.{block['part']}" if block.get("message") is not None else "-"
    place = "tools" if block["injector"] == "tools" else place
    return [
        block["injector"],
        block["tier"],
        block["version"],
        f"{block['tokens']:,}",
        cap,
        place,
        block["id"] or "-",
        ", ".join(block["cut"]) or "-",
    ]


def cache_text(details: Mapping[str, Any]) -> str:
    """What the cache should have given of a call, what it gave, and where its marks stood.

    `details` are those of the call's record; empty where they tell nothing of a cache.
    """
    lines: list[str] = []
    if cache := details.get("cache"):
        lines.append(
            f"cache: {cache['expected']:,} tokens expected to be read,"
            f" {cache['reported']:,} reported{_PLANNED[cache.get('planned_as')]}"
        )
    if marks := details.get("marks"):
        places = ", ".join(f"{at}.{part}" for at, part in marks["places"])
        line = f"cache marks (message.part; -1 is the tools): {places}"
        if marks["long"]:
            lifetime = marks["lifetime"]
            line += (
                f"; {', '.join(f'{at}.{part}' for at, part in marks['long'])} for an hour,"
                f" because after {lifetime['pauses']} long pauses in {lifetime['calls']} calls"
                f" {lifetime['to_come']:g} more are expected"
            )
        lines.append(line)
        if tiers := marks.get("tiers"):
            kept = (f"{name} {tier['kept'] or 'not'}" for name, tier in tiers.items())
            lines.append(f"tiers, cached for the short or the long time: {', '.join(kept)}")
    return "\n".join(lines)


_PLANNED = {
    None: "",
    "warm": "; planned as though it holds",
    "cold": "; planned as cold, because calls before read too little",
    "without a cache": "; planned without a cache, because calls before read too little",
}


def _print_body(message: Message, limit: int, files: Mapping[str, Path]) -> None:
    for part in message.parts:
        match part:
            case Text(text):
                body = shorten(text, limit)
            case Picture():
                body = f"[picture {part.describe()}, {part.media_type}, sha256 {part.sha256[:16]}]"
                if part.sha256 in files:
                    body += f" {files[part.sha256]}"
            case _:
                body = f"[{part.provider} {part.kind}, {len(part.data):,} characters]"
        out.print(indented(body))
    for call in message.tool_calls:
        out.print(f"    -> {call.name}({shorten(call.arguments, limit)})")


def show_rows(sql: str, store: str | None, *, as_csv: bool = False) -> None:
    """Run one SELECT and print its rows."""
    if as_csv and out.as_json:
        raise UsageError("--format csv and --json exclude each other; give one of them")
    with open_existing(store) as history:
        rows = history.query(sql)
    if printed_as_json(rows):
        return
    if as_csv:
        print_csv(rows)
        return
    if not rows:
        out.print("no rows")
        return
    columns = list(rows[0])
    cells = [
        ["" if row[name] is None else shorten(str(row[name]), 200) for name in columns]
        for row in rows
    ]
    ids = [at for at, name in enumerate(columns) if name.endswith(("_id", "hash"))]
    print_table(columns, cells, whole=ids)
    out.print(many(len(rows), "row"))
