"""Tokens counted a second on recorded messages, beside characters / 4 for scale.

Run: `python bench/bench_tokens.py [FOLDER] [--messages 2000] [--json FILE]`, where
FOLDER holds `trajectories/*.jsonl.gz` (or set WINDLASS_DATA; default `../shared/data`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from windlass.errors import ProviderError
from windlass.messages import Message, assistant, system, user
from windlass.text.tokens import Counter, FamilyCounter
from windlass_local import MODEL, LocalProvider

MODELS = ("openai/gpt-4o", "anthropic/claude-sonnet-4-5", "openai/gpt-4")


@dataclass(frozen=True)
class Row:
    """Tokens of all messages by one counter, and messages and tokens counted a second."""

    counter: str
    tokens: int
    first_tokens_s: float
    first_messages_s: float
    again_messages_s: float


def recorded(folder: Path, number: int) -> list[Message]:
    """The first messages of each recording, evenly over the files."""
    files = sorted(folder.glob("trajectories/*.jsonl.gz"))
    each = -(-number // max(1, len(files)))
    return [message for file in files for message in islice(_messages(file), each)][:number]


def _messages(file: Path) -> Iterator[Message]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from filter(None, map(_message, json.loads(line).get("messages", ())))


def _message(told: dict[str, Any]) -> Message | None:
    """The message's text; the form of calls and pictures does not matter for speed."""
    content = told.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    if told.get("tool_calls"):
        content = f"{content or ''}\n{json.dumps(told['tool_calls'])}"
    if not content:
        return None
    make = {"system": system, "assistant": assistant}.get(told.get("role", ""), user)
    return make(content)


def _seconds(count: Callable[[Message], int], messages: Iterable[Message]) -> tuple[int, float]:
    began = time.perf_counter()
    total = sum(map(count, messages))
    return total, time.perf_counter() - began


def measure(name: str, counter: Counter, messages: list[Message]) -> Row:
    """One counter over all messages, twice."""
    counter.text("warm")  # loads the vocabulary
    total, first = _seconds(counter.message, messages)
    _, again = _seconds(counter.message, messages)
    return Row(name, total, total / first, len(messages) / first, len(messages) / again)


def by_length(messages: list[Message]) -> Row:
    """Characters / 4, the estimate that needs no vocabulary."""
    total, first = _seconds(lambda message: message.chars // 4, messages)
    speed = len(messages) / first
    return Row("characters / 4", total, total / first, speed, speed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("WINDLASS_DATA", "../shared/data")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--json", type=Path, help="write the table to this file as JSON")
    asked = parser.parse_args()
    messages = recorded(asked.folder, asked.messages)
    if not messages:
        print(f"no recordings in '{asked.folder}/trajectories'; give their folder or WINDLASS_DATA")
        return 0
    for message in messages:
        message.key  # noqa: B018 - hashed once for all counters, as in a running session
    rows = [by_length(messages)]
    rows += [measure(model, FamilyCounter(model), messages) for model in MODELS]
    try:
        counter = LocalProvider().model(MODEL).counter
        rows.append(measure("local/smollm2", counter, messages))
    except ProviderError as error:
        print(error, file=sys.stderr)
    print(f"{len(messages)} messages, {sum(m.chars for m in messages):,} characters")
    print(f"{'counter':28} {'tokens':>10} {'tokens/s':>12} {'messages/s':>11} {'again':>11}")
    for row in rows:
        print(
            f"{row.counter:28} {row.tokens:10,} {row.first_tokens_s:12,.0f}"
            f" {row.first_messages_s:11,.0f} {row.again_messages_s:11,.0f}"
        )
    if asked.json:
        table = [asdict(row) for row in rows]
        asked.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
