"""Rules and validators in a file: what is said of them before a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.harness import cascade, phase
from windlass.cascade.check import check
from windlass.cascade.load import from_python
from windlass.cascade.model import Cascade
from windlass.cascade.notes import notes


def warnings(*phases: Any, **keys: Any) -> list[str]:
    """What is told of a cascade that has no mistakes."""
    loaded = from_python(cascade(*phases, **keys))
    assert check(loaded) == ()
    return [warning.text for warning in notes(loaded)]


JUDGED = {"loop_until": "length_check"}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"retry_instructions": "x"}, "retry_instructions: is never said: nothing refuses"),
        ({**JUDGED, "retry_instructions": "x", "max_attempts": 1}, "'max_attempts' is 1"),
        ({"turn_prompt": "x", "max_turns": 1}, "turn_prompt: is never said: 'max_turns' is 1"),
        ({**JUDGED, "loop_until_prompt": "x", "loop_until_silent": True}, "'loop_until_silent'"),
    ],
)
def test_texts_that_are_never_said_are_told(rules: dict[str, Any], told: str) -> None:
    (warning,) = warnings(phase("a", rules=rules))
    assert told in warning


def test_texts_that_are_said_are_not_told() -> None:
    rules = {**JUDGED, "retry_instructions": "x", "turn_prompt": "x", "loop_until_prompt": "x"}
    assert warnings(phase("a", rules=rules)) == []
    schema = {"type": "object"}
    assert warnings(phase("a", rules={"retry_instructions": "x"}, output_schema=schema)) == []


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"retry_instructions": "{{ nobody }}"}, "rules.retry_instructions: a template cannot"),
        ({"turn_prompt": "{{ outputs.b }}"}, "rules.turn_prompt: outputs.b: there is no phase 'b'"),
        ({"loop_until_prompt": "{{"}, "rules.loop_until_prompt: bad template"),
    ],
)
def test_templates_of_rules_are_checked(rules: dict[str, Any], told: str) -> None:
    (mistake,) = check(from_python(cascade(phase("a", rules=rules))))
    assert told in mistake.text


def test_a_validator_that_is_wrong_is_one_mistake() -> None:
    validators = {"own": {"instructions": "{{ content }}", "max_turns": 0}, "other": {}}
    rules = {"loop_until": "own"}
    told = check(from_python(cascade(phase("a", rules=rules), validators=validators)))
    assert [each.text.partition(":")[0] for each in told] == [
        "validators.own.max_turns",
        "validators.other",
    ]


def test_a_validator_may_name_what_it_judges_beside_a_declared_input() -> None:
    words = "{{ input.content }} {{ input.original_input }} {{ output }} {{ outputs.a }}"
    made = cascade(
        phase("a", rules={"loop_until": "own"}),
        validators={"own": {"instructions": words}},
        inputs_schema={"topic": "of what"},
    )
    assert check(from_python(made)) == ()
    assert notes(from_python(made)) == ()
    wrong = {**made, "validators": {"own": {"instructions": "{{ verdict }} {{ outputs.b }}"}}}
    name, phase_ = (mistake.text for mistake in check(from_python(wrong)))
    assert "validators.own.instructions: outputs.b: there is no phase 'b'; known: a" in phase_
    assert "validators.own.instructions: a template cannot use 'verdict'" in name


def test_a_cascade_with_validators_is_equal_to_itself_written_out() -> None:
    made = cascade(phase("a"), validators={"own": {"instructions": "x"}})
    held = Cascade.model_validate(made)
    assert Cascade.model_validate(held.model_dump(by_alias=True, exclude_unset=True)) == held
