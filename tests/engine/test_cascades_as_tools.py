"""Cascades that are tools: called by a model, named as validators, resumed, nested."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, asked_by, call, calls, phase
from tests.support.engine_resume import Gone, Model, resumed
from tests.support.engine_sub_cascades import write
from windlass.cli.app import app
from windlass.errors import CascadeError
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

TOPIC = {"topic": "what to look up"}


def lookup(house: House, *phases: Any, **keys: Any) -> Path:
    """The tool `lookup` in the folder of tools."""
    asks = phases or ({"name": "look", "instructions": "Do look. {{ input.topic }}"},)
    return write(house, "tools/lookup.json", *asks, inputs_schema=TOPIC, **keys)


def main(house: House, *phases: Any, **keys: Any) -> Path:
    """A cascade that names the folder of tools."""
    return write(house, "main.yaml", *phases, tools=["./tools"], **keys)


def tokens_in(house: House) -> int:
    """What all calls of all sessions took."""
    (found,) = house.open_store().query("SELECT SUM(tokens_in) AS n FROM unified_logs")
    return int(found["n"])


def asks(request: Request) -> Any:
    """Phase `a` looks something up and says what it found."""
    if asked_by(request) == "look":
        return "42 pages"
    last = request.messages[-1]
    return f"Found {last.text}" if last.role == "tool" else calls(call("lookup", '{"topic": "x"}'))


class TestTool:
    async def test_a_cascade_in_a_folder_of_tools_is_called_and_has_its_own_session(
        self, house: House
    ) -> None:
        lookup(house, description="Looks something up.")
        ran = await house.run(main(house, phase("a", tackle=["lookup"])), asks)
        assert ran.result.output == "Found 42 pages"
        (spec,) = ran.request("a").tools
        assert spec.description == "Looks something up."
        assert spec.parameters["properties"] == {
            "topic": {"type": "string", "description": "what to look up"}
        }
        assert spec.parameters["required"] == ["topic"]
        (told,) = ran.decisions("sub_cascade")
        child = ran.store.start(told["session_id"])
        assert child.parent_id == ran.session
        assert child.input == {"topic": "x"}
        assert "Do look. x" in ran.seen("look")[-1][1]
        assert ran.result.usage.tokens_in == tokens_in(house)

    async def test_a_file_may_be_named_and_other_files_of_a_folder_are_no_tools(
        self, house: House
    ) -> None:
        lookup(house)
        write(house, "tools/notes.json", phase("b"))
        (house.folder / "tools" / "data.json").write_text("[1, 2]")
        (house.folder / "tools" / "read.txt").write_text("nothing")
        named = write(
            house, "main.json", phase("a", tackle=["lookup"]), tools=["tools/lookup.json"]
        )
        assert (await house.run(named, asks)).result.output == "Found 42 pages"
        folder = main(house, phase("a", tackle=["lookup"]))
        assert (await house.run(folder, asks)).result.output == "Found 42 pages"

    async def test_folders_of_tools_may_be_the_users(self, house: House) -> None:
        lookup(house)
        made = write(house, "main.json", phase("a", tackle=["lookup"]))
        ran = await house.run(made, asks, tools=[str(house.folder / "tools")])
        assert ran.result.output == "Found 42 pages"
        with pytest.raises(CascadeError, match="there is no tool 'lookup'"):
            await house.run(made, asks)

    async def test_a_fork_with_changes_finds_its_tools(
        self, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lookup(house)
        file = main(house, phase("a", tackle=["lookup"]))
        ran = await house.run(file, asks)
        (elsewhere := tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(elsewhere)
        result = await windlass.fork(
            ran.session,
            at=2,
            changes={"description": "other"},
            model="scripted/x",
            store=house.store,
            root=house.folder,
            providers={"scripted": Scripted(asks)},
        )
        assert result.output == "Found 42 pages"

    async def test_a_file_without_inputs_schema_is_no_tool(self, house: House) -> None:
        write(house, "tools/notes.json", phase("b"))
        named = write(house, "main.json", phase("a"), tools=["tools/notes.json"])
        with pytest.raises(CascadeError, match="is no tool: a cascade that is one says under 'inp"):
            await house.run(named)

    async def test_mistakes_of_a_tool_that_is_named_are_told_with_its_file(
        self, house: House
    ) -> None:
        lookup(house, {"name": "look", "instructions": "{{ nobody }}"})
        with pytest.raises(CascadeError, match=r"lookup\.json:\d+.*cannot use 'nobody'"):
            await house.run(main(house, phase("a", tackle=["lookup"])))

    async def test_one_that_fails_is_a_failed_call(self, house: House) -> None:
        lookup(house, phase("look", output_schema={"type": "object"}, rules={"max_attempts": 1}))
        ran = await house.run(main(house, phase("a", tackle=["lookup"])), asks)
        assert "Found the cascade 'lookup' failed: phase 'look' used up" in str(ran.result.output)

    async def test_calls_are_nested_as_deep_as_sub_cascades(self, house: House) -> None:
        for level in range(1, 8):
            own = phase("look", tackle=[f"level{level + 1}"] if level < 7 else ())
            write(house, f"tools/level{level}.json", own, inputs_schema=TOPIC, tools=["./"])

        def script(request: Request) -> Any:
            last = request.messages[-1]
            if last.role == "tool" or not request.tools:
                return last.text
            return calls(call(request.tools[0].name, '{"topic": "x"}'))

        ran = await house.run(main(house, phase("a", tackle=["level1"])), script)
        assert "cascades are nested at most 5 deep, and 'level6' would be more" in str(
            ran.result.output
        )
        sessions = ran.store.query("SELECT DISTINCT session_id AS s FROM unified_logs")
        assert len(sessions) == 1 + 5

    async def test_a_limit_of_the_run_holds_for_what_its_tools_ask(self, house: House) -> None:
        lookup(house)
        file = main(house, phase("a", tackle=["lookup"]), limits={"max_turns": 1})
        ran = await house.run(file, asks)
        assert ran.result.status == "incomplete"
        assert ran.requests("look") == []

    async def test_a_phase_may_run_one_itself(self, house: House) -> None:
        lookup(house)
        file = main(house, {"name": "a", "tool": "lookup", "inputs": {"topic": "{{ input.x }}"}})
        ran = await house.run(file, asks, {"x": "tides"})
        assert ran.result.output == "42 pages"
        assert ran.seen("look")[-1][1] == "Do look. tides"
        assert len(ran.decisions("sub_cascade")) == 1


class TestResume:
    async def test_a_resumed_run_takes_up_the_session_of_its_tool(self, house: House) -> None:
        lookup(house, phase("look"), phase("tell"))
        file = main(house, phase("a", tackle=["lookup"]))

        def script(request: Request) -> Any:
            return "42 pages" if asked_by(request) == "tell" else asks(request)

        model = Model(3, script)  # gone where the tool's second phase asks
        with pytest.raises(Gone):
            await house.run(file, model, session_id="s")
        result, asked = await resumed(house, script, tools=())
        assert result.output == "Found 42 pages"
        assert [asked_by(each) for each in asked] == ["tell", "a"]
        assert result.usage.tokens_in == tokens_in(house)

    async def test_a_call_that_is_in_the_record_is_counted_and_not_made_again(
        self, house: House
    ) -> None:
        lookup(house)
        file = main(house, phase("a", tackle=["lookup"]))
        with pytest.raises(Gone):
            await house.run(file, Model(3, asks), session_id="s")
        result, asked = await resumed(house, asks, tools=())
        assert [asked_by(each) for each in asked] == ["a"]
        assert result.usage.tokens_in == tokens_in(house)


class TestValidator:
    async def test_a_cascade_judges_by_content_and_original_input(self, house: House) -> None:
        write(
            house,
            "tools/polite.yaml",
            {"name": "j", "instructions": "Do j. {{ input.content }} {{ input.original_input }}"},
            inputs_schema={"content": "the text", "original_input": "what was asked"},
            description="it is polite",
        )

        def script(request: Request) -> Any:
            if asked_by(request) == "a":
                return "please" if len(request.messages) > 1 else "now"
            polite = "please" in request.messages[-1].text
            verdict = json.dumps({"valid": polite, "reason": "say please"})
            return f"I think:\n```json\n{verdict}\n```"

        file = main(house, phase("a", rules={"loop_until": "polite"}))
        ran = await house.run(file, script, {"who": "Ada"})
        assert ran.result.output == "please"
        assert ran.seen("j")[-1][1] == 'Do j. now {"who": "Ada"}'
        assert "say please" in ran.seen("a", 2)[-1][1]
        assert "'polite': it is polite" in ran.request("a").messages[0].text
        told = ran.decisions("validator")
        assert [each["valid"] for each in told] == [False, True]

    @pytest.mark.parametrize("place", ["loop_until", "ward", "soundings"])
    async def test_its_other_inputs_keep_their_defaults(self, house: House, place: str) -> None:
        file = judged(house, place, "{{ input.least | default(5) }}")
        ran = await house.run(file, judge, TEA)
        assert "long enough" in str(ran.result.output)
        assert ran.result.status == "completed"
        assert ran.seen("j")[0][1] == "Do j. 5 words? long enough, of tea"

    @pytest.mark.parametrize(
        ("place", "where"),
        [
            ("loop_until", "phase 'a', rules.loop_until"),
            ("ward", "phase 'a', wards.post[0]"),
            ("soundings", "phase 'a', soundings.validator"),
        ],
    )
    async def test_an_input_without_a_default_is_found_before_a_run(
        self, house: House, place: str, where: str
    ) -> None:
        told = (
            rf"main\.json:\d+: {re.escape(where)}: the cascade 'long_enough' needs the input"
            r" 'least' \(.*long_enough\.json:\d+\), and as a validator it is given content,"
            r" original_input; give it a default there"
        )
        file = judged(house, place, "{{ input.least }}")
        with pytest.raises(CascadeError, match=told):
            await house.run(file, judge, TEA)
        checked = CliRunner().invoke(app, ["check", str(file)])
        assert re.search(told, " ".join(str(checked.exception).split()))

    async def test_a_verdict_is_not_paid_for_twice(self, house: House) -> None:
        file = judged(house, "loop_until", "{{ input.least | default(5) }}", phase("b"))
        whole = await house.run(file, judge, TEA)
        with pytest.raises(Gone):
            await house.run(file, Model(3, judge), TEA, session_id="s")
        result, asked = await resumed(house, judge, tools=())
        assert [asked_by(each) for each in asked] == ["b"]
        assert result.outputs == whole.result.outputs
        assert result.usage.tokens_in == whole.result.usage.tokens_in

    async def test_the_input_is_a_value_unless_it_is_declared_as_text(self, house: House) -> None:
        words = "{{ input.original_input.topic }}"
        ran = await house.run(judged(house, "loop_until", words), judge, TEA)
        assert ran.seen("j")[0][1].startswith("Do j. tea words?")
        text = {"type": "string"}
        words = "{{ input.original_input | tojson }}"
        write(
            house,
            "tools/long_enough.json",
            {"name": "j", "instructions": f"Do j. {words}"},
            inputs_schema={"content": "the text", "original_input": text},
        )
        ran = await house.run(house.folder / "main.json", judge, TEA)
        assert ran.seen("j")[0][1] == f"Do j. {json.dumps(json.dumps(TEA))}"

    async def test_one_other_name_takes_the_text(self, house: House) -> None:
        judging = {"name": "j", "instructions": "Do j. {{ input.draft }}"}
        write(house, "tools/polite.json", judging, inputs_schema={"draft": "the text"})
        file = main(house, phase("a", rules={"loop_until": "polite"}))
        ran = await house.run(file, judge, TEA)
        assert ran.seen("j")[0][1] == "Do j. long enough"

    async def test_what_a_function_lacks_is_found_before_a_run(self, house: House) -> None:
        def long_enough(content: str, least: int) -> bool:
            return len(content) > least

        made = {"cascade_id": "c", "phases": [phase("a", rules={"loop_until": "long_enough"})]}
        with pytest.raises(CascadeError, match=r"loop_until: 'long_enough' needs 'least', and is"):
            await house.run(made, judge, tools=[long_enough])


TEA = {"topic": "tea"}
PLACES: dict[str, dict[str, Any]] = {
    "loop_until": {"rules": {"loop_until": "long_enough"}},
    "ward": {"wards": {"post": ["long_enough"]}},
    "soundings": {
        "soundings": {"factor": 2, "validator": "long_enough", "evaluator_instructions": "Pick."}
    },
}


def judge(request: Request) -> Any:
    """Every text is accepted."""
    return '{"valid": true}' if asked_by(request) == "j" else "long enough"


def judged(house: House, place: str, least: str, *more: Any) -> Path:
    """A phase that a cascade judges in a place, which asks for another input, too."""
    words = f"Do j. {least} words? {{{{ input.content }}}}, of {{{{ input.original_input.topic }}}}"
    write(
        house,
        "tools/long_enough.json",
        {"name": "j", "instructions": words},
        inputs_schema={"content": "the text", "least": "how many words"},
    )
    return write(house, "main.json", phase("a", **PLACES[place]), *more, tools=["./tools"])
