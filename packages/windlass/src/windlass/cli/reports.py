"""What `windlass report` prints or writes as a page.

Of a session: what it cost, in short or call by call. Of a store: which cascades, days, sessions,
phases, calls and messages cost most. Of one call: what it was made of, and what each call shares
with the one before it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from windlass.caching.rates import age_note, many, money, override
from windlass.cli.named_store import open_existing, open_reporting_losses, read_settings
from windlass.cli.next_commands import with_store
from windlass.cli.output import out, print_json, printed_as_json, to_plain
from windlass.cli.printed_tables import (
    dollar_cell,
    growth_cell,
    messages_table,
    phases_table,
    price_note,
    print_costs,
    print_table,
    ranked_table,
    tokens_out_cell,
)
from windlass.history.base import NodeType, Open, SessionFilter, Store, in_words
from windlass.importing.recording import ESTIMATED
from windlass.importing.storing import evidence_text
from windlass.report.account import CallCharge
from windlass.report.call_views import go_on_with, title_of
from windlass.report.contents import ContextPart, ContextReport, MessageCost, ToolCost, call_report
from windlass.report.costs import PhaseCost, SessionCost
from windlass.report.prefix import Prefix, prefix_of
from windlass.report.ranking import RankedCost, StoreReport, store_report
from windlass.report.session_costs import ASKED, PhaseGrowth, Saving, SessionReport, session_report
from windlass.safety.outputs import check_output, write_output
from windlass.text.cell_tables import Cell, CellTable, Columns, NumberCell, table_of

_LINES = 15
"""Phases up to which all are printed."""
_PHASES = 10
"""Of more phases: those that are printed, the dearest, and those that grew most."""
_STEPS = 4
"""Calls whose tokens are printed one by one."""
_MESSAGES = 5
"""Of the dearest messages: those that are printed."""


def print_session_report(
    session: str, store: str | None, *, calls: bool, html: Path | None, force: bool
) -> None:
    """Print what a session cost, in short or call by call; or write all of it to a page."""
    with open_for_report(store, html, force=force) as (history, price_as):
        session = history.find_session(session)
        report = session_report(history, session, price_as)
        source = evidence_text(history.start(session).cascade)
        start, status = history.start(session), report.costs.status
        go_on = go_on_with(start, session, status) if status in get_args(Open) else None
        remarks = [*([source] if source else []), *_remarks(report, go_on)]
        title = title_of(history, session)
        if html is not None:
            calls_of = (NodeType.AGENT, NodeType.FOLLOW_UP)
            rows = (each.row for each in history.rows(session))
            write_page(
                html,
                "session.html",
                {
                    "times": [row.timestamp for row in rows if row.node_type in calls_of],
                    "title": title,
                    "remarks": [f"session {session}", *remarks],
                    **_page(report),
                },
                force=force,
            )
        if out.as_json:
            details = {key: value for key, value in to_plain(report).items() if key != "costs"}
            print_json({**to_plain(report.costs), **details, "calls": report.calls})
        elif html is None:
            _print_report(session, report, remarks, calls=calls)


def _remarks(report: SessionReport, go_on: str | None) -> list[str]:
    """Say what the table of costs does not say, in sentences; `go_on` goes on with the session."""
    remarks: list[str] = []
    unbilled = report.unbilled
    if estimated := report.costs.total.estimated:
        remarks.append(ESTIMATED.format(many(estimated, "call")))
    if report.missing:
        remarks.append(
            f"what was not recorded is known by its size: about {report.missing:,} tokens of each"
            " request by the provider's count, which are in what was billed"
        )
    if unbilled.unanswered:
        text = "sent and never answered, so perhaps billed, and not counted here"
        remarks.append(f"calls {text}: {unbilled.unanswered}")
    if unbilled.inherited:
        paid = f"{many(unbilled.inherited, 'call')} ({unbilled.inherited_tokens:,} tokens)"
        remarks.append(f"inherited from session {unbilled.origin}, which paid for them: {paid}")
    remarks += report.by_provider
    costs = report.costs
    if costs.status in get_args(Open):
        words = {"running": "is running", "unknown": "may still run on another machine"}
        text = f"the session {words.get(costs.status, 'was broken off')}: this is its bill so far"
        remarks.append(with_store(f"{text}; go on with it: {go_on}") if go_on else text)
    elif costs.status != "completed":
        remarks.append(f"the session: {in_words(costs.status, costs.reason)}")
    if old := age_note():
        remarks.append(old)
    return remarks


def _print_report(
    session: str, report: SessionReport, remarks: Iterable[str], *, calls: bool
) -> None:
    if calls:
        print_table(_calls(report.calls))
    else:
        _print_figures(report)
    for remark in remarks:
        out.print(remark)
    out.hint(f"\neach call: windlass report {session} --calls; one of them: --call N")
    out.print("all of it as a page: --html FILE; what caches could hold: --prefix")
    out.hint(f"what a call saw, and why: windlass show {session}, windlass explain")


def _print_figures(report: SessionReport) -> None:
    print_costs(_dearest_phases(report.costs), parts=True)
    shown = _most_grown(report.growth)
    print_table(_growth(shown), "\ntokens in, call by call")
    if len(shown) < len(report.growth):
        out.print(
            f"not listed, since they grew less: {many(len(report.growth) - len(shown), 'phase')}"
        )
    if report.dearest is not None:
        call = report.dearest.cost
        place = f"call {call.number} of {call.session_id} ({call.phase}, turn {call.turn})"
        out.print(
            f"\nthe dearest is {place}, {money(call.dollars)}: {_contents_text(report.dearest)}"
        )
    if report.messages:
        out.print("\nthe messages that cost most, as shares of the bill by our count:")
        print_table(messages_table(report.messages[:_MESSAGES]))
    if report.tools:
        print_table(_tools(report.tools[:_MESSAGES]), "\nwhat results were paid for, by tool")
    if any(saving.kind != ASKED for saving in report.savings):
        kinds = ", ".join(f"{each.kind} {money(each.dollars)}" for each in report.savings)
        net = sum(each.dollars for each in report.savings)
        out.print(f"\nsaved, compared with sending everything: {kinds}; net {money(net)}")
    for text in report.thinking:
        out.print(f"\n{text}")
    if report.findings:
        out.print("\nit could be less (each saves so much on top of those above it):")
        for finding in report.findings:
            out.hint(f"- {finding.text}")
            for part in finding.parts:
                out.hint(f"  - of this, {part.text}")


def _dearest_phases(costs: SessionCost) -> SessionCost:
    """Get the costs with the dearest of many phases, in their order, and the others in one line."""
    phases = costs.phases
    if len(phases) <= _LINES:
        return costs
    ranked = sorted(phases, key=lambda line: (line.dollars or 0.0, line.tokens_in), reverse=True)
    names = {line.phase for line in ranked[:_PHASES]}
    others = PhaseCost(f"{len(phases) - len(names)} other phases")
    for line in phases:
        if line.phase not in names:
            others.add(line)
    return replace(costs, phases=(*(line for line in phases if line.phase in names), others))


def _growth(growth: Sequence[PhaseGrowth]) -> CellTable:
    columns: Columns[PhaseGrowth] = {
        "phase": lambda each: each.phase,
        "agent calls": lambda each: _tokens_text(each.agent),
        "follow-ups": lambda each: _tokens_text(each.follow_ups),
        "growth": lambda each: growth_cell(each.delta),
    }
    return table_of(growth, columns)


def _most_grown(growth: Sequence[PhaseGrowth]) -> Sequence[PhaseGrowth]:
    """Return the phases that grew most of many, in their order."""
    if len(growth) <= _LINES:
        return growth
    most = sorted(growth, key=lambda each: abs(each.delta or 0), reverse=True)[:_PHASES]
    return [each for each in growth if each in most]


def _tokens_text(tokens: Sequence[int]) -> str:
    """Return the tokens of calls: `75,739 → 80,371`, or the first and the last of many."""
    if len(tokens) > _STEPS:
        return f"{tokens[0]:,} → … → {tokens[-1]:,} ({many(len(tokens), 'call')})"
    return " → ".join(f"{each:,}" for each in tokens) or "-"


def _contents_text(report: ContextReport) -> str:
    """Return what a call's context was made of, in words."""
    whole = sum(part.tokens for part in report.parts)
    parts = sorted(report.parts, key=lambda part: part.tokens, reverse=True)
    told = [f"{part.tokens / max(1, whole):.0%} {part.kind}" for part in parts]
    return f"{whole:,} tokens by our count, {', '.join(told)}"


