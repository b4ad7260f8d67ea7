"""Who picks among soundings, by what, and in which words they are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_forecast import forecast
from tests.support.engine_resume import resumed
from tests.support.engine_soundings import PICK, judged, judges, picking, sounded
from tests.support.report_costs import Hosted
from windlass.cascade.load import from_python
from windlass.cascade.notes import notes
from windlass.cascade.sounding_options import Soundings
from windlass.engine.events import QuestionAsked
from windlass.errors import ProviderError
from windlass.history.base import NodeType
from windlass.providers.scripted import Scripted
from windlass.report.costs import session_cost
from windlass.text.prompts import AUGMENTATIONS, REWRITES, VARIATIONS
from windlass.wire.base import Request, Usage


def rewrites(request: Request) -> bool:
    return "write the instructions of a task anew" in request.messages[0].text


def prefilters(request: Request) -> bool:
    return "a person will pick" in request.messages[0].text


def in_order() -> Callable[[Request], Any]:
    """A script: soundings say their number by the order in which they ask."""
    numbers = iter(range(100))

    def script(request: Request) -> Any:
        if rewrites(request):
            return f"Do a: {request.messages[1].text.rpartition(chr(10))[2]}"
        return '{"winner": 1}' if judges(request) else f"answer {next(numbers)}"

    return script


def asked(ran: Ran) -> list[str]:
    """What the attempts were asked."""
    others = (judges, rewrites, prefilters)
    sent = [each for each in ran.model.requests if not any(is_one(each) for is_one in others)]
    return [request.messages[-1].text for request in sent]


class TestWords:
    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            ({"mutate": True}, ["Do a.", *(f"Do a.\n{text}" for text in VARIATIONS[:2])]),
            (
                {"mutation_mode": "augment"},
                ["Do a.", *(f"{text}\nDo a." for text in AUGMENTATIONS[:2])],
            ),
            ({"mutations": ["Briefly."]}, ["Do a.", "Do a.\nBriefly.", "Do a.\nBriefly."]),
            (
                {"mutation_mode": "augment", "mutations": ["You know.", "You see."]},
                ["Do a.", "You know.\nDo a.", "You see.\nDo a."],
            ),
            ({"mutation_mode": "augment", "mutate": False}, ["Do a."] * 3),
        ],
    )
    async def test_stand_before_or_behind_the_instructions(
        self, house: House, keys: Any, said: list[str]
    ) -> None:
        a = phase("a", soundings={"factor": 3, "max_parallel": 1, **PICK, **keys})
        ran = await house.run(cascade(a), in_order())
        assert asked(ran) == said
        assert "[Task" in judged(ran)[0].messages[1].text
        assert AUGMENTATIONS[0] not in judged(ran)[0].messages[1].text

    async def test_are_written_anew_by_a_model_and_billed(self, house: House) -> None:
        soundings = {"factor": 3, "max_parallel": 1, "mutation_mode": "rewrite", **PICK}
        ran = await house.run(cascade(phase("a", soundings=soundings)), in_order())
        assert asked(ran) == ["Do a.", f"Do a: {REWRITES[0]}", f"Do a: {REWRITES[1]}"]
        orders = [each["order"] for each in ran.decisions("rewording")]
        assert orders == list(REWRITES[:2])
        rows = [r.row for r in ran.rows() if r.row.tokens_in]
        assert len(rows) == len(ran.model.requests) == 3 + 2 + 1
        assert ran.result.usage.tokens_in == sum(row.tokens_in or 0 for row in rows)
        lines = {
            line.phase: line
            for line in session_cost(ran.store, ran.session, "openai/gpt-4o").phases
        }
        assert lines["a, soundings"].calls == 3

    async def test_own_orders_say_how(self, house: House) -> None:
        keys = {"mutation_mode": "rewrite", "mutations": ["Say it in verse."]}
        a = phase("a", soundings={"factor": 2, **PICK, **keys})
        ran = await house.run(cascade(a), in_order())
        assert asked(ran)[1] == "Do a: Say it in verse."

    @pytest.mark.parametrize("answer", ["", ProviderError("no")])
    async def test_stay_where_the_model_has_none(self, house: House, answer: Any) -> None:
        def script(request: Request) -> str:
            if rewrites(request):
                if isinstance(answer, Exception):
                    raise answer
                return str(answer)
            return '{"winner": 1}' if judges(request) else "an answer"

        a = phase("a", soundings={"factor": 2, "mutation_mode": "rewrite", **PICK})
        ran = await house.run(cascade(a), script)
        assert asked(ran) == ["Do a.", "Do a."]
        assert ran.decisions("rewording")[0]["failed"]

    async def test_are_not_written_twice_by_a_resumed_run(self, house: House) -> None:
        soundings = {"factor": 2, "mutation_mode": "rewrite", "evaluator": "human"}
        whole = cascade(phase("a", soundings=soundings), phase("b"))
        waiting = await house.run(whole, in_order(), session_id="s")
        assert waiting.result.status == "waiting"
        result, sent = await resumed(house, lambda _: "ok", tools=(), answers=["attempt 2"])
        assert (result.status, result.outputs["a"]) == ("completed", "answer 1")
        assert [request.messages[-1].text for request in sent] == ["Do b."]

    async def test_of_a_cascade_are_those_of_its_first_phase(self, house: House) -> None:
        soundings = {"factor": 2, "mutation_mode": "rewrite", "mutations": ["In verse."], **PICK}
        whole = cascade(phase("a"), phase("b"), soundings=soundings)
        ran = await house.run(whole, in_order())
        first = sum(text == "Do a." for text in asked(ran))
        assert (first, asked(ran).count("Do a: In verse."), asked(ran).count("Do b.")) == (1, 1, 2)

    async def test_of_refinements_are_those_of_reforge(self, house: House) -> None:
        reforge = {"honing_prompt": "Better.", "mutate": True, "mutation_mode": "augment"}
        a = phase("a", soundings={"factor": 2, **PICK, "reforge": reforge})
        ran = await house.run(cascade(a), in_order())
        assert asked(ran)[1] == "Do a."
        assert asked(ran)[3].startswith(f"{AUGMENTATIONS[0]}\nDo a.")

    async def test_a_dry_run_counts_what_writes_them(self, house: House) -> None:
        model = Scripted(lambda _: "", window=10_000)
        keys: dict[str, Any] = {"factor": 3, **PICK}
        plain = await forecast(house.folder, cascade(phase("a", soundings=keys)), a=model)
        keys |= {"mutation_mode": "rewrite"}
        more = await forecast(house.folder, cascade(phase("a", soundings=keys)), a=model)
        assert more.most_calls == plain.most_calls + 3


class TestModels:
    @staticmethod
    async def run(
        house: House, soundings: dict[str, Any], session: str = "s"
    ) -> dict[str, list[Request]]:
        sent: dict[str, list[Request]] = {}

        def model(name: str) -> Hosted:
            def script(request: Request) -> str:
                sent.setdefault(name, []).append(request)
                return f"by {name}"

            return Hosted(f"{name}/x", script)

        result = await windlass.run(
            cascade(phase("a", soundings=soundings), model="a/x"),
            store=house.store,
            root=house.folder,
            providers={name: model(name) for name in "abcd"},
            tools=[first],
            session_id=session,
        )
        assert result.status == "completed"
        return sent

    async def test_have_their_shares_and_settings(self, house: House) -> None:
        models = {"b/x": {"factor": 2, "temperature": 0.5, "max_tokens": 77}, "c/x": None}
        sent = await self.run(house, {"factor": 9, "models": models, "evaluator": "first"})
        assert {name: len(requests) for name, requests in sent.items()} == {"b": 2, "c": 1}
        assert {(each.temperature, each.max_output_tokens) for each in sent["b"]} == {(0.5, 77)}
        assert sent["c"][0].temperature is None

    async def test_are_drawn_by_the_session(self, house: House) -> None:
        soundings = {"factor": 9, "models": ["b/x", "c/x"], "evaluator": "first"}
        soundings["model_strategy"] = "random"
        sessions = [f"s{number}" for number in range(5)]
        drawn = [await self.drawn(house, soundings, name) for name in sessions]
        assert {sum(counts.values()) for counts in drawn} == {9}
        assert len({tuple(sorted(counts.items())) for counts in drawn}) > 1
        (house.folder / "other").mkdir()
        again = House(house.folder / "other")
        assert await self.drawn(again, soundings, "s0") == drawn[0]

    async def drawn(self, house: House, soundings: dict[str, Any], session: str) -> dict[str, int]:
        sent = await self.run(house, soundings, session)
        return {name: len(requests) for name, requests in sent.items()}

    async def test_without_a_number_each_has_one(self, house: House) -> None:
        sent = await self.run(house, {"models": ["b/x", "c/x"], "evaluator": "first"})
        assert {name: len(requests) for name, requests in sent.items()} == {"b": 1, "c": 1}


def first(outputs: list[str]) -> int:
    """Pick."""
    return 0 if outputs else 1


class TestCost:
    async def test_is_told_to_the_model_that_picks(self, house: House) -> None:
        weights = {"quality_weight": 0.6, "cost_weight": 0.4}
        replies = {0: "short", 1: "long " * 50, 2: "mid " * 10}
        a = sounded(soundings={**PICK, "cost_aware_evaluation": weights})
        ran = await house.run(cascade(a), picking(0, replies))
        text = judged(ran)[0].messages[1].text
        assert "The best.\n\nWeigh quality against cost 0.6 to 0.4" in text
        headings = {int(line[9]): line for line in text.splitlines() if line[:9] == "[Attempt "}
        assert "relative cost 0.00" in headings[0]
        assert "relative cost 1.00" in headings[1]
        assert "tokens" in headings[2]
        plain = await house.run(cascade(sounded()), picking(0, replies))
        assert "relative cost" not in judged(plain)[0].messages[1].text

    async def test_is_given_to_a_function_that_takes_it(self, house: House) -> None:
        seen: list[Any] = []

        def pick(outputs: list[str], costs: list[float | None]) -> int:
            """Pick."""
            seen.append((len(outputs), costs))
            return 2

        result = await windlass.run(
            cascade(sounded(soundings={"evaluator": "pick"}), model="a/x"),
            store=house.store,
            root=house.folder,
            tools=[pick],
            providers={"a": Hosted("openai/gpt-4o", lambda _: "an answer", usage=Usage(100, 50))},
        )
        assert result.status == "completed"
        assert seen[0][0] == 3
        assert len(seen[0][1]) == 3

    def test_counts_nothing_where_it_is_switched_off(self) -> None:
        for off in (False, {"enabled": False}, None):
            held = Soundings.model_validate({"factor": 2, **PICK, "cost_aware_evaluation": off})
            assert held.cost_counts is None


class TestAPerson:
    async def test_picks_by_the_numbers_that_are_shown(self, house: House) -> None:
        a = sounded(soundings={"evaluator": "human", "evaluator_instructions": "The clearest."})
        ran = await house.run(cascade(a), picking(0), answers=["2"])
        assert ran.result.output == "answer 1"
        assert not judged(ran)
        (question,) = [each for each in ran.events if isinstance(each, QuestionAsked)]
        options = ("attempt 1", "attempt 2", "attempt 3", "none of them")
        assert question.options == options
        assert question.context.startswith("The clearest.\n\n== attempt 1 (sounding 0)\nanswer 0")
        told = [each for each in ran.decisions("evaluation") if "picked" in each]
        assert told[0]["text"] == "a person picks attempt 2: sounding 1"

    async def test_sees_what_a_model_leaves(self, house: House) -> None:
        def script(request: Request) -> Any:
            return '{"keep": [3, 1]}' if prefilters(request) else picking(0)(request)

        soundings = {"evaluator": "hybrid", "llm_prefilter": 2, **PICK}
        ran = await house.run(cascade(sounded(factor=4, soundings=soundings)), script, answers=[2])
        assert ran.result.output == "answer 3"
        assert ran.decisions("evaluation")[-1]["picked"] == 3
        assert [each["kept"] for each in ran.decisions("evaluation") if "kept" in each] == [[1, 3]]
        rows = [r.row for r in ran.rows(NodeType.DECISION) if r.row.tokens_in]
        assert len(rows) == 1

    async def test_sees_all_where_the_model_leaves_none(self, house: House) -> None:
        def script(request: Request) -> Any:
            return "[7]" if prefilters(request) else picking(0)(request)

        soundings = {"evaluator": "hybrid", "llm_prefilter": 2, **PICK}
        ran = await house.run(cascade(sounded(soundings=soundings)), script, answers=["3"])
        assert ran.result.output == "answer 2"

    async def test_may_take_none(self, house: House) -> None:
        a = sounded(soundings={"evaluator": "human"})
        ran = await house.run(cascade(a), picking(0), answers=["none of them"])
        assert str(ran.result.error) == "phase 'a': a person takes none of 3 soundings"
        must = sounded(soundings={"evaluator": "human", "human_eval": {"allow_reject_all": False}})
        ran = await house.run(cascade(must), picking(0), answers=["none of them"])
        assert ran.result.status == "waiting"

    async def test_answers_when_the_run_is_resumed(self, house: House) -> None:
        whole = cascade(sounded(soundings={"evaluator": "human"}), phase("b"))
        waiting = await house.run(whole, picking(0), session_id="s")
        assert waiting.result.status == "waiting"
        assert waiting.decisions("question")[0]["options"][-1] == "none of them"
        result, sent = await resumed(house, lambda _: "ok", tools=(), answers=["attempt 3"])
        assert result.outputs == {"a": "answer 2", "b": "ok"}
        assert len(sent) == 1
        again = Ran(result, waiting.model, house.open_store())
        assert again.has_no_damage()

    async def test_sees_the_same_list_when_the_run_is_resumed(self, house: House) -> None:
        def script(request: Request) -> Any:
            return '{"keep": [0, 2]}' if prefilters(request) else picking(0)(request)

        soundings = {"evaluator": "hybrid", "llm_prefilter": 2, "cost_aware_evaluation": True}
        whole = cascade(sounded(soundings=soundings))
        waiting = await house.run(whole, script, session_id="s")
        assert waiting.result.status == "waiting"
        assert "relative cost" in waiting.result.notes["question"]["context"]
        result, sent = await resumed(house, lambda _: "?", tools=(), answers=["2"])
        assert (result.output, sent) == ("answer 2", [])

    async def test_whose_time_was_over_is_not_asked_again(self, house: House) -> None:
        async def nobody(_: Any) -> str:
            await asyncio.sleep(60)
            return "1"

        human = {"timeout_seconds": 0.2, "on_timeout": "first"}
        a = sounded(soundings={"evaluator": "human", "human_eval": human})
        whole = cascade(a, phase("b", tackle=["ask_human"]))
        asks = calls(call("ask_human", '{"question": "Well?"}'))

        def script(request: Request) -> Any:
            is_b = "Do b." in request.messages[-1].text
            return asks if is_b else picking(2)(request)

        ran = await house.run(whole, script, on_question=nobody_but(nobody), session_id="s")
        assert ran.result.status == "waiting"
        result, _ = await resumed(house, lambda _: "done", tools=(), answers=["fine"])
        assert result.outputs == {"a": "answer 0", "b": "done"}
        again = Ran(result, ran.model, house.open_store())
        assert len(again.decisions("time over")) == 1
        assert again.has_no_damage()

    async def test_picks_among_runs_of_a_whole_cascade(self, house: House) -> None:
        soundings = {"factor": 2, "mutate": ["variation 1"], "evaluator": "human"}
        whole = cascade(phase("a"), phase("b"), soundings=soundings)
        waiting = await house.run(whole, picking(0), session_id="s")
        assert waiting.result.status == "waiting"
        assert len(waiting.decisions("question")) == 1
        result, sent = await resumed(house, lambda _: "?", tools=(), answers=["2"])
        assert (result.output, sent) == ("answer 1", [])

    @pytest.mark.parametrize(
        ("on_timeout", "output"),
        [("first", "answer 0"), ("llm_fallback", "answer 2"), ("abort", None), ("random", "")],
    )
    async def test_who_says_nothing_in_time_is_gone_without(
        self, house: House, on_timeout: str, output: str | None
    ) -> None:
        async def nobody(_: Any) -> str:
            await asyncio.sleep(60)
            return "1"

        human = {"timeout_seconds": 0.2, "on_timeout": on_timeout}
        a = sounded(soundings={"evaluator": "human", "human_eval": human})
        ran = await house.run(cascade(a), picking(2), on_question=nobody)
        if output is None:
            assert str(ran.result.error) == "phase 'a': nobody picked within 0.2 s"
            return
        assert ran.result.status == "completed"
        assert output in (ran.result.output or "")
        assert ran.decisions("time over")[0]["name"] == "evaluator"
        assert len(judged(ran)) == (on_timeout == "llm_fallback")


def nobody_but(late: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Who is late for the question about soundings, and has no answer to any other."""

    async def answer(question: Any) -> Any:
        return await late(question) if question.options else None

    return answer


