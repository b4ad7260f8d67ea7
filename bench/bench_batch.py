"""What a batch costs beside the same calls without Windlass: python -m bench.bench_batch.

The model answers after a moment, as a model far away does. The same calls without Windlass are
made by as many workers, each with the messages of its run so far. Silence is the longest time in
which nothing else got its turn on the event loop. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.bench_limits import silence

import windlass
from windlass.api.batches.workers import BatchEvent, BatchResult, RowEnded
from windlass.messages import Message, assistant, user
from windlass.providers.base import ModelInfo
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Reply, Request, Usage

RUNS = 1_000
CALLS = 4
WORKERS = 8
TOGETHER = 200
SECONDS = 0.05
"""Of one call of the model."""
A_CALL_MS = 20.0
TIMES = 1.3
GROWTH_MB = 20.0
"""What the memory of the second half of a batch may add; allocators are not exact."""


class Far:
    """A model that answers each call with the row that it is about, after a moment.

    Unlike `Scripted` it keeps no request.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = 0

    def model(self, name: str) -> ModelInfo:
        """The one model, whatever it is called."""
        return ModelInfo(
            f"far/{name}",
            200_000,
            FamilyCounter("gpt-4o"),
            sees_pictures=True,
            system_anywhere=True,
            free=True,
        )

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """Answer with the first thing that was asked."""
        self.calls += 1
        await asyncio.sleep(self.seconds)
        first = next(message.text for message in request.messages if message.role == "user")
        text = f"Of {first} " + "the pump in hall 7 was looked at. " * 10
        on_text(text)
        return Reply(assistant(text), Usage(1_000, 80), "stop", "far/m")

    async def close(self) -> None:
        """Nothing to let go of."""


def cascade(*, auto: bool) -> dict[str, Any]:
    asks = [f"Step {number}: look at it once more." for number in range(2, CALLS + 1)]
    asks = ["Row {{ input.row }}: {{ input.text }}", *asks]
    phases = [{"name": f"p{at}", "instructions": ask} for at, ask in enumerate(asks)]
    return {"cascade_id": "batch", "phases": phases, **({"auto_context": {}} if auto else {})}


def rows(count: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(1)
    for row in range(count):
        text = " ".join(f"value {chance.randrange(10_000)}" for _ in range(100))
        yield {"row": row, "text": text}


async def without(far: Far, count: int) -> None:
    """The same calls, by hand."""
    todo = rows(count)

    async def worker() -> None:
        for row in todo:
            messages: list[Message] = []
            for number in range(1, CALLS + 1):
                asked = f"Row {row['row']}: {row['text']}" if number == 1 else f"Step {number}."
                messages.append(user(asked))
                reply = await far.send(Request("m", tuple(messages), 1_024), lambda _: None)
                messages.append(reply.message)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


def resident_mb() -> float:
    """What this process has in memory now; where the system does not tell, the most it had."""
    status = Path("/proc/self/statm")
    if status.is_file():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def with_windlass(
    far: Far, folder: Path, count: int, workers: int, *, auto: bool
) -> tuple[BatchResult, list[float]]:
    """A batch, and the memory in MB as each row ended. `auto`: with `auto_context`."""
    folder.mkdir()
    memory: list[float] = []

    def watch(event: BatchEvent) -> None:
        if isinstance(event, RowEnded):
            memory.append(resident_mb())

    result = await windlass.batch(
        cascade(auto=auto),
        rows(count),
        out=folder / "results.jsonl",
        workers=workers,
        model="far/m",
        store=folder / "store",
        providers={"far": far},
        on_event=watch,
    )
    return result, memory


def mixed(result: BatchResult, count: int) -> int:
    """Rows that are lost, doubled, or answered with what belongs to another."""
    lines = [json.loads(line) for line in result.out.read_text().splitlines()]
    times = Counter(line["row"] for line in lines)
    wrong = sum(times[row] != 1 for row in range(1, count + 1))
    for line in lines:
        mine = f"Of Row {line['row'] - 1}: "
        texts = [*line["outputs"].values(), line["output"]]
        wrong += line["status"] != "completed" or not all(text.startswith(mine) for text in texts)
    wrong += len({line["session_id"] for line in lines}) != count
    return wrong


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, float, Any]:
    """The seconds that work takes, those of the processor, and what it comes to."""
    began, before = time.monotonic(), time.process_time()
    answer = await work()
    return time.monotonic() - began, time.process_time() - before, answer


async def measure(runs: int) -> list[tuple[str, float, float]]:
    """What was measured, and the most that it may be."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # Imports are not what is measured.
        await with_windlass(Far(0.0), folder / "warm", WORKERS, WORKERS, auto=True)
        bare, *_ = await timed(lambda: without(Far(SECONDS), runs))
        allowed = bare * TIMES + runs * CALLS * A_CALL_MS / 1e3
        told = [(f"{runs:,} runs of {CALLS} calls without Windlass: seconds", bare, bare)]
        for auto, name in ((False, "a batch"), (True, "a batch with auto_context")):
            far = Far(SECONDS)
            place = folder / f"long-{auto}"
            work = partial(with_windlass, far, place, runs, WORKERS, auto=auto)
            took, busy, (result, memory) = await timed(work)
            told += [
                (f"{name}: seconds", took, allowed),
                (f"{name}: processor, ms a call", busy * 1e3 / runs / CALLS, A_CALL_MS),
                (f"{name}: calls beyond those", far.calls - runs * CALLS, 0),
                (f"{name}: rows lost or mixed", mixed(result, runs), 0),
                (f"{name}: MB more at its end than at its half", grown(memory), GROWTH_MB),
            ]
        wide: list[BatchResult] = []

        async def together() -> None:
            place = folder / "wide"
            done, _ = await with_windlass(Far(SECONDS), place, TOGETHER, TOGETHER, auto=True)
            wide.append(done)

        silent, _ = await silence(together)
        return [
            *told,
            (f"{TOGETHER} runs at once: rows lost or mixed", mixed(wide[0], TOGETHER), 0),
            (f"{TOGETHER} runs at once: longest silence, seconds", silent, 1.0),
        ]


def grown(memory: list[float]) -> float:
    """The MB that the second half of a batch added."""
    return memory[-1] - memory[len(memory) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    measured = asyncio.run(measure(parser.parse_args().runs))
    print("| measure | value | bound |\n|---|---|---|")
    for name, value, bound in measured:
        print(f"| {name} | {value:.2f} | {bound:.2f} |")


if __name__ == "__main__":
    main()