def _messages_with_dearest(report: SessionReport) -> CellTable:
    """Return the messages that cost most, and which of them the dearest call was sent."""
    dearest = report.dearest
    found = [*(dearest.messages if dearest else ()), *report.messages]
    listed = list({(each.session_id, each.message_id): each for each in found}.values())
    listed.sort(key=lambda message: message.dollars or 0.0, reverse=True)

    def is_sent(message: MessageCost) -> bool:
        return (
            dearest is not None
            and message.session_id == dearest.cost.session_id
            and message.message_id in dearest.sent
        )

    return messages_table(listed, is_in_dearest=is_sent)


def _calls(calls: Sequence[CallCharge]) -> CellTable:
    before: dict[str, int] = {}

    def growth(call: CallCharge) -> Cell:
        tokens = before.get(call.phase)
        before[call.phase] = call.tokens_in
        return growth_cell(None if tokens is None else call.tokens_in - tokens)

    columns: Columns[CallCharge] = {
        "call": lambda call: NumberCell(call.number),
        "said in": lambda call: f"{call.phase}:{call.turn or 0}",
        "kind": lambda call: call.node_type,
        "fresh": lambda call: call.fresh,
        "read": lambda call: call.tokens_cached,
        "written": lambda call: call.tokens_written,
        "out": lambda call: tokens_out_cell(call.tokens_out, estimated=bool(call.estimated)),
        "cost": lambda call: dollar_cell(call.dollars),
        "growth": growth,
    }
    return table_of(calls, columns)


