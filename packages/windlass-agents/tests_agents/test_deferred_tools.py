"""Which tools wait behind the search for tools: by price, once a session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.public import Prices
from windlass_agents.agent_events import AgentPlace
from windlass_agents.deferred_tools import IN_FRONT, ToolDoor, costs, decide, tools_named
from windlass_agents.hook_journal import HookJournal
from windlass_agents.hooked_sessions import prune_journals
from windlass_agents.tool_uses import SessionTools, known_sessions, read_sessions

PRICES = Prices(read=0.1, write=1.25, minimum=0, step=1, ttl_s=300)
PROJECT = "/harbour"


def sessions(*used: Sequence[str], project: str = "/elsewhere") -> list[SessionTools]:
    return [
        SessionTools(project, float(number), 60, 60_000, tuple(tools))
        for number, tools in enumerate(used)
    ]


def waits(tool: str, tokens: int, known: list[SessionTools], *named: str) -> bool:
    decision = decide(tool, tokens, known, project=PROJECT, named=named, prices=PRICES)
    assert decision.reason
    return decision.deferred


@given(
    st.sampled_from(sorted(IN_FRONT)),
    st.integers(0, 100_000),
    st.lists(st.lists(st.sampled_from(["Bash", "Agent"]))),
)
def test_some_tools_never_wait(tool: str, tokens: int, used: list[list[str]]) -> None:
    assert not waits(tool, tokens, sessions(*used))


def test_without_sessions_the_agent_tool_and_what_settings_name_stay() -> None:
    assert not waits("Agent", 1_450, [])
    assert not waits("WebFetch", 300, [], "WebFetch")
    assert not waits("mcp__docs__find", 300, [], "mcp__docs")
    assert not waits("mcp__docs__find", 300, [], "mcp__docs__*")
    assert waits("WebFetch", 300, [], "WebSearch", "mcp__docs")
    assert waits("Workflow", 1_570, [])


def test_what_sessions_do_not_use_waits_and_what_most_use_stays() -> None:
    known = sessions(*(["Agent", "Bash"] for _ in range(20)))
    assert not waits("Agent", 1_450, known)
    assert waits("Workflow", 1_570, known)
    assert waits("Agent", 1_450, sessions(*([] for _ in range(20))))


def test_a_small_definition_that_is_sometimes_used_stays() -> None:
    known = sessions(*(["Skill"] if number % 3 == 0 else [] for number in range(30)))
    assert not waits("Skill", 200, known)
    assert waits("Skill", 2_000, known)


def test_a_tool_of_the_last_sessions_of_the_project_stays() -> None:
    others = sessions(*([] for _ in range(60)))
    own = sessions(["Workflow"], [], [], project=PROJECT)
    assert not waits("Workflow", 1_570, [*others, *own])
    older = sessions(["Workflow"], [], [], [], project=PROJECT)
    assert waits("Workflow", 1_570, [*others, *older])


def test_the_agent_tool_is_known_by_its_old_name() -> None:
    assert not waits("Agent", 1_450, sessions(*(["Task"] for _ in range(9))))


@given(
    st.integers(1, 5_000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 500),
    st.integers(0, 200_000),
)
def test_waiting_costs_more_the_likelier_its_use(
    tokens: int, chance: float, other: float, calls: int, window: int
) -> None:
    known = [SessionTools("", 0.0, calls, window, ())]
    low, high = sorted((chance, other))
    front, waiting = costs(tokens, low, known, PRICES)
    assert waiting <= costs(tokens, high, known, PRICES)[1]
    assert costs(tokens, 0, known, PRICES)[1] == 0 < front
    more = [SessionTools("", 0.0, calls + 1, window, ())]
    assert costs(tokens, low, more, PRICES)[0] > front


# ---- kept for a session -----------------------------------------------------------------


def record(path: Path, tools: Sequence[str], *, session: str = "s", project: str = PROJECT) -> Path:
    """Write a transcript in which tools were used."""
    lines = [{"type": "user", "sessionId": session, "cwd": project, "message": {"content": "go"}}]
    for number, tool in enumerate(["Bash", *tools]):
        usage = {"input_tokens": 1, "cache_read_input_tokens": 50_000, "output_tokens": 9}
        use = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {}}
        message = {"id": f"msg_{session}{number}", "model": "claude-opus-4-6", "usage": usage}
        lines.append({"type": "assistant", "message": {**message, "content": [use]}})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n")
    return path


def place(tmp_path: Path, session: str = "new", transcript: Path | None = None) -> AgentPlace:
    return AgentPlace("claude-code", session, folder=tmp_path / "quay", transcript=transcript)


def test_a_decision_holds_for_the_session_and_its_resumes(tmp_path: Path) -> None:
    store, own = tmp_path / ".windlass", tmp_path / "own"
    first = ToolDoor(own).decide("Workflow", 1_570, place(tmp_path), store)
    assert first.deferred
    used = [record(tmp_path / f"p/{n}.jsonl", ["Workflow"], session=f"s{n}") for n in range(9)]
    own.mkdir()
    assert read_sessions(own, used) == 9
    assert ToolDoor(own).decide("Workflow", 1_570, place(tmp_path), store) == first
    assert not ToolDoor(own).decide("Workflow", 1_570, place(tmp_path, "b"), store).deferred
    fork = record(tmp_path / "fork.jsonl", [], session="new")
    door = ToolDoor(own)
    assert door.decide("Workflow", 1_570, place(tmp_path, "fork", fork), store) == first
    assert door.waiting(place(tmp_path, "fork", fork), store) == {"Workflow"}
    assert ToolDoor(own).waiting(place(tmp_path, "fork"), store) == {"Workflow"}


def test_a_session_that_began_with_all_tools_keeps_them(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    begun = place(tmp_path, "s", record(tmp_path / "s.jsonl", []))
    decision = ToolDoor(tmp_path).decide("Workflow", 1_570, begun, store)
    assert not decision.deferred
    assert "began with it" in decision.reason
    assert not ToolDoor(tmp_path).decide("LateTool", 900, begun, store).deferred


def test_what_cannot_be_kept_does_not_wait(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    (store / "hooks").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (store / "hooks" / "claude-code").symlink_to(tmp_path / "elsewhere")
    decision = ToolDoor(tmp_path).decide("Workflow", 1_570, place(tmp_path), store)
    assert not decision.deferred
    assert "cannot be kept" in decision.reason
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_definition_is_counted(tmp_path: Path) -> None:
    text = json.dumps({"description": "moves a crane " * 100})
    decision = ToolDoor(tmp_path).decide("Crane", text, place(tmp_path), tmp_path / ".windlass")
    assert 200 < decision.tokens < 1_000
    assert (decision.tool, decision.deferred) == ("Crane", True)


def test_settings_of_the_project_name_tools(tmp_path: Path) -> None:
    folder = tmp_path / "quay" / ".claude"
    folder.mkdir(parents=True)
    rules = {"allow": ["WebFetch(domain:x.test)", "mcp__docs__*", 7], "deny": ["Workflow"]}
    (folder / "settings.json").write_text(json.dumps({"permissions": rules}))
    (folder / "settings.local.json").write_text("{")
    assert tools_named(tmp_path / "quay") == {"WebFetch", "mcp__docs__*"}
    door, store = ToolDoor(tmp_path), tmp_path / ".windlass"
    assert not door.decide("WebFetch", 300, place(tmp_path), store).deferred


def test_transcripts_are_read_once_as_long_as_they_stay(tmp_path: Path) -> None:
    paths = [
        record(tmp_path / "p" / f"{number}.jsonl", tools, session=f"s{number}")
        for number, tools in enumerate([["Skill", "mcp__docs__find"], []])
    ]
    (tmp_path / "p" / "bad.jsonl").write_bytes(b"\xff{")
    every = [*paths, tmp_path / "p" / "bad.jsonl", tmp_path / "gone.jsonl"]
    assert read_sessions(tmp_path, every) == 3
    assert read_sessions(tmp_path, paths) == 0
    known = known_sessions(tmp_path)
    assert {one.tools for one in known} == {("Bash", "Skill", "mcp__docs__find"), ("Bash",)}
    assert {(one.project, one.tokens, one.model) for one in known} == {
        (PROJECT, 50_000, "anthropic/claude-opus-4-6")
    }
    assert sorted(one.calls for one in known) == [1, 3]
    (tmp_path / "tool-uses.json").write_text("[1, 2")
    assert known_sessions(tmp_path) == []


def test_the_users_own_transcripts_are_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    door, store = ToolDoor(tmp_path), tmp_path / ".windlass"
    assert door.learn() == 0
    for number in range(12):
        project = tmp_path / "claude" / "projects" / f"p{number % 3}"
        record(project / f"{number}.jsonl", ["Skill"], session=f"s{number}")
    assert door.decide("Skill", 500, place(tmp_path, "before"), store).deferred
    assert door.learn() == 12
    decision = door.decide("Skill", 500, place(tmp_path, "after"), store)
    assert not decision.deferred
    assert decision.reason.startswith("12 of 12 sessions used it")


@pytest.mark.parametrize("session", ["new", "b/../c"])
def test_decisions_are_pruned_with_their_session(tmp_path: Path, session: str) -> None:
    store = tmp_path / ".windlass"
    ToolDoor(tmp_path).decide("Workflow", 1_570, place(tmp_path, session), store)
    assert [*HookJournal(store).sessions()] == [("claude-code", session)]
    assert prune_journals(store, {session}, None, 9e9).journals == (session,)
    assert not [*store.rglob("*.tools.jsonl")]
