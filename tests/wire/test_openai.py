"""OpenAI chat dicts in and out: nothing is lost, nothing wrong gets through."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from windlass.errors import SequenceError
from windlass.messages import (
    Message,
    Opaque,
    Picture,
    Text,
    ToolCall,
    assistant,
    system,
    tool,
    user,
)
from windlass.text.pictures import picture
from windlass.wire.openai import check_sequence, from_openai, to_openai

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = Path(os.environ.get("WINDLASS_DATA") or ROOT.parent / "shared" / "data")
EXCERPT = ROOT / "tests" / "data" / "tau2_retail.json"

CALL = ToolCall("c1", "bash", "{}")
OTHER = ToolCall("c2", "bash", "{}")
CALL_DICT = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


class TestThereAndBack:
    @given(some.messages())
    def test_a_message_comes_back_equal(self, message: Message) -> None:
        # The form has no word for a failed result.
        assert from_openai(to_openai(message)) == replace(message, failed=False)

    @given(some.chat_dicts())
    def test_a_chat_dict_comes_back_equal(self, chat: dict[str, Any]) -> None:
        message = from_openai(chat)
        assert to_openai(message) == chat
        assert from_openai(to_openai(message)) == message

    @given(some.chat_dicts())
    def test_a_chat_dict_can_be_sent_and_is_not_touched(self, chat: dict[str, Any]) -> None:
        before = copy.deepcopy(chat)
        sent = to_openai(from_openai(chat))
        json.dumps(sent, ensure_ascii=False).encode("utf-8")
        sent.clear()
        assert chat == before

    @pytest.mark.parametrize(
        "chat",
        [
            {"role": "assistant", "content": None, "refusal": "I cannot."},
            {"role": "assistant", "content": "", "reasoning_content": "Hm."},
            {"role": "assistant", "content": "", "tool_calls": [CALL_DICT]},
            {"role": "assistant", "content": None, "tool_calls": [CALL_DICT]},
            {"role": "assistant", "content": "", "audio": {"id": "a1"}},
            {"role": "tool", "content": "", "tool_call_id": "c1"},
            {"role": "user", "content": [{"type": "text", "text": ""}] * 2},
        ],
        ids=str,
    )
    def test_what_stands_in_place_of_content_stays(self, chat: dict[str, Any]) -> None:
        assert to_openai(from_openai(chat)) == chat

    @pytest.mark.parametrize(
        ("loose", "canonical"),
        [
            ({"content": [{"type": "text", "text": "a"}]}, {"content": "a"}),
            ({"content": ["a", "b"]}, {"content": [{"type": "text", "text": c} for c in "ab"]}),
            ({"content": None}, {"content": ""}),
            ({}, {"content": ""}),
            ({"content": []}, {"content": ""}),
            ({"content": "a", "refusal": None, "tool_calls": None}, {"content": "a"}),
            ({"content": "a", "tool_calls": []}, {"content": "a"}),
        ],
        ids=str,
    )
    def test_loose_forms_become_canonical(
        self, loose: dict[str, Any], canonical: dict[str, Any]
    ) -> None:
        assert to_openai(from_openai({"role": "user", **loose})) == {"role": "user", **canonical}

    def test_arguments_given_as_an_object_become_their_text(self) -> None:
        call = {"id": "c1", "function": {"name": "bash", "arguments": {"command": "ls"}}}
        read = from_openai({"role": "assistant", "tool_calls": [call]})
        assert read.tool_calls == (ToolCall("c1", "bash", '{"command": "ls"}'),)


class TestTextAndMarks:
    def test_a_text_with_a_cache_mark_is_still_text(self) -> None:
        part = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
        read = from_openai({"role": "user", "content": [part]})
        assert read.text == "long"
        assert to_openai(read)["content"] == [part]

    def test_a_picture_with_vendor_keys_is_still_a_picture(self) -> None:
        address = {"url": data_url(some.png()), "detail": "low", "format": "image/png"}
        part = {"type": "image_url", "image_url": address, "cache_control": {}}
        read = from_openai({"role": "user", "content": [part]})
        assert read.pictures[0].detail == "low"
        assert to_openai(read)["content"] == [part]

    def test_a_signature_on_a_tool_call_stays_with_it(self) -> None:
        signed = CALL_DICT | {"extra_content": {"google": {"thought_signature": "abc"}}}
        chat = {"role": "assistant", "content": None, "tool_calls": [CALL_DICT, signed]}
        read = from_openai(chat)
        assert read.tool_calls == (CALL, CALL)
        assert to_openai(read) == chat

    def test_lone_surrogates_become_replacement_characters(self) -> None:
        chat = {"role": "user", "content": "a\ud800", "name": "\udfff"}
        assert to_openai(from_openai(chat)) == {
            "role": "user",
            "content": "a\ufffd",
            "name": "\ufffd",
        }

    def test_a_vendor_key_with_a_lone_surrogate_can_be_stored_and_comes_back(self) -> None:
        chat = {"role": "user", "content": "a", "note": "\ud800"}
        read = from_openai(chat)
        assert all(part.data.encode("utf-8") for part in read.parts if isinstance(part, Opaque))
        assert to_openai(read) == chat

    @given(some.messages(foreign=True))
    def test_what_others_signed_is_left_out(self, message: Message) -> None:
        own = message.with_parts(*(p for p in message.parts if not isinstance(p, Opaque)))
        assert to_openai(message) == to_openai(own)

    def test_parts_of_openais_other_interface_are_left_out(self) -> None:
        reasoning = Opaque("openai", "reasoning", '{"type":"reasoning","id":"rs_1"}')
        assert to_openai(assistant("a", reasoning)) == {"role": "assistant", "content": "a"}


class TestPictures:
    @pytest.mark.parametrize("make", some.FILES)
    def test_become_data_urls_of_their_bytes(self, make: Any) -> None:
        one = picture(make(3, 4))
        chat = to_openai(user("see", one))
        url = chat["content"][1]["image_url"]["url"]
        head, _, body = url.partition(",")
        assert head == f"data:{one.media_type};base64"
        assert base64.b64decode(body) == one.data
        assert from_openai(chat).pictures == (one,)

    def test_bytes_are_loaded_only_when_the_picture_has_none(self) -> None:
        one = picture(some.png())
        asked: list[str] = []

        def load(sha256: str) -> bytes:
            asked.append(sha256)
            return some.png()

        stored = Picture(one.sha256, "image/png", one.width, one.height)
        assert to_openai(user(stored), load) == to_openai(user(one), load)
        assert asked == [one.sha256]

    def test_without_bytes_and_loader_the_picture_is_named(self) -> None:
        with pytest.raises(ValueError, match=r"picture abab.* has no bytes"):
            to_openai(user(Picture("ab" * 32, "image/png")))


class TestRefusals:
    @pytest.mark.parametrize(
        ("chat", "says"),
        [
            ({}, "role None is none of system, "),
            ({"role": "function"}, "role 'function' is none of"),
            ({"role": []}, "role .* is none of"),
            ({"role": "user", "content": 3}, "neither text nor a list of parts"),
            ({"role": "user", "content": {"type": "text"}}, "neither text nor a list of parts"),
            ({"role": "user", "content": ["a", 3]}, "part 1: a part is an object with a type"),
            ({"role": "user", "content": [{}]}, "part 0: a part is an object with a type"),
            ({"role": "user", "content": [{"type": "text"}]}, "part 0: a text part has a text"),
            (
                {"role": "user", "content": [{"type": "text", "text": None}]},
                "part 0: a text part has a text",
            ),
            ({"role": "assistant", "tool_calls": 5}, "tool_calls is not a list"),
            ({"role": "assistant", "tool_calls": {"id": "a"}}, "tool_calls is not a list"),
            ({"role": "assistant", "tool_calls": [CALL_DICT, {}]}, "tool call 1: a call has an id"),
            (
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]},
                "tool call 0: .* a function with a name",
            ),
            ({"role": "tool", "content": "", "tool_call_id": 7}, "tool_call_id 7 is not text"),
            ({"role": "user", "content": "", "name": ["a"]}, "name .* is not text"),
        ],
        ids=str,
    )
    def test_name_the_place_and_the_rule(self, chat: dict[str, Any], says: str) -> None:
        with pytest.raises(SequenceError, match=f"^message 4.*{says}"):
            from_openai(chat, where="message 4")

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "data:",
            "data:image/png;base64,",
            "data:image/png;base64,####",
            "data:image/png;base64,aGVsbG8=",
            "data:image/svg+xml;utf8,<svg/>",
            data_url(some.png(0, 0)),
        ],
    )
    def test_an_image_that_is_none_is_refused(self, url: str) -> None:
        part = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(SequenceError, match=r"^message, part 1: .*(no picture|is empty)"):
            from_openai({"role": "user", "content": ["see", part]})


class TestSequence:
    @given(some.conversations())
    def test_valid_conversations_pass_and_come_back(self, messages: list[Message]) -> None:
        before = list(messages)
        check_sequence(messages, {call.name for m in messages for call in m.tool_calls})
        again = [from_openai(to_openai(message)) for message in messages]
        assert again == before == messages

    @given(some.conversations(min_turns=1), st.data())
    def test_a_result_taken_away_is_missed(
        self, messages: list[Message], data: st.DataObject
    ) -> None:
        results = [index for index, message in enumerate(messages) if message.role == "tool"]
        if results:
            del messages[data.draw(st.sampled_from(results))]
            with pytest.raises(SequenceError, match="no result"):
                check_sequence(messages)

    @given(some.conversations(min_turns=1), st.data())
    def test_a_result_said_twice_is_refused(
        self, messages: list[Message], data: st.DataObject
    ) -> None:
        results = [index for index, message in enumerate(messages) if message.role == "tool"]
        if results:
            at = data.draw(st.sampled_from(results))
            messages.insert(at + 1, messages[at])
            with pytest.raises(SequenceError, match=rf"^message {at + 1} \(tool\): answers call"):
                check_sequence(messages)

    @pytest.mark.parametrize(
        ("messages", "says"),
        [
            ([], "the list of messages is empty"),
            ([user("a"), assistant()], r"message 1 \(assistant\): has neither content nor"),
            ([user()], r"message 0 \(user\): has neither content nor"),
            ([user("a"), tool("c1", "x")], r"message 1 \(tool\): answers call 'c1', which"),
            ([Message("tool", (Text("x"),))], r"message 0 \(tool\): answers call None"),
            (
                [assistant(calls=[CALL]), tool("c9", "x")],
                r"message 1 \(tool\): answers call 'c9'",
            ),
            (
                [assistant(calls=[CALL]), user("wait"), tool(CALL, "x")],
                r"message 1 \(user\): calls \['c1'\] have no result yet",
            ),
            (
                [assistant(calls=[CALL, OTHER]), tool(CALL, "x"), assistant("a")],
                r"message 2 \(assistant\): calls \['c2'\] have no result yet",
            ),
            ([user("a"), assistant(calls=[CALL])], r"at the end: calls \['c1'\] have no result"),
            (
                [assistant(calls=[CALL, CALL]), tool(CALL, "x")],
                r"message 0 \(assistant\): two tool calls share an id",
            ),
            (
                [Message("user", (Text("a"),), (CALL,)), tool(CALL, "x")],
                r"message 0 \(user\): only an assistant calls tools",
            ),
        ],
        ids=str,
    )
    def test_each_break_is_refused_with_position_and_rule(
        self, messages: list[Message], says: str
    ) -> None:
        with pytest.raises(SequenceError, match=f"^{says}"):
            check_sequence(messages)

    def test_results_may_come_in_any_order_and_be_empty(self) -> None:
        check_sequence([assistant(calls=[CALL, OTHER]), tool(OTHER), tool(CALL)])

    def test_a_called_tool_must_be_defined_where_the_names_are_given(self) -> None:
        spoken = [system("a"), user("b"), assistant(calls=[CALL]), tool(CALL, "x")]
        check_sequence(spoken, {"bash", "recall"})
        with pytest.raises(SequenceError, match=r"^message 2 .*'bash'.*did you mean 'bsh'\?"):
            check_sequence(spoken, ["bsh"])
        with pytest.raises(SequenceError, match=r"does not define; none are known here"):
            check_sequence(spoken, [])


def recordings() -> Iterator[Any]:
    files = sorted((RECORDINGS / "trajectories").glob("*.jsonl.gz"))
    if not files:
        reason = f"no recordings in {RECORDINGS}; WINDLASS_DATA names their folder"
        yield pytest.param(None, marks=pytest.mark.skip(reason), id="absent")
    for file in files:
        yield pytest.param(file, id=file.name.partition(".")[0])


class TestRealTranscripts:
    @staticmethod
    def check(chats: list[dict[str, Any]]) -> None:
        messages = [from_openai(chat, where=f"message {at}") for at, chat in enumerate(chats)]
        check_sequence(messages, {call.name for m in messages for call in m.tool_calls})
        assert [to_openai(message) for message in messages] == chats

    def test_the_excerpt_comes_back_letter_for_letter(self) -> None:
        chats = json.loads(EXCERPT.read_text(encoding="utf-8"))["messages"]
        assert {chat["role"] for chat in chats} == {"system", "user", "assistant", "tool"}
        self.check(chats)

    @pytest.mark.parametrize("file", list(recordings()))
    def test_recordings_come_back_letter_for_letter(self, file: Path) -> None:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in islice(lines, 3):
                self.check(json.loads(line)["messages"])
