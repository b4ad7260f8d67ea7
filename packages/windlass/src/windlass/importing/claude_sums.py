"""What Claude Code says at the end of a run, or of a session: the sums of each model.

They bill what its records do not tell: the rest of answers that were recorded while they began, and
whole calls (titles, classifiers, summaries of what was compacted).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any, Final

from windlass.importing.base import (
    Answers,
    dollars_of,
    model_of,
    object_of,
    shares,
    unseen,
    usage_of,
    usage_of_counts,
)
from windlass.importing.recording import RecordedCall, Recording
from windlass.wire.base import Usage

TYPES: Final = ("result", "cost-state")
"""The records with sums: of `stream-json` logs, and of session files."""
UNSEEN: Final = "calls that were not recorded"
_COUNTS: Final = (
    *("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
)


@dataclass(frozen=True, slots=True)
class _Sum:
    usage: Usage
    dollars: float


class ClosingSums:
    """The sums of a session."""

    def __init__(self) -> None:
        self._runs: list[tuple[dict[str, _Sum], float]] = []

    def __bool__(self) -> bool:
        """Whether the file tells any."""
        return bool(self._runs)

    def take(self, record: Mapping[str, Any]) -> bool:
        """A record with sums: it goes on from those of its run before, or it ends another run.

        Older ones have the sum of one model, which they do not name, and dollars of all turns so
        far. False: it tells none.
        """
        sums: dict[str, _Sum] = {}
        for name, told in object_of(record.get("modelUsage")).items():
            one = object_of(told)
            if usage := usage_of_counts(*(one.get(key) for key in _COUNTS), is_all=False):
                sums[name] = _Sum(usage, dollars_of(one.get("costUSD")) or 0.0)
        total = dollars_of(record.get("total_cost_usd") or record.get("totalCostUSD")) or 0.0
        if not sums and (usage := usage_of(record.get("usage"))):
            before = sum(dollars for _, dollars in self._runs)
            total = total - before if total > before else total
            sums[""] = _Sum(usage, total)
        elif self._runs and all(
            name in sums and sums[name].usage.tokens_in >= one.usage.tokens_in
            for name, one in self._runs[-1][0].items()
        ):
            self._runs.pop()
        if sums:
            self._runs.append((sums, total))
        return bool(sums)

    def _by_model(self, seen: Sequence[str]) -> dict[str, _Sum]:
        """The sums of all runs. Where a total is more than they are, it is their dollars' sum."""
        models: dict[str, _Sum] = {}
        for sums, total in self._runs:
            named = sum(one.dollars for one in sums.values())
            factor = total / named if total and named else 1.0
            for name, one in sums.items():
                key = _plain(name) or (seen[0] if len(seen) == 1 else "")
                before = models.get(key, _Sum(Usage(0, 0), 0.0))
                dollars = before.dollars + one.dollars * factor
                models[key] = _Sum(before.usage.plus(one.usage), dollars)
        return models

    def complete(
        self, recordings: Sequence[Recording], answers: Answers, session: str, begun: set[str]
    ) -> Iterator[Recording]:
        """The recordings of a session with what its sums tell besides, and calls that they lack.

        `begun` are the answers of which it was not recorded how they ended.
        """
        seen: defaultdict[str, dict[str, Usage]] = defaultdict(dict)
        for ident, model, usage in answers.of_session(session):
            seen[_plain(model)][ident] = usage
        told = self._by_model([*seen])
        here = {call.id: call for one in recordings for call in one.calls}
        is_sum = seen.keys() <= told.keys() and all(
            sum(each.tokens_in for each in seen[key].values()) <= told[key].usage.tokens_in
            for key in seen
        )
        if not is_sum or not seen:
            yield from recordings
            return
        for key, usages in seen.items():
            calls = [here[ident] for ident in usages if ident in here]
            if len(calls) == len(usages) and not _rest(told[key].usage, usages.values()).tokens_in:
                here.update((one.id, one) for one in _exact(calls, told[key], begun))
        for one in recordings:
            yield replace(one, calls=tuple(here[call.id] for call in one.calls))
        for key, total in told.items():
            used = [here[i].usage or one if i in here else one for i, one in seen[key].items()]
            rest = _rest(total.usage, used)
            if rest.tokens_in:
                dollars = [RecordedCall(0, model_of(key, "anthropic"), one).dollars for one in used]
                known = total.dollars - sum(one or 0.0 for one in dollars)
                call = RecordedCall(
                    0,
                    model_of(key, "anthropic"),
                    rest,
                    known if known > 0 and None not in dollars else None,
                    id=f"{UNSEEN} ({key})",
                )
                if recordings and answers.claim(f"{session}/{call.id}"):
                    yield unseen("claude-code", call, recordings[0])


def _exact(calls: list[RecordedCall], told: _Sum, begun: set[str]) -> list[RecordedCall]:
    """The calls of a model, all of which are told: with the output and dollars of its sum."""
    out = {call.id: call.usage.tokens_out for call in calls if call.usage}
    ends = [ident for ident in out if ident in begun]
    rest = told.usage.tokens_out - sum(out[ident] for ident in out if ident not in begun)
    if ends and rest >= len(ends):  # in the proportion of the estimates
        given = shares(rest, [max(1, out[ident]) for ident in ends])
        out |= dict(zip(ends, given, strict=True))
    exact = [
        replace(
            call,
            usage=replace(call.usage, tokens_out=out[call.id]),
            estimated=call.estimated and len(ends) > 1,
        )
        if call.usage
        else call
        for call in calls
    ]
    prices = [call.dollars for call in exact]
    listed = sum(one or 0.0 for one in prices)
    if not told.dollars or (None not in prices and isclose(listed, told.dollars, rel_tol=1e-6)):
        return exact
    weights = [
        one if listed and None not in prices else call.usage.tokens_in if call.usage else 0
        for one, call in zip(prices, exact, strict=True)
    ]
    share = sum(one or 0 for one in weights) or 1
    return [
        replace(call, cost=told.dollars * (one or 0) / share)
        for call, one in zip(exact, weights, strict=True)
    ]


def _rest(all_: Usage, used: Any) -> Usage:
    """Return what is left of a usage."""
    total = Usage(0, 0)
    for one in used:
        total = total.plus(one)
    return Usage(
        *(
            max(0, getattr(all_, key) - getattr(total, key))
            for key in ("tokens_in", "tokens_out", "tokens_cached", "tokens_written")
        )
    )


_EXTRA: Final = re.compile(r"^.*(?=claude-)|\[.*\]$|@.*$|(-v\d+)?(:\d+)?$|-20\d{6}")


def _plain(model: str) -> str:
    """Return a model without what its clouds and sizes of window add to its name."""
    return _EXTRA.sub("", model)
