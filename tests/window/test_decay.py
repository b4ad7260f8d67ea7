"""Progressive decay."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, refusals, texts, windows
from windlass.messages import Message, Text, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.policies.rare import Decay, DecayOptions
from windlass.wire.openai import check_sequence

SUMMARY = "Looked at ten orders; none was late. Order #W101 is open."


def run_of(turns: int, users: Mapping[int, str] | None = None) -> list[Message]:
    said = [user("Check the orders.")]
    for n in range(1, turns + 1):
        call = ToolCall(f"c{n}", "look", f'{{"order": "#W10{n}"}}')
        said += [assistant(f"I look at {n}.", calls=[call]), tool(call, f"order {n} " * 60)]
        if users and n in users:
            said.append(user(users[n]))
    return said


def answered(text: str, *, to: set[str] | None = None) -> Callable[[Window], dict[str, str]]:
    def supply(window: Window) -> dict[str, str]:
        keys = {want.key for want in window.wants}
        if to is not None:
            to.update(keys)
        return dict.fromkeys(keys, text)

    return supply


def zones(window: Window) -> str:
    """A letter for each message: what it is shown as."""
    letters = {None: ".", "fold": "f", "summarise": "S", "decay": "d"}
    return "".join(letters[entry.because] for entry in window.entries)


@pytest.mark.req("CE-34", "CE-35", "CA-17")
def test_the_zones_move_in_blocks_and_the_full_zone_stays_full() -> None:
    seen = windows(run_of(13), Decay(options=DecayOptions(full=4, fold=6), step=4))
    moved = [window.turn for window in seen if window.edits]
    assert moved == [9, 13]  # 4 full turns and a block of 4
    assert zones(seen[8]) == "." + "f" * 4 + ".." * 4
    assert zones(seen[12]) == "." + "f" * 8 + ".." * 4
    assert texts(seen[8])[1] == (
        'I look at 1.\n[Turn 1] look("#W101") -> ' + ("order 1 " * 60)[:137].strip() + "...;"
        f" result_{run_of(1)[2].content_hash[:8]}"
    )


def test_what_is_asked_for_is_the_old_summary_and_what_came_after_it() -> None:
    conversation, wants = Conversation([Decay(options=DecayOptions(full=4, fold=6), step=4)]), []
    for number, message in enumerate(run_of(17)):
        if message.role == "assistant":
            for want in conversation.window().wants:
                wants.append(want)
                conversation.supply(want.key, SUMMARY)
            conversation.window()
        conversation.append(Item(str(number), message, message.role))
    wants += conversation.window().wants
    assert [len(want.messages) for want in wants] == [2, 5]
    assert wants[1].messages[0].text.startswith("[Summary of turns 1-2]")
    assert wants[0].max_tokens == 500
    assert "At most 500 tokens" in wants[0].purpose


def test_a_late_answer_is_shown_from_then_on() -> None:
    def late(window: Window) -> dict[str, str]:
        return {want.key: SUMMARY for want in window.wants} if window.turn >= 15 else {}

    seen = windows(run_of(15), Decay(options=DecayOptions(full=4, fold=6), step=4), supply=late)
    assert zones(seen[13])[1] == "f"
    assert len(seen[13].wants) == 1
    assert zones(seen[14])[1] == "S"


def test_a_pinned_exchange_stays_beside_the_summary() -> None:
    said = run_of(13)
    conversation = Conversation([Decay(options=DecayOptions(full=4, fold=6), step=4)])
    for number, message in enumerate(said):
        conversation.append(Item(str(number), message, message.role))
        if number == 4:
            conversation.pin("4")
    for want in conversation.window().wants:
        conversation.supply(want.key, SUMMARY)
    shown = conversation.window().messages
    check_sequence(shown)
    assert said[3] in shown
    assert said[4] in shown
    assert shown[1].text.startswith("[Summary of turns 1-2]")


@given(conversations(max_turns=7, min_turns=3), st.integers(1, 2), st.integers(1, 3))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], full: int, step: int
) -> None:
    policy = Decay(options=DecayOptions(full=full, fold=2), step=step, text_chars=80)
    longer = [
        m.with_parts(*m.parts, Text("name_1 path/to/file.py text " * 20)) if m.role != "user" else m
        for m in messages
    ]
    holds_for_every_window(longer, policy)
    asked = windows(longer, policy, supply=answered("It went well."))
    for window in asked:
        check_sequence(window.messages)
        assert refusals(window.messages) == []
        users = [e for e in window.entries if e.item.message.role == "user"]
        assert all(e.message == e.item.message for e in users)
        assert len(users) == sum(m.role == "user" for m in longer[: _seen(window)])


def _seen(window: Window) -> int:
    return max(int(entry.item.id.removeprefix("id")) for entry in window.entries) + 1
