"""What one call cost and was made of, and what each call shares with the one before it."""

from __future__ import annotations

from windlass.caching.rates import money
from windlass.cli.cost_tables import messages_table
from windlass.cli.named_store import open_existing
from windlass.cli.output import out, printed_as_json
from windlass.cli.printed_tables import print_table
from windlass.cli.report_page import open_for_report
from windlass.report.contents import ContextPart, call_report
from windlass.report.prefix import Prefix, prefix_of
from windlass.text.cell_tables import Columns, NumberCell, table_of


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
    """Where the rest begins that is not shared."""
    if not prefix.broken_by:
        return "-"
    place = "tools" if prefix.message is None else f"message {prefix.message}"
    return place if prefix.character is None else f"{place}, character {prefix.character}"
