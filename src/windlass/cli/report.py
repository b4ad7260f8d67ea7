"""`windlass report`: what a session cost, and what of its requests the caches could hold."""

from __future__ import annotations

import gc
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from windlass.caching.rates import age_note, many, money, override, price_source, rate
from windlass.cli.output import out, plain, print_json, print_table, printed_as_json
from windlass.cli.store import open_existing, open_marked, read_settings, read_time
from windlass.history.base import NodeType, SessionFilter, in_words
from windlass.importing.recording import ESTIMATED
from windlass.importing.storing import evidence
from windlass.report.account import CallCost
from windlass.report.calls import title_of
from windlass.report.contents import CallReport, ContextPart, MessageCost, call_report
from windlass.report.costs import PhaseCost, SessionCost
from windlass.report.prefix import Prefix, prefix_of
from windlass.report.ranking import RankedCost, StoreReport, store_report
from windlass.report.session_costs import ASKED, PhaseGrowth, Saving, SessionReport, session_report
from windlass.safety.outputs import check_output, write_output

_COLUMNS = ["call", "said in", "sent", "shared", "predicted", "reported", "broken at", "by"]
_LINES = 15
"""Phases up to which all are printed."""
_PHASES = 10
"""Of more phases: those that are printed, the dearest, and those that grew most."""
_CASCADES = 10
"""Cascades, and days, that are printed: the dearest, and the newest."""
_STEPS = 4
"""Calls whose tokens are printed one by one."""
_MESSAGES = 5
"""Of the dearest messages: those that are printed."""


class CostTable(NamedTuple):
    """A table of texts; `right` are its columns of numbers, `summed`: its last row is a sum."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Container[int]
    summed: bool = False


def show_report(
    session: str, store: str | None, *, calls: bool, html: Path | None, force: bool
) -> None:
    """Print what a session cost, in short or call by call; or write all of it to a page."""
    if html is not None:
        check_output(html, force=force)
    settings = read_settings(store)
    with open_marked(settings) as history, override(settings.prices), _all_kept():
        session = history.find_session(session)
        report = session_report(history, session, settings.price_as)
        source = evidence(history.start(session).cascade)
        remarks = [*([source] if source else []), *_remarks(report)]
        title = title_of(history, session)
        if html is not None:
            calls_of = (NodeType.AGENT, NodeType.FOLLOW_UP)
            rows = (each.row for each in history.rows(session))
            write_page(
                html,
                "session.html",
                times=[row.timestamp for row in rows if row.node_type in calls_of],
                force=force,
                title=title,
                remarks=[f"session {session}", *remarks],
                **_page(report),
            )
    if out.as_json:
        details = {key: value for key, value in plain(report).items() if key != "costs"}
        print_json({**plain(report.costs), **details, "calls": report.calls})
    if out.as_json or html is not None:
        return
    with override(settings.prices):
        if calls:
            _print(_calls(report.calls))
        else:
            _print_report(report)
    for remark in remarks:
        out.print(remark)
    out.print(f"\neach call: windlass report {session} --calls; one of them: --call N")
    out.print("all of it as a page: --html FILE; what caches could hold: --prefix")
    out.print(f"what a call saw, and why: windlass show {session}, windlass explain")


@contextmanager
def _all_kept() -> Iterator[None]:
    """Look for no cycles among the objects that are made: a third of the time for nothing.

    A long session is hundreds of thousands of objects, and the report needs them all.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _remarks(report: SessionReport) -> list[str]:
    """What the bill does not tell, in sentences."""
    remarks: list[str] = []
    beside = report.unbilled
    if estimated := report.costs.total.estimated:
        remarks.append(ESTIMATED.format(many(estimated, "call")))
    if report.missing:
        remarks.append(
            f"what was not recorded is known by its size: about {report.missing:,} tokens of each"
            " request by the provider's count, which are in what was billed"
        )
    if beside.unanswered:
        text = "sent and never answered, so perhaps billed, and not counted here"
        remarks.append(f"calls {text}: {beside.unanswered}")
    if beside.inherited:
        paid = f"{many(beside.inherited, 'call')} ({beside.inherited_tokens:,} tokens)"
        remarks.append(f"inherited from session {beside.origin}, which paid for them: {paid}")
    remarks += report.by_provider
    costs = report.costs
    if costs.status == "running":
        remarks.append("the session still runs, or was killed: this is its bill so far")
    elif costs.status != "completed":
        remarks.append(f"the session: {in_words(costs.status, costs.reason)}")
    if old := age_note():
        remarks.append(old)
    return remarks


