"""A window that is handed back changes nothing more, in each form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_forms import LISTS
from windlass.context.bound import forget
from windlass.context.window import ChatWindow

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "tau2_retail.json").read_text(encoding="utf-8")
)["messages"]
MODEL = "anthropic/claude-sonnet-4-5"


def bash(number: int, text: str) -> list[dict[str, Any]]:
    """A call of a shell and its result."""
    function = {"name": "bash", "arguments": json.dumps({"command": f"./step{number}"})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def check(messages: list[Any], **options: Any) -> ChatWindow:
    """Hold that the window of a window is the same; gives the first one."""
    forget()
    window = windlass.bound(messages, **options)
    forget()
    again = windlass.bound(window.messages, **options)
    assert again.messages == window.messages
    assert {one.action for one in again.entries} <= {"shown"}
    return window


@st.composite
def runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Results of many sizes, of which some repeat what others show."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Find the fault."}]
    lines = [f"step {n}: value {n * 37} of module_{n} in src/part{n}.py" for n in range(240)]
    for number in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, 200))
        text = "\n".join(lines[first : first + draw(st.sampled_from([1, 4, 12, 40]))])
        said += bash(number, text + draw(st.sampled_from(["", "\nok", "\nERROR: no"])))
        if draw(st.booleans()):
            said.append({"role": "user", "content": draw(st.sampled_from(["Go on.", text]))})
    return said


class TestHandedBack:
    @given(runs(), st.sampled_from(["default", "lean"]), st.sampled_from([None, MODEL]))
    def test_results_of_many_sizes(
        self, messages: list[Any], policy: str, model: str | None
    ) -> None:
        forget()
        window = windlass.bound(messages, policy=policy, model=model)
        forget()
        again = windlass.bound(window.messages, policy=policy, model=model)
        # What was shortened stays as it is. A result that was shown whole may yet become shorter:
        # a run of its lines can stand better in what is shown now.
        for said, shown, later in zip(messages, window.messages, again.messages, strict=True):
            assert later == shown or (shown == said and len(str(later)) < len(str(said)))

    @pytest.mark.parametrize("form", LISTS)
    @pytest.mark.parametrize("model", [None, MODEL])
    def test_in_each_form(self, form: str, model: str | None) -> None:
        for turns in (1, 2, 3, 5, 8):
            check(LISTS[form](turns), policy="lean", model=model)

    @pytest.mark.parametrize("model", [None, MODEL])
    def test_a_recording_at_each_length(self, model: str | None) -> None:
        windows = [check(RECORDED[:count], model=model) for count in range(1, len(RECORDED) + 1)]
        assert any(one.action == "replaced" for one in windows[-1].entries)

    @pytest.mark.parametrize("options", [{}, {"recall": True}, {"way_back": ""}])
    def test_a_result_cut_at_both_ends(self, options: dict[str, Any]) -> None:
        text = "\n".join(f"value_{n} = call_of_{n * 7}()  # part {n} of it" for n in range(2_000))
        function = {"name": "read_file", "arguments": '{"path": "a.py"}'}
        call = {"id": "c1", "type": "function", "function": function}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": text},
        ]
        cut = check(messages, **options)
        assert "Full data: " in cut.messages[2]["content"]
        for number in range(2, 30):
            messages += bash(number, "ok")
        check(messages, **options)

    def test_what_is_referred_to_stays(self) -> None:
        shown = "\n".join(f"state of part {n}: value {n * 37}" for n in range(40))
        messages = [{"role": "user", "content": "go"}, *bash(1, shown), *bash(2, f"ok\n{shown}")]
        window = check(messages)
        assert " of result_" in window.messages[-1]["content"]
        assert window.messages[2] is messages[2]

    def test_words_that_were_cut_are_not_cut_again(self) -> None:
        words = "I look at the next part of it. " * 100
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        for _ in range(3):
            messages += [{"role": "assistant", "content": words}, {"role": "user", "content": "on"}]
        window = check(messages, recall=True)
        assert "truncated for context efficiency" in window.messages[1]["content"]

    def test_what_comes_later_is_shortened(self) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        for number in range(4):
            messages += bash(number, "\n".join(f"line {n} of {number}" for n in range(300)))
        messages = [*windlass.bound(messages, policy={"cuts": None}, recall=True).messages]
        for number in range(4, 8):
            messages += bash(number, "\n".join(f"line {n} of {number}" for n in range(300)))
            messages = [*windlass.bound(messages, policy={"cuts": None}, recall=True).messages]
        whole = [one for one in messages if one["role"] == "tool" and len(one["content"]) > 2_000]
        assert whole == messages[-1:]

    def test_a_result_that_quotes_a_mark_brings_nothing_back(self) -> None:
        context = windlass.Context()
        context.append({"role": "user", "content": "go"})
        for number in range(3):
            for one in bash(number, "\n".join(f"line {n} of {number}" for n in range(300))):
                context.append(one)
        before = context.window().messages
        for one in bash(3, "[2942 chars: result_d5670174]\nFAILED test_one"):
            context.append(one)
        assert context.window().messages[: len(before) - 1] == before[:-1]
