"""A cascade on a model that binds its thinking: nothing is refused, and what is lost is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import windlass
from tests.engine.harness import cascade, phase
from tests.providers.thinking_server import (
    ModelRules,
    Refuse,
    Say,
    ThinkingServer,
    thinking_server,
)
from tests.support.engine_bound_thinking import (
    MODEL,
    log,
    look,
    replies,
    signatures,
    thinking_of,
)
from windlass.cli.session_text import planner_text
from windlass.errors import ThinkingRefused
from windlass.history.sqlite import SqliteStore
from windlass.report.explanation import explain_call
from windlass.report.session_costs import session_report


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThinkingServer]:
    said = replies()
    with thinking_server(lambda _: next(said)) as server:
        server.settle(tmp_path, monkeypatch)
        yield server


def run(made: dict[str, Any], **more: Any) -> Any:
    return windlass.run_sync(made, model=MODEL, tools=[look, log], trust=True, **more)


def three(**more: Any) -> dict[str, Any]:
    names = ("one", "two", "three")
    return cascade(*(phase(name, tackle=["look", "log"]) for name in names), **more)


def accept(output: str) -> bool:
    """Whether an answer has an even number: every second attempt is good."""
    return output.endswith(("2.", "4.", "6.", "8."))


WHOLE: dict[str, dict[str, Any]] = {
    "without a policy": {},
    "default": {"auto_context": {}},
    "lean": {"auto_context": {"profile": "lean"}},
    "careful": {"auto_context": {"profile": "careful"}},
    "spec": {"auto_context": {"profile": "spec"}},
    "injectors": {"auto_context": {"inter_phase": False}, "injectors": True},
}
"""What a cascade says, where no thinking is lost."""

FORCED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "at once": ({"auto_context": {"commit": "at_once"}}, {}),
    "a limit": ({"auto_context": {}}, {"max_input_tokens": 9_000}),
    "recent turns": ({"auto_context": {"intra_phase": {"keep_recent_turns": 2}}}, {}),
    "a lifetime": ({}, {"context_ttl": {"tool_results": 1}}),
    "retention": ({}, {"context_retention": "output_only"}),
    "other tools": ({"auto_context": {}}, {"tackle": ["look", "log", "run_sql"]}),
    "another system prompt": ({"auto_context": {}}, {"system": "You are another one."}),
    "the newest turns": ({}, {"context_strategy": "recent", "turns": 1}),
    "chosen": ({}, {"context": {"from": [{"phase": "one", "include": ["messages"]}]}}),
}
"""What cascade and second phase say, where some is lost."""


@pytest.mark.parametrize("said", WHOLE.values(), ids=WHOLE)
def test_by_default_all_thinking_is_sent_back_for_ever(
    server: ThinkingServer, said: dict[str, Any]
) -> None:
    ran = run(three(**said))
    assert (ran.status, str(ran.error)) == ("completed", "None")
    assert server.refused == []
    assert len(server.answered) == 9
    assert thinking_of(server.bodies[-1]) == signatures(server)


@pytest.mark.parametrize(("said", "second"), FORCED.values(), ids=FORCED)
def test_what_is_forced_takes_thinking_away_and_says_so(
    server: ThinkingServer, said: dict[str, Any], second: dict[str, Any]
) -> None:
    made = three(**said)
    for at in (1, 2) if "tackle" not in second else (1,):
        made["phases"][at] |= second
    events: list[str] = []
    ran = run(made, on_event=lambda event: events.append(str(event)))
    assert (ran.status, str(ran.error)) == ("completed", "None")
    assert server.refused == []
    assert set(signatures(server)) - set(thinking_of(server.bodies[-1]))
    assert any("thinking of" in event for event in events)


class TestOtherWaysToGoOn:
    """Doors and events by which a conversation goes on otherwise than by a plain reply."""

    def test_attempts(self, server: ThinkingServer) -> None:
        made = three(auto_context={})
        for one in made["phases"]:
            one["rules"] = {"loop_until": "accept", "max_attempts": 4}
        ran = windlass.run_sync(made, model=MODEL, tools=[look, log, accept], trust=True)
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert len(server.answered) > 9
        assert server.refused == []

    def test_a_reply_that_is_cut_and_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = replies()
        script: list[Any] = [
            lambda _: next(said),
            Say("This is", stop="max_tokens"),
            " all.",
            Say("Good."),
            "E",
        ]
        with thinking_server(*script) as server:
            server.settle(tmp_path, monkeypatch)
            ran = run(three(auto_context={}))
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert ran.outputs["one"] == "This is all."
        assert server.refused == []
        joined = server.bodies[-1]["messages"][3]["content"]
        first = server.answered[1][1][0]["signature"]
        assert [one.get("signature") for one in joined if one["type"] == "thinking"] == [first]

    def test_soundings(self, server: ThinkingServer) -> None:
        made = three(auto_context={})
        made["phases"][1]["soundings"] = {"factor": 3, "evaluator_instructions": "The best."}
        ran = run(made)
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == []

    @pytest.mark.parametrize("limit", [2, 4, 5, 7])
    def test_a_session_that_is_resumed(self, server: ThinkingServer, limit: int) -> None:
        Path("three.json").write_text(json.dumps(three(auto_context={})))
        ran = windlass.run_sync(
            "three.json", model=MODEL, tools=[look, log], trust=True, max_turns=limit
        )
        assert ran.status == "incomplete"
        again = windlass.resume_sync(ran.session_id, tools=[look, log], trust=True)
        assert (again.status, str(again.error)) == ("completed", "None")
        assert server.refused == []
        assert thinking_of(server.bodies[-1]) == signatures(server)

    @pytest.mark.parametrize("at", [2, 4, 6, 8])
    def test_a_fork(self, server: ThinkingServer, at: int) -> None:
        Path("three.json").write_text(json.dumps(three(auto_context={})))
        ran = windlass.run_sync("three.json", model=MODEL, tools=[look, log], trust=True)
        forked = windlass.fork_sync(
            ran.session_id, at, message="Look again.", tools=[look, log], trust=True
        )
        assert (forked.status, str(forked.error)) == ("completed", "None")
        assert server.refused == []

    def test_a_task(self, server: ThinkingServer) -> None:
        atomic = '<task type="atomic" name="{0}"><description>Do {0}.</description></task>'
        steps = f"<steps>{atomic.format('a')}{atomic.format('b')}</steps>"
        whole = f"<description>All.</description>{steps}"
        Path("all.xml").write_text(f'<task type="sequential" name="all">{whole}</task>')
        ran = windlass.evaluate_sync("all.xml", model=MODEL, tools=[look, log], trust=True)
        assert str(ran.error) == "None"
        assert server.refused == []


class TestThinkingThatIsRefusedAllTheSame:
    """A model that binds, and was not known to."""

    RULES = ModelRules(bound=True)
    OPEN: ClassVar[dict[str, Any]] = {"context_ttl": {"tool_results": 1}}
    """An edit within an open tool round, whose thinking such models want back."""

    def run(self, server: ThinkingServer, **more: Any) -> Any:
        made = cascade(phase("one", tackle=["look", "log"], **self.OPEN), phase("two"))
        Path("c.json").write_text(json.dumps(made))
        options: dict[str, Any] = {
            "model": "anthropic/claude-opus-5",
            "tools": [look, log],
            "trust": True,
        }
        return windlass.run_sync("c.json", **options, **more)

    def test_it_is_sent_once_more_without_any(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said, events = replies(), list[str]()
        with thinking_server(lambda _: next(said), rules=self.RULES) as server:
            server.settle(tmp_path, monkeypatch)
            ran = self.run(server, on_event=lambda event: events.append(str(event)))
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert len(server.refused) == 1, "what is known of the model is remembered"
        assert thinking_of(server.bodies[2])
        assert not thinking_of(server.bodies[3]), "the refused request went without any"
        assert sum("refused earlier thinking" in event for event in events) == 1

    def test_a_resumed_run_remembers_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = replies()
        with thinking_server(lambda _: next(said), rules=self.RULES) as server:
            server.settle(tmp_path, monkeypatch)
            ran = self.run(server, max_turns=3)
            assert (ran.status, len(server.refused)) == ("incomplete", 1)
            again = windlass.resume_sync(ran.session_id, "c.json", tools=[look, log], trust=True)
        assert (again.status, str(again.error)) == ("completed", "None")
        assert len(server.refused) == 1

    def test_what_cannot_be_mended_so_is_a_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = "messages.1.content.0: Invalid `signature` in `thinking` block."
        with thinking_server(Refuse(words)) as server:
            server.settle(tmp_path, monkeypatch)
            ran = run(three())
        assert isinstance(ran.error, ThinkingRefused)
        assert len(server.refused) == 1


def test_explain_says_what_thinking_holds_and_what_was_left_out(
    server: ThinkingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = three(auto_context={})
    made["phases"][1]["context_ttl"] = {"tool_results": 1}
    made["phases"][2]["system"] = "You are another one."
    ran = run(made, session_id="s1")
    assert str(ran.error) == "None"
    with SqliteStore.open_existing(Path(".windlass")) as store:
        early, forced, later = (explain_call(store, "s1", at) for at in (5, 6, 7))
        report = session_report(store, "s1", "anthropic/claude-sonnet-5-5")
    assert early.planner is not None
    assert early.planner.verdict == "held"
    assert {wait.call for wait in early.planner.waits} == {None}
    assert "the model binds the thinking behind them" in planner_text(early.planner)
    assert not [note for note in early.notes if "thinking" in note]
    (told,) = [note for note in forced.notes if "thinking" in note]
    assert told.startswith("phase 'two': the thinking of 1 reply is left out from here on (")
    assert told.endswith("and message 9 is another one (expire)")
    assert any("the phase does not go on from it" in note for note in later.notes)
    assert report.thinking == (told, *(note for note in later.notes if "does not go on" in note))
