"""Bodies: accepted by validators written apart and by the official SDKs' types."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import png, server_tool_conversations
from tests.support.wire_formats import (
    CALL,
    FORMATS,
    LOOK,
    MODELS,
    SCHEMA,
    SDK,
    ask,
    every_format,
    problems,
    requests,
    spec,
)
from tests.wire.sdk import anthropic_takes, gemini_takes
from windlass.messages import (
    Message,
    Opaque,
    Picture,
    Text,
    ToolCall,
    assistant,
    system,
    to_dict,
    tool,
    user,
)
from windlass.text.pictures import picture
from windlass.wire import anthropic, gemini, openai_chat
from windlass.wire.base import Format, Request


@every_format
@given(st.data())
def test_every_body_is_accepted(wire: str, data: st.DataObject) -> None:
    request = data.draw(requests(wire))
    before = copy.deepcopy([to_dict(message) for message in request.messages])
    stream, anywhere = data.draw(st.booleans()), data.draw(st.booleans())

    body = FORMATS[wire].body(request, stream=stream, system_anywhere=anywhere)

    assert problems(wire, body, request.model) == []
    SDK[wire](body)
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert [to_dict(message) for message in request.messages] == before
    assert body == FORMATS[wire].body(request, stream=stream, system_anywhere=anywhere)


@given(server_tool_conversations(), st.sampled_from(["claude-sonnet-4-5", "claude-opus-5-5"]))
def test_tools_of_anthropics_are_whole_or_paused(spoken: list[Message], model: str) -> None:
    request = ask(*spoken, model=model, tools=(LOOK,))
    body = anthropic.body(request)
    assert problems("anthropic", body, model) == []


@every_format
@given(st.data())
def test_a_longer_conversation_begins_with_the_shorter(wire: str, data: st.DataObject) -> None:
    request = data.draw(requests(wire))
    grown = Request(
        request.model,
        (*request.messages, assistant("And so."), user("What?")),
        request.max_output_tokens,
        request.tools,
    )
    key = "contents" if wire == "gemini" else "messages"
    shorter = FORMATS[wire].body(request)[key]
    longer = FORMATS[wire].body(grown)[key]
    # The last turns may have been ended for the provider's sake.
    kept = max(0, len(shorter) - 2)
    assert longer[:kept] == shorter[:kept]


def test_pictures_of_results_go_where_each_provider_takes_them() -> None:
    shown = picture(png(), name="chart.png")
    other = ToolCall("call_1", "count", "{}")
    request = ask(
        user("Draw."),
        assistant(calls=[CALL, other]),
        tool(CALL, "Drawn.", shown),
        tool(other, "3"),
        user("Well?"),
        tools=(LOOK, spec("count")),
    )
    assert shown.data is not None
    data = base64.b64encode(shown.data).decode()

    spoken = openai_chat.body(request)["messages"]
    assert [one["role"] for one in spoken] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert spoken[2]["content"] == "Drawn."
    assert spoken[4]["content"] == [
        {"type": "text", "text": "[Images of tool result look]"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
    ]

    turns = anthropic.body(request)["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    first, second, said = turns[2]["content"]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    assert first["content"] == [{"type": "text", "text": "Drawn."}, image]
    assert (second["tool_use_id"], said["text"]) == ("call_1", "Well?")

    parts = gemini.body(request)["contents"][2]["parts"]
    assert [next(iter(part)) for part in parts] == [
        "functionResponse",
        "functionResponse",
        "inlineData",
        "text",
    ]
    assert parts[0]["functionResponse"]["response"] == {"output": "Drawn."}


@every_format
def test_pictures_are_loaded_by_hash_and_addresses_are_sent(wire: str) -> None:
    shown = picture(png())
    stored = Picture(shown.sha256, "image/png", 2, 3)
    by_url = Picture("", "", url="https://example.org/a.png")
    request = ask(
        user("See", stored, by_url), load=lambda key: png() if key == shown.sha256 else b""
    )
    body = FORMATS[wire].body(request)
    told = json.dumps(body)
    assert base64.b64encode(png()).decode() in told
    assert "https://example.org/a.png" in told
    assert problems(wire, body, "m") == []
    with pytest.raises(ValueError, match="nothing to load"):
        FORMATS[wire].body(ask(user(stored)))


@every_format
def test_what_takes_no_picture_gets_words(wire: str) -> None:
    shown = picture(png(), name="a.png")
    request = ask(system("Be", shown), user("Hi"), assistant("So", shown), user("On"))
    if wire != "gemini":  # a model's turn may hold pictures there, but ours are put in words too
        told = json.dumps(FORMATS[wire].body(request))
        assert told.count("[Image: a.png, 2x3]") == 2
    assert problems(wire, FORMATS[wire].body(request), "m") == []


@every_format
def test_repeated_ids_are_told_apart(wire: str) -> None:
    turn = [assistant(calls=[CALL]), tool(CALL, "one")]
    request = ask(user("Go"), *turn, user("Again"), *turn, tools=(LOOK,))
    body = FORMATS[wire].body(request)
    assert problems(wire, body, request.model) == []
    told = json.dumps(body)
    assert told.count('"call_0"') == told.count('"call_0_2"') == 2


@every_format
def test_ids_and_names_are_fitted(wire: str) -> None:
    odd = ToolCall("fc:" + "x" * 50, "server.tool", "{}")
    twin = ToolCall("fine", "server_tool", "{}")
    request = ask(
        user("Go"),
        assistant(calls=[odd, twin]),
        tool(odd, "1"),
        tool(twin, "2"),
        tools=(spec("server.tool"), spec("server_tool")),
        tool_choice="server.tool",
    )
    body = FORMATS[wire].body(request)
    assert problems(wire, body, "m") == []
    told = json.dumps(body)
    assert '"server_tool_2"' in told
    assert "server.tool" not in told.replace("Does server.tool.", "")


@every_format
def test_arguments_that_are_no_object_are_sent_as_what_they_are(wire: str) -> None:
    for text in ["{", "[1]", '{"a": NaN}', '{"a": "\\ud800"}']:
        broken = ToolCall("call_0", "look", text)
        request = ask(user("Go"), assistant(calls=[broken]), tool(broken, "No."), tools=(LOOK,))
        body = FORMATS[wire].body(request)
        assert problems(wire, body, "m") == []
        if wire == "openai":
            assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == text
        else:
            assert '"unreadable_arguments"' in json.dumps(body)


@every_format
def test_the_provider_has_the_last_and_the_first_turn_it_wants(wire: str) -> None:
    for messages in ([assistant("Hello."), user("Hi")], [user("Hi"), assistant("So then \n")]):
        body = FORMATS[wire].body(ask(*messages, model=MODELS[wire][0]))
        assert problems(wire, body, MODELS[wire][0]) == []
    prefill = anthropic.body(ask(user("Hi"), assistant("So \n"), model="claude-sonnet-4-5"))
    assert prefill["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "So"}],
    }


def test_a_late_system_message_is_the_users_where_no_place_is_for_it() -> None:
    request = ask(system("First."), user("Hi"), system("Late."), user("On"))
    late = {"type": "text", "text": "Late."}
    assert anthropic.body(request)["messages"][0]["content"][1] == late
    anywhere = anthropic.body(request, system_anywhere=True)
    assert [turn["role"] for turn in anywhere["messages"]] == ["user", "system", "user"]
    anthropic_takes(anywhere)
    for body in (anywhere, anthropic.body(request)):
        assert body["system"] == [{"type": "text", "text": "First."}]
    spoken = openai_chat.body(request, system_anywhere=False)["messages"]
    assert [one["role"] for one in spoken] == ["system", "user", "user", "user"]
    spoken = openai_chat.body(request, system_anywhere=True)["messages"]
    assert [one["role"] for one in spoken] == ["system", "user", "system", "user"]
    told = gemini.body(request)
    assert told["systemInstruction"] == {"parts": [{"text": "First."}]}
    assert {"text": "Late."} in told["contents"][0]["parts"]


@pytest.mark.parametrize("failed", [True, False])
def test_a_failed_result_is_told_in_each_providers_words(failed: bool) -> None:
    call = ToolCall("c1", "save", "{}")
    request = ask(user("Hi"), assistant(calls=[call]), tool(call, "disk full", failed=failed))
    (block,) = anthropic.body(request)["messages"][-1]["content"]
    assert block.get("is_error") == (True if failed else None)
    anthropic_takes(anthropic.body(request))
    (part,) = gemini.body(request)["contents"][-1]["parts"]
    key = "error" if failed else "output"
    assert part["functionResponse"]["response"] == {key: "disk full"}
    gemini_takes(gemini.body(request))
    spoken = openai_chat.body(request)["messages"]
    assert spoken[-1] == {"role": "tool", "tool_call_id": "c1", "content": "disk full"}


def test_tool_choices_in_each_providers_words() -> None:
    def chosen(wire: str, choice: str) -> Any:
        body = FORMATS[wire].body(ask(user("Hi"), tools=(LOOK,), tool_choice=choice))
        return body["toolConfig"] if wire == "gemini" else body["tool_choice"]

    assert [chosen("anthropic", one) for one in ("auto", "none", "required", "look")] == [
        {"type": "auto"},
        {"type": "none"},
        {"type": "any"},
        {"type": "tool", "name": "look"},
    ]
    assert chosen("openai", "required") == "required"
    assert chosen("openai", "look") == {"type": "function", "function": {"name": "look"}}
    calling = {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert chosen("gemini", "look") == {"functionCallingConfig": calling}
    assert chosen("gemini", "none") == {"functionCallingConfig": {"mode": "NONE"}}
    for free in ("claude-opus-5-5", "claude-sonnet-5-6", "claude-fable-5-1", "claude-mythos-6"):
        for choice in ("required", "look"):
            body = anthropic.body(ask(user("Hi"), model=free, tools=(LOOK,), tool_choice=choice))
            assert body["tool_choice"] == {"type": "auto"}
    for able in ("claude-haiku-5-5", "claude-opus-5", "claude-sonnet-4-5"):
        body = anthropic.body(ask(user("Hi"), model=able, tools=(LOOK,), tool_choice="required"))
        assert body["tool_choice"] == {"type": "any"}
    for format_ in FORMATS.values():
        body = format_.body(ask(user("Hi"), tool_choice="required"))
        assert not {"tools", "tool_choice", "toolConfig"} & body.keys()


def test_effort_in_each_providers_words() -> None:
    def keys(format_: Format, model: str, effort: str, **more: Any) -> dict[str, Any]:
        request = Request(model, (user("Hi"),), 30_000, reasoning_effort=effort, **more)
        body = format_.body(request)
        said = body.get("generationConfig", body)
        return {
            key: said[key]
            for key in ("thinking", "output_config", "temperature", "thinkingConfig")
            if key in said
        }

    assert keys(anthropic, "claude-opus-4-8", "high", temperature=0.1) == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    }
    assert keys(anthropic, "claude-sonnet-4-5", "medium", temperature=0.1) == {
        "thinking": {"type": "enabled", "budget_tokens": 8_192},
    }
    assert keys(anthropic, "claude-haiku-5-5", "none") == {"thinking": {"type": "disabled"}}
    for always in ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5", "claude-mythos-5-1"):
        assert keys(anthropic, always, "none") == {"output_config": {"effort": "low"}}
    forced = {"tools": (LOOK,), "tool_choice": "look"}
    assert keys(anthropic, "claude-opus-5-5", "high", **forced)["thinking"] == {"type": "adaptive"}
    assert keys(anthropic, "claude-sonnet-4-5", "medium", temperature=0.1, **forced) == {
        "temperature": 0.1
    }
    assert keys(gemini, "gemini-3-pro", "minimal") == {"thinkingConfig": {"thinkingLevel": "LOW"}}
    assert keys(gemini, "gemini-2.5-pro", "none") == {"thinkingConfig": {"thinkingBudget": 128}}


def test_output_schemas_by_each_providers_own_means() -> None:
    request = ask(user("Hi"), output_schema=SCHEMA)
    form = openai_chat.body(request)["response_format"]
    assert form["json_schema"]["strict"]
    assert form["json_schema"]["schema"] == {**SCHEMA, "additionalProperties": False}
    loose = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = openai_chat.body(ask(user("Hi"), output_schema=loose))["response_format"]
    assert (form["json_schema"]["strict"], form["json_schema"]["schema"]) == (False, loose)
    config = anthropic.body(request)["output_config"]
    assert config["format"]["schema"]["additionalProperties"] is False
    assert gemini.body(request)["generationConfig"]["responseJsonSchema"] == SCHEMA
    older = ask(user("Hi"), output_schema=SCHEMA, model="gemini-2.5-pro", tools=(LOOK,))
    assert "responseJsonSchema" not in gemini.body(older)["generationConfig"]
    assert SCHEMA.keys() == {"type", "properties", "required"}


@every_format
def test_opaque_parts_of_others_are_not_sent(wire: str) -> None:
    signed = [
        Opaque("anthropic", "thinking", '{"type": "thinking", "thinking": "x"}', "one"),
        Opaque("gemini", "part", '{"thoughtSignature": "YQ=="}', "one"),
        Opaque("openai", "key:reasoning_content", '"x"', "one"),
    ]
    said = Message("assistant", (*signed, Text("So.")))
    request = ask(user("Hi"), said, user("On"), model="two")
    plain = ask(user("Hi"), assistant("So."), user("On"), model="two")
    assert FORMATS[wire].body(request) == FORMATS[wire].body(plain)


def test_a_call_of_another_model_gets_the_signature_that_google_names() -> None:
    request = ask(
        user("Go"), assistant(calls=[CALL]), tool(CALL, "1"), model="gemini-3-pro", tools=(LOOK,)
    )
    part = gemini.body(request)["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


def test_a_deepseek_gets_the_reasoning_of_every_reply_if_only_an_empty_one() -> None:
    own = Opaque("openai", "key:reasoning_content", '"Hm."', "deepseek-v4-pro")
    other = Opaque("openai", "key:reasoning_content", '"So."', "kimi-k3")
    said = (
        user("Go"),
        assistant(calls=[CALL]).with_parts(own),
        tool(CALL, "1"),
        assistant("Well.").with_parts(other, Text("Well.")),
        user("On"),
    )

    def reasoning(model: str) -> list[Any]:
        body = openai_chat.body(ask(*said, model=model, tools=(LOOK,)))
        return [one.get("reasoning_content") for one in body["messages"] if "content" in one][1::2]

    assert reasoning("deepseek-v4-pro") == ["Hm.", ""]
    assert reasoning("deepseek/deepseek-v4-flash") == ["", ""]
    assert reasoning("gpt-5.6") == [None, None]


def test_paths() -> None:
    assert openai_chat.path("m", stream=True) == "/chat/completions"
    assert anthropic.path("m", stream=False) == "/messages"
    assert gemini.path("m", stream=False) == "/models/m:generateContent"
    assert gemini.path("m", stream=True) == "/models/m:streamGenerateContent?alt=sse"


@every_format
@pytest.mark.parametrize("mark", [(), ((2, 0),), ((4, 0),)])
def test_a_result_that_no_model_asked_for_is_the_users(
    wire: str, mark: tuple[tuple[int, int], ...]
) -> None:
    said = [
        system("Be brief."),
        user("[Phase load ran the tool look(). Its result:]"),
        Message("tool", (Text("two orders"),), name="look"),
        user("[Phase check ran the tool look(). It failed:]"),
        Message("tool", (), name="look", failed=True),
        user("What is there?"),
    ]
    request = ask(*said, model=MODELS[wire][0], breakpoints=mark)
    assert [message.role for message in request.messages] == ["system", *["user"] * 5]
    body = FORMATS[wire].body(request)
    assert problems(wire, body, request.model) == []
    SDK[wire](body)
    sent = json.dumps(body)
    assert "two orders" in sent
    assert "(empty)" in sent
    assert "functionResponse" not in sent
    assert "tool_result" not in sent
