"""Free moments: when a conversation is compacted, and what the message in its place holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import png
from tests.support.window_windows_properties import items, problems
from tests.window.conversations import messages_for, seeds
from windlass.caching.prices import Prices
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.text.pictures import picture
from windlass.window._pending import WindowPolicy
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Fold, Item
from windlass.window.originals import reference
from windlass.window.planner import Planner
from windlass.window.policies.digest import Digest
from windlass.window.policies.free_moments import (
    FreeMoments,
    FreeMomentsOptions,
    KeepOptions,
    WhileSmall,
)
from windlass.window.policies.repeats import Repeats
from windlass.window.reruns import Reruns
from windlass.window.window_rules import WindowRules
from windlass.wire.openai import check_sequence

PRICES = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)
SMALL = KeepOptions(share=0.35, least=1, most=80_000)
"""Keeps a share, however small the conversation is."""
REF = re.compile(r"\bresult_[0-9a-f]{8}\b")


def conversation_of(
    options: FreeMomentsOptions | None = None,
    *more: WindowPolicy,
    prices: Prices = PRICES,
    rules: WindowRules | None = None,
    **settings: Any,
) -> Conversation:
    """A conversation with free moments alone, and other policies before it."""
    moments = FreeMoments(options or FreeMomentsOptions(), prices, **settings)
    return Conversation([*more, moments], Planner(prices, tells=True), rules)


def file_text(number: int, lines: int = 120) -> str:
    """A file whose lines stand in no other one."""
    return "\n".join(f"def step_{number}_{at}(value): return value * {at}" for at in range(lines))


def session(calls: int, *, lines: int = 120, said: Sequence[int] = ()) -> list[Message]:
    """A user's task, reads of files one by one, and what the user says before some calls."""
    messages = [user("Rename the helper in every module, and never touch conftest.py.")]
    for number in range(calls):
        if number in said:
            messages += [assistant(f"Done so far: {number}."), user(f"Go on with {number}.")]
        call = ToolCall(f"c{number}", "read_file", json.dumps({"path": f"src/m{number}.py"}))
        messages += [assistant(calls=[call]), tool(call, file_text(number, lines))]
    return messages


def seen_by(
    conversation: Conversation,
    messages: Sequence[Message],
    *,
    gap: Callable[[int], float] = lambda _: 10.0,
) -> Iterator[Window]:
    """The window of each call, the one to come last; `gap` gives the seconds before a message."""
    now = 0.0
    for at, item in enumerate(items(messages)):
        if item.message.role == "assistant":
            yield conversation.window()
        now += gap(at)
        conversation.append(item, at=now)
    yield conversation.window()


def compactions(windows: Sequence[Window]) -> list[tuple[int, Fold]]:
    """The calls before which all was compacted, and how."""
    return [
        (window.turn, edit)
        for window in windows
        for edit in window.edits
        if isinstance(edit, Fold) and edit.because == "compact"
    ]


def late(at: int) -> float:
    """A pause of half an hour before message 80."""
    return 1_800.0 if at == 80 else 1.0


