"""A phase that chooses what it sees: anchors, choices, prices, the record; and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import log, logs
from tests.support.engine_choosing import (
    AT_ONCE,
    CACHED,
    SEVEN,
    TOPICS,
    asks,
    choices,
    pages,
    selecting,
    talk,
)
from windlass.engine.choosing import session_index as session
from windlass.errors import ProviderError
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message, user
from windlass.providers.scripted import Scripted
from windlass.selection.vectors import Vectors
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence


class TestWhatIsChosen:
    @pytest.mark.req("AC-1", "AC-74", "AC-85", "AC-110")
    async def test_the_original_that_the_task_needs_comes_and_the_rest_does_not(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()), pages(*TOPICS)
        )
        texts = [text for _, text in ran.seen("last")]
        assert talk("rivers") in texts
        assert talk("lanterns") in texts  # the output of the previous phase
        assert talk("orchards") not in texts
        whole = ran.calls()[-1]
        assert whole.sent_tokens < 0.7 * whole.full_tokens
        assert ran.has_no_damage()

    @pytest.mark.req("AC-85")
    async def test_input_first_then_originals_in_session_order_each_once(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()),
            pages(*TOPICS),
            {"who": "Ann"},
        )
        seen = ran.seen("last")
        assert seen[0][1].startswith("[Original Input]:")
        assert seen[-1] == ("user", "Do last. Tell the key of rivers.")
        texts = [text for _, text in seen]
        assert texts.index(talk("rivers")) < texts.index(talk("lanterns"))

    @pytest.mark.req("AC-71", "AC-72")
    @pytest.mark.parametrize("marked", ["rivers", "markets"])
    async def test_anchors_and_choices_stand_together_in_session_order(
        self, house: House, marked: str
    ) -> None:
        phases = [
            {**one, "callouts": {"decision": f"key_{marked}"}} if one["name"] == marked else one
            for one in SEVEN
        ]
        ran = await house.run(
            cascade(*phases, asks("last", "orchards"), auto_context=selecting()),
            pages(*TOPICS),
            {"who": "Ann"},
        )
        told = choices(ran)[-1]
        chosen = {one["id"] for one in told["selected"]}
        anchors = {one["id"] for one in told["anchors"] if one["kind"] in ("callout", "output")}
        seen = [one.message_id for one in ran.calls()[-1].shown]
        pages_seen = [text for _, text in ran.seen("last") if text.startswith("The ")]
        assert seen.index(next(iter(chosen & set(seen)))) > 0  # the input stands first
        assert ran.seen("last")[0][1].startswith("[Original Input]:")
        assert not chosen & anchors
        assert len(set(seen)) == len(seen)
        said = [stored.id for stored in ran.rows()]
        both = [one for one in seen if one in chosen | anchors]
        assert both == sorted(both, key=said.index)
        needed = [talk(name) for name in TOPICS if name in (marked, "orchards", "lanterns")]
        assert [text for text in pages_seen if text in needed] == needed

    async def test_what_is_not_chosen_is_told_by_its_names(self, house: House) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()), pages(*TOPICS)
        )
        (outline,) = [text for _, text in ran.seen("last") if text.startswith("[Also said")]
        assert "key_orchards_4711" in outline
        assert "key_rivers_4711" not in outline  # it is in view
        (shown,) = [
            one.row.message.content_hash
            for one in ran.rows(phase="orchards")
            if one.row.message and one.row.message.text == talk("orchards")
        ]
        assert f"result_{shown[:8]}" in outline
        off = selecting(selection={"outline": 0.0})
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=off), pages(*TOPICS)
        )
        assert not [text for _, text in ran.seen("last") if text.startswith("[Also said")]

    @pytest.mark.req("AC-73", "AC-109")
    @pytest.mark.parametrize("task", ["Do last. Tell depot_margin.", "Do last. Who is Zenobia?"])
    async def test_what_is_asked_for_by_name_comes_whole_before_digests(
        self, house: House, task: str
    ) -> None:
        def page(topic: str) -> str:
            lines = [f"Depots of {topic}: depot_{topic}_{n} has rate {n}.{n}" for n in range(240)]
            if topic == "orchards":
                lines[120] = "depot_margin was agreed with Zenobia as seventeen and a half"
            return "\n".join(lines)

        ran = await house.run(
            cascade(*SEVEN, {"name": "last", "instructions": task}, auto_context=selecting()),
            {name: [page(name)] for name in TOPICS},
        )
        texts = [text for _, text in ran.seen("last")]
        assert page("orchards") in texts
        told = choices(ran)[-1]
        (row,) = [one for one in told["selected"] if "the task asks for" in one["reason"]]
        assert row["phase"] == "orchards"
        assert told["budget"]["anchors"] + told["budget"]["selected"] <= told["budget"]["cap"]
        small = selecting(selection={"max_tokens": 9_000})
        ran = await house.run(
            cascade(*SEVEN, {"name": "last", "instructions": task}, auto_context=small),
            {name: [page(name)] for name in TOPICS},
        )
        budget = choices(ran)[-1]["budget"]
        assert budget["anchors"] + budget["selected"] <= max(9_000, budget["anchors"])

    @pytest.mark.req("AC-119")
    async def test_it_is_made_once_and_stands_for_the_phase(self, house: House) -> None:
        replies = {
            **pages(*TOPICS),
            "last": [
                calls(call("build_log", '{"build": "1"}')),
                calls(call("build_log", '{"build": "2"}')),
                "ok",
            ],
        }
        ran = await house.run(
            cascade(
                *SEVEN,
                asks("last", "rivers", tackle=["build_log"]),
                auto_context={"commit": "at_once"},
            ),
            replies,
            tools=[logs()],
        )
        for number in (1, 2, 3):  # what was chosen stays whole, whatever else grows old
            assert talk("rivers") in [text for _, text in ran.seen("last", number)]
        assert len([one for one in choices(ran) if one["text"].startswith("phase 'last'")]) == 1

    @pytest.mark.req("AC-53", "AC-76")
    async def test_pairs_come_whole_and_bring_their_tools(self, house: House) -> None:
        read = {"a": [calls(call("build_log", '{"build": "17"}')), "read it"]}
        ran = await house.run(
            cascade(
                phase("a", tackle=["build_log"]),
                *SEVEN[:2],
                asks("last", "build 17"),
                auto_context=selecting(selection={"share": 1.0}),
            ),
            {**read, **pages(*TOPICS[:2])},
            tools=[logs()],
        )
        request = ran.request("last")
        assert log("17") in [m.text for m in request.messages if m.role == "tool"]
        assert [tool.name for tool in request.tools] == ["build_log"]
        check_sequence(request.messages, {"build_log"})

    @pytest.mark.req("AC-66", "AC-67")
    async def test_sources_are_extra_anchors_and_exclude_holds_for_candidates(
        self, house: House
    ) -> None:
        context = {"mode": "auto", "from": ["orchards"], "exclude": ["rivers"]}
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers", context=context), auto_context=AT_ONCE),
            pages(*TOPICS),
        )
        said = "\n".join(text for _, text in ran.seen("last"))
        assert f"[Output from orchards]:\n{talk('orchards')}" in said
        assert said.count(talk("orchards")) == 1
        assert "key_rivers_4711" not in said

    @pytest.mark.req("CI-45")
    async def test_a_phase_that_hides_itself_is_chosen_from_by_its_output_alone(
        self, house: House
    ) -> None:
        hidden = phase("a", tackle=["build_log"], context_retention="output_only")
        read = {"a": [calls(call("build_log", '{"build": "17"}')), "Build 17 is broken."]}
        ran = await house.run(
            cascade(hidden, *SEVEN[:2], asks("last", "build 17"), auto_context=selecting()),
            {**read, **pages(*TOPICS[:2])},
            tools=[logs()],
        )
        texts = [text for _, text in ran.seen("last")]
        assert "Build 17 is broken." in texts
        assert log("17") not in texts


class TestAnchors:
    @pytest.mark.req("AC-53", "AC-54", "AC-98")
    async def test_the_last_turns_of_the_previous_phase_are_taken_whole(self, house: House) -> None:
        builds = [calls(call("build_log", json.dumps({"build": str(n)}))) for n in range(5)]
        ran = await house.run(
            cascade(
                phase("a", tackle=["build_log"]),
                asks("last", "nothing"),
                auto_context=selecting(
                    anchors={"window": 2}, selection={"outline": 0.0, "share": 0.01}
                ),
            ),
            {"a": [*builds, "all read"]},
            tools=[logs()],
        )
        results = [m.text for m in ran.request("last").messages if m.role == "tool"]
        assert results[-1] == log("4")
        kinds = {one["kind"] for one in choices(ran)[0]["anchors"]}
        assert kinds == {"window", "output"}

    @pytest.mark.req("AC-54", "AC-55")
    async def test_an_output_alone_is_told_under_its_header(self, house: House) -> None:
        said = selecting(anchors={"window": 0, "from_phases": ["rivers", "first"]})
        ran = await house.run(
            cascade(*SEVEN, asks("last", "orchards"), auto_context=said), pages(*TOPICS)
        )
        texts = [text for _, text in ran.seen("last")]
        assert texts.count(f"[Output from rivers]:\n{talk('rivers')}") == 1
        assert talk("rivers") not in texts

    @pytest.mark.req("AC-55", "AC-117")
    async def test_callouts_are_in_wherever_they_were_said(self, house: House) -> None:
        marked = {**SEVEN[0], "callouts": {"decision": "key_rivers"}}
        ran = await house.run(
            cascade(
                marked,
                *SEVEN[1:],
                asks("last", "orchards"),
                auto_context=selecting(selection={"share": 0.01}),
            ),
            pages(*TOPICS),
        )
        assert talk("rivers") in [text for _, text in ran.seen("last")]
        assert "callout" in {one["kind"] for one in choices(ran)[-1]["anchors"]}

    @pytest.mark.req("AC-55")
    async def test_errors_are_their_lines_at_most_five_of_200_tokens(self, house: House) -> None:
        def broken(number: int) -> str:
            """Break.

            Args:
                number: Which.
            """
            raise ValueError(f"ERROR number {number} " + "in a very long sentence " * 200)

        builds = [calls(call("broken", json.dumps({"number": n}))) for n in range(7)]
        ran = await house.run(
            cascade(
                phase("a", tackle=["broken"]),
                *SEVEN[:2],
                asks("last", "x"),
                auto_context=selecting(anchors={"include": ["errors"]}),
            ),
            {"a": [*builds, "given up"], **pages(*TOPICS[:2])},
            tools=[broken],
        )
        (errors,) = [text for _, text in ran.seen("last") if text.startswith("[Errors so far]")]
        _, *each = errors.split("\n\n")
        # The newest is chosen, too: it is shown whole, and not told besides.
        assert [f"number {n}" in one for n, one in enumerate(each, start=2)] == [True] * 4
        whole = [text for _, text in ran.seen("last") if "number 6" in text]
        assert len(whole) == 1
        assert len(whole[0]) > 4_000
        count = Scripted(lambda _: "").model("x").counter.message
        assert all(count(user(one)) <= 200 for one in each)

    @pytest.mark.req("AC-55")
    async def test_errors_that_are_shown_whole_are_told_once(self, house: House) -> None:
        def broken(number: int) -> str:
            """Break.

            Args:
                number: Which.
            """
            raise ValueError(f"ERROR E-{number}77 of orchards")

        async def told(**context: Any) -> list[str]:
            builds = [calls(call("broken", json.dumps({"number": n}))) for n in range(2)]
            said = selecting(anchors={"include": ["errors"]}, selection={"share": 0.9})
            ran = await house.run(
                cascade(
                    phase("a", tackle=["broken"]),
                    *SEVEN[:2],
                    asks("last", "orchards", **context),
                    auto_context=said,
                ),
                {"a": [*builds, "given up"], **pages(*TOPICS[:2])},
                tools=[broken],
            )
            assert ran.has_no_damage()
            return [text for _, text in ran.seen("last") if "-077" in text or "-177" in text]

        everywhere = {"from": [{"phase": "a", "include": ["messages"]}]}
        for seen in (await told(), await told(context=everywhere)):
            assert len(seen) == 2
            assert not any(text.startswith("[Errors so far]") for text in seen)

    @pytest.mark.req("AC-73")
    async def test_anchors_over_the_budget_are_shortened_in_order_and_never_the_input(
        self, house: House
    ) -> None:
        given = {"who": "Ann " * 300}
        said = selecting(selection={"max_tokens": 500}, anchors={"window": 1})
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=said), pages(*TOPICS), given
        )
        told = choices(ran)[-1]
        assert "shortened to digests" in told["warning"]
        assert "Ann Ann" in ran.seen("last")[0][1]
        assert ran.seen("last")[0][1].count("Ann") == 300
        short = {one["kind"]: one["shortened"] for one in told["anchors"]}
        assert short == {"input": False, "output": True, "window": False}
        (cut,) = [text for _, text in ran.seen("last") if "chars, cut; " in text]
        assert len(cut) < len(talk("lanterns")) / 2
        assert told["selected"] == []
        assert ran.has_no_damage()

    @pytest.mark.req("AC-118")
    async def test_where_nothing_is_left_to_choose_from_anchors_stand_alone(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(phase("a"), phase("b"), auto_context=selecting()), {}, {"who": "Ann"}
        )
        assert [text for _, text in ran.seen("b")][1:] == ["Do a.", "ok a", "Do b."]
        assert choices(ran)[0]["candidates"] == 0

    async def test_the_first_phase_sees_the_input_and_nothing_else(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", context={"mode": "auto"})), {}, {"who": "Ann"})
        assert [role for role, _ in ran.seen("a")] == ["user", "user"]
        assert "Ann" in ran.seen("a")[0][1]


class TestTheRecord:
    @pytest.mark.req("AC-4", "AC-52", "AC-82", "AC-86", "AC-105", "AC-106")
    async def test_one_row_a_choice_with_the_documented_fields(self, house: House) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()),
            pages(*TOPICS),
            {"who": "Ann"},
        )
        told = choices(ran)[-1]
        assert len(choices(ran)) == 7
        assert told["semantic_actor"] == "auto_context"
        assert (told["strategy_asked"], told["strategy"]) == ("hybrid", "hybrid")
        assert told["full_history_size"] == 15
        assert told["context_size"] == len(ran.seen("last"))
        assert told["tokens_saved"] > 0
        assert told["candidates"] == 12
        messages = ran.request("last").messages
        assert [message.text for message in messages[-3:-1]] == ["Do lanterns.", talk("lanterns")]
        anchors = messages[0], *messages[-3:-1]
        assert told["anchor_hashes"] == [message.content_hash for message in anchors]
        shown = {one.message_id for one in ran.calls()[-1].shown}
        assert {one["id"] for one in told["selected"]} <= shown
        assert [one["hash"] for one in told["selected"]] == told["selected_hashes"]
        for one in told["selected"]:
            assert {"id", "hash", "score", "ranks", "reason", "tokens"} <= one.keys()
            assert one["ranks"]["keyword"] >= 1
        assert told["left_out"] is not None
        assert told["worth"]["commit"] == "at_once"
        assert told["config"]["max_tokens"] == 30_000

    @pytest.mark.req("AC-107")
    @pytest.mark.parametrize("within", [True, False])
    async def test_dollars_by_cascade_are_what_the_same_run_costs_less(
        self, house: House, within: bool
    ) -> None:
        saved: dict[str, int] = {}
        for name, about in (("one", SEVEN), ("two", SEVEN[:5])):
            paid = []
            for auto in (None, {**selecting(), "intra_phase": within}):
                # Only the shortened one goes by the name that the statement groups by.
                made = cascade(*about, asks("last", "rivers"), auto_context=auto)
                made["cascade_id"] = name if auto else f"whole-{name}"
                ran = await house.run(made, pages(*TOPICS))
                paid.append(ran.result.usage.tokens_in)  # as the provider counted
            saved[name] = paid[0] - paid[1]
        rows = ran.store.query(
            "SELECT cascade_id, SUM(tokens_saved) * 0.000015 AS estimated_savings_usd"
            " FROM unified_logs WHERE node_type = 'context_selection' AND tokens_saved > 0"
            " GROUP BY cascade_id"
        )
        dollars = {row["cascade_id"]: row["estimated_savings_usd"] for row in rows}
        assert dollars.keys() == saved.keys()
        for name, tokens in saved.items():
            assert tokens > 500
            assert dollars[name] == pytest.approx(tokens * 0.000015, rel=0.01)
        assert saved["one"] > saved["two"]

    @pytest.mark.req("AC-1", "AC-52", "AC-106")
    async def test_calls_tell_what_they_saved_and_dollars_can_be_summed(self, house: House) -> None:
        made = cascade(*SEVEN, asks("last", "rivers"), auto_context={"commit": "at_once"})
        ran = await house.run(made, pages(*TOPICS))
        (row,) = ran.store.query(
            "SELECT SUM(tokens_saved) * 0.000015 AS dollars, SUM(tokens_saved) AS tokens,"
            " AVG(context_size) AS size FROM unified_logs"
            " WHERE node_type = 'context_selection' AND cascade_id = 'test'"
        )
        saved = sum(one.full_tokens - one.sent_tokens for one in ran.calls())
        assert row["tokens"] == saved > 0
        assert row["dollars"] == pytest.approx(saved * 0.000015)

    async def test_show_and_explain_say_why(self, house: House) -> None:
        from windlass.report.explanation import explain_call

        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()), pages(*TOPICS)
        )
        explained = explain_call(ran.store, ran.session, 8)
        assert any("chosen by" in note for note in explained.notes)
        why = {one.message_id: one.reason for one in explained.decisions}
        assert any(reason.startswith("chosen: says") for reason in why.values())
        assert any(reason.startswith("anchor: the output") for reason in why.values())

    async def test_a_dry_run_shows_the_first_phase_as_it_would_be(self, house: House) -> None:
        ran = await house.run(cascade(phase("a", context={"mode": "auto"})), {}, {"x": "y"})
        assert ran.result.status == "completed"


class TestPrices:
    """The engine never pays more for choosing than going on would cost."""

    @pytest.mark.req("AC-110")
    async def test_where_going_on_is_cheaper_the_prefix_is_kept_and_it_says_so(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (house.folder / "windlass.toml").write_text(CACHED)
        monkeypatch.chdir(house.folder)
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context={"intra_phase": False}),
            pages(*TOPICS),
        )
        plain = await house.run(cascade(*SEVEN, asks("last", "rivers")), pages(*TOPICS))
        told = choices(ran)[-1]
        assert told["strategy"] == "snowball"
        assert "choosing anew would cost more" in told["kept"]
        assert ran.seen("last") == plain.seen("last")
        assert told["worth"]["go_on"]["units"] < told["worth"]["select"]["units"]

    @pytest.mark.req("AC-110")
    async def test_without_a_cache_it_chooses(self, house: House) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context={"intra_phase": False}),
            pages(*TOPICS),
        )
        assert choices(ran)[-1]["kept"] == ""
        assert ran.calls()[-1].sent_tokens < ran.calls()[-1].full_tokens

    @pytest.mark.req("AC-110")
    async def test_after_a_choice_a_phase_goes_on_from_it_with_what_is_missing(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (house.folder / "windlass.toml").write_text(CACHED)
        monkeypatch.chdir(house.folder)
        pair = [
            {**asks(name, about), "tackle": ["build_log"], "rules": {"max_turns": 20}}
            for name, about in (("one", "rivers"), ("two", "orchards"), ("three", "rivers"))
        ]
        first = {"name": "zero", "instructions": "Do zero.", "tackle": ["build_log"]}
        many = [calls(call("build_log", json.dumps({"build": str(n)}))) for n in range(9)]
        ran = await house.run(
            cascade(first, *SEVEN, *pair, auto_context={"intra_phase": False}),
            {
                **pages(*TOPICS),
                "zero": [*many, "read"],
                "one": [*many, "ok"],
                "two": [*many, "ok"],
                "three": [*many, "ok"],
            },
            tools=[logs()],
        )
        told = {one["text"].split("'")[1]: one for one in choices(ran)}
        went_on = [one for one in told.values() if one["strategy"] == "go_on"]
        assert told["one"]["strategy"] not in ("snowball", "go_on")
        assert went_on
        for name in (one["text"].split("'")[1] for one in went_on):
            before = {"two": "one", "three": "two"}.get(name) or TOPICS[TOPICS.index(name) - 1]
            end, begin = ran.request(before, -1).messages, ran.request(name, 1).messages
            assert begin[: len(end)] == end
            needed = {"two": "orchards", "three": "rivers"}.get(name)
            assert needed is None or talk(needed) in [m.text for m in begin]
        for request in ran.model.requests:
            check_sequence(request.messages, {"build_log"})
        assert ran.has_no_damage()

    @pytest.mark.req("AC-110")
    async def test_a_choice_is_held_against_a_snowball_without_windows(self, house: House) -> None:
        first = {"name": "zero", "instructions": "Do zero.", "tackle": ["build_log"]}
        many = [calls(call("build_log", json.dumps({"build": str(n)}))) for n in range(6)]
        ran = await house.run(
            cascade(first, phase("b"), auto_context={}), {"zero": [*many, "read"]}, tools=[logs()]
        )
        call_of_b = ran.calls()[-1]
        bills = choices(ran)[0]["worth"]
        assert bills["go_on"]["tokens"] < 0.8 * bills["whole"]["tokens"]
        assert bills["whole"]["tokens"] == pytest.approx(call_of_b.full_tokens, rel=0.01)

    async def test_what_does_not_fit_the_model_is_chosen_from_whatever_it_costs(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context={"intra_phase": False}),
            pages(*TOPICS),
            model={"window": 5_000},
        )
        assert ran.result.status == "completed"
        assert ran.calls()[-1].sent_tokens < 4_000


class TestASelector:
    def script(self, answer: Any) -> Any:
        def reply(request: Request) -> Message | str:
            if request.messages[0].text.startswith("You are selecting"):
                self.question = request.messages[0].text
                return str(answer(self.question) if callable(answer) else answer)
            last = request.messages[-1].text
            name = last.removeprefix("Do ").partition(".")[0]
            return talk(name) if name in TOPICS else "ok"

        return reply

    async def run(self, house: House, answer: Any, strategy: str = "llm", **more: Any) -> Ran:
        selection = {"strategy": strategy, **more}
        return await house.run(
            cascade(
                *SEVEN,
                asks("last", "rivers"),
                auto_context={**AT_ONCE, "inter_phase": {"selection": selection}},
            ),
            self.script(answer),
        )

    @pytest.mark.req("AC-3", "AC-76", "AC-82")
    async def test_reads_a_menu_of_summaries_and_its_choice_and_cost_are_recorded(
        self, house: House
    ) -> None:
        def pick(question: str) -> str:
            line = next(one for one in question.splitlines() if "orchards report" in one)
            name = line[1 : line.index("]")]
            return json.dumps({"selected": [name, "nobody"], "reasoning": "I like trees."})

        ran = await self.run(house, pick)
        told = choices(ran)[-1]
        assert talk("orchards") in [text for _, text in ran.seen("last")]
        assert "key_orchards_4711" not in self.question  # it stands at the end of the page
        assert (told["strategy"], told["reasoning"]) == ("llm", "I like trees.")
        assert told["refused"] == ["nobody"]
        row = ran.rows(NodeType.CONTEXT_SELECTION)[-1].row
        assert row.model == "scripted/function"
        assert (row.tokens_in or 0) > 100
        assert (row.tokens_out or 0) > 0
        assert ran.result.usage.tokens_in > sum(one.sent_tokens for one in ran.calls())

    @pytest.mark.req("AC-81", "AC-80")
    async def test_a_line_of_the_menu_names_hash_role_phase_and_size_and_is_cut_at_200(
        self, house: House
    ) -> None:
        long = "The treaty of the canals says " + "that boats give way, " * 30
        phases = [phase(f"p{number}") for number in range(60)]

        def reply(request: Request) -> str:
            text = request.messages[-1].text
            if request.messages[0].text.startswith("You are selecting"):
                self.question = request.messages[0].text
                return '{"selected": []}'
            return long if text == "Do canals." else f"To {text} there are boats and rivers."

        chosen = {"mode": "auto", "selection": {"strategy": "llm"}}
        ran = await house.run(
            cascade(
                phase("canals"),
                *phases,
                {
                    "name": "last",
                    "instructions": "Do last. Which boats give way on rivers?",
                    "context": chosen,
                },
                auto_context={**AT_ONCE, "inter_phase": False},
            ),
            reply,
        )
        menu = [line for line in self.question.splitlines() if re.match(r"\[[0-9a-f]{8}\] ", line)]
        assert len(menu) == 100
        count = Scripted(lambda _: "").model("x").counter.message
        said = {
            stored.row.message.content_hash[:8]: stored.row
            for stored in ran.rows()
            if stored.row.message
        }
        for line in menu:
            told = re.fullmatch(r"\[([0-9a-f]{8})\] (\w+) \(([\w-]+), ~(\d+) tok\): (.+)", line)
            assert told, line
            name, role, where, tokens, summary = told.groups()
            row = said[name]
            assert row.message
            assert (role, where) == (row.message.role, row.phase)
            assert int(tokens) == pytest.approx(count(row.message), rel=0.2, abs=8)
            assert len(summary) <= 200
        (cut,) = [line for line in menu if "The treaty of the canals" in line]
        assert 190 <= len(cut.partition(": ")[2]) <= 200

    @pytest.mark.req("AC-83")
    @pytest.mark.parametrize("answer", ["The first ones, I think.", "[1, 2]", ""])
    async def test_that_answers_prose_leaves_the_choice_to_the_scores(
        self, house: House, answer: str
    ) -> None:
        ran = await self.run(house, answer)
        told = choices(ran)[-1]
        assert talk("rivers") in [text for _, text in ran.seen("last")]
        assert "chosen by score alone" in told["note"]

    @pytest.mark.req("AC-83")
    async def test_that_fails_is_told_and_the_run_goes_on(self, house: House) -> None:
        def fail(_: str) -> str:
            raise RuntimeError("no route")

        ran = await self.run(house, fail)
        assert ran.result.status == "completed"
        assert (
            "gave no answer: the provider of 'scripted/function' failed"
            in (choices(ran)[-1]["note"])
        )

    @pytest.mark.req("AC-59", "AC-88")
    async def test_hybrid_asks_nobody_until_a_model_is_named(self, house: House) -> None:
        ran = await self.run(house, "never asked", "hybrid")
        assert not hasattr(self, "question")
        assert "asked" not in choices(ran)[-1]

    @pytest.mark.req("AC-59", "AC-88")
    async def test_a_named_model_is_asked_and_named_where_the_run_begins(
        self, house: House
    ) -> None:
        ran = await self.run(house, "{}", "hybrid", selector_model="scripted/other")
        assert hasattr(self, "question")
        assert "scripted/other" in ran.store.start(ran.session).model

    @pytest.mark.req("AC-100")
    async def test_the_flag_keeps_every_model_from_being_asked(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_LLM_SELECTION_ENABLED", "false")
        ran = await self.run(house, "{}", "llm")
        assert not hasattr(self, "question")
        assert "switches it off" in choices(ran)[-1]["note"]

    @pytest.mark.req("AC-100")
    async def test_the_other_flag_keeps_every_phase_from_choosing(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_INTER_PHASE_ENABLED", "false")
        ran = await self.run(house, "{}", "hybrid")
        assert choices(ran) == []
        assert {one["setting"] for one in ran.decisions("switched_off")} == {
            "auto_context_inter_phase_enabled"
        }
        assert len(ran.seen("last")) == 15


class TestTrouble:
    @pytest.mark.req("AC-75", "AC-77")
    async def test_no_embedding_model_is_said_and_words_choose(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.selection.vectors.installed", lambda: False)
        said = selecting(selection={"strategy": "semantic"})
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=said), pages(*TOPICS)
        )
        told = choices(ran)[-1]
        assert (told["strategy"], told["strategy_asked"]) == ("heuristic", "semantic")
        assert "no embedding model is installed" in told["note"]
        assert talk("rivers") in [text for _, text in ran.seen("last")]

    @pytest.mark.parametrize("fails", [False, True])
    async def test_a_server_makes_the_vectors_where_the_user_names_it(
        self, house: House, monkeypatch: pytest.MonkeyPatch, fails: bool
    ) -> None:
        asked: list[str] = []

        class Served:
            name, dimensions = "mine/vectors", 2

            def embed(self, texts: Sequence[str]) -> Vectors:
                if fails:
                    raise ProviderError("the server is gone")
                asked.extend(texts)
                return np.array([[1, 0] if "rivers" in one else [0, 1] for one in texts], "f4")

            async def vectors(self, texts: Sequence[str]) -> Vectors:
                return self.embed(texts)

            def take_tokens(self) -> int:
                return 0 if fails else 7

        monkeypatch.setattr(session, "embedder_of", lambda _: Served)
        said = selecting(selection={"strategy": "semantic"})
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=said), pages(*TOPICS)
        )
        told = choices(ran)[-1]
        assert told["strategy"] == ("heuristic" if fails else "semantic")
        assert ("gave no vectors: the server is gone" in told["note"]) == fails
        assert len(asked) == len(set(asked)), "no text is sent twice"
        rows = [one.row for one in ran.rows() if json_of(one.row).get("kind") == "vectors"]
        assert all((row.model, row.tokens_in) == ("mine/vectors", 7) for row in rows)
        assert bool(rows) != fails

    @pytest.mark.req("AC-73")
    async def test_candidates_that_are_all_too_long_come_as_digests(self, house: House) -> None:
        long = {name: ["\n".join([talk(name)] * 6)] for name in TOPICS}
        said = selecting(selection={"max_tokens": 900}, anchors={"window": 0, "include": []})
        ran = await house.run(cascade(*SEVEN, asks("last", "rivers"), auto_context=said), long)
        told = choices(ran)[-1]
        assert ran.calls()[-1].sent_tokens < 1_000
        assert told["masked_count"] + len(told["left_out"]) > 0
        assert ran.has_no_damage()

    async def test_a_later_phase_goes_on_where_a_store_has_cards(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from windlass.history.sqlite import SqliteStore
        from windlass.selection.making import card_of
        from windlass.window.entries import Item

        def cards(store: SqliteStore, session: str) -> list[Any]:
            made = []
            for stored in store.rows(session):
                if stored.id is not None and stored.row.message is not None:
                    item = Item(stored.id, stored.row.message, stored.row.node_type)
                    made.append(card_of(item, 1))
            return made

        monkeypatch.setattr(SqliteStore, "cards", cards, raising=False)
        ran = await house.run(
            cascade(*SEVEN, asks("last", "rivers"), auto_context=selecting()), pages(*TOPICS)
        )
        assert talk("rivers") in [text for _, text in ran.seen("last")]


@hypothesis_settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.req("AC-73", "AC-98", "AC-119")
async def test_whatever_is_chosen_is_valid_and_holds_the_anchors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any phases with any calls: each request is valid, the record whole, the last output in."""
    house = House(tmp_path_factory.mktemp("chosen"))
    count = data.draw(st.integers(2, 5))
    replies: dict[str, list[Any]] = {}
    phases = []
    for number in range(count):
        name = f"p{number}"
        turns = data.draw(st.integers(0, 3))
        builds = [str(data.draw(st.integers(0, 3))) for _ in range(turns)]
        replies[name] = [
            *(
                calls(*(call("build_log", json.dumps({"build": b})) for _ in range(1 + int(b) % 2)))
                for b in builds
            ),
            f"output of {name}",
        ]
        phases.append(phase(name, tackle=["build_log"]))
    selection = {
        "max_tokens": data.draw(st.sampled_from([50, 800, 3_000])),
        "share": data.draw(st.sampled_from([0.1, 1.0])),
    }
    anchors = {"window": data.draw(st.integers(0, 3))}
    auto = {
        "commit": data.draw(st.sampled_from(["at_once", "priced"])),
        "intra_phase": data.draw(st.booleans()),
        "inter_phase": {"selection": selection, "anchors": anchors},
    }
    try:
        ran = await house.run(cascade(*phases, auto_context=auto), replies, tools=[logs()])
        assert ran.result.error is None
        for request in ran.model.requests:
            check_sequence(request.messages, {tool.name for tool in request.tools})
            assert request.messages[0].role == "user"
        for number in range(1, count):
            said = "\n".join(text for _, text in ran.seen(f"p{number}"))
            assert f"output of p{number - 1}" in said
        assert ran.has_no_damage()
    finally:
        house.close()
