"""What the documents say a phase sees of a session that it chooses from, in which order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import asks as read_build
from tests.engine.logs import log, logs
from tests.support import engine_choosing as test_choosing
from tests.support.engine_choosing import SEVEN, TOPICS, asks, choices, pages, selecting, talk
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import user

FOUR = ("rivers", "harbours", "orchards", "glaciers")
ALL = ("output", "callouts", "input", "errors")


def broken(number: int) -> None:
    """Break.

    Args:
        number: Which.
    """
    raise ValueError("\n".join(f"ERROR number {number} in line {at}" for at in range(number)))


def kind(text: str) -> str:
    """What brought a message, by its text."""
    if text == talk("markets"):
        return "chosen"
    for name in FOUR:
        if text == talk(name):
            return f"called out in {name}"
        if text == f"[Output from {name}]:\n{talk(name)}":
            return f"output of {name}"
    return text.partition("\n")[0].split(":")[0]


def parts_of(ran: Ran, name: str = "last") -> list[str]:
    """What a phase sees before its own words, message by message."""
    return [kind(text) for _, text in ran.seen(name)[:-1]]


def searching(query: str) -> Any:
    return calls(call("search_context", json.dumps({"query": query})))


@pytest.fixture
def cached(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's cache has prices: what was sent before is read for a tenth."""
    (house.folder / "windlass.toml").write_text(test_choosing.CACHED)
    monkeypatch.chdir(house.folder)


class TestAnchors:
    async def run(
        self, house: House, include: Sequence[str] | None, context: Mapping[str, Any] | None = None
    ) -> Ran:
        """Outputs on both sides of a callout and of errors; of the rest one page is chosen."""
        anchors: dict[str, Any] = {"window": 0, "from_phases": ["harbours", "orchards"]}
        anchors |= {} if include is None else {"include": list(include)}
        marked = phase("rivers", callouts={"decision": "key_rivers"})
        made = cascade(
            phase("glaciers"),
            phase("harbours"),
            phase("markets"),
            marked,
            phase("b", tackle=["broken"]),
            phase("orchards"),
            asks("last", "markets", **({"context": context} if context else {})),
            auto_context=selecting(
                anchors=anchors,
                selection={"max_messages": 1, "callout_weight": 0.0, "outline": 0.0},
            ),
        )
        replies = {
            **pages(*FOUR, "markets"),
            "b": [calls(call("broken", '{"number": 1}')), "given up"],
        }
        ran = await house.run(made, replies, {"who": "Ann"}, tools=[broken])
        assert ran.has_no_damage()
        return ran

    @pytest.mark.req("AC-71")
    async def test_the_input_and_sources_come_first_and_all_else_in_session_order(
        self, house: House
    ) -> None:
        ran = await self.run(house, ALL, {"mode": "auto", "from": ["glaciers"]})
        assert parts_of(ran) == [
            "[Original Input]",
            "output of glaciers",
            "output of harbours",
            "chosen",
            "called out in rivers",
            "[Errors so far]",
            "output of orchards",
        ]

    @pytest.mark.req("AC-55")
    @pytest.mark.parametrize("include", [None, *((one,) for one in ALL)])
    async def test_each_kind_is_in_where_it_is_named_and_all_but_errors_by_default(
        self, house: House, include: Sequence[str] | None
    ) -> None:
        shown = {
            "input": "[Original Input]",
            "output": "output of harbours",
            "callouts": "called out in rivers",
            "errors": "[Errors so far]",
        }
        ran = await self.run(house, include)
        wanted = include or ("input", "output", "callouts")
        assert {what for what, text in shown.items() if text in parts_of(ran)} == set(wanted)

    @pytest.mark.req("AC-55")
    async def test_of_errors_the_last_five_are_told_in_at_most_200_tokens_each(
        self, house: House
    ) -> None:
        numbers = [300 + number for number in range(7)]
        failing = [calls(call("broken", json.dumps({"number": number}))) for number in numbers]
        made = cascade(
            phase("b", tackle=["broken"]),
            *SEVEN[:2],
            asks("last", "rivers"),
            auto_context=selecting(
                anchors={"include": ["errors"], "window": 0}, selection={"max_messages": 1}
            ),
        )
        replies = {**pages(*TOPICS[:2]), "b": [*failing, "given up"]}
        ran = await house.run(made, replies, tools=[broken])
        (errors,) = [text for _, text in ran.seen("last") if text.startswith("[Errors so far]")]
        _, *each = errors.split("\n\n")
        told = zip(numbers[-5:], each, strict=True)
        assert all(f"ERROR number {number} in" in text for number, text in told)
        count = ran.model.model("x").counter.message
        assert all(150 < count(user(text)) <= 200 for text in each)