class TestWhen:
    def test_where_nothing_is_cached(self) -> None:
        said = session(45)
        ((call, edit),) = compactions(
            [*seen_by(conversation_of(FreeMomentsOptions(priced=None)), said, gap=late)]
        )
        assert call == 41  # message 80 answers call 40
        assert edit.reason.startswith("nothing is cached; ")
        never = FreeMomentsOptions(cold=False, priced=None)
        assert not compactions([*seen_by(conversation_of(never), said, gap=late)])

    def test_once_reading_has_cost_twice_what_it_costs(self) -> None:
        said = session(90)
        windows = [*seen_by(conversation_of(), said)]
        ((call, edit),) = compactions(windows)
        assert "times what this costs" in edit.reason
        sizes = [sum(map(_tokens, window.messages)) for window in windows[: call - 1]]

        def paid(calls: int) -> float:
            return sum(0.1 * max(0.0, each - _left(each)) for each in sizes[:calls])

        def cost(size: float) -> float:
            again = 0.7 * size * 0.1 + 300 + 1_500 * (1.25 + 0.3)
            return 1.15 * _left(size) + 6 * again

        now = sum(map(_tokens, said[: 2 * call - 1]))
        assert paid(call - 1) > 2 * cost(now)
        assert paid(call - 6) <= 2 * cost(sizes[call - 6])

    def test_a_dearer_bar_is_met_later(self) -> None:
        said = session(120, lines=100)
        calls = [
            compactions([*seen_by(conversation_of(FreeMomentsOptions(priced=bar)), said)])[0][0]
            for bar in (1.0, 2.0, 3.0)
        ]
        assert calls == sorted(set(calls))

    def test_a_small_conversation_stays(self) -> None:
        assert not compactions([*seen_by(conversation_of(), session(20), gap=lambda _: 900.0)])

    def test_once_for_each_time_that_the_user_speaks_unless_the_window_is_nearly_full(self) -> None:
        again = session(200, lines=100)
        often = FreeMomentsOptions(priced=1.0, keep=SMALL)
        assert len(compactions([*seen_by(conversation_of(often), again)])) == 1
        asked = session(200, lines=100, said=[120, 160])
        assert len(compactions([*seen_by(conversation_of(often), asked)])) > 1
        full = conversation_of(often, window=80_000)
        assert len(compactions([*seen_by(full, again)])) > 1

    @pytest.mark.parametrize("within", [None, 90_000, 0])
    def test_a_turn_is_interrupted_above_so_many_tokens_alone(self, within: int | None) -> None:
        said = session(120, said=[90])
        options = FreeMomentsOptions(priced=1.5, within_turns=within)
        windows = [*seen_by(conversation_of(options), said)]
        (first, _), *_ = compactions(windows)
        if within is None:
            assert first == 92  # the answer without a call is one, too
        else:
            assert first < 91
            assert sum(map(_tokens, windows[first - 2].messages)) > within - 5_000

    @pytest.mark.parametrize(
        "near", [{"limit": 60_000}, {"window": 70_000}, {"options": 58_000}, {"tier": 58_000}]
    )
    def test_before_a_limit_that_is_known(self, near: dict[str, Any]) -> None:
        threshold = near.pop("options", None)
        tier = near.pop("tier", None)
        prices = PRICES if tier is None else Prices(0.1, 1.25, 1_024, 1, 300, tiers=((tier, 2.0),))
        options = FreeMomentsOptions(priced=None, threshold=threshold)
        windows = [*seen_by(conversation_of(options, prices=prices, **near), session(55))]
        ((call, edit),) = compactions(windows)
        assert edit.reason.startswith("the window is nearly full; ")
        assert 54_000 < sum(map(_tokens, session(55)[: 2 * call - 1])) < 61_000

    def test_a_guard_is_kept(self) -> None:
        said = session(90)
        assert not compactions([*seen_by(conversation_of(guard=1.0), said)])

    def test_the_same_again_however_it_is_asked(self) -> None:
        said = session(60)
        whole = conversation_of()
        for item in items(said):
            whole.append(item, at=1.0)
        asked = [*seen_by(conversation_of(), said, gap=lambda at: float(at == 0))]
        assert whole.window().messages == asked[-1].messages


def _tokens(message: Message) -> int:
    return (len(message.text) + sum(len(c.name + c.arguments) for c in message.tool_calls)) // 4 + 4


def _left(tokens: float) -> float:
    return min(max(0.35 * tokens, 30_000), 80_000)


class TestLaterEdits:
    def test_they_are_made_in_small_conversations_alone(self) -> None:
        digest = WhileSmall(Digest())
        assert digest.name == "digest"
        for scale, made in ((1.0, True), (50.0, False)):
            rules = WindowRules(scale=scale)
            conversation = Conversation([digest], rules=rules)
            said = [*session(1), *_words(30)]
            windows = [*seen_by(conversation, said)]
            assert any(edit.because == "digest" for one in windows for edit in one.edits) == made


def _words(count: int) -> list[Message]:
    return [each for at in range(count) for each in (assistant(f"Word {at}."), user("Yes."))]


