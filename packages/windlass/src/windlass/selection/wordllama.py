"""The embedded embedding model: word vectors of WordLlama, whose package carries its weights.

It needs no network and some 20 microseconds a text. It comes with the extra `embeddings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from windlass.errors import UsageError
from windlass.safety.imports import logging_unchanged
from windlass.selection.vectors import Vectors

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
