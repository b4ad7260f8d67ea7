"""A text of any length costs no more than a long one, and what stands in it is found."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time

import numpy as np
import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from windlass.history.base import NodeType
from windlass.messages import Message, user
from windlass.selection import index, words
from windlass.selection.index import Index
from windlass.selection.vectors import Vectors, WordLlamaEmbedder
from windlass.window.entries import Item
from windlass.wire.base import Request

NEEDLE = "XK-4711-ZETA"


def noise(chars: int) -> str:
    """Words that nobody said before."""
    signs = (b"abcdefghijklmnopqrstuvwxyz" * 9)[:220] + b" " * 36
    return random.Random(4711).randbytes(chars).translate(signs).decode()


LONG = noise(2_500_000) + f"\nthe part is {NEEDLE} today\n" + noise(2_500_000)


@pytest.fixture
def counted_chars(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of all texts whose words were term_counts."""
    seen: list[int] = []

    def term_counts(text: str) -> dict[str, int]:
        seen.append(len(text))
        return words.term_counts(text)

    monkeypatch.setattr(index, "term_counts", term_counts)
    return seen


async def test_a_long_result_holds_nothing_up_and_is_found(
    house: House, counted_chars: list[int]
) -> None:
    def dump() -> str:
        """Everything there is."""
        return LONG

    def script(request: Request) -> Message | str:
        asked = request.messages[-1]
        match len([message for message in request.messages if message.role == "assistant"]):
            case 0 if "Do a." in asked.text:
                return calls(call("dump"))
            case 0:
                return calls(call("search_context", json.dumps({"query": f"part {NEEDLE}"})))
            case 1 if request.messages[-1].name == "search_context":
                ref = asked.text.split("[")[1].split("]")[0]
                part = f"/{NEEDLE}/"
                return calls(call("recall", json.dumps({"ref": ref, "part": part})))
        return "ok"

    silent = 0.0

    async def watch() -> None:
        nonlocal silent
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.002)
            now = time.thread_time()
            silent, last = max(silent, now - last), now

    watching = asyncio.create_task(watch())
    began = time.process_time()
    two = phase("b", tackle=["search_context", "recall"], context_strategy="fresh")
    ran = await house.run(
        cascade(phase("a", tackle=["dump"]), phase("c"), two, auto_context={}), script, tools=[dump]
    )
    spent = time.process_time() - began
    watching.cancel()
    assert ran.result.status == "completed"
    assert sum(counted_chars) < 150_000
    assert spent < 12, "about 3 s for three phases on a machine that does nothing else"
    assert silent < 0.5, "seconds of processor time; at most 0.2 on a quiet machine"
    results = [stored.row.message for stored in ran.rows(NodeType.TOOL_RESULT, phase="b")]
    found, recalled = (message.text for message in results if message is not None)
    assert "indexed: 100,000 of" in found
    assert f"the part is {NEEDLE} today" in recalled


def test_select_is_bounded_and_finds_what_stands_in_the_middle(counted_chars: list[int]) -> None:
    data = base64.b64encode(random.Random(1).randbytes(3_750_000)).decode()
    messages = [
        {"role": "user", "content": "Look at this."},
        {"role": "user", "content": f"{data[:2_000_000]} {NEEDLE} {data[2_000_000:]}"},
        *({"role": "user", "content": f"Nothing is said of it, {at}."} for at in range(8)),
    ]
    began = time.process_time()
    chosen = windlass.select(messages, f"What is {NEEDLE}?", max_tokens=5_000_000, max_messages=1)
    assert time.process_time() - began < 4, "at most 1 s on a machine that does nothing else"
    assert [entry.position for entry in chosen.entries] == [1]
    assert sum(counted_chars) < 150_000


@pytest.mark.parametrize("chars", [1_000, 100_000, 5_000_000])
def test_the_card_tells_how_much_is_indexed(chars: int) -> None:
    made = Index()
    made.append(Item("m", user(LONG[:chars]), "user"), 10)
    card = made.card(0)
    assert ("indexed: 100,000 of" in card.summary) is (chars > 100_000)
    assert len(card.summary) <= 300
    found = made.matched(index.Query.of(NEEDLE), 0)
    assert (NEEDLE in found) is (chars > 2_500_000)


def test_data_without_words_is_not_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def embed_texts(embedder: object, texts: list[str]) -> Vectors:
        seen.extend(texts)
        return np.ones((len(texts), 256), dtype=np.float32)

    monkeypatch.setattr(index, "embed_texts", embed_texts)
    made = Index()
    data = base64.b64encode(random.Random(1).randbytes(3_000)).decode()
    for at, text in enumerate((data, f"Look at this:\n{data}", "Plain words.", "語" * 900)):
        made.append(Item(f"m{at}", user(text), "user"), 10)
    made.by_vectors(index.Query.of("words"), WordLlamaEmbedder())
    assert sorted({text[:5] for text in seen} - {"words"}) == ["Plain", "語語語語語"]
