"""Choosing from history: how much of the evidence is found within a budget, and how fast.

Run: `python -m bench.bench_select [CONTESTANT ...] [--set NAME ...] [--every N] [--speed]
[--json FILE]`, with WINDLASS_DATA naming the folder that holds `memory/*.jsonl.gz` (default
`../shared/data`).

For each question with evidence labels: the share of the evidence messages, and of their
tokens, among what is chosen within 500, 1,000, 2,000 and 4,000 tokens (characters / 4, and 4
a message). Messages are `speaker: text`; only those before the question count. `irc far` are
the questions whose evidence lies outside the newest 500 tokens. `irc-plain`, `agents` and
`...-led` are made (`bench/choosing/sets.py`). `--every N` takes each N-th question of a set.
`--speed` measures selections over 1,000 to 100,000 cards instead, the index ready, and the
making of cards and index.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from bench.choosing.contestants import CONTESTANTS, make
from bench.choosing.measure import BUDGETS, run
from bench.choosing.sets import SETS, sampled
from bench.windows.recordings import data_folder

from windlass.errors import UsageError
from windlass.messages import assistant, user
from windlass.selection.index import Index, Query
from windlass.selection.making import card_of
from windlass.selection.options import Selection
from windlass.selection.scoring import SelectionRequest, score
from windlass.selection.vectors import WordLlamaEmbedder, installed
from windlass.text.tokens import size_up
from windlass.window.entries import Item

SIZES = (1_000, 10_000, 100_000)


def shares(names: Sequence[str], sets: Sequence[str], every: int) -> list[dict[str, Any]]:
    """The rows of the table: contestant by set."""
    rows: list[dict[str, Any]] = []
    samples = {name: list(sampled(SETS[name](data_folder()), every)) for name in sets}
    for name in names:
        try:
            contestant = make(name)
        except UsageError as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
            continue
        for set_name in sets:
            try:
                scores = run(contestant, samples[set_name])
            except UsageError as error:
                print(f"{name}: skipped, {error}", file=sys.stderr)
                break
            parts = ("far", "all") if set_name == "irc" else ("all",)
            for part in parts:
                if part in scores:
                    title = f"irc {part}" if set_name == "irc" else set_name
                    told = {"contestant": name, "set": title}
                    rows.append({**told, **scores[part].row()})
                    print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    told = f"{row['contestant']:16} {row['set']:10} {row['questions']:6}  "
    told += "  ".join(f"{share:.3f}" for share in row["messages"]) + "   "
    told += "  ".join(f"{share:.3f}" for share in row["tokens"])
    told += f"  {row['ms']:7.2f}"
    if "menu" in row:
        told += "   of the menu's best: "
        pairs = zip(row["tokens"], row["menu"], strict=True)
        told += "  ".join(f"{found / best:.3f}" if best else "-" for found, best in pairs)
    return told


def speed(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Milliseconds of a selection over so many cards, by strategy, and to make card and index."""
    rows: list[dict[str, Any]] = []
    chance = random.Random(1)
    words = [f"word{number}" for number in range(20_000)]
    # Common words and rare ones, as Zipf has them.
    weights = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    strategies = ["heuristic", *(["semantic", "hybrid"] if installed() else [])]
    for size in sizes:
        texts = [" ".join(chance.choices(words, cum_weights=weights, k=20)) for _ in range(size)]
        index, began = Index(), time.perf_counter()
        for number, text in enumerate(texts):
            message = user(text) if number % 2 else assistant(text)
            item = Item(f"m{number}", message, message.role)
            tokens = size_up(message)
            index.append(item, tokens, card_of(item, tokens))
        making = (time.perf_counter() - began) / size * 1e6
        for strategy in strategies:
            embedder = None if strategy == "heuristic" else WordLlamaEmbedder()
            took: list[float] = []
            for run_number in range(21):
                task = Query.of(" ".join(chance.choices(words, cum_weights=weights, k=12)))
                options = Selection(strategy=strategy, max_tokens=4_000)  # type: ignore[arg-type]
                began = time.perf_counter()
                score(SelectionRequest(index, task, options, embedder)).pick()
                if run_number:  # the first embeds what is new
                    took.append(time.perf_counter() - began)
            row = {"cards": size, "strategy": strategy, "ms": round(1000 * median(took), 2)}
            row |= {"worst_ms": round(1000 * max(took), 2), "making_us": round(making, 1)}
            rows.append(row)
            print(
                f"{size:8,} {strategy:10} {row['ms']:8.2f} ms  worst {row['worst_ms']:8.2f} ms"
                f"   making a card, indexed: {row['making_us']} us",
                flush=True,
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contestants", nargs="*", default=list(CONTESTANTS))
    parser.add_argument("--set", action="append", choices=SETS, help="default: all")
    parser.add_argument("--every", type=int, default=1, help="each N-th question of a set")
    parser.add_argument("--speed", action="store_true", help="time selections instead")
    parser.add_argument("--json", type=Path, help="write the rows to this file as JSON")
    asked = parser.parse_args()
    if unknown := [name for name in asked.contestants if name not in CONTESTANTS]:
        parser.error(f"unknown contestant {unknown[0]!r}; known: {', '.join(CONTESTANTS)}")
    if asked.speed:
        rows = speed(SIZES)
    elif not (data_folder() / "memory").is_dir():
        print(f"no conversations in '{data_folder()}/memory'; set WINDLASS_DATA")
        return 0
    else:
        heads = "  ".join(f"{budget:5}" for budget in BUDGETS)
        print(f"{'':35}share of messages within      share of their tokens")
        print(f"{'contestant':16} {'set':10} {'asked':>6}  {heads}   {heads}       ms")
        rows = shares(asked.contestants, asked.set or list(SETS), asked.every)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
