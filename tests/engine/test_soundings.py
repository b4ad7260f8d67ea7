"""Soundings: several attempts at a phase side by side, of which the best is the phase's."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, asked_by, call, calls, cascade, phase
from tests.strategies import png
from tests.support.engine_soundings import PICK, index_of, judged, judges, picking, sounded
from tests.support.report_costs import Hosted
from tests.window.cache import Cache, Read
from windlass.engine.soundings.evaluating import read_winner
from windlass.errors import PhaseFailed, ProviderError
from windlass.history.base import NodeType
from windlass.history.lanes import standing
from windlass.history.marks import find_callouts
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks
from windlass.messages import Message, Text
from windlass.report.call_views import view_session
from windlass.report.calls import SessionRecord
from windlass.report.costs import session_cost
from windlass.report.explanation import explain_call
from windlass.report.prefix import with_before
from windlass.tools.base import ToolContext
from windlass.wire import anthropic
from windlass.wire.base import Request, Usage


def told(ran: Ran) -> str:
    """What the record says of evaluations."""
    return "\n".join(each["text"] for each in ran.decisions("evaluation"))


class TestTheWinner:
    @pytest.mark.req("CI-49")
    async def test_is_the_phase_and_the_others_are_in_no_later_window(self, house: House) -> None:
        later = phase("b", instructions="Do b with {{ outputs.a.soundings[2] }}.")
        ran = await house.run(cascade(sounded(), later), picking(1))
        assert ran.result.outputs["a"] == "answer 1"
        seen = [message.text for message in ran.model.requests[-1].messages]
        assert seen == ["Do a.\nvariation 1", "answer 1", "Do b with answer 2."]
        assert {r.row.sounding_index for r in ran.rows(NodeType.AGENT, phase="a")} == {0, 1, 2}
        assert {r.row.sounding_index for r in ran.rows(NodeType.AGENT, phase="b")} == {None}
        assert ran.has_no_damage()

    async def test_is_what_sources_take(self, house: House) -> None:
        source = {"phase": "a", "include": ["messages", "state"]}
        later = phase("b", context={"from": [source], "include_input": False})
        ran = await house.run(cascade(sounded(), later), picking(2))
        seen = str([message.text for message in ran.model.requests[-1].messages])
        assert "answer 2" in seen
        assert "answer 0" not in seen
        assert "answer 1" not in seen

    async def test_keeps_its_state_and_its_memory(self, house: House) -> None:
        def note(context: ToolContext, text: str) -> str:
            """Note."""
            context.state["notes"] = [*context.state.get("notes", []), text]
            return "noted"

        def reply(request: Request) -> Message | str:
            if request.messages[-1].role == "tool":
                return "done"
            at = index_of(request)
            kept = json.dumps({"text": f"text {at}", "bank": "notes", "key": "k"})
            return calls(call("note", json.dumps({"text": f"n{at}"})), call("remember", kept))

        a = sounded(tackle=["note", "remember"], memory={"write": ["notes"]})
        first = phase("one", output_extraction={"pattern": "(.+)", "store_as": "x"})
        script = picking(1, dict.fromkeys(range(3), reply))
        ran = await house.run(cascade(first, a), script, tools=[note])
        assert ran.result.state["notes"] == ["n1"]
        memories = Banks(ran.store, lambda: 2e9, lambda: "t").memories("notes")
        assert [memory.text for memory in memories] == ["text 1"]
        assert "to be remembered" in str(ran.rows(NodeType.TOOL_RESULT))

    @pytest.mark.req("AC-18")
    async def test_alone_has_callouts(self, house: House) -> None:
        replies = {at: f"DECISION {at}" for at in range(3)}
        a = sounded(callouts={"decision": "^DECISION"})
        ran = await house.run(cascade(a, phase("b"), auto_context=True), picking(1, replies))
        marks = ran.decisions("callout")
        assert len(marks) == 3
        (callout,) = find_callouts(standing(ran.store.rows(ran.session)))
        assert callout.stored.row.message is not None
        assert callout.stored.row.message.text == "DECISION 1"

    @pytest.mark.req("CI-37")
    async def test_pictures_carry_the_index(self, house: House) -> None:
        def draw(size: int) -> bytes:
            """Draw."""
            return png(size, size)

        def reply(request: Request) -> Message | str:
            if request.messages[-1].role == "tool":
                return "a picture"
            first = 10 * (index_of(request) + 1)
            return calls(*(call("draw", json.dumps({"size": first + n})) for n in range(2)))

        script = picking(2, dict.fromkeys(range(3), reply))
        ran = await house.run(cascade(sounded(tackle=["draw"])), script, tools=[draw])
        names = {path.name for path in (house.store / "images" / ran.session / "a").iterdir()}
        assert names == {f"sounding_{n}_image_{m}.png" for n in range(3) for m in range(2)}
        assert len(judged(ran)[0].messages[-1].pictures) == 6
        assert ran.has_no_damage()


class TestTheEvaluator:
    async def test_sees_all_in_an_order_of_a_recorded_seed(self, house: House) -> None:
        ran = await house.run(cascade(sounded(factor=5)), picking(3))
        (row,) = [each for each in ran.decisions("evaluation") if "seed" in each]
        order = list(range(5))
        random.Random(row["seed"]).shuffle(order)
        assert row["order"] == order
        text = judged(ran)[0].messages[-1].text
        (fence,) = set(re.findall(r"\[End (\w+)\]", text))
        places = [text.index(f"[Attempt {at} {fence}]\nanswer {at}\n[End") for at in order]
        assert places == sorted(places)
        assert "The best." in text
        schema = judged(ran)[0].output_schema
        assert schema is not None
        assert schema["properties"]["winner"]["enum"] == [0, 1, 2, 3, 4, None]

    async def test_may_mend_its_answer_once(self, house: House) -> None:
        answers = iter(["The third!", '{"winner": 2}'])

        def script(request: Request) -> str:
            return next(answers) if judges(request) else f"answer {index_of(request)}"

        ran = await house.run(cascade(sounded()), script)
        assert ran.result.output == "answer 2"
        assert len(judged(ran)) == 2
        assert "answered The third!, which is none of 0, 1, 2" in judged(ran)[1].messages[-1].text

    @pytest.mark.parametrize(
        ("answer", "asked", "why"),
        [
            (None, 1, "the evaluator picks none; sounding 0"),
            (7, 2, "the evaluator answered 7, which is none of 0, 1, 2; sounding 0"),
            ("no idea", 2, "the evaluator answered no idea"),
            ("", 1, "the evaluator picks none"),
        ],
    )
    async def test_that_picks_none_costs_nothing_that_was_paid(
        self, house: House, answer: Any, asked: int, why: str
    ) -> None:
        ran = await house.run(cascade(sounded()), picking(answer))
        assert (ran.result.status, ran.result.output) == ("completed", "answer 0")
        assert len(judged(ran)) == asked
        assert why in told(ran)

    async def test_that_fails_costs_nothing_either(self, house: House) -> None:
        def script(request: Request) -> str:
            if judges(request):
                raise ProviderError("out of order")
            return f"answer {index_of(request)}"

        ran = await house.run(cascade(sounded()), script)
        assert ran.result.output == "answer 0"
        assert "the evaluator failed: out of order; sounding 0" in told(ran)

    async def test_may_be_a_function(self, house: House) -> None:
        def longest(outputs: list[str]) -> int:
            """Pick."""
            return max(range(len(outputs)), key=lambda at: len(outputs[at]))

        replies = {0: ProviderError("no"), 1: "long", 2: "longer"}
        a = sounded(soundings={"evaluator": "longest"})
        ran = await house.run(cascade(a), picking(0, replies), tools=[longest])
        assert ran.result.output == "longer"
        assert not judged(ran)

    @pytest.mark.parametrize("answer", [None, 5, "x", {"winner": 9}])
    async def test_function_without_an_answer(self, house: House, answer: Any) -> None:
        def pick(outputs: list[str]) -> Any:
            """Pick."""
            return answer if outputs else None

        ran = await house.run(
            cascade(sounded(soundings={"evaluator": {"function": "pick"}})),
            picking(0),
            tools=[pick],
        )
        assert ran.result.output == "answer 0"
        assert "the first that stands, is taken" in told(ran)

    async def test_may_be_a_validator(self, house: House) -> None:
        def short(output: str) -> bool:
            """Check."""
            return len(output) < 5

        a = sounded(soundings={"evaluator": {"validator": "short"}})
        ran = await house.run(cascade(a), picking(0, {2: "tiny"}), tools=[short])
        assert ran.result.output == "tiny"
        none = await house.run(cascade(a), picking(0), tools=[short])
        assert none.result.output == "answer 0"
        assert "short accepts none" in told(none)

    async def test_does_not_see_what_a_validator_refused(self, house: House) -> None:
        def short(output: str) -> bool:
            """Check."""
            return len(output) < 5

        a = sounded(soundings={**PICK, "validator": "short"})
        ran = await house.run(cascade(a), picking(2, {0: "tiny", 2: "wee"}), tools=[short])
        assert ran.result.output == "wee"
        assert "answer 1" not in judged(ran)[0].messages[-1].text
        refused = await house.run(cascade(a), picking(1), tools=[short])
        assert refused.result.output == "answer 1"  # all were refused, so all compete


@pytest.mark.parametrize(
    ("answer", "winner"),
    [("1", 1), ('{"winner": 0}', 0), ('{"winner": null}', None), ("true", str), ("[1]", str)],
)
def test_answers(answer: str, winner: Any) -> None:
    found = read_winner(answer, [0, 1])
    assert isinstance(found, str) if winner is str else found == winner


class TestFailures:
    async def test_one_left_wins_unasked(self, house: House) -> None:
        replies = {0: ProviderError("no"), 1: ProviderError("no")}
        ran = await house.run(cascade(sounded(), phase("b")), picking(0, replies))
        assert ran.result.outputs["a"] == "answer 2"
        assert not judged(ran)
        assert "sounding 2 is the only one left" in told(ran)

    async def test_a_failed_one_never_wins(self, house: House) -> None:
        ran = await house.run(cascade(sounded()), picking(0, {0: ProviderError("no")}))
        assert ran.result.output == "answer 1"
        schema = judged(ran)[0].output_schema
        assert schema is not None
        assert schema["properties"]["winner"]["enum"] == [1, 2, None]
        errors = ran.rows(NodeType.ERROR)
        assert [stored.row.sounding_index for stored in errors] == [0]

    async def test_an_empty_one_does_not_compete(self, house: House) -> None:
        ran = await house.run(cascade(sounded()), picking(0, {0: "", 1: ""}))
        assert (ran.result.status, ran.result.output) == ("completed", "answer 2")

    async def test_all_failed_is_the_phases_failure(self, house: House) -> None:
        replies = {at: ProviderError(f"no {at}") for at in range(3)}
        ran = await house.run(cascade(sounded(), phase("b")), picking(0, replies))
        assert ran.result.status == "failed"
        assert isinstance(ran.result.error, PhaseFailed)
        assert str(ran.result.error) == "phase 'a': all 3 soundings failed; the first: no 0"
        assert ran.has_no_damage()

    async def test_attempts_are_each_soundings_own(self, house: House) -> None:
        def good(output: str) -> dict[str, Any]:
            """Check."""
            return {"valid": output.startswith("good"), "reason": "Not good."}

        def reply(request: Request) -> str:
            retried = "[Validation Failed]" in str(request.messages)
            return f"good {index_of(request)}" if retried else "bad"

        a = sounded(rules={"loop_until": "good"})
        script = picking(1, dict.fromkeys(range(3), reply))
        ran = await house.run(cascade(a), script, tools=[good])
        assert ran.result.output == "good 1"
        rows = ran.rows(NodeType.VALIDATION)
        assert sorted((r.row.sounding_index, r.row.attempt) for r in rows) == [
            (at, attempt) for at in range(3) for attempt in (1, 2)
        ]


class TestReforge:
    async def test_the_best_so_far_competes_in_each_round(self, house: House) -> None:
        def script(request: Request) -> str:
            text = str(request.messages[-1].text)
            if judges(request):
                return '{"winner": 1}' if "refined" not in text or "round 2" in text else "null"
            if "[Best Answer So Far " in text:
                assert "answer 1" in text
                assert "Cut {{ a third }} of it." not in text
                return f"refined {text.count('Cut')}"
            return f"answer {index_of(request)}"

        reforge = {"steps": 2, "factor_per_step": 2, "honing_prompt": "Cut {{ input.part }}."}
        a = sounded(soundings={**PICK, "reforge": reforge})
        ran = await house.run(cascade(a, phase("b")), script, {"part": "a third"})
        assert ran.result.outputs["a"] == "answer 1"  # a tie leaves the best so far
        rows = ran.rows(NodeType.AGENT, phase="a")
        assert sorted({r.row.sounding_index for r in rows if r.row.sounding_index}) == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]
        rounds = [each["round"] for each in ran.decisions("sounding")]
        assert rounds == [0, 0, 0, 1, 1, 2, 2]
        assert re.search(r"\[Attempt 1 \w+\]\nanswer 1\n", judged(ran)[-1].messages[-1].text)
        (summary,) = ran.decisions("soundings")
        assert (summary["winner"], summary["factor"], summary["refinements"]) == (1, 3, 4)

    async def test_a_refinement_that_wins_is_the_phase(self, house: House) -> None:
        def script(request: Request) -> str:
            if judges(request):
                return (
                    '{"winner": 4}' if "refined" in request.messages[-1].text else '{"winner": 0}'
                )
            refines = "[Best Answer So Far " in request.messages[-1].text
            return "refined {{ 1 }}" if refines else "plain {{ 7 * 7 }}"

        reforge = {"honing_prompt": "Better.", "factor_per_step": 3}
        ran = await house.run(cascade(sounded(soundings={**PICK, "reforge": reforge})), script)
        assert ran.result.output == "refined {{ 1 }}"
        assert "plain {{ 7 * 7 }}" in ran.model.requests[4].messages[-1].text

    async def test_a_threshold_ends_the_rounds(self, house: House) -> None:
        def good(output: str) -> bool:
            """Check."""
            return output == "answer 2"

        reforge = {"honing_prompt": "Better.", "steps": 3, "threshold": "good"}
        a = sounded(soundings={**PICK, "reforge": reforge})
        ran = await house.run(cascade(a), picking(2), tools=[good])
        assert ran.result.output == "answer 2"
        assert len(ran.model.requests) == 4

    async def test_a_round_that_fails_leaves_the_best(self, house: House) -> None:
        def script(request: Request) -> str:
            if judges(request):
                return '{"winner": 1}'
            if "[Best Answer So Far " in request.messages[-1].text:
                raise ProviderError("no")
            return f"answer {index_of(request)}"

        reforge = {"honing_prompt": "Better."}
        ran = await house.run(cascade(sounded(soundings={**PICK, "reforge": reforge})), script)
        assert (ran.result.status, ran.result.output) == ("completed", "answer 1")


class TestAggregate:
    async def test_joins_under_headings(self, house: House) -> None:
        later = phase("b")
        a = sounded(soundings={"aggregate": True})
        ran = await house.run(cascade(a, later), picking(0, {1: ProviderError("no")}))
        joined = "## Attempt 0\n\nanswer 0\n\n## Attempt 2\n\nanswer 2"
        assert ran.result.outputs["a"] == joined
        seen = [message.text for message in ran.model.requests[-1].messages]
        assert seen == ["Do a.", joined, "Do b."]

    async def test_of_nothing_but_empty_replies(self, house: House) -> None:
        a = sounded(soundings={"aggregate": True})
        ran = await house.run(cascade(a, phase("b")), picking(0, dict.fromkeys(range(3), "")))
        assert (ran.result.status, ran.result.reason) == ("incomplete", "empty")
        picked = await house.run(cascade(sounded()), picking(0, dict.fromkeys(range(3), "")))
        assert (picked.result.status, picked.result.reason) == ("incomplete", "empty")

    async def test_by_a_model(self, house: House) -> None:
        def script(request: Request) -> str:
            if "You are given several" in request.messages[0].text:
                assert "One text." in request.messages[1].text
                return "PARTS: all of them"
            return f"answer {index_of(request)}"

        extraction = {"pattern": "PARTS: (.*)", "store_as": "parts", "required": True}
        a = sounded(
            soundings={"aggregate": {"instructions": "One text."}}, output_extraction=extraction
        )
        ran = await house.run(cascade(a), script)
        assert ran.result.output == "PARTS: all of them"
        assert ran.result.state == {"parts": "all of them"}

    async def test_fans_out_over_the_state(self, house: House) -> None:
        first = phase(
            "one",
            output_extraction={
                "pattern": "(.*)",
                "store_as": "parts",
                "format": "json",
            },
        )
        text = "Do {{ state.parts[sounding_index] }} of {{ sounding_factor }}."
        fan = phase("fan", instructions=text, soundings={"factor": 3, "aggregate": True})

        def script(request: Request) -> str:
            asked = request.messages[-1].text
            return '["x", "y", "z"]' if asked == "Do one." else asked

        ran = await house.run(cascade(first, fan), script)
        assert [line for line in ran.result.outputs["fan"].splitlines() if "Do" in line] == [
            "Do x of 3.",
            "Do y of 3.",
            "Do z of 3.",
        ]


class TestSideBySide:
    async def test_the_first_goes_ahead_and_few_run_at_once(self, house: House) -> None:
        running, most, begun = 0, 0, list[tuple[int, bool]]()
        first_is_back = False

        async def script(request: Request) -> str:
            nonlocal running, most, first_is_back
            if judges(request):
                return '{"winner": 4}'
            at = index_of(request)
            begun.append((at, first_is_back))
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            first_is_back = True
            return f"answer {at}"

        soundings = {**PICK, "max_parallel": 2}
        ran = await house.run(cascade(sounded(factor=6, soundings=soundings)), script)
        assert ran.result.output == "answer 4"
        assert begun[0] == (0, False)
        assert all(back for _, back in begun[1:])
        assert most == 2

    async def test_they_differ_only_behind_the_instructions(self, house: House) -> None:
        a = sounded(soundings={"factor": 4, "mutate": True, **PICK})
        ran = await house.run(cascade(phase("one"), a, system="You are S."), picking(0))
        asked = [r.messages for r in ran.model.requests if not judges(r)][1:]
        assert len({tuple(m.key for m in messages[:-1]) for messages in asked}) == 1
        assert {messages[-1].parts[0] for messages in asked} == {Text("Do a.")}
        assert len({messages[-1].text for messages in asked}) == 4
        assert len(asked[0][-1].parts) == 1

    async def test_nothing_varies_unasked(self, house: House) -> None:
        a = phase("a", soundings={"factor": 3, **PICK})
        ran = await house.run(cascade(a), picking(0))
        asked = [r.messages for r in ran.model.requests if not judges(r)]
        assert len(asked) == 3
        assert len(set(asked)) == 1

    @pytest.mark.req("AC-111")
    async def test_each_chooses_for_itself(self, house: House) -> None:
        a = sounded(context={"mode": "auto"})
        ran = await house.run(cascade(phase("one"), phase("second"), a), picking(1))
        rows = [r.row for r in ran.rows(NodeType.CONTEXT_SELECTION, phase="a")]
        assert sorted({row.sounding_index or 0 for row in rows}) == [0, 1, 2]

    @pytest.mark.req("CA-31")
    async def test_all_are_counted(self, house: House) -> None:
        reforge = {"honing_prompt": "Better."}
        a = sounded(soundings={**PICK, "reforge": reforge})
        ran = await house.run(cascade(a), picking(0))
        rows = [r.row for r in ran.rows() if r.row.tokens_in]
        assert len(rows) == len(ran.model.requests) == 3 + 1 + 2 + 1
        assert ran.result.usage.tokens_in == sum(row.tokens_in or 0 for row in rows)

    async def test_fifty_runs_at_once_mix_nothing(self, house: House) -> None:
        async def script(request: Request) -> str:
            asked = next(m.text for m in request.messages if "Run " in m.text)
            name = asked[asked.index("Run ") :][4:6]
            if judges(request):
                return json.dumps({"winner": int(name) % 3})
            await asyncio.sleep(0)
            return f"{name} says {index_of(request)}"

        text = "Run {{ input.name }} asks."
        a = {**sounded(), "instructions": text}
        later = phase("b", instructions="Run {{ input.name }} goes on.")
        names = [f"{number:02}" for number in range(50)]
        whole = cascade(a, later)
        runs = await asyncio.gather(*(house.run(whole, script, {"name": n}) for n in names))
        for name, ran in zip(names, runs, strict=True):
            assert ran.result.outputs["a"] == f"{name} says {int(name) % 3}"
            seen = [message.text for message in ran.model.requests[-1].messages]
            assert len(seen) == 3
            assert all(name in text for text in seen)


class TestReports:
    @pytest.fixture
    async def ran(self, house: House) -> Ran:
        reforge = {"honing_prompt": "Better.", "factor_per_step": 2}
        a = sounded(soundings={**PICK, "reforge": reforge})
        return await house.run(cascade(phase("one"), a, phase("b")), picking(1))

    async def test_report_counts_soundings_and_reforge_apart(self, ran: Ran) -> None:
        costs = session_cost(ran.store, ran.session, "openai/gpt-4o")
        lines = {line.phase: line for line in costs.phases}
        counts = {name: line.calls for name, line in lines.items()}
        assert counts == {"one": 1, "a, soundings": 3, "a, reforge": 2, "a, evaluator": 0, "b": 1}
        assert lines["a, evaluator"].tokens_in > 0
        assert costs.total.tokens_in == ran.result.usage.tokens_in
        # A snowball would carry the winner to the next phase, and none of the others.
        assert lines["b"].snowball == lines["b"].tokens_in
        assert lines["b"].snowball_dollars == lines["b"].simulated_dollars

    async def test_show_tells_the_sounding(self, ran: Ran) -> None:
        views = view_session(ran.store, ran.session)
        assert {view.sounding_index for view in views.calls if view.phase == "a"} == {*range(5)}
        assert all(not view.hidden for view in views.calls)
        places = [view.place for view in views.calls if view.sounding_index == 2]
        assert places == ["phase a, sounding 2, turn 1, attempt 1"]
        notes = [note.text for note in views.notes if note.phase == "a"]
        assert "sounding 1: completed" in notes
        assert "refinement 1, sounding 3: completed" in notes
        assert "sounding 1 of 5 is taken" in notes

    async def test_explain_tells_verdicts_on_its_own_sounding_only(self, house: House) -> None:
        schema = {"type": "object", "required": ["n"]}
        replies = {0: '{"n": 0}', 1: "no number", 2: '{"n": 2}'}
        a = sounded(output_schema=schema, rules={"max_attempts": 1})
        ran = await house.run(cascade(a), picking(0, replies))
        told = {
            view.sounding_index: [
                note
                for note in explain_call(ran.store, ran.session, view.number).notes
                if note.startswith("attempt 1 ")
            ]
            for view in view_session(ran.store, ran.session).calls
        }
        assert [len(notes) for notes in told.values()] == [1, 1, 1]
        assert "refused" in told[1][0]
        assert "accepted" in told[0][0]

    async def test_a_prefix_is_that_of_the_call_that_it_goes_on_from(self, ran: Ran) -> None:
        calls = SessionRecord(ran.store, ran.session).calls
        before = {call.lane: last for call, last in with_before(calls)}
        places = {str(lane): str(last.lane) if last else "" for lane, last in before.items()}
        soundings = {f"a#1.{index}": "one#1" for index in range(5)}
        assert places == {"one#1": "", **soundings, "b#1": "a#1.1"}

    async def test_explain_knows_what_a_sounding_could_see(self, ran: Ran) -> None:
        views = view_session(ran.store, ran.session)
        (number,) = [view.number for view in views.calls if view.sounding_index == 2]
        explained = explain_call(ran.store, ran.session, number)
        assert "sounding 1 of 5 is taken" in explained.notes
        assert {each.phase for each in explained.decisions} == {"one", "a"}
        assert len(explained.decisions) == 3
        last = explain_call(ran.store, ran.session, len(views.calls))
        assert len(last.decisions) == len(last.call.seen) == 5


class TestOnePaidPrefix:
    @pytest.mark.parametrize("mutate", [False, True])
    async def test_all_read_what_the_first_wrote(self, house: House, mutate: bool) -> None:
        """The marks of real requests, at a cache that keeps entries where a mark stood."""
        cache, reads = Cache(minimum=1_024), list[tuple[str, Read]]()

        def script(request: Request) -> Message | str:
            sent = json.loads(json.dumps(anthropic.body(request)))
            if judges(request):
                return '{"winner": 3}'
            reads.append((request.messages[-1].role, cache.send(sent, 1.0)))
            looks = asked_by(request) == "one" or mutate
            if request.messages[-1].role == "user" and looks:
                return calls(call("log", json.dumps({"name": f"n{len(reads)}"})))
            return f"answer {len(reads)}"

        def log(name: str) -> str:
            """Read a log."""
            return "\n".join(f"step {n} of {name} went as it always goes" for n in range(400))

        soundings = {**PICK, "factor": 5, "mutate": mutate, "max_parallel": 2}
        a = phase("a", tackle=["log"], soundings=soundings)
        model = Hosted("anthropic/claude-sonnet-4-5", script)
        result = await windlass.run(
            cascade(phase("one", tackle=["log"]), a, system="You read logs."),
            model="anthropic/claude-sonnet-4-5",
            store=house.store,
            root=house.folder,
            tools=[log],
            providers={"anthropic": model},
        )
        assert result.error is None
        first = [read for role, read in reads[2:] if role == "user"]
        assert len(first) == 5
        assert all(read.read > 4 for read in first[1:])
        assert all(read.read == read.shared for read in first[1:])
        later = [read for role, read in reads[2:] if role == "tool"]
        assert len(later) == 5 * mutate
        assert all(read.read == read.shared for read in later)


class TestLimits:
    @staticmethod
    async def run(house: House, script: Callable[[Request], Any], budget: float) -> Any:
        soundings = {**PICK, "factor": 4, "max_parallel": 1}
        return await windlass.run(
            cascade(phase("a", soundings=soundings), phase("b"), max_output_tokens=1_000),
            model="openai/gpt-4o",
            store=house.store,
            root=house.folder,
            providers={"openai": Hosted("openai/gpt-4o", script, usage=Usage(100, 1_000))},
            budget=budget,
        )

    async def test_money_that_ends_loses_no_sounding_that_was_paid(self, house: House) -> None:
        result = await self.run(house, lambda _: "an answer", 0.025)
        assert (result.status, result.reason) == ("incomplete", "money")
        assert result.outputs["a"] == "an answer"
        assert result.cost <= 0.025
        with SqliteStore.open_existing(house.store) as store:
            assert not [each for each in store.verify() if each.severity == "damage"]

    async def test_no_money_for_any_is_the_end_of_the_budget(self, house: House) -> None:
        result = await self.run(house, lambda _: "an answer", 0.001)
        assert (result.status, result.reason, result.cost) == ("incomplete", "money", 0)

    async def test_an_interruption_leaves_a_sound_record(self, house: House) -> None:
        begun = asyncio.Event()

        async def script(request: Request) -> str:
            if index_of(request) == 1:
                begun.set()
                await asyncio.sleep(60)
            return "an answer"

        running = asyncio.create_task(house.run(cascade(sounded()), script, session_id="s"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        store = house.open_store()
        assert [info.status for info in store.sessions()] == ["interrupted"]
        assert not [each for each in store.verify() if each.severity == "damage"]

    async def test_models_are_given_in_turn(self, house: House) -> None:
        soundings = {**PICK, "factor": 3, "models": ["b/x", "c/x"], "evaluator": "d/x"}
        asked: dict[str, int] = {}

        def model(name: str) -> Hosted:
            def script(_: Request) -> str:
                asked[name] = asked.get(name, 0) + 1
                return '{"winner": 1}' if name == "d" else f"by {name}"

            return Hosted(f"{name}/x", script)

        result = await windlass.run(
            cascade(phase("a", soundings=soundings), model="a/x"),
            store=house.store,
            root=house.folder,
            providers={name: model(name) for name in "abcd"},
        )
        assert (result.status, result.output) == ("completed", "by c")
        assert asked == {"b": 2, "c": 1, "d": 1}