def write_page(file: Path, template: str, *, force: bool, **values: object) -> None:
    """Write a page. Raises UsageError where the file cannot be written."""
    from windlass.report.page import page

    write_output(file, page(template, **values), force=force)
    if not out.as_json:
        out.print(f"written: {file}")


def _print_report(report: SessionReport) -> None:
    print_costs(_dearest_phases(report.costs), parts=True)
    shown = _most_grown(report.growth)
    _print(_growth(shown), "\ntokens in, call by call")
    if len(shown) < len(report.growth):
        out.print(
            f"not listed, since they grew less: {many(len(report.growth) - len(shown), 'phase')}"
        )
    if report.dearest is not None:
        call = report.dearest.cost
        place = f"call {call.number} of {call.session_id} ({call.phase}, turn {call.turn})"
        out.print(f"\nthe dearest is {place}, {money(call.dollars)}: {_made_of(report.dearest)}")
    if report.messages:
        out.print("\npaid for most, as shares of the bill by our count:")
        _print(_messages(report.messages[:_MESSAGES]))
    if any(saving.kind != ASKED for saving in report.savings):
        kinds = ", ".join(f"{each.kind} {money(each.dollars)}" for each in report.savings)
        net = sum(each.dollars for each in report.savings)
        out.print(f"\nsaved beside sending everything: {kinds}; net {money(net)}")
    for text in report.thinking:
        out.print(f"\n{text}")
    if report.findings:
        out.print("\nit could be less:")
        for finding in report.findings:
            out.print(f"- {finding.text}")


def _print(table: CostTable, title: str | None = None) -> None:
    print_table(table.columns, table.rows, title=title, right=table.right)


def _dearest_phases(costs: SessionCost) -> SessionCost:
    """The same with the dearest of many phases, in their order, and the others in one line."""
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


def _growth(growth: Sequence[PhaseGrowth]) -> CostTable:
    rows = [
        [
            each.phase,
            _steps(each.agent),
            _steps(each.follow_ups),
            "-" if each.delta is None else f"{each.delta:+,}",
        ]
        for each in growth
    ]
    return CostTable(["phase", "agent calls", "follow-ups", "growth"], rows, [3])


def _most_grown(growth: Sequence[PhaseGrowth]) -> Sequence[PhaseGrowth]:
    """The phases that grew most of many, in their order."""
    if len(growth) <= _LINES:
        return growth
    most = sorted(growth, key=lambda each: abs(each.delta or 0), reverse=True)[:_PHASES]
    return [each for each in growth if each in most]


def _steps(tokens: Sequence[int]) -> str:
    """The tokens of calls: `75,739 → 80,371`, or the first and the last of many."""
    if len(tokens) > _STEPS:
        return f"{tokens[0]:,} → … → {tokens[-1]:,} ({many(len(tokens), 'call')})"
    return " → ".join(f"{each:,}" for each in tokens) or "-"


def _made_of(report: CallReport) -> str:
    """What a call's context was made of, in words."""
    whole = sum(part.tokens for part in report.parts)
    parts = sorted(report.parts, key=lambda part: part.tokens, reverse=True)
    told = [f"{part.tokens / max(1, whole):.0%} {part.kind}" for part in parts]
    return f"{whole:,} tokens by our count, {', '.join(told)}"


def _messages(messages: Iterable[MessageCost]) -> CostTable:
    rows = [
        [
            message.what,
            f"{message.phase}:{message.turn or 0}" if message.phase else "-",
            f"{message.chars:,}",
            f"{message.tokens:,}",
            f"{message.calls:,}",
            money(message.dollars),
        ]
        for message in messages
    ]
    columns = ["message", "said in", "characters", "tokens", "in calls", "cost"]
    return CostTable(columns, rows, range(2, 6))