def _tools(tools: Iterable[ToolCost]) -> CellTable:
    columns: Columns[ToolCost] = {
        "tool": lambda each: each.tool,
        "results": lambda each: each.results,
        "in calls": lambda each: each.calls,
        "tokens sent": lambda each: each.tokens_sent,
        "cost": lambda each: dollar_cell(each.dollars),
    }
    return table_of(tools, columns)


def _savings(savings: Iterable[Saving]) -> CellTable:
    listed = list(savings)
    tokens, net = sum(each.tokens for each in listed), sum(each.dollars for each in listed)
    rows: list[list[Cell]] = [
        [each.kind, each.messages, each.tokens, dollar_cell(each.dollars)] for each in listed
    ]
    rows.append(["net", "", tokens, dollar_cell(net)])
    return CellTable(["because", "messages", "tokens less", "saved"], rows, is_summed=True)


def _page(report: SessionReport) -> dict[str, Any]:
    """Return what the page of a session is made of."""
    costs, dearest = report.costs, report.dearest
    bars = [
        (
            line.phase,
            [line.fresh, line.tokens_cached, line.tokens_written],
            f"{line.tokens_in:,} · {money(line.dollars)}",
        )
        for line in costs.phases
    ]
    parts = dearest.parts if dearest else ()
    return {
        "report": report,
        "phases": bars,
        "parts": [(part.kind, [part.tokens], f"{part.tokens:,}") for part in parts],
        "lines": _lines(report),
        "is_everything": costs.is_everything,
        "number": "{:,}".format,
        "prices": price_note(costs).splitlines(),
        "tables": {
            "phases": phases_table(costs, parts=True),
            "growth": _growth(report.growth),
            "messages": _messages_with_dearest(report),
            "tools": _tools(report.tools),
            "savings": _savings(report.savings),
            "calls": _calls(report.calls),
        },
    }


def _lines(report: SessionReport) -> list[tuple[str, list[int]]]:
    """Return the tokens of each call, as the provider counts them."""
    lines = [("sent", [call.tokens_in or call.sent_tokens for call in report.calls])]
    if not report.costs.is_everything:
        lines.append(("sending everything", [call.snowball for call in report.calls]))
    return lines


class OpenReport(NamedTuple):
    """A store that is open, and the model at whose prices calls are told that cost nothing."""

    store: Store
    price_as: str


@contextmanager
def open_for_report(
    store: str | None, html: Path | None = None, *, force: bool = False
) -> Iterator[OpenReport]:
    """Open a store for a report at the user's prices. Raises UsageError: no page can be written."""
    if html is not None:
        check_output(html, force=force)
    settings = read_settings(store)
    with (
        open_reporting_losses(settings) as history,
        override(settings.prices),
        _pause_garbage_collection(),
    ):
        yield OpenReport(history, settings.price_as)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Switch the search for reference cycles off: it takes a third of the time, and finds nothing.

    A long session is hundreds of thousands of objects, and the report needs them all.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def write_page(file: Path, template: str, values: Mapping[str, Any], *, force: bool) -> None:
    """Write a page. Raises UsageError where the file cannot be written."""
    from windlass.report.page import page

    write_output(file, page(template, values), force=force)
    if not out.as_json:
        out.print(f"written: {file}")


_CASCADES = 10
"""Cascades, and days, that are printed: the dearest, and the newest."""