class TestWhatItHolds:
    @staticmethod
    def block(said: Sequence[Message], **rules: Any) -> tuple[str, Window]:
        """The message of a compaction where nothing is cached, before the last call."""
        conversation = conversation_of(
            FreeMomentsOptions(priced=None, keep=SMALL), rules=WindowRules(**rules)
        )
        for item in items(said):
            conversation.append(item)
        conversation.cool()
        window = conversation.window()
        ((_, edit),) = compactions([window])
        return edit.replacement.text, window

    def test_what_users_said_letter_for_letter_and_once(self) -> None:
        said = session(50, said=[10, 20, 30])
        said[23 + 2 :] = [user("Go on with 10."), *said[25:]]
        text, window = self.block(said)
        assert text.count("Go on with 10.") == 1
        assert "Go on with 20." in text
        assert window.messages[0] == said[0], "what stands before the first reply stays"

    def test_the_newest_calls_as_they_were(self) -> None:
        said = session(50)
        _, window = self.block(said)
        tail = [entry.message for entry in window.entries[2:]]
        assert tail == said[len(said) - len(tail) :]
        assert 0 < sum(map(_tokens, tail)) <= 12_000

    def test_every_reference_in_it_is_that_of_a_message(self) -> None:
        said = session(60, said=[5])
        text, _ = self.block(said)
        known = {reference(message) for message in said}
        assert set(REF.findall(text)) <= known
        assert len(set(REF.findall(text))) > 10

    def test_each_piece_is_what_was_said(self) -> None:
        said = session(60)
        text, _ = self.block(said)
        originals = {line for message in said for line in message.text.split("\n")}
        pieces = text.split("in order ===\n")[1].split("\n\n=== ")[0].split("\n")
        kept = [line for line in pieces if not line.startswith(("[", "…"))]
        assert len(kept) > 100
        assert originals.issuperset(kept)

    def test_what_a_later_edit_needs_goes_before_what_it_removed(self) -> None:
        said = session(60)
        read = said[4].text.split("\n")
        old, new = read[:30], [f"{line}  # checked" for line in read[:30]]
        arguments = {
            "path": "src/m1.py", "old_string": "\n".join(old), "new_string": "\n".join(new)
        }  # fmt: skip
        edit = ToolCall("e", "edit_file", json.dumps(arguments))
        said += [assistant(calls=[edit]), tool(edit, "ok"), *_reads(60, 14)]
        text, _ = self.block(said)
        assert sum(line in text for line in new) > 20
        assert not any(f"{line}\n" in text for line in old)

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("TodoWrite", {"todos": [{"content": "Write the parser", "status": "in_progress"}]}),
            ("update_plan", {"plan": [{"step": "Write the parser", "status": "in_progress"}]}),
        ],
    )
    def test_the_plan_as_it_stands(self, name: str, arguments: dict[str, Any]) -> None:
        call = ToolCall("t", name, json.dumps(arguments))
        said = [*session(3), assistant(calls=[call]), tool(call, "ok"), *_reads(3, 50)]
        assert "- [in_progress] Write the parser\n" in self.block(said)[0]

    def test_a_plan_that_was_handed_in_stays_whole(self) -> None:
        lines = [f"{number}. Move crane_{number} to the north quay." for number in range(60)]
        older, newer = "Move nothing.", "\n".join(lines)
        said = session(3)
        for number, plan in enumerate([older, newer]):
            call = ToolCall(f"p{number}", "ExitPlanMode", json.dumps({"plan": plan}))
            said += [assistant(calls=[call]), tool(call, "The user approved it.")]
        text, _ = self.block([*said, *_reads(3, 50)])
        assert f"=== The plan, as it stands ===\n{newer}\n" in text
        assert older not in text

    def test_a_change_that_failed_stays_until_it_is_made(self) -> None:
        said = session(1)
        for number in range(150):
            new = "\n".join(f"crane_{number}_{line}(north)" for line in range(12))
            arguments = {"path": f"src/q{number}.py", "old_string": "gone()", "new_string": new}
            edit = ToolCall(f"e{number}", "edit_file", json.dumps(arguments))
            failed = number in (3, 4)
            said += [assistant(calls=[edit]), tool(edit, "Error: not found" if failed else "ok")]
            if number == 4:  # the same once more, which is made
                again = replace(edit, id="again")
                said += [assistant(calls=[again]), tool(again, "ok")]
        text, _ = self.block([*said, *_reads(1, 60)])
        assert "crane_3_5(north)\n" in text
        assert "crane_4_5(north)\n" not in text

    def test_tasks_with_their_latest_state(self) -> None:
        said = session(2)
        for number, (name, arguments, result) in enumerate(
            [
                ("TaskCreate", {"subject": "Parse"}, "Task #1 created"),
                ("TaskCreate", {"subject": "Print"}, "Task #2 created"),
                ("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1"),
            ]
        ):
            call = ToolCall(f"t{number}", name, json.dumps(arguments))
            said += [assistant(calls=[call]), tool(call, result)]
        text, _ = self.block([*said, *_reads(2, 50)])
        assert "- [completed] #1 Parse\n- [pending] #2 Print\n" in text

    def test_users_words_stand_apart(self) -> None:
        text, _ = self.block(session(50, said=[10, 20]))
        assert "[user]\nGo on with 10.\n[user]\nGo on with 20.\n" in text

    def test_a_long_path_keeps_its_end(self) -> None:
        path = "/".join(["work", *(f"package_{at}" for at in range(20)), "the_last_part.py"])
        call = ToolCall("p", "read_file", json.dumps({"path": path}))
        said = [*session(48), assistant(calls=[call]), tool(call, file_text(900)), *_reads(48, 12)]
        assert re.search(
            r"- read_file \.\.\.\S+/the_last_part\.py → 120 lines\n", self.block(said)[0]
        )

    def test_what_a_subagent_reported(self) -> None:
        report = "Three helpers are copies: close_once in a.py, b.py and c.py.\n\nelapsed: 4 s"
        call = ToolCall("a", "Task", json.dumps({"prompt": "Find copies of helpers."}))
        said = [*session(4), assistant(calls=[call]), tool(call, report), *_reads(4, 50)]
        text, _ = self.block(said)
        assert f"- {report}\n" in text
        said = [*session(48), assistant(calls=[call]), tool(call, report), *_reads(48, 12)]
        line = "- Task Find copies of helpers. → Three helpers are copies: close_once in a.py"
        assert line in self.block(said)[0]

    def test_that_subagents_were_begun_is_no_report(self) -> None:
        said = session(4)
        for at in range(2):
            call = ToolCall(f"b{at}", "Task", json.dumps({"prompt": f"Part {at}."}))
            text = f"Agent {at} is at work.\nYou will be told.\nDo not wait for it."
            said += [assistant(calls=[call]), tool(call, text)]
        assert "- Agent 0 is at work." not in self.block([*said, *_reads(4, 50)])[0]

    @pytest.mark.parametrize(
        ("result", "kept"),
        [("The file src/m1.py has been updated.", False), ("Updated.\nW291 blank at 14", True)],
    )
    def test_what_only_says_that_a_file_is_written_is_left_out(
        self, result: str, kept: bool
    ) -> None:
        arguments = {"path": "src/m1.py", "old_string": "value + 1", "new_string": "value + 2"}
        call = ToolCall("e", "edit_file", json.dumps(arguments))
        said = [*session(45), assistant(calls=[call]), tool(call, result), *_reads(45, 12)]
        text, _ = self.block(said)
        assert "- edit_file src/m1.py → ok\n" in text
        assert (result in text) == kept

    def test_the_last_run_of_a_command_that_failed(self) -> None:
        lines = [f"ok {at} of a long run of many checks" for at in range(400)]
        lines[250] = "E   AssertionError: 3 dancers expected, 4 came"
        run = ToolCall("r", "bash", '{"command": "pytest -q"}')
        failed = Message("tool", (Text("\n".join(lines)),), (), run.id, failed=True)
        said = [*session(40), assistant(calls=[run]), failed, *_reads(40, 14)]
        assert lines[250] in self.block(said)[0]

    def test_a_picture_is_a_line_and_a_reference(self) -> None:
        shown = Message("user", (Text("Like this."), picture(png(), name="wish.png")))
        said = [*session(20), assistant("Yes?"), shown, *_reads(20, 30)]
        text, window = self.block(said)
        assert f"wish.png, 2x3; {reference(shown)}]" in text
        assert not any(message.pictures for message in window.messages)

    def test_a_document_and_what_is_pinned_stay_whole(self) -> None:
        paper = Message("user", (Opaque("anthropic", "document", '{"type": "document"}'),))
        said = [*session(20), assistant("Yes?"), paper, *_reads(20, 30)]
        conversation = conversation_of(FreeMomentsOptions(priced=None, keep=SMALL))
        for item in items(said):
            conversation.append(item)
        conversation.pin("m6")
        conversation.cool()
        window = conversation.window()
        assert compactions([window])
        for message in (said[5], said[6], paper):
            assert message in window.messages

    def test_what_nothing_gets_back_stays_whole(self) -> None:
        """Without a way back to originals, only what a tool gives again is told in other words."""
        send = ToolCall("s", "send_mail", '{"to": "ann"}')
        said = [
            *session(20), assistant("I wrote to her.", calls=[send]), tool(send, "mail 4711"),
            *_reads(20, 30),
        ]  # fmt: skip
        _, window = self.block(said, reruns=Reruns())
        assert {said[41], said[42]} <= set(window.messages)

    def test_a_read_after_it_is_not_the_same_as_before(self) -> None:
        said = session(60, lines=100)
        conversation = conversation_of(
            FreeMomentsOptions(priced=None, keep=KeepOptions(share=0.1, least=1, most=9_000)),
            Repeats(),
        )
        for item in items(said):
            conversation.append(item)
        conversation.cool()
        assert compactions([conversation.window()])
        call = ToolCall("again", "read_file", '{"path": "src/m3.py"}')
        for number, message in enumerate([assistant(calls=[call]), tool(call, said[8].text)]):
            conversation.append(Item(f"n{number}", message, message.role))
        assert conversation.window().messages[-1].text == said[8].text

    def test_a_second_one_is_made_from_the_originals(self) -> None:
        first = session(50, said=[20])
        conversation = conversation_of(FreeMomentsOptions(priced=None, keep=SMALL))
        for item in items(first):
            conversation.append(item)
        conversation.cool()
        conversation.window()
        for number, message in enumerate(_reads(100, 45)):
            conversation.append(Item(f"n{number}", message, message.role))
        conversation.cool()
        window = conversation.window()
        ((_, edit),) = compactions([window])
        assert edit.replacement.text.count("[Compaction before call") == 1
        assert "Go on with 20." in edit.replacement.text


def _reads(first: int, count: int) -> list[Message]:
    """More reads of files, numbered from `first` on."""
    return [
        Message(one.role, one.parts, one.tool_calls, one.tool_call_id)
        for one in session(first + count)[1 + 2 * first :]
    ]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@given(seeds(), st.integers(1, 3))
def test_every_call_is_valid_and_nothing_that_is_kept_changes(
    provider: str, numbers: list[int], every: int
) -> None:
    options = FreeMomentsOptions(keep=KeepOptions(share=0.1, least=1, most=100))
    conversation = conversation_of(options, rules=WindowRules(scale=2_000.0))
    said = items(messages_for(numbers))
    originals = {item.id: item.message for item in said}
    for at, item in enumerate(said):
        if item.message.role == "assistant":
            if conversation.calls % every == 0:
                conversation.cool()
            window = conversation.window()
            check_sequence(window.messages)
            assert problems(window.messages, provider) == []
            for entry in window.entries:
                if entry.because is None:
                    assert entry.message == originals[entry.item.id]
            users = [one.message.text for one in said[:at] if one.message.role == "user"]
            shown = "\n".join(message.text for message in window.messages)
            assert all(text in shown for text in users)
        conversation.append(item)
