"""Lists in Anthropic's, Gemini's and the Responses form, and objects of the SDKs."""

from __future__ import annotations

import base64
import copy
import re
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import TextBlock, ToolUseBlock, Usage
from google.genai import types as gemini_types
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)

import windlass
from tests.strategies import names, png, texts
from tests.support.context_forms import LISTS, anthropic, gemini
from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from windlass.context.bound import forget
from windlass.errors import SequenceError

PNG = base64.b64encode(png(2, 3)).decode()
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}
PDF["source"]["data"] = "JVBERi0="  # type: ignore[index]


def valid(form: str, messages: list[dict[str, Any]]) -> list[str]:
    """What the provider would refuse of a list."""
    match form:
        case "anthropic":
            called = {
                block["name"]
                for one in messages
                for block in (one["content"] if isinstance(one["content"], list) else [])
                if block["type"] == "tool_use"
            }
            schema = {"type": "object"}
            tools = [{"name": name, "input_schema": schema} for name in sorted(called)]
            top = {"model": "claude-sonnet-4-5", "max_tokens": 1, "tools": tools}
            return anthropic_rules.problems({**top, "messages": messages})
        case "gemini":
            found = gemini_rules.problems({"contents": messages})
            return [one for one in found if "declared" not in one and "defined" not in one]
        case _:
            calls = [one["call_id"] for one in messages if one.get("type") == "function_call"]
            outputs = [one["call_id"] for one in messages if "output" in one]
            return [] if sorted(calls) == sorted(outputs) else ["calls and outputs differ"]


class TestWindows:
    @pytest.mark.parametrize("form", LISTS)
    def test_what_stays_is_the_callers_own_and_results_get_shorter(self, form: str) -> None:
        given_list = LISTS[form]()
        before = copy.deepcopy(given_list)
        # A model whose thinking is not bound to what stood before it.
        window = windlass.bound(given_list, "anthropic/claude-opus-4-1", policy="lean")
        assert given_list == before
        assert len(window.messages) == len(given_list)
        changed = [at for at, one in enumerate(window.messages) if one is not given_list[at]]
        assert changed
        assert len(changed) < len(given_list) / 2
        assert window.saved_tokens > 0
        assert valid(form, window.messages) == []
        assert {one.action for one in window.entries} == {"shown", "replaced"}

    @pytest.mark.parametrize("form", LISTS)
    def test_the_list_at_once_and_one_by_one_are_the_same(self, form: str) -> None:
        given_list = LISTS[form]()
        given_list[0]["at"] = 1.0
        context = windlass.Context(policy="lean")
        for one in given_list:
            context.append(one)
        forget()
        whole = windlass.bound(given_list, policy="lean")
        assert context.window().messages == whole.messages
        forget()
        for count in range(1, len(given_list) + 1):
            window = windlass.bound(given_list[:count], policy="lean")
        assert window.messages == whole.messages

    @pytest.mark.parametrize("form", LISTS)
    def test_every_form_is_written_from_every_form(self, form: str) -> None:
        window = windlass.bound(LISTS[form](), model="anthropic/claude-sonnet-4-5")
        body = window.wire("anthropic")
        assert anthropic_rules.problems({"model": "m", "max_tokens": 1, **body}) == []
        assert gemini_rules.problems(window.wire("gemini")) == []
        assert len(window.wire("openai")["messages"]) >= len(window.next_call.entries)
        items = window.wire("responses")["input"]
        assert [one["call_id"] for one in items if one.get("type") == "function_call"]

    @pytest.mark.parametrize("form", LISTS)
    def test_a_window_given_again_is_mended_no_more(self, form: str) -> None:
        first = windlass.bound(LISTS[form](3), policy={"profile": "lean"}).messages
        again = windlass.bound(first, policy={"profile": "lean"})
        assert [one for one in again.entries if one.because == "repair"] == []
        assert valid(form, again.messages) == []

    def test_breakpoints_name_messages_and_blocks(self) -> None:
        stays = {"see_results": 2}  # so the newest result is written to the cache
        window = windlass.bound(anthropic(9), "anthropic/claude-sonnet-4-5", stays)
        assert window.breakpoints
        for at, part in window.breakpoints:
            content = window.messages[at]["content"]
            assert at == 0 or content[part]["type"] != "thinking"
        last = window.wire("anthropic")["messages"][-1]["content"]
        marked = [at for at, block in enumerate(last) if "cache_control" in block]
        count = len(window.messages) - 1
        assert marked == [part for at, part in window.breakpoints if at == count]
        assert marked

    def test_entries_say_what_other_forms_do_not_get(self) -> None:
        window = windlass.bound(anthropic(1))
        assert window.entries[1].reason == "as it was said; thinking only in Anthropic's form"
        assert "thinking" not in str(window.wire("openai"))
        assert "c2ln" in str(window.wire("anthropic"))

    @pytest.mark.parametrize("form", LISTS)
    def test_select_takes_it_and_gives_it_back(self, form: str) -> None:
        given_list = LISTS[form](3)
        chosen = windlass.select(given_list, "the value of 1", max_tokens=9_000)
        assert chosen.messages
        own = [one for one in chosen.messages if any(one is each for each in given_list)]
        assert own == chosen.messages[-len(own) :]


