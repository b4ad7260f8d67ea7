"""What may run, before what, and for sure: cascades as graphs, and what check says of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cascade_check import mistakes
from windlass.cascade.flow import (
    certain,
    is_graph,
    may_have_run,
    most_visits,
    reachable,
    sure_after,
)
from windlass.cascade.model import Phase


def phases(**ways_on: str) -> list[Phase]:
    """Phases by name, each with its targets in one text."""
    return [
        Phase.model_validate(
            {"name": name, "instructions": f"Do {name}.", "handoffs": targets.split()}
        )
        for name, targets in ways_on.items()
    ]


BRANCH = phases(a="b c", b="d", c="d end", d="", e="b")


class TestFlow:
    def test_a_branch(self) -> None:
        assert is_graph(BRANCH)
        assert reachable(BRANCH) == {"a", "b", "c", "d"}
        assert certain(BRANCH) == {"a"}, "c may end the run"
        assert certain(phases(a="b c", b="d", c="d", d="")) == {"a", "d"}
        assert may_have_run(BRANCH, 3) == ("a", "b", "c")
        assert may_have_run(BRANCH, 1) == ("a",)
        assert may_have_run(BRANCH, 5) == ("a", "b", "c", "d"), "behind all of them"
        assert may_have_run(BRANCH, 4) == ("a", "b", "c", "d"), "it never runs"
        assert [phase.name for phase in sure_after(BRANCH, "b")] == ["d"]
        assert [most_visits(BRANCH, at) for at in range(5)] == [1, 1, 1, 1, 0]
        assert sure_after(BRANCH, "a") == sure_after(BRANCH, "c") == ()


class TestCheck:
    @pytest.mark.parametrize(
        ("handoffs", "told"),
        [
            (
                ["bgu"],
                "handoffs[0]: there is no phase 'bgu'; did you mean 'bug'? known: a, bug, end",
            ),
            (
                ["bug", {"target": "z", "description": "last"}],
                "handoffs[1].target: there is no phase 'z'; known: a, bug, end",
            ),
            (["bug", "bug"], "handoffs: 'bug' is listed twice"),
        ],
    )
    def test_targets_that_there_are_not(self, handoffs: list[Any], told: str) -> None:
        assert mistakes({"name": "a", "handoffs": handoffs}, {"name": "bug"}) == [
            f"phase 'a', {told}"
        ]

    def test_end_is_no_phase_of_a_graph(self) -> None:
        assert mistakes({"name": "end"}) == []
        assert mistakes({"name": "a", "handoffs": ["end"]}, {"name": "end"}) == [
            (
                "phase 'end', name: a phase cannot be called 'end': as a target of handoffs the"
                " word ends the run"
            )
        ]

    def test_route_to_needs_handoffs(self) -> None:
        assert mistakes({"name": "a", "tackle": ["route_to"]}) == [
            (
                "phase 'a', tackle[0]: 'route_to' says which of the phase's 'handoffs' comes next,"
                " and it has none"
            )
        ]
        assert mistakes({"name": "a", "tackle": ["route_to"], "handoffs": ["end"]}) == []
        forced = {"name": "a", "tool_choice": "route_to"}
        assert mistakes({**forced, "handoffs": ["a", "end"]}) == []
        assert len(mistakes({**forced, "handoffs": ["end"]})) == 1

    def test_sources_and_outputs_name_what_may_have_run(self) -> None:
        a, b = {"name": "a", "handoffs": ["b", "c"]}, {"name": "b", "handoffs": ["d"]}
        c, d = {"name": "c", "handoffs": ["d"]}, {"name": "d"}
        uses = {"context": {"from": ["b", "c"]}, "instructions": "{{ outputs.b }}{{ outputs.c }}"}
        assert mistakes(a, b, c, {**d, **uses}) == []
        assert mistakes(a, {**b, "context": {"from": ["c"]}}, c, d) == [
            (
                "phase 'b', context.from[0]: no way leads here from phase 'c' (line 24);"
                " known: a, all, first, previous"
            )
        ]
        assert mistakes(a, {**b, "instructions": "{{ outputs.c }}"}, c, d) == [
            "phase 'b', instructions: outputs.c: no way leads here from phase 'c' (line 19)"
        ]
        loop = {"name": "a", "handoffs": ["a", "end"], "context": {"from": ["a"]}}
        assert mistakes({**loop, "instructions": "{{ outputs.a }}"}) == []
