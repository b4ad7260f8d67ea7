"""Prints where the package is, and a hash of the windows of each of many conversations.

    python -m tests_apart.compiled.windows

Conversations are recorded and made up, for several models and options. Behind the first line
all are the same, whether the package is compiled or not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.bench_windows_speed import conversation as worked
from tests.window.conversations import conversation

import windlass
from windlass.window import course
from windlass.window.profiles import PROFILES
from windlass.wire.openai import to_openai

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "tau2_retail.json"
MODELS = (None, "anthropic/claude-sonnet-4-5", "openai/gpt-5")
OPTIONS: tuple[dict[str, Any], ...] = (
    *({"profile": name} for name in PROFILES),
    {"decay": True, "fold_after": 3, "fold_subtasks": True, "compress_loops": True},
    {"shorten_arguments": True, "reasoning_max_chars": 500, "keep_recent_images": 1},
    {"mask_observations_after": 2, "compress": True, "expand": True, "max_input_tokens": 5_000},
)


def conversations() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each with its name: as agents have them, of made-up kinds, and one that was recorded."""
    yield "recorded", json.loads(RECORDED.read_text(encoding="utf-8"))["messages"]
    for seed in range(3):
        yield f"worked {seed}", worked(30 + 10 * seed, 1_000 + 2_000 * seed, seed)
    for seed in range(12):
        numbers = [seed * 1_009 + turn * 7_919 for turn in range(4 + 2 * seed)]
        yield f"made {seed}", [to_openai(one) for one in conversation(numbers)]


def shown(
    messages: list[dict[str, Any]], options: dict[str, Any], model: str | None
) -> Iterator[str]:
    """Each window of a growing conversation, with why its messages are as they are, as JSON."""
    context = windlass.Context(model, options, recall=True)
    for message in messages:
        if message["role"] == "assistant":
            window = context.window()
            told = [(one.id, one.action, one.reason, one.tokens_after) for one in window.entries]
            yield json.dumps([window.messages, told, window.breakpoints, window.assumed])
            if window.wants:
                context.supply(window.wants[0].key, "What was done so far, in few words.")
        context.append(message)


def main() -> None:
    """Print the lines."""
    print(course.__file__)
    for name, messages in conversations():
        for model in MODELS:
            for options in OPTIONS:
                found = hashlib.sha256()
                for window in shown(messages, options, model):
                    found.update(window.encode())
                print(name, model, json.dumps(options), found.hexdigest())


if __name__ == "__main__":
    main()