class TestBothLevels:
    @pytest.mark.req("AC-1")
    @pytest.mark.parametrize("commit", ["at_once", "priced"])
    @pytest.mark.parametrize("own", [{}, {"intra_context": {}}])
    async def test_one_phase_chooses_from_those_before_and_shortens_what_it_says_itself(
        self, house: House, commit: str, own: dict[str, Any]
    ) -> None:
        last = asks("last", "rivers", tackle=["build_log"], **own)
        replies = {**pages(*TOPICS), "last": [*map(read_build, "1234"), "ok"]}
        ran = await house.run(
            cascade(*SEVEN, last, auto_context={"commit": commit}), replies, tools=[logs()]
        )
        for number in range(1, 6):
            seen = [text for _, text in ran.seen("last", number)]
            assert talk("rivers") in seen
            assert talk("orchards") not in seen
            whole = [log(build) in seen for build in "1234"]
            assert whole[: number - 1] == [False] * (number - 2) + [True] * (number > 1)
        rows = ran.rows(NodeType.CONTEXT_SELECTION, phase="last")
        told = [(json_of(one.row)["selection_type"], one.row.turn) for one in rows]
        assert told == [("inter_phase", 0), *(("intra_phase", turn) for turn in range(1, 6))]
        last.pop("intra_context", None)
        off = cascade(*SEVEN, last, auto_context={"commit": commit, "intra_phase": False})
        ran = await house.run(off, replies, tools=[logs()])
        assert log("1") in [text for _, text in ran.seen("last", 5)]
        assert talk("orchards") not in [text for _, text in ran.seen("last", 5)]


class TestExclude:
    @pytest.mark.req("AC-67")
    async def test_nothing_of_an_excluded_phase_is_an_anchor_chosen_or_found(
        self, house: House
    ) -> None:
        context = {
            "mode": "auto",
            "exclude": ["rivers", "b"],
            "anchors": {"include": list(ALL), "from_phases": ["all"]},
        }
        made = cascade(
            phase("rivers", callouts={"decision": "key_rivers"}),
            phase("b", tackle=["broken"]),
            *SEVEN[1:],
            asks("last", "rivers", tackle=["search_context"], context=context),
            auto_context=test_choosing.AT_ONCE,
        )
        replies = {
            **pages(*TOPICS),
            "b": [calls(call("broken", '{"number": 1}')), "given up"],
            "last": [searching("the key of rivers"), "ok"],
        }
        ran = await house.run(made, replies, tools=[broken])
        (answer,) = (text for role, text in ran.seen("last", 2) if role == "tool")
        assert "5 found" in answer
        said = "\n".join([*(text for _, text in ran.seen("last")[:-1]), answer])
        assert talk("lanterns") in said
        for gone in ("key_rivers", "rivers report", "ERROR number", "given up"):
            assert gone not in said

    @pytest.mark.req("AC-67")
    @pytest.mark.usefixtures("cached")
    @pytest.mark.parametrize("exclude", [[], ["orchards"]])
    async def test_it_is_left_out_where_going_on_would_be_cheaper_too(
        self, house: House, exclude: list[str]
    ) -> None:
        last = asks("last", "rivers", context={"mode": "auto", "exclude": exclude})
        made = cascade(*SEVEN, last, auto_context={"intra_phase": False})
        ran = await house.run(made, pages(*TOPICS))
        assert bool(choices(ran)[-1]["kept"]) is (not exclude)
        said = "\n".join(text for _, text in ran.seen("last"))
        assert ("key_orchards_4711" in said) is (not exclude)


class TestRetention:
    HIDDEN: Mapping[str, Any] = {
        "tackle": ["build_log"],
        "context_retention": "output_only",
        "callouts": {"failure": "ERROR: build 17"},
    }
    READ = (calls(call("build_log", '{"build": "17"}'), text="I look."), "Build 17 is broken.")

    @pytest.mark.req("CI-45")
    async def test_of_a_phase_that_hides_itself_its_output_alone_is_chosen_and_found(
        self, house: House
    ) -> None:
        made = cascade(
            phase("a", **self.HIDDEN),
            *SEVEN[:2],
            asks("last", "build 17", tackle=["search_context"]),
            auto_context=selecting(anchors={"window": 3, "from_phases": ["a"]}),
        )
        replies = {**pages(*TOPICS[:2]), "a": self.READ, "last": [searching("build 17"), "ok"]}
        ran = await house.run(made, replies, tools=[logs()])
        read = ran.rows(NodeType.TOOL_RESULT)[0].row.message
        assert read is not None
        assert read.text == log("17")
        said = "\n".join(text for _, text in ran.seen("last", 2))
        assert "Build 17 is broken." in said
        assert "I look." not in said
        assert "step 1" not in said
        assert "build_log" not in said
        found = ran.seen("last", 2)[-1][1]
        assert "] assistant (a, " in found
        assert "] build_log (a, " not in found

    @pytest.mark.req("CI-45")
    @pytest.mark.usefixtures("cached")
    async def test_who_goes_on_from_it_sees_its_output_alone(self, house: House) -> None:
        first = phase("zero", tackle=["build_log"])
        many = [read_build(str(n)) for n in range(18)]
        hidden = asks("a", "rivers", rules={"max_turns": 20}, **self.HIDDEN)
        made = cascade(
            first,
            *SEVEN,
            hidden,
            asks("b", "rivers", tackle=["build_log"]),
            auto_context={"intra_phase": False},
        )
        replies = {**pages(*TOPICS), "zero": [*many[:9], "read"], "a": [*many[9:], *self.READ]}
        ran = await house.run(made, replies, tools=[logs()])
        assert choices(ran)[-2]["kept"] == ""
        assert choices(ran)[-1]["strategy"] == "go_on"
        seen = [text for _, text in ran.seen("b")]
        assert "Build 17 is broken." in seen
        assert talk("rivers") in seen
        assert "I look." not in seen
        assert not [text for text in seen for n in range(9, 18) if f"build {n} failed" in text]
