"""Vectors of a server that speaks OpenAI's `/embeddings`: what goes out, what is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.providers.server import Answer, serving, whole
from windlass.errors import ProviderError, UsageError
from windlass.providers._pace import Patience
from windlass.providers.embeddings import HostedEmbedder, hosted_embedder
from windlass.selection.vectors import embed_texts, is_remote
from windlass.settings.fields import ProviderSettings

PATIENCE = Patience(tries=2, longest_wait_s=0.01)


def told(*vectors: list[float], tokens: int = 7) -> Mapping[str, Any]:
    """An answer, its vectors in another order than they were asked for."""
    data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"data": data[::-1], "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def embedder(url: str, name: str = "mine/small") -> HostedEmbedder:
    providers = {"mine": ProviderSettings(base_url=url, key="MY_KEY")}
    return hosted_embedder(name, providers, keys={"MY_KEY": "secret"}, patience=PATIENCE)


async def test_texts_go_out_and_unit_vectors_come_back() -> None:
    async with serving(whole(told([3.0, 4.0], [0.0, 2.0], [1.0, 1.0]))) as server:
        made = embedder(server.url)
        assert is_remote(made)
        rows = await made.vectors(["one", "two", " "])
        await made.close()
    assert np.allclose(rows, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]])
    (asked,) = server.asked
    assert asked.path == "/embeddings"
    assert asked.body == {
        "model": "small",
        "input": ["one", "two", "-"],
        "encoding_format": "float",
    }
    assert asked.headers["authorization"] == "Bearer secret"
    assert (made.name, made.dimensions, made.take_tokens(), made.take_tokens()) == (
        "mine/small",
        2,
        7,
        0,
    )


async def test_it_can_be_asked_where_nothing_can_be_awaited() -> None:
    import asyncio

    async with serving(whole(told([1.0, 0.0]))) as server:
        made = embedder(server.url)
        # A selection asks in this way, from a thread here so that the server can answer.
        rows = await asyncio.to_thread(embed_texts, made, ["task"])
        assert rows.tolist() == [[1.0, 0.0]]
        assert await asyncio.to_thread(lambda: embedder(server.url).dimensions) == 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (whole({"data": [{"index": 0}]}), "cannot be read"),
        (whole({"data": "none"}), "cannot be read"),
        (whole(told([1.0], [2.0])), "2 vectors for 1 texts"),
        (whole({"error": {"message": "no such model"}}, 404), "no such model"),
        (Answer((b'{"data": [',), cut=True), "mine"),
    ],
)
async def test_a_wrong_answer_is_one_clear_error(answer: Answer, text: str) -> None:
    async with serving(answer) as server:
        made = embedder(server.url)
        with pytest.raises(ProviderError, match=text):
            await made.vectors(["x"])
        await made.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic/x", "has no /embeddings in OpenAI's format"),
        ("litellm/openai/x", "has no /embeddings in OpenAI's format"),
        ("nobody/x", "there is no provider 'nobody'"),
        ("openai/text-embedding-3-small", "needs a key: set the variable OPENAI_API_KEY"),
    ],
)
def test_what_cannot_embed_is_told_at_once(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        hosted_embedder(name, {}, keys={})
