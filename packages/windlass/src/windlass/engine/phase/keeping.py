"""Banks that keep by themselves what is said: every message of a phase, when it has ended.

Attempts of soundings keep nothing. The same text twice is one memory, so a phase that is walked
through again by a resumed run keeps nothing twice.
"""

from __future__ import annotations

from windlass.cascade.model import Phase
from windlass.cascade.tools_named import memory_of
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.history.marks import MessagesKept
from windlass.memory.banks import MOST_CHARS, Banks

_CUT = "\n[cut: a memory has no more characters]"


def keep_messages(run: CascadeRun, phase: Phase, phase_run: PhaseRun) -> None:
    """Put what was said in a phase into the bank that keeps all, and record how much it was."""
    declared = memory_of(run.cascade, phase)
    if declared is None or declared.bank is None or declared.keep != "all":
        return
    if run.is_sounding or phase.soundings is not None:
        return
    banks = Banks(run.record.store, run.record.clock, run.record.new_id)
    kept = 0
    for item in phase_run.messages.own:
        text = item.message.text
        if not text.strip():
            continue
        if len(text) > MOST_CHARS:
            text = text[: MOST_CHARS - len(_CUT)] + _CUT
        by = f"session {run.record.session_id}, phase {phase.name}, {item.message.role}"
        banks.remember(declared.bank, text, by=by)
        kept += 1
    summary = f"{kept} messages kept in memory bank {declared.bank!r}"
    run.record.decide(phase.name, summary, MessagesKept(declared.bank, kept))
