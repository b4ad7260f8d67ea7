"""Windows under injectors: does a block at the end of every call make them pay less?

Each recording is billed four times: everything and windows, each with and without a DYNAMIC block
(plan, lessons and goal) at the end of the last message of every call, which stays there as
history while its message is shown as it was. What blocks cost by themselves is what they add to
sending everything; windows should lose no more to them than that.

Run: `python -m bench.bench_blocks [--tokens 300] [--source NAME ...] [--every N]`, with
WINDLASS_DATA naming the folder that holds `trajectories/*.jsonl.gz`. Bills are divided by sending
everything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.windows.bill import VECTORS, Vector
from bench.windows.contestants import Contestant, Everything, Windlass
from bench.windows.measure import Bench
from bench.windows.recordings import SOURCES, Chat, Recording, data_folder, load

from windlass.injectors.plan import Plan, Step

CHARS_A_TOKEN = 4


class WithBlocks:
    """Another contestant's windows, each with a block at the end of its last message."""

    def __init__(self, inner: Contestant, tokens: int) -> None:
        self.by_price = inner.by_price
        self._inner = inner
        self._chars = tokens * CHARS_A_TOKEN
        self._blocks: dict[str, str] = {}
        self._calls = 0

    def begin(self, recording: Recording) -> None:
        """A new recording starts."""
        self._inner.begin(recording)
        self._blocks, self._calls = {}, 0

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        """The other's window, with the blocks of this call and of those before."""
        shown = self._inner.window(messages, new_from)
        self._calls += 1
        if shown and shown[-1]["role"] in {"user", "tool"}:
            self._blocks.setdefault(json.dumps(shown[-1]), self._block())
        return [self._added(chat) for chat in shown]

    def close(self) -> None:
        """No more recordings."""
        self._inner.close()

    def _block(self) -> str:
        """A plan that goes on from call to call, as long as is asked."""
        steps = tuple(
            Step(f"step {n} of the work in hand", "done" if n < self._calls else "pending")
            for n in range(1, 2 + self._calls)
        )
        plan = Plan("Bring the task to its end", steps)
        told = f"\n\n[Plan]\n{plan.told()}\n"
        lines = [f"- {step.text}: {step.status}\n" for step in reversed(steps)]
        return (told + "".join(lines) * (1 + self._chars // 40))[: self._chars]

    def _added(self, chat: Chat) -> Chat:
        block = self._blocks.get(json.dumps(chat))
        content: Any = chat.get("content")
        if block is None:
            return chat
        if isinstance(content, list):
            return {**chat, "content": [*content, {"type": "text", "text": block}]}
        return {**chat, "content": f"{content or ''}{block}"}


def bills(recording: Recording, vector: Vector, tokens: int) -> tuple[float, float, float, float]:
    """Everything and windows without blocks, then both with them, in fresh input tokens."""
    bench = Bench(recording)

    def billed(contestant: Contestant) -> float:
        return bench.run(contestant, [vector], "chat")[vector.name].bill

    plain = billed(Everything()), billed(Windlass("default", {}, vector))
    both = (
        billed(WithBlocks(Everything(), tokens)),
        billed(WithBlocks(Windlass("default", {}, vector), tokens)),
    )
    return *plain, *both


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=300, help="tokens of a block, about")
    parser.add_argument("--source", action="append", help=f"default: {', '.join(SOURCES)}")
    parser.add_argument("--every", type=int, default=4, help="measure each N-th recording only")
    asked = parser.parse_args()
    if not (data_folder() / "trajectories").is_dir():
        print(f"no recordings in '{data_folder()}/trajectories'; set WINDLASS_DATA")
        return 0
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * 4)
    for recording in load(data_folder(), asked.source or SOURCES, "all", asked.every):
        for vector in VECTORS:
            row = sums[vector.name, recording.source]
            for at, bill in enumerate(bills(recording, vector, asked.tokens)):
                row[at] += bill
    head = ("prices", "source", "windows", "with blocks", "blocks cost", "in windows")
    print(f"{head[0]:<10} {head[1]:<24}" + "".join(f"{name:>13}" for name in head[2:]))
    for (prices, source), (whole, windows, whole_too, windows_too) in sorted(sums.items()):
        told = (windows, windows_too, whole_too - whole, windows_too - windows)
        print(f"{prices:<10} {source:<24}" + "".join(f"{one / whole:>13.3f}" for one in told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
