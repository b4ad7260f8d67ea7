"""Injectors: what they cost, and what of a session's prompts is read from the cache.

Two runs of a phase of 30 turns with every injector on, by the model on this machine, whose own
report says what was read from its cache: one as it is, and one with the values that change by
themselves put back into the system prompt (`"volatile": "in_place"`). Beside them the tokens of
each block at its cap.

Run: `python -m bench.bench_injectors [--attempts 15] [--put-back 15] [--json FILE]`. Counts of
tokens are exact; seconds are of this machine at this moment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import windlass
from windlass.errors import ToolError
from windlass.history.base import BANK, CallRecord
from windlass.history.sqlite import SqliteStore

MODEL = "local/smollm2"
BLOCK = 16
"""Tokens by which a call may differ: the runtime reads the last ones of a prefix anew."""

SYSTEM = (
    "You keep the books of a small shop. Answer in one sentence. It is {{ now }}, call {{ call }}"
    " of session {{ session_id }}."
)
FILES: Mapping[str, str] = {
    "skills/books/SKILL.md": (
        "---\nname: books\ndescription: Keep the books of a shop, look up days and sum them up\n"
        "---\nA day has its turnover and its returns. Sum up by week, in whole euros.\n"
    ),
    "knowledge/returns.md": "Returns of a day of the shop are booked on the day of the sale.",
    "knowledge/weeks.md": "A week of the books of the shop begins on a Monday and has six days.",
    "knowledge/days.md": "Look up each day of the shop by its number; the first one is day 1.",
    "playbooks/sums.md": (
        "---\nwhen: days of the books are looked up and summed up\n---\n"
        "Look up one day at a time.\n\nThen say what the week comes to.\n"
    ),
}
"""A folder with something for each injector that reads files."""

MEMORIES = {
    "tone": "Ann likes answers in one sentence.",
    "currency": "Sums are told in euros.",
    "closed": "The shop is closed on Sundays.",
}


@dataclass(frozen=True)
class Ran:
    """One run, summed over its calls but the first of each head.

    `sent` and `cached` are tokens as the model reported them, `expected` those that the request
    before or its reply held at the same place; `missed` is the largest difference of a call.
    `blocks` are the tokens of DYNAMIC blocks that were new. `largest` is the largest request.
    """

    run: str
    calls: int
    sent: int
    cached: int
    expected: int
    missed: int
    blocks: int
    largest: int
    largest_share: float
    seconds: float

    @property
    def share(self) -> float:
        """Cached of sent."""
        return self.cached / self.sent


def look_up(day: int) -> str:
    """Look up a day of the books.

    Args:
        day: Its number.
    """
    if day % 3 == 0:
        raise ToolError(f"day {day} was a Sunday")
    return f"day {day}: turnover {400 + day % 97} euros, {day % 7} returns"


def never(output: str) -> dict[str, Any]:
    """Refuses every output, so that the phase goes on."""
    del output
    return {"valid": False, "reason": "Look up one more day."}


def made(attempts: int, volatile: str) -> dict[str, Any]:
    """The cascade: a plan, memories, then attempts of two turns each."""
    tools = ["plan", "todo", "look_up", "look_again"]
    return {
        "cascade_id": "books",
        "system": SYSTEM,
        "memory": ["likes"],
        "max_output_tokens": 24,
        "injectors": {"volatile": volatile},
        "phases": [
            {
                "name": "prepare",
                "instructions": "Plan how to keep the books of the shop: look up days, sum up.",
                "tackle": ["plan"],
                "tool_choice": "plan",
                "max_output_tokens": 80,
                "rules": {"max_turns": 1},
            },
            {
                "name": "work",
                "instructions": "Look up the days of the books of the shop and sum them up.",
                "tackle": tools,
                "tool_choice": "look_up",
                "rules": {
                    "loop_until": "never",
                    "loop_until_silent": True,
                    "max_turns": 2,
                    "max_attempts": attempts,
                    "on_exhausted": "continue",
                },
            },
        ],
    }


def prepare(folder: Path) -> None:
    """Put files and memories where the injectors look."""
    from windlass.memory.banks import Banks

    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    ids = iter(range(1_000))
    with SqliteStore(folder / "store") as store:
        banks = Banks(store, time.time, lambda: f"{BANK}{next(ids)}")
        for key, text in MEMORIES.items():
            banks.remember("likes", text, key=key)


async def recorded(folder: Path, attempts: int, volatile: str) -> Sequence[CallRecord]:
    """The calls of a run in a folder of its own."""
    prepare(folder)
    result = await windlass.run(
        made(attempts, volatile),
        model=MODEL,
        store=folder / "store",
        root=folder,
        tools=[look_up, never],
    )
    if result.error is not None:
        raise result.error
    with SqliteStore.open_existing(folder / "store") as store:
        return store.calls(result.session_id)


def usage_of(folder: Path, session_calls: Sequence[CallRecord]) -> dict[str, tuple[int, int]]:
    """Tokens in and cached of each call, by its trace."""
    traces = {one.trace_id for one in session_calls}
    with SqliteStore.open_existing(folder / "store") as store:
        rows = store.query("SELECT trace_id, tokens_in, tokens_cached FROM unified_logs")
    return {
        str(row["trace_id"]): (int(row["tokens_in"]), int(row["tokens_cached"]))
        for row in rows
        if row["trace_id"] in traces
    }


def measured(name: str, folder: Path, calls: Sequence[CallRecord], seconds: float) -> Ran:
    """The figures of a run. The calls of its last phase count, but the first."""
    usage = usage_of(folder, calls)
    counted = calls[2:]
    told = [one.details.as_json()["cache"] for one in counted]
    sent = [usage[one.trace_id][0] for one in counted]
    cached = [usage[one.trace_id][1] for one in counted]
    at = sent.index(max(sent))
    return Ran(
        run=name,
        calls=len(counted),
        sent=sum(sent),
        cached=sum(cached),
        expected=sum(one["expected"] for one in told),
        missed=max(one["expected"] - got for one, got in zip(told, cached, strict=True)),
        blocks=sum(
            block["tokens"]
            for one in counted
            for block in one.details.as_json()["injectors"]["blocks"]
            if block["tier"] == "DYNAMIC"
        ),
        largest=sent[at],
        largest_share=cached[at] / sent[at],
        seconds=seconds,
    )


async def measure(moved: int, put_back: int) -> list[Ran]:
    """Both runs, of so many attempts each; none where it is 0."""
    runs = []
    for name, volatile, attempts in (
        ("moved", "move", moved),
        ("put back", "in_place", put_back),
    ):
        if not attempts:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder, began = Path(place), time.perf_counter()
            calls = await recorded(folder, attempts, volatile)
            runs.append(measured(name, folder, calls, time.perf_counter() - began))
            print_run(runs[-1])
    return runs


def print_run(one: Ran) -> None:
    print(
        f"{one.run:10} {one.calls:6} {one.sent:9,} {one.cached:9,} {one.share:7.1%}"
        f" {one.expected:9,} {one.missed:7} {one.blocks:8,} {one.largest:8,}"
        f" {one.largest_share:7.1%} {one.seconds:7.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=15, help="of two turns each")
    parser.add_argument(
        "--put-back", type=int, help="attempts of the run that reads all anew (default: as many)"
    )
    parser.add_argument("--json", type=Path, help="write the table to this file as JSON")
    asked = parser.parse_args()
    print(
        f"{'values':10} {'calls':>6} {'sent':>9} {'cached':>9} {'share':>7} {'expected':>9}"
        f" {'missed':>7} {'blocks':>8} {'largest':>8} {'of it':>7} {'s':>7}"
    )
    put_back = asked.attempts if asked.put_back is None else asked.put_back
    runs = asyncio.run(measure(asked.attempts, put_back))
    if asked.json:
        told = [asdict(one) for one in runs]
        asked.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
