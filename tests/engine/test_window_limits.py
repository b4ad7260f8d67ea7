"""Windows in a run: token budgets, what is too long for a model, switches for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.engine.harness import House, cascade, phase
from tests.engine.logs import (
    draw,
    drawing,
    draws,
    log,
    logs,
    lookup,
    reading,
    selections,
    shown,
)
from windlass.errors import BudgetExceeded, ContextTooLong, ProviderError
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message
from windlass.report.costs import session_cost
from windlass.wire.base import Request


def summarising(builds: Sequence[str], answer: str | Exception) -> Callable[[Request], Any]:
    """A script that reads logs, and answers what is asked about them with one text."""
    replies = iter(reading(*builds)["a"])

    def script(request: Request) -> Message | str:
        if request.messages[0].text.startswith("Summarise this part"):
            assert [message.role for message in request.messages] == ["system", "user"]
            if isinstance(answer, Exception):
                raise answer
            return answer
        return next(replies)

    return script


class TestBudget:
    @pytest.mark.req("CA-19", "CA-17")
    async def test_the_oldest_turns_are_pruned_above_the_limit(self, house: House) -> None:
        builds = [str(number) for number in range(8)]
        ran = await house.run(
            cascade(lookup(max_input_tokens=6_000), system="Be."), reading(*builds), tools=[logs()]
        )
        assert ran.result.status == "completed"
        assert all(one.sent_tokens <= 6_000 for one in ran.calls())
        seen = ran.seen("a", -1)
        assert seen[:2] == [("system", "Be."), ("user", "Do a.")]
        assert seen[-1] == ("tool", log("7"))
        assert log("0") not in shown(ran, -1)
        assert selections(ran)[-1]["strategy"] == "token_budget"
        kept = [stored.row.message for stored in ran.rows(NodeType.TOOL_RESULT)]
        assert [message.text for message in kept if message] == [log(build) for build in builds]
        assert ran.has_no_damage()

    @pytest.mark.req("CA-19")
    @pytest.mark.parametrize("how", ["warn", "fail"])
    async def test_warn_and_fail_leave_nothing_out(self, house: House, how: str) -> None:
        limit = {"limit": 5_000, "on_exceed": how}
        ran = await house.run(
            cascade(lookup(max_input_tokens=limit)), reading("1", "2", "3", "4"), tools=[logs()]
        )
        assert selections(ran) == []
        if how == "warn":
            assert shown(ran, -1) == [log(build) for build in "1234"]
            assert ran.calls()[-1].details.as_json()["budget"]["exceeded"]
        else:
            assert isinstance(ran.result.error, BudgetExceeded)

    @pytest.mark.req("CA-19", "CA-17", "CE-35")
    @pytest.mark.parametrize("by", ["budget", "decay"])
    async def test_a_summary_is_asked_for_recorded_and_charged(self, house: House, by: str) -> None:
        builds = [str(number) for number in range(12)]
        if by == "budget":
            limit = {"limit": 6_000, "on_exceed": "summarise"}
            made = cascade(lookup(max_input_tokens=limit))
        else:
            made = cascade(lookup(), auto_context={"intra_phase": {"decay": True}})
        text = "Builds 0 and 1 failed in module_0.py and module_1.py."
        ran = await house.run(made, summarising(builds, text), tools=[logs()])
        assert ran.result.status == "completed"
        (first, *_) = told = ran.decisions("summary")
        assert first["answer"] == text
        rows = [
            stored.row
            for stored in ran.rows(NodeType.DECISION)
            if json_of(stored.row).get("kind") == "summary"
        ]
        assert all(row.tokens_in and row.tokens_out and row.model for row in rows)
        agents = ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)
        every = [*rows, *(stored.row for stored in agents)]
        assert ran.result.usage.tokens_in == sum(row.tokens_in or 0 for row in every)
        assert ran.result.cost == sum(row.cost or 0 for row in every)
        (info,) = ran.store.sessions()
        assert (info.tokens_in, info.calls) == (ran.result.usage.tokens_in, len(agents))
        assert any(text in said for _, said in ran.seen("a", -1)), told
        summed = session_cost(ran.store, ran.session, "openai/gpt-4o").total
        assert (summed.tokens_in, summed.calls) == (info.tokens_in, info.calls)
        assert ran.has_no_damage()

    @pytest.mark.req("CA-19")
    @pytest.mark.parametrize("answer", ["", "word " * 4_000, ProviderError("no")])
    async def test_a_summary_that_fails_changes_nothing_but_the_way(
        self, house: House, answer: Any
    ) -> None:
        builds = [str(number) for number in range(8)]
        limit = {"limit": 6_000, "on_exceed": "summarise"}
        ran = await house.run(
            cascade(lookup(max_input_tokens=limit)),
            summarising(builds, answer),
            tools=[logs()],
        )
        assert ran.result.status == "completed"
        assert all(one.sent_tokens <= 6_000 for one in ran.calls())
        assert "summarise" not in {edit.because for edit in ran.store.edits(ran.session)}
        asked = ran.decisions("summary")
        assert len({one["key"] for one in asked}) == len(asked) > 0

    async def test_a_history_above_the_models_window_is_pruned_and_goes_on(
        self, house: House
    ) -> None:
        builds = [str(number) for number in range(12)]
        model = {"window": 9_000}
        for on in (False, True):
            options = {"auto_context": {"intra_phase": {"see_results": None}}} if on else {}
            ran = await house.run(
                cascade(lookup(max_output_tokens=500), **options),
                reading(*builds),
                tools=[logs()],
                model=model,
            )
            assert isinstance(ran.result.error, ContextTooLong) is not on
        assert ran.result.status == "completed"
        assert all(one.sent_tokens <= 8_500 for one in ran.calls())
        assert shown(ran, -1)[-1] == log("11")

    @pytest.mark.req("CA-19")
    async def test_the_definitions_of_replayed_tools_count(self, house: House) -> None:
        # Phase b has no tools, but what it replays calls some: their definitions are sent.
        ran = await house.run(
            cascade(lookup(), phase("b", max_input_tokens=2_600)),
            reading("1", "2", "3", "4"),
            tools=[logs()],
        )
        assert ran.calls()[-1].sent_tokens <= 2_600

    @pytest.mark.parametrize("mode", ["snowball", "selective"])
    async def test_a_refused_call_is_planned_once_more_with_the_right_count(
        self, house: House, mode: str
    ) -> None:
        given = reading(*(str(number) for number in range(6)))["a"]
        replies = iter(given)
        refused: list[int] = []

        def script(request: Request) -> Message | str:
            size = sum(message.chars for message in request.messages)
            if size > 20_000:
                refused.append(size)
                raise ContextTooLong("too long", counted=12_000, limit=6_000)
            return next(replies)

        keys: dict[str, Any] = {"context": {"from": []}} if mode == "selective" else {}
        options = {"see_results": None, "repeats": False}
        ran = await house.run(
            cascade(lookup(**keys), auto_context={"intra_phase": options}),
            script,
            tools=[logs()],
        )
        assert ran.result.status == "completed"
        assert len(refused) == 1  # the corrected count holds from then on
        (told,) = ran.decisions("replan")
        assert told["tokens_after"] < told["tokens_before"]
        assert (told["counted"], told["limit"]) == (12_000, 6_000)
        assert ran.has_no_damage()

    async def test_what_cannot_be_shortened_stays_refused(self, house: House) -> None:
        def script(request: Request) -> Message | str:
            raise ContextTooLong("too long")

        ran = await house.run(cascade(phase("a"), auto_context={}), script)
        assert isinstance(ran.result.error, ContextTooLong)
        assert len(ran.model.requests) == 1


class TestSwitches:
    @pytest.mark.req("AC-99", "AC-100")
    @pytest.mark.parametrize(
        ("variable", "value", "setting"),
        [
            ("WINDLASS_PASSTHROUGH", "1", "passthrough"),
            (
                "WINDLASS_AUTO_CONTEXT_INTRA_PHASE_ENABLED",
                "false",
                "auto_context_intra_phase_enabled",
            ),
        ],
    )
    async def test_a_switch_sends_everything_and_the_record_says_so(
        self,
        house: House,
        monkeypatch: pytest.MonkeyPatch,
        variable: str,
        value: str,
        setting: str,
    ) -> None:
        monkeypatch.setenv(variable, value)
        ran = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2", "3"), tools=[logs()]
        )
        assert shown(ran, 4) == [log("1"), log("2"), log("3")]
        (told,) = ran.decisions("switched_off")
        assert (told["setting"], told["origin"]) == (setting, variable)
        assert selections(ran) == []

    @pytest.mark.req("AC-99")
    async def test_a_switch_turns_nothing_on(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_INTRA_PHASE_ENABLED", "true")
        ran = await house.run(cascade(lookup()), reading("1", "2"), tools=[logs()])
        assert shown(ran, 3) == [log("1"), log("2")]
        assert ran.decisions("switched_off") == []

    @pytest.mark.req("CA-2")
    async def test_the_newest_turns_are_kept_by_the_environment(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_KEEP_RECENT_TURNS", "2")
        ran = await house.run(
            cascade(lookup(), phase("b")), reading("1", "2", "3", "4"), tools=[logs()]
        )
        assert shown(ran, 5) == [log("3"), log("4")]
        assert len(shown(ran, 1, "b")) < 4  # across phases
        assert ran.seen("a", 5)[0] == ("user", "Do a.")
        assert selections(ran)[-1]["config"]["keep_recent_turns"] == 2
        assert ran.has_no_damage()

    @pytest.mark.req("CA-3")
    async def test_the_newest_pictures_are_kept_by_the_environment(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_KEEP_RECENT_IMAGES", "1")
        ran = await house.run(cascade(draws()), {"a": [drawing()] * 3 + ["ok"]}, tools=[draw])
        pictures = [len(m.pictures) for m in ran.request("a", 4).messages if m.role == "tool"]
        assert pictures == [0, 0, 1]
