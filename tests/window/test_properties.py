"""What holds for every list of messages that the window room hands back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.messages import Message, Text
from windlass.window.blocks import Blocks, assemble, tools_needed
from windlass.window.entries import Drop, Edit, Item, Replace, apply, show
from windlass.window.expire import Expiry, expired
from windlass.window.replayed import newest_within, replay, turns, without_repeats
from windlass.wire.openai import check_sequence


def items_of(messages: list[Message]) -> list[Item]:
    """Occurrences as a phase leaves them: the turn counts assistant messages."""
    items: list[Item] = []
    turn = 0
    for number, message in enumerate(messages):
        turn += message.role == "assistant"
        items.append(Item(f"id{number}", message, "user", "phase", turn, 1))
    return items


def histories() -> st.SearchStrategy[list[Item]]:
    return conversations().map(lambda messages: items_of(list(messages)))


def sent(entries: Any) -> list[Message]:
    return [entry.message for entry in entries]


expiries = st.builds(Expiry, *[st.none() | st.integers(1, 4) for _ in range(4)])


class TestReplay:
    @given(histories(), st.sampled_from(["all", "assistant_only", "last_turn"]))
    def test_is_a_valid_sequence_that_shows_nothing_new(self, items: Any, which: Any) -> None:
        before = list(items)
        entries = replay(items, which, reason="r")
        if entries:
            check_sequence(sent(entries))
        assert items == before
        ids = [entry.item.id for entry in entries]
        assert len(ids) == len(set(ids))
        assert set(ids) <= {item.id for item in items}

    @pytest.mark.req("CI-12", "CI-16", "CI-60")
    @given(histories())
    def test_all_keeps_every_message_with_its_role_calls_and_results(self, items: Any) -> None:
        entries = replay(items, "all", reason="r")
        assert [e.item.id for e in entries] == [i.id for i in items]
        for entry in entries:
            assert entry.message.role == entry.item.message.role
            assert entry.message.tool_calls == entry.item.message.tool_calls
            assert entry.message.tool_call_id == entry.item.message.tool_call_id
            if not entry.item.message.pictures:
                assert entry.message == entry.item.message

    @pytest.mark.req("CI-34")
    @given(histories())
    def test_no_picture_is_shown_twice(self, items: Any) -> None:
        twice = replay([*items, *items], "all", reason="")
        shown = [
            picture.sha256
            for message in sent(without_repeats(twice, (), ()))
            for picture in message.pictures
            if picture.sha256
        ]
        assert len(shown) == len(set(shown))
        assert set(shown) == {p.sha256 for i in items for p in i.message.pictures if p.sha256}
        assert not any(
            message.pictures[0].sha256
            for message in sent(without_repeats(twice, set(shown), ()))
            if message.pictures
        )

    @pytest.mark.req("CI-16")
    @given(histories())
    def test_assistant_only_holds_all_the_assistant_said_and_a_line_a_call(
        self, items: Any
    ) -> None:
        entries = replay(items, "assistant_only", reason="r")
        said = [i.message for i in items if i.message.role == "assistant"]
        assert len(entries) == len(said)
        for entry, original in zip(entries, said, strict=True):
            assert entry.message.role == "assistant"
            assert not entry.message.tool_calls
            assert original.text in entry.message.text
            assert entry.message.text.count("[Called ") >= len(original.tool_calls)

    @given(histories(), st.data())
    def test_a_call_that_is_shown_already_is_not_shown_again(self, items: Any, data: Any) -> None:
        ids = sorted({c.id for i in items for c in i.message.tool_calls})
        shown = frozenset(data.draw(st.sets(st.sampled_from(ids)))) if ids else frozenset[str]()
        entries = without_repeats(show(items, "r"), (), shown)
        check_sequence(sent(entries))
        assert not {c.id for m in sent(entries) for c in m.tool_calls} & shown


class TestSeams:
    @given(histories())
    def test_turns_hold_every_message_once_in_order_and_whole_pairs(self, items: Any) -> None:
        entries = show(items, "r")
        cut = turns(entries)
        assert [entry for turn in cut for entry in turn] == list(entries)
        for turn in cut:
            check_sequence(sent(turn))

    @pytest.mark.req("CA-12")
    @given(histories(), st.integers(0, 400))
    def test_the_newest_that_fit_are_a_whole_tail_within_the_limit(
        self, items: Any, limit: int
    ) -> None:
        entries = show(items, "r")

        def count(message: Message) -> int:
            return message.chars + 4

        kept = newest_within(entries, limit, count)
        assert sum(map(count, sent(kept))) <= max(limit, 0)
        assert list(kept) == list(entries)[len(entries) - len(kept) :]
        if kept:
            check_sequence(sent(kept))
        # Nothing that would have fitted is left out: one more turn is too much.
        left = turns(entries[: len(entries) - len(kept)])
        if left:
            assert sum(map(count, sent((*left[-1], *kept)))) > limit


class TestExpiry:
    @pytest.mark.req("CI-46")
    @given(histories(), expiries, st.integers(1, 12))
    def test_keeps_the_sequence_valid_grows_nothing_and_is_stable(
        self, items: Any, expiry: Expiry, turn: int
    ) -> None:
        before = list(items)
        committed: dict[str, Edit] = {}
        shown: list[Message] = []
        for now in (turn, turn + 1, turn + 9):
            due = expired(items, expiry, turn=now, instructions="id0", committed=committed)
            committed |= {edit.id: edit for edit in due}
            entries = apply(show(items, "r"), committed)
            shown = sent(entries)
            if shown:
                check_sequence(shown)
            again = expired(items, expiry, turn=now, instructions="id0", committed=committed)
            assert again == []  # a second pass asks for nothing
        assert items == before
        for message, item in zip(shown, items, strict=True):
            if message != item.message:
                assert item.id in committed  # nothing changes without an edit that names it
                assert message.tool_calls == item.message.tool_calls
                if not item.message.pictures:
                    assert len(message.text) < len(item.message.text)

    @given(histories(), st.integers(1, 12))
    def test_without_settings_nothing_expires(self, items: Any, turn: int) -> None:
        due = expired(items, Expiry(), turn=turn, instructions="", committed={})
        assert due == []


class TestApply:
    @given(histories(), st.data())
    def test_each_entry_is_shown_replaced_or_dropped_as_its_edit_says(
        self, items: Any, data: Any
    ) -> None:
        edits: dict[str, Edit] = {}
        for item in items:
            match data.draw(st.sampled_from(["keep", "replace", "drop"])):
                case "replace":
                    changed = item.message.with_parts(Text("shorter"))
                    edits[item.id] = Replace(item.id, changed, "digest", "why")
                case "drop":
                    edits[item.id] = Drop(item.id, "prune", "why")
        entries = {entry.item.id: entry for entry in apply(show(items, "r"), edits)}
        for item in items:
            match edits.get(item.id):
                case None:
                    assert entries[item.id].message is item.message
                case Drop():
                    assert item.id not in entries
                case Replace() as edit:
                    assert entries[item.id].message == edit.replacement
                    assert entries[item.id].because == "digest"


class TestAssembly:
    @given(histories(), histories(), histories(), histories(), st.sampled_from(["start", "end"]))
    def test_everything_handed_in_comes_out_once_in_the_documented_order(
        self, system: Any, sources: Any, snowball: Any, own: Any, position: Any
    ) -> None:
        parts = [
            show(items, name)
            for items, name in [
                (system, "system"),
                (sources, "sources"),
                (snowball, "snowball"),
                (own, "own"),
            ]
        ]
        blocks = Blocks(parts[0], (), parts[1], parts[2], position)
        reasons = [entry.reason for entry in assemble(blocks, parts[3])]
        middle = ["snowball", "sources"] if position == "end" else ["sources", "snowball"]
        by_name = dict(zip(["system", "sources", "snowball", "own"], parts, strict=True))
        wanted = [name for name in ["system", *middle, "own"] for _ in by_name[name]]
        assert reasons == wanted

    @pytest.mark.req("CI-61")
    @given(histories())
    def test_every_called_tool_is_defined(self, items: Any) -> None:
        messages = [item.message for item in items]
        defined = {spec.name for spec in tools_needed((), messages, {})}
        assert defined == {call.name for message in messages for call in message.tool_calls}
