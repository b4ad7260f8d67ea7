"""Windows beside the other settings of a phase: pictures, times to live, outputs, sources."""

from __future__ import annotations

import re

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.engine.logs import (
    draw,
    drawing,
    draws,
    log,
    logs,
    lookup,
    reading,
    shown,
)
from tests.strategies import png
from windlass.history.base import NodeType
from windlass.wire.openai import check_sequence


class TestTogether:
    @pytest.mark.req("CA-8")
    async def test_an_old_picture_becomes_a_line_that_names_its_file(self, house: House) -> None:
        ran = await house.run(
            cascade(draws(), phase("b", context={"from": ["a"]}, tackle=["draw"]), auto_context={}),
            {
                "a": [drawing(3), drawing(4), drawing(5), "ok"],
                "b": [drawing(6), drawing(7), drawing(8), "ok"],
            },
            tools=[draw],
        )
        line = (
            rf"\[Image at turn 1: [^]]*3x3[^]]*, saved: (\S+/images/{ran.session}/a/image_0.png)\]"
        )
        found = re.search(line, shown(ran, 4)[0])
        assert found is not None, shown(ran, 4)
        assert (house.folder / found[1]).read_bytes() == png(3, 3)
        pictures = [len(m.pictures) for m in ran.request("a", 4).messages if m.role == "tool"]
        assert pictures == [0, 1, 1]
        assert not any(m.role == "user" and m.pictures for m in ran.request("b", 4).messages)
        brought = [text for role, text in ran.seen("b", 4) if role == "user"]
        assert f"images/{ran.session}/a/image_2.png" in "".join(brought)
        assert ran.has_no_damage()

    @pytest.mark.req("CI-46")
    async def test_a_time_to_live_holds_beside_a_window(self, house: House) -> None:
        builds = [str(number) for number in range(7)]
        ran = await house.run(
            cascade(lookup(context_ttl={"tool_results": 2}), auto_context={"profile": "default"}),
            reading(*builds),
            tools=[logs()],
        )
        seen = [shown(ran, number) for number in range(2, 9)]
        whole, digest, gone = seen[0][0], seen[1][0], seen[2][0]
        assert whole == log("0")
        assert " chars: result_" in digest.partition("\n")[0]
        assert gone.startswith("[build_log result expired after 2 turns")
        assert all(texts[0] == gone for texts in seen[2:])
        edits = ran.store.edits(ran.session)
        assert [edit.because for edit in edits].count("expire") == len(builds) - 2
        assert len(edits) == len({(edit.message_id, edit.because) for edit in edits})
        assert ran.has_no_damage()

    @pytest.mark.req("CI-46")
    async def test_what_was_folded_does_not_expire_again(self, house: House) -> None:
        builds = [str(number) for number in range(7)]
        options = {"fold_after": 1, "see_results": None}
        ran = await house.run(
            cascade(
                lookup(context_ttl={"tool_results": 3, "assistant": 3}),
                auto_context={"intra_phase": options},
            ),
            reading(*builds),
            tools=[logs()],
        )
        edits = ran.store.edits(ran.session)
        assert {edit.because for edit in edits} == {"fold"}
        assert len(edits) == len({edit.message_id for edit in edits})
        for request in ran.model.requests:
            check_sequence(request.messages, {tool.name for tool in request.tools})
        assert ran.has_no_damage()

    @pytest.mark.req("CI-47", "CI-48")
    async def test_extraction_reads_the_unedited_output(self, house: House) -> None:
        long = f"<answer>{'x' * 6_000}</answer>"
        wanted = {"pattern": "<answer>(.*)</answer>", "store_as": "k"}
        ran = await house.run(
            cascade(
                phase("a", output_extraction=wanted),
                phase("b", tackle=["set_state"]),
                auto_context={},
            ),
            {"a": [long], "b": [calls(call("set_state", '{"key": "l", "value": 1}')), "ok"]},
        )
        assert ran.result.state["k"] == "x" * 6_000
        assert "truncate" in {edit.because for edit in ran.store.edits(ran.session)}
        assert long not in [text for _, text in ran.seen("b", 2)]

    @pytest.mark.req("CI-45", "CI-48")
    async def test_retention_hides_all_but_the_output(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(context_retention="output_only"), phase("b"), auto_context={}),
            reading("1", "2", last="found it"),
            tools=[logs()],
        )
        assert ran.seen("b") == [("assistant", "found it"), ("user", "Do b.")]
        assert len(ran.rows(NodeType.TOOL_RESULT)) == 2

    @pytest.mark.req("AC-29")
    async def test_a_phase_knows_nothing_of_its_window(self, house: House) -> None:
        # The same replies, the same results, the same output: only what is sent differs.
        told = []
        for on in (False, True):
            ran = await house.run(
                cascade(lookup(), auto_context=on), reading("1", "2", "3"), tools=[logs()]
            )
            results = ran.rows(NodeType.TOOL_RESULT)
            said = [stored.row.message.text for stored in results if stored.row.message]
            told.append((ran.result.output, said, len(ran.calls())))
        assert told[0] == told[1]
