"""Windows in a run: what the calls of a phase see under a policy, and what the record keeps."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.engine.logs import asks, log, logs, lookup, reading, results_of, selections, shown
from windlass.errors import ToolError
from windlass.history.base import NodeType
from windlass.history.bodies_at_once import FILE
from windlass.history.row_details import json_of
from windlass.history.window_rows import STRATEGIES
from windlass.messages import Message
from windlass.window import policies
from windlass.window.entries import Because
from windlass.window.options import Policy
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence

SPEC_SQL = """
SELECT
    cascade_id,
    AVG(full_history_size) as avg_full_size,
    AVG(context_size) as avg_context_size,
    AVG(tokens_saved) as avg_tokens_saved,
    SUM(tokens_saved) * 0.000015 as estimated_savings_usd
FROM unified_logs
WHERE node_type = 'context_selection'
GROUP BY cascade_id;
"""
"""The statement of the document, letter for letter."""
UNCUT = {"profile": "lean", "intra_phase": {"cuts": None}}
"""The profile lean, with results that are sent whole the first time."""


class TestDigests:
    @pytest.mark.req("AC-29", "AC-2", "CA-13", "CE-32")
    async def test_a_result_is_seen_whole_once_and_then_as_a_digest(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("17", "18", "19"), tools=[logs()]
        )
        assert ran.result.status == "completed"
        assert shown(ran, 2) == [log("17")]
        first, second = shown(ran, 3)
        assert second == log("18")
        assert first.startswith(f"[{len(log('17'))} chars: result_")
        assert "ERROR: build 17 failed in module_17.py" in first
        assert len(first) < len(log("17")) / 3
        assert shown(ran, 4)[0] == first  # what was sent stays as it was
        for request in ran.model.requests:
            check_sequence(request.messages, {tool.name for tool in request.tools})

    async def test_a_write_that_was_refused_replaces_nothing(self, house: House) -> None:
        written: list[str] = []

        def create_file(path: str, text: str) -> str:
            """Write a file once."""
            if path in written:
                raise ToolError("the medium takes no second version")
            written.append(path)
            return "done"

        old, new = "old line of the script\n" * 200, "new line of the script\n" * 200
        said = [
            calls(call("create_file", json.dumps({"path": "a.sh", "text": text})))
            for text in (old, new)
        ]
        given = cascade(phase("a", tackle=["create_file"]), auto_context={"commit": "at_once"})
        ran = await house.run(given, {"a": [*said, "one", "two"]}, tools=[create_file])
        seen = [call for message in ran.request("a", -1).messages for call in message.tool_calls]
        assert [call.parsed()["text"] for call in seen] == [old, new]
        results = [row.row.message for row in ran.rows(NodeType.TOOL_RESULT)]
        assert [result.failed for result in results if result] == [False, True]

    @pytest.mark.req("AC-38", "AC-39", "CA-16")
    async def test_system_task_and_last_turn_are_always_whole(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), system="Be brief.", auto_context=UNCUT),
            reading(*(str(number) for number in range(6))),
            tools=[logs()],
        )
        for number in range(1, 8):
            seen = ran.seen("a", number)
            assert seen[:2] == [("system", "Be brief."), ("user", "Do a.")]
            if number > 1:
                assert seen[-1] == ("tool", log(str(number - 2)))

    @pytest.mark.req("AC-30", "AC-2")
    async def test_the_record_holds_every_original_and_every_window(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2", "3"), tools=[logs()]
        )
        kept = [stored.row.message for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert [message.text for message in kept if message] == [log("1"), log("2"), log("3")]
        for view, request in zip(ran.views("a"), ran.model.requests, strict=True):
            assert tuple(seen.message for seen in view.seen) == request.messages
        edited = [seen for view in ran.views("a") for seen in view.seen if seen.because]
        assert {seen.because for seen in edited} == {"digest"}
        assert all(seen.original and seen.original.text in {log("1"), log("2")} for seen in edited)
        assert [edit.because for edit in ran.store.edits(ran.session)] == ["digest", "digest"]
        assert ran.has_no_damage()

    @pytest.mark.req("AC-2")
    async def test_a_window_that_was_changed_by_hand_is_found(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2", "3"), tools=[logs()]
        )
        (row,) = ran.store.query("SELECT max(number) AS n FROM edits")
        with closing(sqlite3.connect(house.store / FILE)) as db, db:
            db.execute("UPDATE edits SET reason = 'x' WHERE number = ?", (row["n"],))
        assert not ran.has_no_damage()

    @pytest.mark.req("AC-29")
    async def test_parallel_results_keep_their_pairs(self, house: House) -> None:
        both = calls(
            call("build_log", '{"build": "1"}'), call("build_log", '{"build": "2"}'), text="Two."
        )
        ran = await house.run(
            cascade(lookup(), auto_context={}), {"a": [both, asks("3"), "ok"]}, tools=[logs()]
        )
        one, two, three = shown(ran, 3)
        assert (len(one) < len(log("1")), len(two) < len(log("2")), three) == (True, True, log("3"))
        ids = [m.tool_call_id for m in ran.request("a", 3).messages if m.role == "tool"]
        assert ids[:2] == [asked.id for asked in both.tool_calls]

    @pytest.mark.req("CA-13", "CE-31")
    async def test_a_huge_result_is_cut_before_it_is_first_sent(self, house: House) -> None:
        huge = "".join(f"row {number}: nothing of note here\n" for number in range(8_000))[:221_143]

        def dump() -> str:
            """Dump."""
            return huge

        ran = await house.run(
            cascade(phase("a", tackle=["dump"]), auto_context={}),
            {"a": [calls(call("dump")), "ok"]},
            tools=[dump],
            model={"window": 128_000},
        )
        (first,) = shown(ran, 2)
        assert len(first) < 40_000
        (stored,) = ran.rows(NodeType.TOOL_RESULT)
        assert stored.row.message is not None
        assert stored.row.message.text == huge
        assert stored.row.message.content_hash[:8] in first

    @pytest.mark.req("AC-109")
    @pytest.mark.parametrize("profile", ["spec", "lean"])
    async def test_a_phase_that_reads_files_sends_at_most_six_tenths(
        self, house: House, profile: str
    ) -> None:
        modules = sorted(Path(policies.__file__).parent.glob("*.py"))
        for source in modules[1:]:
            shutil.copy(source, house.folder / source.name)
        named = [{"path": source.name} for source in modules[1:15]]
        reads = [calls(call("read_file", json.dumps(one))) for one in named]
        sent = []
        # As documented, each result is whole until it is masked: nothing is cut before that.
        within = {"compress": False, "see_reads": 4}
        for options in (None, {"profile": profile, "intra_phase": within}):
            ran = await house.run(
                cascade(phase("a", tackle=["read_file"]), auto_context=options),
                {"a": [*reads, "done"]},
            )
            for number, source in enumerate(modules[1:15], start=2):
                assert source.read_text()[-200:] in shown(ran, number)[-1]
            sent.append(ran.result.usage.tokens_in)
        assert 10_000 < sent[1] <= 0.6 * sent[0]

    async def test_a_phase_of_fifteen_turns_sends_less_than_half(self, house: House) -> None:
        builds = [str(number) for number in range(14)]
        sent = {}
        both: tuple[dict[str, Any], ...] = ({}, {"auto_context": {}})
        for options in both:
            ran = await house.run(cascade(lookup(), **options), reading(*builds), tools=[logs()])
            sent[bool(options)] = sum(one.sent_tokens for one in ran.calls())
        assert sent[True] < 0.5 * sent[False]


class TestRecord:
    @pytest.mark.req("AC-105", "AC-52", "AC-4")
    async def test_each_call_has_a_record_with_the_documented_fields(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), system="Be.", auto_context=UNCUT),
            reading("1", "2"),
            tools=[logs()],
        )
        rows = ran.rows(NodeType.CONTEXT_SELECTION)
        agents = ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)
        assert [row.row.parent_id for row in rows] == [row.row.trace_id for row in agents]
        for number, (stored, recorded) in enumerate(zip(rows, ran.calls(), strict=True), 1):
            told = json_of(stored.row)
            assert told["semantic_actor"] == "auto_context"
            assert told["selection_type"] == "intra_phase"
            assert told["turn"] == stored.row.turn == number
            assert told["context_size"] == stored.row.context_size == len(recorded.shown)
            assert told["full_history_size"] == stored.row.full_history_size == 2 * number
            saved = recorded.full_tokens - recorded.sent_tokens
            assert told["tokens_saved"] == stored.row.tokens_saved == saved
            assert len(told["anchor_hashes"]) == 2
            hashes = [shown.message_id.split("-")[0] for shown in recorded.shown]
            assert told["anchor_hashes"] + told["selected_hashes"] == hashes
            assert told["config"] == Policy(profile="lean", cuts=None).settings()
            assert told["policy_hash"] == Policy(profile="lean", cuts=None).key
        assert [row["masked_count"] for row in selections(ran)] == [0, 0, 1]
        strategies = [row["strategy"] for row in selections(ran)]
        assert strategies == ["full", "full", "observation_masking"]

    @pytest.mark.req("AC-105")
    def test_every_edit_has_a_strategy(self) -> None:
        assert set(STRATEGIES) >= set(get_args(Because)) - {"repair"}

    @pytest.mark.req("AC-105", "AC-106")
    async def test_the_documents_statement_runs(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2", "3"), tools=[logs()]
        )
        (row,) = ran.store.query(SPEC_SQL.strip().rstrip(";"))
        sizes = [recorded.full_tokens - recorded.sent_tokens for recorded in ran.calls()]
        assert row["cascade_id"] == "test"
        assert row["avg_full_size"] == (1 + 3 + 5 + 7) / 4
        assert row["avg_context_size"] == (1 + 3 + 5 + 7) / 4
        assert row["avg_tokens_saved"] == sum(sizes) / 4

    async def test_totals_count_a_call_once(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2", "3"), tools=[logs()]
        )
        agents = ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)
        tokens = sum(stored.row.tokens_in or 0 for stored in agents)
        (info,) = ran.store.sessions()
        assert (info.tokens_in, info.calls) == (tokens, 4) == (ran.result.usage.tokens_in, 4)
        assert ran.result.saved == sum(stored.row.tokens_saved or 0 for stored in agents)

    async def test_without_a_policy_there_is_no_such_record(self, house: House) -> None:
        ran = await house.run(cascade(lookup()), reading("1", "2"), tools=[logs()])
        assert selections(ran) == []
        assert shown(ran, 3) == [log("1"), log("2")]
        assert "recall" not in {tool.name for tool in ran.request("a").tools}


class TestOverPhases:
    @pytest.mark.req("AC-30", "AC-2")
    async def test_edits_stay_in_force_and_sources_get_originals(self, house: House) -> None:
        ran = await house.run(
            cascade(
                lookup(intra_context={}),
                phase("b"),
                phase("c", context={"from": [{"phase": "a", "include": ["messages"]}]}),
            ),
            reading("1", "2"),
            tools=[logs()],
        )
        digest, whole = shown(ran, 3)
        assert shown(ran, 1, "b") == [digest, whole]
        assert shown(ran, 1, "c") == [log("1"), log("2")]
        assert [row["turn"] for row in selections(ran)] == [1, 2, 3]
        assert ran.has_no_damage()

    @pytest.mark.req("AC-1")
    async def test_windows_within_a_phase_and_selection_between_phases_are_both_recorded(
        self, house: House
    ) -> None:
        sources = {"from": [{"phase": "a", "include": ["output"]}]}
        ran = await house.run(
            cascade(
                lookup(intra_context={}),
                phase("b", tackle=["build_log"], context=sources, intra_context={}),
            ),
            {**reading("1", "2"), "b": [asks("3"), asks("4"), "ok"]},
            {"x": 1},
            tools=[logs()],
        )
        # Between phases: what `b` takes of `a`, its output with its last log, is a row of its own.
        assert shown(ran, 1, "b") == []
        told = f'[Output from a]:\ndone\n\n[Result of build_log(build="2")]:\n{log("2")}'
        assert ran.seen("b")[1:] == [("user", told), ("user", "Do b.")]
        taken = [stored.row.message for stored in ran.rows(NodeType.CONTEXT_INJECTION, phase="b")]
        assert [message.text for message in taken if message][-1] == told
        # Within each: its calls see a result whole once, and each has its record.
        for name in ("a", "b"):
            digest, _ = shown(ran, 3, name)
            assert len(digest) < len(log("1")) / 3
            rows = ran.rows(NodeType.CONTEXT_SELECTION, phase=name)
            assert [json_of(stored.row)["masked_count"] for stored in rows] == [0, 0, 1]
        assert ran.has_no_damage()

    @pytest.mark.req("CE-33")
    async def test_a_later_phase_opens_the_files_too(self, house: House) -> None:
        def script(request: Request) -> Message | str:
            results = results_of(request)
            if request.messages[-1].text == "Do b.":
                path = re.search(r"chars: (\S+?\.json)\]", results[0])
                assert path is not None
                return calls(call("read_file", json.dumps({"path": path[1]})))
            if any(message.text == "Do b." for message in request.messages):
                return "ok b"
            return asks(str(len(results))) if len(results) < 2 else "ok a"

        first = phase("a", tackle=["build_log", "read_file"])
        last = phase("b", tackle=["read_file"], intra_context=False)
        ran = await house.run(cascade(first, last, auto_context={}), script, tools=[logs()])
        assert json.loads(shown(ran, 2, "b")[-1])["content"] == log("0")

    async def test_a_later_phase_with_a_window_shortens_what_earlier_ones_left(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(lookup(), phase("b", intra_context={})), reading("1", "2"), tools=[logs()]
        )
        assert shown(ran, 3) == [log("1"), log("2")]
        assert all(len(text) < len(log("1")) / 3 for text in shown(ran, 1, "b"))
        assert ran.has_no_damage()


def refusing(reasons: Mapping[str, str]) -> Callable[[str], dict[str, Any]]:
    def judge(text: str) -> dict[str, Any]:
        """Judge."""
        for part, reason in reasons.items():
            if part in text:
                return {"valid": False, "reason": reason}
        return {"valid": True}

    return judge


class TestLoops:
    def loop(self, attempts: int, **keys: Any) -> dict[str, Any]:
        return phase("a", rules={"loop_until": "judge", "max_attempts": attempts}, **keys)

    @pytest.mark.req("AC-46", "AC-47", "AC-48", "AC-49", "AC-50")
    async def test_a_retry_sees_task_failures_and_the_request(self, house: House) -> None:
        drafts = [f"draft {number} " + f"bad{number} " * 200 for number in range(1, 6)]
        judge = refusing({f"bad{number}": f"reason {number}" for number in range(1, 6)})
        ran = await house.run(
            cascade(self.loop(9), system="Be.", auto_context={}),
            {"a": [*drafts, "good"]},
            tools=[judge],
        )
        assert ran.result.output == "good"
        seen = ran.seen("a", 6)
        assert seen[0] == ("system", "Be.")
        assert seen[1][0] == "user"
        assert seen[1][1].startswith("[Original Task]")
        assert "Do a." in seen[1][1]
        told = [text for _, text in seen]
        assert told[2].startswith("[Attempt #3]\n")
        assert told[4].startswith("[Attempt #4]\n")
        assert max(len(told[2]), len(told[4])) < 800
        assert (told[3], told[5]) == (
            "[Validation Failed]\nreason 3",
            "[Validation Failed]\nreason 4",
        )
        assert told[6] == drafts[4]  # the last attempt stays whole
        assert told[7].endswith(
            "Please try again (Attempt #6). Address the validation issues noted above."
        )
        assert "reason 1" in told[1]
        assert "reason 2" in told[1]
        failures = [json_of(stored.row) for stored in ran.rows(NodeType.VALIDATION)]
        assert [row["output"] for row in failures] == [*drafts, "good"]
        assert [row["validation_reason"] for row in failures][:5] == [
            f"reason {number}" for number in range(1, 6)
        ]
        assert ran.has_no_damage()

    @pytest.mark.req("AC-114", "AC-6")
    async def test_ten_attempts_with_and_without(self, house: House) -> None:
        drafts = [f"draft {number} " + f"bad{number} " * 400 for number in range(1, 10)]
        judge = refusing({f"bad{number}": f"reason {number}" for number in range(1, 10)})
        sent: dict[bool, list[int]] = {}
        for on in (False, True):
            ran = await house.run(
                cascade(self.loop(10), auto_context=on), {"a": [*drafts, "good"]}, tools=[judge]
            )
            assert len(ran.calls()) == 10
            sent[on] = [one.sent_tokens for one in ran.calls()]
        assert sum(sent[True]) <= 0.4 * sum(sent[False])
        assert sent[True][-1] < sent[False][-1] / 3
        assert sent[True][:2] == sent[False][:2]

    async def test_attempts_with_tool_calls_stay_valid(self, house: House) -> None:
        judge = refusing({"bad": "no"})
        replies = [
            part for number in range(4) for part in (asks(str(number)), f"bad{number} " * 100)
        ]
        ran = await house.run(
            cascade(
                phase(
                    "a",
                    tackle=["build_log"],
                    rules={"loop_until": "judge", "max_attempts": 6},
                ),
                auto_context={},
            ),
            {"a": [*replies, "good"]},
            tools=[logs(), judge],
        )
        assert ran.result.output == "good"
        for request in ran.model.requests:
            check_sequence(request.messages, {tool.name for tool in request.tools})
        assert ran.has_no_damage()
