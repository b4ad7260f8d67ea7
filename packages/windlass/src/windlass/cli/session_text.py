"""A session as `windlass show` prints it: its calls, and what each of them saw and why.

Why a call saw what it saw, as `windlass explain` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from windlass.caching.rates import many, money
from windlass.cli.named_store import open_existing
from windlass.cli.next_commands import with_store
from windlass.cli.output import indent, out, print_json, printed_as_json, shorten, to_plain
from windlass.cli.printed_tables import dollar_cell, print_table
from windlass.history.base import SessionFilter, SessionInfo, Store, in_words
from windlass.history.details import BlockDetails, CallDetails
from windlass.history.marks import Callout
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.messages import Message, Picture, Text
from windlass.report.call_views import SessionView, view_recorded
from windlass.report.calls import Call, SessionRecord
from windlass.report.explanation import (
    Explanation,
    MessageDecision,
    PlannerDecision,
    explain_call,
)
from windlass.report.provider_edits import call_sentences
from windlass.text.cell_tables import Columns, NumberCell, table_of
from windlass.window.originals import RECALL

_PREVIEW = 600
"""Characters of a message, unless it is asked for whole."""
_BEGINNING = 80
"""Characters of a callout's text in the table."""
TOTALS: Final[Columns[SessionInfo]] = {
    "calls": lambda info: info.calls,
    "tokens in": lambda info: info.tokens_in,
    "cached": lambda info: info.tokens_cached,
    "out": lambda info: info.tokens_out,
}
"""The columns that say how many calls sessions have, and their tokens."""
ENDING: Final[Columns[SessionInfo]] = {
    "status": lambda info: in_words(info.status, info.reason),
    **TOTALS,
    "cost": lambda info: dollar_cell(info.cost),
}
"""The columns that say how sessions ended, too, and what they cost."""


def indented_names(sessions: Sequence[SessionInfo]) -> dict[str, str]:
    """Return the names of nested sessions, each two spaces further in than its parent."""
    depths: dict[str | None, int] = {}
    for info in sessions:
        depths[info.session_id] = depths.get(info.parent_id, -1) + 1
    return {info.session_id: "  " * depths[info.session_id] + info.session_id for info in sessions}


def print_session(session: str, number: int | None, store: str | None, *, full: bool) -> None:
    """Print a session's calls, or what one call saw; `full`: its messages whole."""
    with open_existing(store) as history:
        record = SessionRecord(history, history.find_session(session))
        view = view_recorded(record)
        if number is not None:
            call = record.call(number)
            if not printed_as_json(call):
                _print_call(view, call, full=full)
            return
        total = _total(history, view)
        if out.as_json and view.resume is not None:
            view = replace(view, resume=with_store(view.resume))
        if not printed_as_json({**to_plain(view), "total": total}):
            _print_session(view, total)


def _total(history: Store, view: SessionView) -> SessionInfo:
    """Return the session with all under it, and with what models were asked beside its calls."""
    named = history.sessions(SessionFilter(prefix=view.session_id))
    own = next(info for info in named if info.session_id == view.session_id)
    return nest_with_totals([own], sessions_below(history, [own.session_id]))[0]


def _print_session(view: SessionView, total: SessionInfo) -> None:
    out.print(f"session {view.session_id}: {view.cascade_id}, {in_words(view.status, view.reason)}")
    if view.place:
        out.print(f"it runs {view.place}")
    if view.parent_id is not None:
        above = f"sub-cascade of session {view.parent_id}, phase {view.parent_phase}"
        if view.sounding_index is not None:
            above = f"sounding {view.sounding_index} of session {view.parent_id}"
        out.print(above)
    if view.forked_from is not None:
        out.hint(
            f"forked from session {view.forked_from};"
            f" where they part: windlass diff {view.forked_from} {view.session_id}"
        )
    out.print(f"model {view.model}")
    if view.error:
        out.print(f"error: {view.error}", style="red")
    if view.calls:
        _print_calls(view.calls)
    if view.children:
        names = indented_names(view.children)
        of_children: Columns[SessionInfo] = {
            "session": lambda info: names[info.session_id],
            "ran by": _ran_by,
            "cascade": lambda info: info.cascade_id,
            **ENDING,
        }
        print_table(table_of(view.children, of_children), "\nsessions under it", whole=["session"])
    if total.calls:
        out.print(_total_text(view, total))
    if view.callouts:
        print_table(table_of(view.callouts, _CALLOUTS), "\ncallouts", whole=["message"])
    for note in view.notes:
        out.print(f"{note.node_type}: {note.phase or '-'}: {note.text}", style="dim")
    if view.calls:
        out.hint(f"\nwhat a call saw: windlass show {view.session_id} --call 1")
        out.hint(f"what it cost: windlass report {view.session_id}")
    if view.resume is not None:
        out.hint(f"go on with it: {view.resume}")