def print_store_report(
    store: str | None, which: SessionFilter, limit: int, *, html: Path | None, force: bool
) -> None:
    """Print what cost most in a store, `limit` of each kind, or write it to a page."""
    with open_for_report(store, html, force=force) as (history, price_as):
        report = store_report(history, which, price_as, limit=limit)
    tables = _store_tables(report)
    if html is not None:
        bars = [(each.name, [each.dollars or 0.0], money(each.dollars)) for each in report.cascades]
        title = f"{many(report.total.sessions, 'session')}, {money(report.total.dollars)}"
        write_page(
            html, "store.html", {"title": title, "tables": tables, "cascades": bars}, force=force
        )
    if printed_as_json(report) or html is not None:
        return
    if not report.sessions:
        fits = which != SessionFilter(banks=False, under=())
        out.print("no session fits" if fits else "no sessions yet")
        return
    for title, table in tables.items():
        print_table(table, f"\n{title}")
    name = report.sessions[0].name
    out.print(f"\nmodels that cost nothing are computed at the prices of {price_as}")
    if old := age_note():
        out.print(old)
    out.hint(f"what one cost: windlass report {name}; as a page: --html FILE")


def _store_tables(report: StoreReport) -> dict[str, CellTable]:
    """Return the tables of a store by their titles."""
    dearest = f"the dearest messages of the {report.looked:,} dearest sessions, by our count"
    return {
        f"by cascade{_count_shown(report.cascades)}": ranked_table(
            "cascade", [*report.cascades[:_CASCADES], report.total], summed=True
        ),
        f"by day (UTC){_count_shown(report.days)}": ranked_table("day", report.days[:_CASCADES]),
        "the dearest sessions": ranked_table("session", report.sessions, within="cascade"),
        "the dearest phases": ranked_table("phase", report.phases, within="cascade"),
        "the dearest calls": ranked_table("call", report.calls, within="session"),
        dearest: messages_table(report.messages, with_session=True),
    }


def _count_shown(listed: Sequence[RankedCost]) -> str:
    """Return the end of a heading where not all are listed."""
    return f", {_CASCADES} of {len(listed):,}" if len(listed) > _CASCADES else ""


def print_call_report(session: str, number: int, store: str | None) -> None:
    """Print what one call cost, and what its context was made of."""
    with open_for_report(store) as (history, price_as):
        session = history.find_session(session)
        report = call_report(history, session, number, price_as)
    if printed_as_json(report):
        return
    call = report.cost
    out.print(
        f"call {number} of session {session}: {call.phase}, turn {call.turn}, {call.model}\n"
        f"in: {call.fresh:,} fresh, {call.tokens_cached:,} read, {call.tokens_written:,} written;"
        f" out: {call.tokens_out:,}; cost: {money(call.dollars)}"
    )
    whole = max(1, sum(part.tokens for part in report.parts))
    columns: Columns[ContextPart] = {
        "context": lambda part: part.kind,
        "messages": lambda part: part.messages,
        "characters": lambda part: part.chars,
        "tokens": lambda part: part.tokens,
        "share": lambda part: NumberCell(f"{part.tokens / whole:.1%}"),
    }
    print_table(table_of(report.parts, columns), "")
    out.print("\nits largest messages, and what all calls paid for them, by our count:")
    print_table(messages_table(report.messages))
    out.hint(f"\nwhat was sent: windlass show {session} --call {number}")
    out.hint(f"why: windlass explain {session} {number}")


def print_prefixes(session: str, store: str | None) -> None:
    """Print what each call of a session shares with the one before it."""
    with open_existing(store) as history:
        session = history.find_session(session)
        prefixes = prefix_of(history, session)
    if printed_as_json(prefixes):
        return
    columns: Columns[Prefix] = {
        "call": lambda each: str(each.call),
        "said in": lambda each: f"{each.phase or '-'}:{each.turn or 0}",
        "sent": lambda each: each.sent,
        "shared": lambda each: each.shared,
        "predicted": lambda each: NumberCell("-") if each.predicted is None else each.predicted,
        "reported": lambda each: each.reported,
        "broken at": _place,
        "by": lambda each: each.broken_by or "-",
    }
    print_table(table_of(prefixes, columns), whole=["said in", "broken at"])
    later = [each for each in prefixes if each.call > 1]
    sent, shared = sum(each.sent for each in later), sum(each.shared for each in later)
    reported = sum(each.reported for each in later)
    if sent:
        out.print(
            f"\nafter the first call: {shared / sent:.1%} of {sent:,} tokens stand as in the call"
            f" before, {reported:,} tokens were reported as cached"
        )
    out.hint(f"what a call saw: windlass show {session} --call 1")


def _place(prefix: Prefix) -> str:
    """Return where the rest begins that is not shared."""
    if not prefix.broken_by:
        return "-"
    place = "tools" if prefix.message is None else f"message {prefix.message}"
    return place if prefix.character is None else f"{place}, character {prefix.character}"
