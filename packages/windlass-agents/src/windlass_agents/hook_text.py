"""What `windlass agent` prints."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from windlass.public import (
    Columns,
    Interval,
    NumberCell,
    Span,
    cost_text,
    describe_replay,
    dollar_cell,
    list_notes,
    many,
    money,
    note,
    out,
    percents,
    print_table,
    table_of,
)
from windlass_agents.agent_files import Scope
from windlass_agents.compaction_moments import ASKED_WITHIN_TURNS, NextMoment
from windlass_agents.installing import (
    agent_version,
    claude_settings,
    hooks_disabled,
    is_too_old,
    other_hooks,
)
from windlass_agents.mod_installing import mod_folder, why_no_mod
from windlass_agents.outcome import HookedSession, HookReport
from windlass_agents.status import AgentStatus, HookStatus
from windlass_agents.trial import (
    ALL,
    RESULTS,
    Proof,
    ShortenedResult,
    TriedLever,
    TriedSession,
)

_MOST: Final = 20
"""Sessions that are listed."""
_SCRIPTS: Final = (
    "models that call tools from scripts (in Codex 0.171.0 all but GPT-5.5) get results as they are"
)
"""What the hook of Codex leaves alone: something else in the place of a result ends a script."""


def print_proof(proof: Proof) -> None:
    """Print what each lever would have saved, for which sessions not, and whether it pays."""
    for line in describe_replay(proof.replay):
        out.print(line)
    out.print()
    levers: Columns[TriedLever] = {
        "lever": lambda each: each.name,
        "costs": lambda each: NumberCell(cost_text(each.cost)),
        "saves": lambda each: NumberCell(percents(each.saved, 1)),
        "values": lambda each: _share(each.cost.values_seen, each.cost.values),
        "lines": lambda each: _share(each.cost.lines_seen, each.cost.lines),
        "acts on": _acts_on,
        "dearer": lambda each: NumberCell(f"{each.dearer} of {len(proof.sessions)}"),
    }
    print_table(table_of((proof.before, *proof.levers), levers))
    for line in _explain(proof):
        out.print(line)
    if proof.dearer:
        sessions: Columns[TriedSession] = {
            "session that might be dearer": lambda each: each.title,
            "calls": lambda each: each.calls,
            "it cost": lambda each: _dollars(each.everything_dollars),
            "would cost": lambda each: _dollars(each.dollars),
            "of that": lambda each: NumberCell(percents(each.ratio, 1)),
        }
        out.print()
        print_table(table_of(proof.dearer[:_MOST], sessions))
        if len(proof.dearer) > _MOST:
            out.print(f"and {len(proof.dearer) - _MOST:,} more sessions")
    else:
        worst = proof.sessions[0]
        out.print(f"the worst session: {percents(worst.ratio, 1)} of what it cost, {worst.title}")
    if proof.best:
        columns: Columns[ShortenedResult] = {
            "session": lambda each: each.session,
            "tool": lambda each: each.tool,
            "tokens": lambda each: each.tokens_before,
            "shown": lambda each: each.tokens_after,
            "in calls": lambda each: each.calls,
            "saves": lambda each: dollar_cell(each.dollars),
        }
        out.print("\nthe results that pay most:")
        print_table(table_of(proof.best, columns))
    out.print()
    for line in list_notes(proof.replay):
        out.print(line)
    out.print(f"\n{proof.missed}")
    out.print(proof.verdict)
    if proof.pays:
        out.print(f"install it: windlass agent install {proof.agent}")


def _acts_on(lever: TriedLever) -> str:
    """Return what a lever changes."""
    amounts = {
        "result": lever.cost.shortened if lever.name in (RESULTS, ALL) else 0,
        "definition": lever.tools,
        "compaction": lever.cost.compactions,
    }
    return ", ".join(many(count, noun) for noun, count in amounts.items() if count) or "-"


def _explain(proof: Proof) -> Iterator[str]:
    """Yield what the rows of the table mean, and what of them is estimated."""
    yield f"dearer: sessions whose bill might have grown by 1 % or more, of {len(proof.sessions)}"
    if len(proof.levers) == 1:
        return
    yield (
        "tools that wait: from the definitions that were surely in front, by the shortest that is"
        " known, to all that may have been; a tool that was needed costs one more request"
    )
    yield (
        "free moments: where the cache is cold or reading has cost more than a compaction, in the"
        f" middle of a turn from {ASKED_WITHIN_TURNS:,} tokens on; what the client says again"
        " behind one is paid for"
    )


def _share(seen: int, needed: int) -> NumberCell:
    return NumberCell(f"{seen:,}/{needed:,}" if needed else "-")


def _dollars(span: Span | None) -> NumberCell:
    amounts = dict.fromkeys(money(None if span is None else one) for one in span or (0.0,))
    return NumberCell(" - ".join(amounts))


def print_notes_of_install(agent: str, scope: Scope, plugin: Path | None, *, is_mod: bool) -> None:
    """Print what the user has to know after an installation."""
    version = agent_version(agent)
    if version is not None and (since := is_too_old(agent, version)):
        note(f"{agent} {version} ignores what hooks answer: it takes replacements from {since} on")
    if plugin is not None:
        out.print(f"to try it: claude --plugin-dir {plugin}")
    elif agent == "codex":
        where = "in this folder" if scope == "project" else "in any folder"
        out.print(
            f"Codex skips a hook until you trust it: start codex {where}, look at the hooks it asks"
            " about and choose `Trust all and continue`; later, /hooks shows them"
        )
        out.print(_SCRIPTS)
    elif is_mod:
        out.print(
            f"Claude Code loads the mod of {str(mod_folder())!r}: it sees each result of a tool"
            " before the model does, lets the tools wait that your sessions hardly use, and"
            " compacts the conversation when nothing of it is cached; it asks the server of"
            " Windlass on this machine alone"
        )
        out.print(f"take it away: windlass agent uninstall claude-code --{scope}")
        if hooks_disabled(claude_settings(scope)):
            note(f"{str(claude_settings(scope))!r} has disableAllHooks: no mod is loaded either")
    elif agent == "claude-code":
        path = claude_settings(scope)
        if hooks_disabled(path):
            note(f"{str(path)!r} has disableAllHooks: no hook runs until that is taken out")
        for command in other_hooks(path):
            note(f"another hook answers after tools, too: {command}; of two answers one is taken")
    out.print("it works from the next session on; what it does: windlass agent status")


def print_status(status: HookStatus) -> None:
    """Print which agents have the hook, and what became of its answers."""
    if not status.agents:
        out.print("no agent that is known was found: claude, codex, opencode")
    for agent in status.agents:
        for line in _lines_of(agent):
            out.print(line)
    running = "runs" if status.running else "does not run; the next event starts it"
    out.print(f"the process that answers {running}")
    results = sum(status.outcomes.values())
    out.print(f"\n{status.store}: {many(status.sessions, 'session')}, {many(results, 'result')}")
    for outcome, count in sorted(status.outcomes.items(), key=lambda pair: -pair[1]):
        out.print(f"  {outcome}: {count:,}")
    if status.taken or status.not_taken:
        out.print(f"the model got the short form of {many(status.taken, 'result')}")
    if status.untold:
        out.print(f"no transcript tells yet of {many(status.untold, 'short form')}")
    for tool, count in status.not_taken.items():
        note(f"{tool}: {many(count, 'short form')} not taken: the model saw the result as it came")
    for tool, count in status.unknown.items():
        out.print(f"left alone, since the shape is not known: {tool}, {count:,}")
    for because, count in status.errors.items():
        note(f"{count:,} left because of an error: {because}")
    waiting = [one for one in status.tools if one.deferred]
    if waiting:
        tokens = sum(one.tokens for one in waiting)
        out.print(
            f"tools that wait behind the search in the newest session, {tokens:,} tokens of"
            f" definitions: {', '.join(sorted(one.tool for one in waiting))}"
        )
    for one in status.compactions:
        out.print(f"compaction, {_time(one.time)}, session {one.session}: {one.reason}")
    if status.next_compaction is not None:
        out.print(f"the next one there{_due(status.next_compaction)}")
    if status.failures:
        note(
            f"the hook failed {many(status.failures, 'time')}, and the results stayed as they were:"
        )
        for failure in status.latest:
            note(f"  {_time(failure.time)} {failure.agent}: {failure.what}")


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"


def _due(moment: NextMoment) -> str:
    """Return when a session is compacted next, and why, as the end of a sentence."""
    if moment.seconds is None:
        return f": none yet, {moment.reason}"
    when = f" in {moment.seconds / 60:.0f} minutes" if moment.seconds else " at the next pause"
    return f"{when}: {moment.reason}"


def _lines_of(agent: AgentStatus) -> list[str]:
    version = agent.version or "not on the path"
    if agent.since:
        version += f", too old: it takes replacements from {agent.since} on"
    if not agent.installed:
        return [f"{agent.agent} ({version}): not installed"]
    doors = {each.door for each in agent.installed}
    lines = [
        f"{agent.agent} ({version}): the {each.door} is installed for this {each.scope},"
        f" {each.path}" + (", but disableAllHooks is set" if each.disabled else "")
        for each in agent.installed
    ]
    if agent.agent == "codex":
        lines.append(f"  {_SCRIPTS}")
    if agent.agent == "claude-code":
        why = why_no_mod(agent.version)
        if doors == {"hook", "mod"}:
            lines.append("  where the mod is loaded it answers, and the hook leaves results alone")
        elif "mod" in doors and why:
            lines.append(f"  no door is open: {why}; windlass agent install claude-code mends it")
        elif "hook" in doors and why:
            lines.append(f"  it is the hook, since {why}")
        elif "hook" in doors:
            lines.append("  windlass agent install claude-code puts the mod in its place")
    return lines


def print_hook_report(report: HookReport) -> None:
    """Print what hooks saved, session by session, and in all."""
    hooked = [one for one in report.sessions if not one.held_out]
    if not report.sessions:
        out.print("no session with a hook in that time")
        return
    columns: Columns[HookedSession] = {
        "session": lambda each: each.session_id,
        "first words": lambda each: each.title,
        "calls": lambda each: each.calls,
        "shortened": lambda each: (
            "held out" if each.held_out else NumberCell(f"{each.shortened:,}")
        ),
        "fetched back": lambda each: each.fetched,
        "billed": lambda each: dollar_cell(each.dollars),
        "saved": lambda each: dollar_cell(each.saved),
    }
    print_table(table_of(report.sessions[:_MOST], columns))
    if len(report.sessions) > _MOST:
        out.print(f"and {len(report.sessions) - _MOST:,} older sessions")
    out.print("saved: what was not sent, at its price in each call, less what was fetched back")
    for what, amount in (
        ("tools that wait", sum(one.saved_by_tools for one in hooked)),
        ("compactions that nobody asked for", sum(one.saved_by_compactions for one in hooked)),
    ):
        if amount:
            out.print(f"of it by {what}: {'-' if amount < 0 else ''}{money(abs(amount))}")
    if report.not_taken:
        note(f"{many(report.not_taken, 'short form')} not taken by the agent: none of them counts")
    known = [(one.dollars, one.saved) for one in hooked]
    pairs = [(one, saved) for one, saved in known if one is not None and saved is not None]
    billed, saved = sum(one for one, _ in pairs), sum(saved for _, saved in pairs)
    if billed:
        whole = billed + saved
        verb = "saved" if saved >= 0 else "cost more:"
        out.print(
            f"\nthe hook {verb} {money(abs(saved))} of {money(whole)} ({abs(saved / whole):.1%}) in"
            f" {many(len(pairs), 'session')}: sending everything would have cost {money(whole)}"
        )
    for what, interval in (("session", report.per_session), ("call", report.per_call)):
        if interval is not None:
            out.print(f"with the hook less held out, a {what}: {_between(interval)}")
    if any(one.held_out for one in report.sessions) and report.per_session is None:
        out.print("too few sessions to compare those with the hook with those held out")


def _between(interval: Interval) -> str:
    low, high = (f"{'-' if amount < 0 else '+'}{money(abs(amount))}" for amount in interval)
    return f"{low} to {high} (95 of 100 cases)"