def _paid(report: SessionReport) -> CostTable:
    """The messages that were paid for most, and which of them the dearest call was sent."""
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

    table = _messages(listed)
    rows = [
        [*row, "yes" if is_sent(message) else ""]
        for row, message in zip(table.rows, listed, strict=True)
    ]
    return CostTable([*table.columns, "in the dearest call"], rows, table.right)


def _calls(calls: Iterable[CallCost]) -> CostTable:
    before: dict[str, int] = {}
    rows: list[list[str]] = []
    for call in calls:
        grown = call.tokens_in - before[call.phase] if call.phase in before else None
        before[call.phase] = call.tokens_in
        rows.append(
            [
                str(call.number),
                f"{call.phase}:{call.turn or 0}",
                call.node_type,
                f"{call.fresh:,}",
                f"{call.tokens_cached:,}",
                f"{call.tokens_written:,}",
                f"{'~' if call.estimated else ''}{call.tokens_out:,}",
                money(call.dollars),
                "-" if grown is None else f"{grown:+,}",
            ]
        )
    columns = ["call", "said in", "kind", "fresh", "read", "written", "out", "cost", "growth"]
    return CostTable(columns, rows, [0, *range(3, 9)])


def _parts(parts: Sequence[ContextPart]) -> CostTable:
    whole = max(1, sum(part.tokens for part in parts))
    rows = [
        [
            part.kind,
            f"{part.messages:,}",
            f"{part.chars:,}",
            f"{part.tokens:,}",
            f"{part.tokens / whole:.1%}",
        ]
        for part in parts
    ]
    return CostTable(["context", "messages", "characters", "tokens", "share"], rows, range(1, 5))


def _savings(savings: Iterable[Saving]) -> CostTable:
    listed = list(savings)
    rows = [
        [each.kind, f"{each.messages:,}", f"{each.tokens:,}", money(each.dollars)]
        for each in listed
    ]
    tokens, net = sum(each.tokens for each in listed), sum(each.dollars for each in listed)
    rows.append(["net", "", f"{tokens:,}", money(net)])
    return CostTable(
        ["because", "messages", "tokens less", "saved"], rows, range(1, 4), summed=True
    )


def _page(report: SessionReport) -> dict[str, Any]:
    """What the page of a session is made of."""
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
        "prices": _price_note(costs).splitlines(),
        "tables": {
            "phases": _phases(costs, parts=True),
            "growth": _growth(report.growth),
            "messages": _paid(report),
            "savings": _savings(report.savings),
            "calls": _calls(report.calls),
        },
    }


def _lines(report: SessionReport) -> list[tuple[str, list[int]]]:
    """The tokens of each call, as the provider counts them."""
    lines = [("sent", [call.tokens_in or call.sent_tokens for call in report.calls])]
    if not report.costs.is_everything:
        lines.append(("sending everything", [call.snowball for call in report.calls]))
    return lines


def show_store(
    store: str | None,
    html: Path | None,
    *,
    cascade: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    force: bool,
) -> None:
    """Print what cost most in a store, or write it to a page."""
    if html is not None:
        check_output(html, force=force)
    which = SessionFilter(
        cascade=cascade,
        since=None if since is None else read_time("--since", since),
        until=None if until is None else read_time("--until", until, whole_day=True),
        banks=False,
        under=() if cascade is None else None,
    )
    settings = read_settings(store)
    with open_marked(settings) as history, override(settings.prices), _all_kept():
        report = store_report(history, which, settings.price_as, limit=limit)
    tables = _store_tables(report)
    if html is not None:
        bars = [(each.name, [each.dollars or 0.0], money(each.dollars)) for each in report.cascades]
        title = f"{many(report.total.sessions, 'session')}, {money(report.total.dollars)}"
        write_page(html, "store.html", force=force, title=title, tables=tables, cascades=bars)
    if printed_as_json(report) or html is not None:
        return
    if not report.sessions:
        out.print("no session fits" if cascade or since or until else "no sessions yet")
        return
    for title, table in tables.items():
        _print(table, f"\n{title}")
    name = report.sessions[0].name
    out.print(f"\nmodels that cost nothing are told at the prices of {settings.price_as}")
    if old := age_note():
        out.print(old)
    out.print(f"what one cost: windlass report {name}; as a page: --html FILE")


