"""The search of a phase in its own session, which gives references with summaries.

It lies in the engine because it needs what the session knows of itself. Other
sessions are never searched: what is to last is for memory banks.
"""

from __future__ import annotations

from typing import Final

from windlass.engine._phase_run import PhaseRun
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.choosing._picking import output_alone
from windlass.engine.choosing._session_index import (
    CachedEmbedder,
    embedder_for,
    index_of,
    only_repeats,
)
from windlass.selection.index import Index, Query
from windlass.selection.options import Selection
from windlass.selection.scoring import SelectionRequest, score
from windlass.window.originals import reference

SUMMARY_CHARS: Final = 200
_ANY_SIZE: Final = 10**9
"""Only references are given back, so that a message may be of any size."""


def search_session(run: CascadeRun, phase_run: PhaseRun, query: str, most: int) -> str:
    """Return the messages of the session that say most of a query: reference, place, summary.

    Calls and their results are named together. Phases whose rule excludes others, and what a
    phase's retention hides, hold here, too.
    """
    index = index_of(run, phase_run.info)
    rule = phase_run.rule.choosing
    excluded = rule.exclude if rule is not None else frozenset[str]()
    record = run.record
    hidden = {each.phase for each in record.store.outcomes(record.session_id) if each.hidden}
    outputs = {item.id for name in hidden for item in output_alone(index.items, name or "")}
    among = [
        item.phase not in excluded
        and (item.phase not in hidden or item.id in outputs)
        and not only_repeats(index, place)
        for place, item in enumerate(index.items)
    ]
    if not any(among):
        return "nothing was said in this session that can be searched"
    options = Selection(max_tokens=_ANY_SIZE, max_messages=None, recency_weight=0.0)
    embedder = embedder_for(run)
    if isinstance(embedder, CachedEmbedder):
        embedder = None  # by words alone: a search is no reason to ask a server
    request = SelectionRequest(index, Query.of(query), options, embedder, among=among)
    scored = score(request)
    lines: list[str] = []
    for at in scored.order():
        hits = [place for place in index.units[at].places if scored.hits[place] > 0]
        lines += [_line(index, place) for place in hits[: most - len(lines)]]
    if not lines:
        return f"nothing said in this session matches {query!r}"
    return "\n".join([f"{len(lines)} found; recall(ref) brings an original back:", *lines])


def _line(index: Index, place: int) -> str:
    item, tokens = index.items[place], index.tokens_at(place)
    who = item.message.name or item.message.role
    summary = " ".join(index.card(place).summary.split())[:SUMMARY_CHARS]
    return f"[{reference(item.message)}] {who} ({item.phase}, ~{tokens} tok): {summary}"
