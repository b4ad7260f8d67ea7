"""`windlass replay` and `windlass report` of coding agents' sessions, found without a path."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.importing.making import Session, call, result, text, used, write_lines
from tests.replays.making import session_file
from windlass.importing.streams import recordings


def claude_session(path: Path, name: str, words: str, project: str, when: float) -> Path:
    """A session of two calls in a project, the file of which was changed then."""
    session = Session(name)
    session.user("<command-name>/clear</command-name>", cwd=project)
    session.user(words)
    session.answer(f"{name}-1", text("looking"), call("t1", path="a.py"), usage=used(9_000, 40))
    session.user([result("t1", "fine")])
    session.answer(f"{name}-2", text("done"), usage=used(100, 20, read=9_000))
    write_lines(path, session.records)
    os.utime(path, (when, when))
    return path


@pytest.fixture
def agents(windlass: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Three sessions of Claude Code and one of Codex, in folders that variables name."""
    home = tmp_path_factory.mktemp("agents")
    projects = home / "claude" / "projects"
    claude_session(projects / "p" / "aaa-1.jsonl", "aaa-1", "Mend the tests", "/w/cart", 1_000)
    claude_session(projects / "p" / "aab-2.jsonl", "aab-2", "Write the page", "/w/cart", 3_000)
    claude_session(projects / "q" / "bbb-3.jsonl", "bbb-3", "Why is it slow?", "/w/shop", 2_000)
    other = Session("bbb-3")
    other.user("Look there.", isSidechain=True, agentId="a7")
    other.answer("side-1", text("there"), usage=used(500), isSidechain=True, agentId="a7")
    write_lines(projects / "q" / "bbb-3" / "subagents" / "agent-a7.jsonl", other.records)
    rollout = home / "codex" / "sessions" / "2026" / "rollout-2026-01-02-cc9.jsonl"
    write_lines(rollout, codex_records())
    os.utime(rollout, (500, 500))
    windlass.patch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    windlass.patch.setenv("CODEX_HOME", str(home / "codex"))
    return windlass


def codex_records() -> list[dict[str, Any]]:
    told = {"input_tokens": 5_000, "cached_input_tokens": 0, "output_tokens": 50}
    words = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    said = {**words, "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    count = {"type": "token_count", "info": {"total_token_usage": told, "last_token_usage": told}}
    payloads = [
        ("session_meta", {"id": "cc9", "cwd": "/w/codex-work", "instructions": "Be."}),
        ("turn_context", {"model": "gpt-5"}),
        ("response_item", words),
        ("response_item", said),
        ("event_msg", count),
    ]
    return [
        {"timestamp": f"2026-01-02T10:00:0{at}Z", "type": kind, "payload": payload}
        for at, (kind, payload) in enumerate(payloads)
    ]


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", ["replay", "report"])
def test_the_newest_are_listed_and_nothing_is_written(agents: CommandLine, verb: str) -> None:
    listed = agents(verb, "--json").json
    assert [each["title"] for each in listed] == [
        *("Write the page", "Why is it slow?", "Mend the tests", "Hi")
    ]
    assert [each["calls"] for each in listed] == [2, 3, 2, 1]
    assert [each["program"] for each in listed] == ["claude-code"] * 3 + ["codex"]
    assert listed[3]["dollars"] == pytest.approx((5_000 * 1.25 + 50 * 10) / 1e6)
    said = agents(verb)
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[1][:5] == ["1", "cart", "Write", "the", "page"]
    assert rows[2][1] == "shop"
    assert rows[4][1] == "codex-work"
    assert f"windlass {verb} NUMBER" in said.out
    assert files_below(agents.folder) == set()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(("latest", "aab-2"), ("2", "bbb-3"), ("4", "cc9")),
        *(("aaa", "aaa-1"), ("bbb-3", "bbb-3"), ("cc9", "cc9")),
    ],
)
def test_one_of_them_is_replayed_and_reported(agents: CommandLine, word: str, name: str) -> None:
    replayed = agents("replay", word, "--json").json
    assert replayed["recordings"][0]["name"] == name
    assert files_below(agents.folder) == set()  # a replay stores nothing
    report = agents("report", word, "--json").json
    assert report["total"]["dollars"] == pytest.approx(replayed["recorded"])
    assert {path.relative_to(agents.folder).parts[0] for path in files_below(agents.folder)} == {
        ".windlass"
    }


