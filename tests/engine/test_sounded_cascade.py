"""Soundings of a whole cascade: several runs of it side by side, of which the best is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cascade.making import Toolbox
from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.cascade_check import mistakes
from tests.support.engine_forecast import forecast
from tests.support.engine_soundings import PICK, index_of, judges, picking
from tests.support.engine_sub_cascades import write
from windlass.errors import PhaseFailed, ProviderError
from windlass.history.base import SessionFilter, SessionInfo
from windlass.memory.banks import Banks
from windlass.providers.scripted import Scripted
from windlass.report.call_views import view_session
from windlass.report.costs import session_cost
from windlass.wire.base import Request

EXTRACTS = {"output_extraction": {"pattern": "(.+)", "store_as": "found"}}


def sounded(*phases: dict[str, Any], factor: int = 3, **keys: Any) -> dict[str, Any]:
    """A cascade of so many soundings."""
    mutate = [f"variation {number}" for number in range(1, factor)]
    soundings = {"factor": factor, "mutate": mutate, **PICK, **keys}
    return cascade(*(phases or (phase("a"), phase("b", **EXTRACTS))), soundings=soundings)


def below(ran: Ran) -> list[SessionInfo]:
    """The sessions of the soundings, in their order."""
    found = ran.store.sessions(SessionFilter(under=(ran.session,)))
    return sorted(found, key=lambda info: info.sounding_index or 0)


class TestTheWinner:
    async def test_gives_the_run_its_outputs_and_state(self, house: House) -> None:
        ran = await house.run(sounded(), picking(1))
        assert ran.result.outputs == {"a": "answer 1", "b": "answer 1"}
        assert ran.result.output == "answer 1"
        assert ran.result.state["found"] == "answer 1"
        assert ran.result.status == "completed"
        assert ran.has_no_damage()

    async def test_is_one_of_sessions_that_stand_under_the_run(self, house: House) -> None:
        ran = await house.run(sounded(), picking(2))
        sessions = below(ran)
        assert [info.sounding_index for info in sessions] == [0, 1, 2]
        assert [info.calls for info in sessions] == [2, 2, 2]
        assert {info.parent_phase for info in sessions} == {None}
        view = view_session(ran.store, ran.session)
        assert [info.sounding_index for info in view.children] == [0, 1, 2]
        assert "sounding 2 of 3 is taken" in [note.text for note in view.notes]
        taken = view_session(ran.store, sessions[2].session_id)
        assert (taken.parent_id, taken.sounding_index) == (ran.session, 2)

    async def test_alone_remembers(self, house: House) -> None:
        def script(request: Request) -> Any:
            if judges(request):
                return '{"winner": 1}'
            if request.messages[-1].role == "tool":
                return "done"
            kept = {"text": f"text {index_of(request)}", "bank": "notes", "key": "k"}
            return calls(call("remember", json.dumps(kept)))

        a = phase("a", tackle=["remember"], memory={"write": ["notes"]})
        ran = await house.run(sounded(a), script)
        memories = Banks(ran.store, lambda: 2e9, lambda: "t").memories("notes")
        assert [memory.text for memory in memories] == ["text 1"]

    async def test_variations_stand_in_the_first_phase(self, house: House) -> None:
        asks = "Do a, {{ sounding_index }} of {{ sounding_factor }}."
        ran = await house.run(sounded(phase("a", instructions=asks), phase("b")), picking(0))
        asked = {request.messages[0].text for request in ran.model.requests if not judges(request)}
        assert asked == {
            "Do a, 0 of 3.",
            "Do a, 1 of 3.\nvariation 1",
            "Do a, 2 of 3.\nvariation 2",
        }

    async def test_the_best_so_far_is_refined(self, house: House) -> None:
        reforge = {"honing_prompt": "Cut a third.", "steps": 1, "factor_per_step": 2}
        rounds = iter(("1", "4"))

        def script(request: Request) -> str:
            if judges(request):
                return f'{{"winner": {next(rounds)}}}'
            text = request.messages[0].text
            return "shorter" if "Cut a third." in text else f"answer {index_of(request)}"

        ran = await house.run(sounded(reforge=reforge), script)
        assert ran.result.output == "shorter"
        assert [info.sounding_index for info in below(ran)] == [0, 1, 2, 3, 4]
        refined = [r.messages[0].text for r in ran.model.requests if not judges(r)][-2]
        assert "answer 1" in refined

    async def test_all_are_joined(self, house: House) -> None:
        whole = cascade(phase("a"), phase("b"), soundings={"factor": 2, "aggregate": True})
        ran = await house.run(whole, lambda request: f"{len(request.messages)} seen")
        assert ran.result.output == "## Attempt 0\n\n3 seen\n\n## Attempt 1\n\n3 seen"
        assert ran.result.outputs["a"] == "1 seen"

    async def test_of_a_sub_cascade(self, house: House) -> None:
        child = sounded()
        write(house, "child.json", *child.pop("phases"), **child)
        a = phase("top", instructions="See {{ outputs.b }}.", sub_cascades=[{"ref": "child.json"}])
        ran = await house.run(write(house, "top.json", a), picking(2))
        assert ran.model.requests[-1].messages[-1].text == "See answer 2."
        assert ran.result.state["found"] == "answer 2"


class TestTheBill:
    async def test_counts_all_in_lines_of_their_own(self, house: House) -> None:
        ran = await house.run(sounded(), picking(1))
        costs = session_cost(ran.store, ran.session, "openai/gpt-4o")
        lines = {line.phase: line.calls for line in costs.phases}
        assert lines == {
            "b, evaluator": 0,
            **{f"sounding {number} > {name}": 1 for number in range(3) for name in "ab"},
        }
        assert costs.total.calls == 6
        assert costs.total.tokens_in == ran.result.usage.tokens_in

    async def test_is_bounded_by_a_dry_run(self, house: House) -> None:
        reforge = {"honing_prompt": "x", "factor_per_step": 2}
        model = Scripted(lambda _: "", window=10_000)
        one = await forecast(house.folder, cascade(phase("a"), phase("b")), a=model)
        three = await forecast(house.folder, sounded(reforge=reforge), a=model)
        assert three.most_calls == 5 * one.most_calls + 2 * 2


class TestFailure:
    async def test_of_one_does_not_end_the_others(self, house: House) -> None:
        ran = await house.run(sounded(), picking(2, {1: ProviderError("no")}))
        assert ran.result.output == "answer 2"
        assert [info.status for info in below(ran)] == ["completed", "failed", "completed"]

    async def test_of_all_is_the_runs(self, house: House) -> None:
        failing = dict.fromkeys(range(3), ProviderError("no"))
        ran = await house.run(sounded(), picking(0, failing))
        assert ran.result.status == "failed"
        assert isinstance(ran.result.error, PhaseFailed)
        assert "all 3 soundings failed" in str(ran.result.error)

    @pytest.mark.parametrize(
        ("keys", "told"),
        [
            ({"factor": 0}, "soundings.factor"),
            ({"factor": 1_000}, "soundings.factor"),
            ({"validator": "no_such"}, "soundings.validator: "),
            ({"evaluator_instructions": "{{ outputs.a }}"}, "soundings.evaluator_instructions: "),
        ],
    )
    def test_a_mistake_is_told_with_its_place(self, keys: dict[str, Any], told: str) -> None:
        whole = sounded(**keys)
        (mistake,) = mistakes(*whole.pop("phases"), tools=Toolbox(), **whole)
        assert told in mistake


async def test_the_output_of_a_graph_is_that_of_the_phase_that_ran_last(house: House) -> None:
    made = cascade(
        phase("a", handoffs=["b", "end"]),
        phase("b"),
        soundings={"factor": 2, "evaluator_instructions": "The best."},
    )

    def script(request: Request) -> str:
        if "You judge" in request.messages[0].text:
            assert "end" in request.messages[-1].text
            return '{"winner": 0}'
        return "end"

    ran = await house.run(made, script)
    assert ran.result.outputs == {"a": "end"}
    assert ran.result.output == "end"
