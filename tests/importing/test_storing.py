"""`windlass import`: recordings in the store, where everything that reads sessions reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import windlass
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.importing.making import DATA, Session, call, result, text, used, write_lines

line = command_line


def _long(calls: int) -> Session:
    session = Session()
    session.user("Go.")
    for number in range(calls):
        session.answer(f"m{number}", call(f"t{number}"), usage=used(100, 7, read=50))
        session.user([result(f"t{number}", "same")])
    return session


def test_the_table_of_real_files(line: CommandLine) -> None:
    said = line("import", str(DATA))
    assert said.code == 0, said.err
    rows = [row.split() for row in said.out.splitlines()[1:4]]
    assert [row[:4] for row in rows] == [
        ["claude-code", "C", "1", "4"],
        ["mini-swe-agent", "A", "1", "2"],
        ["swe-agent", "C", "1", "2"],
    ]
    assert "A: exact requests; C: a transcript" in said.out
    assert "skipped: 2 notes of the queue of prompts" in said.out
    assert "sessions: 3 new" in said.out
    assert "README.md' is not JSON" in said.err


def test_sessions_show_report_and_verify_read_it(line: CommandLine, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", _long(3).records)
    assert line("import", str(path)).code == 0
    (info,) = line("sessions", "--json").json
    assert (info["cascade_id"], info["calls"], info["tokens_in"]) == ("s-1", 3, 450)
    shown = line("show", info["session_id"], "--call", "3", "--json").json
    assert len(shown["seen"]) == 5
    costs = line("report", info["session_id"], "--json").json
    assert costs["total"]["calls"] == 3
    dollars = 3 * (100 * 5 + 50 * 0.5 + 7 * 25) / 1e6
    assert costs["total"]["dollars"] == pytest.approx(dollars)
    told = line("report", info["session_id"]).out
    assert "imported from claude-code: a transcript" in told
    assert line("verify").code == 0
    prefixes = line("report", info["session_id"], "--prefix", "--json").json
    assert [one["shared"] > 0 for one in prefixes] == [False, True, True]


def test_a_second_import_adds_nothing_and_says_so(line: CommandLine, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", _long(3).records)
    assert "sessions: 1 new" in line("import", str(path)).out
    said = line("import", str(path))
    assert "sessions: 1 here already, so nothing was added" in said.out
    assert len(line("sessions", "--json").json) == 1


def test_a_session_that_grew_is_gone_on_with(line: CommandLine, tmp_path: Path) -> None:
    records = _long(130).records
    path = write_lines(tmp_path / "s.jsonl", records[:41])
    line("import", str(path))
    write_lines(path, records)
    assert "1 with more calls than before" in line("import", str(path)).out
    (grown,) = line("sessions", "--json").json
    assert grown["calls"] == 130
    line("import", str(path), "--store", "at-once")
    (whole,) = line("sessions", "--json", "--store", "at-once").json
    assert whole["session_id"] == grown["session_id"]
    one = line("report", grown["session_id"], "--json").json
    assert one == line("report", grown["session_id"], "--json", "--store", "at-once").json
    assert line("verify").code == 0


def test_side_chains_stand_under_their_session_and_count_in_its_report(
    line: CommandLine, tmp_path: Path
) -> None:
    session = _long(1)
    session.last = None
    session.user("Look.", isSidechain=True)
    session.answer("x1", text("found"), usage=used(40), isSidechain=True)
    write_lines(tmp_path / "s.jsonl", session.records)
    imported = windlass.import_sessions(tmp_path / "s.jsonl", store=tmp_path / "here")
    main, side = imported.sessions
    assert side.parent == main.session_id
    costs = line("report", main.session_id, "--store", "here", "--json").json
    assert costs["total"]["calls"] == 2
    assert costs["total"]["tokens_in"] == 190


@pytest.mark.parametrize("name", ["none.json", "empty.jsonl", "foreign.json"])
def test_bad_input_is_one_sentence_and_exit_code_2(
    line: CommandLine, tmp_path: Path, name: str
) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "foreign.json").write_text('{"a": 1}')
    said = line("import", name)
    assert said.code == 2
    assert name in said.complaint


def test_what_holds_no_call_is_one_sentence_and_exit_code_2(
    line: CommandLine, tmp_path: Path
) -> None:
    session = Session()
    session.user("Go.")
    (tmp_path / "folder").mkdir()
    for name in ("a.jsonl", "folder/a.jsonl", "folder/b.jsonl"):
        write_lines(tmp_path / name, session.records)
    said = line("import", "a.jsonl")
    assert (said.code, said.out) == (2, "")
    assert said.complaint == "windlass: 'a.jsonl' holds no call of a model"
    said = line("import", "folder", "--json")
    assert (said.code, said.out) == (2, "")
    assert said.complaint == "windlass: no file of 'folder' holds a call of a model"
    assert said.err.count("note: ") == 2
    session.answer("m1", text("a"), usage=used())
    write_lines(tmp_path / "folder" / "b.jsonl", session.records)
    said = line("import", "folder")
    assert said.code == 0
    assert "sessions: 1 new" in said.out


def test_a_call_whose_answer_is_missing_is_imported_once_and_again(
    line: CommandLine, tmp_path: Path
) -> None:
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "Go."}]}
    told = {"id": "c1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}
    write_lines(tmp_path / "log.jsonl", [{"request": request, "response": told}])
    assert "1 new" in line("import", "log.jsonl").out
    assert "1 here already" in line("import", "log.jsonl").out
    (info,) = line("sessions", "--json").json
    assert (info["calls"], info["tokens_in"]) == (1, 9)


def test_a_session_that_was_imported_in_the_middle_of_an_answer_counts_once(
    line: CommandLine, tmp_path: Path
) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("Looking."), usage=used(10, 1))
    path = write_lines(tmp_path / "s.jsonl", session.records)
    line("import", str(path))
    session.answer("m1", call("t1"), usage=used(10, 9))
    session.user([result("t1")])
    session.answer("m2", text("done"), usage=used(20, 2))
    write_lines(path, session.records)
    assert "1 with more calls than before" in line("import", str(path)).out
    (info,) = line("sessions", "--json").json
    assert (info["calls"], info["tokens_in"], info["tokens_out"]) == (2, 30, 11)
    assert "1 here already" in line("import", str(path)).out
    assert line("verify").code == 0


def test_tokens_that_a_program_tells_later_are_counted(line: CommandLine, tmp_path: Path) -> None:
    for is_told in (False, True):
        session = Session()
        session.user("Go.")
        answer = session.answer("m1", call("t1"), usage=used(10, 9))
        answer["message"] |= {} if is_told else {"usage": None}
        session.user([result("t1")])
        session.answer("m2", text("done"), usage=used(20, 2))
        line("import", str(write_lines(tmp_path / "s.jsonl", session.records)))
    (info,) = line("sessions", "--json").json
    assert (info["calls"], info["tokens_in"], info["tokens_out"]) == (2, 30, 11)
    assert "1 here already" in line("import", "s.jsonl").out


def test_an_older_copy_of_a_session_adds_nothing(line: CommandLine, tmp_path: Path) -> None:
    session = _long(4)
    write_lines(tmp_path / "s.jsonl", session.records)
    assert "1 new" in line("import", "s.jsonl").out
    before = line("sessions", "--json").json
    for count in (2, 3, 6, len(session.records) - 1):
        older = json.loads(json.dumps(session.records[:count]))
        write_lines(tmp_path / "old.jsonl", older)
        assert "1 here already, so nothing was added" in line("import", "old.jsonl").out
        if older[-1]["type"] == "assistant":  # it was copied in the middle of an answer
            older[-1]["message"]["content"] = [text("di")]
            write_lines(tmp_path / "old.jsonl", older)
            assert "1 here already, so nothing was added" in line("import", "old.jsonl").out
    assert line("sessions", "--json").json == before


def test_another_session_that_begins_alike_is_kept_beside_it(
    line: CommandLine, tmp_path: Path
) -> None:
    for last in ("left", "right"):
        session = Session()
        session.user("Go.")
        session.answer("m1", text("a"))
        session.user(last)
        session.answer(f"m_{last}", text(last))
        write_lines(tmp_path / "s.jsonl", session.records)
        assert "1 new" in line("import", "s.jsonl").out
    assert len(line("sessions", "--json").json) == 2


def test_what_a_fork_copied_is_counted_once_however_it_is_imported(
    line: CommandLine, tmp_path: Path
) -> None:
    """The answers of two files that share some are those of both, imported apart or together."""
    for at, number in enumerate((3, 2)):
        session = Session()
        for step in range(number):
            session.user(f"Step {step}.")
            session.answer(f"m{step}", text(f"done {step}"), usage=used(100, 7))
        if at:  # it goes on in its own way, at its very end
            session.records = session.records[:-1]
            session.last = session.records[-1]["uuid"]
            session.answer("other", text("in another way"), usage=used(50, 7))
        write_lines(tmp_path / "in" / f"{at}.jsonl", session.records)
    for order in ((0, 1), (1, 0)):
        store = f"store{order[0]}"
        for at in (*order, *order):
            assert line("import", f"in/{at}.jsonl", "--store", store).code == 0
        listed = line("sessions", "--json", "--store", store).json
        assert sum(one["tokens_in"] for one in listed) == 350
        assert sum(one["calls"] for one in listed) == 4
    line("import", "in", "--store", "together")
    listed = line("sessions", "--json", "--store", "together").json
    assert sum(one["tokens_in"] for one in listed) == 350


def test_side_chains_are_stored_under_their_session(line: CommandLine, tmp_path: Path) -> None:
    """Wherever their files lie, so that `latest` is the session."""
    session = Session("bbb-1")
    session.user("Go.")
    session.answer("m1", text("hi"), usage=used(10, 7))
    side = Session("bbb-1")
    for number, place in enumerate(("agent-a0.jsonl", "bbb-1/subagents/agent-a1.jsonl")):
        side.records.clear()
        side.user("Look.", isSidechain=True, agentId=f"a{number}")
        ident = f"s{number}"
        side.answer(ident, text("x"), usage=used(5, 7), isSidechain=True, agentId=f"a{number}")
        write_lines(tmp_path / "p" / place, side.records)
    write_lines(tmp_path / "p" / "bbb-1.jsonl", session.records)
    first, *others = windlass.import_sessions(tmp_path / "p", store=tmp_path / "s").sessions
    assert {one.parent for one in others} == {first.session_id}
    replay = line("replay", "latest", "--store", str(tmp_path / "s"), "--json").json
    assert len(replay["recordings"]) == 3
    assert first.session_id in {one["name"] for one in replay["recordings"]}
