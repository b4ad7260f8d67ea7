"""Limits of a run and of a phase: tokens, seconds, turns; and what several runs share."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, by_phase, calls, cascade, phase
from tests.engine.harness import call as called
from tests.support.engine_budget import ENDLESS, MODEL, MOST_OUT, SMALL, Priced, loops
from tests.tasks.making import atomic, reduce
from windlass.engine.result import Result
from windlass.errors import CascadeError, UsageError
from windlass.providers.scripted import Scripted
from windlass.providers.spending import Allowance
from windlass.wire.base import Request, Usage

IN_ALL = SMALL.tokens_in + SMALL.tokens_out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def run(folder: Path, made: Any, provider: Scripted, **options: Any) -> Result:
    """Run a cascade with a scripted model."""
    name = MODEL if isinstance(provider, Priced) else "scripted/m"
    return await windlass.run(
        made,
        model=name,
        store=folder / "store",
        providers={name.partition("/")[0]: provider},
        **options,
    )


def told_of(result: Result, reason: str) -> dict[str, Any]:
    """What a run says of the limit that ended it."""
    assert (result.status, result.reason, result.error) == ("incomplete", reason, None)
    told = dict(result.notes["budget"])
    assert told["reason"] == reason
    return told


@pytest.mark.parametrize("declared", [True, False])
async def test_tokens_end_a_run_before_the_call_that_could_pass_them(
    folder: Path, declared: bool
) -> None:
    provider = Priced(loops, SMALL)
    if declared:
        result = await run(folder, {**ENDLESS, "limits": {"max_tokens": 2_000}}, provider)
    else:
        result = await run(folder, ENDLESS, provider, max_tokens=2_000)
    told = told_of(result, "tokens")
    sent = len(provider.requests)
    assert told["spent"] == sent * IN_ALL
    assert told["spent"] + told["next_call"] > 2_000
    assert told["next_call"] > MOST_OUT
    assert told["spent"] - IN_ALL + told["next_call"] <= 2_000 + 60
    assert result.output == "So far."
    assert 3 < sent < 20


async def test_turns_are_calls_and_each_counts(folder: Path) -> None:
    for turns in (1, 4):
        provider = Scripted(loops)
        result = await run(folder, ENDLESS, provider, max_turns=turns)
        told = told_of(result, "turns")
        assert told["spent"] == told["budget"] == len(provider.requests) == turns
    provider = Scripted(by_phase({}))
    result = await run(folder, cascade(phase("a"), phase("b")), provider, max_turns=2)
    assert result.status == "completed", "the limit itself may be reached"


async def test_after_the_time_neither_a_call_nor_a_tool_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("windlass.providers.spending.time", clock)
    ran: list[float] = []

    def wait() -> str:
        """Wait."""
        nonlocal now
        ran.append(now)
        now += 0.2
        return "waited"

    made = cascade(phase("a", tackle=["wait"], rules={"max_turns": 90}))
    provider = Scripted(lambda _: calls(called("wait")))
    result = await run(folder, made, provider, tools=[wait], max_seconds=0.5)
    told = told_of(result, "time")
    assert told["budget"] == 0.5
    assert ran == pytest.approx([0, 0.2, 0.4])
    assert len(provider.requests) == 3

    class Slow(Scripted):
        async def send(self, request: Request, on_text: Any) -> Any:
            nonlocal now
            now += 0.3
            return await super().send(request, on_text)

    ran.clear()
    slow = Slow(lambda _: calls(called("wait")))
    told_of(await run(folder, made, slow, tools=[wait], max_seconds=0.2), "time")
    assert (len(slow.requests), ran) == (1, []), "the reply is kept, its tool is not begun"


async def test_the_limits_of_a_phase_end_the_run_there(folder: Path) -> None:
    made = cascade(
        phase("a"),
        phase("b", tackle=["set_state"], rules={"max_turns": 30, "max_tokens": 1_000}),
        phase("c"),
        max_output_tokens=MOST_OUT,
    )
    provider = Priced(
        lambda r: (
            loops(r) if "Do b." in r.messages[-1].text or r.messages[-1].role == "tool" else "ok"
        ),
        SMALL,
    )
    result = await run(folder, made, provider, session_id="s1")
    told = told_of(result, "tokens")
    assert told["of"] == "phase 'b'"
    assert told["spent"] == (len(provider.requests) - 1) * IN_ALL, "phase a is not b's"
    assert 1 < len(provider.requests) < 12
    house = House(folder)
    ends = [(each.phase, each.status, each.reason) for each in house.open_store().outcomes("s1")]
    assert ends == [
        ("a", "completed", None),
        ("b", "incomplete", "tokens"),
        (None, "incomplete", "tokens"),
    ]
    house.close()


async def test_soundings_and_sub_cascades_count(folder: Path) -> None:
    sounded = cascade(phase("a", soundings={"factor": 3, "evaluator_instructions": "Best?"}))
    provider = Scripted(by_phase({}))
    result = await run(folder, {**sounded, "limits": {"max_turns": 3}}, provider)
    # The evaluator could not be asked, and what stands is taken as before.
    assert len(provider.requests) == 3
    whole = cascade(phase("a"), soundings={"factor": 3, "evaluator_instructions": "Best?"})
    provider = Scripted(by_phase({}))
    result = await run(folder, {**whole, "limits": {"max_turns": 2}}, provider)
    assert len(provider.requests) == 2, "the attempts share the limit"
    child = cascade(phase("in", tackle=["set_state"], rules={"max_turns": 30}))
    (folder / "child.json").write_text(
        json.dumps({**child, "cascade_id": "child", "limits": {"max_turns": 2}})
    )
    parent = cascade(phase("a"), phase("p", sub_cascades=[{"ref": "child.json"}]))
    provider = Scripted(lambda r: loops(r) if len(provider.requests) > 1 else "ok")
    result = await run(folder, parent, provider)
    assert told_of(result, "turns")["of"] == "sub-cascade 'child'"
    assert len(provider.requests) == 3
    provider = Scripted(lambda r: loops(r) if len(provider.requests) > 1 else "ok")
    ruled = cascade(
        phase("a"), phase("p", sub_cascades=[{"ref": "child.json"}]), limits={"max_turns": 2}
    )
    assert told_of(await run(folder, ruled, provider), "turns")["of"] == "the run"
    assert len(provider.requests) == 2


async def test_several_runs_share_what_they_are_handed(folder: Path) -> None:
    shared = Allowance("the batch", max_turns=5)
    provider = Scripted(by_phase({}))
    made = cascade(phase("a"), phase("b"))
    ended = await asyncio.gather(
        *(run(folder, made, provider, allowances=[shared]) for _ in range(4))
    )
    assert len(provider.requests) == 5
    assert {each.status for each in ended} <= {"completed", "incomplete"}
    assert [each for each in ended if each.status == "incomplete"]
    for each in ended:
        if each.status == "incomplete":
            assert told_of(each, "turns")["of"] == "the batch"


async def test_tasks_in_xml_have_limits_too(folder: Path) -> None:
    (folder / "lines.txt").write_text("\n".join(f"line {number}" for number in range(30)))
    (folder / "t.xml").write_text(reduce('<file split="lines">lines.txt</file>', parallel=4))
    provider = Scripted(lambda _: "ok")
    options: dict[str, Any] = {"model": "scripted/m", "store": folder / "store"}
    options["providers"] = {"scripted": provider}
    result = await windlass.evaluate(folder / "t.xml", max_turns=7, session_id="s1", **options)
    told_of(result, "turns")
    assert len(provider.requests) == 7
    again = await windlass.resume_task("s1", **options)
    assert again.status == "completed"
    assert len(provider.requests) == 31
    rules = "<rules><max_turns>9</max_turns><max_tokens>5</max_tokens></rules>"
    (folder / "one.xml").write_text(atomic("x", rules))
    result = await windlass.evaluate(folder / "one.xml", **options)
    assert told_of(result, "tokens")["of"] == "task 'x'"
    assert len(provider.requests) == 31


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tokens": 0}, "max_tokens 0 must be a number above 0"),
        ({"max_seconds": float("nan")}, "max_seconds nan must be a number above 0"),
        ({"max_turns": -1}, "max_turns -1 must be a number above 0"),
    ],
)
async def test_a_limit_is_an_amount(folder: Path, options: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await run(folder, ENDLESS, Scripted(loops), **options)
    assert not (folder / "store").exists()


async def test_a_mistake_in_declared_limits_is_found_before_the_run(folder: Path) -> None:
    for keys in ({"limits": {"max_token": 5}}, {"limits": {"max_seconds": 0}}):
        with pytest.raises(CascadeError, match="limits"):
            await run(folder, cascade(phase("a"), **keys), Scripted(loops))
    priced = cascade(phase("a", rules={"budget": 0.5}))
    with pytest.raises(UsageError, match="no known price"):
        await run(folder, priced, Priced(loops, Usage(1, 1)))
    assert not (folder / "store").exists()
