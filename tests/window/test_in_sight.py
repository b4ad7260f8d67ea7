"""Invented outputs of programs: the texts that an agent needs next are in view when it is born."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import windlass

OUTPUTS = Path(__file__).parent.parent / "data/outputs.jsonl.xz"
MODEL = "anthropic/claude-sonnet-5-5"


@cache
def outputs() -> list[dict[str, Any]]:
    """The cases: a command, its task, what it printed, and the needles in that."""
    return [json.loads(line) for line in lzma.open(OUTPUTS, "rt", encoding="utf-8")]


def shown(case: dict[str, Any], policy: str) -> str:
    """What is first sent of a case."""
    call = {
        "type": "tool_use",
        "id": "toolu_01",
        "name": case["tool"],
        "input": {"command": case["command"]},
    }
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": case["text"]}
    chat = [
        {"role": "user", "content": case["task"]},
        {"role": "assistant", "content": [{"type": "text", "text": "I run it."}, call]},
        {"role": "user", "content": [result]},
    ]
    content = windlass.bound(chat, MODEL, policy, recall=True).messages[-1]["content"][0]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.parametrize(("policy", "least", "share"), [("default", 155, 0.12), ("lean", 153, 0.1)])
def test_needles_are_in_view_in_few_characters(policy: str, least: int, share: float) -> None:
    texts = {case["name"]: shown(case, policy) for case in outputs()}
    missed = {
        case["name"]: lost
        for case in outputs()
        if (lost := [needle for needle in case["needles"] if needle not in texts[case["name"]]])
    }
    needed = sum(len(case["needles"]) for case in outputs())
    assert needed == 157
    assert needed - sum(map(len, missed.values())) >= least, missed
    whole = sum(len(case["text"]) for case in outputs())
    assert sum(map(len, texts.values())) <= share * whole
