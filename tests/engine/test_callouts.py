"""Callouts in a run: the tool, the patterns of a phase, and what a mark does to windows."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import asks, log, logs, lookup, reading, results_of, selections, shown
from windlass.errors import CascadeError
from windlass.history.base import Batch, NodeType, Row
from windlass.history.marks import Callout, CalloutMark, find_callouts, find_message
from windlass.history.row_details import json_of
from windlass.messages import Message, assistant
from windlass.report.call_views import view_session
from windlass.report.explanation import explain_call
from windlass.wire.base import Request


def marks(ref: str, name: str, text: str = "") -> Message:
    """A reply that calls a message out."""
    return calls(call("callout", json.dumps({"ref": ref, "name": name})), text=text)


def marked(ran: Ran) -> tuple[Callout, ...]:
    return find_callouts(ran.store.rows(ran.session))


async def looked(house: House, *replies: Message | str, **keys: Any) -> Ran:
    """A run of one phase that reads logs and calls out, with windows."""
    one = phase("a", tackle=["build_log", "callout"], **keys)
    return await house.run(cascade(one, auto_context={}), {"a": replies}, tools=[logs()])


async def test_a_pattern_that_never_ends_on_pythons_engine_costs_no_time(house: House) -> None:
    one = phase("a", callouts={"bomb": "(a+)+$", "decision": "^DECISION: (.*)$"})
    began = time.process_time()
    ran = await house.run(cascade(one), {"a": ["a" * 10_000 + "!\nDECISION: go\n"]})
    assert [each.name for each in marked(ran)] == ["decision"]
    assert time.process_time() - began < 5


class TestTheTool:
    @pytest.mark.req("AC-18")
    async def test_a_message_that_is_called_out_is_kept_whole(self, house: House) -> None:
        ran = await looked(
            house, asks("17"), marks("build_log", "the failure"), asks("18"), asks("19"), "done"
        )
        assert ran.result.status == "completed"
        kept, told, second, third = shown(ran, 5)
        assert kept == log("17")
        assert told.startswith("called out as 'the failure': the result of build_log ")
        assert len(second) < len(log("18")) / 3, "what is not called out becomes a digest"
        assert third == log("19")
        (one,) = marked(ran)
        assert (one.name, one.by) == ("the failure", "tool")
        assert one.stored.row.message is not None
        assert one.stored.row.message.text == log("17")
        assert ran.has_no_damage()

    @pytest.mark.req("AC-18")
    @pytest.mark.parametrize(("ref", "role"), [("this", "assistant"), ("last", "tool")])
    async def test_this_and_last_stand_for_messages_without_a_reference(
        self, house: House, ref: str, role: str
    ) -> None:
        ran = await looked(house, asks("17"), marks(ref, "n", "We go with plan B."), "done")
        (one,) = marked(ran)
        message = one.stored.row.message
        assert message is not None
        assert message.role == role
        assert message.text == ("We go with plan B." if ref == "this" else log("17"))

    @pytest.mark.req("AC-18")
    async def test_what_was_shortened_before_is_marked_and_stays_as_it_was_sent(
        self, house: House
    ) -> None:
        def script(request: Request) -> Message | str:
            results = results_of(request)
            if len(results) < 2:
                return asks(str(17 + len(results)))
            ref = results[0].partition("chars: ")[2].partition("]")[0]
            return marks(ref, "late") if len(results) == 2 else "done"

        one = phase("a", tackle=["build_log", "callout"])
        ran = await house.run(cascade(one, auto_context={}), script, tools=[logs()])
        digest = shown(ran, 3)[0]
        assert len(digest) < len(log("17"))
        assert shown(ran, 4)[0] == digest
        (found,) = marked(ran)
        assert found.stored.row.message is not None
        assert found.stored.row.message.text == log("17")

    async def test_what_it_cannot_find_or_name_is_told_to_the_model(self, house: House) -> None:
        ran = await looked(house, marks("result_0123456789abcdef", "x"), marks("this", " "), "done")
        first, second = shown(ran, 3)
        assert "no message of this session goes by 'result_0123456789abcdef'; known: " in first
        assert second == "a callout needs a name, such as 'decision'"
        assert marked(ran) == ()

    @pytest.mark.req("AC-18")
    async def test_a_message_marked_again_goes_by_its_newest_name(self, house: House) -> None:
        ran = await looked(house, asks("1"), marks("last", "old"), marks("build_log", "new"), "ok")
        assert [one.name for one in marked(ran)] == ["new"]
        rows = ran.decisions("callout")
        assert [row["name"] for row in rows] == ["old", "new"], "nothing is ever changed"


class TestPatterns:
    @pytest.mark.req("AC-18")
    async def test_replies_and_results_that_match_are_called_out(self, house: House) -> None:
        ran = await looked(
            house,
            asks("17"),
            assistant("So far:\nDECISION: plan B.", calls=[call("build_log", '{"build": "18"}')]),
            "DECISION: done.",
            callouts={"decision": "^DECISION:", "failure": "ERROR: build 17"},
        )
        found = [(one.name, one.by, one.stored.row.node_type) for one in marked(ran)]
        assert found == [
            ("failure", "pattern", NodeType.TOOL_RESULT),
            ("decision", "pattern", NodeType.FOLLOW_UP),
            ("decision", "pattern", NodeType.FOLLOW_UP),
        ]
        assert shown(ran, 3)[0] == log("17")
        assert ran.decisions("callout")[0]["pattern"] == "ERROR: build 17"

    @pytest.mark.req("AC-18")
    async def test_what_was_asked_and_brought_back_is_not_called_out(self, house: House) -> None:
        one = phase("a", tackle=["build_log", "recall"], callouts={"x": "Do a|ERROR"})

        def script(request: Request) -> Message | str:
            results = results_of(request)
            if not results:
                return asks("17")
            if len(results) == 1:
                ref = next(m for m in request.messages if m.role == "tool").content_hash
                return calls(call("recall", json.dumps({"ref": ref})))
            return "done"

        ran = await house.run(cascade(one), script, tools=[logs()])
        (only,) = marked(ran)
        assert json_of(only.stored.row)["tool"] == "build_log"

    @pytest.mark.parametrize("callouts", [{"x": "("}, {" ": "a"}, {"x": ""}, ["x"]])
    async def test_a_pattern_that_cannot_work_is_a_mistake_of_the_file(
        self, house: House, callouts: Any
    ) -> None:
        with pytest.raises(CascadeError, match="callouts"):
            await house.run(cascade(phase("a", callouts=callouts)))


class TestLaterPhases:
    @pytest.mark.req("AC-18")
    async def test_a_snowball_keeps_it_whole_in_the_next_phase(self, house: House) -> None:
        ran = await house.run(
            cascade(
                lookup(callouts={"failure": "ERROR: build 17"}),
                phase("b", tackle=["build_log"]),
                auto_context={},
            ),
            {**reading("17", "18"), "b": [asks("19"), asks("20"), "done"]},
            tools=[logs()],
        )
        kept, other, *_ = shown(ran, 3, "b")
        assert kept == log("17")
        assert len(other) < len(log("18")) / 3

    @pytest.mark.req("AC-18")
    async def test_a_time_to_live_spares_it(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(callouts={"k": "build 17"}, context_ttl={"tool_results": 1})),
            reading("17", "18", "19"),
            tools=[logs()],
        )
        kept, masked, _ = shown(ran, 4)
        assert kept == log("17")
        assert masked.startswith("[build_log result expired")

    @pytest.mark.req("AC-18")
    async def test_a_mark_from_outside_counts_from_the_next_phase_on(self, house: House) -> None:
        def mark() -> None:
            store = house.open_store()
            (session,) = (one.session_id for one in store.sessions())
            found = find_message(list(store.rows(session)), "build_log")
            told = CalloutMark(str(found.id), "outside", "user")
            store.append(
                Batch(session, rows=[Row(NodeType.DECISION, "outside", 1.0, details=told)])
            )

        ran = await house.run(
            cascade(lookup(), phase("b", tackle=["build_log"]), auto_context={}),
            {"a": [asks("17"), "ok"], "b": [asks("18"), asks("19"), "done"]},
            tools=[logs()],
            before={"b": mark},
        )
        assert shown(ran, 3, "b")[0] == log("17")
        assert [one.by for one in marked(ran)] == ["user"]
        assert ran.has_no_damage()


class TestWhatPeopleSee:
    @pytest.mark.req("AC-18")
    async def test_show_and_explain_name_it(self, house: House) -> None:
        ran = await looked(house, asks("17"), marks("last", "the failure"), "done")
        view = view_session(ran.store, ran.session)
        assert [one.name for one in view.callouts] == ["the failure"]
        assert not [note for note in view.notes if "called out" in note.text]
        (seen,) = [one for one in view.calls[2].seen if one.callout]
        assert seen.message.text == log("17")
        (told,) = [one for one in explain_call(ran.store, ran.session, 3).decisions if one.callout]
        assert (told.callout, told.action) == ("the failure", "shown")
        before = explain_call(ran.store, ran.session, 2).decisions
        assert not [one for one in before if one.callout], "it was marked after that call"

    @pytest.mark.req("AC-17")
    async def test_the_record_of_a_call_counts_it_among_its_anchors(self, house: House) -> None:
        ran = await looked(house, asks("17"), marks("last", "x"), "done")
        (one,) = marked(ran)
        assert one.stored.row.message is not None
        short = one.stored.row.message.content_hash
        assert [short in told["anchor_hashes"] for told in selections(ran)] == [False, False, True]


class TestRoom:
    @pytest.mark.req("AC-18")
    async def test_together_they_take_at_most_half_of_a_request(self, house: House) -> None:
        one = phase("a", tackle=["build_log"], callouts={"all": "step"}, max_input_tokens=6_000)
        ran = await house.run(
            cascade(one, auto_context={}),
            {"a": [*(asks(str(number)) for number in range(6)), "done"]},
            tools=[logs()],
        )
        assert ran.result.status == "completed"
        kept = [row["kept"] for row in ran.decisions("callout")]
        assert kept == [True, False, False, False, False, False]
        texts = shown(ran, 7)
        assert texts[0] == log("0")
        assert len(texts[1]) < len(log("1")) / 3

    @pytest.mark.req("AC-18")
    async def test_the_tool_says_where_there_is_no_room(self, house: House) -> None:
        ran = await looked(house, asks("1"), marks("last", "x"), "done", max_input_tokens=3_000)
        assert shown(ran, 3)[1].endswith("; too long to be kept whole in view beside the others")
        assert [one.name for one in marked(ran)] == ["x"]
