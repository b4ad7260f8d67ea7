"""`recall_tool` and `answer`: the way back to originals in a loop, in each of the four forms."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import ToolParam, ToolUseBlock
from google import genai
from google.genai import types
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
from pydantic import TypeAdapter

import windlass
from tests.context import loops
from tests.providers.model_server import log, model_server, reads_logs
from tests.strategies import png
from tests.support.context_documented_windows import called, idle, result, user
from windlass.errors import UsageError

AT_ONCE = {"commit": "at_once"}
LOG = log(2)
LOGS = [log(number) for number in range(3)]
NOTE = re.compile(r"characters: call read_log again for all of it, (result_[0-9a-f]{8})")
READ = [user("Go."), called(1, "read_log", {}), result(1, LOG)]
REF = windlass.bound(READ).entries[2].reference


def context(**options: Any) -> windlass.Context:
    """A conversation in which a log was read."""
    made = windlass.Context(policy=AT_ONCE, **options)
    for message in READ:
        made.append(message)
    return made


def claude_call(given: Any, name: str = "recall") -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}


def chat_call(given: Any, name: str = "recall") -> dict[str, Any]:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(given)},
    }


def flat_call(given: Any, name: str = "recall") -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": "call_1",
        "name": name,
        "arguments": json.dumps(given),
    }


def gemini_call(given: Any, name: str = "recall") -> dict[str, Any]:
    return {"functionCall": {"id": "call_1", "name": name, "args": given}}


CALLS: dict[str, Callable[..., dict[str, Any]]] = {
    "anthropic": claude_call,
    "openai": chat_call,
    "responses": flat_call,
    "gemini": gemini_call,
}


def said(answer: Any) -> Any:
    """The text that a result says."""
    if "functionResponse" in answer:
        return answer["functionResponse"]["response"]["output"]
    return answer.get("content", answer.get("output"))


class TestTool:
    def test_it_is_what_the_official_clients_take(self) -> None:
        TypeAdapter(ToolParam).validate_python(windlass.recall_tool("anthropic"))
        assert windlass.recall_tool("openai")["function"]["name"] == "recall"
        TypeAdapter(FunctionToolParam).validate_python(windlass.recall_tool("responses"))
        config = types.GenerateContentConfig(tools=[windlass.recall_tool("gemini")])
        for tool in (types.Tool(**windlass.recall_tool("gemini")), *(config.tools or ())):
            assert isinstance(tool, types.Tool)
            assert [one.name for one in tool.function_declarations or ()] == ["recall"]

    @pytest.mark.parametrize("form", CALLS)
    def test_it_is_the_tool_that_a_context_adds(self, form: Any) -> None:
        (added,) = context(recall=True).tools_in(form)
        assert windlass.recall_tool(form) == added
        windlass.recall_tool(form).clear()
        assert windlass.recall_tool(form) == added

    def test_another_form_is_a_mistake(self) -> None:
        with pytest.raises(UsageError, match="did you mean 'openai'"):
            windlass.recall_tool("opnai")  # type: ignore[arg-type]


class TestAnswer:
    @pytest.mark.parametrize(
        ("block", "head"),
        [
            (claude_call({"ref": REF}), {"type": "tool_result", "tool_use_id": "toolu_1"}),
            (
                ToolUseBlock.model_validate(claude_call({"ref": REF})),
                {"type": "tool_result", "tool_use_id": "toolu_1"},
            ),
            (
                {"id": "toolu_1", "name": "recall", "input": json.dumps({"ref": REF})},
                {"type": "tool_result", "tool_use_id": "toolu_1"},
            ),
            (chat_call({"ref": REF}), {"role": "tool", "tool_call_id": "call_1"}),
            (
                ChatCompletionMessageFunctionToolCall.model_validate(chat_call({"ref": REF})),
                {"role": "tool", "tool_call_id": "call_1"},
            ),
            (
                ChoiceDeltaToolCall.model_validate({"index": 0, **chat_call({"ref": REF})}),
                {"role": "tool", "tool_call_id": "call_1"},
            ),
            (
                {"id": "call_1", "function": {"name": "recall", "arguments": {"ref": REF}}},
                {"role": "tool", "tool_call_id": "call_1"},
            ),
            (flat_call({"ref": REF}), {"type": "function_call_output", "call_id": "call_1"}),
            (
                ResponseFunctionToolCall.model_validate(flat_call({"ref": REF})),
                {"type": "function_call_output", "call_id": "call_1"},
            ),
            (gemini_call({"ref": REF}), {}),
            (types.Part.model_validate(gemini_call({"ref": REF})), {}),
            (types.FunctionCall(id="call_1", name="recall", args={"ref": REF}), {}),
            ({"function_call": {"id": "call_1", "name": "recall", "args": {"ref": REF}}}, {}),
            (
                SimpleNamespace(type="tool_use", id="toolu_1", name="recall", input={"ref": REF}),
                {"type": "tool_result", "tool_use_id": "toolu_1"},
            ),
        ],
    )
    def test_it_has_the_form_of_the_call(self, block: Any, head: dict[str, Any]) -> None:
        answer = context().answer(block)
        assert said(answer) == LOG
        assert {key: answer[key] for key in head} == head
        if not head:
            assert answer["functionResponse"]["id"] == "call_1"
            assert answer["functionResponse"]["name"] == "recall"
            types.Content(role="user", parts=[answer])

    def test_a_call_of_gemini_may_have_no_id(self) -> None:
        answer = context().answer(types.FunctionCall(name="recall", args={"ref": REF}))
        assert answer["functionResponse"].keys() == {"name", "response"}

    @pytest.mark.parametrize("form", CALLS)
    def test_parts_and_mistakes_of_a_model(self, form: str) -> None:
        loop = context()

        def asked(given: Any) -> Any:
            return said(loop.answer(CALLS[form](given)))

        first, second = LOG.split("\n")[:2]
        assert asked({"ref": REF, "part": "lines 1-2"}) == f"1: {first}\n2: {second}"
        assert asked({"ref": REF, "lines": "2", "part": None}) == f"2: {second}"
        assert "names no message here" in asked({"ref": "result_00000000"})
        assert "ref is a text, not 7" in asked({"ref": 7})
        assert asked({"part": "1-2"}).startswith("recall takes ref")
        assert asked({"ref": REF, "page": 2}) == "recall takes ref and part, not 'page'"
        assert asked([REF]).startswith("recall: the arguments are no object" if form != "x" else "")

    @pytest.mark.parametrize("arguments", ["{", "", "7", "null"])
    def test_arguments_that_are_no_object_are_told(self, arguments: str) -> None:
        call = {"id": "c", "function": {"name": "recall", "arguments": arguments}}
        text = context().answer(call)["content"]
        assert text.startswith(("recall: the arguments are no ", "recall takes ref"))

    @pytest.mark.parametrize(
        "block",
        [
            *(make({"ref": REF}, "read_log") for make in CALLS.values()),
            {"type": "text", "text": "recall"},
            {"type": "thinking", "thinking": "recall", "signature": "x"},
            {"type": "server_tool_use", "id": "s", "name": "recall", "input": {}},
            {"type": "message", "role": "assistant", "content": "x"},
            {"text": "recall"},
            types.Part(text="recall"),
            {},
        ],
    )
    def test_what_is_no_call_of_it_is_none_of_ours(self, block: Any) -> None:
        assert context().answer(block) is None

    @pytest.mark.parametrize("block", [None, "recall", [claude_call({"ref": REF})], 7])
    def test_what_is_no_call_at_all_is_a_mistake(self, block: Any) -> None:
        with pytest.raises(UsageError, match="answer takes one call of a model"):
            context().answer(block)

    def test_a_window_answers_as_its_context_does(self) -> None:
        loop = context()
        assert loop.window().answer(claude_call({"ref": REF}))["content"] == LOG

    def test_pictures_come_back_where_a_result_has_a_place_for_them(self) -> None:
        data = base64.b64encode(png(64, 48)).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        shown = [{"type": "image", "source": source}, {"type": "text", "text": "A chart."}]
        call = {"type": "tool_use", "id": "t1", "name": "plot", "input": {}}
        loop = windlass.Context(policy=AT_ONCE, recall=True)
        loop.append(user("Go."))
        loop.append({"role": "assistant", "content": [call]})
        loop.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": shown}],
            }
        )
        ref = loop.window().entries[2].reference
        content = loop.answer(claude_call({"ref": ref}))["content"]
        assert {"type": "image", "source": source} in content
        output = loop.answer(flat_call({"ref": ref}))["output"]
        assert [one["image_url"] for one in output if one["type"] == "input_image"] == [
            f"data:image/png;base64,{data}"
        ]
        assert "64x48" in loop.answer(chat_call({"ref": ref}))["content"]


def claude(client: Any, mine: Callable[[int], str]) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": loops.TASK}]
    tools = [*loops.CLAUDE_TOOLS, windlass.recall_tool("anthropic")]
    while True:
        answer = client.messages.create(
            model="claude-sonnet-5", max_tokens=1_000, messages=messages, tools=tools
        )
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return messages
        results = [client.windlass.answer(call) or loops.claude_result(call) for call in calls]
        messages.append({"role": "user", "content": results})


def claude_streamed(client: Any, mine: Callable[[int], str]) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": loops.TASK}]
    tools = [*loops.CLAUDE_TOOLS, windlass.recall_tool("anthropic")]
    while True:
        request = {"model": "claude-sonnet-5", "max_tokens": 1_000, "tools": tools}
        with client.messages.stream(messages=messages, **request) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return messages
        results = [client.windlass.answer(call) or loops.claude_result(call) for call in calls]
        messages.append({"role": "user", "content": results})


def chat(client: Any, mine: Callable[[int], str]) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": loops.TASK}]
    tools = [*loops.CHAT_TOOLS, windlass.recall_tool("openai")]
    while True:
        answer = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return messages
        for call in message.tool_calls:
            number = json.loads(call.function.arguments).get("number")
            own = {"role": "tool", "tool_call_id": call.id, "content": mine(number or 0)}
            messages.append(client.windlass.answer(call) or own)


def responses(client: Any, mine: Callable[[int], str]) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": loops.TASK}]
    tools = [*loops.FLAT_TOOLS, windlass.recall_tool("responses")]
    while True:
        answer = client.responses.create(model="gpt-5", input=items, tools=tools)
        items += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return items
        for call in calls:
            number = json.loads(call.arguments).get("number")
            own = {"type": "function_call_output", "call_id": call.call_id}
            items.append(client.windlass.answer(call) or {**own, "output": mine(number or 0)})


def gemini(client: Any, mine: Callable[[int], str]) -> list[Any]:
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=loops.TASK)])]
    config = loops.gemini_config()
    config.tools = [*(config.tools or []), windlass.recall_tool("gemini")]
    while True:
        answer = client.models.generate_content(
            model="gemini-2.5-flash", contents=contents, config=config
        )
        contents.append(answer.candidates[0].content)
        if not answer.function_calls:
            return contents
        results = [
            client.windlass.answer(call)
            or types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": mine(call.args["number"])}
                )
            )
            for call in answer.function_calls
        ]
        contents.append(types.Content(role="user", parts=results))


LOOPS: dict[str, tuple[Callable[[], Any], Callable[..., list[Any]]]] = {
    "anthropic": (anthropic.Anthropic, claude),
    "anthropic, streamed": (anthropic.Anthropic, claude_streamed),
    "openai": (openai.OpenAI, chat),
    "responses": (openai.OpenAI, responses),
    "gemini": (genai.Client, gemini),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_gets_an_original_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its notes name the tool; what the model asks for by one of them is in the next request."""
    make, loop = LOOPS[name]
    with model_server(reads_logs(6, recalls=True)) as server:
        server.lead(monkeypatch)
        client = make()
        loop(windlass.wrap(client), log)
        client.close()
    assert server.refused == []
    assert len(server.billed) == 8
    bodies = [json.dumps(asked.body) for asked in server.asked if asked.body]
    first = next(at for at, body in enumerate(bodies) if "characters: recall result_" in body)
    cut = [number for number in range(6) if f"from {len(log(number)):,} char" in bodies[first]]
    assert len(cut) == 1
    original = json.dumps(log(cut[0])[:30_000])[1:-1]  # as much as is given at once
    assert original not in bodies[first]
    assert all(original in body for body in bodies[first + 1 :])


