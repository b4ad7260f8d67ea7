"""What a text of 5 MB and two hundred runs at once cost: python -m bench.bench_limits.

Silence is the longest time in which nothing else got its turn on the event loop. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import random
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import windlass
from windlass.messages import Message, Text, ToolCall
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

CHARS = 5_000_000
RUNS = 200
FILES = 256
CASCADE: dict[str, Any] = {
    "cascade_id": "limits",
    "auto_context": {},
    "phases": [
        {"name": "look", "instructions": "Look.", "tackle": ["look", "set_state"]},
        {"name": "say", "instructions": "Say it."},
    ],
}


def words(chars: int) -> str:
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    found = ("".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(chars // 6))
    return " ".join(found)[:chars]


def answer(request: Request) -> Message | str:
    if request.messages[-1].text == "Look.":
        return Message("assistant", (Text(""),), (ToolCall("c1", "look", "{}"),))
    return "done"


async def run(store: Path, text: str) -> None:
    def look() -> str:
        """Look."""
        return text

    result = await windlass.run(
        CASCADE, model="s/x", providers={"s": Scripted(answer)}, tools=[look], store=store
    )
    assert result.status == "completed", result.error


async def silence(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The longest silence of the loop in seconds, and the processor time that the work took."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    began = time.process_time()
    await work()
    spent = time.process_time() - began
    watching.cancel()
    return longest, spent


async def measure(store: Path) -> list[tuple[str, float, float]]:
    await run(store, "little")  # imports are not what is measured
    text = words(CHARS)
    silent, spent = await silence(lambda: run(store, text))
    rows = [("5 MB of words: silence", silent, 0.2), ("5 MB of words: processor", spent, 2.0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    silent, _ = await silence(
        lambda: asyncio.gather(*(run(store, f"result {number}") for number in range(RUNS)))
    )
    return [*rows, (f"{RUNS} runs, {FILES} files: silence", silent, 1.0)]


def choose() -> float:
    data = base64.b64encode(random.Random(1).randbytes(CHARS * 3 // 4)).decode()
    asked = [{"role": "user", "content": "Which parser?"}, {"role": "user", "content": data}]
    windlass.select(asked[:1], "parser", max_tokens=100)
    began = time.process_time()
    windlass.select(asked, "parser", max_tokens=4_000)
    return time.process_time() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure(Path(folder)))
    rows.append(("select, 5 MB of base64: processor", choose(), 1.0))
    print("| measure | seconds | bound |\n|---|---|---|")
    for name, seconds, bound in rows:
        print(f"| {name} | {seconds:.2f} | {bound:.1f} |")


if __name__ == "__main__":
    main()