class TestSpellings:
    @pytest.mark.parametrize(
        ("written", "long"),
        [
            (
                {"mode": "aggregate", "aggregator_instructions": "One.", "aggregator_model": "a/b"},
                {"aggregate": {"instructions": "One.", "model": "a/b"}},
            ),
            ({"mode": "evaluate", "evaluator": "llm", **PICK}, PICK),
            (
                {"evaluator": "human", "human_eval": {"timeout_seconds": 5, "columns": 2}},
                {"evaluator": {"human": {"timeout_seconds": 5}}},
            ),
            ({"human_eval": {}}, {"evaluator": {"human": {}}}),
            (
                {"evaluator": "hybrid", "llm_prefilter": 4, "on_timeout": "first"},
                {"evaluator": {"human": {"llm_prefilter": 4, "on_timeout": "first"}}},
            ),
            ({"mutate": ["x"], **PICK}, {"mutate": True, "mutations": ["x"], **PICK}),
            (
                {"models": {"a/b": 2}, "model_strategy": "round-robin", **PICK},
                {"models": [{"model": "a/b", "factor": 2}], "factor": 2, **PICK},
            ),
            (
                {**PICK, "reforge": {"honing_prompt": "h", "threshold": {"validator": "m:v"}}},
                {**PICK, "reforge": {"honing_prompt": "h", "threshold": "m:v"}},
            ),
        ],
    )
    def test_of_one_thing_are_equal(self, written: Any, long: Any) -> None:
        both = [Soundings.model_validate({"factor": 2, **each}) for each in (written, long)]
        assert both[0] == both[1]
        told = both[0].model_dump(mode="json", exclude_unset=True)
        assert Soundings.model_validate(told) == both[0]

    @pytest.mark.parametrize(
        ("soundings", "told"),
        [
            ({"factor": 3, "models": {"a/b": {"factor": 2}}}, "factor: is 3, but 'models' say 2"),
            ({"factor": 1, "models": ["a/b", "c/d"]}, "models: lists more models than 'factor'"),
            ({"factor": 1}, "factor: makes one attempt: nothing is picked"),
            ({"factor": 2, "model_strategy": "random"}, "model_strategy: says how 'models'"),
            ({"factor": 2, "mutate": False, "mutations": ["x"]}, "mutations: has no effect"),
            ({"factor": 2, "aggregate": True}, "evaluator_instructions: has no effect: all"),
            ({"factor": 2, "timeout_seconds": 5}, "timeout_seconds: is for a person who picks"),
            ({"factor": 2, "aggregator_model": "a/b"}, "aggregator_model: has no effect without"),
            ({"factor": 2, "human_eval": {"columns": 2}}, "human_eval: columns: not part of"),
            (
                {
                    "factor": 2,
                    "reforge": {"honing_prompt": "h", "threshold": {"validator": "v", "mode": "x"}},
                },
                "reforge.threshold.mode: has no effect: the rounds end",
            ),
        ],
    )
    def test_that_say_nothing_are_told(self, soundings: Any, told: str) -> None:
        a = phase("a", soundings={**PICK, **soundings})
        warnings = [each.text for each in notes(from_python(cascade(a)))]
        assert [text.startswith(f"phase 'a', soundings.{told}") for text in warnings] == [True]

    async def test_one_attempt_is_the_phase_itself(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", soundings={"factor": 1})), lambda _: "it")
        assert ran.result.output == "it"
        assert {r.row.sounding_index for r in ran.rows()} == {None}

    async def test_all_are_joined_by_the_old_ones(self, house: House) -> None:
        soundings = {"factor": 2, "mode": "aggregate", "aggregator_instructions": "One text."}

        def script(request: Request) -> str:
            return "both" if "You are given several" in request.messages[0].text else "one"

        ran = await house.run(cascade(phase("a", soundings=soundings)), script)
        assert ran.result.output == "both"
        assert json.dumps(ran.decisions("soundings")[0]["joined"]) == "[0, 1]"
