"""What the newest Claude models refuse is not sent, and what was asked of them is done anyway.

The scripted server refuses as the vendor does, so that each of these runs would end with its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import cascade, phase
from tests.providers.thinking_server import ModelRules, Refuse, Say, ThinkingServer, thinking_server
from tests.tasks.making import atomic
from windlass.engine.events import Event, Noted
from windlass.engine.result import Result

OPUS, HAIKU = "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NO_SCHEMAS = ModelRules(schemas=False)
LOOK = Say("", [("look", {})], ["I will look."])


def look() -> str:
    """Look."""
    return "seen"


class Runs:
    """Runs against the server, with what was told."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.events: list[Event] = []

    @contextmanager
    def serving(self, *script: Any, **more: Any) -> Iterator[ThinkingServer]:
        with thinking_server(*script, **more) as server:
            server.settle(self.folder, self.patch)
            yield server

    def run(self, *phases: Any, model: str = OPUS, **keys: Any) -> Result:
        return windlass.run_sync(
            cascade(*phases, **keys),
            model=model,
            tools=[look],
            trust=True,
            on_event=self.events.append,
        )

    def told(self, word: str) -> list[str]:
        notes = [event.text for event in self.events if isinstance(event, Noted)]
        return [text for text in notes if word in text]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def last_texts(body: dict[str, Any]) -> list[str]:
    """The texts of a request's last message."""
    return [block["text"] for block in body["messages"][-1]["content"] if block["type"] == "text"]


class TestToolChoice:
    @pytest.mark.parametrize(
        ("choice", "asked"),
        [
            ("required", "Call one of your tools before you answer."),
            ("look", "Call the tool 'look' before you answer."),
        ],
    )
    def test_a_call_that_cannot_be_forced_is_asked_for(
        self, runs: Runs, choice: str, asked: str
    ) -> None:
        with runs.serving(LOOK, "Done.", LOOK, "Done.") as server:
            ran = runs.run(
                phase("a", tackle=["look"]), phase("b", tackle=["look"]), tool_choice=choice
            )
        assert (ran.status, server.refused) == ("completed", [])
        assert [body["tool_choice"]["type"] for body in server.bodies] == ["auto"] * 4
        assert last_texts(server.bodies[0]) == ["Do a.", asked]
        assert last_texts(server.bodies[2]) == ["Do b.", asked]
        assert server.bodies[1]["messages"][0]["content"][1]["text"] == asked
        (told,) = runs.told("tool_choice")
        assert told == (
            f"{OPUS} takes no tool_choice {choice!r}; 'auto' is sent, and the instructions ask for"
            " the call"
        )

    def test_each_attempt_asks_for_it(self, runs: Runs) -> None:
        rules = {"loop_until": "no_doubt", "max_attempts": 2}

        def no_doubt(output: str) -> bool:
            """Whether it is sure."""
            return "sure" in output

        with runs.serving("perhaps", "sure") as server:
            ran = windlass.run_sync(
                cascade(phase("a", tackle=["look"], tool_choice="look", rules=rules)),
                model=OPUS,
                tools=[look, no_doubt],
                trust=True,
            )
        assert (ran.status, server.refused) == ("completed", [])
        (again,) = last_texts(server.bodies[1])
        assert again.endswith("\n\nCall the tool 'look' before you answer.")

    def test_a_model_that_can_be_forced_is(self, runs: Runs) -> None:
        with runs.serving(LOOK, "Done.") as server:
            runs.run(phase("a", tackle=["look"], tool_choice="look"), model=HAIKU)
        assert server.bodies[0]["tool_choice"] == {"type": "tool", "name": "look"}
        assert last_texts(server.bodies[0]) == ["Do a."]
        assert runs.told("tool_choice") == []

    def test_a_task_asks_for_it_and_is_resumed(self, runs: Runs) -> None:
        xml = atomic("a", "<tools><tool>look</tool></tools><tool_choice>look</tool_choice>")
        (runs.folder / "t.xml").write_text(xml)
        options: dict[str, Any] = {"model": OPUS, "tools": [look], "trust": True}
        with runs.serving(LOOK, "Done.") as server:
            ran = windlass.evaluate_sync("t.xml", max_turns=1, **options)
            assert (ran.reason, server.refused) == ("turns", [])
            assert last_texts(server.bodies[0])[-1] == "Call the tool 'look' before you answer."
            ran = windlass.resume_task_sync(ran.session_id, **options)
            assert (ran.output, server.refused) == ("Done.", [])
            assert len(server.bodies) == 2  # the first was not asked again