def test_a_session_comes_with_its_side_chains(agents: CommandLine) -> None:
    replayed = agents("replay", "2", "--json").json
    assert [each["kind"] for each in replayed["recordings"]] == ["session", "side chain"]
    assert agents("report", "2", "--json").json["total"]["calls"] == 3


def test_what_fits_several_or_none_is_refused(agents: CommandLine) -> None:
    said = agents("replay", "aa")
    assert (said.code, "aa" in said.complaint) == (2, True)
    assert "the beginning of several sessions: aab-2, aaa-1" in said.complaint
    for word in ("zzz", "99"):
        assert agents("replay", word).code == 2


def test_the_store_goes_first_where_it_has_sessions(agents: CommandLine) -> None:
    path = session_file(agents.folder / "own.jsonl", name="own")
    assert agents("import", str(path)).code == 0
    (recording,) = agents("replay", "latest", "--json").json["recordings"]
    assert recording["name"].startswith("claude-code-")
    assert "by cascade" in agents("report").out
    # The list and its numbers are those of the agents all the same.
    assert len(agents("replay", "--json").json) == 4
    assert agents("replay", "1", "--json").json["recordings"][0]["name"] == "aab-2"


def test_without_any_the_folders_are_named(windlass: CommandLine, tmp_path: Path) -> None:
    windlass.patch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "none"))
    said = windlass("replay")
    assert said.code == 2
    assert "name a file, a folder or a session" in said.complaint


class TestByWhat:
    def test_a_row_for_each(self, agents: CommandLine) -> None:
        whole = agents("report", "--by", "project", "--json").json
        assert {row["name"]: row["calls"] for row in whole["rows"]} == {
            "cart": 4,
            "shop": 3,  # with its side chain, which does not say where it worked
            "codex-work": 1,
        }
        assert whole["total"]["sessions"] == 4
        for by, names in (
            ("day", ["2026-01-21", "2026-01-02"]),
            ("model", ["anthropic/claude-opus-4-5-20251101", "openai/gpt-5"]),
        ):
            rows = agents("report", "--by", by, "--json").json["rows"]
            assert [row["name"] for row in rows] == names
            for key in ("calls", "tokens_in", "dollars"):
                assert sum(row[key] for row in rows) == pytest.approx(whole["total"][key])
        said = agents("report", "--by", "model")
        assert said.out.splitlines()[0].split()[0] == "model"
        assert said.out.splitlines()[3].split()[:3] == ["all", "4", "8"]

    def test_a_folder_by_session_costs_what_its_recordings_cost(self, agents: CommandLine) -> None:
        folder = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects"
        rows = agents("report", str(folder), "--json").json["rows"]
        assert {row["within"]: row["name"] for row in rows} == {
            "aaa-1": "2026-01-21 Mend the tests",
            "aab-2": "2026-01-21 Write the page",
            "bbb-3": "2026-01-21 Why is it slow?",
        }
        dollars = sum(recording.dollars or 0.0 for recording in recordings(folder))
        assert sum(row["dollars"] for row in rows) == pytest.approx(dollars)
        assert files_below(agents.folder) == set()

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (("--by", "week"), "day, model, project, session"),
            (("s1", "--by", "day"), "--by is for a folder"),
            (("--by", "day", "--calls"), "for a report of one session"),
            ((".", "--calls"), "takes --by and no other option"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, agents: CommandLine, arguments: tuple[str, ...], complaint: str
    ) -> None:
        said = agents("report", *arguments)
        assert (said.code, complaint in said.complaint) == (2, True), said.complaint

    def test_what_is_next_names_the_folder_or_file(self, agents: CommandLine) -> None:
        session_file(agents.folder / "one session.jsonl")
        for named in ("one session.jsonl", "."):
            said = agents("report", named)
            assert f"windlass replay {shlex.quote(named)}" in said.out
        every = agents("report", "--by", "model").out
        assert "/codex/sessions" in every
        assert "FOLDER" not in said.out + every

    def test_what_has_no_price_is_beside_the_sum(self, agents: CommandLine) -> None:
        before = agents("report").out
        file = next(Path(os.environ["CLAUDE_CONFIG_DIR"]).rglob("aaa-1.jsonl"))
        lines = file.read_text().splitlines()
        odd = lines[-1].replace("aaa-1-2", "aaa-1-3").replace("claude-", "nobodys-")
        file.write_text("\n".join([*lines, odd]) + "\n")
        os.utime(file, (1_000, 1_000))
        row = next(each for each in agents("report").out.splitlines() if "Mend the tests" in each)
        assert row.endswith(" but for 1 call"), before

    def test_a_replay_of_a_folder_has_a_row_for_each_session(self, agents: CommandLine) -> None:
        folder = os.environ["CLAUDE_CONFIG_DIR"]
        said = agents("replay", folder)
        lines = said.out.splitlines()
        head = next(at for at, line in enumerate(lines) if line.startswith("session "))
        assert lines[head].split() == [
            "session",
            "calls",
            "recorded",
            "default",
            "of",
            "everything",
        ]
        told = json.loads(agents("replay", folder, "--json").out)
        assert len(told["recordings"]) == 4
        for recording in told["recordings"]:
            (row,) = [line for line in lines[head:] if line.startswith(recording["title"])]
            assert "100 %" in row


