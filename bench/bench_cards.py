"""What cards cost a run: how much later a turn goes on because cards are made beside it.

    python -m bench.bench_cards [--turns N] [--rounds N] [--json FILE]

A run is played in which the model answers after 20 ms: each turn has a reply of 2,000 characters
and a tool result of 4,000 (every tenth of 40,000). Measured are, in milliseconds: how long an
append takes, by the clock and by the processor; how much later than it should the run goes on
after its wait; and, by the processor, how long the worker holds the event loop before giving it
back (the most that a turn waits for it on an idle machine). Once without cards, once with the
worker beside, in turns. A SQLite store in a scratch folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from statistics import quantiles
from typing import Any

from windlass.engine.cards.card_queue import LINGER_S, CardQueue
from windlass.engine.cards.maker import CardMaker
from windlass.history.base import Batch, NodeType, Row, SessionStart
from windlass.history.card_rows import CardMarks
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, assistant, tool
from windlass.selection.options import CardOptions
from windlass.selection.vectors import WordLlamaEmbedder, installed
from windlass.text.tokens import size_up

WAIT_S = 0.02
_WORDS = [f"word{number}" for number in range(2_000)] + [f"src/m{n}.py:{n}" for n in range(200)]


def text(chance: random.Random, chars: int) -> str:
    """Words and names, so many characters of them."""
    said = " ".join(chance.choices(_WORDS, k=chars // 6))
    return said[:chars]


def row(message: Message, number: int) -> Row:
    node = NodeType.TOOL_RESULT if message.role == "tool" else NodeType.FOLLOW_UP
    return Row(node, f"t{number}", time.time(), message, phase="bench", turn=number)


async def play(folder: Path, turns: int, *, cards: bool) -> dict[str, list[float]]:
    """One run; milliseconds of each append, and of each delay."""
    chance = random.Random(7)
    took: dict[str, list[float]] = {"append": [], "append, processor": [], "late": []}
    held: list[float] = []
    asyncio.get_running_loop().set_task_factory(_timed(held))
    with SqliteStore(folder) as store:
        store.append(Batch("s", start=SessionStart("bench", "x", {}, {}, time.time())))
        maker = CardMaker(
            CardOptions(),
            summariser=None,
            embedder=WordLlamaEmbedder if installed() else None,
        )
        marks = CardMarks({}, {})
        queue = CardQueue(
            store, maker, "s", count=size_up, marks=lambda: marks, record=lambda _: None
        )

        async def beside() -> None:
            while True:
                await queue.make_waiting()
                await queue.arrived.wait()
                await asyncio.sleep(LINGER_S)

        task = asyncio.create_task(beside()) if cards else None
        await asyncio.sleep(0.5)
        for turn in range(turns):
            due = time.perf_counter() + WAIT_S
            await asyncio.sleep(WAIT_S)
            began = time.perf_counter()
            took["late"].append(1_000 * (began - due))
            size = 40_000 if turn % 10 == 9 else 4_000
            result = tool("c", text(chance, size), name="look")
            for said in (assistant(text(chance, 2_000)), result):
                began, used = time.perf_counter(), time.thread_time()
                store.append(Batch("s", rows=[row(said, len(took["append"]))]))
                took["append"].append(1_000 * (time.perf_counter() - began))
                took["append, processor"].append(1_000 * (time.thread_time() - used))
                queue.arrived.set()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            took["loop held, processor"] = held
            print(f"    {len(store.cards('s')):,} of {2 * turns:,} cards made meanwhile")
    return took


def _timed(held: list[float]) -> Any:
    """A task factory that notes how long each step of a task takes, by the processor."""

    class Steps(Coroutine[Any, Any, Any]):
        def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
            self.inner = inner

        def send(self, value: Any) -> Any:
            began = time.thread_time()
            try:
                return self.inner.send(value)
            finally:
                held.append(1_000 * (time.thread_time() - began))

        def throw(self, *error: Any) -> Any:
            return self.inner.throw(*error)

        def close(self) -> None:
            self.inner.close()

        def __await__(self) -> Any:
            return self.inner.__await__()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Any:
        return asyncio.Task(Steps(work), loop=loop, **more)

    return make


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to this file as JSON")
    asked = parser.parse_args()
    all_took: dict[str, dict[str, list[float]]] = {"without": {}, "with": {}}
    for _ in range(asked.rounds):
        for name, cards in (("without", False), ("with", True)):
            with tempfile.TemporaryDirectory() as folder:
                took = asyncio.run(play(Path(folder), asked.turns, cards=cards))
            for what, times in took.items():
                all_took[name].setdefault(what, []).extend(times)
    rows: list[dict[str, Any]] = []
    print(f"{'cards':8} {'measured':20} {'median':>9} {'95 %':>9} {'most':>9}   milliseconds")
    for name, measured in all_took.items():
        for what, times in measured.items():
            cuts = quantiles(times, n=20)
            told = {
                "cards": name,
                "measured": what,
                "p50": cuts[9],
                "p95": cuts[18],
                "most": max(times),
            }
            rows.append(told)
            numbers = " ".join(f"{told[key]:9.2f}" for key in ("p50", "p95", "most"))
            print(f"{name:8} {what:20} {numbers}")
    p95 = {(one["cards"], one["measured"]): one["p95"] for one in rows}
    for what in ("append", "append, processor", "late"):
        added = p95["with", what] - p95["without", what]
        print(f"added at the 95th percentile, {what}: {added:+.2f} ms")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
