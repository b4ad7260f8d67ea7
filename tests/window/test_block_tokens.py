"""The planner under injectors: what blocks at the end of messages are to its sums."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.window_planner import ANTHROPIC, CHARS, Shorten, _said
from windlass.messages import Message
from windlass.window._decision import Decision
from windlass.window.blocks import NOTHING, BlockTokens
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.planner import Planner


@given(st.dictionaries(st.integers(0, 20), st.integers(1, 500)), st.integers(1, 25))
def test_sums_are_those_of_the_blocks_in_front(tokens: Mapping[int, int], sent: int) -> None:
    laid = BlockTokens.of(tokens, sent)
    stood = {at: count for at, count in tokens.items() if at < sent}
    assert laid.total == sum(stood.values())
    assert laid.new == stood.get(sent - 1, 0)
    for at in range(22):
        assert laid.before(at) == sum(count for place, count in stood.items() if place < at)


def planned(said: list[Message], policy: Shorten, block: int) -> Window:
    """The last window where each call had a block of so many tokens at its end.

    As the runner does it: a block goes with the first edit in front of it.
    """
    conversation = Conversation((policy,), Planner(ANTHROPIC, tells=True), CHARS)
    laid: dict[int, int] = {}
    for number, message in enumerate(said):
        if message.role == "assistant":
            conversation.window()
            changed = min(conversation.pending.entries, default=len(said))
            laid = {at: tokens for at, tokens in laid.items() if at < changed}
            if block:
                laid[number - 1] = block
        conversation.append(Item(f"i{number}", message, message.role))
        conversation.block_tokens = BlockTokens.of(laid, conversation.sent)
    return conversation.window()


def decided(window: Window) -> Decision:
    assert window.decision is not None
    return window.decision


class TestBlocksInTheSums:
    def test_what_stands_behind_an_edit_is_not_written_again(self) -> None:
        said = _said(3_000, 3_000, 50)
        bare = decided(planned(said, Shorten({4: [(2, 200)]}), 0))
        one = decided(planned(said, Shorten({4: [(2, 200)]}), 300))
        assert (one.position, one.stay, one.put) == (bare.position, bare.stay, bare.put)
        # Nor is it a reason to shorten what is seen.
        assert (one.removed, one.gain, one.verdict) == (bare.removed, bare.gain, bare.verdict)
        assert (bare.blocks, one.blocks) == (0, 2 * 300)  # those at positions 2 and 4

    def test_what_blocks_have_brought_over_the_minimum_is_cached(self) -> None:
        said = _said(200, 200, 50, first=300)  # 1,000 tokens were sent, too few to be kept
        policy = Shorten({4: [(2, 20)]})
        assert decided(planned(said, policy, 0)).verdict == "quiet"
        long = _said(200, 200, 3_000, first=300)
        assert decided(planned(long, policy, 0)).verdict == "cold"
        assert decided(planned(long, policy, 100)).verdict == "defer"

    def test_a_prefix_that_blocks_make_long_enough_is_found(self) -> None:
        said = _said(3_000, 50, first=900)
        policy = Shorten({3: [(2, 1_200)]})
        # The prefix in front of the edit has 900 + 100 tokens, and a block of 300.
        assert decided(planned(said, policy, 0)).stay == 900 + 100
        assert decided(planned(said, policy, 300)).stay == 0

    def test_no_edit_leaves_less_than_can_be_cached_when_its_blocks_go(self) -> None:
        policy = Shorten({4: [(2, 10)]})

        def pays_at(first: int, block: int) -> int | None:
            said = _said(1_500, 200, 50, first=first)
            (wait,) = decided(planned(said, policy, block)).waits
            return wait.call

        # Left are the first message, 560 tokens, and the one block in front: 1,127 are enough.
        assert pays_at(265, 300) is None
        assert pays_at(268, 300) is not None
        assert pays_at(268, 0) is None

    def test_the_bills_hold_the_blocks(self) -> None:
        conversation = Conversation((), Planner(ANTHROPIC), CHARS)
        said = _said(1_000, 1_000, first=2_000)
        laid: dict[int, int] = {}
        for number, message in enumerate(said):
            if message.role == "assistant":
                conversation.window()
                laid[number - 1] = 300
            conversation.append(Item(f"i{number}", message, message.role))
            conversation.block_tokens = BlockTokens.of(laid, conversation.sent)
        conversation.window()
        conversation.append(Item("end", said[1].with_parts(*said[1].parts), "assistant"))
        # Three calls: what each brought is written, its block too but for the last, which the
        # planner learns of at the next call; all before is read.
        written = (2_000 + 300) + (1_100 + 300) + 1_100
        read = 2_300 + 3_700
        assert conversation.ledger.bill == pytest.approx(1.25 * written + 0.1 * read)
        assert conversation.ledger.everything == pytest.approx(conversation.ledger.bill)
        assert conversation.block_tokens == NOTHING  # to be told anew of each call

    def test_a_cold_cache_takes_them_all(self) -> None:
        conversation = Conversation((Shorten({3: [(2, 1_000)]}),), Planner(ANTHROPIC), CHARS)
        for number, message in enumerate(_said(3_000, 50, first=500)):
            conversation.append(Item(f"i{number}", message, message.role))
        conversation.block_tokens = BlockTokens.of({0: 9_000}, conversation.sent)
        conversation.cool()
        # 1,750 tokens would be left, of which no block is one: enough to be cached.
        assert decided(conversation.window()).verdict == "cold"
        assert len(conversation.window().messages[2].text) == 1_000
