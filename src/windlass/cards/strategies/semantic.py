"""`semantic`: how near messages and task are in the space of an embedding model."""

from __future__ import annotations

from typing import Final

import numpy as np

from windlass.cards.embeddings import Embedder, floor_of
from windlass.cards.scoring import Selecting, Wanted, cut, scored
from windlass.cards.wordllama import MISSING
from windlass.errors import UsageError
from windlass.window.rank import Scores

_SHARPENED: Final = 1.5
"""The power of a similarity: vectors are near to each other all over a session."""


def semantic(wanted: Wanted) -> Selecting:
    """Choose by vectors. Raises UsageError where no embedding model is at hand."""
    if wanted.embedder is None:
        raise UsageError(f"strategy 'semantic' compares vectors, and {MISSING}")
    cosines = wanted.index.by_vectors(wanted.task, wanted.embedder)
    near = similar(wanted, cosines, wanted.embedder)
    hits = near ** np.float32(_SHARPENED)
    found = scored(wanted, hits, {"embedding": cosines}, by_words=False, near=near)
    return cut(wanted, found, "semantic")
    yield ""  # it is a generator as the others are, and asks nothing


def similar(wanted: Wanted, cosines: Scores, embedder: Embedder) -> Scores:
    """From 0 (under the threshold, or unrelated) to 1 (the nearest message), for each message."""
    floor = floor_of(embedder)
    least = wanted.options.threshold.cosine(floor)
    top = float(cosines.max(initial=0.0))
    if top < least or top <= floor:
        return np.zeros_like(cosines)
    share = np.maximum(cosines - np.float32(floor), 0) / np.float32(top - floor)
    return np.where(cosines >= least, share, np.float32(0))