def _store_tables(report: StoreReport) -> dict[str, CostTable]:
    """The tables of a store by their titles."""
    messages = _messages(report.messages)
    rows = [
        [*row[:2], message.session_id, *row[2:]]
        for row, message in zip(messages.rows, report.messages, strict=True)
    ]
    columns = [*messages.columns[:2], "session", *messages.columns[2:]]
    dearest = f"the dearest messages of the {report.looked:,} dearest sessions, by our count"
    return {
        f"by cascade{_of(report.cascades)}": ranked_table(
            "cascade", [*report.cascades[:_CASCADES], report.total], summed=True
        ),
        f"by day (UTC){_of(report.days)}": ranked_table("day", report.days[:_CASCADES]),
        "the dearest sessions": ranked_table("session", report.sessions, within="cascade"),
        "the dearest phases": ranked_table("phase", report.phases, within="cascade"),
        "the dearest calls": ranked_table("call", report.calls, within="session"),
        dearest: CostTable(columns, rows, range(3, 7)),
    }


def _of(listed: Sequence[RankedCost]) -> str:
    """What a heading says where not all are listed."""
    return f", {_CASCADES} of {len(listed):,}" if len(listed) > _CASCADES else ""


def _known(each: RankedCost) -> str:
    """What is known of a cost."""
    if not each.unpriced:
        return money(each.dollars)
    if each.unpriced == each.calls:
        return money(None)
    return f"{money(each.dollars)} but for {many(each.unpriced, 'call')}"


def ranked_table(
    what: str, costs: Iterable[RankedCost], *, within: str = "", summed: bool = False
) -> CostTable:
    """Costs as rows, each named by what it is."""
    counted = [] if what == "call" else ["sessions", "calls"] if what != "session" else ["calls"]
    columns = [what, *([within] if within else []), *counted]
    rows = []
    for each in costs:
        counts = {"sessions": f"{each.sessions:,}", "calls": f"{each.calls:,}"}
        rows.append(
            [
                each.name,
                *([each.within] if within else []),
                *(counts[name] for name in counted),
                f"{each.tokens_in:,}",
                f"{each.tokens_cached:,}",
                f"{each.tokens_out:,}",
                _known(each),
            ]
        )
    first = len(columns) - len(counted)
    columns += ["tokens in", "cached", "out", "cost"]
    return CostTable(columns, rows, range(first, len(columns)), summed)


def show_call_costs(session: str, number: int, store: str | None) -> None:
    """Print what one call cost, and what its context was made of."""
    settings = read_settings(store)
    with open_marked(settings) as history, override(settings.prices):
        session = history.find_session(session)
        report = call_report(history, session, number, settings.price_as)
    if printed_as_json(report):
        return
    call = report.cost
    out.print(
        f"call {number} of session {session}: {call.phase}, turn {call.turn}, {call.model}\n"
        f"in: {call.fresh:,} fresh, {call.tokens_cached:,} read, {call.tokens_written:,} written;"
        f" out: {call.tokens_out:,}; cost: {money(call.dollars)}"
    )
    _print(_parts(report.parts), "")
    out.print("\nits largest messages, and what all calls paid for them, by our count:")
    _print(_messages(report.messages))
    out.print(f"\nwhat was sent: windlass show {session} --call {number}")
    out.print(f"why: windlass explain {session} {number}")


