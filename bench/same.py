"""Whether windows are what they were: hashes of all that is decided, against written ones.

Run: `python -m bench.same [--write] [--source NAME ...] [--every N]`, with WINDLASS_DATA naming
the folder that holds `trajectories/*.jsonl.gz` (default `../shared/data`). `--write` writes the
hashes of this commit to `bench/same.json`; without it they are compared, and what differs is
named. Exits with 1 where anything does.

Four hashes stand for a recording at each of three price vectors: `windows` (the messages of each
call), `marks` (where its cache marks are), `edits` (what became of each message and why, the
tokens saved, and the texts asked for), all by `Context`; and `ledger`, where the recording can be
played as a cascade: the requests and marks of its calls, the planner's decisions and the bill.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, closing
from dataclasses import asdict, is_dataclass
from inspect import Parameter, Signature
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from bench.scenarios.recorded import MODEL, Recorded, sessions_in
from bench.windows.contestants import Windlass
from bench.windows.recordings import SOURCES, Recording, data_folder, load

import windlass
from windlass.providers.scripted import Scripted
from windlass.replays.pricing import VECTORS, Vector
from windlass.wire.openai import to_openai

WRITTEN: Final = Path(__file__).parent / "same.json"
ALL_SOURCES: Final = (*SOURCES, "claude_code_share", "webvoyager")
KINDS: Final = ("windows", "marks", "edits", "ledger")
CALLS_A_PHASE: Final = 4
PHASES: Final = 3
LEAST_TOKENS: Final = 4_000
BILLED: Final = (
    *("phase_name", "node_type", "role", "cost", "tokens_in", "tokens_cached"),
    *("full_history_size", "context_size", "tokens_saved"),
)
"""Columns of `unified_logs` that say what was shown and what it cost."""


class Digest:
    """A hash over values, in the order they are added."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, value: object) -> None:
        """Add one value."""
        text = json.dumps(value, sort_keys=True, default=_plain)
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    def __str__(self) -> str:
        return self._hash.hexdigest()[:12]


def by_context(recording: Recording, vector: Vector) -> dict[str, str]:
    """Hashes of the windows that a `Context` makes, call by call."""
    contestant = Windlass("default", {}, vector)
    contestant.begin(recording)
    windows, marks, edits = Digest(), Digest(), Digest()
    before = 0
    for at in recording.calls:
        windows.add(contestant.window(recording.messages[:at], before))
        before = at
        window = contestant.context.window()
        marks.add((window.breakpoints, window.long_breakpoints))
        edits.add([asdict(entry) for entry in window.entries])
        edits.add((window.saved_tokens, window.assumed, [asdict(want) for want in window.wants]))
    return {"windows": str(windows), "marks": str(marks), "edits": str(edits)}


def by_cascade(session: Recorded, vector: Vector) -> str:
    """A hash of what a run of the session sent and decided, and of its bill."""
    replies = iter(session.replies)
    provider = Scripted(lambda _: next(replies), counts_as="gpt-4o")
    left = {key: iter(texts) for key, texts in session.results.items()}
    ledger = Digest()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        # Dollars a million tokens, a fresh one 1: the run plans at these prices.
        Path("windlass.toml").write_text(
            f'[prices."{MODEL}"]\ninput = 1.0\noutput = 5.0\n'
            f"cache_read = {vector.read}\ncache_write = {vector.write}\n",
            encoding="utf-8",
        )
        result = windlass.run_sync(
            session.cascade,
            {"task": session.task},
            store=".windlass",
            tools=[_tool(name, left) for name in sorted({name for name, _ in left})],
            providers={"scripted": provider},
        )
        ledger.add(str(result.error))
        for request in provider.requests:
            ledger.add([to_openai(message) for message in request.messages])
            ledger.add((request.breakpoints, request.long_breakpoints))
        for row in windlass.query_unified("1 = 1"):
            ledger.add({name: row[name] for name in BILLED})
        with closing(sqlite3.connect(".windlass/windlass.sqlite")) as db:
            stored = db.execute("SELECT details_json FROM calls ORDER BY number").fetchall()
        for (details,) in stored:
            decision = json.loads(details).get("planner") or {}
            ledger.add({name: decision[name] for name in sorted(decision) if name != "message_id"})
    return str(ledger)