class TestIds:
    @pytest.mark.parametrize("door", ["bound", "Context"])
    def test_a_cache_mark_changes_no_id(self, door: str) -> None:
        def ids(messages: list[Any]) -> list[str]:
            if door == "bound":
                window = windlass.bound(messages)
            else:
                context = windlass.Context()
                for one in messages:
                    context.append(one)
                window = context.window()
            return [one.id for one in window.entries]

        mark = {"cache_control": {"type": "ephemeral"}}
        text, result = {"type": "text", "text": "go"}, anthropic(1)[2]["content"][0]
        bare = [{"role": "user", "content": [text]}, *anthropic(1)[1:]]
        marked = copy.deepcopy(bare)
        marked[0]["content"][0] |= mark
        marked[2]["content"][0] = result | mark
        assert ids(marked) == ids(bare)


class TestPlaces:
    def test_what_lies_with_a_provider_stays_at_home(self) -> None:
        stored = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
        window = windlass.bound(
            [{"role": "user", "content": [{"type": "text", "text": "see"}, stored]}]
        )
        assert window.wire("anthropic")["messages"][0]["content"][1] | {"cache_control": 0} == {
            **stored,
            "cache_control": 0,
        }
        for target in ("openai", "responses", "gemini"):
            with pytest.raises(SequenceError, match=r"message 0, part 1: 'document'"):
                window.wire(target)

    def test_a_document_goes_where_a_form_has_a_place(self) -> None:
        listed = [{"role": "user", "content": [{"type": "text", "text": "see"}, PDF]}]
        window = windlass.bound(listed)
        data = "data:application/pdf;base64,JVBERi0="
        chat = {"type": "file", "file": {"filename": "file.pdf", "file_data": data}}
        assert window.wire("openai")["messages"][0]["content"][1] == chat
        item = {"type": "input_file", "filename": "file.pdf", "file_data": data}
        assert window.wire("responses")["input"][0]["content"][1] == item
        part = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}
        assert window.wire("gemini")["contents"][0]["parts"][1] == part
        back = windlass.bound([{"role": "user", "content": [item]}]).wire("anthropic")
        assert back["messages"][0]["content"][0]["source"] == PDF["source"]
        from_chat = windlass.bound([{"role": "user", "content": [chat]}])
        assert from_chat.wire("responses")["input"][0]["content"] == [item]
        from_gemini = windlass.bound([{"role": "user", "parts": [part]}])
        assert from_gemini.wire("openai")["messages"][0]["content"] == [chat]

    @pytest.mark.parametrize("kind", ["input_audio", "file"])
    def test_chat_audio_and_stored_files_stay_at_home(self, kind: str) -> None:
        part = {"type": kind, kind: {"file_id": "f"}}
        window = windlass.bound([{"role": "user", "content": [part]}])
        assert window.wire("openai")["messages"][0]["content"] == [part]
        for target in ("anthropic", "responses", "gemini"):
            with pytest.raises(SequenceError, match=f"message 0, part 0: '{kind}'"):
                window.wire(target)

    @pytest.mark.parametrize("behind", [[], [{"role": "user", "content": "on"}]])
    def test_a_custom_call_without_a_result_gets_an_output_of_its_type(self, behind: Any) -> None:
        call = {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "*** x"}
        window = windlass.bound([{"role": "user", "content": "go"}, call, *behind])
        for items in (window.messages, window.wire("responses")["input"]):
            assert items[1] == call
            assert items[2]["type"] == "custom_tool_call_output"
            assert items[2]["call_id"] == "a"

    @pytest.mark.parametrize(
        ("call", "output"),
        [
            ({"type": "shell_call", "call_id": "a", "action": {}}, "shell_call_output"),
            ({"type": "apply_patch_call", "call_id": "a"}, "apply_patch_call_output"),
            ({"type": "local_shell_call", "call_id": "a"}, "local_shell_call_output"),
        ],
    )
    def test_a_shell_without_a_result_gets_an_output_of_its_type(
        self, call: Any, output: str
    ) -> None:
        start, last = {"role": "user", "content": "go"}, {"role": "user", "content": "on"}
        window = windlass.bound([start, call, last])
        assert window.messages[2]["type"] == output
        assert window.messages[3] is last
        assert window.entries[-1].reason == "a call without a result"
        again = windlass.bound(window.messages)
        assert again.messages == window.messages
        lost = windlass.bound([start, {"type": output, "call_id": "a", "output": "42"}, last])
        assert "42" in lost.messages[1]["content"][0]["text"]
        assert "not open" in lost.entries[1].reason

    def test_a_screen_cannot_be_made_up(self) -> None:
        call = {"type": "computer_call", "call_id": "a", "action": {}}
        with pytest.raises(SequenceError, match="message 1: computer_call 'a' before it has no"):
            windlass.bound([call, {"role": "user", "content": "on"}])

    def test_outputs_of_calls_side_by_side_come_in_any_order(self) -> None:
        calls = [
            {"type": "shell_call", "call_id": "a", "action": {}},
            {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        ]
        outputs = [
            {"type": "shell_call_output", "call_id": "a", "output": []},
            {"type": "function_call_output", "call_id": "b", "output": "ok"},
        ]
        listed: list[Any] = [{"role": "user", "content": "go"}, *calls, *outputs]
        window = windlass.bound(listed)
        assert {one.action for one in window.entries} == {"shown"}
        assert sorted(one["call_id"] for one in window.messages[3:]) == ["a", "b"]

    def test_errors_of_results_and_pictures_go_across(self) -> None:
        image = {"type": "base64", "media_type": "image/png", "data": PNG}
        result = {
            "type": "tool_result",
            "tool_use_id": "t",
            "is_error": True,
            "content": [{"type": "text", "text": "no"}, {"type": "image", "source": image}],
        }
        call = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
        listed: list[dict[str, Any]] = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
        window = windlass.bound(listed)
        assert window.wire("anthropic")["messages"][2]["content"] == [result]
        response = window.wire("gemini")["contents"][2]["parts"]
        assert response[0]["functionResponse"]["response"] == {"error": "no"}
        assert response[1]["inlineData"]["data"] == PNG
        assert PNG in str(window.wire("responses"))

    @pytest.mark.parametrize("beside", [{}, {"willContinue": False}])
    def test_a_gemini_response_of_one_text_is_cut_as_text_and_keeps_its_key(
        self, beside: dict[str, Any]
    ) -> None:
        """`result` is what google-genai itself and most frameworks write."""

        def cut(key: str, more: dict[str, Any]) -> Any:
            text = "\n".join(f"line {at}: order {at * 97} left" for at in range(2_000))
            listed = gemini(3)
            (answered, *_) = [one for one in listed if "functionResponse" in one["parts"][0]]
            answered["parts"][0]["functionResponse"] |= {"response": {key: text}, **more}
            return windlass.bound(listed, "gemini/gemini-2.5-flash").wire("gemini")["contents"]

        plain, other = cut("output", {}), cut("result", beside)
        response = other[2]["parts"][0]["functionResponse"]
        shown = plain[2]["parts"][0]["functionResponse"]["response"]["output"]
        reference = re.compile(r"result_\w{8}")
        assert response["response"].keys() == {"result"}
        assert reference.sub("", response["response"]["result"]) == reference.sub("", shown)
        assert len(shown) < 20_000
        assert response.items() >= beside.items()

    def test_one_list_has_one_form(self) -> None:
        with pytest.raises(SequenceError, match="message 3: is in Gemini's form"):
            windlass.bound([*anthropic(1), gemini(1)[1]])

    def test_a_video_is_refused_where_the_provider_refuses_it(self) -> None:
        video = {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}
        chat = [{"role": "user", "content": [video]}]
        with pytest.raises(SequenceError, match=r"message 0, part 0: .* video_url"):
            windlass.bound(chat, model="openai/gpt-5.4")
        routed = windlass.bound(chat, model="gemini/gemini-2.5-pro")
        assert routed.messages == chat

    def test_empty_text_beside_a_picture_is_left_out_and_told(self) -> None:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        chat = [{"role": "user", "content": [{"type": "text", "text": ""}, shown]}]
        window = windlass.bound(chat)
        assert window.messages == [{"role": "user", "content": [shown]}]
        assert window.entries[0].reason == "empty text is left out"


class TestObjects:
    def test_an_answer_of_the_anthropic_sdk(self) -> None:
        answer = AnthropicMessage(
            id="msg_1",
            model="claude-sonnet-4-5",
            role="assistant",
            type="message",
            content=[
                TextBlock(type="text", text="I look."),
                ToolUseBlock(id="t", name="look", type="tool_use", input={"at": None}),
            ],
            usage=Usage(input_tokens=9, output_tokens=2),
            stop_reason="tool_use",
        )
        result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
        for spoken in (answer, {"role": "assistant", "content": answer.content}):
            listed: list[Any] = [
                {"role": "user", "content": "go"},
                spoken,
                {"role": "user", "content": [result]},
            ]
            window = windlass.bound(listed)
            assert window.messages[1]["content"][1]["input"] == {"at": None}
            assert window.messages[1].keys() == {"role", "content"}
            assert window.messages[2] is listed[2]

    def test_contents_of_the_gemini_sdk(self) -> None:
        call = gemini_types.FunctionCall(name="look", args={"at": 1})
        part = gemini_types.Part(function_call=call, thought_signature=b"\xff\xfe")
        content = gemini_types.Content(role="model", parts=[part])
        response = {"name": "look", "response": {"rows": [1, 2]}}
        listed: list[Any] = [
            {"role": "user", "parts": [{"text": "go"}]},
            content,
            {"role": "user", "parts": [{"function_response": response}]},
        ]
        window = windlass.bound(listed)
        assert window.messages[1]["parts"][0]["thoughtSignature"]
        written = window.wire("gemini")["contents"][2]["parts"][0]["functionResponse"]
        assert written == response

    def test_files_of_the_gemini_sdk(self) -> None:
        parts = [
            gemini_types.Part.from_bytes(data=b"\xff\xfe%PDF", mime_type="application/pdf"),
            gemini_types.Part.from_bytes(data=png(9, 7), mime_type="image/png"),
        ]
        listed: list[Any] = [gemini_types.Content(role="user", parts=parts)]
        blocks = windlass.bound(listed).wire("anthropic")["messages"][0]["content"]
        assert blocks[0]["source"]["data"] == base64.b64encode(b"\xff\xfe%PDF").decode()
        assert blocks[1]["source"]["data"] == base64.b64encode(png(9, 7)).decode()

    def test_a_message_of_the_openai_sdk(self) -> None:
        function = {"name": "look", "arguments": "{}"}
        call = {"id": "a", "type": "function", "function": function}
        spoken = ChatCompletionMessage.model_validate(
            {"role": "assistant", "content": None, "tool_calls": [call]}
        )
        result = {"role": "tool", "tool_call_id": "a", "content": "ok"}
        listed: list[Any] = [{"role": "user", "content": "go"}, spoken, result]
        window = windlass.bound(listed)
        assert window.messages[1]["tool_calls"] == [call]
        assert window.messages[2] is result
        assert {one.action for one in window.entries} == {"shown"}

    def test_a_response_of_the_openai_sdk(self) -> None:
        thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "zz"}
        text = {"type": "output_text", "text": "hi", "annotations": []}
        answer = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        answer |= {"status": "completed"}
        listed: list[Any] = [
            {"role": "user", "content": "go"},
            ResponseReasoningItem.model_validate(thought),
            ResponseOutputMessage.model_validate(answer),
        ]
        window = windlass.bound(listed)
        assert window.messages[1:] == [thought, answer]
        assert window.wire("responses")["input"][1:] == [thought, answer]

    def test_items_of_the_openai_sdk(self) -> None:
        call = ResponseFunctionToolCall(
            arguments="{}", call_id="c", name="look", type="function_call"
        )
        output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
        listed: list[Any] = [{"role": "user", "content": "go"}, call, output]
        window = windlass.bound(listed)
        assert window.messages[1]["call_id"] == "c"
        assert window.messages[2] is output

    def test_an_object_with_a_dump_of_its_own(self) -> None:
        class Own:
            def model_dump(self) -> dict[str, Any]:
                return {"role": "user", "content": "go", "name": None}

        own: Any = Own()
        assert windlass.bound([own]).messages == [{"role": "user", "content": "go"}]