def _phases(costs: SessionCost, *, parts: bool) -> CostTable:
    """What each phase sent, beside what sending everything would have, where that is another thing.

    `parts`: what was sent is told as fresh tokens, those read from a cache and those written to it.
    """
    sent = ["fresh", "read", "written"] if parts else ["tokens sent", "reported cached"]
    beside = not costs.is_everything
    rows = [
        [
            line.phase,
            str(line.calls),
            f"{line.fresh if parts else line.tokens_in:,}",
            f"{line.tokens_cached:,}",
            *([f"{line.tokens_written:,}"] if parts else []),
            f"{'~' if line.estimated else ''}{line.tokens_out:,}",
            money(line.dollars),
            *([f"{line.snowball:,}", money(line.snowball_dollars)] if beside else []),
        ]
        for line in [*costs.phases, costs.total]
    ]
    columns = ["phase", "calls", *sent, "out", "billed" if costs.billed else "cost"]
    columns += ["sending everything", "cost of everything"] if beside else []
    return CostTable(columns, rows, range(1, len(columns)), summed=True)


def _price_note(costs: SessionCost) -> str:
    """At whose prices the bills are told."""
    beside = (
        "" if costs.is_everything else "; everything: had each call been sent all that was said"
    )
    if costs.billed:
        return (
            f"billed: the usage that was reported, at its price{beside}"
            f"\n{price_text(costs.priced_as)}"
        )
    if not costs.priced_as:
        return "no call was answered, so there is nothing to bill"
    names = dict.fromkeys(costs.priced_as.values())
    return (
        f"costs are what {', '.join(names)} would bill for these messages, pictures included and"
        f" its prompt cache counted{beside} ({'; '.join(dict.fromkeys(map(price_source, names)))})"
    )


def print_costs(costs: SessionCost, *, parts: bool = False) -> None:
    """Print what each phase sent and cost; `parts` as in `_phases`."""
    _print(_phases(costs, parts=parts))
    out.print(_price_note(costs))
    if windows := costs.windows:
        out.print(
            f"windows: saved {money(windows['saved'])} beside the same calls without them,"
            f" {money(windows['spent'])} spent on texts for them: net {money(windows['net'])}"
        )
    if (search := costs.search) is not None:
        out.print(
            f"beside them, searches of the web by {search.model}:"
            f" {many(search.searches, 'search', 'searches')}, {search.tokens_in:,} tokens sent,"
            f" {search.tokens_out:,} out, {money(search.dollars)}"
        )


def price_text(names: Mapping[str, str]) -> str:
    """Whose prices hold for each model, and where each is from.

    `local/smollm2 at the prices of openai/gpt-5 (genai-prices ...)`.
    """
    lines: list[str] = []
    for model, name in names.items():
        if rate(name) is None:
            lines.append(f"{name} has no price")
        elif model == name:
            lines.append(f"{model} at its own prices ({price_source(name)})")
        else:
            lines.append(f"{model} at the prices of {name} ({price_source(name)})")
    return "; ".join(lines)


def show_prefixes(session: str, store: str | None) -> None:
    """Print what each call of a session shares with the one before it."""
    with open_existing(store) as history:
        session = history.find_session(session)
        prefixes = prefix_of(history, session)
    if printed_as_json(prefixes):
        return
    print_table(_COLUMNS, [_row(each) for each in prefixes], right=range(2, 6), whole=[1, 6])
    later = [each for each in prefixes if each.call > 1]
    sent, shared = sum(each.sent for each in later), sum(each.shared for each in later)
    reported = sum(each.reported for each in later)
    if sent:
        out.print(
            f"\nafter the first call: {shared / sent:.1%} of {sent:,} tokens stand as in the call"
            f" before, {reported:,} tokens were reported as cached"
        )
    out.print(f"what a call saw: windlass show {session} --call 1")


def _row(prefix: Prefix) -> list[str]:
    place = "-"
    if prefix.broken_by:
        place = "tools" if prefix.message is None else f"message {prefix.message}"
        place += f", character {prefix.character}" if prefix.character is not None else ""
    return [
        str(prefix.call),
        f"{prefix.phase or '-'}:{prefix.turn or 0}",
        f"{prefix.sent:,}",
        f"{prefix.shared:,}",
        "-" if prefix.predicted is None else f"{prefix.predicted:,}",
        f"{prefix.reported:,}",
        place,
        prefix.broken_by or "-",
    ]
