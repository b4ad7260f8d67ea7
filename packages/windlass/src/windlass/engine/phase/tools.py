"""The tools of a phase: those it names, or with `tackle: "manifest"` those its model chooses.

Which of them run only when a person says so, and what `recall` brings back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from windlass.cascade.handoffs import ROUTE_TO, are_chosen, targets_of
from windlass.cascade.model import Cascade, Phase, own_tackle
from windlass.cascade.tools_named import memory_of, missing_bank
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted, ToolEnded
from windlass.engine.session_tools import SEARCH
from windlass.engine.turn.record import Recorder, with_usage
from windlass.engine.turn.send import send
from windlass.errors import UsageError, did_you_mean
from windlass.history.base import Row
from windlass.history.decisions import ToolsChosen
from windlass.history.row_details import ToolResult
from windlass.messages import ToolCall, ToolSpec, system, user
from windlass.safety.foreign import parse_json
from windlass.safety.schemas import object_with
from windlass.text.prompts import MANIFEST_SYSTEM, handoffs_text, manifest_text
from windlass.tools.base import TIMEOUT_S, Tool, ToolOutput
from windlass.tools.registry import Registry
from windlass.tools.runner import names_touched
from windlass.window.originals import RECALL, as_text, meant, part_of, reference

MOST = 8
"""Tools a manifest may choose."""

_WORD = re.compile(r"[a-z]{3,}")

MOST_SAID: Final = 20
"""Messages that the choice sees with `manifest_context: full`."""
LONGEST_SAID: Final = 200
"""Characters of each of them."""


async def tools_of(run: CascadeRun, phase_run: PhaseRun, instructions: str) -> Mapping[str, Tool]:
    """Return the tools of a phase by name, `recall` among them where something may be shortened."""
    tackle: str | Sequence[str] = own_tackle(phase_run.phase)
    if tackle == "manifest":
        tackle = await choose_tools(run, phase_run, instructions)
    policy = phase_run.rule.policy
    finds = SEARCH in tackle  # what it finds, recall brings
    shortens = policy is not None and policy.enabled
    if tackle and (shortens or finds) and RECALL.name not in tackle:
        tackle = (*tackle, RECALL.name)  # from the start: a list that changes breaks the cache
    timeout = run.settings.tool_timeout_s
    return {
        tool.spec.name: replace(tool, timeout_s=timeout) if tool.timeout_s == TIMEOUT_S else tool
        for tool in run.registry.of_tackle(tackle)
    }


async def choose_tools(run: CascadeRun, phase_run: PhaseRun, instructions: str) -> tuple[str, ...]:
    """At most 8 tools for the phase, recorded, constant from then on.

    The phase's own model is asked; where its answer names no known tool, those whose
    descriptions share most words with the instructions are taken, and the record
    says so.
    """
    banks = memory_of(run.cascade, phase_run.phase)
    usable = [name for name in run.registry.names() if missing_bank(banks, name) is None]
    specs = [run.registry.get(name).spec for name in usable]
    lines = [spec.description.strip().partition("\n")[0] for spec in specs]
    menu = "\n".join(f"- {spec.name}: {line}" for spec, line in zip(specs, lines, strict=True))
    names = [spec.name for spec in specs]
    said = _said_before(phase_run) if phase_run.phase.manifest_context == "full" else ""
    schema = object_with("tools", {"type": "array", "items": {"enum": names}, "maxItems": MOST})
    question = (system(MANIFEST_SYSTEM), user(manifest_text(instructions, menu, said)))
    taken = await send(
        run,
        phase_run,
        phase_run.info.question(question, 256, schema),
        asks="choice of tools",
    )
    reply = taken.reply
    chosen, by = _chosen(reply.message.text, names), "model"
    if not chosen:
        chosen, by = by_words(instructions, specs), "words in common"
    text = f"tools chosen by {by}: {', '.join(chosen) or 'none'}"
    name = phase_run.phase.name
    details = ToolsChosen(chosen, [message.text for message in question], reply.message.text)
    run.charge_beside(name, text, details, info=phase_run.info, usage=reply.usage)
    run.emit(Noted(name, text, detail=True))
    return tuple(chosen)


def _said_before(phase_run: PhaseRun) -> str:
    """Return the newest messages before the instructions, each cut."""
    entries = phase_run.messages.entries[:-1][-MOST_SAID:]
    lines = ((entry.message.role, " ".join(entry.message.text.split())) for entry in entries)
    return "\n".join(f"{role}: {text[:LONGEST_SAID]}" for role, text in lines if text)


def _chosen(answer: str, names: Sequence[str]) -> list[str]:
    try:
        value = parse_json(answer)
    except ValueError:
        return []
    match value:
        case {"tools": list(listed)}:
            return list(dict.fromkeys(name for name in listed if name in names))[:MOST]
        case _:
            return []


def by_words(instructions: str, specs: Sequence[ToolSpec]) -> list[str]:
    """Return the tools whose name and description share most words with the instructions."""
    task = set(_WORD.findall(instructions.lower()))
    scored = [
        (len(task & set(_WORD.findall(f"{s.name} {s.description}".lower()))), s.name) for s in specs
    ]
    best = sorted(scored, key=lambda pair: (-pair[0], pair[1]))
    return [name for score, name in best if score > 0][:MOST]


def tools_to_approve(
    registry: Registry, phase: Phase, tools: Iterable[Tool]
) -> Mapping[str, tuple[str, ...]]:
    """Return the tools among these that need approval, by name, each with what its phase calls it.

    A tool is meant by its name, by its dotted path, by `server.*`, and under any other name that
    the same function has. Raises UsageError for a name that means none.
    """
    tools = tuple(tools)
    found: dict[str, tuple[str, ...]] = {}
    for written in phase.rules.approve:
        meant = _meant(registry, written)
        if not meant:
            raise UsageError(
                f"phase {phase.name!r}: rules.approve names {written!r}, which is no tool;"
                f" {did_you_mean(written, registry.names())}"
            )
        names = {each.spec.name for each in meant}
        for tool in tools:
            same = any(tool.function is each.function for each in meant)
            if same or tool.spec.name in names:
                found[tool.spec.name] = (*found.get(tool.spec.name, ()), written)
    return found


def approvable(cascade: Cascade, registry: Registry) -> set[str]:
    """Return the names of a cascade's tools that need approval, `server.*` among them."""
    written = {name for phase in cascade.phases for name in phase.rules.approve}
    dotted = {name for name in written if ":" in name and name not in registry.names()}
    return written | {registry.resolve(name).spec.name for name in dotted}


