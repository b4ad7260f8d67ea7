"""What providers want back of a model's reasoning stays where it was, whatever windows shorten.

OpenAI's reasoning items stay with what they led to, the calls of Gemini's current turn keep their
signatures, and DeepSeek's turns with calls keep their `reasoning_content`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import windlass
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from tests.validators import responses as responses_rules

Objects = list[dict[str, Any]]
LOG = "\n".join(
    f"{number:04} compiled module_{number % 7}.py in {number} ms" for number in range(300)
)
NOTE = "I think that the module has to be read once more, and say why at length. " * 60
DEEPSEEK, GPT, GEMINI = "deepseek/deepseek-v4-pro", "openai/gpt-5.6", "gemini/gemini-3-pro-preview"

POLICIES: dict[str, dict[str, Any]] = {
    "default": {"policy": "default"},
    "lean": {"policy": "lean"},
    "at once": {"policy": {"profile": "lean", "commit": "at_once"}},
    "spec": {"policy": {"profile": "spec", "commit": "at_once", "shorten_arguments": True}},
    "decay": {
        "policy": {
            "commit": "at_once",
            "fold_subtasks": True,
            "decay": {"full": 2, "fold": 4},
        }
    },
    "limit": {"policy": "lean", "max_input_tokens": 6_000},
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def arguments(number: int) -> dict[str, Any]:
    """Of a call that reads a file again and again, or writes much to one."""
    if number % 4 == 3:
        return {"path": f"out_{number % 2}.py", "content": f"# {number}\n" + "x = 1\n" * 200}
    return {"path": f"module_{number % 3}.py"}


def name(number: int) -> str:
    return "write_file" if number % 4 == 3 else "read_file"


def text(number: int) -> str:
    """What a call answers: much, the same as before, or an error."""
    if number % 5 == 4:
        return f"Error: module_{number % 3}.py: no such file or directory\n" + "at line 1\n" * 50
    return LOG if number % 2 else f"{number}\n{LOG}"


def turns(last: int) -> Iterator[tuple[int, bool]]:
    """The numbers of the rounds; true where the user says something new before it."""
    return ((number, number % 8 == 0) for number in range(last))


def windows(said: Objects, ends: Callable[[dict[str, Any]], bool], **policy: Any) -> Iterator[Any]:
    """What a loop sees before each of its calls, in one `Context` and by `bound` alone."""
    context = windlass.Context(**policy)
    for at, one in enumerate(said):
        context.append(one)
        if ends(one):
            yield context.window()
            if at % 3 == 0:
                yield windlass.bound(said[: at + 1], **policy)


def is_shorter(messages: Objects, said: Objects) -> bool:
    return len(json.dumps(messages)) < len(json.dumps(said)) * 0.8


class TestOpenAI:
    @staticmethod
    def said() -> Objects:
        items: Objects = []
        for number, new in turns(26):
            if new and items:
                items.append(_thought(f"end{number}"))
                items.append(_answer(f"end{number}", NOTE))
            if new:
                items.append({"role": "user", "content": f"Go on with part {number}."})
            items.append(_thought(str(number)))
            if number % 3 == 0:
                items.append(_answer(str(number), NOTE))
                items.append(_thought(f"more{number}"))
            call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}"}
            items.append({**call, "name": name(number), "arguments": json.dumps(arguments(number))})
            output = {"type": "function_call_output", "call_id": f"c{number}"}
            items.append({**output, "output": text(number)})
        return items

    @every_policy
    def test_no_item_is_without_its_reasoning(self, policy: dict[str, Any]) -> None:
        said = self.said()
        ends = ("function_call_output",)
        for window in windows(said, lambda one: one.get("type") in ends, model=GPT, **policy):
            assert list(responses_rules.broken_pairs(window.messages, said)) == []
            assert responses_rules.problems(window.messages) == []
        assert is_shorter(window.messages, said)


def _thought(ident: str) -> dict[str, Any]:
    thought = {"type": "reasoning", "id": f"rs_{ident}", "summary": []}
    return {**thought, "encrypted_content": f"enc_{ident}"}


def _answer(ident: str, said: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": f"msg_{ident}", "role": "assistant", "content": [part]}


class TestGemini:
    @staticmethod
    def said() -> tuple[Objects, dict[str, str]]:
        contents: Objects = []
        signed: dict[str, str] = {}
        for number, new in turns(26):
            if new and contents:
                contents.append({"role": "model", "parts": [{"text": NOTE}]})
            if new:
                contents.append({"role": "user", "parts": [{"text": f"Go on with {number}."}]})
            signed[f"c{number}"] = f"c2ln{number:04}"
            calls = [
                {"functionCall": {"id": ident, "name": name(number), "args": arguments(number)}}
                for ident in (f"c{number}", f"d{number}")
            ]
            first = {**calls[0], "thoughtSignature": signed[f"c{number}"]}
            contents.append({"role": "model", "parts": [{"text": NOTE}, first, calls[1]]})
            answers = [
                {
                    "functionResponse": {
                        "id": one["functionCall"]["id"],
                        "name": name(number),
                        "response": {"output": text(number)},
                    }
                }
                for one in calls
            ]
            contents.append({"role": "user", "parts": answers})
        return contents, signed

    @every_policy
    def test_the_calls_of_the_current_turn_keep_their_signatures(
        self, policy: dict[str, Any]
    ) -> None:
        said, signed = self.said()

        def ends(one: dict[str, Any]) -> bool:
            return "functionResponse" in one["parts"][0]

        for window in windows(said, ends, model=GEMINI, **policy):
            contents = window.wire("gemini")["contents"]
            for shown in (window.messages, contents):
                assert list(gemini_rules.lost_signatures(shown, signed)) == []
            found = gemini_rules.problems({"contents": contents}, model="gemini-3-pro-preview")
            assert [one for one in found if not re.search("not declared", one)] == []
        assert is_shorter(window.messages, said)


class TestDeepSeek:
    @staticmethod
    def said() -> Objects:
        messages: Objects = []
        for number, new in turns(26):
            thought = {"reasoning_content": f"thought {number}: {NOTE}"}
            if new and messages:
                messages.append({"role": "assistant", "content": NOTE, **thought})
            if new:
                messages.append({"role": "user", "content": f"Go on with part {number}."})
            function = {"name": name(number), "arguments": json.dumps(arguments(number))}
            call = {"id": f"c{number}", "type": "function", "function": function}
            said = {"role": "assistant", "content": NOTE, "tool_calls": [call], **thought}
            messages.append(said)
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text(number)})
        return messages

    @every_policy
    def test_a_turn_with_calls_keeps_its_reasoning(self, policy: dict[str, Any]) -> None:
        said = self.said()
        thoughts = {one["reasoning_content"] for one in said if "reasoning_content" in one}
        for window in windows(said, lambda one: one["role"] == "tool", model=DEEPSEEK, **policy):
            sent = window.wire("openai")["messages"]
            assert all("reasoning_content" in one for one in sent if one["role"] == "assistant")
            for shown in (window.messages, sent):
                body = {"model": "deepseek-v4-pro", "messages": shown}
                found = openai_rules.problems(body)
                assert [one for one in found if "reasoning_content" in one] == []
                assert {one.get("reasoning_content", "") for one in shown} <= {*thoughts, ""}
        assert is_shorter(window.messages, said)
