"""Compactions of a client's conversation: rows are legal, and nothing is lost by them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests_agents.compacted_rows import (
    Row,
    answered,
    faults,
    long_conversation,
    said,
    texts_of,
    used,
)
from windlass.public import Message, Settings, StoreError, Text, UsageError, as_text, reference
from windlass_agents._mcp_answers import ToolAnswers
from windlass_agents.agent_events import AgentPlace
from windlass_agents.client_rows import messages_of, rows_of, searched_tools
from windlass_agents.compaction_moments import CompactionDoor
from windlass_agents.conversation_compaction import CompactedRows, CompactionRequest, compact_rows
from windlass_agents.hook_journal import HookJournal, HookLine, text_hash
from windlass_agents.hooked_sessions import prune_journals
from windlass_agents.kept_compactions import KeptCompactions, compactions_in
from windlass_agents.kept_originals import find_original, open_folder

NOW = 1_790_000_000.0
REFERENCE = re.compile(r"windlass recall (result_[0-9a-f]{8})")


def compact(rows: list[Row], store: Path, trigger: str = "auto", **given: Any) -> CompactedRows:
    asked = CompactionRequest(
        rows=rows, trigger=trigger, agent="claude-code", session="harbour", **given
    )
    return compact_rows(asked, store, "windlass recall", NOW)


def compacted(rows: list[Row], store: Path, trigger: str = "auto", **given: Any) -> list[Row]:
    answer = compact(rows, store, trigger, **given)
    assert answer.rows is not None, answer.reason
    return [*answer.rows]


def recalled(store: Path, ref: str) -> str:
    return as_text(find_original(store, ref, partial(open_folder, store, reading=True)))


WORDS = st.sampled_from(
    ["", "  ", "look here", "crane 7\nis slow", "ü\ud800", "[Compaction before"]
)
IDS = st.sampled_from(["a", "b", "c", "d", ""])
TOOLS = st.sampled_from(["Read", "Bash", "ToolSearch", "mcp__docs__find", ""])
USES = st.fixed_dictionaries(
    {"tool_use_id": IDS, "tool": TOOLS},
    optional={"input": st.dictionaries(st.sampled_from(["command", "query"]), WORDS), "x": WORDS},
)
RESULTS = st.fixed_dictionaries(
    {"tool_use_id": IDS}, optional={"text": WORDS, "isError": st.booleans(), "result": WORDS}
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"])},
        optional={
            "text": WORDS | st.none(),
            "toolUses": st.lists(USES, max_size=3) | st.none(),
            "toolResults": st.lists(RESULTS, max_size=3) | st.just("none"),
            "handle": WORDS,
        },
    ),
    max_size=14,
)


@given(ROWS, st.sets(TOOLS))
def test_any_rows_become_legal_rows_that_say_the_same(rows: list[Row], waiting: set[str]) -> None:
    built = rows_of(messages_of(rows), waiting)
    assert not faults(built)
    assert not faults(rows_of(messages_of(built), waiting)), "what was built can be built again"
    text = texts_of(built)
    for row in rows:
        for line in (row.get("text") or "").split():
            assert line.encode(errors="replace").decode() in text.replace("\ufffd", "?")
    json.dumps(built)


@settings(max_examples=25, deadline=None)
@given(ROWS, st.integers(30, 45), st.integers(40, 130))
def test_what_goes_out_of_view_can_be_recalled(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], calls: int, lines: int
) -> None:
    store = tmp_path_factory.mktemp("project") / ".windlass"
    before = [*long_conversation(calls, lines), *rows]
    answer = compact(before, store)
    if answer.rows is None:
        return
    assert not faults(answer.rows)
    text = texts_of(answer.rows)
    kept = [recalled(store, ref) for ref in set(REFERENCE.findall(text))]
    for message in messages_of(before):
        whole = as_text(message)
        assert message.text in text or whole in kept or _is_kept(store, message.content_hash)


def _is_kept(store: Path, content_hash: str) -> bool:
    return bool(recalled(store, content_hash))


def test_blocks_of_an_answer_become_one_row_and_its_results_another() -> None:
    rows = [
        said("user", "Look at both."),
        said("assistant", "I do."),
        used("a", "Read", file_path="/a"),
        used("b", "Read", file_path="/b"),
        answered("a", "first"),
        answered("b", "second", failed=True),
        said("user", "Thanks."),
    ]
    user, answer, results = rows_of(messages_of(rows))
    assert user == {"role": "user", "text": "Look at both.", "toolUses": []}
    assert answer["text"] == "I do."
    assert [use["tool_use_id"] for use in answer["toolUses"]] == ["a", "b"]
    assert results["toolResults"] == [
        {"tool_use_id": "a", "text": "first", "isError": False},
        {"tool_use_id": "b", "text": "second", "isError": True},
    ]
    assert results["text"] == "Thanks."


def test_a_result_that_came_late_stands_behind_its_call() -> None:
    rows = [
        said("user", "Go."),
        used("a", "Bash", command="make"),
        used("b", "Bash", command="ls"),
        answered("b", "files"),
        said("assistant", "One is there."),
        answered("a", "made"),
    ]
    built = rows_of(messages_of(rows))
    assert not faults(built)
    assert [result["text"] for result in built[2]["toolResults"]] == ["made", "files"]


def test_words_stand_in_place_of_pictures_and_of_tools_that_were_searched() -> None:
    rows = [
        said("user", ""),
        used("a", "Read", file_path="/plan.png"),
        answered("a", "", result={"type": "image", "file": {}}),
        used("b", "ToolSearch", query="select:WebFetch,CronCreate"),
        answered("b", ""),
        used("c", "WebFetch", url="https://x.test"),
        answered("c", "the page"),
        used("d", "Bash", command="true"),
        answered("d", ""),
    ]
    told = messages_of(rows)
    built = rows_of(told, searched_tools(told))
    assert not faults(built)
    text = texts_of(built)
    assert "no words" in text
    assert "a picture" in text
    assert "search for them again" in text
    assert 'WebFetch was called with {"url": "https://x.test"}.' in text
    assert "is data:]\nthe page\n[" in text
    assert [use["tool"] for row in built for use in row["toolUses"]] == ["Read", "Bash"]
    again = messages_of(built)
    calls = [call for message in again for call in message.tool_calls]
    assert [call.name for call in calls] == ["Read", "ToolSearch", "WebFetch", "Bash"]
    assert [one.text for one in again if one.role == "tool"][2] == "the page"
    assert rows_of(again) == built


def test_tools_wait_only_where_there_is_a_search() -> None:
    rows = [said("user", "Go."), used("a", "Skill", skill="tide"), answered("a", "loaded")]
    told = messages_of(rows)
    assert rows_of(told, searched_tools(told, {"Skill"}))[1]["toolUses"]
    told = messages_of([*rows, used("s", "ToolSearch", query="tide"), answered("s", "")])
    assert not [row for row in rows_of(told, searched_tools(told, {"Skill"})) if row["toolUses"]]


def test_a_call_without_a_result_gets_one() -> None:
    rows = [said("user", "Go."), used("a", "Bash", command="make"), said("user", "Stop.")]
    built = rows_of(messages_of(rows))
    assert not faults(built)
    assert built[2]["toolResults"][0]["text"] == "[no result is known]"
    assert built[2]["text"] == "Stop."


def test_the_plan_of_a_tool_that_waits_outlives_compactions(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    rows = long_conversation(40)
    rows[-9:-9] = [
        used("s", "ToolSearch", query="select:TaskCreate,TaskUpdate"),
        answered("s", ""),
        used("t", "TaskCreate", subject="widen the quay", description="by two metres"),
        answered("t", "Task #1 created successfully: widen the quay"),
        used("u", "TaskUpdate", taskId="1", status="in_progress"),
        answered("u", "Updated task #1 status"),
    ]
    first = compacted(rows, store)
    more = [json.loads(json.dumps(row).replace("read-", "b-")) for row in long_conversation(40)]
    text = texts_of(compacted([*first, *more[1:]], store))
    assert "- [in_progress] #1 widen the quay" in text
    assert "[user]\n[Before" not in text


def test_a_long_conversation_becomes_short_and_its_end_stays(tmp_path: Path) -> None:
    rows = long_conversation(40)
    answer = compact(rows, tmp_path / ".windlass")
    assert answer.rows is not None
    assert answer.tokens_after < 0.6 * answer.tokens_before
    assert not faults(answer.rows)
    assert answer.rows[0]["text"].startswith("Please make the harbour's cranes faster.")
    assert "lift_39_119" in answer.rows[-1]["toolResults"][0]["text"]
    assert answer.as_json() == {"messages": answer.rows}
    assert "the window was nearly full" in answer.reason


def test_what_was_said_stays_in_view(tmp_path: Path) -> None:
    rows = long_conversation(40)
    steps = [{"content": "widen the quay", "status": "pending", "activeForm": "Widening"}]
    plan = "# Plan\nFirst measure the tide at gauge 4711, then move crane nine."
    rows[40:40] = [
        said("user", "Never touch crane 12: it belongs to the museum."),
        said("assistant", "Understood: crane 12 stays as it is."),
        said("user", "Go on."),
        used("plan", "ExitPlanMode", plan=plan),
        answered("plan", "User has approved your plan."),
        used("todo", "TodoWrite", todos=steps),
        answered("todo", "Todos have been modified"),
        used("edit", "Edit", file_path="/harbour/q.py", old_string="slow()", new_string="fast_9()"),
        answered("edit", "String to replace not found in file: slow()", failed=True),
    ]
    text = texts_of(compacted(rows, tmp_path / ".windlass"))
    assert "Never touch crane 12: it belongs to the museum." in text
    assert "crane 12 stays as it is" in text
    assert "- [pending] widen the quay" in text
    assert "gauge 4711" in text
    assert "fast_9()" in text
    assert "String to replace not found" in text


def test_what_the_client_announces_again_is_not_said_twice(tmp_path: Path) -> None:
    rows = long_conversation(40)
    reminder = (
        "<system-reminder>\nAs you answer the user's questions, you can use the following"
        " context:\n# claudeMd\nAlways use tabs in quay 5.\n</system-reminder>\n"
    )
    edited = "<system-reminder>\nNote: /harbour/a.py was modified by a linter.\n</system-reminder>"
    rows[:1] = [said("user", f"{reminder}Please make it faster.\n{edited}")]
    text = texts_of(compacted(rows, tmp_path / ".windlass"))
    assert "Always use tabs" not in text
    assert "Please make it faster." in text
    assert "modified by a linter" in text


def test_a_second_compaction_is_made_from_what_was_said(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    rows = long_conversation(40)
    rows[40:40] = [said("user", "Never touch crane 12.")]
    first = compacted(rows, store)
    later = long_conversation(40, 121)[1:]
    more = [json.loads(json.dumps(row).replace("read-", "again-")) for row in later]
    command = "<command-name>/compact</command-name>\n<command-message>compact</command-message>"
    done = "<local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>"
    between = [said("user", command), said("user", done), said("user", "Go on.")]
    second = compacted([*first, *between, *more], store)
    assert not faults(second)
    text = texts_of(second)
    assert text.count("[Compaction before call") == 1
    refs = set(REFERENCE.findall(text))
    assert refs
    assert all(not recalled(store, ref).startswith("[Compaction") for ref in refs)
    earlier, latest = KeptCompactions(store, "claude-code", "harbour")
    assert latest.folded[: len(earlier.folded)] == earlier.folded
    assert len(latest.folded) > len(earlier.folded)
    assert text.count("Never touch crane 12.") == 1
    assert "/compact" not in text
    assert "Compacted (" not in text
    assert text.count("Please make the harbour's cranes faster.") == 1


def test_a_session_that_goes_on_from_another_knows_what_that_folded(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    first = compacted(long_conversation(40), store)
    more = [json.loads(json.dumps(row).replace("read-", "b-")) for row in long_conversation(40)]
    asked = CompactionRequest(
        rows=[*first, *more], trigger="manual", agent="claude-code", session="another"
    )
    answer = compact_rows(asked, store, "windlass recall", NOW)
    assert answer.rows is not None
    assert texts_of(answer.rows).count("[Compaction before call") == 1


def test_pieces_are_of_results_as_their_tools_gave_them(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    journal = HookJournal(store)
    rows = long_conversation(40)
    whole = "\n".join(f"ferry_{number} leaves quay {number}" for number in range(60))
    short = "[60 lines; windlass recall result_00000000]"
    original = Message("tool", (Text(whole),), tool_call_id="ferries", name="Read")
    journal.keep(original)
    line = HookLine(
        time=NOW, agent="claude-code", session="harbour", call_id="ferries", tool="Read",
        outcome="shortened", original=original.content_hash, shown=text_hash(short),
    )  # fmt: skip
    journal.write(line)
    rows[-36:-36] = [
        used("ferries", "Read", file_path="/harbour/ferries"),
        answered("ferries", short),
    ]
    text = texts_of(compacted(rows, store))
    assert "ferry_7 leaves quay 7" in text
    (again,) = [ref for ref in REFERENCE.findall(text) if ref == reference(original)]
    assert recalled(store, again) == whole
    journal.write(replace(line, shown=text_hash("something else")))
    assert "ferry_7 leaves" not in texts_of(compacted(rows, store))


def test_a_short_conversation_is_left_to_who_asked(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    rows = long_conversation(3)
    assert compact(rows, store, "manual").as_json() == {}
    assert "the client compacts" in compact(rows, store, "manual").reason
    assert compact(rows, store, "plugin").as_json()["skip"].startswith("a compaction frees too")
    assert "beforehand" in compact(rows, store, "precompute").as_json()["skip"]
    assert not store.exists()


def test_instructions_lead_the_choice_and_are_not_said(tmp_path: Path) -> None:
    rows = [said("user", "Read the reports.")]
    for number in range(70):
        about = "tidewater gauge harbour" if number == 40 else f"hall{number}"
        text = "\n".join(f"{about} {number}.{line} is in good order again" for line in range(72))
        rows += [used(f"n{number}", "Bash", command=f"./report {number}")]
        rows += [answered(f"n{number}", text)]
    words = "the gauge of the harbour, tidewater"
    plain = texts_of(compacted(rows, tmp_path / "a", "manual"))
    asked = texts_of(compacted(rows, tmp_path / "b", "manual", instructions=words))
    assert "tidewater gauge harbour 40.7 " not in plain
    assert "tidewater gauge harbour 40.7 " in asked
    assert words not in asked


def test_credentials_are_taken_out_before_anything_is_kept(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    rows = long_conversation(40)
    rows[3:3] = [said("user", f"use {secret} to push")]
    asked = CompactionRequest(rows=rows, trigger="auto", agent="claude-code", session="s")
    store = tmp_path / ".windlass"
    answer = compact_rows(asked, store, "windlass recall", NOW, redact=True)
    assert answer.rows is not None
    assert secret not in texts_of(answer.rows)
    assert not any(secret.encode() in path.read_bytes() for path in store.rglob("*.jsonl"))


def test_a_changed_original_is_not_handed_out(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    ref = REFERENCE.findall(texts_of(compacted(long_conversation(40), store)))[0]
    (path,) = store.rglob("*.compacted.jsonl")
    path.write_bytes(path.read_bytes().replace(b"lift_", b"drop_").replace(b"crane", b"train"))
    with pytest.raises(StoreError, match="was changed"):
        recalled(store, ref)


def test_what_cannot_be_kept_is_not_taken_out_of_view(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    (store / "hooks").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (store / "hooks" / "claude-code").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        compact(long_conversation(40), store)


def test_originals_are_of_the_project_whose_session_it_was(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    (mine, theirs) = (tmp_path / name for name in ("mine", "theirs"))
    refs = {
        name: REFERENCE.findall(
            texts_of(compacted(long_conversation(40, lines), store, folder=name))
        )
        for name, lines in ((str(mine), 120), (str(theirs), 131))
    }
    only = set(refs[str(theirs)]) - set(refs[str(mine)])
    answers = ToolAnswers(Settings.read({"store": str(store)}), mine)
    assert answers.recall(refs[str(mine)][0])
    with pytest.raises(UsageError, match="of another folder"):
        answers.recall(min(only))
    answers.close()


def test_pruning_a_session_takes_what_it_folded(tmp_path: Path) -> None:
    store = tmp_path / ".windlass"
    compacted(long_conversation(40), store)
    assert [*HookJournal(store).sessions()] == [("claude-code", "harbour")]
    pruned = prune_journals(store, {"harbour"}, None, NOW * 2)
    assert pruned.journals == ("harbour",)
    assert not [*store.rglob("*.compacted.jsonl")]


# ---- when -----------------------------------------------------------------------------------


def transcript(path: Path, calls: int, *, begun: float, long: bool = False, **given: int) -> Path:
    """Write a transcript of so many calls, a minute apart; `compacted`: behind which call."""
    records: list[dict[str, Any]] = []
    for number in range(calls):
        if number == given.get("compacted"):
            records.append({"type": "system", "subtype": "compact_boundary"})
        if number % given.get("each", 8) == 0:
            records.append(
                {"type": "user", "timestamp": begun + 60 * number, "message": {"content": "go"}}
            )
        kind = "ephemeral_1h_input_tokens" if long else "ephemeral_5m_input_tokens"
        size = given.get("head", 20_000) + given.get("tokens", 4_000) * number
        usage = {
            "input_tokens": 10,
            "cache_read_input_tokens": size - 3_000,
            "cache_creation_input_tokens": 3_000,
            "cache_creation": {kind: 3_000},
            "output_tokens": 100,
        }
        message = {"id": f"m{number}", "model": "claude-opus-4-6", "usage": usage, "content": []}
        answer = {"type": "assistant", "timestamp": begun + 60 * number + 9, "message": message}
        result = {"type": "tool_result", "tool_use_id": "x", "content": "y"}
        heard = {"type": "user", "timestamp": begun + 60 * number + 60}
        records += [answer, answer, {**heard, "message": {"content": [result]}}]
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def moment(path: Path, now: float) -> tuple[float | None, str]:
    place = AgentPlace("claude-code", "harbour", transcript=path)
    told = CompactionDoor(lambda: now).moment(place)
    return told.seconds, told.reason


@pytest.mark.parametrize(("long", "life"), [(False, 300), (True, 3_600)])
def test_a_timer_ends_where_the_cache_does(tmp_path: Path, long: bool, life: int) -> None:
    path = transcript(tmp_path / "t.jsonl", 14, begun=NOW, long=long)
    last = NOW + 60 * 13
    seconds, why = moment(path, last + 100)
    assert seconds == life - 100 + 5
    assert f"{life // 60} minutes" in why
    assert moment(path, last + life + 5)[0] == 0


def test_a_short_or_new_conversation_is_left_alone(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 8, begun=NOW)
    seconds, why = moment(path, NOW + 9_000)
    assert seconds is None
    assert "frees too little" in why
    assert moment(tmp_path / "none.jsonl", NOW)[0] is None


def test_reading_that_has_cost_more_than_a_compaction_is_a_moment(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 60, begun=NOW)
    seconds, why = moment(path, NOW + 60 * 59 + 30)
    assert seconds == 0
    assert "reading what goes has cost" in why
    path = transcript(tmp_path / "u.jsonl", 20, begun=NOW)
    assert moment(path, NOW + 60 * 19 + 30)[0] == 275


def test_the_breaker_of_the_client_is_not_tripped(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 30, begun=NOW, compacted=26)
    assert "compacted 4 calls ago" in moment(path, NOW + 90_000)[1]
    path = transcript(tmp_path / "u.jsonl", 40, begun=NOW, compacted=20)
    assert moment(path, NOW + 90_000)[0] == 0
    boundary = json.dumps({"type": "system", "subtype": "compact_boundary"}) + "\n"
    text = path.read_text()
    half = text.index('"m30"')
    half = text.rindex("\n", 0, half) + 1
    path.write_text(text[:half] + boundary + text[half:])
    assert "the client stops" in moment(path, NOW + 90_000)[1]


def test_a_transcript_is_read_on_as_it_grows(tmp_path: Path) -> None:
    now = [NOW]
    door = CompactionDoor(lambda: now[0])
    path = tmp_path / "t.jsonl"
    place = AgentPlace("claude-code", "harbour", transcript=path)
    transcript(path, 8, begun=NOW)
    assert door.moment(place).seconds is None
    transcript(path, 14, begun=NOW)
    now[0] = NOW + 60 * 13 + 10
    assert door.moment(place).seconds == 295


def test_a_compaction_is_known_before_the_transcript_tells_it(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 60, begun=NOW)
    place = AgentPlace("claude-code", "harbour", transcript=path)
    door = CompactionDoor(lambda: NOW + 60 * 60)
    assert door.moment(place).seconds == 0
    event = {"trigger": "manual", "own": True, "messages": long_conversation(40)}
    store = tmp_path / ".windlass"
    assert door.compact(event, place, store, "windlass recall").rows is not None
    assert door.moment(place).seconds is None
    (made,) = compactions_in(store)
    assert made.reason.startswith("reading what goes has cost")
    with path.open("a") as file:
        file.write(json.dumps({"type": "system", "subtype": "compact_boundary"}) + "\n")
    assert "no call" in door.moment(place).reason
    skipped = door.compact(
        {**event, "own": False, "trigger": "plugin", "messages": []}, place, store, "x"
    )
    assert skipped.stays
    assert [one.reason for one in compactions_in(store)] == [made.reason, skipped.reason]


def test_a_window_that_is_nearly_full_is_a_moment(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 20, begun=NOW, tokens=7_500)
    place = AgentPlace("claude-code", "harbour", transcript=path)
    door = CompactionDoor(lambda: NOW + 60 * 20)
    assert door.moment(place, 1_000_000).seconds
    assert door.moment(place).seconds
    full = door.moment(place, 200_000)
    assert full.seconds == 0
    assert "nearly full" in full.reason


def test_a_subagent_has_a_transcript_of_its_own(tmp_path: Path) -> None:
    path = transcript(tmp_path / "agent-7.jsonl", 14, begun=NOW)
    path.write_text(path.read_text().replace('{"type": ', '{"isSidechain": true, "type": '))
    assert moment(path, NOW + 60 * 13 + 10)[0] == 295
    path = path.rename(tmp_path / "session.jsonl")
    assert moment(path, NOW + 60 * 13 + 10)[0] is None


def test_a_subagent_is_compacted_by_its_own_count(tmp_path: Path) -> None:
    main = transcript(tmp_path / "harbour.jsonl", 3, begun=NOW)
    own = tmp_path / "harbour" / "subagents" / "agent-7.jsonl"
    own.parent.mkdir(parents=True)
    transcript(own, 30, begun=NOW, tokens=5_000)
    place = AgentPlace("claude-code", "harbour", transcript=main)
    event = {"trigger": "auto", "agentId": "7", "messages": long_conversation(40)}
    store = tmp_path / ".windlass"
    door = CompactionDoor(lambda: NOW + 9_000)
    assert door.compact(event, place, store, "windlass recall").rows is not None
    (made,) = compactions_in(store)
    assert made.thread == "7"
    assert 144_000 < made.tokens_before < 146_000
    assert door.moment(place).reason.endswith("a compaction frees too little")


def test_a_mod_that_comes_too_late_leaves_the_conversation(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl", 14, begun=NOW)
    place = AgentPlace("claude-code", "harbour", transcript=path)
    event = {"trigger": "manual", "own": True, "messages": long_conversation(40)}
    early = CompactionDoor(lambda: NOW + 60 * 13 + 10)
    answer = early.compact(event, place, tmp_path / ".windlass", "windlass recall")
    assert "gone then" in answer.as_json()["skip"]
    late = CompactionDoor(lambda: NOW + 9_000)
    answer = late.compact(event, place, tmp_path / ".windlass", "windlass recall")
    assert answer.rows is not None
    assert "nothing is cached any more" in answer.reason
