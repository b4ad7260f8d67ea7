"""A replay from end to end: recordings one by one, over the cores where there are several."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing.context import SpawnContext
from typing import Final

from windlass.errors import UsageError, WindlassError
from windlass.importing.recording import Recording
from windlass.replays.named_policies import ReplayPolicy
from windlass.replays.outcomes import RecordingReplay, Replay, totals_of
from windlass.replays.pricing import PricesName, priced
from windlass.replays.replaying import ReplayOrder, replay_recording

_FEW: Final = 500
"""Calls that are replayed in the time that a process takes to start."""
_AHEAD: Final = 2
"""Recordings that wait for each process: a folder may be larger than the memory."""


def replay_all(
    recordings: Iterable[Recording],
    policies: tuple[ReplayPolicy, ...],
    prices: tuple[PricesName, ...],
    workers: int = 1,
    skipped: list[str] | None = None,
) -> Replay:
    """Each recording under each policy at each of the prices.

    `skipped` are sentences about what is not replayed; those about recordings are added.
    Raises UsageError where none could be replayed.
    """
    told = [] if skipped is None else skipped
    assumed: dict[str, None] = {}
    found: list[RecordingReplay] = []
    orders = (_order(recording, policies, prices, assumed) for recording in recordings)
    for replayed in in_processes(orders, workers):
        if isinstance(replayed, str):
            told.append(replayed)
        else:
            found.append(replayed)
    if not found:
        raise UsageError(told[0] if told else "there is nothing to replay")
    dollars = [one.recorded for one in found]
    known = [one for one in dollars if one is not None]
    return Replay(
        recordings=tuple(found),
        totals=totals_of(found),
        recorded=sum(known) if known else None,
        unknown=len(dollars) - len(known),
        policies={policy.name: policy.policy.settings() for policy in policies},
        assumed=tuple(assumed),
        skipped=tuple(told),
    )


def _order(
    recording: Recording,
    policies: tuple[ReplayPolicy, ...],
    prices: tuple[PricesName, ...],
    assumed: dict[str, None],
) -> ReplayOrder:
    vectors = tuple(priced(one, recording.model) for one in prices)
    assumed |= {vector.assumed: None for vector in vectors if vector.assumed}
    return ReplayOrder(recording, policies, vectors, recording.dollars)


def in_processes(orders: Iterable[ReplayOrder], workers: int) -> Iterator[RecordingReplay | str]:
    """The orders carried out, in their order, by so many processes at a time."""
    listed, first, calls = iter(orders), list[ReplayOrder](), 0
    while workers > 1 and (len(first) < 2 or calls < _FEW):  # noqa: PLR2004 - one, or little work
        order = next(listed, None)
        if order is None:
            workers = 1
            break
        first.append(order)
        calls += len(order.recording.calls)
    if workers < 2:  # noqa: PLR2004
        yield from map(replay_recording, chain(first, listed))
        return
    # Started anew, so that no thread or lock of this process is copied.
    context = multiprocessing.get_context("spawn")
    try:
        yield from _shared(chain(first, listed), workers, context)
    except BrokenProcessPool as error:
        raise WindlassError(
            "a process that replayed was killed, perhaps for its memory; try --workers 1"
        ) from error


def _shared(
    orders: Iterator[ReplayOrder], workers: int, context: SpawnContext
) -> Iterator[RecordingReplay | str]:
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = deque[Future[RecordingReplay | str]]()
        for order in orders:
            waiting.append(pool.submit(replay_recording, order))
            if len(waiting) > workers * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
