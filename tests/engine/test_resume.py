"""Going on with a session that was broken off: nothing answered is sent again."""

from __future__ import annotations

import asyncio
import fcntl
import json
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_resume import Gone, Model, look, note, noted, resumed, script
from tests.support.engine_soundings import PICK, judges
from tests.support.engine_sub_cascades import write
from windlass.api.engine import Engine
from windlass.errors import ProviderError, StepDiffers, UsageError
from windlass.history.base import NodeType, SessionFilter, SessionInfo
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.providers.scripted import Scripted
from windlass.report.account import AccountTree
from windlass.report.call_views import view_session
from windlass.report.diff import compare_sessions
from windlass.report.session_costs import unbilled
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    noted.clear()


WHOLE = cascade(
    phase("a", tackle=["look", "note"], output_extraction={"pattern": "(done)", "store_as": "x"}),
    phase("b", tackle=["look", "note"], instructions="Do b of {{ state.x }}."),
)


async def broken_off(house: House, at: int, whole: dict[str, Any] = WHOLE) -> tuple[str, Model]:
    """A session whose call with this number never came back."""
    model = Model(at, script)
    with pytest.raises(Gone):
        await house.run(whole, model, tools=[look, note], session_id="s")
    return "s", model


async def go_on(house: House, session: str, **options: Any) -> tuple[Any, list[Request]]:
    model = Model(-1, script)
    result = await windlass.resume(
        session,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[look, note],
        providers={"scripted": Scripted(model)},
        **options,
    )
    return result, model.asked


def said(ran: Ran) -> list[tuple[str, str, str]]:
    rows = ran.rows(NodeType.USER, NodeType.AGENT, NodeType.FOLLOW_UP, NodeType.TOOL_RESULT)
    return [
        (one.row.node_type, one.row.phase or "", one.row.message.text if one.row.message else "")
        for one in rows
    ]


