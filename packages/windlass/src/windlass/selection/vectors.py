"""Embeddings: texts as vectors, and how near two of them are on their model's own scale.

An embedding model has a name, and vectors of different names are never compared. Its scale
reaches from 0, the mean cosine of texts that have nothing to do with each other, to 1, the
same text; so one threshold means the same with every model. The embedded model, WordLlama, needs no
network and some 20 microseconds a text; it comes with the extra `embeddings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from windlass.errors import UsageError
from windlass.safety.imports import logging_unchanged

Vectors: TypeAlias = NDArray[np.float32]
"""One row a text, each of length 1 (of length 0 for a text without words)."""

TASK_CHARS: Final = 1_000
"""Characters of a task that are embedded."""


class Embedder(Protocol):
    """What turns texts into vectors. `name` tells one model's vectors from another's."""

    @property
    def name(self) -> str:
        """The model's name with its version, as cards carry it."""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text, `dimensions` wide."""


class RemoteEmbedder(Embedder, Protocol):
    """One that asks a server: whoever can wait does so without holding up anything else."""

    async def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return what `embed` answers. Raises ProviderError, LimitReached."""


def is_remote(embedder: Embedder) -> TypeGuard[RemoteEmbedder]:
    """Return whether a server is asked for the vectors. Nothing is asked to find out."""
    return hasattr(type(embedder), "vectors")


def tokens_taken(embedder: Embedder) -> int:
    """Return the tokens that a model reported since this was last asked; 0: it reports none."""
    take: Callable[[], int] | None = getattr(embedder, "take_tokens", None)
    return take() if take is not None else 0


_UNRELATED: Final = (
    "The invoice of March was paid twice.",
    "Penguins lay their eggs on bare ice.",
    "def parse(line): return line.split(',')",
    "Our train to Vienna leaves at nine tomorrow.",
    "The court dismissed the appeal on formal grounds.",
    "Knead the dough until it no longer sticks.",
    "ERROR 503: the upstream server did not answer in time",
    "She has played the cello since she was six.",
    "Aspirin is not given to children with a fever.",
    "The volcano last erupted before people settled there.",
    "Please mute your microphone when you are not speaking.",
    "Their goalkeeper saved two penalties in extra time.",
)
"""Sentences without a common matter: the mean cosine of their pairs is the 0 of a scale."""

_FLOORS: Final = {"wordllama-0.4-256": 0.0093}
"""The measured 0 of known models; that of others is measured when they are first used."""


def unrelated_cosine(embedder: Embedder) -> float:
    """The mean cosine of unrelated texts in the model's space, measured once for each model."""
    known = _MEASURED.get(embedder.name, _FLOORS.get(embedder.name))
    if known is None:
        rows = embed_texts(embedder, _UNRELATED)
        cosines = rows @ rows.T
        count = len(rows)
        known = float((cosines.sum() - cosines.trace()) / (count * (count - 1)))
        _MEASURED[embedder.name] = known
    return known


_MEASURED: Final[dict[str, float]] = {}


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts, checked: as many and as wide as they should be, without gaps.

    Raises UsageError where the model keeps no word of what it promised.
    """
    return check_vectors(embedder, texts, embedder.embed(texts))


def check_vectors(embedder: Embedder, texts: Sequence[str], vectors: Vectors) -> Vectors:
    """Return what a model gave for these texts, checked as `embedded` says. Raises UsageError."""
    rows = np.asarray(vectors, dtype=np.float32)
    wanted = (len(texts), embedder.dimensions)
    if rows.shape != wanted:
        raise UsageError(
            f"the embedding model {embedder.name!r} gave vectors of shape {rows.shape} for"
            f" {len(texts)} texts; {wanted} was expected"
        )
    # A text without words has no direction: some models divide by its length, which is 0.
    return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)


# ---- the embedded model ------------------------------------------------------------------------

MISSING: Final = (
    "no embedding model is installed: pip install 'windlass[embeddings]' brings one that needs no"
    " network, or pass embedder=, an object with name, dimensions and embed(texts)"
)
"""What is said where the embedded model is wanted and not there."""
DIMENSIONS: Final = 256


class WordLlamaEmbedder:
    """WordLlama's vectors, 256 numbers wide.

    Raises UsageError, saying what to install, where its package is missing.
    """

    name = "wordllama-0.4-256"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        if not installed():
            raise UsageError(MISSING)
        self._model = _model()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 for each text."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rows: Vectors = self._model.embed([text or " " for text in texts], norm=True)
        rows[[not text.strip() for text in texts]] = 0  # no words, no direction
        return rows


def installed() -> bool:
    """Return whether the model's package is there. Nothing is imported to find out."""
    return find_spec("wordllama") is not None


@cache
def _model() -> Any:
    with logging_unchanged("wordllama"):
        import wordllama

    # Its own default looks for the tokenizer outside the package, and would then fetch it.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True, dim=DIMENSIONS)
