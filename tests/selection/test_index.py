"""The index of a session: keywords, fields, chunks, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.selection.talks import FILLER, Meanings, index_of
from windlass.errors import UsageError
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.selection.index import Index, Query
from windlass.selection.making import card_of
from windlass.selection.vectors import Vectors
from windlass.window.entries import Item


def best(index: Index, task: str) -> int:
    return int(np.argmax(index.by_keywords(Query.of(task))))


class TestMentions:
    def test_say_where_the_words_of_a_task_stand_and_how_often(self) -> None:
        index = index_of([user("the parser"), user("no"), user("parser, mixer, parser")])
        found = index.mentions(Query.of("Which parser and which mixer?"))
        told = [(places.tolist(), counts.tolist()) for places, counts, _ in found.words]
        assert told == [([2], [1]), ([0, 2], [1, 2])], "the rarest first"
        assert len(found.lengths) == 3

    def test_of_a_long_message_are_counted_once(self) -> None:
        long = "the parser fails again " * 400
        index = index_of([user("no words of it"), user(long), user("a parser")])
        found = index.mentions(Query.of("parser"))
        assert [places.tolist() for places, _, _ in found.words] == [[1, 2]]
        assert found.words[0][1].tolist() == [400, 1]
        assert found.lengths[1] == 800, "stop words are none"

    def test_of_a_long_task_are_those_of_its_rarest_words(self) -> None:
        texts = [f"cable{at} harbour" for at in range(40)]
        index = index_of([user(text) for text in texts])
        found = index.mentions(Query.of("harbour " + " ".join(f"cable{at}" for at in range(40))))
        assert len(found.words) == 24
        assert all(len(places) == 1 for places, _, _ in found.words)

    def test_of_words_beside_the_question_count_less(self) -> None:
        index = index_of([user("parser notes"), user("mixer")])
        task = Query.of("Look through the notes. Why did the parser fail? Be short.")
        assert task.aside == {"look", "note", "short"}
        assert [weight < 1 for _, _, weight in index.mentions(task).words] == [False, True]
        scores = index.by_keywords(task)
        assert scores[0] < index.by_keywords(Query.of("Why did the parser notes fail?"))[0]
        assert not Query.of("Look through the notes. Mend the parser.").aside

    def test_of_words_nobody_said_are_none(self) -> None:
        assert not index_of([user("the parser")]).mentions(Query.of("zebra")).words
        assert not Index().mentions(Query.of("zebra")).words


class TestKeywords:
    def test_score_what_shares_rare_words_highest(self) -> None:
        index = index_of([user(text) for text in (*FILLER, "The violins and the parser fail.")])
        scores = index.by_keywords(Query.of("Which violins fail?"))
        assert int(np.argmax(scores)) == len(FILLER)
        assert scores[FILLER.index(next(one for one in FILLER if "violins" in one))] > 0
        assert (scores == 0).sum() == len(FILLER) - 1

    def test_find_nothing_where_nothing_is_shared(self) -> None:
        index = index_of([user(text) for text in FILLER])
        assert not index.by_keywords(Query.of("zebra?")).any()
        assert not index.by_keywords(Query.of("of the and")).any()
        assert len(Index().by_keywords(Query.of("anything"))) == 0

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

    def test_count_a_tool_and_a_phase_as_words(self) -> None:
        call = ToolCall("c1", "weather_forecast", "{}")
        index = index_of([assistant("", calls=[call]), tool(call, "mild"), *map(user, FILLER)])
        found = index.by_keywords(Query.of("the forecast"))
        assert found[0] > 0
        assert found[1] > 0
        item = Item("m", user("mild"), "user", phase="weather_check")
        index.append(item, 5)
        assert index.by_keywords(Query.of("weather"))[-1] > 0

    @pytest.mark.req("AC-94")
    def test_take_the_best_chunk_of_a_long_message(self) -> None:
        long = "nothing of note here\n" * 2_000 + "The parser fails on dates of March.\n"
        index = index_of([*map(user, FILLER), user(long), user("nothing of note " * 40)])
        assert best(index, "parser dates March") == len(FILLER)
        alone = index_of([*map(user, FILLER), user(long[-400:])])
        whole = index.by_keywords(Query.of("parser dates March")).max()
        assert whole > 0.8 * alone.by_keywords(Query.of("parser dates March")).max()

    @pytest.mark.req("AC-94")
    def test_read_a_summary_that_a_model_wrote(self) -> None:
        index = Index()
        for at, text in enumerate(FILLER):
            item = Item(f"m{at}", user(text), "user")
            card = card_of(item, 20)
            if at == 3:
                card = replace(card, summary="A complaint on invoices.", generator_model="x/y")
            index.append(item, 20, card)
        assert best(index, "invoice") == 3

    def test_say_which_words_match(self) -> None:
        index = index_of([user("The parser fails on dates."), *map(user, FILLER)])
        assert set(index.matched(Query.of("Dates that a parser reads"), 0)) == {"parser", "Dates"}
        assert index.matched(Query.of("zebra"), 0) == []

    def test_of_a_growing_session_are_those_of_the_whole(self) -> None:
        whole = index_of([user(text) for text in FILLER])
        growing = Index()
        for at, text in enumerate(FILLER):
            growing.append(Item(f"m{at}", user(text), "user"), 20)
            growing.by_keywords(Query.of("violins and bridges"))
        task = Query.of("violins and bridges")
        assert (growing.by_keywords(task) == whole.by_keywords(task)).all()


class TestVectors:
    @pytest.mark.req("AC-75")
    def test_score_by_meaning(self) -> None:
        index = index_of([user("cats sleep"), user("trains leave at nine"), user("dogs bark")])
        found = index.by_vectors(Query.of("a train"), Meanings("cat cats dog dogs", "train trains"))
        assert int(np.argmax(found)) == 1

    def test_are_made_once_and_only_of_what_is_new(self) -> None:
        model = Meanings("cat cats")
        index = index_of([user("cats sleep")])
        index.by_vectors(Query.of("cat"), model)
        index.append(Item("m9", user("a cat"), "user"), 5)
        index.by_vectors(Query.of("cat"), model)
        assert sorted(model.asked) == ["a cat", "cat", "cat", "cats sleep"]

    @pytest.mark.req("AC-14")
    def test_come_with_cards_of_the_same_model_and_no_other(self) -> None:
        model, other = Meanings("cat cats"), Meanings("cat cats", name="other-1")
        index = Index()
        for at, name in enumerate((model.name, other.name)):
            item = Item(f"m{at}", user("cats sleep"), "user")
            card = replace(card_of(item, 5), embedding=(0.0,) * 16 + (1.0,), embedding_model=name)
            index.append(item, 5, card)
        found = index.by_vectors(Query.of("cat"), model)
        assert model.asked == ["cats sleep", "cat"]
        assert found[0] < found[1]

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

    @pytest.mark.req("AC-79")
    def test_of_a_task_are_those_of_its_first_1000_characters(self) -> None:
        model = Meanings("cat cats")
        index_of([user("cats")]).by_vectors(Query.of("x" * 5_000), model)
        assert max(map(len, model.asked)) == 1_000

    def test_of_the_wrong_shape_are_refused(self) -> None:
        class Wider(Meanings):
            def embed(self, texts: Sequence[str]) -> Vectors:
                self.dimensions = 17
                rows = super().embed(texts)
                self.dimensions = 99
                return rows

        index = index_of([user("cats"), user("dogs")])
        with pytest.raises(UsageError, match=r"'meanings-1' gave vectors of shape \(2, 17\)"):
            index.by_vectors(Query.of("cat"), Wider("cat cats"))
