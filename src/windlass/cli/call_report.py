"""What one call cost and was made of, and what each call shares with the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.caching.rates import money, override
from windlass.cli.cost_tables import CostTable, messages_table, print_cost_table
from windlass.cli.named_store import open_existing, open_reporting_losses, read_settings
from windlass.cli.output import out, printed_as_json
from windlass.cli.printed_tables import Cell, NumberCell, print_table
from windlass.report.contents import ContextPart, call_report
from windlass.report.prefix import Prefix, prefix_of

_COLUMNS = ["call", "said in", "sent", "shared", "predicted", "reported", "broken at", "by"]


def print_call_report(session: str, number: int, store: str | None) -> None:
    """Print what one call cost, and what its context was made of."""
    settings = read_settings(store)
    with open_reporting_losses(settings) as history, override(settings.prices):
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
    print_cost_table(_parts(report.parts), "")
    out.print("\nits largest messages, and what all calls paid for them, by our count:")
    print_cost_table(messages_table(report.messages))
    out.print(f"\nwhat was sent: windlass show {session} --call {number}")
    out.print(f"why: windlass explain {session} {number}")


def _parts(parts: Sequence[ContextPart]) -> CostTable:
    whole = max(1, sum(part.tokens for part in parts))
    rows: list[list[Cell]] = [
        [
            part.kind,
            part.messages,
            part.chars,
            part.tokens,
            NumberCell(f"{part.tokens / whole:.1%}"),
        ]
        for part in parts
    ]
    return CostTable(["context", "messages", "characters", "tokens", "share"], rows)


def print_prefixes(session: str, store: str | None) -> None:
    """Print what each call of a session shares with the one before it."""
    with open_existing(store) as history:
        session = history.find_session(session)
        prefixes = prefix_of(history, session)
    if printed_as_json(prefixes):
        return
    print_table(_COLUMNS, [_row(each) for each in prefixes], whole=[1, 6])
    later = [each for each in prefixes if each.call > 1]
    sent, shared = sum(each.sent for each in later), sum(each.shared for each in later)
    reported = sum(each.reported for each in later)
    if sent:
        out.print(
            f"\nafter the first call: {shared / sent:.1%} of {sent:,} tokens stand as in the call"
            f" before, {reported:,} tokens were reported as cached"
        )
    out.print(f"what a call saw: windlass show {session} --call 1")


def _row(prefix: Prefix) -> list[Cell]:
    place = "-"
    if prefix.broken_by:
        place = "tools" if prefix.message is None else f"message {prefix.message}"
        place += f", character {prefix.character}" if prefix.character is not None else ""
    return [
        str(prefix.call),
        f"{prefix.phase or '-'}:{prefix.turn or 0}",
        prefix.sent,
        prefix.shared,
        NumberCell("-") if prefix.predicted is None else prefix.predicted,
        prefix.reported,
        place,
        prefix.broken_by or "-",
    ]