def _meant(registry: Registry, written: str) -> list[Tool]:
    """Return the tools that a name stands for; those of a server are known once it has started."""
    if ":" in written and written not in registry.names():
        return [registry.resolve(written)]
    every = written.removesuffix("*") if written.endswith(".*") else None
    known = registry.names()
    return [
        registry.get(name)
        for name in known
        if name == written or (every is not None and name.startswith(every))
    ]


def recall_original(record: Recorder, ref: str, part: str | None = None) -> str:
    """Return the original text behind `ref`: a reference, a content hash, or the beginning of one.

    `part` is what `part_of` takes ("": as much of the whole as is given back at once; None: all
    of it). Raises KeyError with a sentence that names the known references, and ValueError where
    the part cannot be found.
    """
    # Sources that a phase was given may be shortened too, so every row counts.
    rows = record.rows()
    messages = [stored.row.message for stored in rows if stored.row.message is not None]
    by_hash = {message.content_hash: message for message in messages}
    try:
        message = by_hash[meant(ref, by_hash)]
    except KeyError as error:
        results = [reference(m) for m in by_hash.values() if m.role == "tool"]
        listed = ", ".join(results[-10:]) or "none yet"
        what = f"the reference {ref!r} names no message of this session"
        raise KeyError(f"{what}: {error.args[0]}; known: {listed}") from None
    return as_text(message) if part is None else part_of(message, part)


# ---- what a tool gave ---------------------------------------------------------------------------


def result_row(
    run: CascadeRun,
    row: Row,
    tool: Tool | None,
    call: ToolCall,
    output: ToolOutput,
    *,
    state: Mapping[str, Any],
    interrupted: bool = False,
) -> Row:
    """Return the row of a tool's result: what it touched, and what a model took for it.

    `state` is what it set. What a model took is charged.
    """
    spent = output.spent
    details = ToolResult(
        error=output.error,
        tool=call.name,
        interrupted=interrupted,
        searches=spent.usage.searches if spent else 0,
        state=dict(state),
        **({} if output.error else names_touched(tool, call)),
    )
    row = replace(row, keep_pictures=True, details=details)
    return with_usage(row, spent.model, spent.usage, run.charge_tool(spent)) if spent else row


def tell_result(run: CascadeRun, phase: str, call: ToolCall, output: ToolOutput) -> None:
    """Tell who watches that a tool of a phase has ended, with the first line of its result."""
    summary = output.text.strip().partition("\n")[0]
    pictures = tuple(picture.describe() for picture in output.pictures)
    run.emit(ToolEnded(phase, call.name, output.error, summary, pictures))


# ---- the tool by which a model says what comes next ----------------------------------------------

_OF_ROUTE: Final = "Say what comes next. It ends your work on this task: answer before, or with it."


def routes(phase: Phase) -> bool:
    """Return whether the model of a phase has the tool `route_to`."""
    return bool(phase.handoffs) and (are_chosen(phase.handoffs) or ROUTE_TO in phase.tackle)


def menu_of(phase: Phase) -> tuple[str, ...]:
    """Return what joins the instructions of a phase whose model chooses what comes next."""
    if not are_chosen(phase.handoffs):
        return ()
    return (handoffs_text({each.target: each.description or "" for each in phase.handoffs}),)


def route_tool(phase_run: PhaseRun) -> Tool:
    """Return the tool by which the model of a phase says what comes next; the last call counts."""

    def route_to(target: str) -> str:
        phase_run.now.route = target
        return f"{target} comes next"

    target = {"type": "string", "enum": targets_of(phase_run.phase.handoffs)}
    spec = ToolSpec(ROUTE_TO, _OF_ROUTE, object_with("target", target))
    return Tool(spec, route_to, effects="none")
