"""Wards: validators that guard the input, the replies and the output of a phase."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.engine.harness import House, call, calls, cascade, phase
from tests.support import steps
from tests.support.engine_resume import resumed
from windlass.cli.app import app
from windlass.errors import WardRefused
from windlass.wire.base import Request

NAMES, SHORT = "tests.support.steps:no_names", "tests.support.steps:short"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    steps.ran.clear()
    steps.judged.clear()
    house = House(tmp_path)
    yield house
    house.close()


def guarded(**wards: Any) -> dict[str, Any]:
    """A cascade of a phase with these wards."""
    return cascade(phase("write", wards=wards))


async def test_a_blocking_ward_refuses_the_input_before_anything_is_sent(house: House) -> None:
    ran = await house.run(guarded(pre=[NAMES]), {}, {"who": "Ann"})
    assert ran.result.status == "failed"
    assert isinstance(ran.result.error, WardRefused)
    assert str(ran.result.error) == f"phase 'write': its input is blocked: {NAMES}: it names Ann"
    assert not ran.model.requests
    assert [json.loads(text) for text in steps.judged] == [{"who": "Ann"}]
    ran = await house.run(guarded(pre=[NAMES]), {}, {"who": "Bob"})
    assert ran.result.output == "ok write"


async def test_an_advisory_ward_only_notes(house: House) -> None:
    wards = [{"validator": NAMES, "mode": "advisory"}]
    ran = await house.run(guarded(pre=wards, post=wards), {"write": ["Ann"]}, {"who": "Ann"})
    assert ran.result.output == "Ann"
    noted = [(row["place"], row["valid"], row["mode"]) for row in ran.decisions("ward")]
    assert noted == [("pre", False, "advisory"), ("post", False, "advisory")]


async def test_all_wards_of_an_output_are_asked_and_told_at_once(house: House) -> None:
    said = "Ann, and a long story of her"
    ran = await house.run(guarded(post=[NAMES, {"validator": SHORT}]), {"write": [said]})
    assert str(ran.result.error) == (
        f"phase 'write': what it says is blocked: {NAMES}: it names Ann; {SHORT}: it is too long"
    )
    retry = [{"validator": each, "mode": "retry"} for each in (NAMES, SHORT)]
    ran = await house.run(guarded(post=retry), {"write": [said, "A story"]})
    assert ran.result.output == "A story"
    (retried,) = [text for role, text in ran.seen("write", 2) if "Validation Failed" in text]
    assert "it names Ann" in retried
    assert "it is too long" in retried


@pytest.mark.req("AC-104")
async def test_a_ward_has_its_own_number_of_attempts_and_lets_the_last_pass(house: House) -> None:
    ward = {"validator": NAMES, "mode": "retry", "max_attempts": 2}
    rules = {"loop_until": SHORT, "max_attempts": 2}
    made = cascade(phase("write", wards={"post": [ward]}, rules=rules))
    long = "a story that is much too long"
    ran = await house.run(made, {"write": ["Ann", long, "Ann"]})
    assert ran.result.output == "Ann"
    assert ran.result.status == "completed"
    assert len(ran.model.requests) == 3
    assert [row["valid"] for row in ran.decisions("ward")] == [False, False]


async def test_turn_wards_judge_each_reply(house: House) -> None:
    ward = {"validator": NAMES, "mode": "retry"}
    made = cascade(phase("write", tackle=["list_files"], wards={"turn": [ward]}))
    script = [calls(call("list_files"), text="I look for Ann."), "Found Ann.", "Found her."]
    ran = await house.run(made, {"write": script})
    assert steps.judged == ["I look for Ann.", "Found Ann.", "Found her."]
    assert ran.result.output == "Found her."
    assert "it names Ann" in ran.seen("write", 2)[-1][1]
    assert "it names Ann" in ran.seen("write", 3)[-1][1]
    blocked = await house.run(guarded(turn=[NAMES]), {"write": ["Ann"]})
    assert isinstance(blocked.result.error, WardRefused)


async def test_wards_run_in_each_sounding(house: House) -> None:
    sounded = phase(
        "write",
        wards={"post": [NAMES]},
        soundings={"factor": 2, "evaluator_instructions": "The better."},
    )
    ran = await house.run(cascade(sounded), {"write": ["Ann", "Bob"]})
    assert ran.result.output == "Bob"
    assert sorted(steps.judged) == ["Ann", "Bob"]


async def test_a_resumed_run_takes_verdicts_from_its_record(house: House) -> None:
    made = cascade(
        phase("write", wards={"pre": [SHORT], "post": [NAMES], "turn": [SHORT]}), phase("end")
    )

    def gone(request: Request) -> str:
        if "Do end." in request.messages[-1].text:
            raise KeyboardInterrupt
        return "a tale"

    with pytest.raises(KeyboardInterrupt):
        await house.run(made, gone, session_id="s")
    assert steps.judged == ["{}", "a tale", "a tale"]
    result, _ = await resumed(house, lambda _: "done", (), trust=True)
    assert result.status == "completed"
    assert steps.judged == ["{}", "a tale", "a tale"]


async def test_a_resumed_run_counts_what_a_ward_took(house: House) -> None:
    polite = {"instructions": "Is this polite? {{ content }}"}
    again = {"validator": "polite", "mode": "retry"}
    made = cascade(phase("write", wards={"post": [again]}), validators={"polite": polite})
    gone = True

    def script(request: Request) -> str:
        if "Is this polite?" in request.messages[-1].text:
            valid = "Please" in request.messages[-1].text
            return json.dumps({"valid": valid, "reason": "it is rude"})
        if not any("it is rude" in each.text for each in request.messages):
            return "Go away."
        if gone:
            raise KeyboardInterrupt
        return "Please go."

    with pytest.raises(KeyboardInterrupt):
        await house.run(made, script, session_id="s")
    gone = False
    result, asked = await resumed(house, script, ())
    assert [each.messages[-1].text[:15] for each in asked][-1] == "Is this polite?"
    assert len(asked) == 2  # the second attempt, and the ward's question about it
    usage, whole = result.usage, (await house.run(made, script)).result.usage
    assert (usage.tokens_in, usage.tokens_out) == (whole.tokens_in, whole.tokens_out)


async def test_wards_guard_a_tool_phase(house: House) -> None:
    load = {
        "name": "load",
        "tool": "tests.support.steps:read_orders",
        "inputs": {"path": "{{ input.path }}"},
        "wards": {"post": [NAMES]},
    }
    ran = await house.run(cascade(load), {}, {"path": "Ann"})
    assert isinstance(ran.result.error, WardRefused)
    ran = await house.run(cascade(load), {}, {"path": "Bob"})
    assert ran.result.status == "completed"


async def test_a_ward_may_ask_a_model(house: House) -> None:
    made = guarded(post=["polite"]) | {
        "validators": {"polite": {"instructions": "Is this polite? {{ content }}"}}
    }

    def script(request: Request) -> str:
        polite = "Is this polite?" in request.messages[-1].text
        return '{"valid": false, "reason": "it is rude"}' if polite else "Go away."

    ran = await house.run(made, script)
    assert str(ran.result.error) == "phase 'write': what it says is blocked: polite: it is rude"
    ran = await house.run(guarded(pre=["polite"]) | {"validators": made["validators"]}, script)
    assert "its input is blocked: polite: it is rude" in str(ran.result.error)


def test_a_dry_run_counts_what_wards_may_ask(tmp_path: Path) -> None:
    def most_calls(wards: str) -> int:
        file = tmp_path / "c.yaml"
        file.write_text(
            "cascade_id: c\nvalidators: {polite: {instructions: 'Polite? {{ content }}'}}\n"
            "phases:\n"
            f"  - {{name: write, instructions: Write., rules: {{max_turns: 1}}, wards: {wards}}}\n"
        )
        told = CliRunner().invoke(app, ["run", str(file), "--dry-run", "--json"])
        return int(json.loads(told.output)["most_calls"])

    without = most_calls("{}")
    assert most_calls("{pre: [polite]}") == without + 1
    retry = "{validator: polite, mode: retry, max_attempts: 2}"
    assert most_calls(f"{{post: [{retry}]}}") > without + 2
