"""Originals that come back."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, Text, ToolCall, assistant, tool, user
from windlass.window.policies.rare.expand import Expand
from windlass.window.policies.rare.masking import Masking

CALL = ToolCall("c", "look", "{}")
RESULT = "order #W123 is open " * 20
SAID = [user("Go"), assistant("", calls=[CALL]), tool(CALL, RESULT), assistant("x"), user("y")]


@pytest.mark.req("AC-2")
def test_an_original_comes_back_once_when_what_only_it_holds_is_named() -> None:
    said = [*SAID, assistant("z"), user("What of #W123?"), assistant("Open."), user("And #W123?")]
    seen = windows(said, Masking(mask_observations_after=1), Expand())
    assert seen[-3].inserts == ()
    assert texts(seen[-2])[-2:] == [
        "What of #W123?",
        f"[result_{SAID[2].content_hash[:8]}, shown again because it names #W123]\n{RESULT}",
    ]
    assert texts(seen[-1])[-3:] == [texts(seen[-2])[-1], "Open.", "And #W123?"]
    assert len([text for text in texts(seen[-1]) if "shown again because" in text]) == 1


def test_nothing_comes_back_that_is_in_view_unknown_or_too_large() -> None:
    in_view = windows([*SAID, assistant("z"), user("What of #W123?")], Expand())
    unknown = windows(
        [*SAID, assistant("z"), user("What of #W9?")], Masking(mask_observations_after=1), Expand()
    )
    large = windows(
        [*SAID, assistant("z"), user("What of #W123?")],
        Masking(mask_observations_after=1),
        Expand(10),
    )
    assert [seen[-1].inserts for seen in (in_view, unknown, large)] == [(), (), ()]


@given(conversations(max_turns=5))
def test_every_window_is_valid_sticky_and_replayed(messages: list[Message]) -> None:
    number = 0
    named: list[Message] = []
    for message in messages:
        more: list[Text] = []
        if message.role == "tool":
            number += 1
            more = [Text(f"order_{number} text " * 30)]
        elif message.role == "user" and number:
            more = [Text(f"What of order_{number}?")]
        named.append(message.with_parts(*message.parts, *more))
    holds_for_every_window(named, Masking(mask_observations_after=1), Expand())
