"""`windlass explain`: why a call saw what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.cli.blocks import print_blocks
from windlass.cli.look import cache_text, open_existing
from windlass.cli.output import out, plain, print_json, print_table
from windlass.report.explain import Decision, Explanation, explain_call

_COLUMNS = ("", "role", "said in", "what", "chars", "sent as", "tokens", "why")


def explain_command(session: str, call: int, store: str | None, *, as_json: bool) -> None:
    """Print what became of each message at a call, and why."""
    keeper = open_existing(store)
    try:
        explained = explain_call(keeper, session, call)
    finally:
        keeper.close()
    if as_json:
        # What was sent is `show`'s to tell.
        told = plain(explained)
        for key in ("seen", "reply"):
            del told["call"][key]
        print_json(told)
    else:
        _print(explained)


def _print(explained: Explanation) -> None:
    call = explained.call
    out.print(
        f"session {explained.session_id}, call {call.number}:"
        f" phase {call.phase}, turn {call.turn}, attempt {call.attempt}"
    )
    sent, whole = call.sent_tokens, call.snowball_tokens
    share = f", {1 - sent / whole:.0%} less" if sent < whole else ""
    out.print(f"{call.model}: sent {sent:,} tokens where everything would be {whole:,}{share}")
    out.print(_policy(explained))
    if told := cache_text(call.details):
        out.print(told)
    if explained.planner:
        out.print(planner_text(explained.planner))
    for note in explained.notes:
        out.print(f"note: {note}")
    print_blocks(call.details)
    out.print()
    print_table(
        "",
        _COLUMNS,
        [_row(place, one) for place, one in enumerate(explained.decisions)],
        right=[0, 4, 5, 6],
        whole=[0, 1, 3, 4, 5, 6],
    )
    if any(one.action in ("shortened", "folded") for one in explained.decisions):
        out.print("\nAn original comes back in the run by recall(reference).")
    session = explained.session_id
    out.print(f"\nwhat was sent: windlass show {session} --call {call.number} --full")
    out.print(f"what the run cost: windlass show {session}")


def _policy(explained: Explanation) -> str:
    told = explained.selection
    if not told:
        return "no policy was in force: nothing was shortened from call to call"
    config = told["config"]
    name = f"profile {told['policy']}" if config["enabled"] else "only what is kept and limited"
    differs = [f"{key} {value}" for key, value in explained.differs.items() if key != "enabled"]
    with_what = f", with {', '.join(differs)}" if differs else ""
    did = str(told["strategy"]).replace("+", ", ")
    shortened = f"{told['masked_count']} of the {told['context_size']} messages sent"
    return f"policy {told['policy_hash']}: {name}{with_what}\n{did}: {shortened} stand shortened"


def planner_text(told: Mapping[str, Any]) -> str:
    """What the planner decided, with the sum that it did: whoever reads it can do it again.

    `told` is the planner's entry of an `Explanation`; what it holds besides is left out.
    """
    verdict, waiting = str(told.get("verdict")), int(told.get("waiting", 0))
    edits = f"{waiting} edit" if waiting == 1 else f"{waiting} edits"
    row = told.get("row")
    where = "from a message that is not listed on" if row is None else f"from message {row} on"
    match verdict:
        case "commit":
            return f"planner: commit {where}, because it pays:\n{_sum(told)}"
        case "defer" if not told.get("removed"):
            why = "too little that was sent before would be left to be cached"
            return f"planner: defer: {edits} left waiting, because {why}"
        case "defer":
            pays = float(told.get("gain", 0)) > 0
            why = "it may not pay before the run ends" if pays else "it does not pay yet"
            return f"planner: defer: {edits} left waiting; {where} {why}:\n{_sum(told)}"
        case "cold":
            why = "nothing that was sent before is cached, so that no edit costs anything"
            return f"planner: cold: {why}; {edits} proposed {where}"
        case "quiet":
            why = "the window is so short that it would no longer be cached after them"
            return f"planner: quiet: {edits} left waiting, because {why}"
        case _:
            return f"planner: {verdict} {where}"


def _sum(told: Mapping[str, Any]) -> str:
    def number(key: str) -> float:
        return float(told.get(key, 0))

    removed, stay, put = (f"{number(key):,.0f}" for key in ("removed", "stay", "put"))
    over_read = round(number("write") - number("read"), 6)
    saves = f"{number('calls'):g} * {number('read'):g} * {removed}"
    costs = f"{over_read:g} * ({stay} + {put})"
    gain = f"{number('gain'):,.0f} tokens' worth"
    return f"N * r * D - (w - r) * (S + d) = {saves} - {costs} = {gain}"


def _row(place: int, one: Decision) -> list[str]:
    changed = one.action in ("shortened", "folded", "not shown")
    why = f"{one.reason}\n{one.reference}" if changed else one.reason
    why += f"\ncalled out: {one.callout}" if one.callout else ""
    return [
        str(place),
        one.role,
        f"{one.phase or '-'}:{one.turn or 0}",
        f"{one.action}: {one.because}" if one.because else one.action,
        f"{one.chars_before:,}",
        f"{one.chars_after:,}" if one.tokens else "-",
        f"{one.tokens:,}" if one.tokens else "-",
        why,
    ]