class TestResume:
    @pytest.mark.parametrize("at", range(1, 7))
    async def test_comes_to_the_same_end_and_sends_nothing_twice(
        self, house: House, at: int
    ) -> None:
        session, model = await broken_off(house, at)
        result, asked = await go_on(house, session)
        assert len(model.asked) - 1 + len(asked) == 6
        assert asked[0].messages == model.asked[-1].messages
        whole = House(house.folder / "whole")
        ran = await whole.run(WHOLE, Model(-1, script), tools=[look, note])
        assert result.outputs == ran.result.outputs
        assert result.state == ran.result.state
        assert result.status == "completed"
        assert result.usage.tokens_in == ran.result.usage.tokens_in
        assert result.usage.tokens_out == ran.result.usage.tokens_out
        resumed = Ran(result, Scripted(script), house.open_store(), [])
        assert said(resumed) == said(ran)
        assert resumed.has_no_damage()
        assert sorted(noted) == sorted([*result.state["notes"]] * 2)
        whole.close()

    async def test_what_was_sent_and_never_answered_stands_in_the_record(
        self, house: House
    ) -> None:
        session, _ = await broken_off(house, 3)
        result, _ = await go_on(house, session)
        ran = Ran(result, Scripted(script), house.open_store(), [])
        steps = [each["step"] for each in ran.decisions("sent")]
        assert len(steps) == 7
        assert steps.count({"phase": "a", "attempt": 1, "turn": 3}) == 2
        assert unbilled(AccountTree.read(ran.store, "s", "openai/gpt-4o")).unanswered == 1

    async def test_a_failure_is_gone_on_from(self, house: House) -> None:
        def failing(request: Request) -> Any:
            if len(request.messages) > 8:
                raise ProviderError("no more")
            return script(request)

        ran = await house.run(WHOLE, failing, tools=[look, note], session_id="s")
        assert ran.result.status == "failed"
        result, asked = await go_on(house, "s")
        assert result.status == "completed"
        assert len(asked) + len(ran.model.requests) == 6 + 1

    async def test_a_completed_session_has_nothing_to_resume(self, house: House) -> None:
        await house.run(WHOLE, script, tools=[look, note], session_id="s")
        with pytest.raises(UsageError, match="completed; there is nothing to resume"):
            await go_on(house, "s")

    async def test_a_change_before_the_break_is_named(self, house: House) -> None:
        session, _ = await broken_off(house, 5)
        changed = json.loads(json.dumps(WHOLE))
        changed["phases"][0]["instructions"] = "Do something else."
        with pytest.raises(StepDiffers, match=r"phase a, attempt 1, turn 1.*the cascade changed"):
            await go_on(house, session, cascade=changed)

    async def test_a_change_behind_the_break_is_no_matter(self, house: House) -> None:
        session, _ = await broken_off(house, 3)
        changed = json.loads(json.dumps(WHOLE))
        changed["phases"][1]["instructions"] = "Do b in another way."
        result, asked = await go_on(house, session, cascade=changed)
        assert result.status == "completed"
        assert "Do b in another way." in [message.text for message in asked[-1].messages]

    async def test_a_tool_that_may_have_run_is_not_run_again_unasked(self, house: House) -> None:
        async def stops(text: str) -> str:
            """Note.

            Args:
                text: What.
            """
            noted.append(text)
            raise asyncio.CancelledError

        one = cascade(phase("a", tackle=["look", "note"]))
        stops.__name__ = "note"
        with pytest.raises(asyncio.CancelledError):
            await house.run(one, script, tools=[look, stops], session_id="s")
        result, asked = await go_on(house, "s")
        assert (result.status, asked, len(noted)) == ("waiting", [], 1)
        told = "note may have run when the session was broken off"
        ran = Ran(result, Scripted(script), house.open_store(), [])
        assert told in ran.decisions("waiting")[0]["text"]
        result, asked = await go_on(house, "s", again=["note"])
        assert (result.status, len(asked), len(noted)) == ("completed", 1, 2)

    async def test_soundings_and_sub_cascades_are_gone_on_with(self, house: House) -> None:
        write(house, "child.json", phase("c", tackle=["look"]))
        tried = {"factor": 3, "mutate": ["way 1", "way 2"], **PICK, "max_parallel": 2}
        whole = write(
            house,
            "top.json",
            phase("a", soundings=tried, tackle=["look"]),
            phase("b", sub_cascades=[{"ref": "child.json"}]),
        )

        def answers(request: Request) -> Any:
            if judges(request):
                return '{"winner": 2}'
            if request.tools and request.messages[-1].role != "tool":
                return calls(call("look", '{"name": "it"}'))
            return f"said {request.messages[0].text}"

        untouched = House(house.folder / "whole")
        ran = await untouched.run(whole, answers, tools=[look])
        for at in range(1, len(ran.model.requests) + 1):
            first, then = Model(at, answers), Model(-1, answers)
            name = f"s{at}"
            with pytest.raises(Gone):
                await house.run(whole, first, tools=[look], session_id=name)
            result = await windlass.resume(
                name,
                store=house.store,
                root=house.folder,
                tools=[look],
                providers={"scripted": Scripted(then)},
            )
            assert (result.outputs, result.status) == (ran.result.outputs, "completed")
            assert len(first.asked) + len(then.asked) <= len(ran.model.requests) + 2
            assert {info.parent_id for info in below(house, name)} == {name}
        untouched.close()

    async def test_two_at_once_are_one(self, house: House) -> None:
        await broken_off(house, 2)
        both = (go_on(house, "s"), go_on(house, "s"))
        ended = await asyncio.gather(*both, return_exceptions=True)
        failed = [each for each in ended if isinstance(each, BaseException)]
        assert len(failed) == 1
        assert isinstance(failed[0], UsageError)
        assert "is running in process" in str(failed[0])