def test_an_agent_without_a_call_does_not_hide_the_bill_of_another(
    agents: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    begun = Session("new-1")
    begun.user("Go.")
    home = tmp_path_factory.mktemp("begun")
    write_lines(home / "projects" / "p" / "new-1.jsonl", begun.records)
    agents.patch.setenv("CLAUDE_CONFIG_DIR", str(home))
    said = agents("report", "--by", "project")
    assert said.code == 0, said.err
    assert "holds no call of a model" in said.err
    assert "codex" in said.out


class TestOtherPrograms:
    """Gemini CLI's and Cline's folders, and subagents, which are not sessions of their own."""

    @pytest.fixture
    def home(self, windlass: CommandLine, tmp_path: Path) -> Path:
        for name in ("HOME", "GEMINI_CLI_HOME"):
            windlass.patch.setenv(name, str(tmp_path))
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DATA_DIR", "CLINE_DIR"):
            windlass.patch.delenv(name, raising=False)
        windlass.patch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
        return tmp_path

    def test_gemini_cli_and_cline_are_listed(self, windlass: CommandLine, home: Path) -> None:
        chats = home / ".gemini" / "tmp" / "p" / "chats"
        head = {"sessionId": "g-1", "projectHash": "p"}
        user = {"id": "m1", "type": "user", "content": "List the berths"}
        tokens = {"input": 10, "output": 1}
        answer = {"id": "m2", "type": "gemini", "content": "b1", "model": "gemini-2.5-pro"}
        records = [head, user, {**answer, "tokens": tokens}]
        write_lines(chats / "session-a.jsonl", records)
        (chats / "session-a.json").write_text(json.dumps({**head, "messages": records[1:]}))
        sub = {**head, "sessionId": "g-2", "kind": "subagent"}
        write_lines(chats / "g-1" / "g-2.jsonl", [sub, user, {**answer, "id": "n1"}])
        (chats.parent / "logs.json").write_text("[]")
        task = home / ".cline" / "data" / "tasks" / "7"
        task.mkdir(parents=True)
        said = {"role": "assistant", "content": [{"type": "text", "text": "b1"}], "ts": 2}
        asked = {"role": "user", "content": [{"type": "text", "text": "<task>Look</task>"}]}
        (task / "api_conversation_history.json").write_text(json.dumps([asked, said]))
        (task / "ui_messages.json").write_text("[]")
        listed = windlass("replay", "--json").json
        assert {(each["program"], each["name"], each["calls"]) for each in listed} == {
            ("gemini-cli", "g-1", 2),
            ("cline", "7", 1),
        }
        report = windlass("report", "--by", "session", "--json")
        assert report.json["total"]["calls"] == 3
        assert "logs.json" not in report.err

    def test_latest_is_no_subagent_of_codex(self, windlass: CommandLine, home: Path) -> None:
        folder = home / ".codex" / "sessions" / "2026"
        main = codex_records()
        write_lines(folder / "rollout-1-cc9.jsonl", main)
        spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "cc9", "depth": 1}}}
        sub = codex_records()
        sub[0]["payload"] |= {"id": "dd1", "source": spawn}
        sub[3]["payload"]["content"] = [{"type": "output_text", "text": "There"}]
        write_lines(folder / "rollout-2-dd1.jsonl", sub)
        os.utime(folder / "rollout-1-cc9.jsonl", (1_000, 1_000))  # the subagent's is newer
        replayed = windlass("replay", "latest", "--json").json["recordings"]
        assert [(each["name"], each["kind"]) for each in replayed] == [
            *(("cc9", "session"), ("dd1", "side chain"))
        ]
        (listed,) = windlass("replay", "--json").json
        assert (listed["name"], listed["calls"]) == ("cc9", 2)
