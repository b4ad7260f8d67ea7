"""A token budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.window.stepping import holds_for_every_window, refusals, texts, windows
from windlass.messages import Message, Text, ToolCall, assistant, system, tool, user
from windlass.text.tokens import size
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.policies.budget import TokenBudget
from windlass.window.policies.images import Images
from windlass.window.policies.loops import Loops
from windlass.window.policies.rare import Arguments, Decay, DecayOptions, Folding, Masking, Subtasks
from windlass.window.policies.reasoning import Reasoning
from windlass.window.policies.sliding import Sliding
from windlass.wire.openai import check_sequence


def run_of(turns: int) -> list[Message]:
    said = [system("Be."), user("Do it.")]
    for n in range(1, turns + 1):
        call = ToolCall(f"c{n}", "look", f'{{"at": {n}}}')
        said += [assistant(f"turn {n}", calls=[call]), tool(call, f"result {n} " * 100)]
    return said


def tokens(window: Window) -> int:
    return sum(map(size, window.messages))


@pytest.mark.parametrize("on_exceed", ["warn", "fail"])
def test_warn_and_fail_change_nothing(on_exceed: str) -> None:
    said = run_of(9)
    policy = TokenBudget(500, on_exceed)  # type: ignore[arg-type]
    assert windows(said, policy)[-1].messages == tuple(said)


def test_what_is_pinned_stays() -> None:
    conversation = Conversation([TokenBudget(800)])
    for n, message in enumerate(run_of(12)):
        conversation.append(Item(str(n), message, message.role))
        if n == 3:
            conversation.pin("3")
    assert "result 1 " * 100 in texts(conversation.window())


@pytest.mark.req("CA-19")
def test_a_summary_is_asked_for_and_shown_when_it_comes_in_time() -> None:
    policy = TokenBudget(1_500, "summarise")
    pruned = windows(run_of(12), TokenBudget(1_500))
    silent = windows(run_of(12), policy)
    assert [window.messages for window in silent] == [window.messages for window in pruned]
    assert any(window.wants for window in silent)

    def supply(window: Window) -> dict[str, str]:
        return {want.key: "All went well." for want in window.wants}

    seen = windows(run_of(12), policy, supply=supply)
    assert max(map(tokens, seen)) <= 1_500
    assert texts(seen[-1])[2].startswith("[Summary of turns 1-")
    assert "All went well." in texts(seen[-1])[2]
    for window in seen:
        check_sequence(window.messages)
        assert refusals(window.messages) == []


ALL = (
    Loops(),
    Masking(mask_observations_after=1, min_masked_chars=20),
    Reasoning(window=2, reasoning_max_chars=60),
    Folding(fold_after=3, min_chars=0),
    Decay(options=DecayOptions(full=2, fold=2), step=2, text_chars=60),
    Subtasks(after=1),
    Arguments(window=1, max_chars=10),
    Images(images_after=1, keep_recent_images=1),
    Sliding(keep_recent_turns=4),
    TokenBudget(250),
)


@given(conversations(max_turns=8), st.sets(st.sampled_from(range(len(ALL))), min_size=2))
def test_policies_together_keep_what_each_keeps(messages: list[Message], chosen: set[int]) -> None:
    longer = [
        m.with_parts(*m.parts, Text(f"name_{n} said path/to/{n}.py text. " * 12))
        if m.role != "user"
        else m
        for n, m in enumerate(messages)
    ]
    holds_for_every_window(longer, *(ALL[at] for at in sorted(chosen)))


@given(conversations(max_turns=6), st.integers(5, 150))
def test_every_window_is_valid_small_sticky_and_replayed(
    messages: list[Message], limit: int
) -> None:
    longer = [
        m.with_parts(*m.parts, Text("name_1 text " * 30)) if m.role == "tool" else m
        for m in messages
    ]
    seen = holds_for_every_window(longer, TokenBudget(limit))
    for window in seen:
        if tokens(window) > limit:
            at = {entry.item.id for entry in window.entries}
            users = [e for e in window.entries if e.message.role == "user"]
            assert len(users) <= 3, (at, "only what must stay is left")