class TestFork:
    async def test_inherits_what_came_before_the_call(self, house: House) -> None:
        ran = await house.run(WHOLE, script, tools=[look, note], session_id="s")
        result, asked = await forked(house, "s", 4, session_id="t")
        assert (result.status, len(asked)) == ("completed", 3)
        assert result.outputs == ran.result.outputs
        assert result.usage.tokens_in < ran.result.usage.tokens_in
        rows = Ran(result, Scripted(script), house.open_store(), []).rows(
            NodeType.AGENT, NodeType.FOLLOW_UP
        )
        inherited = [json_of(row.row).get("inherited") for row in rows]
        assert [bool(each) for each in inherited] == [True] * 3 + [False] * 3
        beside = unbilled(AccountTree.read(house.open_store(), "t", "openai/gpt-4o"))
        assert (beside.unanswered, beside.inherited, beside.origin) == (0, 3, "s")
        assert beside.inherited_tokens + result.usage.tokens_in == ran.result.usage.tokens_in
        assert view_session(house.open_store(), "t").forked_from == "s"
        assert all((row.row.duration_ms or 0) >= 0 for row in rows)
        account = AccountTree.read(house.open_store(), "t", "openai/gpt-4o").account
        assert [bool(cost.snowball_dollars) for cost in account.costs] == [False] * 3 + [True] * 3
        view = view_session(house.open_store(), "s")
        assert "forked at call 4 as session t" in [each.text for each in view.notes]
        assert noted.count("seen 3") == 1, "tools before the call are not run again"

    async def test_may_change_a_phase_and_the_profile_and_add_a_message(self, house: House) -> None:
        await house.run(WHOLE, script, tools=[look, note], session_id="s")
        changes = {"b.instructions": "Do b better.", "profile": "lean"}
        result, asked = await forked(house, "s", 5, changes=changes, message="Mind the rest.")
        texts = [message.text for message in asked[0].messages]
        assert texts[-1] == "Mind the rest."
        assert "Do b better." in texts
        definition = house.open_store().start(result.session_id).cascade
        assert definition["auto_context"] == {"profile": "lean"}

    @pytest.mark.parametrize(
        ("at", "changes", "told"),
        [
            (7, {}, "has no call 7; its calls are 1 to 6"),
            (0, {}, "has no call 0"),
            (2, {"c.model": "x/y"}, "there is no phase 'c'"),
        ],
    )
    async def test_what_is_not_there_is_told(
        self, house: House, at: int, changes: dict[str, Any], told: str
    ) -> None:
        await house.run(WHOLE, script, tools=[look, note], session_id="s")
        with pytest.raises(UsageError, match=told):
            await forked(house, "s", at, changes=changes)

    async def test_a_change_that_is_accepted_is_gone_on_with_in_a_session_of_its_own(
        self, house: House
    ) -> None:
        session, _ = await broken_off(house, 6)
        changed = json.loads(json.dumps(WHOLE))
        changed["phases"][1]["instructions"] = "Do b in another way."
        result, asked = await go_on(house, session, cascade=changed, accept=True)
        assert (result.status, len(asked)) == ("completed", 3)
        assert result.session_id != session
        assert "Do b in another way." in [message.text for message in asked[0].messages]

    async def test_a_diff_shows_where_two_part(self, house: House) -> None:
        await house.run(WHOLE, script, tools=[look, note], session_id="s")
        await forked(house, "s", 4, changes={"b.instructions": "Do b better."}, session_id="t")
        found = compare_sessions(house.open_store(), "s", "t")
        assert (found.call, found.what) == (4, "message 7 (user) differs")
        assert found.texts == ("Do b of done.", "Do b better.")
        same = compare_sessions(house.open_store(), "s", "s")
        assert (same.call, same.what) == (None, "no call differs")


async def forked(house: House, session: str, at: int, **options: Any) -> tuple[Any, list[Request]]:
    model = Model(-1, script)
    result = await windlass.fork(
        session,
        at,
        store=house.store,
        root=house.folder,
        tools=[look, note],
        providers={"scripted": Scripted(model)},
        **options,
    )
    return result, model.asked


