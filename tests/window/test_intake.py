"""What comes from outside: mended and told where its meaning is clear, else refused."""

from __future__ import annotations

import base64
import copy
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import windlass
from tests.strategies import png, rough_texts
from tests.support.window_intake import problems
from tests.window.conversations import chats
from windlass.errors import SequenceError, WindlassError
from windlass.wire.openai import check_sequence, from_openai

HI = {"role": "user", "content": "hi"}
PNG = f"data:image/png;base64,{base64.b64encode(png()).decode()}"


def call(ident: Any = "c1", name: str = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def asks(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(ident: Any = "c1", content: Any = "seen") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": content}


def repairs(window: Any) -> dict[int | None, str]:
    """What was mended, by position."""
    return {one.position: one.reason for one in window.entries if one.because == "repair"}


def sent(messages: list[Any]) -> Any:
    """The window of the messages; checked."""
    before = copy.deepcopy(messages)
    window = windlass.bound(messages)
    assert messages == before, "the caller's list was changed"
    json.dumps(window.messages, ensure_ascii=False, allow_nan=False).encode()
    assert problems(window) == []
    places = [one.position for one in window.entries if one.position is not None]
    assert sorted(places) == list(range(len(messages))), "a message vanished"
    return window


def refused(*messages: Any) -> str:
    with pytest.raises(SequenceError) as caught:
        windlass.bound(list(messages))
    return str(caught.value)


class TestPairs:
    def test_a_call_without_a_result_gets_one(self) -> None:
        window = sent([HI, asks(call()), {"role": "user", "content": "go on"}])
        assert [one["role"] for one in window.messages] == ["user", "assistant", "tool", "user"]
        assert window.messages[2]["content"] == "[No result of this call was recorded.]"
        assert repairs(window) == {None: "a call without a result"}

    def test_a_list_that_ends_with_a_call_is_sent_with_a_result(self) -> None:
        window = sent([HI, asks(call("c1"), call("c2")), result("c2")])
        assert [one.get("tool_call_id") for one in window.messages[2:]] == ["c2", "c1"]
        window = sent([HI, asks(call("c1"), call("c2")), result("c2"), result("c1")])
        assert [one.get("tool_call_id") for one in window.messages[2:]] == ["c2", "c1"]
        assert repairs(window) == {}

    def test_a_result_that_answers_no_call_becomes_a_users_word(self) -> None:
        window = sent([HI, result("c9", "42 rows")])
        assert window.messages[1]["role"] == "user"
        assert window.messages[1]["content"].endswith("\n42 rows")
        assert repairs(window) == {1: "answers call 'c9', which is not open"}

    def test_a_result_before_its_call(self) -> None:
        window = sent([HI, result("c1"), asks(call("c1")), {"role": "user", "content": "so?"}])
        assert [one["role"] for one in window.messages] == [
            "user",
            "user",
            "assistant",
            "tool",
            "user",
        ]

    def test_a_result_behind_a_user_is_moved_to_its_call(self) -> None:
        between = [{"role": "user", "content": "hurry"}, {"role": "system", "content": "Be brief."}]
        listed = [HI, asks(call("a"), call("b")), result("a", "1"), *between, result("b", "2"), HI]
        window = sent(listed)
        assert window.messages == [*listed[:3], listed[5], *between, HI]
        assert repairs(window) == {5: "moved to its call, before what was said in between"}
        assert all(any(one is each for each in listed) for one in window.messages[:3])
        done = {"role": "assistant", "content": "done"}
        assert sent([*listed[:6], done, HI]).messages == [*window.messages[:-1], done, HI]

    def test_a_result_that_came_after_the_next_reply_is_told_where_it_stands(self) -> None:
        done = {"role": "assistant", "content": "I wait."}
        context = windlass.Context()
        for one in [HI, asks(call("a")), HI]:
            context.append(one)
        waits = context.window().messages
        assert waits[2]["content"] == "[No result of this call was recorded.]"
        listed = [HI, asks(call("a")), HI, done, result("a", "42 rows"), HI]
        window = sent(listed)
        assert window.messages[2]["content"] == (
            "[The result of this call came later; it stands below.]"
        )
        told = "[Result of the call of look above, which came later]\n42 rows"
        assert window.messages[5] == {"role": "user", "content": told}
        late = "the result of call 'a', which came after the next reply"
        assert repairs(window)[4] == late
        for one in listed[3:]:
            context.append(one)
        assert context.window().messages == window.messages

    def test_a_call_whose_result_stood_before_it_says_so(self) -> None:
        done = {"role": "assistant", "content": "done"}
        window = sent([HI, result("a", "42 rows"), asks(call("a")), done, HI])
        assert window.messages[1]["content"].endswith("42 rows")
        assert window.messages[3]["content"] == "[The result of this call stands above it.]"

    def test_a_pin_may_name_what_waits_for_a_result(self) -> None:
        listed = [HI, asks(call("a")), {"role": "user", "content": "hurry"}]
        window = windlass.bound(listed, pins=[2])
        assert window.messages[3] == listed[2]

    def test_a_second_result_of_one_call_stands_behind_the_others(self) -> None:
        listed = [HI, asks(call("a"), call("b")), result("a", "1"), result("a", "2"), result("b")]
        window = sent(listed)
        assert [one["role"] for one in window.messages[2:]] == ["tool", "tool", "user"]
        assert window.messages[4]["content"] == "[Another result of a call that has one]\n2"
        assert repairs(window)[3] == "another result of call 'a', which has one"

    def test_what_waits_behind_open_calls_is_shown_too(self) -> None:
        window = sent([HI, asks(call("a"), call("b")), result("x", "lost"), result("a")])
        assert [one["role"] for one in window.messages[2:]] == ["tool", "tool", "user"]
        assert window.messages[-1]["content"].endswith("lost")
        assert 2 in repairs(window)

    def test_a_picture_of_a_result_stands_behind_the_results(self) -> None:
        shown = {"type": "image_url", "image_url": {"url": PNG}}
        text = {"type": "text", "text": "seen"}
        calls = asks(call("a", "look"), call("b"))
        listed = [HI, calls, result("a", [text, shown]), result("b"), HI]
        window = sent(listed)
        assert [one["role"] for one in window.messages[2:]] == ["tool", "tool", "user", "user"]
        assert window.messages[2]["content"] == "seen"
        told = {"type": "text", "text": "[Images of tool result look]"}
        assert window.messages[4]["content"] == [told, shown]
        assert repairs(window)[2] == "its pictures stand in a user's message behind the results"
        assert windlass.bound(window.messages).messages == window.messages
        routed = windlass.bound(listed, model="anthropic/claude-sonnet-4-5")
        assert routed.messages == listed

    def test_a_picture_of_an_assistant_becomes_words(self) -> None:
        shown = {"type": "image_url", "image_url": {"url": PNG}, "cache_control": {"type": "x"}}
        said = {"role": "assistant", "content": [{"type": "text", "text": "here"}, shown]}
        window = sent([HI, said, HI])
        assert [one["type"] for one in window.messages[1]["content"]] == ["text", "text"]
        assert "picture became words" in str(repairs(window)[1])

    def test_a_repeated_id_gets_a_number_and_so_does_its_result(self) -> None:
        listed = [HI, asks(call("x")), result("x", "1"), asks(call("x")), result("x", "2")]
        window = sent(listed)
        assert window.messages[1]["tool_calls"][0]["id"] == "x"
        ident = window.messages[3]["tool_calls"][0]["id"]
        assert ident != "x"
        assert window.messages[4]["tool_call_id"] == ident
        assert repairs(window) == {3: "call id 'x' is used before", 4: "call id 'x' is used before"}

    def test_one_id_for_two_calls_at_once(self) -> None:
        window = sent([HI, asks(call("x"), call("x")), result("x", "1"), result("x", "2")])
        ids = [one["id"] for one in window.messages[1]["tool_calls"]]
        assert len(set(ids)) == 2
        assert [one["tool_call_id"] for one in window.messages[2:]] == ids

    @pytest.mark.parametrize("ident", ["", None])
    def test_empty_ids(self, ident: str | None) -> None:
        turn = [asks(call(ident)), result(ident, "1")]
        window = sent([HI, *turn, *copy.deepcopy(turn)])
        assert [one["tool_call_id"] for one in window.messages if one["role"] == "tool"] == [
            "call_1",
            "call_2",
        ]

    def test_a_result_without_an_id_answers_the_one_open_call(self) -> None:
        window = sent([HI, asks(call("x")), {"role": "tool", "content": "1"}])
        assert window.messages[2] == result("x", "1")

    def test_ids_that_repeat_a_thousand_times_cost_no_more(self) -> None:
        listed = [HI]
        for number in range(1_000):
            listed += [asks(call("x", arguments=f'{{"at": {number}}}')), result("x", f"{number}")]
        window = windlass.bound(listed)
        check_sequence([from_openai(chat) for chat in window.messages])
        assert len(repairs(window)) == 2 * 999


class TestForm:
    @pytest.mark.parametrize("content", ["", "  \n", None, [], [{"type": "text", "text": ""}]])
    @pytest.mark.parametrize("role", ["system", "user", "assistant"])
    def test_a_message_that_says_nothing_is_left_out(self, role: str, content: Any) -> None:
        window = sent([HI, {"role": role, "content": content}])
        assert window.messages == [HI]
        assert (window.entries[1].action, window.entries[1].because) == ("dropped", "repair")

    def test_vendor_keys_alone_say_nothing_but_in_a_reply(self) -> None:
        marked = {"role": "user", "content": None, "cache_control": {"type": "ephemeral"}}
        assert sent([HI, marked]).messages == [HI]
        refusal = {"role": "assistant", "content": None, "refusal": "No."}
        assert sent([HI, refusal]).messages == [HI, refusal]

    @pytest.mark.parametrize("content", [None, "", []])
    def test_an_empty_result_stays_a_result(self, content: Any) -> None:
        window = sent([HI, asks(call()), result(content=content)])
        assert window.messages[2] == result(content="")

    def test_what_is_clear_is_written_as_the_endpoint_takes_it(self) -> None:
        asking = {
            "role": "assistant",
            "refusal": None,
            "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {"at": "x"}}}],
        }
        picture = {"role": "user", "content": ["Look:", {"type": "image_url", "image_url": PNG}]}
        empty = {"role": "assistant", "content": "Done.", "tool_calls": []}
        window = sent([HI, asking, result(), picture, empty])
        assert window.messages[1]["tool_calls"] == [call(arguments='{"at": "x"}')]
        assert "refusal" not in window.messages[1]
        assert window.messages[3]["content"][0] == {"type": "text", "text": "Look:"}
        assert window.messages[3]["content"][1]["image_url"] == {"url": PNG}
        assert "tool_calls" not in window.messages[4]
        assert set(repairs(window)) == {1, 3, 4}

    def test_halves_of_characters_are_replaced(self) -> None:
        window = sent([{"role": "user", "content": "a\ud800b"}])
        assert window.messages == [{"role": "user", "content": "a\ufffdb"}]
        assert repairs(window) == {0: "halves of characters became U+FFFD"}

    def test_control_characters_stay(self) -> None:
        text = "".join(map(chr, range(32))) + "\x7f\x85\u2028\ufeff\uffff"
        assert sent([{"role": "user", "content": text}]).messages[0]["content"] == text

    def test_unknown_keys_and_parts_travel_as_they_are(self) -> None:
        said = {"role": "user", "content": [{"type": "x_scene", "v": 1}], "x_trace": {"a": [1]}}
        assert sent([said]).messages == [said]

    def test_only_a_result_has_a_tool_call_id(self) -> None:
        assert sent([{**HI, "tool_call_id": "x"}]).messages == [HI]

    def test_two_messages_under_one_id_are_two(self) -> None:
        window = sent([{**HI, "id": "m"}, {"role": "user", "content": "ho", "id": "m"}])
        assert [one["content"] for one in window.messages] == ["hi", "ho"]
        assert len({one.id for one in window.entries}) == 2
        assert all("id" not in one for one in window.messages)


class TestRefused:
    def test_the_empty_list(self) -> None:
        assert refused() == "the list of messages is empty, or none of them says anything"
        with pytest.raises(SequenceError, match="is empty"):
            windlass.Context().window()

    @pytest.mark.parametrize(
        ("message", "rule"),
        [
            ("hi", "is str, not an object with a role"),
            (None, "is NoneType, not an object with a role"),
            ({}, "role None is none of system"),
            ({"role": "robot", "content": "x"}, "role 'robot' is none of system"),
            ({"role": [], "content": "x"}, "role \\[\\] is none of system"),
            ({"role": "user", "content": 5}, "content is neither text nor a list of parts"),
            ({"role": "user", "content": [5]}, "part 0: a part is an object with a type"),
            ({"role": "user", "content": [{"type": "text"}]}, "a text part has a text"),
            (
                {"role": "user", "content": [{"type": "image_url"}]},
                "part 0: an image_url part has an image_url with a url",
            ),
            (
                {"role": "user", "content": [{"type": "image_url", "image_url": "x.png"}]},
                "'x.png' is neither an http address",
            ),
            (
                {"role": "user", "content": [{"type": "image_url", "image_url": "data:x,yy"}]},
                "the data URL is no picture",
            ),
            ({**HI, "tool_calls": [call()]}, "only an assistant calls tools"),
            (asks(call(name="")), "tool call 0: the name of its function is empty"),
            (asks({"id": "x"}), "a call has an id and a function with a name"),
            (asks(call(ident=5)), "a call has an id and a function with a name"),
            ({"role": "assistant", "content": "x", "tool_calls": "c"}, "tool_calls is not a list"),
            (result(ident=5), "tool_call_id 5 is not text"),
            (dict[Any, Any]({**HI}) | {5: "x"}, "the key 5 is not text"),
            ({**HI, "x": {"y": {1: 2}}}, "the key 1 is not text"),
            ({**HI, "x": math.nan}, "holds the number nan, which is no JSON"),
            ({**HI, "x": {1, 2}}, "holds a set, which is no JSON"),
            ({**HI, "x": b"1"}, "holds a bytes, which is no JSON"),
            ({**HI, "x": 10**5000}, "holds a number of more than 1024 bits"),
            (
                {"role": "system", "content": [{"type": "input_audio", "input_audio": {}}]},
                "input_audio in a message of role 'system'",
            ),
        ],
    )
    def test_with_position_and_rule(self, message: Any, rule: str) -> None:
        with pytest.raises(SequenceError, match=rule) as caught:
            windlass.bound([HI, message])
        assert str(caught.value).startswith("message 1")

    def test_what_holds_itself_or_is_too_deep(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert "nested deeper than 100 levels" in refused(HI, {**HI, "x": loop})

    @pytest.mark.parametrize("messages", [None, "hi", 5, {"role": "user", "content": "x"}, b"x"])
    def test_what_is_no_list(self, messages: Any) -> None:
        with pytest.raises(windlass.WindlassError, match="messages are a list of objects"):
            windlass.bound(messages)

    def test_a_context_goes_on_after_it_refused(self) -> None:
        context = windlass.Context()
        context.append(HI)
        for _ in range(2):
            with pytest.raises(SequenceError, match="message 1: role 'robot'"):
                context.append({"role": "robot", "content": "x"})
        context.append(asks(call()))
        context.append(result())
        window = context.window()
        assert len(window.messages) == 3
        assert [one.position for one in window.entries] == [0, 1, 2]
        with pytest.raises(SequenceError, match="message 3"):
            context.append({"role": "robot"})


class TestSize:
    @pytest.mark.parametrize(
        "text",
        [
            "x" * 2_000_000,
            "ab " * 650_000,
            "[" * 2_000_000,
            "/a.b:c#d@e" * 200_000,
            '{"a":' * 360_000,
            "\x1b[31m" * 400_000,
            "\u2603" * 680_000,
            ("\\" * 1_999_999) + '"',
        ],
        ids=["x", "words", "brackets", "names", "json", "codes", "snow", "slashes"],
    )
    def test_two_megabytes_of_one_line(self, text: str) -> None:
        listed = [HI, asks(call()), result(content=text), asks(call("c2")), result("c2", "ok")]
        window = windlass.bound([*listed, {"role": "user", "content": "so?"}])
        assert problems(window) == []
        assert len(json.dumps(window.messages)) < 200_000


# ---- anything -----------------------------------------------------------------------

_KEYS = st.sampled_from(
    ["role", "content", "tool_calls", "tool_call_id", "name", "id", "refusal", "x", "type", "text"]
)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | rough_texts()
    | st.sampled_from(["user", "assistant", "tool", "system", "text", "image_url", PNG, "c1", ""])
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS, inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=1)
    ),
    max_leaves=8,
)
_CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["c1", "c2", "", None, "a" * 60]),
            "function": st.fixed_dictionaries(
                {"name": st.sampled_from(["look", "", "a.b c", "x" * 90])},
                optional={"arguments": st.sampled_from(["{}", "{x", "", None, {"a": 1}, "NaN"])},
            ),
        },
        optional={"type": st.just("function"), "x": st.integers()},
    )
    | _VALUES,
    max_size=3,
)
_PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "part"},
            {"type": "text", "text": ""},
            {"type": "image_url", "image_url": {"url": PNG}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "file", "file": {"file_id": "f"}},
            "bare",
        ]
    ),
    max_size=3,
)
_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer", "robot"])},
    optional={
        "content": st.none() | rough_texts() | _PARTS | _VALUES,
        "tool_calls": _CALLS,
        "tool_call_id": st.sampled_from(["c1", "c2", "", None, 5]),
        "name": st.sampled_from(["look", "Ann Lee", "", None]),
        "id": st.sampled_from(["m1", "m2", 7]),
        "x_key": _VALUES,
    },
)


