"""What each lever would have saved, said before anything is installed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, windlass
from tests.importing.making import Session, call, result, text, used, write_lines
from tests.support.hooks_agent import RecordingAgent, bash, lines
from tests.support.importing_exchanges import META, TURN, counted, item, rollout

from windlass.importing.streams import recordings
from windlass_agents.trial import left_alone, prove

__all__ = ["windlass"]

HEAD = 30_000
"""Tokens of system prompt, tools and instructions, of which 20,000 are shared with other sessions.
"""
A_RESULT = 6_000
"""Tokens that each call adds, about those of a file."""
LEVERS = ["results", "tools that wait", "free moments", "all together"]


class Work(Session):
    """A session of Claude Code whose calls read files, as the provider counts it."""

    def __init__(self, name: str, version: str = "2.1.331", hours: float = 0.0) -> None:
        super().__init__(name)
        self.version, self.now, self.tokens = version, 1_774_000_000.0 + 3_600 * hours, HEAD
        self.calls = 0
        self.user("Rename the helper in every module, and never touch conftest.py.")

    def add(self, kind: str, message: Any = None, **keys: Any) -> dict[str, Any]:
        self.now += 5
        stamp = datetime.fromtimestamp(self.now, UTC).isoformat()
        return super().add(
            kind, message, timestamp=stamp, version=self.version, cwd="/projects/orders", **keys
        )

    def call(self, *blocks: dict[str, Any], cold: bool = False) -> None:
        """A call that is answered so."""
        read = 20_000 if cold or not self.calls else self.tokens - A_RESULT
        usage = used(read=read, written=self.tokens - read, hour=self.tokens - read, out=100)
        self.answer(f"msg_{self.name}_{self.calls}", *blocks, usage=usage)
        self.calls += 1

    def read_files(self, count: int, *, cold: bool = False) -> None:
        """Calls one by one, each for a file that no other one is like."""
        for at in range(count):
            name = f"t{self.calls}"
            self.call(call(name, "Read", file_path=f"m{name}.py"), cold=cold and not at)
            code = "\n".join(f"{at}\tdef step_{name}_{at}(value): return {at}" for at in range(400))
            self.user([result(name, code)])
            self.tokens += A_RESULT

    def end_turn(self, pause: float = 0.0) -> None:
        """An answer that calls nothing, and the user's next words after some seconds."""
        self.call(text("Done so far."))
        self.now += pause
        self.user("Go on.")

    def announce(self, *tools: str) -> None:
        """The client lets tools wait by itself."""
        told = {"type": "deferred_tools_delta", "addedNames": list(tools)}
        self.add("attachment", attachment=told)

    def write(self, folder: Path) -> Path:
        return write_lines(folder / "projects" / f"{self.name}.jsonl", self.records)


def tried(windlass: CommandLine, path: Path) -> dict[str, Any]:
    """What the command says of transcripts, its levers by name."""
    told = windlass("hook", "try", str(path), "--json").json
    return {**told, "levers": {one["name"]: one for one in told["levers"]}}


@pytest.fixture
def agent(tmp_path: Path) -> RecordingAgent:
    """A session without a hook that would have had much to shorten."""
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    agent.run("Bash", {"command": "make"}, bash(lines("object", 400)))
    for number in range(8):
        agent.run("Bash", {"command": f"ls {number}"}, bash(f"main_{number}.c"))
    return agent


def test_a_hook_that_would_have_paid_says_how_much(
    agent: RecordingAgent, windlass: CommandLine
) -> None:
    said = windlass("hook", "try", str(agent.transcript))
    assert said.code == 0
    verdict, install = said.out.splitlines()[-2:]
    assert verdict.startswith("on this session it would have saved")
    assert install == "install it: windlass agent install claude-code"
    best = windlass("hook", "try", str(agent.transcript), "--json").json["best"][0]
    assert best["tool"] == "Bash"
    assert best["calls"] == 8
    assert best["tokens_after"] < best["tokens_before"]
    assert best["dollars"] > 0


