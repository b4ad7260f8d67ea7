"""What windows cost in time and memory, beside the calls of a loop that they are made for.

    python bench/bench_windows_speed.py [--json FILE] [--profile NAME] [--model MODEL]
        [--recording FILE:PLACE]

A conversation of an agent grows turn by turn: a reply with a call, and its result. Results are
of 5 KB on the average (0.5 to 12.5 KB) and of the kinds that recorded agents get: logs, source
files, search results, listings, JSON. They tell of one made-up repository, so that they say
the same names again as recordings do: about 90 names in 5 KB, half of them new (recordings:
80 to 110, a third to two thirds new). Measured in milliseconds, of the processor and by the
clock, for lengths of 10 to 1,000 turns: `bound` of the whole list where nothing is known of
it; `Context.append` and `window` at each call; `bound` of the growing list at each call, with
its memo. Of each call the least of three times is taken, on the same conversation with other
digits, so that nothing is known of its texts and what else the machine does does not count;
the median is over the last quarter of the calls. Memory is what a context holds besides the
messages. `--recording` measures a recording in their place: the
one at PLACE, from 0, of a gzipped file of JSON lines (`longest`: that of most characters).
`--model` plans at the prices of a model's cache, by which edits wait: without one there is no
cache, and each is made at once. The first line names the Python that runs it: one that was built
with profile-guided optimisation, as distributions do it, takes about a sixth less.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from platform import python_version
from typing import Any, Final, TypeAlias

import windlass
from windlass.context.bound import forget

CASES = ((10, 5_000), (100, 5_000), (200, 5_000), (1_000, 2_000))
"""Turns, and characters a turn on the average: 1 MB at 200 turns, 2 MB at 1,000."""
RUNS: Final = 3
"""Times that each case is measured."""
_Timed: TypeAlias = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Speed:
    """Milliseconds (median and 95th percentile a call) and megabytes of one case.

    By the processor's time; `clock` is the median of `incremental` by the clock.
    """

    turns: int
    megabytes: float
    first: float
    incremental: float
    incremental_p95: float
    clock: float
    stateless: float
    stateless_p95: float
    memory: float


_WORDS = [
    "the",
    "request",
    "was",
    "read",
    "and",
    "its",
    "answer",
    "kept",
    "while",
    "waiting",
    "for",
    "a",
    "free",
    "worker",
    "of",
    "this",
    "pool",
    "so",
    "that",
    "no",
    "other",
    "can",
    "take",
    "it",
    "before",
    "all",
    "is",
    "written",
]
_STEMS = [
    "user",
    "order",
    "cache",
    "index",
    "parser",
    "token",
    "queue",
    "field",
    "layer",
    "model",
    "batch",
    "event",
    "route",
    "store",
    "merge",
    "limit",
    "window",
    "result",
    "config",
    "header",
    "widget",
    "cursor",
    "socket",
    "signal",
    "filter",
    "schema",
    "render",
    "digest",
]
_VERBS = [
    "get",
    "set",
    "load",
    "save",
    "find",
    "make",
    "read",
    "drop",
    "push",
    "check",
    "close",
    "open",
    "parse",
    "build",
    "send",
    "sync",
]


class _Repository:
    """A made-up repository, and what tools show of it."""

    def __init__(self, seed: int) -> None:
        self._rnd = rnd = random.Random(seed)
        self._paths = [
            f"src/{rnd.choice(_STEMS)}s/{rnd.choice(_STEMS)}_{rnd.choice(_STEMS)}{at}.py"
            for at in range(400)
        ]

    def _path(self) -> str:
        return self._rnd.choice(self._paths)

    def _words(self, count: int) -> str:
        return " ".join(self._rnd.choices(_WORDS, k=count))

    def _name(self) -> str:
        rnd = self._rnd
        return f"{rnd.choice(_VERBS)}_{rnd.choice(_STEMS)}_{rnd.choice(_STEMS)}"

    def log(self, chars: int) -> str:
        """Output of a program: lines with a time, some with what they are about."""
        told = []
        for at in range(chars // 60):
            about = (f" job-{self._rnd.randrange(10**6)}", f" in {self._path()}", "", "", "")
            clock = f"12:{at // 600 % 60:02}:{at // 10 % 60:02}"
            told.append(f"{clock} INFO {self._words(8)}{self._rnd.choice(about)}")
        return "\n".join(told)

    def source(self, chars: int) -> str:
        """A file with the numbers of its lines."""
        rnd, told = self._rnd, []
        own = [self._name() for _ in range(6)]
        for at in range(1, chars // 40 + 2):
            name, stem = rnd.choice(own), rnd.choice(_STEMS)
            line = rnd.choice(
                (
                    f"def {name}({stem}, limit):",
                    f"    if {stem} is None:",
                    f"        return self.{stem}.{name}()",
                    f"    # {self._words(7)}",
                    f"    {stem} = {self._name()}(other, limit={rnd.randrange(99)})",
                    "",
                )
            )
            told.append(f"{at:6}\t{line}")
        return "\n".join(told)

    def search(self, chars: int) -> str:
        """Lines that a search found, each with its file and number."""
        told: list[str] = []
        while sum(map(len, told)) < chars:
            path, first = self._path(), self._rnd.randrange(300)
            told += [
                f"{path}:{first + 7 * at}:    {self._words(4)} {self._name()}("
                for at in range(self._rnd.randrange(1, 6))
            ]
        return "\n".join(told)

    def listing(self, chars: int) -> str:
        """Paths of the repository."""
        return "\n".join(sorted(self._rnd.sample(self._paths, min(chars // 28, 400))))

    def records(self, chars: int) -> str:
        """JSON of a service."""
        rnd = self._rnd
        rows = [
            {
                "id": f"ord_{rnd.randrange(10**8)}",
                "status": rnd.choice(("open", "paid", "sent")),
                "note": self._words(6),
                "total": rnd.randrange(9_999),
            }
            for _ in range(chars // 95)
        ]
        return json.dumps(rows)

    def result(self, chars: int) -> tuple[str, dict[str, str], str]:
        """A tool, its arguments, and what it returned."""
        path, name = self._path(), self._name()
        return self._rnd.choice(
            (
                lambda: ("bash", {"command": f"make test FILE={path}"}, self.log(chars)),
                lambda: ("bash", {"command": f"cat -n {path}"}, self.source(chars)),
                lambda: ("read_file", {"path": path}, self.source(chars)),
                lambda: ("grep", {"pattern": name}, self.search(chars)),
                lambda: ("list_files", {"path": "src"}, self.listing(chars)),
                lambda: ("list_orders", {"customer": f"cus_{chars}"}, self.records(chars)),
            )
        )()


def conversation(turns: int, chars: int, seed: int) -> list[dict[str, Any]]:
    """A system prompt, a task, and `turns` of a reply with a call and its result."""
    rnd = random.Random(seed)
    repository = _Repository(seed)
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "You repair programs. " * 200},
        {"role": "user", "content": f"Find out why job {seed} fails."},
    ]
    for turn in range(turns):
        size = int(chars * rnd.choice((0.1, 0.4, 1, 1, 2.5)))
        name, arguments, text = repository.result(size)
        call = {"name": name, "arguments": json.dumps(arguments)}
        said += [
            {
                "role": "assistant",
                "content": f"Next I look at step {turn}. " * rnd.randrange(1, 12),
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": text},
        ]
    return said


def _ms(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return (clock() - start) * 1_000


def _recorded(where: str) -> list[dict[str, Any]]:
    """The messages of a recording: `FILE:PLACE`, from 0, or `FILE:longest`."""
    path, _, place = where.rpartition(":")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        runs = [json.loads(line)["messages"] for line in file]
    return max(runs, key=lambda run: len(str(run))) if place == "longest" else runs[int(place)]


def _renamed(said: list[dict[str, Any]], way: int) -> list[dict[str, Any]]:
    """The same with other digits (but for 0) in results and arguments, in one of nine ways.

    What was worked out before is of no use for it, and it takes as long.
    """
    digits = "".join(str((at + way) % 9 + 1) for at in range(9))
    moved = str.maketrans("123456789", digits)

    def call(one: dict[str, Any]) -> dict[str, Any]:
        function = one["function"]
        return {
            **one,
            "function": {**function, "arguments": function["arguments"].translate(moved)},
        }

    def message(one: dict[str, Any]) -> dict[str, Any]:
        if one["role"] == "tool" and isinstance(one["content"], str):
            return {**one, "content": one["content"].translate(moved)}
        calls = one.get("tool_calls")
        return {**one, "tool_calls": list(map(call, calls))} if calls else one

    return list(map(message, said))


def _incremental(said: list[dict[str, Any]], profile: str, model: str | None) -> _Timed:
    """`append` and `window` of each call: by the processor, and by the clock."""
    context = windlass.Context(model, policy=profile, way_back="")

    def step(new: list[dict[str, Any]]) -> None:
        for message in new:
            context.append(message)
        context.window()

    own: list[float] = []
    clock: list[float] = []
    for begin, end in pairwise(_calls(said)):
        start = time.perf_counter()
        own.append(_ms(lambda a=begin, b=end: step(said[a:b])))  # type: ignore[misc]
        clock.append((time.perf_counter() - start) * 1_000)
    return own, clock


def _stateless(said: list[dict[str, Any]], profile: str, model: str | None) -> list[float]:
    """`bound` of the list as it is at each call."""
    return [
        _ms(lambda at=at: windlass.bound(said[:at], model, policy=profile, way_back=""))  # type: ignore[misc]
        for at in _calls(said)[1:]
    ]


def _first(said: list[dict[str, Any]], profile: str, model: str | None) -> float:
    """`bound` of the whole list, of which nothing is known."""
    gc.collect()
    forget()
    return _ms(lambda: windlass.bound(said, model, policy=profile, way_back=""))


def _held(said: list[dict[str, Any]], profile: str, model: str | None) -> float:
    """Megabytes that a context holds beside the messages."""
    gc.collect()
    tracemalloc.start()
    context = windlass.Context(model, policy=profile, way_back="")
    for message in said:
        context.append(message)
    context.window()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return held


def measured(said: list[dict[str, Any]], profile: str, model: str | None) -> Speed:
    """One case: of each call the least of `RUNS` times, with other texts each time."""
    megabytes = sum(len(str(one.get("content"))) for one in said) / 1e6
    turns = sum(one["role"] == "assistant" for one in said)
    ways = [[_renamed(said, RUNS * kind + run) for run in range(RUNS)] for kind in range(3)]
    first = min(_first(one, profile, model) for one in ways[0])
    timed = [_incremental(one, profile, model) for one in ways[1]]
    own = _least([times for times, _ in timed])
    clock = _least([times for _, times in timed])
    whole = _least([_stateless(one, profile, model) for one in ways[2]])
    memory = _held(said, profile, model)
    # The last quarter: what a call costs at that length.
    last = max(5, len(own) // 4)
    own, whole, clock = own[-last:], whole[-last:], clock[-last:]
    return Speed(
        turns,
        megabytes,
        first,
        statistics.median(own),
        _p95(own),
        statistics.median(clock),
        statistics.median(whole),
        _p95(whole),
        memory,
    )


def _least(runs: Sequence[Sequence[float]]) -> list[float]:
    """Of each call its least time: what else the machine does makes it longer, never shorter."""
    return [min(times) for times in zip(*runs, strict=True)]


def _calls(said: list[dict[str, Any]]) -> list[int]:
    """How many messages each call sees, from 0 on: it is asked for before each reply."""
    replies = [at for at, one in enumerate(said) if one["role"] == "assistant"]
    return [0, *(at for at in replies if at), len(said)]


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What windows cost in time and memory.")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--model", help="provider/model (default: none, and so no cache)")
    parser.add_argument("--recording", metavar="FILE:PLACE")
    given = parser.parse_args()
    windlass.bound(
        conversation(3, 3_000, 0), given.model, policy=given.profile, way_back=""
    )  # imports
    if given.recording:
        cases = [_recorded(given.recording)]
    else:
        cases = [conversation(turns, chars, turns * 10) for turns, chars in CASES]
    rows = []
    print(f"Python {python_version()}")
    print("               ms            a call, ms: median / p95                   MB")
    print("turns    MB    first bound   incremental   (clock)    stateless         memory")
    for said in cases:
        row = measured(said, given.profile, given.model)
        rows.append(asdict(row))
        print(
            f"{row.turns:5} {row.megabytes:5.2f} {row.first:14.1f}"
            f"   {row.incremental:5.2f} / {row.incremental_p95:5.2f}   {row.clock:5.2f}"
            f"   {row.stateless:5.2f} / {row.stateless_p95:5.2f} {row.memory:13.1f}",
            flush=True,
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
