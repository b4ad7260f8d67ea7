"""The tools of a phase: those it names, or with `tackle: "manifest"` those its model chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from windlass.cascade.model import Phase, own_tackle
from windlass.cascade.tools_named import memory_of, missing_bank
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.events import Noted
from windlass.engine.session_tools import SEARCH
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import send
from windlass.history.base import NodeType, Row
from windlass.history.decisions import ToolsChosen
from windlass.messages import ToolSpec, system, user
from windlass.safety.foreign import parse_json
from windlass.text.prompts import MANIFEST_SYSTEM, manifest_text
from windlass.tools.base import TIMEOUT_S, Tool
from windlass.window.originals import RECALL

MOST = 8
"""Tools a manifest may choose."""

_WORD = re.compile(r"[a-z]{3,}")

MOST_SAID: Final = 20
"""Messages that the choice sees with `manifest_context: full`."""
LONGEST_SAID: Final = 200
"""Characters of each of them."""


async def tools_of(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun, instructions: str
) -> Mapping[str, Tool]:
    """Return the tools of a phase by name, `recall` among them where something may be shortened."""
    tackle: str | Sequence[str] = own_tackle(phase)
    if tackle == "manifest":
        tackle = await choose_tools(run, phase, phase_run, instructions)
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


async def choose_tools(
    run: CascadeRun, phase: Phase, phase_run: PhaseRun, instructions: str
) -> tuple[str, ...]:
    """At most 8 tools for the phase, recorded, constant from then on.

    The phase's own model is asked; where its answer names no known tool, those whose
    descriptions share most words with the instructions are taken, and the record
    says so.
    """
    banks = memory_of(run.cascade, phase)
    usable = [name for name in run.registry.names() if missing_bank(banks, name) is None]
    specs = [run.registry.get(name).spec for name in usable]
    lines = [spec.description.strip().partition("\n")[0] for spec in specs]
    menu = "\n".join(f"- {spec.name}: {line}" for spec, line in zip(specs, lines, strict=True))
    names = [spec.name for spec in specs]
    said = _said_before(phase_run) if phase.manifest_context == "full" else ""
    schema = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"enum": names}, "maxItems": MOST}},
        "required": ["tools"],
        "additionalProperties": False,
    }
    question = (system(MANIFEST_SYSTEM), user(manifest_text(instructions, menu, said)))
    taken = await send(
        run,
        phase_run,
        phase_run.info.question(question, 256, schema),
        asks="choice of tools",
    )
    reply = taken.reply
    price = run.charge(phase_run.info, reply.usage)
    chosen, by = _chosen(reply.message.text, names), "model"
    if not chosen:
        chosen, by = by_words(instructions, specs), "words in common"
    text = f"tools chosen by {by}: {', '.join(chosen) or 'none'}"
    name = phase_run.phase.name
    details = ToolsChosen(chosen, [message.text for message in question], reply.message.text)
    row = Row(NodeType.DECISION, phase=name, turn=0, text=text, details=details)
    run.record.append([with_usage(row, phase_run.info.name, reply.usage, price)])
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
