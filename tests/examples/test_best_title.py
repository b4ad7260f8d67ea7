"""Soundings with reforge, as the example declares them, with a scripted model and real tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from examples.run_all import EXAMPLES

import windlass
from tests.examples.conftest import copy_examples
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

NAME = "best_title.json"


def answer(request: Request) -> Message | str:
    """What an obedient model says."""
    asked = request.messages[-1].text
    if "[Attempt" in asked:
        return json.dumps({"winner": 4 if "[Attempt 4 " in asked else 2})
    if asked.startswith("Call read_file"):
        given = json.dumps({"path": EXAMPLES[NAME]["file"]})
        return assistant(calls=[ToolCall("c1", "read_file", given)])
    if request.messages[-1].role == "tool":
        return "It is about pauses."
    if "[How To Improve It " in asked:
        return "Pauses"
    for number, line in enumerate(("question", "number", "five words"), start=1):
        if line in asked:
            return f"Title {number}"
    return "Title 0" if asked.startswith("Write a title") else f"Told: {asked}"


@pytest.mark.req("CI-49")
def test_the_refined_title_goes_on(tmp_path: Path) -> None:
    root, model = copy_examples(tmp_path), Scripted(answer)
    result = windlass.run_sync(
        root / NAME,
        EXAMPLES[NAME],
        model="scripted/x",
        providers={"scripted": model},
        root=root,
        store=tmp_path / "store",
    )
    assert (result.status, result.error) == ("completed", None)
    assert result.outputs["title"] == "Pauses"
    told = 'Say why the title "Pauses" is better than "Title 1".'
    assert result.output == f"Told: {told}"
    refined = [r for r in model.requests if "[How To Improve It " in r.messages[-1].text]
    assert len(refined) == 2
    best = re.compile(r"\[Best Answer So Far (\w+)\]\nTitle 2\n\[End \1\]\n")
    assert all(best.search(r.messages[-1].text) for r in refined)
    heads = {r.messages[:-1] for r in model.requests if "Write a title" in r.messages[-1].text}
    assert len({head for head in heads if not any("You judge" in m.text for m in head)}) == 1