def below(house: House, session: str) -> list[SessionInfo]:
    return list(house.open_store().sessions(SessionFilter(under=(session,))))


ASKED = {"question": "Which city?"}
ASKS = cascade(phase("a", tackle=["look", "ask_human"]), phase("b"))
APPROVES = cascade(
    phase("a", tackle=["look", "note"], rules={"approve": ["look", "note"]}), phase("b")
)


def asks(request: Request) -> Any:
    """Phase a looks, asks which city, and answers by what it was told."""
    last = request.messages[-1]
    if last.role == "tool" and last.name == "ask_human":
        return f"It is {last.text}."
    if last.role == "tool":
        return calls(call("ask_human", json.dumps(ASKED)))
    return calls(call("look", '{"name": "it"}')) if last.text == "Do a." else "ok"


def notes_at_once(request: Request) -> Any:
    """Phase a looks and notes in one turn, and answers by what it was told."""
    last = request.messages[-1]
    if last.role == "tool":
        return f"It is {last.text}."
    both = [call("look", '{"name": "it"}'), call("note", '{"text": "x"}')]
    return calls(*both) if last.text == "Do a." else "ok"


class TestWaiting:
    @pytest.mark.parametrize("how", [{"answers": ["Bern"]}, {"on_question": lambda _: "Bern"}])
    async def test_a_question_is_asked_again_until_it_is_answered(
        self, house: House, how: dict[str, Any]
    ) -> None:
        model = Model(-1, asks)
        ran = await house.run(ASKS, model, tools=[look, note], session_id="s")
        assert (ran.result.status, len(model.asked)) == ("waiting", 2)
        result, asked = await resumed(house, asks)
        assert (result.status, result.notes, asked) == ("waiting", ran.result.notes, [])
        result, asked = await resumed(house, asks, **how)
        assert (result.status, len(asked)) == ("completed", 2)
        assert result.outputs == {"a": "It is Bern.", "b": "ok"}
        again = Ran(result, Scripted(asks), house.open_store(), [])
        assert again.has_no_damage()
        (kept,) = again.decisions("answer")
        assert kept["answer"] == "Bern"

    async def test_so_is_an_approval_and_what_was_approved_is_not_asked_again(
        self, house: House
    ) -> None:
        model = Model(-1, notes_at_once)
        ran = await house.run(APPROVES, model, tools=[look, note], approve=["look"], session_id="s")
        assert (ran.result.status, len(model.asked), noted) == ("waiting", 1, [])
        seen: list[Any] = []

        def says_yes(question: Any) -> str:
            seen.append(question.tool)
            return "yes"

        result, asked = await resumed(house, notes_at_once, on_question=says_yes)
        assert (result.status, len(asked), noted, seen) == ("completed", 2, ["x"], ["note"])
        assert result.outputs["a"] == "It is noted x."

    async def test_an_answer_outlives_what_breaks_off_behind_it(self, house: House) -> None:
        model = Model(3, asks)
        with pytest.raises(Gone):
            await house.run(ASKS, model, tools=[look, note], answers=["Bern"], session_id="s")
        result, asked = await resumed(house, asks)
        assert (result.status, len(asked)) == ("completed", 2)
        assert result.outputs["a"] == "It is Bern."

    async def test_soundings_and_sub_cascades_wait_and_go_on(self, house: House) -> None:
        write(house, "child.json", phase("a", tackle=["look", "ask_human"]))
        tried = {"factor": 2, **PICK}
        whole = write(
            house,
            "top.json",
            phase("x", sub_cascades=[{"ref": "child.json"}]),
            phase("a", soundings=tried, tackle=["look", "ask_human"]),
        )

        def script(request: Request) -> Any:
            return '{"winner": 0}' if judges(request) else asks(request)

        model = Model(-1, script)
        ran = await house.run(whole, model, tools=[look, note], session_id="s")
        assert ran.result.status == "waiting"
        sent = len(model.asked)
        result, asked = await resumed(house, script, answers=["Bern"])
        assert result.status == "waiting"
        sent += len(asked)
        result, asked = await resumed(house, script, on_question=lambda _: "Basel")
        assert (result.status, result.outputs["a"]) == ("completed", "It is Basel.")
        sent += len(asked)
        other = House(house.folder / "other")
        model = Model(-1, script)
        await other.run(whole, model, tools=[look, note], on_question=lambda _: "Basel")
        assert sent == len(model.asked)
        other.close()

    async def test_a_sounding_that_waits_lets_the_others_be_answered(self, house: House) -> None:
        tried = {"factor": 2, "mutate": ["Ask nobody."], **PICK}
        whole = cascade(phase("a", soundings=tried, tackle=["ask_human"]))
        asked = list[Request]()

        async def script(request: Request) -> Any:
            asked.append(request)
            if judges(request):
                return '{"winner": 1}'
            if "Ask nobody." in request.messages[0].text:
                await asyncio.sleep(0.1)
                return "Bern, I think."
            last = request.messages[-1]
            return last.text if last.role == "tool" else calls(call("ask_human", json.dumps(ASKED)))

        ran = await house.run(whole, script, session_id="s")
        assert (ran.result.status, len(asked)) == ("waiting", 2)
        result, _ = await resumed(house, script, answers=["Bern"])
        assert (result.status, result.output, len(asked)) == ("completed", "Bern, I think.", 4)

    async def test_limits_hold_for_what_is_sent_from_then_on(self, house: House) -> None:
        session, _ = await broken_off(house, 2)
        result, asked = await go_on(house, session, max_turns=2)
        assert (result.status, result.reason, len(asked)) == ("incomplete", "turns", 2)
        result, asked = await go_on(house, session)
        assert (result.status, len(asked)) == ("completed", 3)

    async def test_a_person_goes_on_with_a_resumed_session(self, house: House) -> None:
        await house.run(ASKS, Model(-1, asks), tools=[look, note], session_id="s")
        result, _ = await resumed(house, asks, answers=["Bern"])
        result = await result.session.send("Well?")
        assert (result.status, result.output) == ("completed", "ok")
        with pytest.raises(UsageError, match="completed; there is nothing to resume"):
            await resumed(house, asks)

    async def test_a_tool_that_ran_again_has_one_result_for_who_goes_on(self, house: House) -> None:
        async def stops(text: str) -> str:
            """Note.

            Args:
                text: What.
            """
            raise asyncio.CancelledError

        stops.__name__ = "note"
        one = cascade(phase("a", tackle=["look", "note"]))
        with pytest.raises(asyncio.CancelledError):
            await house.run(one, script, tools=[look, stops], session_id="s")
        await go_on(house, "s", again=["note"])
        model = Model(-1, lambda _: "hello")
        engine = Engine(
            model="scripted/x",
            store=house.store,
            root=house.folder,
            tools=[look, note],
            providers={"scripted": Scripted(model)},
        )
        session = engine.session(resume="s")
        assert (await session.send("Well?")).status == "completed"
        check_sequence(model.asked[0].messages)
        results = [each.text for each in model.asked[0].messages if each.role == "tool"]
        assert results == ["it is well", "noted seen 3"]


def test_the_file_of_a_session_that_just_ended_holds_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened before whoever held it took it away: another may have made a new one."""
    store = SqliteStore(house.store)
    house.opened.append(store)
    flock = fcntl.flock

    def taken_away(held: Any, how: int) -> None:
        flock(held, how)
        (store.folder / "running" / "s").unlink()

    monkeypatch.setattr(fcntl, "flock", taken_away)
    with pytest.raises(UsageError, match="is running"), store.hold("s"):
        pass
    monkeypatch.undo()
    with (
        store.hold("s"),
        pytest.raises(UsageError, match="is running"),
        store.hold("s"),
    ):
        pass