def test_a_hook_that_would_cost_more_says_do_not_install_it(
    tmp_path: Path, windlass: CommandLine
) -> None:
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    words = [
        "alpha",
        "bravo",
        "charlie",
        "delta",
        "echo",
        "foxtrot",
        "golf",
        "hotel",
        "india",
        "juliett",
    ]
    said = [
        " ".join(words[(at * step + step + at // 10 ** (step % 3)) % 10] for step in range(3, 11))
        for at in range(600)
    ]
    agent.run("Bash", {"command": "make"}, bash("\n".join(said)))
    for at in range(40, 560, 20):  # each call quotes a line that a short form leaves out
        agent.run("Edit", {"old_string": said[at]}, {"done": True}, text="done")
    told = windlass("hook", "try", str(agent.transcript))
    *_, missed, verdict = told.out.splitlines()
    assert "26 would have been out of view: 26 results to fetch again" in missed
    assert verdict.endswith("% more: do not install it")


def test_the_mod_reaches_all_results_and_hooks_of_others_those_they_can(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.takes = False
    long = lines("object", 400)
    agent.run("Task", {"prompt": "x"}, {"stdout": long}, text=long)
    for number in range(8):
        agent.run("Bash", {"command": f"ls {number}"}, bash(f"main_{number}.c"))
    [recording] = recordings(agent.transcript)
    assert left_alone(recording) == frozenset()
    [best] = prove([recording], None, 1, []).best
    assert best.tool == "Task"
    other = write_lines(tmp_path / "codex.jsonl", codex_session())
    [recording] = recordings(other)
    failed = {at for at, one in enumerate(recording.messages) if one.failed}
    assert left_alone(recording) == failed


def codex_session() -> list[Any]:
    """A session of Codex with a long result."""
    records: list[tuple[str, dict[str, Any]]] = [META, TURN, item("user", "Build it.")]
    for number in range(8):
        made = {"type": "function_call", "name": "shell", "arguments": "{}"}
        words = lines("object", 400) if not number else f"main_{number}.c"
        got = {"type": "function_call_output", "output": words}
        told = {"call_id": f"c{number}"}
        records += [
            ("response_item", {**made, **told}),
            counted(9_000 * (number + 1), 9_000 * (number + 1)),
            ("response_item", {**got, **told}),
        ]
    return rollout(*records)


def test_each_lever_and_all_of_them_in_ranges(tmp_path: Path, windlass: CommandLine) -> None:
    for number in range(4):
        session = Work(f"before-{number}", hours=number)
        session.read_files(6)
        session.write(tmp_path)
    session = Work("long", hours=10)
    session.read_files(14)
    session.end_turn(pause=7_200)
    session.read_files(10, cold=True)
    session.call(call("t99", "Bash", command="make"))
    session.user([result("t99", lines("object", 400))])
    session.read_files(10)
    session.end_turn()
    session.write(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    told = tried(windlass, tmp_path / "projects")
    assert list(told["levers"]) == LEVERS
    spans = {name: one["saved"] for name, one in told["levers"].items()}
    for low, high in spans.values():
        assert low <= high
        assert high > 0
    results, tools, moments, together = (spans[name] for name in LEVERS)
    assert tools[0] > 0.02
    assert moments[0] > 0.02
    # Together they save more than each, and not more than their sum: a compaction takes away
    # results that were shortened.
    assert together[1] > max(results[1], tools[1], moments[1])
    assert together[1] <= results[1] + tools[1] + moments[1] + 0.005
    assert together[0] > max(results[0], tools[0], moments[0])
    assert told["levers"]["free moments"]["cost"]["compactions"] == 1
    assert told["levers"]["tools that wait"]["tools"] >= 5 * 6
    assert len(told["sessions"]) == 5
    out = windlass("hook", "try", str(tmp_path / "projects")).out
    assert "on these 5 sessions it would have saved" in out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_session_that_might_be_dearer_is_named(tmp_path: Path, windlass: CommandLine) -> None:
    """All definitions wait in a user's first session, and it uses one in each of its few calls."""
    session = Work("first")
    for number, tool in enumerate(("AskUserQuestion", "Skill", "Workflow", "ListAgents")):
        session.call(call(f"u{number}", tool, what="x"))
        session.user([result(f"u{number}")])
        session.tokens += 100
    path = session.write(tmp_path)
    told = tried(windlass, path)
    assert told["levers"]["tools that wait"]["dearer"] == 1
    [dearer] = told["sessions"]
    assert dearer["ratio"][1] > 1.01
    out = windlass("hook", "try", str(path)).out
    assert "session that might be dearer" in out
    assert dearer["title"] in out


def test_tools_that_the_client_lets_wait_by_itself_bring_nothing(
    tmp_path: Path, windlass: CommandLine
) -> None:
    sessions = [Work("open"), Work("waits", hours=2)]
    sessions[1].announce(
        *("Agent", "AskUserQuestion", "Skill", "Workflow", "ListAgents", "ReportFindings"),
        *("ScheduleWakeup", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "Monitor"),
        *("EnterWorktree", "ExitPlanMode", "ExitWorktree", "NotebookEdit", "SendMessage"),
        *("TaskStop", "WebFetch", "WebSearch"),
    )
    saved: list[list[float]] = []
    for session in sessions:
        session.read_files(6)
        path = session.write(tmp_path / session.name)
        saved.append(tried(windlass, path)["levers"]["tools that wait"]["saved"])
    assert saved[0][0] > 0.05
    assert saved[1] == [0, 0]


def test_what_is_used_stays_in_front_once_sessions_before_tell_it(
    tmp_path: Path, windlass: CommandLine
) -> None:
    for number in range(3):
        session = Work(f"s{number}", hours=number)
        session.call(call("w", "WebFetch", url="http://x"))
        session.user([result("w")])
        session.tokens += 100
        session.read_files(3)
        session.write(tmp_path)
    costs = {
        one["name"]: cost["bill"][0] / cost["everything"][0]
        for one in tried(windlass, tmp_path / "projects")["replay"]["recordings"]
        for cost in one["outlays"]
        if cost["policy"] == "tools that wait"
    }
    assert costs["s0"] > costs["s1"]  # the first pays for a request that finds it


@pytest.mark.parametrize(
    ("ends", "within", "made"), [(True, None, 1), (False, None, 0), (False, 67_000, 1)]
)
def test_in_the_middle_of_a_turn_a_compaction_is_promised_where_the_client_asks(
    tmp_path: Path, *, ends: bool, within: int | None, made: int
) -> None:
    session = Work("long")
    session.read_files(14)
    if ends:
        session.end_turn(pause=7_200)
    session.now += 7_200
    session.read_files(10, cold=True)
    [recording] = recordings(session.write(tmp_path))
    moments = prove([recording], None, 1, [], within_turns=within).levers[2]
    assert moments.cost.compactions == made


def test_what_the_client_says_again_behind_a_compaction_is_paid_for(tmp_path: Path) -> None:
    """A warm one writes instructions anew, which else are read."""
    paid: list[float] = []
    for shared in (20_000, HEAD):
        session = Work(f"s{shared}")
        session.records.clear()
        session.last = None
        session.user("Rename the helper.")
        session.read_files(30)
        session.records[1]["message"]["usage"] = used(read=shared, written=HEAD - shared)
        for _ in range(12):
            session.end_turn()
            session.read_files(3)
        [recording] = recordings(session.write(tmp_path))
        moments = prove([recording], None, 1, []).levers[2].cost
        assert moments.compactions
        assert moments.dollars is not None
        assert moments.everything_dollars is not None
        paid.append(moments.dollars.middle - moments.everything_dollars.middle)
    assert paid[0] > paid[1]


def test_a_compaction_of_the_client_is_answered_without_a_request(
    tmp_path: Path, windlass: CommandLine
) -> None:
    """What the summary cost is saved; ours is longer, and each later call reads it."""
    saved: list[float] = []
    for tokens in (700_000, 900_000):
        session = Work(f"s{tokens}")
        session.read_files(8)
        session.last = None
        session.add(
            "system",
            subtype="compact_boundary",
            compactMetadata={"trigger": "auto", "preTokens": tokens},
        )
        session.tokens = HEAD + 3_000
        session.user("This session goes on from: " + "a word " * 1_500, isCompactSummary=True)
        session.read_files(2, cold=True)
        told = tried(windlass, session.write(tmp_path / session.name))
        saved.append(told["levers"]["free moments"]["saved"][0])
    assert saved[1] > saved[0]  # a summary of more was dearer, and ours is no longer
    assert saved[0] < 0


def test_the_numbers_of_lines_are_no_saving(tmp_path: Path, windlass: CommandLine) -> None:
    """The mod puts them back as they were, also where a shorter way to write them is known."""
    session = Work("numbered")
    for at in range(6):
        session.call(call(f"t{at}", "Read", file_path=f"m{at}.py"))
        code = [f"{line:6}→def step_{at}_{line}(value): return {line}" for line in range(1, 300)]
        session.user([result(f"t{at}", "\n".join(code))])
        session.tokens += A_RESULT
    told = tried(windlass, session.write(tmp_path))["levers"]["results"]
    assert told["saved"] == [0, 0]
    assert told["cost"]["shortened"] == 0


def test_codex_has_its_lever_alone(tmp_path: Path, windlass: CommandLine) -> None:
    path = write_lines(tmp_path / "codex.jsonl", codex_session())
    told = tried(windlass, path)
    assert list(told["levers"]) == ["results"]
    assert told["levers"]["results"]["saved"][0] > 0
    out = windlass("hook", "try", str(path)).out
    assert "free moments" not in out
    assert out.endswith("install it: windlass agent install codex\n")


def test_a_transcript_without_times_is_tried(tmp_path: Path, windlass: CommandLine) -> None:
    session = Work("timeless", version="")
    session.read_files(14)
    session.end_turn(pause=7_200)
    session.read_files(6)
    for record in session.records:
        del record["timestamp"]
    told = tried(windlass, session.write(tmp_path))
    assert list(told["levers"]) == LEVERS
    assert told["levers"]["free moments"]["cost"]["compactions"] == 0
    assert told["levers"]["tools that wait"]["saved"][1] > 0