def _total_text(view: SessionView, total: SessionInfo) -> str:
    """Return what the session came to, and what of it its calls do not show."""
    others = []
    if view.children:
        others.append("the sessions under it")
    of_calls: list[Call | SessionInfo] = [*view.calls, *view.children]
    if total.tokens_in != sum(each.tokens_in for each in of_calls):
        others.append("what models were asked beside its calls")
    told = f", with {' and '.join(others)}" if others else ""
    tokens = f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out"
    return f"in all{told}: {tokens}, {money(total.cost)}"


def _ran_by(info: SessionInfo) -> str:
    if info.sounding_index is not None:
        return f"sounding {info.sounding_index}"
    return f"phase {info.parent_phase}"


def _print_calls(calls: Sequence[Call]) -> None:
    columns: Columns[Call] = {
        "call": lambda call: NumberCell(call.number),
        "phase": lambda call: call.phase or "-",
        "turn": lambda call: NumberCell(call.turn),
        "try": lambda call: NumberCell(call.row.attempt),
    }
    if any(call.sounding_index is not None for call in calls):
        columns["sounding"] = _sounding
    columns |= {
        "kind": lambda call: call.row.node_type,
        "tokens in": lambda call: call.tokens_in,
        "cached": lambda call: call.tokens_cached,
        "sending everything": lambda call: call.snowball_tokens,
        "out": lambda call: call.tokens_out,
        "messages": lambda call: len(call.shown),
        "cost": lambda call: dollar_cell(call.cost),
    }
    print_table(table_of(calls, columns))


def _sounding(call: Call) -> str:
    return "-" if call.sounding_index is None else str(call.sounding_index)


def role_of(callout: Callout) -> str:
    """Return the role of the message that is called out."""
    message = callout.stored.row.message
    return message.role if message else ""


def place_of(callout: Callout) -> str:
    """Return where it was said."""
    return f"{callout.stored.row.phase or '-'}:{callout.stored.row.turn or 0}"


def beginning_of(callout: Callout) -> str:
    """Return how it begins, in one line."""
    message = callout.stored.row.message
    return " ".join(message.text.split())[:_BEGINNING] if message else ""


_CALLOUTS: Final[Columns[Callout]] = {
    "name": lambda callout: callout.name,
    "message": lambda callout: callout.message_id,
    "role": role_of,
    "said in": place_of,
    "by": lambda callout: callout.by,
    "text": beginning_of,
}


def _print_call(view: SessionView, call: Call, *, full: bool) -> None:
    """Print a call: what it was sent and why, its reply, and what became of its cache."""
    out.print(
        f"session {view.session_id}, call {call.number} of {len(view.calls)}:"
        f" {call.place} ({call.row.node_type})"
    )
    out.print(
        f"{call.model}: {call.tokens_in:,} tokens in, {call.tokens_cached:,} of them cached,"
        f" {call.tokens_out:,} out, {call.seconds:.1f} s, {money(call.cost)};"
        f" sending everything would have taken {call.snowball_tokens:,}"
    )
    if call.tools:
        choice = call.details.tool_choice
        out.print(
            f"tools: {', '.join(call.tool_names)}" + (f" (choice {choice})" if choice else "")
        )
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
    for sentence in call_sentences(call):
        out.print(f"\n{sentence}", style="dim")
    if cache := cache_text(call.details):
        out.print(cache, style="dim")
    if prefix := call.details.prefix:
        before = "before" if call.sounding_index is None else "before, of its own sounding"
        out.print(
            f"prefix: {prefix.shared_tokens:,} tokens stand as in the call {before};"
            f" broken by {prefix.broken_by or 'nothing'}",
            style="dim",
        )
    out.hint(f"\nwhy: windlass explain {view.session_id} {call.number}")
    out.hint(f"what it cost: windlass report {view.session_id} --call {call.number}")


