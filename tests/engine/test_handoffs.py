"""Cascades as graphs: where phases go on, who chose it, and phases that run again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_resume import Gone, Model, resumed
from tests.support.engine_soundings import PICK, judges
from tests.support.engine_sub_cascades import write
from windlass.engine.events import LimitHit, Noted, PhaseStarted
from windlass.history.base import NodeType, SessionFilter
from windlass.history.row_details import json_of
from windlass.messages import Message
from windlass.report.call_views import view_session
from windlass.report.explanation import explain_call
from windlass.wire.base import Request

BRANCH = (
    phase(
        "triage",
        handoffs=[
            {"target": "bug", "description": "something broke"},
            {"target": "wish", "description": "something new"},
        ],
    ),
    phase("bug", handoffs=["end"]),
    phase("wish"),
)


def load() -> dict[str, list[int]]:
    """Load."""
    return {"rows": [6, 7]}


def to(target: str, text: str = "") -> Message:
    """A reply that says what comes next."""
    return calls(call("route_to", json.dumps({"target": target})), text=text)


def order(ran: Ran) -> list[str]:
    return [event.phase for event in ran.events if isinstance(event, PhaseStarted)]


def routes(ran: Ran) -> list[tuple[str, str]]:
    return [(route["target"], route["by"]) for route in ran.decisions("route")]


class TestWaysOn:
    async def test_a_chain_runs_in_its_own_order_and_ends_without_a_way_on(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(phase("a", handoffs=["c"]), phase("b"), phase("c", handoffs=["b"]))
        )
        assert order(ran) == ["a", "c", "b"]
        assert ran.result.status == "completed"
        assert (ran.result.output, list(ran.result.outputs)) == ("ok b", ["a", "c", "b"])
        assert routes(ran) == [("c", "only"), ("b", "only")]
        assert [event.index for event in ran.events if isinstance(event, PhaseStarted)] == [1, 2, 3]
        assert ran.has_no_damage()

    async def test_without_ways_on_phases_run_in_the_order_of_the_file(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b", handoffs=[])))
        assert order(ran) == ["a", "b"]
        assert ran.decisions("route") == []
        (first, _) = (event for event in ran.events if isinstance(event, PhaseStarted))
        assert (first.index, first.total) == (1, 2)

    async def test_a_model_chooses_and_its_text_stays_the_output(self, house: House) -> None:
        ran = await house.run(cascade(*BRANCH), {"triage": [to("wish", "A new thing."), "late"]})
        assert order(ran) == ["triage", "wish"]
        assert len(ran.requests("triage")) == 1, "the reply that calls it ends the phase"
        assert ran.result.outputs == {"triage": "A new thing.", "wish": "ok wish"}
        (tool,) = ran.request("triage").tools
        assert tool.name == "route_to"
        assert tool.parameters["properties"]["target"]["enum"] == ["bug", "wish"]
        assert ran.seen("triage")[-1][1] == (
            "Do triage.\nWhen you are done, call route_to with what comes next:\n"
            "- bug: something broke\n- wish: something new"
        )
        (decided,) = ran.decisions("route")
        assert decided["text"] == "phase 'triage' goes on with 'wish': its model chose it"
        assert decided["ways"] == ["bug", "wish"]
        assert decided["text"] in [e.text for e in ran.events if isinstance(e, Noted)]
        assert ran.seen("wish")[-3:] == [
            ("assistant", "A new thing."),
            ("tool", "wish comes next"),
            ("user", "Do wish."),
        ]

    async def test_the_last_of_several_calls_counts(self, house: House) -> None:
        both = calls(*(call("route_to", json.dumps({"target": t})) for t in ("bug", "wish")))
        ran = await house.run(cascade(*BRANCH), {"triage": [both]})
        assert order(ran) == ["triage", "wish"]
        assert ran.result.status == "completed", "a choice without a word is an answer"

    async def test_a_target_that_is_not_listed_is_told_to_the_model(self, house: House) -> None:
        ran = await house.run(cascade(*BRANCH), {"triage": [to("triage"), to("wish")]})
        assert order(ran) == ["triage", "wish"]
        (role, text) = ran.seen("triage", 2)[-1]
        assert role == "tool"
        assert "bug" in text
        assert "wish" in text

    async def test_nothing_chosen_is_the_first(self, house: House) -> None:
        ran = await house.run(cascade(*BRANCH), {"triage": ["I cannot say."]})
        assert order(ran) == ["triage", "bug"]
        assert routes(ran) == [("bug", "first"), ("end", "only")]
        told = ran.decisions("route")[1]["text"]
        assert told == "phase 'bug' ends the run: it is the only way on"

    async def test_an_output_that_is_a_target_routes(self, house: House) -> None:
        ran = await house.run(cascade(*BRANCH), {"triage": ["wish\n"]})
        assert order(ran) == ["triage", "wish"]
        assert routes(ran) == [("wish", "output")]

    async def test_end_ends_the_run(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", handoffs=["b", "end"]), phase("b")), {"a": [to("end", "Enough.")]}
        )
        assert order(ran) == ["a"]
        assert (ran.result.status, ran.result.output) == ("completed", "Enough.")

    async def test_one_plain_handoff_has_the_tool_where_the_tackle_lists_it(
        self, house: House
    ) -> None:
        made = cascade(
            phase("a", handoffs=["b"], tackle=["route_to"], rules={"max_turns": 1}),
            phase("b", handoffs=["end"]),
        )
        ran = await house.run(made, {"a": [to("b", "Done.")]})
        assert [tool.name for tool in ran.request("a").tools] == ["route_to"]
        assert ran.seen("a")[-1][1] == "Do a.", "there is nothing to choose"
        assert (ran.result.status, ran.result.outputs["a"]) == ("completed", "Done.")
        assert [tool.name for tool in ran.request("b").tools] == ["route_to"], "it was called"
        assert ran.request("b").tool_choice == "none"

    async def test_a_refused_attempt_chooses_nothing(self, house: House) -> None:
        schema = {"type": "object", "required": ["x"]}
        made = cascade(
            phase("a", handoffs=["b", "c"], output_schema=schema), phase("b"), phase("c")
        )
        ran = await house.run(made, {"a": [to("c", "no JSON"), '{"x": 1}']})
        assert order(ran) == ["a", "c"]
        retried = cascade(
            phase(
                "a",
                handoffs=["b", "c"],
                rules={"loop_until": "tests.support.engine_flow:is_good", "max_attempts": 2},
            ),
            phase("b"),
            phase("c"),
        )
        ran = await house.run(retried, {"a": [to("c", "bad"), "good"]})
        assert order(ran) == ["a", "b"]

    async def test_a_chat_goes_on_after_a_graph(self, house: House) -> None:
        made = cascade(phase("a", handoffs=["b"], tackle=["route_to"]), phase("b"))
        ran = await house.run(made)
        session = windlass.Engine(
            model="scripted/x",
            store=house.store,
            root=house.folder,
            providers={"scripted": ran.model},
        ).session(resume=ran.session)
        answer = await session.send("And now?")
        assert answer.status == "completed"


class TestVisits:
    async def test_a_phase_runs_again_as_a_fresh_one(self, house: House) -> None:
        made = cascade(
            phase("write", handoffs=["judge"]),
            phase("judge", handoffs=["write", "end"], context={"from": ["write"]}),
        )
        ran = await house.run(
            made, {"write": ["one", "two"], "judge": [to("write", "More."), to("end", "Good.")]}
        )
        assert order(ran) == ["write", "judge", "write", "judge"]
        assert ran.result.outputs == {"write": "two", "judge": "Good."}
        assert ran.seen("judge", 2)[0] == ("user", "[Output from write]:\ntwo")
        # All that was said stays in a snowball, in the order in which it was said.
        said = [text for role, text in ran.seen("write", 2) if role == "assistant"]
        assert said == ["one", "More."]
        visits = ran.decisions("visit")
        assert [(visit["visit"], visit["after_turn"]) for visit in visits] == [(2, 1), (2, 1)]
        turns = [(s.row.phase, s.row.turn) for s in ran.rows(NodeType.AGENT)]
        assert turns == [("write", 1), ("judge", 1), ("write", 2), ("judge", 2)]
        assert ran.has_no_damage()

    async def test_the_bound_ends_the_run_as_incomplete(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", handoffs=["a"])))
        assert len(ran.requests("a")) == 25
        assert (ran.result.status, ran.result.reason) == ("incomplete", "turns")
        assert ran.result.output == "ok a"
        (limit,) = ran.decisions("visits")
        assert limit["max_visits"] == 25
        assert limit["text"] == "phase 'a' was to run again, and has run 25 times; the run ends"
        (hit,) = (event for event in ran.events if isinstance(event, LimitHit))
        assert (hit.reason, hit.limit, hit.phase) == ("turns", 25, "a")

    async def test_a_self_loop_sees_what_it_said_before(self, house: House) -> None:
        made = cascade(
            {
                "name": "a",
                "instructions": "Do a. {{ outputs.a | default('nothing') }}/{{ state.output_a }}",
                "handoffs": ["a", "end"],
                "context": {"from": ["previous"], "include_input": False},
            }
        )
        ran = await house.run(made, {"a": ["one", "two", "end"]})
        menu = "\nWhen you are done, call route_to with what comes next:\n- a\n- end"
        assert [ran.seen("a", number) for number in (1, 2, 3)] == [
            [("user", f"Do a. nothing/{menu}")],
            [("user", "[Output from a]:\none"), ("user", f"Do a. one/one{menu}")],
            [("user", "[Output from a]:\ntwo"), ("user", f"Do a. two/two{menu}")],
        ]

    async def test_what_a_phase_hides_is_hidden_visit_by_visit(self, house: House) -> None:
        made = cascade(phase("a", handoffs=["a", "b"], context_retention="output_only"), phase("b"))
        ran = await house.run(made, {"a": [to("a", "one"), to("b", "two")]})
        assert ran.seen("b")[:-1] == [("assistant", "one"), ("assistant", "two")]

    async def test_sub_cascades_run_again_in_sessions_of_their_own(self, house: House) -> None:
        write(house, "look.json", phase("look"))
        made = write(
            house,
            "top.json",
            {
                "name": "a",
                "instructions": "Do a. {{ outputs.look }}",
                "sub_cascades": [{"ref": "look.json"}],
                "handoffs": ["a", "end"],
            },
        )
        ran = await house.run(made, {"look": ["one", "two"], "a": ["a", "end"]}, session_id="s")
        assert [ran.seen("a", n)[-1][1].splitlines()[0] for n in (1, 2)] == [
            "Do a. one",
            "Do a. two",
        ]
        below = {each.session_id for each in ran.store.sessions(SessionFilter(under=("s",)))}
        assert below == {"s.1.1", "s.1.1.visit_2"}

    async def test_all_first_and_previous_go_by_what_ran(self, house: House) -> None:
        names = ["first", "previous", "all"]
        made = cascade(
            phase("a", handoffs=["c"]),
            phase("b", handoffs=["d"]),
            phase("c", handoffs=["b"]),
            phase("d", context={"from": names, "exclude": ["b"], "include_input": False}),
        )
        ran = await house.run(made)
        assert [text for _, text in ran.seen("d")] == [
            "[Output from a]:\nok a",
            "[Output from c]:\nok c",
            "[Output from a]:\nok a",
            "[Output from c]:\nok c",
            "Do d.",
        ]

    async def test_choosing_by_what_ran(self, house: House) -> None:
        auto = {"mode": "auto", "anchors": {"from_phases": ["previous"], "include": ["output"]}}
        made = cascade(
            phase("a", handoffs=["c"]),
            phase("b"),
            phase("c", handoffs=["b"]),
            auto_context={"commit": "at_once"},
        )
        made["phases"][1]["context"] = auto
        ran = await house.run(made, {"c": ["the figures"]})
        assert any("the figures" in text for _, text in ran.seen("b"))


class TestMayHaveRun:
    def merging(self, template: str, **keys: Any) -> dict[str, Any]:
        return cascade(
            phase("pick", handoffs=["bug", "wish"]),
            phase("bug", handoffs=["merge"]),
            phase("wish", handoffs=["merge"]),
            {"name": "merge", "instructions": f"Do merge. {template}", **keys},
        )

    async def test_an_output_that_is_not_there_prints_nothing_and_is_told(
        self, house: House
    ) -> None:
        template = (
            "{{ outputs.bug }}|{{ outputs.wish }}|{{ outputs.bug | default('none') }}"
            "|{% if outputs.bug %}yes{% endif %}|{{ outputs.bug | tojson }}"
        )
        ran = await house.run(self.merging(template), {"pick": ["wish"]})
        assert ran.seen("merge")[-1][1] == "Do merge. |ok wish|none||null"
        (told,) = ran.decisions("outputs")
        assert told["text"] == "phase 'merge': outputs.bug prints nothing, as 'bug' has not run"

    async def test_a_condition_and_a_default_tell_nothing(self, house: House) -> None:
        template = "{{ outputs.bug | default('none') }}{% if outputs.bug %}yes{% endif %}"
        ran = await house.run(self.merging(template), {"pick": ["wish"]})
        assert ran.seen("merge")[-1][1] == "Do merge. none"
        assert ran.decisions("outputs") == []

    async def test_every_output_is_in_the_state_of_templates_and_nowhere_else(
        self, house: House
    ) -> None:
        made = self.merging(
            "{{ state.output_wish }}|{{ state.output_bug | default('none') }}|{{ state | tojson }}",
            context={"from": [{"phase": "wish", "include": ["state"]}], "include_input": False},
        )
        ran = await house.run(made, {"pick": ["wish"]})
        assert [text for _, text in ran.seen("merge")] == ["Do merge. ok wish|none|{}"]
        assert ran.result.state == {}
        assert list(ran.store.state(ran.session)) == []

    async def test_a_result_of_a_tool_is_a_value_there(self, house: House) -> None:
        template = "{{ state.output_load.rows[1] }}|{{ state.output_say }}"
        made = cascade(
            {"name": "load", "tool": "load"},
            phase("say"),
            {"name": "b", "instructions": f"Do b. {template}"},
        )
        ran = await house.run(made, {"say": ['{"rows": [1]}']}, tools=[load])
        assert ran.seen("b")[-1][1] == 'Do b. 7|{"rows": [1]}'

    async def test_a_key_of_the_state_goes_before(self, house: House) -> None:
        put = calls(call("set_state", '{"key": "output_a", "value": "mine"}'))
        made = cascade(
            phase("a", tackle=["set_state"]),
            {"name": "b", "instructions": "Do b. {{ state.output_a }}"},
        )
        ran = await house.run(made, {"a": [put, "theirs"]})
        assert ran.seen("b")[-1][1] == "Do b. mine"

    async def test_only_what_certainly_runs_needs_its_input(self, house: House) -> None:
        made = self.merging("x")
        made["phases"][1]["instructions"] = "Do bug. {{ input.ticket }}"
        ran = await house.run(made, {"pick": ["wish"]})
        assert ran.result.status == "completed"
        made["phases"][3]["instructions"] = "Do merge. {{ input.name }}"
        with pytest.raises(windlass.WindlassError, match="needs the input 'name'"):
            await house.run(made, {"pick": ["wish"]})


class TestSounded:
    async def test_the_choice_of_the_winner_holds(self, house: House) -> None:
        made = cascade(
            phase("a", handoffs=["b", "c"], soundings={"factor": 2, **PICK}), phase("b"), phase("c")
        )
        given = iter([to("b", "one"), to("c", "two")])

        def script(request: Request) -> Any:
            if judges(request):
                return '{"winner": 1}'
            last = request.messages[-1].text
            return next(given) if last.startswith("Do a.") else "ok"

        ran = await house.run(made, script)
        assert order(ran) == ["a", "c"]
        assert routes(ran) == [("c", "model")]
        assert ran.result.outputs["a"] == "two"

    async def test_each_visit_has_its_own_winner(self, house: House) -> None:
        made = cascade(
            phase("a", handoffs=["a", "b"], soundings={"factor": 2, **PICK}),
            {
                "name": "b",
                "instructions": "Do b. {{ outputs.a }}{{ outputs.a.soundings | tojson }}",
            },
        )
        given = iter(["v1s0", to("a", "v1s1"), to("b", "v2s0"), "v2s1"])
        picked = iter([1, 0])

        def script(request: Request) -> Any:
            if judges(request):
                return json.dumps({"winner": next(picked)})
            last = request.messages[-1].text
            return next(given) if last.startswith("Do a.") else "ok"

        ran = await house.run(made, script)
        assert order(ran) == ["a", "a", "b"]
        sent = ran.model.requests[-1].messages
        assert sent[-1].text == 'Do b. v2s0["v2s0", "v2s1"]'
        assert [m.text for m in sent if m.role == "assistant"] == ["v1s1", "v2s0"]
        views = view_session(ran.store, ran.session).calls
        (lost,) = (at for at, view in enumerate(views, start=1) if view.reply.text == "v2s1")
        before = explain_call(ran.store, ran.session, lost).decisions
        said = [each.chars_after for each in before if each.role == "assistant"]
        assert said == [len("v1s1") + len('{"target": "a"}')], "the winner of the visit before"
        fates = [
            note for note in explain_call(ran.store, ran.session, lost).notes if "taken" in note
        ]
        assert fates == ["sounding 0 of 2 is taken"], "that of this visit alone"


class TestGoingOn:
    LOOP = cascade(
        phase("write", handoffs=["judge"]),
        phase("judge", handoffs=["write", "end"]),
    )

    @staticmethod
    def script() -> Any:
        given = {"write": iter(["one", "two", "three"]), "judge": iter(["write", "write", "end"])}

        def reply(request: Request) -> Any:
            text = request.messages[-1].text
            said = next(given["write" if text.startswith("Do write") else "judge"])
            return to(said, f"Then {said}.") if said in ("write", "end") else said

        return reply

    @pytest.mark.parametrize("at", range(1, 7))
    async def test_a_resumed_run_comes_to_the_same_visit(self, house: House, at: int) -> None:
        script = self.script()
        with pytest.raises(Gone):
            await house.run(self.LOOP, Model(at, script), session_id="s")
        result, asked = await resumed(house, script, tools=())
        assert len(asked) == 7 - at, "nothing that was answered is asked again"
        assert result.status == "completed"
        assert result.outputs == {"write": "three", "judge": "Then end."}
        store = house.open_store()
        kinds = [json_of(s.row).get("kind") for s in store.rows("s")]
        assert (kinds.count("route"), kinds.count("visit")) == (6, 4), "each is recorded once"
        assert not [found for found in store.verify() if found.severity == "damage"]

    async def test_a_person_is_asked_in_each_visit_and_once(self, house: House) -> None:
        made = cascade(phase("a", handoffs=["a", "end"], tackle=["ask_human"]))
        ask = calls(call("ask_human", '{"question": "Once more?"}'))

        def script(request: Request) -> Any:
            last = request.messages[-1]
            if last.role != "tool":
                return ask
            return to("a" if last.text == "yes" else "end", f"You say {last.text}.")

        ran = await house.run(made, script, answers=["yes"], session_id="s")
        assert ran.result.status == "waiting", "the second visit asks anew"
        result, asked = await resumed(house, script, tools=(), answers=["yes", "no"])
        assert len(asked) == 1, "only the call that reads the second answer"
        assert (result.status, result.output) == ("completed", "You say no.")

    async def test_a_fork_comes_to_the_same_visit(self, house: House) -> None:
        script = self.script()
        ran = await house.run(self.LOOP, script, session_id="s")
        again = iter(["other"])

        def other(request: Request) -> Any:
            text = request.messages[-1].text
            return next(again) if text.startswith("Do write") else to("end", "Enough.")

        result = await windlass.fork(
            "s",
            3,
            model="scripted/x",
            store=house.store,
            root=house.folder,
            providers={"scripted": type(ran.model)(other)},
        )
        assert result.outputs == {"write": "other", "judge": "Enough."}
        visits = [
            json_of(s.row)["visit"]
            for s in ran.store.rows(result.session_id)
            if json_of(s.row).get("kind") == "visit"
        ]
        assert visits == [2, 2]

    async def test_explain_says_how_a_phase_came_to_run(self, house: House) -> None:
        ran = await house.run(self.LOOP, self.script())
        notes = explain_call(ran.store, ran.session, 3).notes
        assert "phase 'judge' goes on with 'write': its model chose it" in notes
        assert "phase 'write' runs again: visit 2" in notes
        assert "phase 'write' goes on with 'judge': it is the only way on" in notes