class TestOutputSchema:
    def test_it_is_asked_for_as_the_provider_has_it(self, runs: Runs) -> None:
        with runs.serving('{"x": 1}') as server:
            ran = runs.run(phase("a", output_schema=SCHEMA))
        assert (ran.output, server.refused) == ('{"x": 1}', [])
        assert server.bodies[0]["output_config"]["format"]["type"] == "json_schema"

    def test_where_it_is_not_taken_it_is_asked_for_in_words(self, runs: Runs) -> None:
        with runs.serving('{"x": 1}', rules=NO_SCHEMAS) as server:
            ran = runs.run(phase("a", output_schema=SCHEMA), phase("b", output_schema=SCHEMA))
        assert (ran.status, ran.error) == ("completed", None)
        assert len(server.refused) == 1
        assert ["output_config" in body for body in server.bodies] == [True, False, False]
        # Nothing of what was sent changes: what asks for it stands behind it.
        assert [last_texts(body)[0] for body in server.bodies] == ["Do a.", "Do a.", "Do b."]
        for body in server.bodies[1:]:
            asked = last_texts(body)[1]
            assert asked.startswith("Answer with one JSON object alone")
            assert '"integer"' in asked
        assert len(runs.told("output_schema")) == 1

    def test_a_resumed_run_knows_it(self, runs: Runs) -> None:
        made = [phase(name, output_schema=SCHEMA) for name in "ab"]
        with runs.serving('{"x": 1}', rules=NO_SCHEMAS) as server:
            ended = windlass.run_sync(cascade(*made), model=OPUS, trust=True, max_turns=2)
            assert (ended.reason, len(server.answered)) == ("turns", 1)
            ran = windlass.resume_sync(ended.session_id, trust=True, max_turns=9)
        assert (ran.status, ran.output) == ("completed", '{"x": 1}')
        assert len(server.answered) == 2  # the first was not asked again

    def test_what_does_not_match_is_mended_once(self, runs: Runs) -> None:
        rules = {"max_attempts": 1}
        with runs.serving("x is 1", '{"x": 1}', rules=NO_SCHEMAS) as server:
            ran = runs.run(phase("a", output_schema=SCHEMA, rules=rules))
        assert (ran.output, len(server.refused)) == ('{"x": 1}', 1)
        assert last_texts(server.bodies[-1])[0].startswith("[Output Invalid]")

    def test_another_refusal_is_told(self, runs: Runs) -> None:
        with runs.serving(Refuse("max_tokens: 4096 > 1024")) as server:
            ran = runs.run(phase("a", output_schema=SCHEMA))
        assert "max_tokens: 4096 > 1024" in str(ran.error)
        assert len(server.bodies) == 1


class TestNotes:
    def test_text_between_calls_that_comes_as_thinking(self, runs: Runs) -> None:
        with runs.serving(LOOK, Say("Done.")) as server:
            ran = runs.run(phase("a", tackle=["look"]))
        assert (ran.status, ran.output, server.refused) == ("completed", "Done.", [])

    @pytest.mark.parametrize(
        ("model", "thinking", "reason"),
        [
            (OPUS, "The file is fine.", None),
            (OPUS, " ", "empty"),
            (HAIKU, "The file is fine.", "empty"),
        ],
    )
    def test_a_reply_of_thinking_alone(
        self, runs: Runs, model: str, thinking: str, reason: str | None
    ) -> None:
        with runs.serving(LOOK, Say(thinking=[thinking])):
            ran = runs.run(phase("a", tackle=["look"]), model=model)
        assert ran.reason == reason


def test_the_call_that_closes_a_phase_changes_nothing_that_was_sent(runs: Runs) -> None:
    rules = {"max_turns": 2}
    with runs.serving(LOOK, LOOK, "Closed.", "Next.") as server:
        made = phase("a", tackle=["look"], tool_choice="look", rules=rules)
        ran = runs.run(made, phase("b"), system="Be brief.")
    assert (ran.outputs["a"], ran.outputs["b"], server.refused) == ("Closed.", "Next.", [])
    closing = server.bodies[2]
    assert closing["tool_choice"] == {"type": "none"}
    for key in ("system", "tools", "thinking"):
        assert bare(closing.get(key)) == bare(server.bodies[1].get(key))
    sent = len(server.bodies[1]["messages"])
    assert bare(closing["messages"][:sent]) == bare(server.bodies[1]["messages"])


def bare(value: Any) -> Any:
    """JSON data without cache marks."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "cache_control"}
    return [bare(one) for one in value] if isinstance(value, list) else value
