"""Embedding models: their scale, thresholds, and the embedded one."""

from __future__ import annotations

import pytest

import windlass.selection.wordllama
from windlass.errors import UsageError
from windlass.selection.wordllama import WordLlamaEmbedder


class TestTheEmbeddedModel:
    def test_that_is_missing_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(windlass.selection.wordllama, "installed", lambda: False)
        with pytest.raises(UsageError, match=r"pip install 'windlass\[embeddings\]'.*embedder="):
            WordLlamaEmbedder()
