"""Why a call saw what it saw, as `windlass explain` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from windlass.caching.rates import many
from windlass.cli.named_store import open_existing
from windlass.cli.output import out, print_json, to_plain
from windlass.cli.printed_tables import print_table
from windlass.cli.session_text import cache_text, print_blocks
from windlass.history.base import in_words
from windlass.report.explanation import (
    Explanation,
    MessageDecision,
    PlannerDecision,
    explain_call,
)
from windlass.text.cell_tables import Columns, NumberCell, table_of
from windlass.window.originals import RECALL


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
    """An option and its value in words; one that has options of its own has them in brackets."""
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
