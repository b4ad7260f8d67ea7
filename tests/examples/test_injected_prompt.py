"""The example of injectors: what stands at the head, behind it, and at the end of each call."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from examples.run_all import EXAMPLES

import windlass
from tests.examples.conftest import copy_examples
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

EXAMPLE = "injected_prompt.json"
PRICES = """[prices."scripted/function"]
input = 1.0
output = 5.0
cache_read = 0.1
cache_write = 1.25
"""
"""Where what was sent before is cheap, older blocks stay."""
STEPS = ["Look up the order", "Write the answer"]


def asks(name: str, **arguments: object) -> Message:
    return assistant(calls=[ToolCall(f"call_{name}", name, json.dumps(arguments))])


def replies() -> list[Message | str]:
    """What a model says that does as it is told, but for a line that a file has not."""
    return [
        asks("plan", goal="Answer the mail", steps=STEPS),
        "Planned.",
        asks("read_file", path="shop/orders/4711.txt", start_line=9),
        "A lamp.",
        asks("remember", text="Order 4711 came broken.", bank="customers", key="order 4711"),
        "Kept.",
        "The lamp of order 4711 is replaced on Monday, or you get the money back.",
    ]


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> list[Request]:
    """What was sent."""
    folder: Path = tmp_path_factory.mktemp("run")
    root, said = copy_examples(folder), iter(replies())
    model = Scripted(lambda _: next(said))
    (root / "windlass.toml").write_text(PRICES, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        result = windlass.run_sync(
            root / EXAMPLE,
            EXAMPLES[EXAMPLE],
            model="scripted/function",
            providers={"scripted": model},
            root=root,
            store=folder / "store",
        )
    assert (result.status, result.error) == ("completed", None)
    return model.requests


@pytest.mark.req("CE-14", "CE-41", "CE-42", "CE-55")
def test_what_changes_stands_at_the_end_and_nothing_before_it_changes(
    requests: list[Request],
) -> None:
    for before, now in pairwise(requests):
        assert now.tools == before.tools
        assert now.messages[: len(before.messages)] == before.messages
    role, context = requests[0].messages[:2]
    assert role.text.startswith("You answer the mail of a small shop. It is [now].")
    assert "Answer in at most three sentences." in role.text
    assert "came broken is replaced at no cost" in context.text
    assert "offer both: a replacement, or the money" in context.text
    assert "has not come" not in context.text


@pytest.mark.req("CE-8", "CE-9", "CE-11", "CE-52")
def test_each_call_ends_with_what_is_so_now(requests: list[Request]) -> None:
    ends = [request.messages[-1].text for request in requests]
    for number, end in enumerate(ends, start=1):
        assert f"[Deadline] {9 - number} calls are left." in end
    assert "[Plan]" not in ends[0]
    assert all("[Plan] Answer the mail" in end for end in ends[1:])
    assert all("Progress: 0/2 steps completed" in end for end in ends[1:])
    assert all(end.endswith("Next: Look up the order") for end in ends[1:])
    assert ["[Failed before" in end for end in ends] == [False] * 3 + [True] * 4
    assert ["[New in user_memory]" in end for end in ends] == [False] * 5 + [True, False]
