"""Cascades within cascades: what goes in and comes out, whose it is, and how it ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

import windlass
from tests.engine.harness import House, Ran, asked_by, call, calls, phase
from tests.history.builders import png
from tests.support.engine_cache import Reporting, honest
from tests.support.engine_resume import Gone, Model, resumed
from tests.support.engine_sub_cascades import write
from windlass.cli.app import app
from windlass.engine.events import CallEnded, SessionStarted, SubCascadeEnded
from windlass.errors import CascadeError, PhaseFailed
from windlass.history.base import NodeType, SessionFilter, SessionInfo
from windlass.report.call_views import view_session
from windlass.text.pictures import picture
from windlass.tools.base import ToolOutput
from windlass.tools.registry import tool
from windlass.wire.base import Request


def children(ran: Ran, of: str | None = None) -> list[SessionInfo]:
    """The sessions under one, the oldest first."""
    return list(reversed(ran.store.sessions(SessionFilter(under=(of or ran.session,)))))


def asks(name: str, template: str, **keys: Any) -> dict[str, Any]:
    """A phase that asks something that the script can tell, and a template."""
    return {"name": name, "instructions": f"Do {name}. {template}", **keys}


class TestRunning:
    @pytest.mark.req("CI-50")
    async def test_a_child_runs_before_the_phase_in_a_session_of_its_own(
        self, house: House
    ) -> None:
        write(house, "logs.json", phase("read"), phase("find"))
        made = write(
            house,
            "top.json",
            phase("triage"),
            asks("bug", "{{ outputs.logs }}", sub_cascades=[{"ref": "logs.json"}]),
        )
        ran = await house.run(made, {"find": ["a leak"]})
        assert ran.result.status == "completed"
        assert ran.seen("bug")[-1] == ("user", "Do bug. a leak")
        (child,) = children(ran)
        assert (child.cascade_id, child.parent_id, child.parent_phase, child.status) == (
            "logs", ran.session, "bug", "completed",
        )  # fmt: skip
        assert child.calls == 2
        assert {row.row.phase for row in ran.rows(NodeType.AGENT)} == {"triage", "bug"}
        assert ran.has_no_damage()

    @pytest.mark.req("CI-50")
    async def test_state_and_input_go_in_and_the_state_comes_out(self, house: House) -> None:
        put = calls(call("set_state", '{"key": "kept", "value": [1]}'))
        over = calls(call("set_state", '{"key": "known", "value": "new"}'))
        write(
            house,
            "child.json",
            asks("in", "{{ state.known }}, {{ input.a }}, {{ input.b }}", tackle=["set_state"]),
        )
        sub = {"ref": "child.json", "input_map": {"b": "known", "c": "literal"}}
        made = write(
            house,
            "top.json",
            phase("before", tackle=["set_state"]),
            asks("after", "{{ state.kept[0] }} {{ state.known }}", sub_cascades=[sub]),
        )
        first = calls(call("set_state", '{"key": "known", "value": "old"}'))
        script = {"before": [first, "done"], "in": [put, over, "done"]}
        ran = await house.run(made, script, {"a": "A"})
        assert ran.seen("in")[0] == ("user", "Do in. old, A, old")
        assert ran.seen("after")[-1] == ("user", "Do after. 1 new")
        assert ran.result.state == {"known": "new", "kept": [1]}
        kept = {change.key: change.value for change in ran.store.state(ran.session)}
        assert kept == ran.result.state
        (child,) = children(ran)
        assert ran.store.start(child.session_id).input == {
            "known": "old", "a": "A", "b": "old", "c": "literal",
        }  # fmt: skip
        (told,) = ran.decisions("input_map")
        assert told["text"] == (
            "input_map of 'child.json': 'literal' is no key of the state or of the input, so the"
            " input 'c' is that word"
        )

    async def test_the_state_is_part_of_a_childs_input(self, house: House) -> None:
        """What the state has, over it the input, over both what is mapped."""
        words = "{{ input.colour }} {{ input.a }} {{ input.b }}"
        write(house, "child.json", asks("in", words))
        sub = {"ref": "child.json", "input_map": {"b": "colour"}}
        made = write(
            house, "top.json", phase("note", tackle=["set_state"]), phase("p", sub_cascades=[sub])
        )

        def script(request: Request) -> Any:
            name = asked_by(request)
            if name != "note":
                return f"ok {name}"
            put = [("colour", "green"), ("a", "of the state"), ("b", "hidden")]
            done = sum(message.role == "tool" for message in request.messages)
            if done == len(put):
                return "ok note"
            key, value = put[done]
            return calls(
                call("set_state", json.dumps({"key": key, "value": value}), id_=f"c{done}")
            )

        whole = await house.run(made, script, {"a": "A"})
        assert whole.seen("in")[0] == ("user", "Do in. green A green")
        with pytest.raises(Gone):
            await house.run(made, Model(6, script), {"a": "A"}, session_id="s")
        result, sent = await resumed(house, script, ())
        assert [asked_by(request) for request in sent] == ["p"]
        assert result.outputs == whole.result.outputs
        assert result.usage.tokens_in == whole.result.usage.tokens_in

    async def test_what_the_state_may_give_is_no_need_of_the_input(self, house: House) -> None:
        write(house, "child.json", asks("in", "{{ input.colour }}"))
        sub = {"ref": "child.json"}
        extraction = {"pattern": "(.*)", "store_as": "colour"}
        for first in (phase("a", tackle=["set_state"]), phase("a", output_extraction=extraction)):
            made = write(house, "top.json", first, phase("p", sub_cascades=[sub]))
            told = CliRunner().invoke(app, ["check", str(made), "--json"])
            checked = json.loads(told.stdout)
            assert "needs" not in checked
            (warning,) = checked["warnings"]
            assert "needs the input 'colour'" in warning["message"]
            assert "may not be set" in warning["message"]
        ran = await house.run(made, {"a": ["green"]})
        assert ran.seen("in")[0] == ("user", "Do in. green")
        for first in (phase("a"), phase("a", tackle=["read_file"])):
            made = write(house, "top.json", first, phase("p", sub_cascades=[sub]))
            with pytest.raises(CascadeError, match="needs the input 'colour', which is not given"):
                await house.run(made)

    @pytest.mark.req("CI-50")
    async def test_nothing_goes_in_and_out_where_both_are_off(self, house: House) -> None:
        put = calls(call("set_state", '{"key": "kept", "value": 1}'))
        write(house, "child.json", asks("in", "{{ input.b }} {{ input }}", tackle=["set_state"]))
        sub = {
            "ref": "child.json",
            "input_map": {"b": "a"},
            "context_in": False,
            "context_out": False,
        }
        made = write(house, "top.json", phase("p", sub_cascades=[sub]))
        ran = await house.run(made, {"in": [put, "done"]}, {"a": "A", "secret": "S"})
        assert ran.seen("in")[0] == ("user", 'Do in. A {"b": "A"}')
        assert ran.result.state == {}
        assert list(ran.result.outputs) == ["p"]

    async def test_a_state_that_a_child_calls_input_stays_with_it(self, house: House) -> None:
        put = calls(call("set_state", '{"key": "input", "value": 1}'))
        write(house, "child.json", phase("in", tackle=["set_state"]))
        made = write(house, "top.json", phase("p", sub_cascades=[{"ref": "child.json"}]))
        ran = await house.run(made, {"in": [put, "done"]}, {"a": "A"})
        assert ran.result.state == {}

    async def test_what_a_child_does_to_a_list_is_its_own_until_it_comes_out(
        self, house: House
    ) -> None:
        def add(state: dict[str, Any]) -> str:
            """Add to the list.

            Args:
                state: The state.
            """
            return str(state)

        write(house, "child.json", asks("in", "{% set _ = state.l.append(2) %}{{ state.l }}"))
        sub = {"ref": "child.json", "context_out": False}
        made = write(
            house, "top.json", phase("a", tackle=["set_state"]), phase("p", sub_cascades=[sub])
        )
        put = calls(call("set_state", '{"key": "l", "value": [1]}'))
        ran = await house.run(made, {"a": [put, "done"]}, tools=[add])
        assert ran.result.state == {"l": [1]}

    async def test_children_run_in_order_and_see_those_before(self, house: House) -> None:
        put = calls(call("set_state", '{"key": "x", "value": "one"}'))
        write(house, "one.json", phase("a1", tackle=["set_state"]))
        write(house, "two.yaml.json", asks("a2", "{{ state.x }}"))
        subs = [{"ref": "one.json"}, {"ref": "two.yaml.json"}]
        ran = await house.run(
            write(house, "top.json", phase("p", sub_cascades=subs)), {"a1": [put, "done"]}
        )
        assert ran.seen("a2")[0] == ("user", "Do a2. one")
        assert [info.cascade_id for info in children(ran)] == ["one", "two.yaml"]

    async def test_each_phase_of_a_child_has_two_names_for_its_output(self, house: House) -> None:
        write(house, "one.json", phase("look"))
        write(house, "two.json", phase("look"))
        template = (
            "{{ outputs.one_look }} {{ outputs.two_look }} {{ outputs.look }} {{ outputs.two }}"
        )
        subs = [{"ref": "one.json"}, {"ref": "two.json"}]
        made = write(house, "top.json", asks("p", template, sub_cascades=subs))
        ran = await house.run(made, {"look": ["1", "2"]})
        assert ran.seen("p")[-1] == ("user", "Do p. 1 2 2 2")

    async def test_cascades_nest_five_deep(self, house: House) -> None:
        write(house, "c5.json", phase("p5"))
        for depth in (4, 3, 2, 1):
            below = [{"ref": f"c{depth + 1}.json"}]
            write(house, f"c{depth}.json", phase(f"p{depth}", sub_cascades=below))
        made = write(house, "top.json", phase("p0", sub_cascades=[{"ref": "c1.json"}]))
        ran = await house.run(made)
        session, names = ran.session, list[str]()
        while found := children(ran, session):
            session = found[0].session_id
            names.append(found[0].cascade_id)
        assert names == ["c1", "c2", "c3", "c4", "c5"]
        assert [ran.model.requests.index(ran.request(f"p{n}")) for n in (5, 4, 0)] == [0, 1, 5]


class TestTotals:
    @pytest.mark.req("CI-50")
    async def test_tokens_and_calls_of_a_child_count_in_the_parents(self, house: House) -> None:
        write(house, "child.json", phase("in"))
        made = write(house, "top.json", phase("p", sub_cascades=[{"ref": "child.json"}]))
        ran = await house.run(made)
        ended = [event for event in ran.events if isinstance(event, CallEnded)]
        assert len(ended) == 2
        assert ran.result.usage.tokens_in == sum(event.tokens_in for event in ended)
        assert ran.result.usage.tokens_out == sum(event.tokens_out for event in ended)
        alone = ran.store.sessions()
        assert ran.result.usage.tokens_in == sum(info.tokens_in for info in alone)

    async def test_events_tell_whose_they_are(self, house: House) -> None:
        write(house, "child.json", phase("in"))
        made = write(house, "top.json", phase("p", sub_cascades=[{"ref": "child.json"}]))
        ran = await house.run(made)
        top, child = (event for event in ran.events if isinstance(event, SessionStarted))
        assert (top.parent_id, child.parent_id) == (None, ran.session)
        (ended,) = (event for event in ran.events if isinstance(event, SubCascadeEnded))
        assert (ended.phase, ended.cascade_id, ended.session_id, ended.status) == (
            "p", "child", child.session_id, "completed",
        )  # fmt: skip


class TestCaches:
    @pytest.mark.req("CI-50")
    async def test_a_child_that_goes_on_from_the_same_prefix_reads_it(self, house: House) -> None:
        long = " ".join(f"Rule {number}: be brief." for number in range(600))
        write(house, "child.json", phase("in"), system=long)
        made = write(
            house,
            "top.json",
            phase("a"),
            phase("p", sub_cascades=[{"ref": "child.json"}]),
            system=long,
        )
        ran = await house.run(made)
        (call_in,) = view_session(ran.store, children(ran)[0].session_id).calls
        _, call_p = view_session(ran.store, ran.session).calls
        for view in (call_in, call_p):
            assert view.tokens_cached > 3_000
            expected = view.details.as_json()["prefix"]["shared_tokens"]
            assert expected > 3_000, "what the run knows of the cache is that of the run above"

    @pytest.mark.req("CI-50")
    async def test_the_last_call_of_a_child_is_not_that_of_the_run(self, house: House) -> None:
        long = " ".join(f"Rule {number}: be brief." for number in range(600))
        write(house, "child.json", phase("in"), system=long)
        sub = [{"ref": "child.json"}]
        made = write(house, "top.json", phase("p", sub_cascades=sub), system=long)
        model = Reporting({}, honest, "anthropic/claude-sonnet-4-5")
        await windlass.run(
            made, model="anthropic/x", store=house.store, providers={"anthropic": model}
        )
        below, above = model.requests
        assert below.breakpoints == ((0, 0), (1, 0)), "the parent may go on from it"
        assert above.breakpoints == ((0, 0),), "nobody goes on from the last one"


class TestEndings:
    @pytest.mark.req("CI-50")
    async def test_a_failure_is_the_phases(self, house: House) -> None:
        write(house, "child.json", phase("in", rules={"loop_until": "never", "max_attempts": 1}))

        def never(output: str) -> dict[str, Any]:
            """Refuse.

            Args:
                output: What was said.
            """
            return {"valid": False, "reason": f"no {output}"}

        made = write(
            house, "top.json", phase("a"), phase("p", sub_cascades=[{"ref": "child.json"}])
        )
        ran = await house.run(made, tools=[never])
        assert ran.result.status == "failed"
        assert isinstance(ran.result.error, PhaseFailed)
        (child,) = children(ran)
        assert str(ran.result.error).startswith(
            f"phase 'p': its sub-cascade 'child' (session {child.session_id}) failed: phase 'in'"
        )
        outcomes = [(each.phase, each.status) for each in ran.store.outcomes(ran.session)]
        assert outcomes == [("a", "completed"), ("p", "failed"), (None, "failed")]
        assert child.status == "failed"
        assert ran.requests("p") == []
        assert ran.result.usage.tokens_in == sum(i.tokens_in for i in ran.store.sessions())

    @pytest.mark.req("CI-50")
    async def test_what_is_incomplete_makes_the_phase_so_which_goes_on(self, house: House) -> None:
        write(house, "child.json", phase("in", tackle=["set_state"], rules={"max_turns": 2}))
        made = write(
            house,
            "top.json",
            asks("p", "{{ outputs.child }}", sub_cascades=[{"ref": "child.json"}]),
        )
        put = calls(call("set_state", '{"key": "x", "value": 1}'))
        ran = await house.run(made, {"in": [put, put, "half"]})
        assert ran.seen("p")[-1] == ("user", "Do p. half")
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
        assert children(ran)[0].status == "incomplete"
        (told,) = ran.decisions("sub_cascade")
        assert "ended incomplete (turns)" in told["text"]

    async def test_an_interrupted_run_ends_its_child_as_interrupted(self, house: House) -> None:
        write(house, "child.json", phase("in"))
        made = write(house, "top.json", phase("p", sub_cascades=[{"ref": "child.json"}]))

        def stop() -> None:
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await house.run(made, before={"in": stop})
        store = house.open_store()
        assert [info.status for info in store.sessions()] == ["interrupted", "interrupted"]


class TestParentsPhases:
    """`context.from: ["parent.PHASE"]`: the options of any source."""

    async def seen(
        self, house: House, source: Any, *, given: Any = None, key: str = "context", **script: Any
    ) -> list[tuple[str, str]]:
        """What the child sees of a parent's phase that called a tool."""
        keys: dict[str, Any] = (
            {"context": {"from": [source], "include_input": False}}
            if key == "context"
            else {"inject_from": [source]}
        )
        write(house, "child.json", phase("in", **keys))
        made = write(
            house,
            "top.json",
            phase("facts", tackle=["set_state"]),
            phase("p", sub_cascades=[{"ref": "child.json"}]),
        )
        put = calls(call("set_state", '{"key": "x", "value": 1}', id_="call_1"), text="Setting.")
        ran = await house.run(made, {"facts": [put, "The facts."], **script}, given)
        assert ran.result.status == "completed", ran.result.error
        assert ran.has_no_damage()
        child = view_session(ran.store, children(ran)[0].session_id)
        sent = ran.request("in").messages
        assert [seen.message for seen in child.calls[0].seen] == list(sent), "as it was recorded"
        self.ran = ran
        return [(message.role, message.text) for message in sent]

    @pytest.mark.req("CI-51")
    async def test_a_name_takes_the_output(self, house: House) -> None:
        head, (role, asked) = await self.seen(house, "parent.facts")
        assert head[0] == "user"
        assert "parent.facts" in head[1]
        assert head[1].endswith("The facts.")
        assert (role, asked) == ("user", "Do in.")

    @pytest.mark.req("CI-51")
    async def test_messages_come_with_their_tool_calls(self, house: House) -> None:
        seen = await self.seen(house, {"phase": "parent.facts", "include": ["messages"]})
        assert [role for role, _ in seen] == [
            "user", "user", "assistant", "tool", "assistant", "user",
        ]  # fmt: skip
        _, _, asked, result, _, _ = self.ran.request("in").messages
        assert asked.tool_calls[0].id == result.tool_call_id
        assert "set_state" in {tool.name for tool in self.ran.request("in").tools}

    @pytest.mark.req("CI-51")
    @pytest.mark.parametrize(
        ("which", "roles"),
        [
            ("assistant_only", ["user", "assistant", "assistant", "user"]),
            ("last_turn", ["user", "assistant", "tool", "assistant", "user"]),
        ],
    )
    async def test_filters_of_messages(self, house: House, which: str, roles: list[str]) -> None:
        source = {"phase": "parent.facts", "include": ["messages"], "filter": which}
        assert [role for role, _ in await self.seen(house, source)] == roles

    @pytest.mark.req("CI-51")
    async def test_state_and_role(self, house: House) -> None:
        source = {"phase": "parent.facts", "include": ["state"], "as_role": "system"}
        (role, text), _ = await self.seen(house, source)
        assert role == "system"
        assert '"x": 1' in text

    @pytest.mark.req("CI-51")
    @pytest.mark.parametrize(("day", "count"), [("monday", 2), ("sunday", 1)])
    async def test_a_condition(self, house: House, day: str, count: int) -> None:
        source = {"phase": "parent.facts", "if": "{{ input.day == 'monday' }}"}
        assert len(await self.seen(house, source, given={"day": day})) == count

    @pytest.mark.req("CI-51")
    async def test_beside_a_snowball(self, house: House) -> None:
        seen = await self.seen(house, "parent.facts", key="inject_from")
        assert [text.endswith("The facts.") for _, text in seen] == [True, False]

    @pytest.mark.req("CI-51")
    async def test_pictures_and_how_many(self, house: House) -> None:
        shade = iter(range(9))

        @tool
        def draw() -> ToolOutput:
            """Draw."""
            return ToolOutput("drawn", pictures=(picture(png(next(shade))),))

        for count, filtered in ((3, {}), (2, {"images_filter": "last_n", "images_count": 2})):
            source = {"phase": "parent.facts", "include": ["images"], **filtered}
            write(house, "child.json", phase("in", context={"from": [source]}))
            made = write(
                house,
                "top.json",
                phase("facts", tackle=["draw"]),
                phase("p", sub_cascades=[{"ref": "child.json"}]),
            )
            drawing = [calls(call("draw")) for _ in range(3)]
            ran = await house.run(made, {"facts": [*drawing, "Three."]}, tools=[draw])
            assert sum(len(each.pictures) for each in ran.request("in").messages) == count
            assert ran.has_no_damage()

    @pytest.mark.req("CI-51")
    async def test_choosing_has_it_as_an_anchor(self, house: House) -> None:
        choosing = {"mode": "auto", "from": ["parent.facts"]}
        write(house, "child.json", phase("a"), phase("in", context=choosing))
        made = write(
            house, "top.json", phase("facts"), phase("p", sub_cascades=[{"ref": "child.json"}])
        )
        ran = await house.run(made, {"facts": ["The facts."]})
        assert ran.result.status == "completed"
        assert any(text.endswith("The facts.") for _, text in ran.seen("in"))
