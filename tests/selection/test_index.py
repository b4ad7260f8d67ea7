"""The index of a session: keywords, fields, chunks, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.selection.talks import FILLER, Meanings, index_of
from windlass.messages import Message, user
from windlass.selection.index import Index, Query
from windlass.selection.making import card_of
from windlass.selection.vectors import Vectors
from windlass.window.entries import Item


def best(index: Index, task: str) -> int:
    return int(np.argmax(index.by_keywords(Query.of(task))))


class TestKeywords:
    @pytest.mark.parametrize(
        "said",
        [
            Message("user", user("yes, at nine").parts, name="ann"),
            user("ann: yes, at nine"),
            user("<ann> yes, at nine"),
        ],
        ids=["name", "head", "brackets"],
    )
    def test_count_who_speaks_more_than_a_word(self, said: Message) -> None:
        index = index_of([user("I have not seen ann today"), said, *map(user, FILLER)])
        assert best(index, "ann?") == 1


class TestVectors:
    @pytest.mark.req("AC-94")
    def test_of_a_server_stand_for_long_messages_and_their_summaries_too(self) -> None:
        class Remote(Meanings):
            async def vectors(self, texts: Sequence[str]) -> Vectors:
                return self.embed(texts)

        model, plain = Remote("cat cats"), Meanings("cat cats")
        index = Index()
        vector = (0.0,) * 16 + (1.0,)
        for at, text in enumerate(["cats sleep " * 500, "dogs bark"]):
            item = Item(f"m{at}", user(text), "user")
            told = {"embedding": vector, "embedding_model": model.name, "generator_model": "a/b"}
            index.append(item, 5, replace(card_of(item, 5), **told))  # type: ignore[arg-type]
        index.by_vectors(Query.of("cat"), model)
        assert model.asked == ["cat"], "nothing but the task goes out"
        again = Index()
        item = Item("m0", user("cats sleep " * 500), "user")
        card = replace(card_of(item, 5), embedding=vector, embedding_model=plain.name)
        again.append(item, 5, card)
        again.by_vectors(Query.of("cat"), plain)
        assert len(plain.asked) == 4, "the best of three chunks counts where asking is free"
