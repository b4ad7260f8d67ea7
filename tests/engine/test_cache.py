"""What a run counts on of its model's cache, what it was told, and what the record says of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, cascade, phase
from tests.engine.logs import logs, lookup, reading, shown
from tests.support.engine_cache import Reporting, Told, honest
from tests.support.engine_planning import planned, set_prices
from tests.validators import anthropic as rules
from windlass.engine.events import CallEnded, Event, Noted, SessionStarted
from windlass.engine.turn.breaker import breaker_text, check_losses
from windlass.history.base import Batch, CallRecord, NodeType, Outcome, SessionStart
from windlass.history.details import OutcomeDetails, WindowSavings
from windlass.history.row_details import json_of
from windlass.report.costs import session_cost
from windlass.report.explanation import explain_call
from windlass.wire import anthropic
from windlass.wire.base import Usage
from windlass.wire.openai import to_openai

BUILDS = tuple(str(number) for number in range(8))


def nothing_cached(call: int, usage: Usage) -> Usage:
    return replace(usage, tokens_cached=0)


@dataclass
class Runs:
    """Runs in one store at Anthropic-like prices."""

    house: House

    async def __call__(
        self,
        told: Told = honest,
        *,
        replies: Mapping[str, Sequence[Any]] | None = None,
        made: Mapping[str, Any] | None = None,
        name: str = "scripted/function",
        tool: Callable[..., str] | None = None,
    ) -> Ran:
        model = Reporting(replies or reading(*BUILDS), told, name)
        events: list[Event] = []
        result = await windlass.run(
            made or cascade(lookup(), auto_context={}),
            model="scripted/x",
            store=self.house.store,
            root=self.house.folder,
            tools=[tool or logs()],
            providers={"scripted": model},
            on_event=events.append,
        )
        assert result.error is None
        return Ran(result, model, self.house.open_store(), events)


@pytest.fixture
def runs(house: House, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(house.folder)
    set_prices(house)
    return Runs(house)


def cache(recorded: Sequence[CallRecord]) -> list[Mapping[str, Any]]:
    return [one.details.as_json()["cache"] for one in recorded]


def assumed(call: CallRecord) -> list[str]:
    """What was assumed for a call, beside what is assumed of the test's prices."""
    told: Sequence[str] = call.details.as_json().get("assumed", ())
    return [one for one in told if "no known rules" not in one]


def notes(ran: Ran) -> list[str]:
    return [event.text for event in ran.events if isinstance(event, Noted)]


