"""What tests of importing odd files build their cases of; others use it, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.importing.making import DATA
from tests.support.importing_agents import AGENTS
from tests.support.importing_exchanges import (
    ASKED,
    GOT,
    META,
    TURN,
    anthropic_log,
    chat_log,
    counted,
    item,
    rollout,
    spent,
)
from tests.support.importing_otel import export, spans
from tests.support.importing_reading import with_requests


def _lines(name: str) -> list[Any]:
    text = (DATA / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


FILES: dict[str, Callable[[], list[Any]]] = {
    **AGENTS,
    "claude": lambda: _lines("claude_code.jsonl"),
    "requests": lambda: with_requests().records,
    "mini": lambda: [json.loads((DATA / "mini_swe_agent.traj.json").read_text())],
    "swe": lambda: [json.loads((DATA / "swe_agent.traj").read_text())],
    "chat": chat_log,
    "anthropic": anthropic_log,
    "otel": lambda: [export(*spans(as_text=False))],
    "codex": lambda: rollout(
        META,
        TURN,
        item("user", "Go."),
        ASKED,
        ("token_usage_record", {"response_id": "r1", "usage": spent(100, 60)}),
        GOT,
        item("assistant", "done"),
        counted(120, 220),
        ("compacted", {"message": "Short.", "replacement_history": [item("user", "x")[1]]}),
        item("assistant", "more"),
    ),
}
