"""Steps are told apart by what they are: not by how they are worded, nor by what was said."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_resume import Gone, Model, resumed
from windlass.engine.resume.journal import Journal, TurnRecord
from windlass.errors import ToolError
from windlass.history.base import NodeType
from windlass.history.packing import read_details
from windlass.history.row_details import (
    INTERRUPTED_TEXT,
    RowDetails,
    ToolResult,
    ToolsStarted,
    json_of,
)
from windlass.history.step import Step
from windlass.providers.scripted import Scripted
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool
from windlass.wire.base import Request


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("a", None, 1, 3), "phase a, attempt 1, turn 3"),
        (Step("a, b", 2, 1, 3, repeat=1), "phase a, b, sounding 2, attempt 1, turn 3, again 1"),
        (Step("a", 0, 2, 1, "text"), "phase a, sounding 0, attempt 2, turn 1, text"),
        (
            Step("a", None, 1, 0, "choice of tools"),
            "phase a, attempt 1, turn 0, choice of tools",
        ),
        (
            Step("a, attempt 4", asks="evaluator", repeat=2),
            "phase a, attempt 4, evaluator, again 2",
        ),
        (Step("x[0]", asks="notes", repeat=1), "notes on x[0], again 1"),
    ],
)
def test_the_words_of_earlier_versions_are_read(step: Step, words: str) -> None:
    for recorded in (words, step.as_json()):
        data: dict[str, Any] = {"kind": "started", "step": recorded, "tools": []}
        told = read_details(NodeType.DECISION, data, step.phase, None)
        assert told == ToolsStarted(step, [])


def test_forgetting_a_phase_leaves_one_whose_name_begins_alike() -> None:
    names = ("a", "a, b", "ab")
    journal = Journal(turns={Step(name, None, 1, 1): TurnRecord() for name in names})
    journal.next_step(Step("a", None, 1, 1))
    journal.next_step(Step("a, b", None, 1, 1))
    journal.forget("a")
    assert [step.phase for step in journal.turns] == ["a, b", "ab"]
    assert [step.phase for step in journal.passed] == ["a, b"]


async def broken_off(
    house: House, whole: dict[str, Any], at: int, script: Any, **more: Any
) -> None:
    with pytest.raises(Gone):
        await house.run(whole, Model(at, script), session_id="s", **more)


def said(request: Request) -> str:
    return f"said of {request.messages[-1].text}"


async def test_a_phase_named_like_a_sounding_of_another_has_answers_of_its_own(
    house: House,
) -> None:
    tried = {"factor": 2, "evaluator": {"function": "first"}}

    def first(outputs: list[str]) -> int:
        """Pick."""
        return 0

    whole = cascade(phase("a", soundings=tried), phase("a, sounding 0"), phase("z"))
    await broken_off(house, whole, 4, said, tools=[first])
    result, asked = await resumed(house, said, [first])
    assert (result.status, len(asked)) == ("completed", 1)
    assert result.outputs["a"] == "said of Do a."
    assert result.outputs["a, sounding 0"] == "said of Do a, sounding 0."


async def test_equal_outputs_of_two_soundings_have_verdicts_of_their_own(house: House) -> None:
    verdicts = [True, False, False]

    def good(output: str) -> bool:
        """Check."""
        return verdicts.pop(0)

    def second(outputs: list[str]) -> int:
        """Pick."""
        return len(outputs) - 1

    rules = {"loop_until": "good", "max_attempts": 2, "on_exhausted": "continue"}
    tried = {"factor": 2, "max_parallel": 1, "evaluator": {"function": "second"}}
    whole = cascade(phase("a", soundings=tried, rules=rules), phase("z"))
    await broken_off(house, whole, 4, lambda _: "the same", tools=[good, second])
    assert verdicts == []
    result, asked = await resumed(house, lambda _: "the end", [good, second])
    assert (result.status, len(asked), verdicts) == ("incomplete", 1, [])
    rows = house.open_store().rows("s")
    judged = [(r.row.sounding_index, json_of(r.row)["valid"]) for r in rows if _validates(r.row)]
    assert judged == [(0, True), (1, False), (1, False)]


def _validates(row: Any) -> bool:
    return bool(row.node_type == NodeType.VALIDATION)


async def test_a_result_that_reads_like_an_interrupted_one_is_a_result(house: House) -> None:
    ran: list[str] = []

    @tool(effects="external")
    def mail(to: str) -> str:
        """Mail.

        Args:
            to: To whom.
        """
        ran.append(to)
        raise ToolError(INTERRUPTED_TEXT)

    def script(request: Request) -> Any:
        if request.messages[-1].role == "tool":
            return "Not mailed."
        return calls(call("mail", '{"to": "x"}', id_="c1"))

    whole = cascade(phase("a", tackle=["mail"]))
    await broken_off(house, whole, 2, script, tools=[mail])
    result, asked = await resumed(house, script, [mail])
    assert (result.output, len(asked), ran) == ("Not mailed.", 1, ["x"])
    assert [message.text for message in asked[0].messages][-1] == INTERRUPTED_TEXT
    rows = [stored.row for stored in house.open_store().rows("s")]
    told = [details for row in rows if (details := ToolResult.read(row)) is not None]
    assert [(each.error, each.interrupted) for each in told] == [(True, False)]


async def test_state_is_recorded_once_however_it_is_written(house: House) -> None:
    def keep(context: ToolContext) -> str:
        """Keep.

        Args:
            context: What the run provides.
        """
        context.state["kept"] = {"b": (1, 2), "a": {"z": 1, "y": 2}}
        return "kept"

    def script(request: Request) -> Any:
        last = request.messages[-1]
        return "done" if last.role == "tool" or "b" in last.text else calls(call("keep", id_="c1"))

    whole = cascade(phase("a", tackle=["keep"]), phase("b"))
    await broken_off(house, whole, 3, script, tools=[keep])
    result, asked = await resumed(house, script, [keep])
    assert (result.status, len(asked)) == ("completed", 1)
    changes = house.open_store().state("s")
    assert [(change.phase, change.key) for change in changes] == [("a", "kept")]


async def test_a_session_of_an_earlier_version_is_gone_on_with(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps are recorded in words, and an interrupted result by its text."""
    whole = cascade(phase("a"), phase("b", rules={"loop_until": "good"}), phase("z"))

    def good(output: str) -> bool:
        """Check."""
        judged.append(output)
        return True

    def in_words(
        told: RowDetails, as_json: Callable[[RowDetails], dict[str, Any]]
    ) -> dict[str, Any]:
        step = getattr(told, "step", None)
        return as_json(told) | ({} if step is None else {"step": str(step)})

    judged: list[str] = []
    with monkeypatch.context() as earlier:
        earlier.setattr(RowDetails, "as_json", partialmethod(in_words, RowDetails.as_json))
        await broken_off(house, whole, 3, said, tools=[good])
    ran = Ran(None, Scripted(said), house.open_store(), [])  # type: ignore[arg-type]
    rows = [stored.row for stored in ran.store.rows("s")]
    assert "phase b, attempt 1, turn 1" in [json_of(row).get("step") for row in rows]
    result, asked = await resumed(house, said, [good])
    assert (result.status, len(asked), len(judged)) == ("completed", 1, 1)