class TestReports:
    async def test_each_call_tells_what_was_expected_and_what_was_read(self, runs: Runs) -> None:
        recorded = (await runs()).calls()
        told = cache(recorded)
        assert told[0] == {"expected": 0, "reported": 0, "planned_as": "warm"}
        assert all(one["planned_as"] == "warm" for one in told)
        for one in told[2:]:
            assert one["expected"] <= one["reported"] < one["expected"] + 128 or not one["expected"]

    async def test_a_session_whose_cache_falls_short_is_planned_as_cold_and_says_so(
        self, runs: Runs
    ) -> None:
        set_prices(runs.house, 50)  # no edit of what is cached pays

        def once(call: int, usage: Usage) -> Usage:
            return replace(usage, tokens_cached=0) if call == 4 else usage

        made = cascade(lookup(), system="Be careful. " * 600, auto_context={})
        ran = await runs(once, made=made)
        told = cache(ran.calls())
        ways = [one["planned_as"] for one in told]
        assert ways[:5] == [*["warm"] * 4, "cold"]
        assert ways[-1] == "warm"  # a later call showed that it holds again
        assert planned(ran.calls()[4])["verdict"] == "cold"
        assert len(set(map(len, shown(ran, 4)))) == 1
        assert len(shown(ran, 5)[0]) < len(shown(ran, 4)[0]) / 3
        (text, back) = [one["text"] for one in ran.decisions("cache")]
        assert "planned as cold: call 4 read 0 tokens from the cache where about" in text
        assert "the cache holds again" in back
        assert text in notes(ran)
        explained = explain_call(ran.store, ran.session, 5)
        assert text in explained.notes
        assert any(note.startswith("assumed: planned as cold") for note in explained.notes)
        assert assumed(ran.calls()[4])[0].startswith("planned as cold: call 4")

    async def test_a_provider_that_caches_nothing_is_planned_without_a_cache(
        self, runs: Runs
    ) -> None:
        set_prices(runs.house, 50)
        # Reads of files wait, so that some calls go on where the one before ended.
        options = {"intra_phase": {"see_results": 4}}
        ran = await runs(nothing_cached, made=cascade(lookup(), auto_context=options))
        ways = [one["planned_as"] for one in cache(ran.calls())]
        assert ways == sorted(ways, key=["warm", "cold", "without a cache"].index)
        assert ways[-1] == "without a cache"
        assert any("no cache is counted on" in one["text"] for one in ran.decisions("cache"))

    async def test_the_same_usages_give_the_same_requests(self, runs: Runs) -> None:
        def chance(call: int, usage: Usage) -> Usage:
            return replace(usage, tokens_cached=usage.tokens_cached * (call % 3) // 2)

        replies = reading(*BUILDS)
        one, other = await runs(chance, replies=replies), await runs(chance, replies=replies)
        assert [request.messages for request in one.model.requests] == [
            request.messages for request in other.model.requests
        ]

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (Usage(100, 5, 400), "400 cached and 0 written of 100 input tokens cannot be"),
            (Usage(-100, 5), "-100 input tokens cannot be"),
            (Usage(100, 5, -3), "-3 cached tokens cannot be"),
        ],
    )
    async def test_usage_that_contradicts_itself_is_told_and_not_believed(
        self, runs: Runs, wrong: Usage, why: str
    ) -> None:
        def told(call: int, usage: Usage) -> Usage:
            return wrong if call == 3 else usage

        ran = await runs(told)
        assert why in assumed(ran.calls()[2])[0]
        assert all(one["planned_as"] == "warm" for one in cache(ran.calls()))
        rows = ran.rows(NodeType.FOLLOW_UP)
        assert all(
            (stored.row.tokens_in or 0) >= (stored.row.tokens_cached or 0) for stored in rows
        )
        assert (ran.result.cost or 0) > 0
        assert ran.has_no_damage()

    async def test_a_model_without_a_price_is_told_in_the_record(self, runs: Runs) -> None:
        ran = await runs(name="acme/one")
        for call in ran.calls():
            assert call.details.as_json()["assumed"][0].startswith("model 'acme/one' has no price")
            assert "cache" not in call.details.as_json()
        assert ran.result.cost is None

    async def test_a_context_that_is_no_continuation_begins_cold(self, runs: Runs) -> None:
        own = phase("b", context={"from": [{"phase": "a", "include": ["messages"]}]})
        made = cascade(
            lookup(intra_context={"see_results": None}),
            phase("c", tackle=["build_log"], instructions="Do c. " + "word " * 3_000),
            {**own, "tackle": ["build_log"]},
            auto_context={},
        )
        replies = {**reading(*BUILDS[:3]), "c": ["ok"], "b": ["ok"]}
        ran = await runs(replies=replies, made=made)
        last = ran.calls()[-1]
        assert last.details.as_json()["cache"]["expected"] == 0
        assert planned(last).get("verdict") in (None, "cold", "quiet")

    async def test_what_is_resumed_after_an_hour_is_planned_as_of_now(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(call: int, usage: Usage) -> Usage:
            if call == 5:
                raise KeyboardInterrupt
            return usage

        house, replies, real = runs.house, reading(*BUILDS), time.time
        made = cascade(lookup(), system="Be careful. " * 600, auto_context={})
        around: dict[str, Any] = {"model": "scripted/x", "store": house.store, "tools": [logs()]}
        name = "anthropic/claude-sonnet-4-5"
        broken = Reporting(replies, gone, name)
        with pytest.raises(KeyboardInterrupt):
            await windlass.run(made, session_id="s", providers={"scripted": broken}, **around)
        monkeypatch.setattr("windlass.engine.setup.time.time", lambda: real() + 3_600)
        left = Reporting({key: said[4:] for key, said in replies.items()}, honest, name)
        events: list[Event] = []
        result = await windlass.resume(
            "s", providers={"scripted": left}, on_event=events.append, **around
        )
        ran = Ran(result, left, house.open_store(), events)
        expected = [one["expected"] for one in cache(ran.calls())]
        assert all(expected[1:4])
        assert expected[4] == 0  # nothing is kept for an hour
        assert all(expected[5:])
        took = [each.row.duration_ms or 0 for each in ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)]
        assert all(0 <= milliseconds < 60_000 for milliseconds in took)
        ended = [event.is_recorded for event in events if isinstance(event, CallEnded)]
        assert ended == [True] * 4 + [False] * (len(expected) - 4)

    async def test_a_clock_that_runs_backwards_is_told(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter(range(10_000, 0, -7))
        monkeypatch.setattr("windlass.engine.setup.time.time", lambda: float(next(clock)))
        ran = await runs()
        told = [assumed(call)[0] for call in ran.calls()[1:]]
        assert all("s older than the answer before it: taken as no pause" in one for one in told)
        assert ran.has_no_damage()


class TestHead:
    """The end of tools and system prompt, and for how long it is cached (CE-25)."""

    @staticmethod
    async def run(
        runs: Runs,
        monkeypatch: pytest.MonkeyPatch,
        pauses: Mapping[int, float],
        name: str = "anthropic/claude-sonnet-4-5",
    ) -> Ran:
        now = [1_000.0]
        monkeypatch.setattr("windlass.engine.setup.time.time", lambda: now[0])

        read = logs()

        def build_log(build: str) -> str:
            """Read a log, which takes its time."""
            now[0] += pauses.get(int(build), 1.0)
            return read(build)

        made = cascade(lookup(), system="Be careful. " * 600, auto_context={})
        return await runs(made=made, name=name, tool=build_log)

    async def test_after_a_long_pause_it_is_kept_for_an_hour(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran = await self.run(runs, monkeypatch, {2: 900.0})
        long: list[Any] = [call.details.as_json()["marks"]["long"] for call in ran.calls()]
        assert long == [*[()] * 3, *[((0, 0),)] * (len(long) - 3)]
        told = ran.calls()[3].details.as_json()["marks"]["lifetime"]
        assert told == {"long": True, "pauses": 1, "calls": 3, "to_come": pytest.approx(10 / 3)}
        requests = [anthropic.body(request) for request in ran.model.requests]
        kept = [body["system"][0]["cache_control"].get("ttl") for body in requests]
        assert kept == [None] * 3 + ["1h"] * (len(requests) - 3)
        for body in requests:
            others = [block for turn in body["messages"] for block in turn["content"]]
            marked = [one["cache_control"] for one in others if "cache_control" in one]
            assert marked
            assert all("ttl" not in one for one in marked)
            assert rules.problems(body) == []

    @pytest.mark.parametrize(("answer", "long"), [(1.0, False), (200.0, True)])
    async def test_a_pause_begins_with_the_request_and_not_with_its_answer(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch, answer: float, *, long: bool
    ) -> None:
        now = [1_000.0]
        monkeypatch.setattr("windlass.engine.setup.time.time", lambda: now[0])
        read = logs()

        def build_log(build: str) -> str:
            """Read a log, which takes its time."""
            now[0] += 150.0 if build == "2" else 1.0
            return read(build)

        def slowly(call: int, usage: Usage) -> Usage:
            now[0] += answer if call == 3 else 1.0
            return usage

        made = cascade(lookup(), system="Be careful. " * 600, auto_context={})
        ran = await runs(slowly, made=made, name="anthropic/claude-sonnet-5-5", tool=build_log)
        kept = [bool(call.details.as_json()["marks"]["long"]) for call in ran.calls()]
        assert kept == [False] * 3 + [long] * (len(kept) - 3)

    @pytest.mark.parametrize(
        "pauses",
        [{}, {2: 200.0}, {2: 4_000.0}],
        ids=["none", "short", "longer than an hour"],
    )
    async def test_without_such_pauses_it_is_kept_for_minutes(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch, pauses: Mapping[int, float]
    ) -> None:
        ran = await self.run(runs, monkeypatch, pauses)
        assert all(call.details.as_json()["marks"]["long"] == () for call in ran.calls())
        assert all(call.details.as_json()["marks"]["places"] for call in ran.calls())

    async def test_a_provider_without_a_longer_time_has_none(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran = await self.run(runs, monkeypatch, {2: 900.0}, name="openai/gpt-5.6")
        assert all(not call.details.as_json().get("marks", {}).get("long") for call in ran.calls())


def ended(*nets: float | None) -> list[Outcome | None]:
    """Outcomes of sessions whose windows netted so much, newest first; None: had none."""
    details: list[OutcomeDetails] = [
        OutcomeDetails(None if net is None else WindowSavings(net=net)) for net in nets
    ]
    return [Outcome("completed", 0.0, details=one) for one in details]


class TestBreaker:
    @pytest.mark.parametrize(
        ("endings", "back_after"),
        [
            (ended(), None),
            (ended(-1.0, -1.0), None),  # too few to tell
            (ended(-1.0, -1.0, 2.0), None),
            (ended(-1.0, -1.0, -1.0), 1),
            (ended(None, -1.0, None, 0.5, 0.25), 1),
            (ended(-3.0, 1.0, 1.0, 1.5, -1.0), 1),
            (ended(0.5, 0.5, 0.5, 0.5, -9.0), 1),
            ([None, *ended(-1.0, 0.1, 0.1, 0.1)], 2),
        ],
    )
    def test_trips_on_a_loss_and_says_for_how_long(
        self, endings: list[Outcome | None], back_after: int | None
    ) -> None:
        found = check_losses(endings, len(endings))
        assert (found and found.back_after) == back_after
        if found is not None:
            assert f"after {back_after} sessions" in breaker_text(found)
            assert "WINDLASS_BREAKER_SESSIONS=0" in breaker_text(found)
            later = [*ended(None), *endings]
            for _ in range(found.back_after - 1):
                assert check_losses(later, len(endings)) is not None
                later = [*ended(None), *later]
            assert check_losses(later, len(endings)) is None

    async def test_a_session_leaves_what_its_windows_saved(self, runs: Runs) -> None:
        ran = await runs(name="openai/gpt-5")
        (outcome,) = [one for one in ran.store.outcomes(ran.session) if one.phase is None]
        assert outcome.details.windows is not None
        told = asdict(outcome.details.windows)
        assert told["net"] == told["saved"] - told["spent"]
        assert told["spent"] == 0
        assert told["calls"] == len(BUILDS) + 1
        costs = session_cost(ran.store, ran.session, "anthropic/claude-sonnet-4-5")
        assert costs.windows == told
        billed, snowball = costs.total.dollars, costs.total.snowball_dollars
        assert billed is not None
        assert snowball is not None
        assert told["saved"] == pytest.approx(snowball - billed, rel=0.03)  # steps of the cache
        assert told["needed"] is False
        without = await runs(made=cascade(lookup()))
        (outcome,) = [one for one in without.store.outcomes(without.session) if one.phase is None]
        assert outcome.details.windows is None

    @staticmethod
    def lose(house: House, count: int, net: float = -0.01) -> None:
        """Put sessions into the store whose windows lost money."""
        store = house.open_store()
        for number in range(count):
            name = f"lost_{number}_{len(house.opened)}"
            store.append(Batch(name, start=SessionStart("test", "m", {}, {}, 1.0)))
            (outcome,) = ended(net)
            assert outcome is not None
            store.append(Batch(name, outcomes=[outcome]))

    async def test_windows_that_lost_money_are_not_made(self, runs: Runs) -> None:
        await runs()
        self.lose(runs.house, 4, -9.0)
        ran = await runs()
        assert [len(set(map(len, shown(ran, call)))) for call in range(2, 9)] == [1] * 7
        (told,) = ran.decisions("breaker")
        assert told["lost"] == pytest.approx(36, rel=0.01)
        # 15 fill the 20 up, one pushes out the first, two leave too few to tell.
        assert told["back_after"] == 18
        says = [event for event in ran.events if isinstance(event, SessionStarted | Noted)]
        assert says[1] == Noted("", told["text"])  # the first line after the session's name
        (off,) = ran.decisions("switched_off")
        assert "because the breaker (breaker_sessions) switches it off" in off["text"]
        notes_of_call = explain_call(ran.store, ran.session, 3).notes
        assert told["text"] in notes_of_call
        (outcome,) = [one for one in ran.store.outcomes(ran.session) if one.phase is None]
        assert outcome.details.windows is None
        assert ran.has_no_damage()

    async def test_they_come_back_after_so_many_sessions(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await runs()
        self.lose(runs.house, 4, -9.0)
        monkeypatch.setenv("WINDLASS_BREAKER_SESSIONS", "6")
        off = 0
        while (ran := await runs()).decisions("breaker"):
            (told,) = ran.decisions("breaker")
            assert told["back_after"] == 4 - off
            off += 1
        assert off == 4
        assert len(shown(ran, 8)[0]) < len(shown(ran, 8)[-1]) / 3

    async def test_a_run_that_asks_for_no_windows_is_told_nothing(self, runs: Runs) -> None:
        await runs()
        self.lose(runs.house, 4, -9.0)
        ran = await runs(made=cascade(lookup()))
        assert ran.decisions("breaker") == []
        assert not [note for note in notes(ran) if "windows" in note]

    async def test_zero_switches_the_breaker_off(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await runs()
        self.lose(runs.house, 4, -9.0)
        monkeypatch.setenv("WINDLASS_BREAKER_SESSIONS", "0")
        assert (await runs()).decisions("breaker") == []

    async def test_bound_asks_no_store(self, runs: Runs) -> None:
        await runs()
        self.lose(runs.house, 4, -9.0)
        said = [to_openai(message) for message in (await runs()).model.requests[-1].messages]
        assert windlass.bound(said, recall=True).saved_tokens > 0

    async def test_what_texts_for_windows_cost_is_spent(self, runs: Runs) -> None:
        options = {"decay": {"full": 1, "fold": 1}, "see_results": None, "commit": "at_once"}
        replies = {**reading(*BUILDS), "-": ["What was said."]}
        made = cascade(lookup(intra_context=options))
        ran = await runs(made=made, replies=replies)
        texts = [one.row for one in ran.rows(NodeType.DECISION)]
        texts = [row for row in texts if json_of(row).get("kind") == "summary"]
        assert texts
        (outcome,) = [one for one in ran.store.outcomes(ran.session) if one.phase is None]
        spent = sum(row.cost or 0.0 for row in texts)
        assert outcome.details.windows is not None
        assert outcome.details.windows.spent == pytest.approx(spent)
        assert spent > 0
