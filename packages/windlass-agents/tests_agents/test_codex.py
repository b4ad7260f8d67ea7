"""What Codex tells its hooks and records beside, answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.hooks_events import SESSION, HookedAgent, after, kept, listing, log

from windlass_agents.agent_events import ToolEvent
from windlass_agents.agents import adapter_of
from windlass_agents.hook_journal import deliveries, main_transcript


def codex(text: Any, call_id: str = "c1", **keys: Any) -> dict[str, Any]:
    return {**after(text, call_id), "model": "gpt-5.5", "turn_id": "t1", **keys}


def test_codex_is_told_the_short_form_as_a_reason(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="codex")
    told = agent.tell(codex(log()))
    assert told.keys() == {"decision", "reason"}
    assert told["decision"] == "block"
    assert len(told["reason"]) < len(log()) / 2
    (line,) = agent.lines()
    assert kept(agent.journal, line.original).text == log()
    assert [one.model for one in agent.journal.calls("codex", SESSION)] == ["openai/gpt-5.5"]


def test_what_codex_saw_before_is_referred_to_and_a_compaction_forgets_it(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="codex")
    assert agent.tell(codex(listing())) is None
    assert agent.tell(codex(listing(), "c2"))["reason"].startswith("[Same as")
    assert agent.tell(codex(listing(), "c3", agent_id="left")) is None
    compacted = {"session_id": SESSION, "hook_event_name": "SessionStart", "source": "compact"}
    agent.tell(compacted)
    assert agent.tell(codex(listing(), "c4")) is None


def test_what_codex_has_in_another_shape_stays(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="codex")
    assert agent.tell(codex({"content": [{"type": "text", "text": log()}]})) is None
    assert [line.outcome for line in agent.lines()] == ["unknown shape"]


@pytest.mark.parametrize("more", [{}, {"isError": True}, {"structuredContent": {"a": 1}}])
def test_the_only_text_of_an_mcp_tool_is_shortened(tmp_path: Path, more: dict[str, Any]) -> None:
    agent = HookedAgent(tmp_path, name="codex")
    result = {"content": [{"type": "text", "text": log()}], **more}
    told = agent.tell(codex(result, tool_name="mcp__table__records"))
    assert (told is None) == bool(more)


def test_what_codex_would_cut_itself_is_no_saving(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, name="codex")
    result = {"content": [{"type": "text", "text": log(2_000)}]}
    agent.tell(codex(result, tool_name="mcp__table__records"))
    [line] = agent.lines()
    assert line.cut
    assert kept(agent.journal, line.original).text == log(2_000)


# ---- what Codex records beside ---------------------------------------------------------

Item = dict[str, Any]


def ran(call_id: str, name: str = "exec_command") -> Item:
    """A call of the model's own."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def said(call_id: str, output: str) -> Item:
    """What the model was shown."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def ended(call_id: str, exit_code: int) -> Item:
    """How a command ended."""
    item = {"type": "CommandExecution", "id": call_id, "exit_code": exit_code}
    return {"type": "item_completed", "item": item}


class Rollout:
    """A session of Codex with its record."""

    def __init__(self, folder: Path, *items: Item) -> None:
        self.agent = HookedAgent(folder, name="codex")
        self.path = folder / f"rollout-2026-01-01T12-00-00-{SESSION}.jsonl"
        self.add(*items)

    def add(self, *items: Item) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            for item in items:
                file.write(json.dumps({"type": "response_item", "payload": item}) + "\n")

    def tell(self, text: str, call_id: str = "c1", tool: str = "Bash") -> str | None:
        """What the model gets (None: the result as it came)."""
        told = self.agent.tell(codex(text, call_id, tool_name=tool, transcript_path=str(self.path)))
        return None if told is None else str(told["reason"])

    def outcomes(self) -> list[str]:
        return [line.outcome for line in self.agent.lines()]


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path)


def test_a_short_form_says_how_the_command_ended(rollout: Rollout) -> None:
    rollout.add(ran("c1"), ended("c0", 0), ended("c1", 3))
    told = rollout.tell(log())
    assert told is not None
    assert told.startswith("Process exited with code 3\nOutput:\n")
    rollout.add(said("c1", told))
    lines = rollout.agent.lines()
    assert main_transcript(lines) == rollout.path
    assert deliveries(lines, rollout.path) == {"c1": True}
    rollout.add(ran("c2"), ended("c2", 0))
    again = rollout.tell(log(), "c2")
    assert again is not None
    assert again.startswith("Process exited with code 0\nOutput:\n[Same as")


def test_where_it_is_not_recorded_how_a_command_ended_its_result_stays(rollout: Rollout) -> None:
    rollout.add(ran("c1"))
    assert rollout.tell(log()) is None
    rollout.add(ran("c2", "web"))
    assert rollout.tell(log(name="other"), "c2", "web") is not None  # no command
    assert rollout.outcomes() == ["unknown shape", "shortened"]


def test_what_a_script_of_the_model_called_stays(rollout: Rollout) -> None:
    rollout.add(ran("c1"), ended("exec-1", 0))
    assert rollout.tell(log(), "exec-1") is None
    assert rollout.agent.tell(codex(log(), "exec-2")) is None
    assert rollout.outcomes() == ["unknown shape"] * 2


def test_in_a_session_that_is_not_recorded_results_stay(rollout: Rollout) -> None:
    assert rollout.agent.tell(codex(log(), transcript_path=None)) is None
    rollout.path.unlink()
    assert rollout.tell(log(), "c2") is None
    assert rollout.outcomes() == ["unknown shape"] * 2


def test_a_result_that_was_waited_for_is_that_of_the_call_that_waits(rollout: Rollout) -> None:
    rollout.add(ran("c1"), said("c1", "running"), ran("c2", "write_stdin"), said("c2", ""))
    rollout.add(ran("c3", "write_stdin"), ended("c1", 0))
    assert rollout.tell(log()) is not None
    assert [line.call_id for line in rollout.agent.lines()] == ["c3"]


def test_a_result_that_one_of_two_calls_waits_for_stays(rollout: Rollout) -> None:
    rollout.add(ran("c1"), said("c1", "running"))
    rollout.add(ran("c2", "write_stdin"), ran("c3", "write_stdin"), ended("c1", 0))
    assert rollout.tell(log()) is None


def test_a_call_is_found_far_from_the_end(rollout: Rollout) -> None:
    rollout.add(ran("c1"), said("c0", "x" * 3_000_000), ended("c1", 0))
    assert rollout.tell(log()) is not None


@pytest.mark.parametrize(("text", "fits"), [("a" * 9_000, True), ("\u4e2d" * 4_000, False)])
def test_what_codex_would_cut_is_no_short_form(text: str, *, fits: bool) -> None:
    event = adapter_of("codex").read_event(codex(log()))
    assert isinstance(event, ToolEvent)
    assert event.fits is not None
    assert event.fits(text, log()) is fits