def print_blocks(details: CallDetails) -> None:
    """Print a call's blocks as a table, and what older ones cost; nothing where it has none.

    `details` are those of the call's record.
    """
    injectors = details.injectors
    if not injectors:
        return
    if blocks := injectors.blocks:
        columns: Columns[BlockDetails] = {
            "block": lambda block: block.injector,
            "tier": lambda block: block.tier,
            "version": lambda block: block.version,
            "tokens": lambda block: block.tokens,
            "cap": _cap,
            "message": _block_place,
            "record": lambda block: block.id or "-",
            "left out": lambda block: ", ".join(block.cut) or "-",
        }
        whole = ["block", "tier", "record"]
        print_table(table_of(blocks, columns), "\nblocks of injectors", whole=whole)
    if line := _blocks_text(details):
        out.print(line, style="dim")


def _blocks_text(details: CallDetails) -> str:
    """Return what became of the blocks of earlier calls, and the bill of both ways so far."""
    bill, injectors = details.blocks_bill, details.injectors
    lines: list[str] = []
    old = injectors.old if injectors else None
    if old and (old.blocks or old.gone):
        gone = f", {old.gone} taken away because {old.because}" if old.gone else ""
        lines.append(f"blocks of earlier calls: {old.blocks} stand as they were{gone}")
    if bill and bill.kept != bill.dropped:
        lines.append(
            f"this call's input, in fresh tokens' worth: {bill.kept:,.0f} as sent,"
            f" {bill.dropped:,.0f} without blocks of earlier calls"
        )
    return "\n".join(lines)


def _cap(block: BlockDetails) -> NumberCell:
    whole = f" of {block.full_cap:,}" if block.cap != block.full_cap else ""
    return NumberCell(f"{block.cap:,}{whole}")


def _block_place(block: BlockDetails) -> str:
    if block.injector == "tools":
        return "tools"
    return f"{block.message}.{block.part}" if block.message is not None else "-"


def cache_text(details: CallDetails) -> str:
    """Return what the cache should have given of a call, what it gave, and where its marks stood.

    `details` are those of the call's record; empty where they tell nothing of a cache.
    """
    lines: list[str] = []
    if cache := details.cache:
        planned = _PLANNED.get(cache.planned_as, "")
        lines.append(
            f"cache: {cache.expected:,} tokens expected to be read,"
            f" {cache.reported:,} reported{planned}"
        )
    if marks := details.marks:
        places = ", ".join(f"{at}.{part}" for at, part in marks.places)
        line = f"cache marks (message.part; -1 is the tools): {places}"
        if marks.long:
            lifetime = marks.lifetime
            line += (
                f"; {', '.join(f'{at}.{part}' for at, part in marks.long)} for an hour,"
                f" because after {lifetime.pauses} long pauses in {lifetime.calls} calls"
                f" {lifetime.to_come:g} more are expected"
            )
        lines.append(line)
        if tiers := marks.tiers:
            kept = (f"{name} {tier.kept or 'not'}" for name, tier in tiers.items())
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
        out.print(indent(body))
    for call in message.tool_calls:
        out.print(f"    -> {call.name}({shorten(call.arguments, limit)})")


def print_explanation(session: str, number: int, store: str | None) -> None:
    """Print what became of each message at a call, and why."""
    with open_existing(store) as history:
        explained = explain_call(history, history.find_session(session), number)
    if out.as_json:
        value = to_plain(explained)
        for key in ("seen", "reply"):  # `show` prints what was sent
            del value["call"][key]
        print_json(value)
    else:
        _print(explained)


def _print(explained: Explanation) -> None:
    call = explained.call
    out.print(f"session {explained.session_id}, call {call.number}: {call.place}")
    if explained.status != "completed":
        out.print(f"phase {call.phase}: {in_words(explained.status, explained.reason)}")
    sent, whole = call.sent_tokens, call.snowball_tokens
    share = f", {1 - sent / whole:.0%} less" if sent < whole else ""
    out.print(f"{call.model}: sent {sent:,} tokens where everything would be {whole:,}{share}")
    out.print(_policy(explained))
    if cache := cache_text(call.details):
        out.print(cache)
    if explained.planner is not None:
        out.print(planner_text(explained.planner))
    for note in explained.notes:
        out.print(f"note: {note}")
    print_blocks(call.details)
    out.print()
    _print_decisions(explained.decisions)
    changed = any(each.action in ("shortened", "folded") for each in explained.decisions)
    if changed and RECALL.name in call.tool_names:
        out.print("\nAn original comes back in the run by recall(reference).")
    session = explained.session_id
    out.hint(f"\nwhat was sent: windlass show {session} --call {call.number} --full")
    out.hint(f"what it cost: windlass report {session} --call {call.number}")


