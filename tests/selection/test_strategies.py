"""Each strategy: what it finds, what it asks, what it makes of an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection.talks import FILLER, Meanings, index_of, picked
from windlass import select
from windlass.errors import UsageError
from windlass.messages import ToolCall, assistant, tool, user
from windlass.selection.index import Query
from windlass.selection.menu import MENU_LINES, MenuAnswer, menu_of, read_answer
from windlass.selection.options import Selection
from windlass.selection.scoring import Picked, SelectionRequest, score
from windlass.selection.vectors import Vectors

HIT = "The harbour crane broke its cable at dawn."
TALK = [user(text) for text in (*FILLER[:12], HIT, *FILLER[12:])]
AT = 12


def chosen(found: Picked) -> list[int]:
    units = found.scored.request.index.units
    return [units[at].first for at in found.choice.chosen]


def answered(answer: Any, task: str = "crane cable", talk: Any = None, **options: Any) -> Picked:
    embedder = options.pop("embedder", None)
    told = Selection(**{"strategy": "llm", "max_tokens": 60, **options})
    wanted = SelectionRequest(index_of(talk or TALK), Query.of(task), told, embedder)
    menu = menu_of(score(wanted), alone=told.strategy == "llm")
    assert menu is not None
    return menu.pick(answer(menu.question) if callable(answer) else answer)


def lines(question: str) -> list[tuple[str, str]]:
    """The names on a menu, and the lines."""
    found = [line for line in question.splitlines() if line.startswith("[")]
    return [(line[1:].partition("]")[0], line) for line in found]


def keeping(asked: list[str]) -> Any:
    """A selector that keeps the question and picks nothing."""

    def answer(question: str) -> str:
        asked.append(question)
        return '{"selected": []}'

    return answer


def naming(*words: str) -> Any:
    """A selector that picks the lines that hold a word."""

    def answer(question: str) -> str:
        names = [name for name, line in lines(question) if any(word in line for word in words)]
        return json.dumps({"selected": names, "reasoning": "they hold it"})

    return answer


@pytest.mark.req("AC-74", "AC-98")
class TestHeuristic:
    def test_finds_what_shares_words(self) -> None:
        found = picked(TALK, "Which cable of the crane?", strategy="heuristic", max_tokens=20)
        assert (chosen(found), found.strategy, found.note) == ([AT], "heuristic", "")

    def test_takes_the_passage_where_more_of_the_question_is_said(self) -> None:
        talk = [user(text) for text in FILLER * 3]
        talk[10] = user("The harbour was quiet, and so was the harbour master.")
        talk[40:43] = [
            user("The harbour is next."),
            user("Its old crane is not safe."),
            user("Its cable is worn, too."),
        ]
        task = "What was said of the harbour crane and its cable?"
        found = picked(talk, task, strategy="heuristic", max_tokens=50)
        assert {41, 42} <= set(chosen(found))
        assert 10 not in chosen(found)

    def test_brings_the_question_before_an_answer(self) -> None:
        talk = [user(text) for text in FILLER]
        talk[8:10] = [user("What colour is it?"), assistant("The harbour crane is bright red.")]
        found = picked(talk, "harbour crane", strategy="heuristic", max_tokens=40)
        assert {8, 9} <= set(chosen(found))

    @pytest.mark.req("AC-60")
    def test_a_weight_of_0_switches_a_signal_off(self) -> None:
        options = {"strategy": "heuristic", "max_tokens": 20}
        newest = picked(TALK, "zebra", **options)
        assert chosen(newest) == [len(TALK) - 1]
        assert chosen(picked(TALK, "zebra", recency_weight=0, **options)) == []
        by_position = picked(TALK, "crane cable", keyword_weight=0, **options)
        assert chosen(by_position) == [len(TALK) - 1]

    @pytest.mark.req("AC-60")
    def test_weights_are_shares(self) -> None:
        once = picked(TALK, "crane cable violins", strategy="heuristic", max_tokens=90)
        scaled = picked(
            TALK,
            "crane cable violins",
            strategy="heuristic",
            max_tokens=90,
            keyword_weight=5,
            recency_weight=9,
            callout_weight=6,
        )
        assert chosen(once) == chosen(scaled)
        assert once.scored.total == pytest.approx(scaled.scored.total)

    @pytest.mark.req("AC-117")
    def test_a_callout_counts(self) -> None:
        wanted = SelectionRequest(
            index_of(TALK),
            Query.of("crane cable"),
            Selection("heuristic", max_tokens=40),
            callouts=[3],
        )
        assert chosen(score(wanted).pick()) == [3, AT]

    @pytest.mark.req("AC-72")
    def test_chooses_among_the_candidates_it_was_given(self) -> None:
        among = [at != AT for at in range(len(TALK))]
        found = picked(TALK, "crane cable", strategy="heuristic", max_tokens=4_000, among=among)
        assert AT not in chosen(found)
        assert len(chosen(found)) == len(TALK) - 1

    @pytest.mark.req("AC-58")
    def test_holds_max_messages(self) -> None:
        found = picked(TALK, "crane", strategy="heuristic", max_tokens=4_000, max_messages=3)
        assert len(chosen(found)) == 3

    def test_a_text_that_was_said_twice_is_chosen_once(self) -> None:
        report = "The crane was inspected. " * 12
        talk = [user(report), *map(user, FILLER), user(report)]
        found = picked(talk, "crane", strategy="heuristic", max_tokens=4_000)
        assert len(chosen(found)) == len(talk) - 1


@pytest.mark.req("AC-75", "AC-98")
class Likeness:
    """Vectors of texts that say how like they are to `Like 1`; all others are like nothing."""

    name = "likeness"
    dimensions = 400

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            like = float(text.split()[1]) if text.startswith("Like ") else 0.0
            row[0] = like
            row[self.places.setdefault(text, len(self.places) + 1)] = (1 - like**2) ** 0.5
        return rows


class TestSemantic:
    model = Meanings("crane hoist lift cable", "violins cello")

    def test_finds_what_means_the_same(self) -> None:
        options = {"strategy": "semantic", "embedder": self.model, "max_tokens": 20}
        found = picked(TALK, "a hoist", **options)
        assert (chosen(found), found.strategy) == ([AT], "semantic")

    @pytest.mark.req("AC-61")
    def test_counts_no_message_under_the_threshold(self) -> None:
        options = {"strategy": "semantic", "embedder": self.model, "recency_weight": 0}
        near = picked(TALK, "a hoist", similarity_threshold=0.5, **options)
        assert near.scored.hits[AT] == 1
        assert (near.scored.hits > 0).sum() == 1
        none = picked(TALK, "planets", similarity_threshold="cosine>=1", **options)
        assert chosen(none) == [] or none.scored.hits.any()

    @pytest.mark.req("AC-61")
    def test_the_threshold_is_a_tenth_of_the_models_scale_unless_one_is_given(self) -> None:
        likes = (0.02, 0.09, 0.11, 0.69, 0.71, 0.95)
        talk = [user(f"Like {like}") for like in likes]

        def near(**threshold: Any) -> list[float]:
            found = picked(talk, "Like 1", strategy="semantic", embedder=Likeness(), **threshold)
            return [like for like, hit in zip(likes, found.scored.hits, strict=True) if hit > 0]

        assert near() == near(similarity_threshold=0.1) == [0.11, 0.69, 0.71, 0.95]
        assert near(similarity_threshold=0.7) == [0.71, 0.95]

    def test_without_a_model_says_what_to_install(self) -> None:
        with pytest.raises(UsageError, match=r"'semantic' .*windlass\[embeddings\]"):
            picked(TALK, "a hoist", strategy="semantic")


@pytest.mark.req("AC-77", "AC-98")
class TestHybrid:
    model = Meanings("crane hoist lift cable", "violins cello")

    def test_fuses_words_and_vectors(self) -> None:
        found = picked(
            TALK, "dawn hoist violins", strategy="hybrid", max_tokens=45, embedder=self.model
        )
        assert found.strategy == "hybrid"
        assert set(found.scored.signals) == {"keyword", "embedding"}
        assert AT in chosen(found)

    def test_takes_the_passage_that_is_near_in_meaning_of_two_that_say_a_word(self) -> None:
        talk = [user(text) for text in FILLER * 3]
        for at, others in ((10, "violins cello"), (50, "hoist lift")):
            talk[at] = user("The date was moved again.")
            talk[at + 1] = user(f"So the {others} came later.")
            talk[at + 2] = user(f"And the {others} went.")
        for model, wanted in ((self.model, 51), (Meanings("violins cello crane"), 11)):
            found = picked(
                talk, "Why did they say the crane date moves?", max_tokens=45, embedder=model
            )
            assert wanted in chosen(found)

    def test_without_an_embedding_model_goes_by_words_and_says_so(self) -> None:
        found = picked(TALK, "crane cable", strategy="hybrid", max_tokens=20)
        assert (chosen(found), found.strategy) == ([AT], "heuristic")
        assert "by keywords alone" in found.note

    def test_lets_a_model_choose_from_twice_the_budget(self) -> None:
        asked: list[str] = []
        found = answered(keeping(asked), strategy="hybrid", max_tokens=40, embedder=self.model)
        assert 0 < sum(TALK[AT].text in line for _, line in lines(asked[0])) <= 1
        tokens = sum(int(line.partition("~")[2].split()[0]) for _, line in lines(asked[0]))
        assert 40 < tokens <= 80
        assert found.strategy == "hybrid+llm"


@pytest.mark.req("AC-76", "AC-98")
class TestLlm:
    @pytest.mark.req("AC-80", "AC-81")
    def test_asks_with_a_menu_of_summaries(self) -> None:
        asked: list[str] = []
        talk = [user(f"{text} {'and so on ' * 60}") for text in FILLER * 6]
        answered(keeping(asked), talk=talk, max_tokens=2_000)
        menu = lines(asked[0])
        assert len(menu) == MENU_LINES
        assert len({name for name, _ in menu}) == MENU_LINES
        assert all(len(line) <= 260 for _, line in menu)
        assert all(f"[{name}] user (~" in line for name, line in menu)
        assert "CURRENT TASK:\ncrane cable" in asked[0]
        assert "~2000 tokens" in asked[0]

    @pytest.mark.req("AC-82", "AC-85")
    def test_takes_what_the_model_picks(self) -> None:
        found = answered(naming("candles"), task="crane cable", max_tokens=50)
        assert FILLER.index(next(one for one in FILLER if "candles" in one)) in chosen(found)
        assert AT in chosen(found)
        assert (found.strategy, found.reasoning) == ("llm", "they hold it")
        assert len(found.asked) == 1

    def test_who_names_what_is_not_there_is_trusted_with_half_of_the_budget(self) -> None:
        def answer(question: str) -> str:
            told = json.loads(naming("Remark")(question))
            return json.dumps({"selected": [*told["selected"], "0badc0de"]})

        by_score = set(chosen(picked(TALK, "crane cable", strategy="hybrid", max_tokens=100)))
        careless = answered(answer, task="crane cable", max_tokens=100)
        units = careless.scored.request.index.units
        beside = [at for at in careless.choice.chosen if at not in by_score]
        assert beside
        assert sum(units[at].tokens for at in beside) <= 50

    def test_of_doubtful_picks_the_best_are_kept(self) -> None:
        talk = [user(f"tea number {at} is poured") for at in range(8)]
        talk.append(user("a rusty crane" + " that is out of use" * 4))
        talk += [user(text) for text in FILLER]
        talk += [user(f"crane cable number {at} holds") for at in range(8)]

        def answer(question: str) -> str:
            names = json.loads(naming("tea", "rusty")(question))["selected"]
            return json.dumps({"selected": [*names, "0badc0de"]})

        found = answered(answer, task="crane cable", talk=talk, max_tokens=60)
        assert {talk[at].text.split()[1] for at in found.asked} == {"rusty"}

    @given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(20, 120))
    def test_of_picks_that_do_not_all_fit_those_that_fill_the_budget(
        self, sizes: list[int], budget: int
    ) -> None:
        talk = [user(f"tea{at} " + "word " * size) for at, size in enumerate(sizes)]
        found = answered(naming("tea"), task="crane", talk=talk, max_tokens=budget)
        units = found.scored.request.index.units
        sums = {0}
        for at in range(len(talk)):
            sums |= {one + units[at].tokens for one in sums}
        assert found.choice.tokens == max(one for one in sums if one <= budget)

    @pytest.mark.req("AC-83")
    @pytest.mark.parametrize(
        "answer",
        [
            "I would take the one about the crane.",
            "",
            "[1, 2]",
            '{"selected": "all of them"}',
            '{"selected": [broken',
            "{" * 5_000,
            None,
            {"selected": []},
        ],
    )
    def test_falls_back_to_the_scores_with_the_reason(self, answer: Any) -> None:
        found = answered(answer)
        assert chosen(found) == chosen(
            picked(TALK, "crane cable", strategy="hybrid", max_tokens=60)
        )
        assert found.strategy == "heuristic"
        assert "the selector answered" in found.note
        assert "chosen by score alone" in found.note

    def test_refuses_what_is_not_on_the_menu(self) -> None:
        found = answered(lambda q: json.dumps({"selected": ["0badc0de", 7, lines(q)[0][0]]}))
        assert found.refused == ("0badc0de", "7")
        assert "not on the menu: '0badc0de', '7'" in found.note
        assert len(found.asked) == 1

    @pytest.mark.req("AC-84")
    def test_no_two_lines_have_one_name(self) -> None:
        asked: list[str] = []
        talk = [user("The crane again."), user("Something else."), user("The crane again.")]
        answered(keeping(asked), talk=talk)
        names = [name for name, _ in lines(asked[0])]
        assert len(set(names)) == len(names) == 3

    @pytest.mark.req("AC-3")
    def test_a_call_and_its_results_are_one_line(self) -> None:
        asked: list[str] = []
        call = ToolCall("c1", "inspect", '{"what": "crane"}')
        talk = [user("Look."), assistant("", calls=[call]), tool(call, "The cable is worn.")]
        answered(keeping(asked), talk=talk)
        line = next(line for _, line in lines(asked[0]) if "assistant" in line)
        assert "[calls inspect(" in line
        assert "-> Result of inspect: The cable is worn." in line

    def test_without_a_model_says_how_to_give_one(self) -> None:
        with pytest.raises(UsageError, match="'llm' asks a model: pass helper="):
            select([{"role": "user", "content": "The crane."}], "crane", strategy="llm")

    def test_asks_nobody_about_nothing(self) -> None:
        wanted = SelectionRequest(index_of([]), Query.of("crane"), Selection("llm"))
        assert menu_of(score(wanted), alone=True) is None
        assert score(wanted).pick().choice.chosen == ()


class TestAnswers:
    @pytest.mark.parametrize(
        "told",
        [
            '{"selected": ["aaaa0001"], "reasoning": "r"}',
            '```json\n{"selected": ["[AAAA0001]"], "reasoning": "r"}\n```',
            'Sure! {"selected": ["aaaa0001ffff0000", "aaaa0001"], "reasoning": "r"} There.',
        ],
    )
    def test_are_read_out_of_what_stands_around(self, told: str) -> None:
        assert read_answer(told, {"aaaa0001": 4}) == MenuAnswer((4,), (), "r")

    def test_of_a_short_head_are_refused(self) -> None:
        assert read_answer('{"selected": ["aaaa"]}', {"aaaa0001": 4}) == MenuAnswer(
            (), ("aaaa",), ""
        )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "best"}, "unknown strategy 'best'; known: heuristic, hybrid, llm, semantic"),
        ({"strategy": "hybird"}, "did you mean 'hybrid'"),
        ({"max_tokens": 0}, "max_tokens 0 is not a whole number of at least 1"),
        ({"max_tokens": 1.5}, "max_tokens 1.5 is not a whole number"),
        ({"max_messages": True}, "max_messages True is not a whole number"),
        ({"recency_weight": -1}, "recency_weight -1 is not a number of at least 0"),
        ({"recency_weight": 0, "keyword_weight": 0, "callout_weight": 0}, "nothing is left"),
        ({"similarity_threshold": 3}, "similarity_threshold 3 is neither"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Selection(**options)


@pytest.mark.req("AC-57", "AC-58")
def test_the_defaults_are_those_of_the_document() -> None:
    options = Selection()
    assert (options.max_tokens, options.max_messages) == (30_000, 50)
