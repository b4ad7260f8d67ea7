"""Commands that look into the history: sessions, show, query."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.api import open_store
from windlass.cli.blocks import print_blocks
from windlass.cli.output import indented, money, note, out, print_json, print_table, shorten
from windlass.history.base import BANK, SessionInfo
from windlass.messages import Message, Picture, Text
from windlass.report.show import CallView, SessionView, view_call, view_session
from windlass.settings import Settings

if TYPE_CHECKING:
    from windlass.history.base import Keeper
    from windlass.history.callouts import Callout

_PREVIEW = 600
_BEGINNING = 80


def open_existing(store: str | None, *, writing: bool = False) -> Keeper:
    """The store that the flag, the variable or the file names. Raises UsageError: none there.

    Raises StoreError where it cannot be written and `writing` is meant.
    """
    return open_marked(Settings.read({"store": store}, environ, Path.cwd()), writing=writing)


def open_marked(settings: Settings, *, writing: bool = False) -> Keeper:
    """A store to look into: a message that is lost hides itself, and is named."""
    keeper = open_store(settings, existing=True, writing=writing)
    keeper.mark_lost(note)
    return keeper


def sessions_command(store: str | None, *, limit: int, as_json: bool) -> None:
    """List sessions, newest first."""
    keeper = open_existing(store)
    try:
        found = _runs(keeper, limit)
    finally:
        keeper.close()
    if as_json:
        print_json(found)
        return
    print_table(
        "",
        ["session", "cascade", "status", "started (UTC)", "calls", "tokens in", "cached", "out"],
        [
            [
                info.session_id,
                info.cascade_id,
                info.status,
                f"{datetime.fromtimestamp(info.started, UTC):%Y-%m-%d %H:%M:%S}",
                str(info.calls),
                f"{info.tokens_in:,}",
                f"{info.tokens_cached:,}",
                f"{info.tokens_out:,}",
            ]
            for info in found
        ],
        right=range(4, 8),
    )
    if found:
        out.print(f"\nwindlass show {found[0].session_id}")
    else:
        out.print("no sessions yet")


def _runs(keeper: Keeper, limit: int) -> list[SessionInfo]:
    """The newest sessions that are runs of cascades and not memory banks."""
    wanted = limit
    while True:
        listed = keeper.sessions(limit=wanted)
        found = [one for one in listed if not one.session_id.startswith(BANK)]
        if len(found) >= limit or len(listed) < wanted:
            return found[:limit]
        wanted += limit


def show_command(
    session: str, call: int | None, store: str | None, *, full: bool, as_json: bool
) -> None:
    """Show a session's calls, or what one call saw."""
    keeper = open_existing(store)
    try:
        view = view_session(keeper, session)
    finally:
        keeper.close()
    if as_json:
        print_json(view if call is None else view_call(view, call))
    elif call is None:
        _print_session(view)
    else:
        _print_call(view, view_call(view, call), full=full)


def _print_session(view: SessionView) -> None:
    out.print(f"session {view.session_id}: {view.cascade_id}, {view.status}")
    out.print(f"model {view.model}")
    if view.error:
        out.print(f"error: {view.error}", style="red")
    print_table(
        "",
        [
            "call",
            "phase",
            "turn",
            "try",
            "kind",
            "tokens in",
            "cached",
            "snowball",
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
        right=[0, 2, 3, 5, 6, 7, 8, 9, 10],
    )
    if view.callouts:
        print_table(
            "\ncallouts",
            ["name", "message", "role", "said in", "by", "text"],
            [callout_row(one) for one in view.callouts],
            whole=[1],
        )
    for one in view.notes:
        out.print(f"{one.node_type}: {one.phase or '-'}: {one.text}", style="dim")
    if view.calls:
        out.print(f"\nwhat a call saw: windlass show {view.session_id} --call 1")


def callout_row(one: Callout) -> list[str]:
    """A callout as a row: its name, the message's id, role, place, who marked it, its beginning."""
    row, message = one.stored.row, one.stored.row.message
    text = " ".join(message.text.split())[:_BEGINNING] if message else ""
    where = f"{row.phase or '-'}:{row.turn or 0}"
    return [one.name, one.message_id, message.role if message else "", where, one.by, text]


def _print_call(view: SessionView, call: CallView, *, full: bool) -> None:
    out.print(
        f"session {view.session_id}, call {call.number} of {len(view.calls)}:"
        f" phase {call.phase}, turn {call.turn}, attempt {call.attempt} ({call.node_type})"
    )
    out.print(
        f"{call.model}: {call.tokens_in:,} tokens in, {call.tokens_cached:,} of them cached,"
        f" {call.tokens_out:,} out, {call.seconds:.1f} s, {money(call.cost)};"
        f" a snowball would have sent {call.snowball_tokens:,}"
    )
    if call.tools:
        out.print(f"tools: {', '.join(call.tools)} (choice {call.details.get('tool_choice')})")
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
        told = ", ".join(f"{count} of {phase}" for phase, count in call.hidden.items())
        out.print(f"\nnot shown: {told}", style="dim")
    if told := cache_text(call.details):
        out.print(told, style="dim")
    prefix = call.details.get("prefix")
    if prefix:
        broken = prefix["broken_by"]
        told = "nothing" if broken is None else broken
        out.print(
            f"prefix: {prefix['shared_tokens']:,} tokens stand as in the call before;"
            f" broken by {told}",
            style="dim",
        )


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
        told = f"cache marks (message.part; -1 is the tools): {places}"
        if marks["long"]:
            kept = marks["lifetime"]
            told += (
                f"; {', '.join(f'{at}.{part}' for at, part in marks['long'])} for an hour,"
                f" because after {kept['pauses']} long pauses in {kept['calls']} calls"
                f" {kept['to_come']:g} more are expected"
            )
        lines.append(told)
        if tiers := marks.get("tiers"):
            kept = (f"{tier} {one['kept'] or 'not'}" for tier, one in tiers.items())
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
                told = shorten(text, limit)
            case Picture():
                told = f"[picture {part.describe()}, {part.media_type}, sha256 {part.sha256[:16]}]"
                if part.sha256 in files:
                    told += f" {files[part.sha256]}"
            case _:
                told = f"[{part.provider} {part.kind}, {len(part.data):,} characters]"
        out.print(indented(told))
    for call in message.tool_calls:
        out.print(f"    -> {call.name}({shorten(call.arguments, limit)})")


def query_command(sql: str, store: str | None, *, as_json: bool) -> None:
    """Run one SELECT and print its rows."""
    keeper = open_existing(store)
    try:
        rows = keeper.query(sql)
    finally:
        keeper.close()
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print("no rows")
        return
    columns = list(rows[0])
    cells = [
        ["" if row[name] is None else shorten(str(row[name]), 200) for name in columns]
        for row in rows
    ]
    print_table("", columns, cells)
    out.print(f"{len(rows)} row{'s' if len(rows) != 1 else ''}")
