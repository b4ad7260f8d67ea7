"""The banks of a phase: what it may read and write of the store's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.cascade.model import MemoryBanks, Phase, memory_of
from windlass.engine.cascade_run import CascadeRun
from windlass.errors import StoreError, ToolError, UsageError, did_you_mean
from windlass.memory.association import searched
from windlass.memory.banks import Banks, Memory
from windlass.memory.matching import match_texts
from windlass.memory.times import expiry_of, told
from windlass.tools.base import MemoryCallbacks

MOST_FOUND: Final = 20
"""Memories that one search brings."""

_LISTED: Final = 20
"""Keys that are named where a search finds nothing."""


def memory_callbacks(run: CascadeRun, phase: Phase) -> MemoryCallbacks | None:
    """The memory that the tools of a phase have; None: it names no bank."""
    declared = memory_of(run.cascade, phase)
    if declared is None:
        return None
    banks = Banks(run.record.store, run.record.clock, run.record.new_id)
    opened = _Opened(banks, declared, f"session {run.record.session_id}, phase {phase.name}")
    return MemoryCallbacks(opened.remember, opened.search)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The banks as one phase may use them; `by` says where what it remembers was said."""

    banks: Banks
    declared: MemoryBanks
    by: str

    def remember(self, text: str, bank: str, key: str, expires: str) -> str:
        _must_be_open(bank, self.declared.write, "written")
        try:
            until = expiry_of(expires, self.banks.clock())
            kept = self.banks.remember(bank, text, key=key, expires=until, by=self.by)
        except (UsageError, StoreError) as error:
            raise ToolError(str(error)) from error
        ends = "" if kept.expires is None else f", until {told(kept.expires)}"
        return f"remembered as {kept.key!r} in bank {kept.bank!r}, version {kept.version}{ends}"

    def search(self, query: str, bank: str) -> str:
        if bank:
            _must_be_open(bank, self.declared.read, "read")
        names = (bank,) if bank else tuple(self.declared.read)
        if not names:
            raise ToolError("this phase may read no memory bank")
        if not query.strip():
            raise ToolError("there is nothing to look for: give some words")
        try:
            held = [one for name in names for one in self.banks.memories(name)]
        except StoreError as error:
            raise ToolError(str(error)) from error
        texts = {number: searched(one) for number, one in enumerate(held)}
        found = match_texts(query, texts, most=MOST_FOUND)
        where = " and ".join(repr(name) for name in names)
        if not found:
            keys = ", ".join(one.key for one in held[-_LISTED:])
            known = f"it holds: {keys}" if keys else "it holds nothing"
            return f"memory {where}: nothing belongs to {query!r}; {known}"
        shown = (_shown(held[number]) for number in sorted(found))
        return "\n\n".join([f"memory {where}: {len(found)} found.", *shown])


def _shown(one: Memory) -> str:
    return f"[{one.reference}, remembered {told(one.remembered)}]\n{one.text}"


def _must_be_open(bank: str, allowed: Sequence[str], verb: str) -> None:
    if bank not in allowed:
        raise ToolError(
            f"bank {bank!r} may not be {verb} in this phase; {did_you_mean(bank, allowed)}"
        )
