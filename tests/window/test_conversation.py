"""What a conversation holds against any policy: what would break a window is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.window_windows_properties import items, problems, signed, walked
from tests.window.conversations import messages_for, seeds
from windlass.messages import Message, Text, ToolCall, assistant, tool, user
from windlass.text.tokens import size
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.conversation import Conversation
from windlass.window.entries import Drop, Fold, Replace, apply, show
from windlass.wire.openai import check_sequence

CALL = ToolCall("c1", "look", "{}")


def _writes(message: Message) -> Callable[[PendingEdits], Message]:
    return lambda _: message


@dataclass(frozen=True)
class Rough:
    """Proposes anything: any span, dropped, folded or replaced, the same again and again."""

    seed: int
    name: str = "rough"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Twenty changes at random."""
        rnd = random.Random(self.seed * 1_000 + pending.turn)
        for _ in range(20):
            at = rnd.randrange(len(pending))
            span = tuple(range(at, min(len(pending), at + rnd.choice((1, 1, 2, 3, 5)))))
            shown = pending.item(at).message
            short = rnd.choice(
                (
                    shown.with_parts(Text("short")),
                    shown.with_parts(),
                    user("short"),
                    assistant("short", calls=shown.tool_calls[:1]),
                    Message("assistant", (Text("short"),)),
                    shown.with_parts(*shown.parts, Text("longer")),
                )
            )
            match rnd.randrange(5):
                case 0:
                    yield Proposal(span, "prune", "dropped", None)
                case 1:
                    yield Proposal(span, "fold", "folded", _writes(short), folds=True)
                case 2:
                    pending.pin(at, pending.turn + 1)
                case _:
                    yield Proposal((at,), "mask", "replaced", _writes(short))


@given(seeds(), st.integers(0, 10_000), st.sampled_from(["openai", "anthropic", "gemini"]))
def test_no_policy_can_break_a_window(numbers: list[int], seed: int, provider: str) -> None:
    # One user message at the start, which stays: a fold of everything is another matter.
    said = items(messages_for(numbers))
    conversation = Conversation([Rough(seed)])
    for item in said[:2]:
        conversation.append(item)
        conversation.pin(item.id)
    for window, count in walked(conversation, said[2:]):
        check_sequence(window.messages)
        assert problems(window.messages, provider) == []
        ids = [entry.item.id for entry in window.entries]
        assert len(ids) == len(set(ids))
        before = said[: count + 2]
        assert sum(map(size, window.messages)) <= sum(size(item.message) for item in before)
        last = max(at for at, item in enumerate(before) if item.message.role == "user")
        shown = {entry.item.id: entry.message for entry in window.entries}
        for item in before[last + 1 :]:
            if signed(item.message):
                assert shown[item.id] is item.message


@given(seeds(), st.integers(0, 10_000))
def test_the_edits_of_all_calls_give_the_window_again(numbers: list[int], seed: int) -> None:
    said = items(messages_for(numbers))
    conversation = Conversation([Rough(seed)])
    known: dict[str, Replace | Fold | Drop] = {}
    for window, count in walked(conversation, said):
        for edit in window.edits:
            for ident in edit.ids if isinstance(edit, Fold) else (edit.id,):
                known[ident] = edit
        entries = apply(show([*said[:count]], "said before"), known)
        assert [entry.message for entry in entries] == list(window.messages)


@pytest.mark.parametrize(
    "text", ["[9,999 chars: result_0123456789]", "[look, 9,999 chars: result_0123456789abcdef]"]
)
def test_a_placeholder_of_another_window_is_left_alone(text: str) -> None:
    class Shortens:
        name = "shortens"

        def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
            for at in range(len(pending)):
                short = pending.item(at).message.with_parts(Text("s"))
                yield Proposal((at,), "mask", "short", _writes(short))

    conversation = Conversation([Shortens()])
    messages = [user("a long word"), assistant(calls=[CALL]), tool(CALL, text + "\nkept " * 9)]
    for item in items(messages):
        conversation.append(item)
    assert conversation.window().messages[2] is messages[2]
    assert conversation.window().messages[0].text == "s"
