"""Embedding models: their scale, thresholds, and the embedded one."""

from __future__ import annotations

import numpy as np
import pytest

import windlass.selection.wordllama
from tests.selection.talks import Meanings
from windlass.errors import UsageError
from windlass.selection.options import Threshold, read_threshold
from windlass.selection.vectors import embed_texts, unrelated_cosine
from windlass.selection.wordllama import WordLlamaEmbedder, installed

needs_model = pytest.mark.skipif(not installed(), reason="the extra 'embeddings' is not installed")


@pytest.mark.req("AC-61")
class TestThreshold:
    def test_is_a_share_of_the_models_scale(self) -> None:
        assert read_threshold(0).cosine(0.3) == 0.3
        assert read_threshold(1).cosine(0.3) == 1
        assert read_threshold(0.5).cosine(0.2) == pytest.approx(0.6)

    @pytest.mark.parametrize("told", ["cosine>=0.7", " cosine >= .7 "])
    def test_can_be_a_bare_cosine(self, told: str) -> None:
        assert read_threshold(told) == Threshold(0.7, is_cosine=True)
        assert read_threshold(told).cosine(0.3) == 0.7

    @pytest.mark.parametrize("told", [-0.1, 1.1, "0.7", "cosine>=7", True, None, float("nan")])
    def test_refuses_anything_else_in_a_sentence(self, told: object) -> None:
        with pytest.raises(UsageError, match=r"similarity_threshold .* 'cosine>=0\.7'"):
            read_threshold(told)

    def test_the_zero_of_a_model_is_measured_once(self) -> None:
        model = Meanings("the a is", name="measured-once-1")
        assert unrelated_cosine(model) == unrelated_cosine(model)
        assert 0 < unrelated_cosine(model) < 1
        assert len(model.asked) == len(set(model.asked))


class TestVectors:
    def test_without_a_direction_are_zero(self) -> None:
        class Broken(Meanings):
            def embed(self, texts):  # type: ignore[no-untyped-def]
                return super().embed(texts) * np.float32("nan")

        assert not embed_texts(Broken("cat"), ["cat"]).any()


class TestTheEmbeddedModel:
    def test_that_is_missing_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(windlass.selection.wordllama, "installed", lambda: False)
        with pytest.raises(UsageError, match=r"pip install 'windlass\[embeddings\]'.*embedder="):
            WordLlamaEmbedder()

    @needs_model
    def test_needs_no_network_and_keeps_its_word(self) -> None:
        model = WordLlamaEmbedder()
        rows = embed_texts(model, ["The cat sleeps on the sofa.", "A kitten naps on a couch.", ""])
        assert rows.shape == (3, model.dimensions)
        assert np.linalg.norm(rows[:2], axis=1) == pytest.approx(1, abs=1e-3)
        assert not rows[2].any()
        other = embed_texts(model, ["Interest rates rose by a quarter."])[0]
        assert rows[0] @ rows[1] > rows[0] @ other + 0.2

    @needs_model
    @pytest.mark.req("AC-61")
    def test_has_the_scale_that_was_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = unrelated_cosine(WordLlamaEmbedder())
        monkeypatch.setattr("windlass.selection.vectors._FLOORS", {})
        assert unrelated_cosine(WordLlamaEmbedder()) == pytest.approx(known, abs=0.005)
