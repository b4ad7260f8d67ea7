"""The banks of a phase: what it may read and write of the store's memory, and the tools for it.

A bank may keep by itself what is said: every message of a phase, when it has ended. Attempts of
soundings keep nothing. The same text twice is one memory, so a phase that is walked through again
by a resumed run keeps nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from windlass.cascade.model import Phase
from windlass.cascade.tools_named import memory_of
from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.errors import StoreError, ToolError, UsageError, did_you_mean
from windlass.history.marks import MessagesKept
from windlass.memory.banks import MOST_CHARS, Banks, Memory, check_memory, expiry_of, time_text
from windlass.memory.matching import matches
from windlass.tools.base import MemoryCallbacks

MOST_FOUND: Final = 20
"""Memories that one search brings."""

_LISTED: Final = 20
"""Keys that are named where a search finds nothing."""


def memory_callbacks(run: CascadeRun, phase: Phase) -> MemoryCallbacks | None:
    """Return the memory that the tools of a phase have; None: it names no bank."""
    declared = memory_of(run.cascade, phase)
    if declared is None:
        return None
    banks = Banks(run.record.store, run.record.clock, run.record.new_id)

    def keep(text: str, bank: str, key: str, expires: str) -> str:
        _check_open(bank, declared.write, "written")
        by = f"session {run.record.session_id}, phase {phase.name}"
        try:
            until = expiry_of(expires, banks.clock())
            if run.is_sounding:
                check_memory(text, key)
                write = partial(banks.remember, bank, text, key=key, expires=until, by=by)
                run.session.remembered.append(write)
                return f"to be remembered in bank {bank!r} if this attempt is the one taken"
            kept = banks.remember(bank, text, key=key, expires=until, by=by)
        except (UsageError, StoreError) as error:
            raise ToolError(str(error)) from error
        ends = "" if kept.expires is None else f", until {time_text(kept.expires)}"
        return f"remembered as {kept.key!r} in bank {kept.bank!r}, version {kept.version}{ends}"

    def search(query: str, bank: str, most: int) -> str:
        if bank:
            _check_open(bank, declared.read, "read")
        names = (bank,) if bank else tuple(declared.read)
        if not names:
            raise ToolError("this phase may read no memory bank")
        if not query.strip():
            raise ToolError("there is nothing to look for: give some words")
        try:
            held = [memory for name in names for memory in banks.memories(name)]
        except StoreError as error:
            raise ToolError(str(error)) from error
        return _listed(query, names, held, min(most, MOST_FOUND) if most > 0 else MOST_FOUND)

    return MemoryCallbacks(keep, search)


def _listed(query: str, names: Sequence[str], held: Sequence[Memory], most: int) -> str:
    """Return the result of a search: the memories among those held that belong to a query."""
    matching = matches(query, held, lambda memory: memory.searched, most)
    where = " and ".join(repr(name) for name in names)
    if not matching:
        keys = ", ".join(memory.key for memory in held[-_LISTED:])
        holds = f"it holds: {keys}" if keys else "it holds nothing"
        return f"memory {where}: nothing belongs to {query!r}; {holds}"
    shown = (
        f"[{memory.reference}, remembered {time_text(memory.remembered)}]\n{memory.text}"
        for memory in matching
    )
    return "\n\n".join([f"memory {where}: {len(matching)} found.", *shown])


def _check_open(bank: str, allowed: Sequence[str], verb: str) -> None:
    if bank not in allowed:
        raise ToolError(
            f"bank {bank!r} may not be {verb} in this phase; {did_you_mean(bank, allowed)}"
        )


_CUT = "\n[cut: a memory has no more characters]"


def keep_messages(run: CascadeRun, phase_run: PhaseRun) -> None:
    """Put what was said in a phase into the bank that keeps all, and record how much it was."""
    phase = phase_run.phase
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
