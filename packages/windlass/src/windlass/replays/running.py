"""A replay from end to end: recordings one by one, or in several processes."""

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
from windlass.replays.pricing import PricesName, find_prices
from windlass.replays.replaying import ReplayOrder, replay_recording

_FEW: Final = 500
"""About as many calls are replayed in the time that a process takes to start."""
_AHEAD: Final = 2
"""Recordings that are read ahead for each process: a folder may be larger than the memory."""


def replay_all(
    recordings: Iterable[Recording],
    policies: tuple[ReplayPolicy, ...],
    prices: tuple[PricesName, ...],
    workers: int = 1,
    skipped: list[str] | None = None,
) -> Replay:
    """Return each recording under each policy at each of the prices.

    `skipped` are sentences about what is not replayed; those about recordings are added to it.
    Raises UsageError where nothing could be replayed.
    """
    skipped = [] if skipped is None else skipped
    assumed: dict[str, None] = {}
    replays: list[RecordingReplay] = []
    orders = (_order(recording, policies, prices, assumed) for recording in recordings)
    for replay in replay_in_processes(orders, workers):
        if isinstance(replay, str):
            skipped.append(replay)
        else:
            replays.append(replay)
    if not replays:
        raise UsageError(skipped[0] if skipped else "there is nothing to replay")
    dollars = [replay.recorded for replay in replays if replay.recorded is not None]
    return Replay(
        recordings=tuple(replays),
        totals=totals_of(replays),
        recorded=sum(dollars) if dollars else None,
        unknown=len(replays) - len(dollars),
        policies={policy.name: policy.policy.settings() for policy in policies},
        assumed=tuple(assumed),
        skipped=tuple(skipped),
    )


def _order(
    recording: Recording,
    policies: tuple[ReplayPolicy, ...],
    prices: tuple[PricesName, ...],
    assumed: dict[str, None],
) -> ReplayOrder:
    vectors = tuple(find_prices(one, recording.model) for one in prices)
    assumed |= {vector.assumed: None for vector in vectors if vector.assumed}
    return ReplayOrder(recording, policies, vectors, recording.dollars)


def replay_in_processes(
    orders: Iterable[ReplayOrder], workers: int
) -> Iterator[RecordingReplay | str]:
    """Replay the recordings in `workers` processes; the results come in the order of `orders`.

    Little work is done in this process.
    """
    rest, first, calls = iter(orders), list[ReplayOrder](), 0
    while workers > 1 and (len(first) < 2 or calls < _FEW):  # noqa: PLR2004 - one, or little work
        order = next(rest, None)
        if order is None:
            workers = 1
            break
        first.append(order)
        calls += len(order.recording.calls)
    if workers < 2:  # noqa: PLR2004
        yield from map(replay_recording, chain(first, rest))
        return
    # A process that is spawned, not forked, copies no thread or lock of this one.
    context = multiprocessing.get_context("spawn")
    try:
        yield from _spread(chain(first, rest), workers, context)
    except BrokenProcessPool as error:
        raise WindlassError(
            "a worker process was killed, perhaps for lack of memory; try --workers 1"
        ) from error


def _spread(
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