def test_a_reference_of_another_conversation_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its beginning names nothing where a client has several, which may be of several people."""
    with model_server(reads_logs(3)) as server:
        server.lead(monkeypatch)
        plain = anthropic.Anthropic()
        client: Any = windlass.wrap(plain, {"profile": "lean", **AT_ONCE})
        loops.claude(client, model="claude-sonnet-5")
        (ref,) = {m[1] for m in NOTE.finditer(str(server.bodies[-1]["messages"]))}
        for asked in (ref, ref[:13]):
            assert client.windlass.answer(claude_call({"ref": asked}))["content"] in LOGS
        request = loops.claude_request([user("Something else.")], "claude-sonnet-5")
        client.messages.create(**request)
        assert client.windlass.answer(claude_call({"ref": ref}))["content"] in LOGS
        for asked in (ref[:13], "result_00000000", 7, ""):
            answer = client.windlass.answer(claude_call({"ref": asked}))["content"]
            assert "names no message here: no conversation has it" in answer
        plain.close()


def test_what_was_recalled_is_not_taken_away_again() -> None:
    loop = context(recall=True)
    for message in (called(2, "recall", {"ref": REF}), result(2, LOG), *idle(20)):
        loop.append(message)
    assert loop.window().messages[4]["content"] == LOG
