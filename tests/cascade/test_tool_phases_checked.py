"""What `check` says of phases that run a tool, and of wards."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.cascade.check import check
from windlass.cascade.load import from_python, parse
from windlass.cascade.model import Cascade
from windlass.cascade.notes import notes
from windlass.tools.registry import builtin

READ = "tests.support.steps:read_orders"


def mistakes(text: str) -> list[str]:
    """The mistakes of phases as YAML, without the file's name."""
    loaded = parse(f"cascade_id: c\nphases:\n{text}", name="c", format="yaml")
    return [str(each).removeprefix("c:") for each in check(loaded, tools=builtin())]


def warnings(*phases: dict[str, Any]) -> list[str]:
    """The warnings about phases made in Python."""
    return [each.text for each in notes(from_python({"cascade_id": "c", "phases": phases}))]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {name: a}", "3: phase 'a': 'instructions' is missing, or 'tool'"),
        ("- {name: a, tool: }", "3: phase 'a', tool: expected text; nothing is written here"),
        (
            "- {name: a, tool: list_files, instructions: x}",
            "3: phase 'a', tool: cannot be combined with 'instructions': a phase asks a model or",
        ),
        (
            "- {name: a, instructions: x, timeout: 3}",
            "3: phase 'a', timeout: applies only with 'tool'",
        ),
        (
            "- {name: a, tool: list_file}",
            "3: phase 'a', tool: there is no tool 'list_file'; did you mean",
        ),
        ("- {name: a, tool: 'sql:q.sql'}", "3: phase 'a', tool: no such file: 'q.sql'"),
        (
            "- {name: a, tool: 'shell:x.sh'}",
            "3: phase 'a', tool: commands of a shell are not run; put them into a function of your",
        ),
        ("- {name: a, tool: 'python:load'}", "write it as 'python:package.module.function'"),
        ("- {name: a, tool: list_files, timeout: soon}", "write seconds as a number, or '30s'"),
        ("- {name: a, tool: list_files, timeout: true}", "expected a number, not true"),
        (
            f"- {{name: a, tool: '{READ}', inputs: {{pth: x}}}}",
            "3: phase 'a', inputs.pth: 'read_orders' takes no argument 'pth'; did you mean 'path'?",
        ),
        (f"- {{name: a, tool: '{READ}'}}", "'read_orders' needs 'path'; give it under 'inputs'"),
        (
            "- {name: a, tool: list_files, routing: {empty: bb}}\n- {name: b, instructions: x}",
            "3: phase 'a', routing.empty: there is no phase 'bb'; did you mean 'b'?",
        ),
        ("- {name: a, tool: list_files, on_error: bb}", "on_error: there is no phase 'bb'"),
        (
            "- name: a\n  tool: list_files\n  on_error:\n    name: b\n    instructions: x",
            "what stands under 'on_error' is called 'a_fallback'",
        ),
        (
            "- name: a\n  tool: list_files\n  on_error:\n    instructions: '{{ outputs.z }}'",
            "6: phase 'a', on_error.instructions: outputs.z: there is no phase 'z'",
        ),
        (
            f"- {{name: a, tool: '{READ}', inputs: {{path: '{{{{ outputs.b }}}}'}}}}",
            "3: phase 'a', inputs.path: outputs.b: there is no phase 'b'",
        ),
        (
            "- {name: a, tool: list_files, soundings: {factor: 2, evaluator_instructions: x}}",
            "soundings: are attempts at asking a model, and this phase runs a tool",
        ),
        (
            "- {name: a, instructions: x, wards: {post: [grammar_chek]}}",
            "3: phase 'a', wards.post[0]: there is no validator 'grammar_chek'; did you mean",
        ),
        (
            "- {name: a, instructions: x, wards: {pre: [{validator: nobody}]}}",
            "3: phase 'a', wards.pre[0].validator: there is no validator 'nobody'",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, told: str) -> None:
    assert any(told in each for each in mistakes(text)), mistakes(text)


def test_keys_without_effect_are_warned_of() -> None:
    tool = {"name": "a", "tool": "list_files"}
    idle = "has no effect: this phase runs a tool and asks no model"
    assert warnings({**tool, "callouts": "Files"}) == [f"phase 'a', callouts: {idle}"]
    assert warnings({**tool, "tackle": ["run_sql"], "rules": {"max_turns": 3}}) == [
        f"phase 'a', tackle: {idle}",
        f"phase 'a', rules.max_turns: {idle}",
    ]
    assert warnings({**tool, "wards": {"turn": ["satisfied"]}}) == [
        f"phase 'a', wards.turn[0]: {idle}"
    ]
    ward = {"validator": "satisfied", "mode": "retry"}
    useless = "has no effect with mode 'blocking', only with 'retry'"
    noted = "nothing can be tried again here: a refusal is only noted, as with 'advisory'"
    assert warnings({"name": "a", "instructions": "x", "wards": {"pre": [ward]}}) == [
        f"phase 'a', wards.pre[0].mode: {noted}"
    ]
    assert warnings({**tool, "wards": {"post": [ward]}}) == [
        f"phase 'a', wards.post[0].mode: {noted}"
    ]
    assert warnings(
        {
            "name": "a",
            "instructions": "x",
            "wards": {"post": [{"validator": "satisfied", "max_attempts": 2}]},
        }
    ) == [f"phase 'a', wards.post[0].max_attempts: {useless}"]
    routed = {**tool, "routing": {"empty": "b"}}
    assert "after which the run ends" in warnings(routed, {"name": "b", "instructions": "x"})[0]


def test_two_spellings_of_one_cascade_are_equal() -> None:
    short = {
        "name": "load",
        "tool": "python:shop.orders.load",
        "timeout": "5m",
        "routing": {"default": "report"},
        "on_error": {"instructions": "Guess."},
        "wards": {"post": ["satisfied"]},
    }
    long = {
        **short,
        "tool": "shop.orders:load",
        "timeout": 300,
        "on_error": "load_fallback",
        "wards": {"post": [{"validator": "satisfied"}]},
    }
    report = {"name": "report", "instructions": "Report."}
    fallback = {"name": "load_fallback", "instructions": "Guess.", "handoffs": ["report"]}
    made = Cascade.model_validate({"cascade_id": "c", "phases": [short, report]})
    assert made == Cascade.model_validate({"cascade_id": "c", "phases": [long, report, fallback]})
    dumped = made.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert Cascade.model_validate(dumped) == made