def _policy(explained: Explanation) -> str:
    selection = explained.selection
    if not selection:
        return "no policy was in force: nothing was shortened from call to call"
    config = selection["config"]
    name = (
        f"profile {selection['policy']}" if config["enabled"] else "only what is kept and limited"
    )
    differs = [
        _option_text(key, value) for key, value in explained.differs.items() if key != "enabled"
    ]
    with_what = f", with {', '.join(differs)}" if differs else ""
    strategy = str(selection["strategy"]).replace("+", ", ")
    shortened = f"{selection['masked_count']} of the {selection['context_size']} messages sent"
    return (
        f"policy {selection['policy_hash']}: {name}{with_what}\n"
        f"{strategy}: {shortened} stand shortened"
    )


def _option_text(name: str, value: Any) -> str:
    """Return an option and its value in words.

    One that has options of its own has them in brackets.
    """
    if isinstance(value, Mapping):
        return f"{name} ({', '.join(_option_text(key, each) for key, each in value.items())})"
    words = {None: "off", True: "on", False: "off"}
    return f"{name} {words[value] if value is None or isinstance(value, bool) else value}"


def planner_text(plan: PlannerDecision) -> str:
    """Return the planner's decision, with its calculation so that a reader can repeat it."""
    edits, row = many(plan.waiting, "edit"), plan.row
    where = "from a message that is not listed on" if row is None else f"from message {row} on"
    match plan.verdict:
        case "commit":
            return f"planner: commit {where}, because it pays:\n{_sum(plan)}"
        case "defer" if not plan.removed:
            why = "too little that was sent before would be left to be cached"
            return f"planner: defer: {edits} left waiting, because {why}"
        case "defer":
            pays = plan.gain > 0
            why = "it may not pay before the run ends" if pays else "it does not pay yet"
            return f"planner: defer: {edits} left waiting; {where} {why}:\n{_sum(plan)}"
        case "cold":
            why = "nothing that was sent before is cached, so that no edit costs anything"
            return f"planner: cold: {why}; {edits} proposed {where}"
        case "quiet":
            why = "the window is so short that it would no longer be cached after them"
            return f"planner: quiet: {edits} left waiting, because {why}"
        case "held":
            why = "the model binds the thinking behind them to what was sent"
            return f"planner: held: {edits} left undone {where}, because {why}"
        case _:
            return f"planner: {plan.verdict} {where}"


def _sum(plan: PlannerDecision) -> str:
    over_read = round(plan.write - plan.read, 6)
    saves = f"{plan.calls:g} * {plan.read:g} * {plan.removed:,}"
    costs = f"{over_read:g} * ({plan.stay:,} + {plan.put:,})"
    gain = f"{plan.gain:,.0f} tokens' worth"
    return f"N * r * D - (w - r) * (S + d) = {saves} - {costs} = {gain}"


def _print_decisions(decisions: Sequence[MessageDecision]) -> None:
    numbers = count()
    columns: Columns[MessageDecision] = {
        "": lambda _: NumberCell(next(numbers)),
        "role": lambda each: each.role,
        "said in": lambda each: f"{each.phase or '-'}:{each.turn or 0}",
        "what": lambda each: f"{each.action}: {each.because}" if each.because else each.action,
        "chars": lambda each: each.chars_before,
        "sent as": lambda each: each.chars_after if each.tokens else NumberCell("-"),
        "tokens": lambda each: each.tokens or NumberCell("-"),
        "why": _why,
    }
    print_table(table_of(decisions, columns), whole=columns.keys() - {"said in", "why"})


def _why(decision: MessageDecision) -> str:
    is_changed = decision.action in ("shortened", "folded", "not shown")
    why = f"{decision.reason}\n{decision.reference}" if is_changed else decision.reason
    return f"{why}\ncalled out: {decision.callout}" if decision.callout else why
