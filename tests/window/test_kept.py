"""Messages that must stay as they come: kept from the start, or pinned on the way."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.window_windows_properties import items, problems, walked
from tests.window.conversations import messages_for, policies, seeds
from windlass.window.conversation import Conversation
from windlass.window.options import Policy
from windlass.window.steps import steps
from windlass.window.window_rules import WindowRules
from windlass.wire.openai import check_sequence


@given(seeds(), policies(), st.sets(st.integers(0, 40), max_size=6))
def test_what_is_kept_is_whole_in_every_window_and_windows_stay_valid(
    numbers: list[int], options: dict[str, Any], chosen: set[int]
) -> None:
    said = items(messages_for(numbers))
    kept = {f"m{at}" for at in chosen if at < len(said)}
    conversation = Conversation(policies=steps(Policy.of(options)), rules=WindowRules(kept=kept))
    for window, count in walked(conversation, said):
        check_sequence(window.messages)
        assert problems(window.messages, "openai") == []
        assert problems(window.messages, "anthropic") == []
        shown = {entry.item.id: entry.message for entry in window.entries}
        for item in said[:count]:
            if item.id in kept:
                assert shown.get(item.id) is item.message


@given(seeds(), policies(), st.integers(0, 40), st.integers(0, 40))
def test_what_is_pinned_on_the_way_changes_no_more(
    numbers: list[int], options: dict[str, Any], chosen: int, after: int
) -> None:
    said = items(messages_for(numbers))
    conversation = Conversation(policies=steps(Policy.of(options)))
    pinned_as = None
    done = False
    for window, count in walked(conversation, said):
        check_sequence(window.messages)
        shown = {entry.item.id: entry.message for entry in window.entries}
        if done:
            assert shown.get(f"m{chosen}") == pinned_as
        elif chosen < count and count >= after:
            # As the engine does it: at once after the call that saw it was answered.
            pinned_as, done = shown.get(f"m{chosen}"), True
            conversation.pin(f"m{chosen}")
            again = {entry.item.id: entry.message for entry in conversation.window().entries}
            pinned_as = again.get(f"m{chosen}")
