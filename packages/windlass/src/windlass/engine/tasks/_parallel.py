"""Inputs worked on side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.engine.tasks.job import Done
from windlass.engine.tasks.task_inputs import Given
from windlass.errors import (
    StepDiffers,
    StoreError,
    WindlassError,
)


async def side_by_side(
    given: Sequence[Given],
    work: Callable[[int, Given], Awaitable[Done]],
    limit: int,
    ended: Callable[[int], None],
) -> tuple[list[Done | None], list[tuple[int, WindlassError]]]:
    """Run `work` on every input, at most `limit` at a time, begun in order.

    Returns the results in the order of the inputs, and what failed with its index. After a
    failure nothing new is begun; what is in flight is awaited. StoreError and StepDiffers stop
    everything.
    """
    results: list[Done | None] = [None] * len(given)
    failed: list[tuple[int, WindlassError]] = []
    todo = iter(range(len(given)))

    async def worker() -> None:
        for index in todo:
            if failed:
                return
            try:
                results[index] = await work(index, given[index])
            except (StoreError, StepDiffers):
                raise
            except WindlassError as error:
                failed.append((index, error))
            ended(index)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(given))):
                group.create_task(worker())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return results, failed
