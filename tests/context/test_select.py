"""`windlass.select`: the library's door to choosing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.selection.talks import FILLER, Meanings, chats, paired
from tests.window.conversations import chats as recorded
from windlass.context.select import choosing, forget
from windlass.errors import SequenceError, UsageError
from windlass.selection.options import Selection
from windlass.wire.openai import check_sequence, from_openai

TALK = [
    {"role": "system", "content": "You mend cranes."},
    *chats(*FILLER[:10]),
    *paired(1, "The harbour crane's cable is worn; replace it."),
    *chats(*FILLER[10:]),
]
tasks = st.sampled_from(
    [
        "Fix src/pkg_1/module_3.py, where function_4 fails with KeyError",
        "Summarize what was found out about the orders",
        "ord_2001 status",
        "",
    ]
)


def select(task: str = "the crane's cable", **options: Any) -> Any:
    return windlass.select(TALK, task, **{"strategy": "heuristic", "max_tokens": 60, **options})


class TestKindsOfTasks:
    """A question is read by the sentence that asks, and finds the one message that answers it."""

    answer = "Ann bought the blue kayak on a Tuesday."
    talk = tuple(
        chats(
            *FILLER,
            answer,
            *FILLER,
            *(f"The kayak was out with somebody, and nobody knows where, {at}." for at in range(8)),
            *FILLER,
        )
    )
    around = (
        "Look through the notes. {}",
        "You are given a long conversation. Use it to answer the user.\n\n{}",
        "From the conversation above, with whatever else was noted: {}",
        "Hello! {} Answer briefly.",
        "Question: {}",
    )

    def chosen(self, task: str, **options: Any) -> list[Any]:
        found = windlass.select(self.talk, task, strategy="heuristic", **options)
        return [message["content"] for message in found.messages]

    def test_a_plain_question_finds_the_message_that_answers_it(self) -> None:
        assert self.answer in self.chosen("When did Ann buy the kayak?", max_tokens=60)

    @pytest.mark.parametrize("around", around)
    @pytest.mark.parametrize("task", ["When did Ann buy the kayak?", "What did Ann say of kayaks?"])
    def test_a_question_is_the_same_behind_a_lead_in(self, task: str, around: str) -> None:
        plain, led = (self.chosen(one, max_tokens=120) for one in (task, around.format(task)))
        assert len(set(plain) & set(led)) >= len(plain) - 1

    def test_what_stands_behind_short_messages_is_nearer(self) -> None:
        after = {}
        for between in ("Yes.", "Nobody knew how far upstream the water would carry it then."):
            talk = chats(*FILLER, "The kayak has a blue hull.", *[between] * 4, "So it came.")
            found = windlass.select(talk, "What was said of the kayak?", "heuristic")
            after[between] = {entry.position: entry.score for entry in found.entries}
        near, far = (scores[len(FILLER) + 5] for scores in after.values())
        assert near > 1.1 * far


class TestChosen:
    @pytest.mark.req("AC-85")
    def test_are_the_callers_own_messages_in_session_order(self) -> None:
        chosen = select(max_tokens=400)
        places = [entry.position for entry in chosen.entries]
        assert places == sorted(places)
        assert all(
            message is TALK[place] for message, place in zip(chosen.messages, places, strict=True)
        )
        assert chosen.tokens == sum(entry.tokens for entry in chosen.entries) <= 400

    def test_keep_a_call_and_its_result_together(self) -> None:
        assert [entry.position for entry in select().entries][:2] == [11, 12]

    @pytest.mark.req("AC-86")
    def test_say_how_well_each_scored_and_why(self) -> None:
        by_place = {entry.position: entry for entry in select().entries}
        assert "crane" in by_place[12].reason
        assert "cable" in by_place[12].reason
        assert by_place[12].ranks["keyword"] == 1
        assert "chosen together" in by_place[11].reason
        assert by_place[12].score > by_place[11].score
        near = {entry.reason for entry in select(max_tokens=200).entries}
        assert any(reason.startswith("near ") for reason in near)
        assert any("newest" in e.reason for e in select("zebra", max_tokens=60).entries)

    def test_carry_the_ids_they_came_with(self) -> None:
        talk = [{**message, "id": f"row-{at}"} for at, message in enumerate(TALK)]
        chosen = windlass.select(talk, "crane cable", "heuristic", 60)
        assert [entry.id for entry in chosen.entries] == [m["id"] for m in chosen.messages]

    def test_say_what_did_not_fit(self) -> None:
        chosen = windlass.select(
            [*TALK, {"role": "user", "content": "crane cable " * 200}],
            "crane cable",
            "heuristic",
            80,
        )
        assert chosen.left_out[0].position == len(TALK)
        assert "does not fit" in chosen.left_out[0].reason

    def test_count_by_the_model_that_is_named(self) -> None:
        claude = select(model="anthropic/claude-sonnet-4-5", max_tokens=400)
        gpt = select(model="openai/gpt-4o", max_tokens=400)
        by_place = {entry.position: entry.tokens for entry in gpt.entries}
        assert all(entry.tokens >= by_place.get(entry.position, 0) for entry in claude.entries)

    def test_callouts_count(self) -> None:
        assert 4 in [entry.position for entry in select(callouts=[4], max_tokens=80).entries]
        reasons = {e.position: e.reason for e in select(callouts=[4], max_tokens=80).entries}
        assert "marked as important" in reasons[4]


class TestSignals:
    @pytest.mark.req("AC-116", "AC-60")
    def test_of_messages_that_match_alike_the_newer_count_more(self) -> None:
        talk = chats(*(f"The crane was painted {word}." for word in ("red", "green", "blue")))
        newest = windlass.select(talk, "the crane", "heuristic", 15, keyword_weight=0)
        assert [entry.position for entry in newest.entries] == [len(talk) - 1]
        assert newest.entries[0].ranks["recency"] == 1
        ranks = windlass.select(talk, "the crane", "heuristic", 400).entries
        assert [entry.ranks["recency"] for entry in ranks] == [*range(len(talk), 0, -1)]
        assert windlass.select(talk, "walrus", "heuristic", 15, recency_weight=0).messages == []

    @pytest.mark.req("AC-61", "AC-75")
    def test_what_is_less_like_the_task_than_the_threshold_is_not_near(self) -> None:
        model = Meanings("hoist crane cable", "tea", name="meanings-3")

        def nearest(threshold: float | str) -> set[int]:
            chosen = select(
                "a hoist and tea",
                strategy="semantic",
                embedder=model,
                similarity_threshold=threshold,
                recency_weight=0,
                max_tokens=4_000,
            )
            return {entry.position for entry in chosen.entries if "embedding" in entry.ranks}

        assert 12 in nearest(0)
        assert nearest(0) > nearest(0.4) >= nearest(0.99) == nearest("cosine>=0.999") == set()

    @pytest.mark.req("AC-79")
    def test_of_a_task_the_first_1000_characters_are_embedded(self) -> None:
        model = Meanings("hoist crane cable", name="meanings-2")
        select("x" * 999 + "yz", strategy="semantic", embedder=model)
        assert "x" * 999 + "y" in model.asked
        assert max(len(text) for text in model.asked) == 1_000

    @pytest.mark.req("AC-84")
    def test_messages_with_one_hash_have_names_of_their_own(self) -> None:
        asked: list[str] = []

        def helper(question: str) -> str:
            lines = [line for line in question.splitlines() if "The crane is red." in line]
            asked.extend(line[1:].partition("]")[0] for line in lines)
            return json.dumps({"selected": asked[1:]})

        talk = chats("The crane is red.", *FILLER[:9], "The crane is red.", *FILLER[9:12])
        chosen = windlass.select(talk, "the crane", "llm", 12, helper=helper)
        assert len(asked) == len(set(asked)) == 2
        assert len({name[:8] for name in asked}) == 1
        assert [message["content"] for message in chosen.messages] == ["The crane is red."]
        assert "picked by the model" in chosen.entries[0].reason
        assert not chosen.note


class TestStrategies:
    def test_the_default_works_with_what_is_installed(self) -> None:
        chosen = windlass.select(TALK, "the crane's cable")
        assert chosen.strategy in ("hybrid", "heuristic")
        assert bool(chosen.note) is (chosen.strategy == "heuristic")

    def test_an_embedding_model_can_be_handed_in(self) -> None:
        model = Meanings("hoist crane cable")
        chosen = select("a hoist", strategy="semantic", embedder=model)
        assert 12 in [entry.position for entry in chosen.entries]
        assert {"embedding", "recency", "all"} == set(chosen.entries[0].ranks)

    def test_a_helper_is_asked_and_its_reasoning_told(self) -> None:
        def helper(question: str) -> str:
            line = next(one for one in question.splitlines() if "violins" in one)
            return json.dumps({"selected": [line[1:9]], "reasoning": "music"})

        chosen = select("repair", strategy="llm", helper=helper)
        assert (chosen.strategy, chosen.reasoning) == ("llm", "music")
        assert any("picked by the model" in entry.reason for entry in chosen.entries)

    def test_a_helper_that_fails_is_the_callers_own_error(self) -> None:
        def helper(question: str) -> str:
            raise TimeoutError("no answer")

        with pytest.raises(TimeoutError):
            select(strategy="llm", helper=helper)
        assert select().messages

    def test_as_a_generator_it_calls_nobody(self) -> None:
        asking = choosing(TALK, "the crane", Selection("llm"), helper=True)
        assert "AVAILABLE CONTEXT" in next(asking)
        with pytest.raises(StopIteration) as done:
            asking.send("prose")
        assert done.value.value.messages


class TestTrouble:
    @pytest.mark.req("AC-118")
    @pytest.mark.parametrize("talk", [[], TALK[:1], [{"role": "user", "content": ""}]])
    def test_a_session_with_nothing_to_choose_from_gives_nothing(self, talk: list[Any]) -> None:
        chosen = windlass.select(talk, "the crane")
        assert (chosen.messages, chosen.entries, chosen.tokens) == ([], (), 0)

    @pytest.mark.parametrize(
        ("messages", "task", "says"),
        [
            ("prose", "t", "messages are a list of objects, not str"),
            ({"role": "user"}, "t", "messages are a list of objects, not dict"),
            (TALK, None, "a task is a text"),
            (TALK, ["a", "b"], "a task is a text"),
        ],
    )
    def test_the_wrong_thing_is_told_in_a_sentence(
        self, messages: Any, task: Any, says: str
    ) -> None:
        with pytest.raises(UsageError, match=says):
            windlass.select(messages, task)

    def test_a_message_that_no_provider_takes_is_named(self) -> None:
        with pytest.raises(SequenceError, match="message 1: role 'robot'"):
            windlass.select([*TALK[:1], {"role": "robot", "content": "x"}], "t")
        assert windlass.select(TALK[:3], "gardens").messages

    def test_an_unknown_callout_is_named(self) -> None:
        with pytest.raises(UsageError, match="no message 99 to mark as important"):
            select(callouts=[99])

    def test_a_call_that_waits_for_its_result_is_not_chosen(self) -> None:
        open_call = [*TALK, paired(9, "")[0]]
        chosen = windlass.select(open_call, "src/file_9.py", "heuristic", 4_000)
        assert len(TALK) not in [entry.position for entry in chosen.entries]
        answered = windlass.select([*TALK, *paired(9, "done")], "src/file_9.py", "heuristic", 60)
        assert {len(TALK), len(TALK) + 1} <= {entry.position for entry in answered.entries}

    def test_what_had_to_be_mended_comes_back_mended(self) -> None:
        broken = [*chats("Look at the crane."), paired(1, "")[0], *chats("And the cable?")]
        chosen = windlass.select(broken, "crane cable src/file_1.py", "heuristic", 4_000)
        check_sequence(map(from_openai, chosen.messages))
        assert [entry.position for entry in chosen.entries] == [0, 1, None, 2]

    def test_a_list_changed_in_place_is_not_taken_for_the_old_one(self) -> None:
        talk = copy.deepcopy(TALK)
        assert windlass.select(talk, "walrus", "heuristic", 12, recency_weight=0).messages == []
        talk[3]["content"] = "The walrus sleeps."
        chosen = windlass.select(talk, "walrus", "heuristic", 12, recency_weight=0)
        assert [entry.position for entry in chosen.entries] == [3]


def answers(question: str) -> str:
    """A selector that picks every third line, whatever it says."""
    names = [line[1:].partition("]")[0] for line in question.splitlines() if line[:1] == "["]
    return json.dumps({"selected": [*names[::3], "0badc0de"]})


class TestWhatHoldsForEverySession:
    @pytest.mark.req("AC-73")
    @given(
        recorded(),
        tasks,
        st.sampled_from(["heuristic", "semantic", "llm", "hybrid"]),
        st.integers(1, 3_000),
        st.none() | st.integers(1, 9),
    )
    def test_the_choice_is_valid_in_order_within_budget_and_the_same_again(
        self, talk: list[Any], task: str, strategy: Any, budget: int, most: int | None
    ) -> None:
        model = Meanings("orders order status", "fails failed error KeyError")
        before = copy.deepcopy(talk)

        def once(messages: list[Any]) -> Any:
            return windlass.select(
                messages,
                task,
                strategy,
                budget,
                max_messages=most,
                embedder=model,
                helper=answers if strategy == "llm" else None,
            )

        chosen = once(talk)
        assert talk == before
        if chosen.messages:
            check_sequence(map(from_openai, chosen.messages))
        places = [entry.position for entry in chosen.entries if entry.position is not None]
        assert places == sorted(set(places))
        assert set(places) <= set(range(len(talk)))
        assert chosen.tokens == sum(entry.tokens for entry in chosen.entries) <= budget
        assert most is None or len(chosen.messages) <= most
        assert len(chosen.entries) == len(chosen.messages)
        assert all(entry.reason for entry in chosen.entries)
        again = once(copy.deepcopy(talk))
        assert (again.messages, again.entries) == (chosen.messages, chosen.entries)

    @given(recorded(), tasks, st.integers(0, 6))
    def test_a_session_that_grew_is_chosen_from_as_if_it_were_new(
        self, talk: list[Any], task: str, less: int
    ) -> None:
        windlass.select(talk[: max(0, len(talk) - less)], task, "heuristic", 500)
        grown = windlass.select(talk, task, "heuristic", 500)
        forget()
        new = windlass.select(talk, task, "heuristic", 500)
        assert (new.messages, new.entries) == (grown.messages, grown.entries)
