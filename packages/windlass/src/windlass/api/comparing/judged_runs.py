"""A comparison that is running: a batch of every input under every policy, and a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.api._started_batch import StartedBatch
from windlass.api.batches.inputs import BatchInput
from windlass.api.batches.results import ResultsFile, read_results
from windlass.api.batches.workers import line_of
from windlass.api.comparing.comparison import (
    ComparedRun,
    Comparison,
    compare_runs,
    compared_runs,
    is_judged,
)
from windlass.api.comparing.judging import Judge, JudgeFunction, Judgement, is_outcome, judge_of
from windlass.cascade.policies import NamedPolicy, policy_of
from windlass.engine.events import Event, Noted
from windlass.errors import UsageError


def read_policies(policies: Sequence[str | Path] | Mapping[str, Any]) -> list[NamedPolicy]:
    """The policies that a user names. Raises UsageError for fewer than two, or the same twice."""
    listed = [policies] if isinstance(policies, str) else policies
    named = listed.items() if isinstance(listed, Mapping) else [(name, None) for name in listed]
    compared = [policy_of(name, auto) for name, auto in named]
    if not 2 <= len(compared) == len({each.name for each in compared}):  # noqa: PLR2004 - a pair
        raise UsageError("a comparison needs a list of at least two policies, each of them once")
    return compared


@dataclass(slots=True)
class ComparedBatch:
    """A batch that compares policies; the first is the baseline."""

    started: StartedBatch
    policies: Sequence[NamedPolicy]
    judge: str | JudgeFunction
    repeat: int
    margin: float
    _limited: bool = field(init=False, default=False)

    async def finish(self) -> Comparison:
        """Run and judge all that is not yet, and compute the comparison.

        Raises UsageError for a judge that does not exist, StoreError for results that cannot be
        written.
        """
        started = self.started
        rows = compared_runs(started.inputs, self.policies, self.repeat)
        cascades = {each.name: each.over(started.cascade) for each in self.policies}
        cascade, registry = started.cascade.cascade, started.cascade.registry
        # Resolved once before anything is written, and then so that what it costs is counted.
        judge_of(self.judge, cascade, registry.modules, started.call.resources.providers.resolve)
        work = started.open_results(rows, [*cascades.values()])
        judge = judge_of(self.judge, cascade, registry.modules, work.setup.resolve_shared)
        if "/" in judge.name:
            started.tell(Noted("", f"{judge.name} judges: it sees the inputs and the answers"))
        await self._judge_again(rows, work.results, judge)

        async def run_row(given: BatchInput, emit: Callable[[Event], None]) -> dict[str, Any]:
            assert isinstance(given, ComparedRun)
            result = await work.run(cascades[given.policy.name], given, emit)
            line = line_of(result)
            if result.status == "failed":
                line["again"] = not is_outcome(result.error)
            line["run"] = {"cost": line["cost"], "tokens": line["tokens"]}
            return line if is_judged(line, judge.name) else await self._judged(given, line, judge)

        result = await work.finish(run_row)
        lines = await asyncio.to_thread(lambda: [*read_results(started.out)])
        names = [each.name for each in self.policies]
        if self._limited:  # a judge's calls count against the limit of money only
            result = replace(result, reason="money")
        return compare_runs(result, lines, names, judge.name, self.margin)

    async def _judge_again(
        self, rows: Sequence[ComparedRun], results: ResultsFile, judge: Judge
    ) -> None:
        """Judge earlier runs that this judge has not judged; nothing is run for that."""
        places = asyncio.Semaphore(self.started.workers)

        async def again(line: dict[str, Any]) -> None:
            given = rows[line["row"] - 1]
            # What the run used is counted already, in the line that the file has.
            line |= {"cost": 0.0, "tokens": dict.fromkeys(line["tokens"], 0)}
            async with places:
                results.append(given, await self._judged(given, line, judge))

        lines = await asyncio.to_thread(lambda: [*read_results(self.started.out)])
        await asyncio.gather(*(again(each) for each in lines if not is_judged(each, judge.name)))

    async def _judged(
        self, given: ComparedRun, line: dict[str, Any], judge: Judge
    ) -> dict[str, Any]:
        """Return the line with the judgement, whose cost is part of its `cost`."""
        if line["status"] == "completed":
            said = await judge.judge(given.values, line)
        else:
            said = Judgement(score=False)
        self._limited = self._limited or said.limited
        spent = None if line["cost"] is None or said.cost is None else line["cost"] + said.cost
        verdict = {"score": said.score, "judge_cost": said.cost, "why": said.why}
        return {**line, "cost": spent, "judge": judge.name, **verdict}
