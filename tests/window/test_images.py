"""Image decay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations, png
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.text.pictures import picture
from windlass.window.conversation import Window
from windlass.window.policies.images import Images

CHART = picture(png(640, 480), name="chart.png")
CALL = ToolCall("c1", "plot", "{}")


def pictures(window: Window) -> int:
    return sum(len(message.pictures) for message in window.messages)


def test_without_a_file_the_reference_is_told_and_without_words_the_name_alone() -> None:
    said = [
        user("Look", CHART),
        assistant("", calls=[CALL]),
        tool(CALL, "x"),
        assistant("", calls=[CALL]),
    ]
    said += [tool(CALL, "y")]
    shown = windows(said, Images())[-1].messages[0]
    ref = f"result_{said[0].content_hash[:8]}"
    assert shown.text == f"Look\n[Image at turn 1: chart.png, 640x480, {ref}]"


def test_what_was_said_of_the_picture_goes_with_it_and_the_rest_stays() -> None:
    mark = Opaque("openai", "with", '{"cache_control": {"type": "ephemeral"}}')
    said = [Message("user", (Text("Look"), mark, CHART, mark)), assistant("a"), user("b")]
    said += [assistant("c"), user("d")]
    shown = windows(said, Images())[-1].messages[0]
    assert shown.parts[:2] == (Text("Look"), mark)
    assert [type(part) for part in shown.parts[2:]] == [Text]


def test_a_pinned_picture_waits() -> None:
    from windlass.window.conversation import Conversation
    from windlass.window.entries import Item

    conversation = Conversation([Images(images_after=1)])
    conversation.append(Item("0", user("Look", CHART), "user"))
    conversation.pin("0", until=3)
    for n in range(1, 5):
        conversation.append(Item(f"a{n}", assistant("x"), "agent"))
        conversation.append(Item(f"u{n}", user("y"), "user"))
        assert pictures(conversation.window()) == (1 if n < 3 else 0)


@given(
    conversations(max_turns=6),
    st.none() | st.integers(1, 3),
    st.integers(0, 3),
)
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], after: int | None, keep: int
) -> None:
    seen = holds_for_every_window(messages, Images(images_after=after, keep_recent_images=keep))
    for window in seen:
        assert not keep or pictures(window) <= keep
        for entry in window.entries:
            kept = [t for t in texts(window) if t]
            assert kept or not entry.item.message.text
            for part in entry.item.message.parts:
                assert not isinstance(part, Text) or part in entry.message.parts
