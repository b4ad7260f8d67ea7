"""Embedding models behind OpenAI's `/embeddings`: texts out, unit vectors back.

It uses the client, the per-minute limits and the retries of `_hosted.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from os import environ
from typing import Any, Final

import numpy as np

from windlass.caching.rates import split_model
from windlass.errors import ProviderError, UsageError
from windlass.providers._hosted import http_client, limiter_of
from windlass.providers._http import HttpClient
from windlass.providers._pace import Patience
from windlass.providers.catalog import LITELLM, Key, ProviderEntry, catalog, find
from windlass.safety.fairness import start_thread
from windlass.selection.vectors import Vectors
from windlass.settings.fields import ProviderSettings
from windlass.text.tokens import CHARS_A_TOKEN

_AT_ONCE: Final = 96
"""The most texts of one request: every known server accepts so many."""
_PATIENCE: Final = Patience(tries=3, total_s=60.0)


def hosted_embedder(
    name: str,
    providers: Mapping[str, ProviderSettings],
    *,
    keys: Mapping[str, str] = environ,
    patience: Patience = _PATIENCE,
) -> HostedEmbedder:
    """Return the embedding model `provider/model`. Nothing is sent yet.

    Raises UsageError for an unknown provider, one that does not use OpenAI's format, and a missing
    key.
    """
    entry = find(name, catalog(providers))
    if entry.wire != "openai" or entry.name == LITELLM:
        raise UsageError(
            f"embedder {name!r}: {entry.name} has no /embeddings in OpenAI's format; name a model "
            "of openai or openrouter, of a server of your own ([providers.NAME] base_url), or "
            "'wordllama'"
        )
    return HostedEmbedder(entry, name, entry.needed_key(keys, f"embedder {name!r}"), patience)


class HostedEmbedder:
    """The vectors of one hosted model; `name` is `provider/model`.

    `tokens` are those that the server reported since they were last taken.
    """

    def __init__(
        self, entry: ProviderEntry, name: str, key: Key, patience: Patience = _PATIENCE
    ) -> None:
        self.name = name
        self.tokens = 0
        self._entry = entry
        self._model = split_model(name)[1]
        self._key = key
        self._patience = patience
        self._http = http_client(entry, key, patience)
        self._limiter = limiter_of(entry)
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        """Return the length of a vector; asks the model for one if there is none yet."""
        if not self._dimensions:
            self.embed(["dimensions"])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text; waits for the server. Raises ProviderError."""
        # By an event loop of its own, for the caller may be in one.
        return start_thread(lambda: asyncio.run(self._alone(texts)), "embedding").result()

    async def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text. Raises ProviderError, LimitReached."""
        return await self._all(self._http, texts)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    def take_tokens(self) -> int:
        """Return the tokens that were reported since the last call of this method."""
        tokens, self.tokens = self.tokens, 0
        return tokens

    async def _alone(self, texts: Sequence[str]) -> Vectors:
        # Connections belong to the event loop they were made in.
        http = http_client(self._entry, self._key, self._patience)
        try:
            return await self._all(http, texts)
        finally:
            await http.close()

    async def _all(self, http: HttpClient, texts: Sequence[str]) -> Vectors:
        rows = [
            await self._some(http, texts[at : at + _AT_ONCE])
            for at in range(0, len(texts), _AT_ONCE)
        ]
        if not rows:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        return np.concatenate(rows)

    async def _some(self, http: HttpClient, texts: Sequence[str]) -> Vectors:
        inputs = [text if text.strip() else "-" for text in texts]  # servers refuse empty texts
        body = {"model": self._model, "input": inputs, "encoding_format": "float"}
        size = sum(map(len, inputs)) // CHARS_A_TOKEN

        async def attempt() -> Vectors:
            slot = await self._limiter.take(size)
            try:
                async with aclosing(http.answers("/embeddings", body)) as pieces:
                    async for piece in pieces:
                        return self._read(piece.value, inputs)
            finally:
                self._limiter.settle(slot, size)
            raise ProviderError(f"{self._entry.name} sent no vectors")

        rows = await self._patience.retry(attempt)
        rows[[not text.strip() for text in texts]] = 0  # no words, no direction
        return rows

    def _read(self, answer: Mapping[str, Any], texts: Sequence[str]) -> Vectors:
        try:
            data = sorted(answer["data"], key=lambda item: int(item["index"]))
            rows = np.array([item["embedding"] for item in data], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise ProviderError(
                f"{self._entry.name} sent vectors that cannot be read ({type(error).__name__}: "
                f"{error})"
            ) from error
        if rows.ndim != 2 or len(rows) != len(texts):  # noqa: PLR2004 - rows of numbers
            raise ProviderError(
                f"{self._entry.name} sent {len(rows)} vectors for {len(texts)} texts"
            )
        if self._dimensions and rows.shape[1] != self._dimensions:
            raise ProviderError(
                f"{self._entry.name} sent vectors of {rows.shape[1]} numbers, and of "
                f"{self._dimensions} before"
            )
        self._dimensions = rows.shape[1]
        usage = answer.get("usage")
        if isinstance(usage, Mapping) and isinstance(usage.get("prompt_tokens"), int):
            self.tokens += usage["prompt_tokens"]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
        return unit
