"""From what a phase says of its context to a rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.cascade.making import cascade, cascades
from windlass.cascade.compile import compile_rule, explain_defaults, rule_in_words
from windlass.cascade.model import Cascade
from windlass.cascade.rules import Rule


def rule(*phases: dict[str, Any]) -> Rule:
    """The rule of the last phase."""
    made = Cascade.model_validate(cascade(*phases))
    return compile_rule(made, made.phases[-1])


A, B = {"name": "a"}, {"name": "b"}


class TestReaches:
    @given(cascades())
    def test_every_source_is_an_earlier_phase(self, data: dict[str, Any]) -> None:
        made = Cascade.model_validate(data)
        names = [phase.name for phase in made.phases]
        for index, phase in enumerate(made.phases):
            compiled = compile_rule(made, phase)
            assert {source.phase for source in compiled.sources} <= set(names[:index])
            assert rule_in_words(compiled)


class TestExplaining:
    def made(self) -> Cascade:
        return Cascade.model_validate(
            cascade(
                {"name": "a", "rules": {"max_turns": 5}},
                {"name": "b", "context_strategy": "minimal", "context_retention": "output_only"},
                {"name": "c", "context_strategy": "sliding"},
                model="local/x",
            )
        )

    @pytest.mark.req("CA-12")
    def test_as_text_it_says_what_each_phase_sees(self) -> None:
        text = str(explain_defaults(self.made()))
        assert "phase 'a' sees all that was said before." in text
        assert "phase 'b' sees only: output of 'a'. Later phases see its output only." in text
        assert (
            "phase 'c' sees the newest whole turns of all that was said before, within 60%" in text
        )

    @given(cascades())
    def test_it_can_explain_every_cascade(self, data: dict[str, Any]) -> None:
        explained = explain_defaults(Cascade.model_validate(data))
        assert [entry.phase for entry in explained] == [phase["name"] for phase in data["phases"]]
        assert str(explained)
