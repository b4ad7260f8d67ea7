"""Going on from what the last call saw: the cheapest beginning of a phase, because it is cached.

Where the phase before saw a snowball, that is the snowball. Where it saw a choice of its own, it
is that choice with what was said since; what the new phase needs besides stands behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from windlass.engine.choosing.anchors import Piece
from windlass.engine.choosing.known import Known
from windlass.engine.sources import output_only
from windlass.engine.state import PhaseRun, Run
from windlass.window.assemble import assemble
from windlass.window.entries import Entry, apply, show


@dataclass(frozen=True, slots=True)
class Base:
    """What the phase before saw and said, without its system prompt.

    `chosen`: it is no snowball, so that something may be missing.
    """

    entries: tuple[Entry, ...]
    chosen: bool = False

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the occurrences that it shows."""
        shown = {entry.item.id for entry in self.entries}
        return frozenset(shown.union(*({one.id for one in e.covers} for e in self.entries)))


def base_of(run: Run, phase_run: PhaseRun, snowball: tuple[Entry, ...]) -> Base:
    """What a phase can go on from."""
    last = run.progress.last
    if last is None or not last.progress.chose or last.info.name != phase_run.info.name:
        return Base(snowball)
    reason = f"goes on from what {last.phase.name} saw"
    own = show(last.progress.own, reason)
    if last.rule.output_only:
        own = output_only(last.progress.own, reason)
    before = assemble(replace(last.progress.blocks, system=()), own)
    return Base(apply(before, last.progress.edits), chosen=True)


def missing(base: Base, pieces: Sequence[Piece], known: Known) -> list[Piece]:
    """The pieces that the base does not show, in order: calls with their results, or neither."""
    if not base.chosen:
        return []
    ids = base.ids
    texts = {entry.message.text for entry in base.entries}
    return [piece for piece in pieces if not _is_held(piece, ids, texts, known)]


def _is_held(piece: Piece, ids: Collection[str], texts: Collection[str], known: Known) -> bool:
    if piece.item is None:
        return piece.message.text in texts or (
            bool(piece.covers) and all(one in ids for one in piece.covers)
        )
    unit = known.unit(piece.place)
    return any(known.index.items[place].id in ids for place in unit)
