"""Messages: frozen, equal by content, and known by one hash over all of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from windlass.messages import (
    Message,
    Opaque,
    Picture,
    Text,
    ToolCall,
    ToolSpec,
    assistant,
    canonical_json,
    clean_text,
    from_dict,
    system,
    to_dict,
    tool,
    user,
)
from windlass.text.pictures import picture

CALL = ToolCall("c1", "bash", '{"command": "ls"}')
SIGNED = Opaque("anthropic", "thinking", '{"signature":"x"}', "claude")
FULL = Message("assistant", (Text("hello"), SIGNED), (CALL,), "c0", "ada")


class TestEquality:
    def test_no_field_can_be_set(self) -> None:
        for value in (FULL, CALL, SIGNED, Text("a"), picture(some.png())):
            for field in dataclasses.fields(value):
                with pytest.raises(dataclasses.FrozenInstanceError):
                    setattr(value, field.name, None)

    @given(some.messages(foreign=True))
    def test_a_message_made_again_is_equal(self, message: Message) -> None:
        again = from_dict(json.loads(json.dumps(to_dict(message))))
        assert again == message
        assert hash(again) == hash(message)
        assert again.key == message.key

    @given(some.messages(foreign=True), some.messages(foreign=True))
    def test_keys_are_equal_exactly_where_messages_are(self, one: Message, other: Message) -> None:
        assert (one.key == other.key) == (one == other)

    def test_the_bytes_of_a_picture_are_known_by_their_hash_alone(self) -> None:
        whole = picture(some.png(), name="chart.png")
        assert dataclasses.replace(whole, data=None) == whole


class TestIdentity:
    @pytest.mark.req("AC-9")
    @given(some.messages(foreign=True))
    def test_content_hash_is_16_digits_of_the_sha256_of_canonical_json(
        self, message: Message
    ) -> None:
        text = json.dumps(to_dict(message), sort_keys=True, separators=(",", ":"))
        assert message.key == hashlib.sha256(text.encode("ascii")).hexdigest()
        assert message.content_hash == message.key[:16]

    @pytest.mark.req("AC-9")
    @pytest.mark.parametrize(
        "change",
        [
            {"role": "user"},
            {"parts": (Text("hello!"), SIGNED)},
            {"parts": (SIGNED, Text("hello"))},
            {"parts": (Text("hello"),)},
            {"parts": (Text("hel"), Text("lo"), SIGNED)},
            {"parts": (Text("hello"), dataclasses.replace(SIGNED, data='{"signature": "x"}'))},
            {"parts": (Text("hello"), dataclasses.replace(SIGNED, provider="gemini"))},
            {"parts": (Text("hello"), dataclasses.replace(SIGNED, kind="redacted"))},
            {"parts": (Text("hello"), dataclasses.replace(SIGNED, model="other"))},
            {"tool_calls": ()},
            {"tool_calls": (CALL, dataclasses.replace(CALL, id="c2"))},
            {"tool_calls": (dataclasses.replace(CALL, id="c2"),)},
            {"tool_calls": (dataclasses.replace(CALL, name="sh"),)},
            {"tool_calls": (dataclasses.replace(CALL, arguments='{"command":"ls"}'),)},
            {"tool_call_id": None},
            {"tool_call_id": "c9"},
            {"name": None},
            {"name": "eve"},
            {"failed": True},
        ],
        ids=str,
    )
    def test_each_field_takes_part(self, change: dict[str, Any]) -> None:
        assert dataclasses.replace(FULL, **change).key != FULL.key

    def test_the_key_of_a_result_that_did_not_fail_is_as_before_there_was_a_flag(self) -> None:
        result = tool("c1", "done", name="run")
        text = '{"content":"done","name":"run","role":"tool","tool_call_id":"c1"}'
        assert result.canonical == text
        assert dataclasses.replace(result, failed=True).canonical == (
            '{"content":"done","failed":true,"name":"run","role":"tool","tool_call_id":"c1"}'
        )

    @pytest.mark.req("AC-9")
    @pytest.mark.parametrize(
        "change",
        [
            {"sha256": "0" * 64},
            {"media_type": "image/gif"},
            {"width": 9},
            {"height": 9},
            {"name": "b.png"},
            {"detail": "high"},
            {"url": "https://example.org/"},
        ],
        ids=str,
    )
    def test_each_field_of_a_picture_takes_part(self, change: dict[str, Any]) -> None:
        whole = picture(some.png(), name="a.png")
        assert user(dataclasses.replace(whole, **change)).key != user(whole).key

    def test_a_key_is_the_same_in_every_process(self) -> None:
        # The value stands in stores: it may never change.
        assert FULL.key == "8f5d5d8dc2036b77ad8ae6b22c21a0dd9d8d73de4554ebab5b0a4c97ffc97838"
        program = "from windlass.messages import user; print(user('Grüße', '\\u2028').key)"
        keys = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for seed in ("1", "2")
        }
        assert keys == {user("Grüße", "\u2028").key}

    @given(st.dictionaries(some.rough_texts(), some.json_values()))
    def test_canonical_json_knows_no_order_and_is_ascii(self, value: dict[str, Any]) -> None:
        backwards = dict(reversed(value.items()))
        assert canonical_json(backwards) == canonical_json(value)
        assert canonical_json(value).isascii()
        assert json.loads(canonical_json(value)) == value


class TestText:
    def test_a_lone_surrogate_becomes_one_replacement_character(self) -> None:
        assert Text("a\ud800b").text == "a\ufffdb"
        assert Text("end\udc00").text == "end\ufffd"
        assert clean_text("\ud800\ud800") == "\ufffd\ufffd"

    def test_two_halves_of_a_character_are_joined(self) -> None:
        assert Text("\ud83d\ude00").text == "\U0001f600"

    @given(some.texts())
    def test_well_formed_text_stays_letter_for_letter(self, text: str) -> None:
        assert clean_text(text) == text
        assert Text(text).text == text

    @given(some.rough_texts())
    def test_whatever_comes_in_every_text_of_a_message_has_a_utf8_form(self, text: str) -> None:
        call = ToolCall(text, text, text)
        at = Picture("", "", name=text, url=text, detail=text)
        message = Message("assistant", (Text(text), at), (call,), text, text)
        json.dumps(to_dict(message), ensure_ascii=False).encode("utf-8")
        assert tool(call).tool_call_id == call.id

    def test_pieces_are_joined_by_newlines_and_the_rest_is_left_out(self) -> None:
        message = user("one", picture(some.png()), "two", SIGNED)
        assert message.text == "one\ntwo"
        assert message.pictures == (picture(some.png()),)
        assert message.chars == len("one\ntwo")
        assert assistant("hm", calls=[CALL]).chars == 2 + len(CALL.arguments)


class TestEmptyContent:
    def test_builders_leave_empty_text_out(self) -> None:
        assert user("").parts == ()
        assert tool(CALL, "").parts == ()

    def test_one_empty_text_is_the_same_as_none(self) -> None:
        assert Message("user", (Text(""),)) == Message("user")

    def test_beside_calls_the_two_are_told_apart(self) -> None:
        one = Message("assistant", (Text(""),), (CALL,))
        assert one != Message("assistant", (), (CALL,))
        assert from_dict(to_dict(one)) == one


class TestBuilders:
    def test_each_makes_its_role(self) -> None:
        roles = [system("a").role, user("a").role, assistant("a").role, tool(CALL, "a").role]
        assert roles == ["system", "user", "assistant", "tool"]
        assert system("a").is_system
        assert Message("developer").is_system
        assert not user("a").is_system

    def test_a_result_names_its_call(self) -> None:
        assert tool(CALL, "x").tool_call_id == "c1"
        assert tool(CALL, "x").name == "bash"
        assert tool("c7", "x").tool_call_id == "c7"
        assert tool("c7", "x").name is None

    def test_with_parts_keeps_the_rest(self) -> None:
        shorter = FULL.with_parts(Text("h"))
        assert shorter.text == "h"
        assert (shorter.tool_calls, shorter.tool_call_id, shorter.name) == ((CALL,), "c0", "ada")

    def test_a_tool_is_told_in_openai_form(self) -> None:
        spec = ToolSpec("bash", "Runs a command.", {"type": "object"})
        function = {
            "name": "bash",
            "description": "Runs a command.",
            "parameters": {"type": "object"},
        }
        assert spec.to_openai() == {"type": "function", "function": function}


class TestArguments:
    def test_are_read_as_an_object(self) -> None:
        assert CALL.parsed() == {"command": "ls"}
        assert ToolCall("1", "now", "").parsed() == {}

    @pytest.mark.parametrize("arguments", ["[1]", "3", "null", "{", '{"a": }', "ls -l"])
    def test_anything_else_is_a_value_error(self, arguments: str) -> None:
        with pytest.raises(ValueError):
            ToolCall("1", "bash", arguments).parsed()


class TestPictures:
    def test_in_words(self) -> None:
        assert picture(some.png(64, 48), name="chart.png").describe() == "chart.png, 64x48"
        assert Picture("", "", url="https://example.org/a").describe() == "https://example.org/a"
        assert Picture("ab" * 32, "image/png").describe() == "picture abababab"


class TestStoredForm:
    @given(some.messages(foreign=True))
    def test_there_and_back(self, message: Message) -> None:
        assert from_dict(to_dict(message)) == message
        assert to_dict(from_dict(to_dict(message))) == to_dict(message)

    @given(some.messages(foreign=True))
    def test_holds_no_bytes_and_nothing_empty(self, message: Message) -> None:
        stored = to_dict(message)
        assert list(stored)[:2] == ["role", "content"]
        assert None not in [stored[key] for key in stored if key != "content"]
        assert "base64" not in message.canonical

    @pytest.mark.parametrize(
        "stored",
        [{}, {"role": "user"}, {"role": "user", "content": [{"type": "smell"}]}],
    )
    def test_anything_else_is_refused(self, stored: dict[str, Any]) -> None:
        with pytest.raises((KeyError, ValueError)):
            from_dict(stored)
