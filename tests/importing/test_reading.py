"""Files of other programs as recordings: what was said, which calls were made, what they used."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from tests.importing.making import DATA, Session, call, result, text, used, write_lines
from tests.support.importing_reading import with_requests
from windlass.errors import UsageError
from windlass.importing import json_files as files
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings
from windlass.wire.base import Usage


def read(path: Path, form: str | None = None) -> list[Recording]:
    return list(recordings(path, form))


def test_a_real_claude_code_session() -> None:
    (one,) = read(DATA / "claude_code.jsonl")
    assert (one.format, one.grade, one.kind) == ("claude-code", "C", "session")
    assert one.model == "anthropic/claude-haiku-4-5-20251001"
    assert one.tools is None
    assert one.system is None
    roles = [message.role for message in one.messages[:5]]
    assert roles == ["user", "user", "assistant", "tool", "tool"]
    assert len(one.messages[2].tool_calls) == 2  # four records, one answer
    assert one.calls[0].usage == Usage(9 + 2468 + 21217, 458, 21217, 2468, 0)
    assert one.calls[0].at == 2
    assert all(one.messages[made.at].role == "assistant" for made in one.calls)
    assert one.skipped["notes of the queue of prompts"] == 2


def test_a_real_trajectory_of_mini_swe_agent() -> None:
    (one,) = read(DATA / "mini_swe_agent.traj.json")
    assert (one.format, one.grade, one.name) == ("mini-swe-agent", "A", "astropy__astropy-13579")
    assert one.system == one.messages[:1]
    assert one.tools == ()
    assert [call.at for call in one.calls] == [2, 4]
    assert one.dollars == pytest.approx(sum(call.cost or 0 for call in one.calls))
    assert one.calls[0].cost


def test_a_real_trajectory_of_swe_agent() -> None:
    (one,) = read(DATA / "swe_agent.traj")
    assert (one.format, one.grade) == ("swe-agent", "C")
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "user", "assistant")
    ]
    assert [call.at for call in one.calls] == [2, 4]
    assert one.dollars is None
    assert one.skipped == {"usage of calls, which such files tell for the whole run only": 2}


# ---- each usage once ------------------------------------------------------------------------


def test_an_answer_in_two_files_is_counted_once(tmp_path: Path) -> None:
    first, second = Session("s-1"), Session("s-2")
    for session in (first, second):
        session.user("Go.")
        session.answer("m1", text("a"), usage=used(100), requestId="r1")
        session.user("More.")
    second.answer("m2", text("b"), usage=used(200), requestId="r2")
    write_lines(tmp_path / "a.jsonl", first.records)
    write_lines(tmp_path / "b.jsonl", second.records)
    both = read(tmp_path)
    assert [call.id for one in both for call in one.calls] == ["m1", "m2"]
    assert sum(one.usage.tokens_in for one in both) == 300
    assert len(both[1].messages) == 4  # the history that it went on from is there


def test_of_the_records_of_an_answer_the_one_with_the_most_output_counts(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"), usage=used(9, out=1))
    session.answer("m1", call("t1"), usage=used(9, out=86, read=70))
    session.answer("m1", call("t2"), usage=used(9, out=3))
    (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert one.usage == Usage(79, 86, 70, 0, 0)


def test_records_that_repeat_while_an_answer_streams_are_one(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    for _ in range(2):
        session.answer("m1", text("a"))
        session.answer("m1", call("t1", command="ls"))
    session.user([result("t1")])
    (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert len(one.calls) == 1
    assert [message.role for message in one.messages] == ["user", "assistant", "tool"]
    assert one.messages[1].text == "a"
    assert [made.id for made in one.messages[1].tool_calls] == ["t1"]


def test_side_chains_are_recordings_that_name_their_parent_and_count(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", call("t1", "Task"), usage=used(100))
    last = session.last
    session.last = None
    session.user("Look.", isSidechain=True)
    session.answer("m2", text("found"), usage=used(40), isSidechain=True)
    session.last = last
    session.user([result("t1")])
    session.answer("m3", text("done"), usage=used(60))
    write_lines(tmp_path / "s.jsonl", session.records)
    own = Session("s-1")
    own.user("Look there.", isSidechain=True, agentId="a7")
    own.answer("m9", text("there"), usage=used(5), isSidechain=True, agentId="a7")
    write_lines(tmp_path / "s" / "subagents" / "agent-a7.jsonl", own.records)
    main, inner, agent = read(tmp_path)
    assert (main.kind, main.usage.tokens_in) == ("session", 160)
    assert (inner.kind, inner.parent, inner.usage.tokens_in) == ("side chain", main.name, 40)
    assert [message.text for message in inner.messages] == ["Look.", "found"]
    assert (agent.name, agent.parent, agent.usage.tokens_in) == ("s-1/a7", main.name, 5)


def test_the_usage_with_which_an_answer_began_is_not_its_output(tmp_path: Path) -> None:
    page = "The whole answer stands here, sentence after sentence. " * 60
    session = Session()
    session.user("Go.")
    session.answer("m1", text(page), usage=used(900, 1), stopped=False)
    session.answer("m2", text(page), usage=used(900, 640), stopped=False)
    session.answer("m3", text(page), usage=used(900, 1))
    session.answer("m4", text("ok"), usage=used(900, 0), stopped=False)
    session.answer("m5", text(page), call("t1", path=page), usage=used(900, 3), stopped=False)
    (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert [each.estimated for each in one.calls] == [True, False, False, False, True]
    outputs = [each.usage.tokens_out for each in one.calls if each.usage]
    assert 600 < outputs[0] < 1_200
    assert outputs[1:4] == [640, 1, 0]
    assert outputs[4] > 1.8 * outputs[0]
    assert one.dollars == pytest.approx((5 * 900 * 5 + sum(outputs) * 25) / 1e6)


def test_thinking_is_output_and_its_signature_is_not(tmp_path: Path) -> None:
    outputs = []
    for signature in ("s" * 40, "s" * 40_000):
        thought = {"type": "thinking", "thinking": "Let me see. " * 90, "signature": signature}
        session = Session()
        session.user("Go.")
        session.answer("m1", thought, text("done"), usage=used(900, 2), stopped=False)
        (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
        outputs.append(one.calls[0].usage)
    assert outputs[0] == outputs[1]
    assert outputs[0] is not None
    assert 250 < outputs[0].tokens_out < 600


def test_what_is_written_for_an_hour_is_priced_so(tmp_path: Path) -> None:
    dollars = []
    for hour in (0, 1_000_000):
        session = Session()
        session.user("Go.")
        session.answer("m1", text("a"), usage=used(0, 0, written=1_000_000, hour=hour))
        (one,) = read(write_lines(tmp_path / f"{hour}.jsonl", session.records))
        assert one.usage.tokens_written_long == hour
        dollars.append(one.dollars)
    assert dollars == [pytest.approx(6.25), pytest.approx(10.0)]  # twice the input's price


# ---- the tree -------------------------------------------------------------------------------


def test_where_a_user_went_back_another_recording_stands(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"))
    back = session.last
    session.user("Left.")
    session.answer("m2", text("b"))
    session.last = back
    session.user("Right.")
    session.answer("m3", text("c"))
    main, branch = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert [message.text for message in main.messages] == ["Go.", "a", "Right.", "c"]
    assert [message.text for message in branch.messages] == ["Go.", "a", "Left.", "b"]
    assert ([call.id for call in main.calls], [call.id for call in branch.calls]) == (
        ["m1", "m3"],
        ["m2"],
    )
    assert (branch.kind, branch.parent) == ("branch", main.name)


def test_results_of_parallel_calls_stand_behind_their_answer(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    first = session.answer("m1", call("t1"))["uuid"]
    session.answer("m1", call("t2"))
    session.user([result("t2", "two")])
    session.last = first
    session.user([result("t1", "one")])
    session.answer("m2", text("done"))
    (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert [(message.role, message.tool_call_id) for message in one.messages] == [
        ("user", None),
        ("assistant", None),
        ("tool", "t2"),
        ("tool", "t1"),
        ("assistant", None),
    ]


def test_an_attachment_before_the_last_result_that_it_follows(tmp_path: Path) -> None:
    """The client writes it while parallel calls still run; the results stay in view."""
    session = Session()
    session.user("go")
    for number in range(3):
        session.answer("m1", call(f"t{number}"))
        session.user([result(f"t{number}", f"result {number}")])
    last = session.last
    told = session.add("attachment", attachment={"type": "reminder", "content": "a reminder"})
    session.answer("m2", text("done"))
    assert told["parentUuid"] == last
    records = session.records
    records.insert(2, records.pop(records.index(told)))
    (one,) = recordings(write_lines(tmp_path / "s.jsonl", records))
    assert [message.text for message in one.messages] == [
        *("go", "", "result 0", "result 1", "result 2", "a reminder", "done")
    ]
    assert one.calls[1].at == 6
    # Where the result is lost, it follows what there is.
    lost = [record for record in records if record["uuid"] != last]
    (one,) = recordings(write_lines(tmp_path / "lost.jsonl", lost))
    assert [message.text for message in one.messages] == [
        *("go", "", "result 0", "result 1", "a reminder", "done")
    ]


def test_after_a_compaction_another_recording_begins(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"))
    session.last = None
    session.add("system", subtype="compact_boundary", logicalParentUuid="s-1-1")
    session.user("This is what happened.", isCompactSummary=True)
    session.answer("m2", text("b"))
    before, after = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert [message.text for message in before.messages] == ["Go.", "a"]
    assert [message.text for message in after.messages] == ["This is what happened.", "b"]
    assert (before.kind, after.kind, after.parent) == ("session", "after compaction", "s-1")


def test_a_stream_json_log(tmp_path: Path) -> None:
    def answer(ident: str, *blocks: object, parent: str | None = None) -> dict[str, object]:
        message = {"id": ident, "role": "assistant", "model": "claude-sonnet-4-5"}
        return {
            "type": "assistant",
            "message": {**message, "content": [*blocks], "usage": used()},
            "parent_tool_use_id": parent,
        }

    def results(*blocks: object, parent: str | None = None) -> dict[str, object]:
        message = {"role": "user", "content": [*blocks]}
        return {"type": "user", "message": message, "parent_tool_use_id": parent}

    log = [
        {"type": "system", "subtype": "init", "claude_code_version": "2.0", "session_id": "s-9"},
        answer("m1", call("t1", "Task")),
        results(text("Look."), parent="t1"),
        answer("m2", call("t2"), parent="t1"),
        results(result("t2"), parent="t1"),
        answer("m3", text("found"), parent="t1"),
        results(result("t1")),
        answer("m4", text("done")),
        {"type": "result", "subtype": "success", "total_cost_usd": 0.1},
    ]
    main, agent = read(write_lines(tmp_path / "log.jsonl", log))
    assert (main.name, [call.id for call in main.calls]) == ("s-9", ["m1", "m4"])
    assert (agent.name, [call.id for call in agent.calls]) == ("s-9/t1", ["m2", "m3"])
    assert [message.role for message in agent.messages] == [
        *("user", "assistant", "tool", "assistant")
    ]


def test_logs_that_were_appended_to_one_file_stay_apart(tmp_path: Path) -> None:
    def log(name: str, *idents: str) -> list[dict[str, object]]:
        records: list[dict[str, object]] = [
            {"type": "system", "subtype": "init", "claude_code_version": "2.0", "session_id": name}
        ]
        for ident in idents:
            said = {"role": "user", "content": f"Do {ident}."}
            records.append({"type": "user", "session_id": name, "message": said})
            message = {
                "id": ident,
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [text(f"did {ident}")],
                "usage": used(10),
            }
            records.append({"type": "assistant", "session_id": name, "message": message})
        return [*records, {"type": "result", "session_id": name}]

    # The second goes on with the first after a while, as `--continue` does.
    path = write_lines(tmp_path / "a.jsonl", [*log("s-1", "m1", "m2"), *log("s-2", "m3")])
    first, second = read(path)
    assert (first.name, first.kind, second.name, second.kind) == (
        "s-1",
        "session",
        "s-2",
        "session",
    )
    assert [message.text for message in second.messages] == ["Do m3.", "did m3"]
    assert (first.usage.tokens_in, second.usage.tokens_in) == (20, 10)
    assert (first.skipped, second.skipped) == (
        {"notes of the client (init)": 1, "sums at the end of a run": 1},
        {"notes of the client (init)": 1, "sums at the end of a run": 1},
    )
    (one,) = read(write_lines(tmp_path / "b.jsonl", [*log("s-1", "m1"), *log("s-1", "m2")]))
    assert len(one.messages) == 4


def test_sessions_that_were_joined_to_one_file_stay_apart(tmp_path: Path) -> None:
    records = []
    for name in ("s-1", "s-2"):
        session = Session(name)
        session.add("summary", summary="x")
        session.last = None
        session.user("Go.")
        session.answer(f"{name}.m", text("a"))
        last = session.last
        session.last = None
        session.user("Look.", isSidechain=True)
        session.answer(f"{name}.x", text("found"), isSidechain=True)
        session.last = last
        session.user("More.")
        session.answer(f"{name}.n", text("b"))
        records += session.records
    found = read(write_lines(tmp_path / "s.jsonl", records))
    assert [one.kind for one in found] == ["session", "side chain"] * 2
    assert [one.name for one in found[::2]] == ["s-1", "s-2"]
    assert [len(one.messages) for one in found] == [4, 2, 4, 2]


def test_unknown_records_are_counted_and_never_fatal(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.add("hologram")
    session.add("hologram")
    session.answer("m1", {"type": "text"}, text("a"))
    records = [*session.records, "{cut", {"type": "assistant", "message": 7}]
    (one,) = read(write_lines(tmp_path / "s.jsonl", records))
    assert [message.text for message in one.messages] == ["Go.", "a"]
    assert one.skipped["records of the unknown type 'hologram'"] == 2
    assert one.skipped["lines that are cut off or not JSON"] == 1
    assert one.skipped["messages that cannot be read (a text block has a text)"] == 1


# ---- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x00\x01\x02" * 100, "is binary, not JSON"),
        (b"\xff\xfe\xfa{" * 100, "is not text in UTF-8, so it cannot be JSON"),
        (b"Dear all,\nhello\n", "is not JSON: Expecting value (line 1, column 1)"),
        (b'{"info": {"a": 1},\n "messages": [{"role": "sys', "is cut off"),
        (b'{"a": 1}\n{"b": 2}\n', "is not a recording of a known format: its first object has a"),
        (b"[1, 2]", "holds no JSON object"),
        (b"[" * 100_000, "nested more than 100 levels deep"),
    ],
)
def test_bad_files_are_told_in_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as told:
        read(path)
    assert sentence in str(told.value)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_what_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.write(b'{"messages": [\n' + b" " * 5000)
        file.truncate(2 << 30)
    with pytest.raises(UsageError, match=r"line 2: longer than 64\.0 MB"):
        read(path)
    monkeypatch.setattr(files, "LONGEST", 1 << 20)
    path.write_text("{\n" + " \n" * (1 << 20) + "}")
    with pytest.raises(UsageError, match=r"one JSON text of 2\.0 MB; at most 1\.0 MB"):
        read(path)
    monkeypatch.setattr(files, "MOST", 4)
    with pytest.raises(UsageError, match=r"conversations of more than 0\.0 MB"):
        read(DATA / "claude_code.jsonl")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.jsonl")
    with pytest.raises(UsageError, match=r"p\.jsonl' is not a regular file"):
        read(tmp_path / "p.jsonl")


def test_an_unknown_format_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format 'claude': did you mean 'claude-code'"):
        read(DATA / "claude_code.jsonl", "claude")
    with pytest.raises(UsageError, match="there is no file or folder"):
        read(tmp_path / "none")
    with pytest.raises(UsageError, match=r"no file in .* is a recording"):
        read(tmp_path)


def test_a_file_that_begins_with_an_empty_line_is_no_binary(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n" + (DATA / "claude_code.jsonl").read_bytes())
    assert len(read(path)) == 1


def test_bad_files_of_a_folder_are_told_and_the_others_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "b.json").write_text(json.dumps({"a": 1}))
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"))
    write_lines(tmp_path / "c.jsonl", session.records)
    told: list[str] = []
    (one,) = recordings(tmp_path, on_skip=told.append)
    assert one.name == "s-1"
    assert len(told) == 2


# ---- requests that are recorded beside the session --------------------------------------------


def test_requests_are_rebuilt_and_proven_by_their_hashes(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "s.jsonl", with_requests().records))
    assert (one.grade, one.name) == ("B", "s-1")
    assert [message.text for message in one.messages] == [
        *("Be.", "<reminder>\nGo.", "Looking.", "done", "done")
    ]
    assert [made.at for made in one.calls] == [2, 4]
    assert [tool.name for tool in one.tools or ()] == ["ls"]
    assert one.system == one.messages[:1]


def test_results_of_several_calls_are_sent_as_one_message(tmp_path: Path) -> None:
    (one,) = read(write_lines(tmp_path / "s.jsonl", with_requests(calls=3).records))
    assert one.grade == "B"
    assert [message.role for message in one.messages].count("tool") == 3
    assert [made.at for made in one.calls] == [2, 6]


@pytest.mark.parametrize("lost", ["api-request-blob", "api-request"])
def test_with_a_message_or_a_request_missing_it_is_a_transcript(tmp_path: Path, lost: str) -> None:
    records = with_requests().records
    at = next(at for at, record in enumerate(records) if record["type"] == lost)
    (one,) = read(write_lines(tmp_path / "s.jsonl", [*records[:at], *records[at + 1 :]]))
    assert one.grade == "C"
    assert [made.at for made in one.calls] == [1, 3]
    assert any("cannot be rebuilt" in reason for reason in one.skipped)


def test_a_message_that_was_changed_fits_no_hash(tmp_path: Path) -> None:
    records = with_requests().records
    records[1]["message"]["content"][1]["text"] = "Stop."
    (one,) = read(write_lines(tmp_path / "s.jsonl", records))
    assert one.grade == "C"


def test_a_file_without_a_call_is_one_sentence(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.add("summary")
    path = write_lines(tmp_path / "s.jsonl", session.records)
    with pytest.raises(UsageError, match="holds no call of a model; left out: 1 titles of"):
        read(path)


def test_a_copy_of_a_session_is_named_and_adds_nothing(tmp_path: Path) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"))
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(tmp_path / name, session.records)
    told: list[str] = []
    (one,) = recordings(tmp_path, on_skip=told.append)
    assert len(one.calls) == 1
    assert "b.jsonl' holds no call of a model; left out: 1 answers that another file" in told[0]


def test_one_file_is_held_at_a_time(tmp_path: Path) -> None:
    for number in range(30):
        session = Session(f"s-{number}")
        session.user("x" * 1_000_000)
        session.answer(f"m{number}", text("a"))
        write_lines(tmp_path / f"{number}.jsonl", session.records)
    tracemalloc.start()
    count = sum(1 for _ in recordings(tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 30
    assert peak < 12_000_000


def test_a_newer_trajectory_of_mini_swe_agent_calls_a_tool(tmp_path: Path) -> None:
    made = {"id": "t1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    response = {"id": "r1", "created": 1_760_000_000, "usage": {"prompt_tokens": 50}}
    messages = [
        {"role": "system", "content": "Be."},
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [made],
            "extra": {"response": response, "cost": 0.25, "timestamp": 1_760_000_001.5},
        },
        {"role": "tool", "tool_call_id": "t1", "content": "a.py", "extra": {"raw_output": "a.py"}},
        {"role": "exit", "content": "Submitted"},
    ]
    told = {"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": messages}
    path = tmp_path / "traj.json"
    path.write_text(json.dumps(told, indent=1))
    (one,) = read(path)
    assert [message.role for message in one.messages] == ["system", "user", "assistant", "tool"]
    assert (one.grade, one.tools, one.name) == ("C", None, "traj")
    assert one.calls[0].cost == 0.25
    assert one.system == one.messages[:1]


def test_what_is_left_out_of_one_trajectory_is_not_told_of_the_next(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "did"}]
    runs = [
        {"trajectory_format": "mini-swe-agent-1", "info": {}, "messages": [*messages, *more]}
        for more in ([{"role": "none"}], [])
    ]
    first, second = read(write_lines(tmp_path / "t.jsonl", runs))
    assert sum(first.skipped.values()) == 1
    assert second.skipped == {}


def test_of_a_result_with_a_picture_that_cannot_be_read_the_text_stays(tmp_path: Path) -> None:
    session = Session()
    session.user("Look.")
    session.answer("m1", call("t1"))
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk"}}
    session.user([result("t1"), text("and this"), {"type": "mystery"}])
    session.records[-1]["message"]["content"][0]["content"] = [text("a plan"), picture]
    session.answer("m2", text("A house."))
    (one,) = read(write_lines(tmp_path / "a.jsonl", session.records))
    assert [message.text for message in one.messages] == [
        *("Look.", "", "a plan", "and this", "A house.")
    ]
    assert one.skipped == {"parts of messages that cannot be read": 1}