def survives(messages: Any) -> bool:
    """Whether a list is taken; what is taken is valid, and what is not is refused in words."""
    before = repr(messages)
    try:
        window = windlass.bound(messages)
    except WindlassError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert refusal.startswith(("message ", "messages are ", "the list of messages"))
        return False
    assert repr(messages) == before
    assert problems(window) == []
    json.dumps(window.messages, ensure_ascii=False, allow_nan=False).encode()
    places = [one.position for one in window.entries if one.position is not None]
    assert sorted(places) == list(range(len(messages)))
    return True


@given(st.lists(_MESSAGES | _VALUES, max_size=6) | _VALUES)
@example([{"role": "tool", "content": None, "tool_call_id": ""}])
@example([{"role": "assistant", "tool_calls": [call("")]}, result("")])
def test_anything_is_taken_or_refused(messages: Any) -> None:
    survives(messages)


@given(chats(max_turns=5), st.data())
def test_a_conversation_that_was_damaged(messages: list[dict[str, Any]], data: Any) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        if not messages:
            break
        at = data.draw(st.integers(0, len(messages) - 1))
        other = data.draw(st.integers(0, len(messages) - 1))
        match data.draw(st.sampled_from(["cut", "twice", "swap", "end", "id", "role", "content"])):
            case "cut":
                del messages[at]
            case "twice":
                messages.insert(other, copy.deepcopy(messages[at]))
            case "swap":
                messages[at], messages[other] = messages[other], messages[at]
            case "end":
                del messages[at:]
            case "id":
                messages[at]["tool_call_id"] = data.draw(st.sampled_from(["call_0_0", "", None]))
            case "role":
                messages[at]["role"] = data.draw(st.sampled_from(["user", "assistant", "tool"]))
            case _:
                messages[at]["content"] = data.draw(st.none() | _PARTS | rough_texts())
    survives(messages)


@given(st.lists(_MESSAGES, max_size=8))
def test_a_context_that_refuses_goes_on_as_if_nothing_had_been_said(messages: list[Any]) -> None:
    context = windlass.Context()
    good: list[Any] = []
    for message in messages:
        try:
            context.append(message)
        except SequenceError as error:
            refusal = str(error)
        else:
            good.append(message)
            continue
        assert refusal.startswith(f"message {len(good)}")
    try:
        shown = context.window().messages
    except SequenceError:
        return
    assert shown == windlass.bound(good).messages
