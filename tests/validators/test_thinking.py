"""The checker of signed thinking does what the vendor's pages and live trials say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.validators.thinking import CONTROLS, Thinking

Body = dict[str, Any]

CHANGED = (
    "messages.{}: Invalid `signature` in `thinking` block. The block is bound to a different"
    " conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". Content before this'
    " block differs from when it was created, first at {}."
)
NO_HEADER = (
    ' to "drop_block". That setting requires the `thinking-binding-controls-2026-08-01` value in'
    " the `anthropic-beta` header."
)
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def text(said: str) -> Body:
    return {"type": "text", "text": said}


def thought(number: int) -> Body:
    return {"type": "thinking", "thinking": f"thought {number}", "signature": f"sig{number}"}


def use(number: int) -> Body:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {"at": number}}


def result(number: int, said: str = "found") -> Body:
    content = [text(said)]
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content}


def tool(name: str, **more: Any) -> Body:
    return {"name": name, "description": name, "input_schema": {"type": "object"}, **more}


def begun() -> Body:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 1_000,
        "system": [text("Be.")],
        "tools": [tool("look")],
        "messages": [{"role": "user", "content": [text("Go")]}],
    }


def answered(checker: Thinking, body: Body, number: int, beta: str = "") -> Body:
    """The body after an answer of thinking and a call, and its result; the checker noted it."""
    answer = [thought(number), use(number)]
    checker.note(body, answer, beta)
    more = [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [result(number)]},
    ]
    return {**body, "messages": copy.deepcopy([*body["messages"], *more])}


def talk(rounds: int = 3) -> tuple[Thinking, Body]:
    """A conversation in which only was appended: messages 1, 3, 5 begin with thinking 1, 2, 3."""
    checker, body = Thinking(), begun()
    for number in range(1, rounds + 1):
        assert checker.check(body) is None
        body = answered(checker, body, number)
    return checker, body


def without(body: Body, *numbers: int) -> Body:
    """The body without some of its thinking."""
    gone = {f"sig{number}" for number in numbers}
    cut = copy.deepcopy(body)
    for message in cut["messages"]:
        message["content"] = [one for one in message["content"] if one.get("signature") not in gone]
    return cut


def put(*way: Any) -> Callable[[Body], None]:
    """Put the last of `way` at the place that the others lead to."""

    def change(body: Body) -> None:
        at: Any = body
        for key in way[:-2]:
            at = at[key]
        at[way[-2]] = way[-1]

    return change


def marks(body: Body) -> None:
    for place in (body["system"][0], body["tools"][0], body["messages"][2]["content"][0]):
        place["cache_control"] = {"type": "ephemeral"}
    body["messages"][2]["content"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}


def reorder(body: Body) -> None:
    body["messages"] = [dict(reversed(message.items())) for message in body["messages"]]
    body["messages"][1]["content"][1] = dict(reversed(body["messages"][1]["content"][1].items()))


def split(body: Body) -> None:
    """One message of two blocks becomes two messages of a role in a row."""
    answer = body["messages"][1]
    halves = [{"role": "assistant", "content": [one]} for one in answer["content"]]
    body["messages"][1:2] = halves


def defer(body: Body) -> None:
    body["tools"].append(tool("later", defer_loading=True))


HARMLESS = {
    "marks": marks,
    "order of keys": reorder,
    "system as a string": put("system", "Be."),
    "message as a string": put("messages", 0, "content", "Go"),
    "two messages of one role": split,
    "effort": put("output_config", {"effort": "low"}),
    "max_tokens": put("max_tokens", 5),
    "tool_choice": put("tool_choice", {"type": "none"}),
    "metadata": put("metadata", {"user_id": "u"}),
    "a deferred tool that nothing names": defer,
    "the shown text of thinking": put("messages", 1, "content", 0, "thinking", "other"),
    "appended": lambda body: body["messages"].append({"role": "user", "content": [text("On")]}),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_harmless(change: Callable[[Body], None]) -> None:
    checker, body = talk()
    change(body)
    assert checker.check(body) is None


BREAKS = {
    "system": (put("system", 0, "text", "Be!"), "1.content.0", "the `system` prompt"),
    "no system": (lambda body: body.pop("system"), "1.content.0", "the `system` prompt"),
    "a tool's word": (put("tools", 0, "description", "x"), "1.content.0", "the `tools` list"),
    "a new tool": (
        lambda body: body["tools"].append(tool("more")),
        "1.content.0",
        "the `tools` list",
    ),
    "no tools": (lambda body: body.pop("tools"), "1.content.0", "the `tools` list"),
    "the first message": (
        put("messages", 0, "content", 0, "text", "Gone"),
        "1.content.0",
        "`messages.0.content.0`",
    ),
    "a text more in an old message": (
        lambda body: body["messages"][0]["content"].append(text("more")),
        "1.content.0",
        "`messages.0.content.1`",
    ),
    "a shortened result": (
        put("messages", 2, "content", 0, "content", 0, "text", "f…"),
        "3.content.0",
        "`messages.2.content.0`",
    ),
    "a changed input": (
        put("messages", 3, "content", 1, "input", {}),
        "5.content.0",
        "`messages.3.content.1`",
    ),
    "a message taken away": (
        lambda body: body["messages"].pop(0),
        "0.content.0",
        "`messages.0.content.0`",
    ),
    "a round taken away": (
        lambda body: body["messages"].__delitem__(slice(1, 3)),
        "1.content.0",
        "`messages.1.content.0`",
    ),
    "a key of a message": (
        put("messages", 2, "clear_at", "next_user_message"),
        "3.content.0",
        "`messages.2.content.0`",
    ),
}


@pytest.mark.parametrize(("change", "block", "first"), BREAKS.values(), ids=BREAKS)
def test_what_changes_breaks_the_earliest_block_behind_it(
    change: Callable[[Body], None], block: str, first: str
) -> None:
    checker, body = talk()
    change(body)
    assert checker.check(body, CONTROLS) == CHANGED.format(block, first)
    told = checker.check(body)
    assert told == CHANGED.format(block, first).replace(' to "drop_block".', NO_HEADER)


def test_a_deferred_tool_breaks_what_came_after_it_was_named() -> None:
    checker, body = talk(1)
    named = {"role": "user", "content": [{"type": "tool_reference", "tool_name": "later"}]}
    body["tools"].append(tool("later", defer_loading=True))
    body["messages"].append(named)
    body = answered(checker, body, 2)
    assert checker.check(body) is None
    body["tools"].pop()
    assert str(checker.check(body)).startswith("messages.4.content.0: Invalid `signature`")


@pytest.mark.parametrize("gone", [(1,), (1, 2), (3,), (2, 3), (1, 2, 3)])
def test_thinking_goes_from_the_front_the_end_or_all_of_it(gone: tuple[int, ...]) -> None:
    checker, body = talk()
    assert checker.check(without(body, *gone)) is None


def test_thinking_does_not_go_from_the_middle() -> None:
    checker, body = talk()
    told = str(checker.check(without(body, 2), CONTROLS))
    assert told == CHANGED.format("5.content.0", "`messages.1.content.0`")


def test_thinking_does_not_come_back() -> None:
    checker, body = talk()
    after = answered(checker, without(body, 1), 4)
    assert checker.check(after) is None
    back = {**after, "messages": [*body["messages"], *after["messages"][-2:]]}
    told = str(checker.check(back, CONTROLS))
    assert told == CHANGED.format("7.content.0", "`messages.1.content.0`")


def test_an_edit_is_legal_where_the_thinking_behind_it_goes() -> None:
    checker, body = talk()
    put("messages", 2, "content", 0, "content", 0, "text", "f…")(body)
    cut = without(body, 2, 3)
    assert checker.check(cut) is None
    after = answered(checker, cut, 4)
    assert checker.check(after) is None
    # What comes after the edit is bound to what was left.
    after["messages"][1]["content"].pop(0)
    assert checker.check(after) is None
    after["messages"][3]["content"].insert(0, thought(2))
    assert str(checker.check(after)).startswith("messages.3.content.0")


def test_a_signature_that_is_not_the_vendors() -> None:
    checker, body = talk()
    put("messages", 3, "content", 0, "signature", "sig2x")(body)
    first = "messages.3.content.0: Invalid `signature` in `thinking` block."
    assert checker.check(body) == first
    assert checker.check({**body, "thinking": DROP}, CONTROLS) == first


def test_redacted_thinking_is_bound_as_well() -> None:
    checker, body = Thinking(), begun()
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    checker.note(body, [hidden, text("Done.")])
    body["messages"] += [
        {"role": "assistant", "content": [hidden, text("Done.")]},
        {"role": "user", "content": "More"},
    ]
    assert checker.check(body) is None
    body["system"] = "Be!"
    told = "messages.1.content.0: Invalid `data` in `redacted_thinking` block. The block is bound"
    assert str(checker.check(body)).startswith(told)


def test_two_blocks_of_one_answer_are_bound_in_their_order() -> None:
    checker, body = Thinking(), begun()
    answer = [thought(1), text("Now"), thought(2), use(1)]
    checker.note(body, answer)
    body["messages"] += [
        {"role": "assistant", "content": copy.deepcopy(answer)},
        {"role": "user", "content": [result(1)]},
    ]
    assert checker.check(body) is None
    body["messages"][1]["content"][1]["text"] = "Then"
    told = str(checker.check(body, CONTROLS))
    assert told == CHANGED.format("1.content.2", "`messages.1.content.1`")


class TestDropBlock:
    def test_what_fails_is_dropped_with_what_is_bound_to_it(self) -> None:
        checker, body = talk()
        put("messages", 2, "content", 0, "content", 0, "text", "f…")(body)
        body["thinking"] = DROP
        assert checker.check(body, CONTROLS) is None
        assert checker.read(body, CONTROLS).transformations == [
            {
                "type": "thinking_dropped",
                "path": f"messages.{at}.content.0",
                "reason": "prefix_binding_mismatch",
            }
            for at in (3, 5)
        ]

    def test_what_comes_afterwards_is_bound_to_what_was_left(self) -> None:
        checker, body = talk()
        put("messages", 2, "content", 0, "content", 0, "text", "f…")(body)
        body["thinking"] = DROP
        after = answered(checker, body, 4, CONTROLS)
        assert checker.read(after, CONTROLS).dropped == (
            "messages.3.content.0",
            "messages.5.content.0",
        )
        # The stale ones may go for good, and must not be sent without the setting.
        assert checker.check({**without(after, 2, 3), "thinking": {"type": "adaptive"}}) is None
        assert checker.check({**after, "thinking": {"type": "adaptive"}}) is not None

    def test_nothing_is_dropped_where_nothing_changed(self) -> None:
        checker, body = talk()
        assert checker.read({**body, "thinking": DROP}, CONTROLS).transformations == []

    def test_the_field_wants_its_header(self) -> None:
        checker, body = talk()
        told = str(checker.check({**body, "thinking": DROP}))
        assert told.endswith("block_binding: Extra inputs are not permitted")

    def test_not_with_thinking_between_tools_alone(self) -> None:
        checker, body = talk()
        setting = {**DROP, "type": "between_tools"}
        assert checker.check({**body, "thinking": setting}, CONTROLS) is not None

    def test_no_other_word(self) -> None:
        checker, body = talk()
        setting = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "keep"}}
        told = str(checker.check({**body, "thinking": setting}, CONTROLS))
        assert "'error' or 'drop_block'" in told