# ---- properties -----------------------------------------------------------------------------

_TEXT = st.builds(lambda text: {"type": "text", "text": text}, texts())
_IMAGE = st.just(
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
)
_RESULT = st.builds(
    lambda id_, content, failed: {
        "type": "tool_result",
        "tool_use_id": id_,
        "content": content,
        "is_error": failed,
    },
    st.sampled_from(["a", "b", "c d"]),
    texts() | st.lists(_TEXT | _IMAGE, max_size=2),
    st.booleans(),
)
_USE = st.builds(
    lambda id_, name: {"type": "tool_use", "id": id_, "name": name, "input": {"x": [1]}},
    st.sampled_from(["a", "b", "c d"]),
    names(),
)
_THOUGHT = st.sampled_from(
    [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "eA=="},
    ]
)
_USER = st.builds(
    lambda content: {"role": "user", "content": content},
    st.lists(_TEXT | _IMAGE | _RESULT | st.just(PDF), max_size=4),
)
_ASSISTANT = st.builds(
    lambda content: {"role": "assistant", "content": content},
    st.lists(_TEXT | _USE | _THOUGHT, max_size=4),
)


@given(st.lists(_USER | _ASSISTANT, min_size=1, max_size=6))
def test_damaged_lists_hold_nothing_that_anthropic_refuses(messages: list[dict[str, Any]]) -> None:
    try:
        window = windlass.bound([{"role": "user", "content": [PDF]}, *messages])
    except SequenceError:
        return
    found = valid("anthropic", window.messages)
    assert [one for one in found if "whitespace" not in one or "trailing" not in one] == []
    again = windlass.bound(window.messages)
    assert [one for one in again.entries if one.because == "repair"] == []


@given(st.lists(_USER | _ASSISTANT, min_size=1, max_size=6))
def test_nothing_vanishes_without_an_entry_that_says_so(messages: list[dict[str, Any]]) -> None:
    listed = [{"role": "user", "content": [PDF]}, *messages]
    try:
        window = windlass.bound(listed)
    except SequenceError:
        return
    told = {one.position: one.reason for one in window.entries}
    shown = str(window.messages)
    for at, message in enumerate(listed):
        for block in message["content"]:
            kept = {
                "text": lambda block: repr(block["text"]) in shown,
                "tool_use": lambda block: repr(block["name"]) in shown,
            }.get(block["type"], lambda block: repr(block["type"]) in shown)(block)
            reasons = " ".join(one.reason for one in window.entries if one.position == at)
            assert kept or not re.fullmatch("(as it was said)?", reasons), (block, told)