def _can_be_played(session: Recorded) -> bool:
    """Whether Python functions can stand for its tools, and none has the name of one of ours."""
    keys = {key for _, text in session.results for key in json.loads(text)}
    ours = {"list_files", "read_file", "write_file", "run_sql", "recall", "web_search", "http_get"}
    return all(key.isidentifier() and not iskeyword(key) for key in keys) and not any(
        name in ours for name, _ in session.results
    )


def _tool(name: str, left: Mapping[tuple[str, str], Iterator[str]]) -> Callable[..., str]:
    """A function that gives what the recording's tool of that name gave, call by call."""

    def replay(**arguments: Any) -> str:
        said = {key: value for key, value in arguments.items() if value is not None}
        return next(left[name, json.dumps(said, sort_keys=True)], "")

    taken = sorted({key for tool, text in left if tool == name for key in json.loads(text)})
    parameters = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Any) for key in taken
    ]
    replay.__name__, replay.__doc__ = name, "A tool of the recording."
    replay.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    replay.__annotations__ = dict.fromkeys(taken, Any) | {"return": str}
    return replay


def hashes(task: tuple[Recording, Vector]) -> tuple[str, dict[str, str]]:
    """The name of a recording at a vector, and its hashes."""
    recording, vector = task
    found = by_context(recording, vector)
    sessions = sessions_in(recording, CALLS_A_PHASE, PHASES, least=LEAST_TOKENS)
    for session in filter(_can_be_played, sessions[:1]):
        found["ledger"] = by_cascade(session, vector)
    return f"{recording.source}/{recording.id}/{vector.name}", found


def hash_all(
    tasks: Iterable[tuple[Recording, Vector]], processes: int
) -> dict[str, dict[str, str]]:
    """The hashes of all tasks, by their names."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return dict(sorted(pool.imap_unordered(hashes, tasks)))


def compared(old: Mapping[str, Mapping[str, str]], new: Mapping[str, Mapping[str, str]]) -> int:
    """Print how many hashes of each kind are the same, and what differs; how many do.

    A recording without written hashes is counted apart: there is nothing to compare it with.
    """
    unwritten = new.keys() - old.keys()
    differing = 0
    print(f"{'':<10}{'same':>8}{'other':>8}")
    for kind in KINDS:
        written = [name for name in new if name not in unwritten]
        names = [name for name in written if kind in new[name] or kind in old[name]]
        other = [name for name in names if old[name].get(kind) != new[name].get(kind)]
        print(f"{kind:<10}{len(names) - len(other):>8}{len(other):>8}")
        for name in other[:10]:
            print(f"    {name}")
        differing += len(other)
    if unwritten:
        print(f"{len(unwritten)} have no written hashes (they are of each fourth recording)")
    return differing


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the hashes, or compare them with those that are written."""
    parser = argparse.ArgumentParser(prog="bench.same")
    parser.add_argument("--write", action="store_true", help="write the hashes of this commit")
    parser.add_argument("--source", nargs="+", default=ALL_SOURCES, help="the sources to hash")
    parser.add_argument("--every", type=int, default=4, help="only each so-manieth recording")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    recordings = load(data_folder(), options.source, every=options.every)
    tasks = ((recording, vector) for recording in recordings for vector in VECTORS)
    found = hash_all(tasks, options.processes)
    if options.write:
        WRITTEN.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        print(f"wrote the hashes of {len(found)} recordings and prices to {WRITTEN.name}")
        return 0
    return 1 if compared(json.loads(WRITTEN.read_text(encoding="utf-8")), found) else 0


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
