"""Validators by name, wherever one is named: inline, functions, those that come with Windlass."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, asked_by, cascade, phase
from tests.support.engine_resume import Gone, Model, resumed
from windlass.cascade.validators import JUDGES
from windlass.cli.app import app
from windlass.errors import CascadeError, UsageError
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.providers.scripted import Scripted
from windlass.text.prompts import VALIDATOR_SYSTEM
from windlass.wire.base import Request

LOUD = {"loud": {"instructions": "Loud? {{ output }}"}}


def loud(request: Request) -> str | None:
    """The verdict where a model is asked whether something is loud; None: it is asked another."""
    if request.messages[0].text != VALIDATOR_SYSTEM:
        return None
    valid = "!" in request.messages[-1].text
    return json.dumps({"valid": valid, "reason": "shout"})


def script(request: Request) -> str:
    """Phase `a` shouts when it is told to."""
    return loud(request) or ("hey!" if "shout" in request.messages[-1].text else "hey")


class TestInline:
    async def test_its_calls_are_counted_recorded_and_told(self, house: House) -> None:
        made = cascade(phase("a", rules={"loop_until": "loud"}), validators=LOUD)
        ran = await house.run(made, script)
        assert ran.result.output == "hey!"
        first, second = ran.decisions("validator")
        assert first["text"] == "loud refuses the output: shout"
        assert first["asked"] == [VALIDATOR_SYSTEM, "Loud? hey"]
        assert (first["valid"], second["valid"]) == (False, True)
        counted = ran.store.query("SELECT SUM(tokens_in) AS n FROM unified_logs")
        assert ran.result.usage.tokens_in == counted[0]["n"]
        told = CliRunner().invoke(app, ["explain", ran.session, "1", "--store", str(house.store)])
        assert "loud refuses the output: shout" in told.output

    async def test_its_template_sees_what_is_judged_and_why_it_is(self, house: House) -> None:
        words = (
            "{{ content }}|{{ input.content }}|{{ input.who }}|{{ original_input }}|{{ asked }}"
            "|{{ attempt }}/{{ max_attempts }}|{{ state.mood }}|{{ outputs.a }}"
        )
        made = cascade(
            phase("a", output_extraction={"pattern": "(glad)", "store_as": "mood"}),
            phase("b", rules={"loop_until": "own"}),
            validators={"own": {"instructions": words}},
        )

        def answer(request: Request) -> str:
            judging = request.messages[0].text == VALIDATOR_SYSTEM
            return '{"valid": true}' if judging else f"glad {asked_by(request)}"

        ran = await house.run(made, answer, {"who": "Ada"})
        asked = ran.model.requests[-1].messages[-1].text
        assert asked == 'glad b|glad b|Ada|{"who": "Ada"}|Do b.|1/3|glad|glad a'

    async def test_another_model_judges_where_it_says_so(self, house: House) -> None:
        own = {"loud": {**LOUD["loud"], "model": "other/judge"}}
        made = cascade(phase("a", rules={"loop_until": "loud"}), validators=own)
        writes, judges = Scripted(script), Scripted(script)
        result = await windlass.run(
            made,
            model="scripted/x",
            store=house.store,
            root=house.folder,
            providers={"scripted": writes, "other": judges},
        )
        assert result.output == "hey!"
        assert [len(each.requests) for each in (writes, judges)] == [2, 2]
        assert house.open_store().start(result.session_id).model == "scripted/x, other/judge"
        with pytest.raises(UsageError, match="other"):
            await house.run(made, script)

    @pytest.mark.parametrize(
        ("answer", "output"),
        [
            ('{"valid": true}', "hey"),
            ("true", "hey"),
            ('It is.\n```json\n{"valid": "true", "reason": "."}\n```', "hey"),
            ('So {x}: {"valid": true} and {"valid": false}', "hey"),
            ("Not at all.", None),
            ('{"valid": null}', None),
            ("", None),
        ],
    )
    async def test_a_verdict_is_found_in_prose_and_what_holds_none_refuses(
        self, house: House, answer: str, output: str | None
    ) -> None:
        def say(request: Request) -> str:
            return answer if loud(request) else "hey"

        made = cascade(phase("a", rules={"loop_until": "loud", "max_attempts": 2}), validators=LOUD)
        ran = await house.run(made, say)
        assert ran.result.output == output
        if output is None:
            retry = ran.request("a", 2).messages[-1].text
            assert (answer or "loud says nothing.") in retry

    async def test_a_resumed_run_does_not_ask_again_and_counts_what_was_asked(
        self, house: House
    ) -> None:
        rules = {"loop_until": "loud", "turn_prompt": "Again.", "max_turns": 2}
        made = cascade(phase("a", rules=rules), phase("b"), validators=LOUD)
        with pytest.raises(Gone):
            await house.run(made, Model(7, script), session_id="s")
        result, asked = await resumed(house, script, tools=())
        assert [asked_by(request) for request in asked] == ["b"]
        assert result.output == "hey"
        (counted,) = house.open_store().query("SELECT SUM(tokens_in) AS n FROM unified_logs")
        assert result.usage.tokens_in == counted["n"]

    async def test_a_limit_holds_before_a_validator_is_asked(self, house: House) -> None:
        made = cascade(phase("a", rules={"loop_until": "loud"}), validators=LOUD)
        ran = await house.run({**made, "limits": {"max_turns": 1}}, script)
        assert ran.result.status == "incomplete"
        assert len(ran.model.requests) == 1

    async def test_a_cascades_own_goes_before_what_comes_with_windlass(self, house: House) -> None:
        own = {"length_check": LOUD["loud"]}
        ran = await house.run(
            cascade(phase("a", rules={"loop_until": "length_check"}), validators=own), script
        )
        assert ran.result.output == "hey!"

        def satisfied(output: str) -> bool:
            """It is done."""
            return "done" in output

        ran = await house.run(
            cascade(phase("a", rules={"loop_until": "satisfied"})),
            {"a": ["hey", "done"]},
            tools=[satisfied],
        )
        assert ran.result.output == "done"


class TestSoundings:
    @pytest.mark.parametrize(
        "soundings",
        [
            {"validator": "loud", "evaluator": "first"},
            {"evaluator": {"validator": "loud"}},
        ],
    )
    async def test_an_inline_validator_judges_soundings(
        self, house: House, soundings: dict[str, Any]
    ) -> None:
        def first(outputs: list[str]) -> int:
            """The first."""
            return 0

        said = iter(["hey", "hey!"])

        def say(request: Request) -> str:
            return loud(request) or next(said)

        made = cascade(
            phase("a", soundings={"factor": 2, "max_parallel": 1, **soundings}), validators=LOUD
        )
        ran = await house.run(made, say, tools=[first])
        assert ran.result.output == "hey!"
        counted = ran.store.query("SELECT SUM(tokens_in) AS n FROM unified_logs")
        assert ran.result.usage.tokens_in == counted[0]["n"]

    async def test_an_inline_validator_is_the_threshold_of_reforge(self, house: House) -> None:
        said = iter(["hey", "hey", "hey!"])

        def say(request: Request) -> str:
            return loud(request) or next(said)

        reforge = {"steps": 3, "factor_per_step": 1, "honing_prompt": "Up.", "threshold": "loud"}
        soundings = {"factor": 2, "max_parallel": 1, "evaluator": "last", "reforge": reforge}

        def last(outputs: list[str]) -> int:
            """The last."""
            return len(outputs) - 1

        made = cascade(phase("a", soundings=soundings), validators=LOUD)
        ran = await house.run(made, say, tools=[last])
        assert ran.result.output == "hey!"
        assert next(said, None) is None, "one round, and then it was loud enough"
        assert [told["valid"] for told in ran.decisions("validator")] == [False, True]


class TestShipped:
    @pytest.mark.parametrize(
        ("name", "given", "refused", "accepted"),
        [
            ("length_check", {}, "short", "x" * 50),
            ("length_check", {"max_words": "2"}, "one two three", "one two"),
            ("length_check", {"min_length": 3, "max_length": 4}, "12345", "1234"),
            ("keyword_validator", {"keywords": "Tide, moon"}, "the tide", "THE MOON and tide"),
            ("keyword_validator", {"keywords": ["sun"]}, "moon", "sun"),
            ("keyword_validator", {"topic": "sea"}, "land", "the Sea"),
            ("code_execution_validator", {}, "Not code at all.", "print(1)"),
            ("code_execution_validator", {}, "```python\nx = (\n```", "```python\nx = 1\n```"),
            ("code_execution_validator", {}, "```json\n{1}\n```", '```json\n{"a": 1}\n```'),
        ],
    )
    async def test_functions_that_ask_no_model(
        self, house: House, name: str, given: dict[str, Any], refused: str, accepted: str
    ) -> None:
        ran = await house.run(
            cascade(phase("a", rules={"loop_until": name})), {"a": [refused, accepted]}, given
        )
        verdicts = [json_of(stored.row)["valid"] for stored in ran.rows(NodeType.VALIDATION)]
        assert verdicts == [False, True]
        assert len(ran.model.requests) == 2

    @pytest.mark.parametrize("name", sorted(JUDGES))
    async def test_questions_to_a_model(self, house: House, name: str) -> None:
        def say(request: Request) -> str:
            if request.messages[0].text != VALIDATOR_SYSTEM:
                return "better" if len(request.messages) > 1 else "hey"
            asked = request.messages[-1].text
            return json.dumps({"valid": "better" in asked, "reason": "no"})

        ran = await house.run(cascade(phase("a", rules={"loop_until": name})), say)
        assert ran.result.output == "better"
        assert str(JUDGES[name].description) in ran.request("a").messages[-1].text

    async def test_an_unknown_name_is_a_mistake_that_names_near_ones(self, house: House) -> None:
        made = cascade(phase("a", rules={"loop_until": "grammar_chek"}), validators=LOUD)
        with pytest.raises(CascadeError, match="no validator 'grammar_chek'; did you mean 'gramm"):
            await house.run(made)


class TestRules:
    @pytest.mark.req("AC-104")
    async def test_a_retry_tells_the_newest_reason_and_whether_the_schema_refused(
        self, house: House
    ) -> None:
        words = "{{ attempt }}|{{ schema_error }}|{{ validation_error }}|{{ outputs.a }}"
        rules = {"loop_until": "loud", "retry_instructions": words, "max_attempts": 4}
        schema = {"type": "object", "required": ["x"]}
        made = cascade(phase("a"), phase("b", rules=rules, output_schema=schema), validators=LOUD)
        said = iter(["{}", "{}", '{"x": 1}', '{"x": "!"}'])

        def say(request: Request) -> str:
            return loud(request) or ("A" if asked_by(request) == "a" else next(said))

        ran = await house.run(made, say)
        told = [
            message.text.partition("\n")[2]
            for message in ran.model.requests[-2].messages
            if message.text.startswith("[Validation Failed]")
        ]
        problem = "The output does not match its schema: $: 'x' is a required property."
        assert told == [f"2|{problem}|{problem}|A", "3||shout|A"]

    async def test_instructions_see_attempts_turns_and_soundings(self, house: House) -> None:
        words = (
            "Do a. {{ attempt }}/{{ max_attempts }} {{ turn }}/{{ max_turns }} {{ is_sounding }}"
            " {{ sounding_index }}/{{ sounding_factor }}{% if validation_error %}!{% endif %}"
        )
        one = {"name": "a", "instructions": words, "rules": {"max_attempts": 2}}
        ran = await house.run(cascade(one))
        assert ran.seen("a")[-1][1] == "Do a. 1/2 1/20 False 0/1"
        several = {"factor": 2, "evaluator_instructions": "x"}
        ran = await house.run(cascade({**one, "soundings": several}))
        texts = [ran.seen("a", number)[-1][1] for number in (1, 2)]
        assert texts == ["Do a. 1/2 1/20 True 0/2", "Do a. 1/2 1/20 True 1/2"]

    async def test_the_goal_stands_last_and_a_phase_without_a_judge_has_none(
        self, house: House
    ) -> None:
        made = cascade(phase("a", rules={"loop_until": "satisfied", "max_attempts": 1}), phase("b"))
        ran = await house.run(made, lambda r: '{"valid": true}' if loud(r) else "ok")
        (_, told) = ran.seen("a")[-1]
        assert told.startswith("Do a.")
        assert told.endswith("'satisfied': it does all that is asked.\nYou have 1 attempt.")
        assert ran.seen("b")[-1] == ("user", "Do b.")

    async def test_turns_go_on_after_tools_and_what_is_cut_ends_them(self, house: House) -> None:
        rules = {"turn_prompt": "Turn {{ turn }}: {{ validation_error }}", "max_turns": 3}
        made = cascade(phase("a", rules={**rules, "loop_until": "loud"}), validators=LOUD)
        ran = await house.run(made, script)
        assert ran.result.output == "hey!", "the reason was told in the turn's prompt"
        assert ran.seen("a", 2)[-1] == ("user", "Turn 2: shout")
        assert [s.row.attempt for s in ran.rows(NodeType.VALIDATION)] == [1, 1]
        assert len(ran.requests("a")) == 2

    async def test_json_of_a_cut_output_is_not_taken_from_its_inside(self, house: House) -> None:
        schema = {"type": "object", "required": ["x"]}
        ran = await house.run(
            cascade(phase("a", output_schema=schema)), {"a": ['{"y": {"x": 1}, ', '{"x": 2}']}
        )
        assert ran.result.state == {"validated_output": {"x": 2}}

    async def test_what_a_failed_attempt_validated_is_not_in_the_state(self, house: House) -> None:
        rules = {"loop_until": "never", "max_attempts": 1, "on_exhausted": "continue"}

        def never(output: str, state: dict[str, Any]) -> dict[str, Any]:
            """Never."""
            return {"valid": False, "reason": str(state["validated_output"])}

        schema = {"type": "object"}
        ran = await house.run(
            cascade(phase("a", output_schema=schema, rules=rules)), {"a": ["{}"]}, tools=[never]
        )
        (row,) = ran.rows(NodeType.VALIDATION)
        assert json_of(row.row)["validation_reason"] == "{}", "a function sees the value"
