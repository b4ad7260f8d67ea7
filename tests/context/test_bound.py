"""`bound` and `Context`: the same bytes both ways, and what a loop is told of them."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_bound import bytes_of, lookup, loop
from tests.support.window_intake import problems
from tests.window.conversations import chats, policies
from windlass.context.bound import forget
from windlass.errors import UsageError

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "tau2_retail.json").read_text(encoding="utf-8")
)["messages"]


class TestSameBytes:
    @given(chats(), policies())
    def test_whole_lists_and_single_messages_give_the_same(
        self, messages: list[dict[str, Any]], options: dict[str, Any]
    ) -> None:
        before = copy.deepcopy(messages)
        context = windlass.Context(policy=options)
        for count, message in enumerate(messages, start=1):
            context.append(message)
            own = context.window()
            warm = windlass.bound(messages[:count], policy=options)
            assert bytes_of(own) == bytes_of(warm)
            assert [(e.id, e.action, e.reason) for e in own.entries] == [
                (e.id, e.action, e.reason) for e in warm.entries
            ]
        forget()
        assert bytes_of(windlass.bound(messages, policy=options)) == bytes_of(own)
        assert messages == before

    @given(chats(), chats())
    def test_conversations_that_take_turns_do_not_mix(self, one: Any, other: Any) -> None:
        apart = []
        for messages in (one, other):
            forget()
            apart.append([bytes_of(windlass.bound(messages[:n])) for n in (1, 3, len(messages))])
        forget()
        for at, n in enumerate((1, 3, None)):
            assert bytes_of(windlass.bound(one[:n])) == apart[0][at]
            assert bytes_of(windlass.bound(other[:n])) == apart[1][at]

    def test_in_threads(self) -> None:
        messages = loop(30)
        forget()
        alone = [bytes_of(windlass.bound(messages[:n])) for n in range(1, 61)]
        forget()
        wrong: list[int] = []

        def work(name: str) -> None:
            named = [{**messages[0], "content": f"Compare the orders.{name}"}, *messages[1:]]
            for n in range(1, 61):
                if bytes_of(windlass.bound(messages[:n])) != alone[n - 1]:
                    wrong.append(n)
                windlass.bound(named[:n])

        threads = [threading.Thread(target=work, args=(name,)) for name in "aab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_context_that_grew_while_it_was_compared_is_not_taken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        messages = loop(6)
        alone = bytes_of(windlass.bound(messages[:5]))
        forget()
        windlass.bound(messages[:3])
        fits = windlass.Context.pinned_by

        def meanwhile(context: windlass.Context, pins: Any) -> bool:
            monkeypatch.undo()
            windlass.bound(messages[:9])  # what another thread may do at this moment
            return fits(context, pins)

        monkeypatch.setattr(windlass.Context, "pinned_by", meanwhile)
        assert bytes_of(windlass.bound(messages[:5])) == alone

    def test_a_list_changed_in_place_is_a_new_list(self) -> None:
        messages = loop(6)
        windlass.bound(messages)
        messages[2]["content"] = "nothing there"
        changed = bytes_of(windlass.bound(messages))
        assert "nothing there" in changed
        forget()
        assert changed == bytes_of(windlass.bound(messages))

    def test_a_list_that_is_no_continuation_starts_anew(self) -> None:
        windlass.bound(loop(6))
        shorter = bytes_of(windlass.bound(loop(3)))
        forget()
        assert shorter == bytes_of(windlass.bound(loop(3)))

    def test_marks_put_into_a_window_do_not_come_back(self) -> None:
        messages = loop(6)
        forget()
        clean = bytes_of(windlass.bound(messages))
        window = windlass.bound(copy.deepcopy(messages))
        for message in window.messages:
            message["cache_control"] = {"type": "ephemeral"}
        assert bytes_of(windlass.bound(messages)) == clean
        again = windlass.bound(messages)
        assert all(
            new is old for new, old in zip(again.messages, messages, strict=True) if new == old
        )

    def test_other_settings_give_other_windows(self) -> None:
        messages = loop(6)
        default = bytes_of(windlass.bound(messages))
        assert bytes_of(windlass.bound(messages, policy={"enabled": False})) != default
        assert bytes_of(windlass.bound(messages)) == default


class TestWindow:
    def test_unchanged_messages_are_the_callers_own(self) -> None:
        messages = loop(6)
        window = windlass.bound(messages)
        actions = [entry.action for entry in window.entries]
        assert "replaced" in actions
        for shown, said, entry in zip(window.messages, messages, window.entries, strict=True):
            assert (shown is said) == (entry.action == "shown")

    def test_entries_add_up(self) -> None:
        window = windlass.bound(loop(6), "openai/gpt-4o", {"commit": "at_once"})
        assert window.saved_tokens > 0
        before = sum(entry.tokens_before for entry in window.entries)
        after = sum(entry.tokens_after for entry in window.entries)
        assert before - after == window.saved_tokens
        assert [entry.position for entry in window.entries] == list(range(13))

    def test_what_is_shortened_can_be_got_back(self) -> None:
        messages = loop(6)
        window = windlass.bound(messages)
        (entry, *_) = [one for one in window.entries if one.action == "replaced"]
        assert entry.position is not None
        assert entry.reference in window.messages[entry.position]["content"]
        original = messages[entry.position]["content"]
        assert window.recall(entry.reference) == original
        assert window.recall(entry.reference, grep="line 7 ") == "8: line 7 of order 0"
        assert window.recall(entry.reference, lines="1") == "1: line 0 of order 0"
        asked = {"ref": entry.reference, "part": "1-9 /line 7 /"}  # as a model asks
        assert window.recall(**asked) == "8: line 7 of order 0"

    def test_recall_tells_a_model_what_it_got_wrong(self) -> None:
        window = windlass.bound(loop(2))
        assert "'x' names no message here: none has it; known: result_" in window.recall("x")
        reference = window.entries[2].reference
        assert "is not a regular expression" in window.recall(reference, grep="(")
        assert "must be a number or a range" in window.recall(reference, lines="all")
        assert "is no JSON" in window.recall(reference, part="a[0].b")
        numbered: Any = {"ref": reference, "part": 12}
        assert window.recall(**numbered) == "recall: part is a text, not 12"
        assert window.recall(**numbered | {"ref": None}) == "recall: ref is a text, not None"

    def test_recall_refuses_what_no_model_sends(self) -> None:
        window = windlass.bound(loop(2))
        entry: Any = window.entries[2]
        with pytest.raises(UsageError, match="recall: ref is a text, not Shown"):
            window.recall(entry)

    def test_the_beginning_of_a_reference_will_do_where_only_one_has_it(self) -> None:
        window = windlass.bound(loop(6))
        reference = window.entries[2].reference
        assert re.fullmatch("result_[0-9a-f]{8}", reference)
        whole = window.recall(reference)
        assert window.recall(reference[:13]) == window.recall(reference.removeprefix("result_"))
        assert window.recall(reference[:13]) == whole
        assert "names no message here: none has it" in window.recall("result_")

    def test_recall_is_offered_where_it_is_asked_for(self) -> None:
        without = windlass.bound(loop(6))
        assert "recall" not in bytes_of(without)
        assert without.tools == []
        tools = [{"type": "function", "function": {"name": "lookup", "parameters": {}}}]
        offered = windlass.bound(loop(6), recall=True, tools=tools)
        assert offered.messages[2]["content"].endswith(f": recall {without.entries[2].reference}]")
        assert [one["function"]["name"] for one in offered.tools] == ["lookup", "recall"]

    @pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
    def test_wire_gives_the_providers_own_form(self, provider: Any) -> None:
        window = windlass.bound([{"role": "system", "content": "Brief."}, *loop(6)])
        body = window.wire(provider)
        assert problems(window) == []
        assert {"anthropic": "system", "gemini": "systemInstruction"}.get(provider, "tools") in body

    def test_wire_refuses_another_provider(self) -> None:
        with pytest.raises(UsageError, match="did you mean 'openai'"):
            windlass.bound(loop(1)).wire("opnai")  # type: ignore[arg-type]

    @pytest.mark.parametrize("tool", ["lookup", {}, {"function": {"name": ""}}, {"function": 5}])
    def test_a_tool_that_is_none_is_refused(self, tool: Any) -> None:
        with pytest.raises(UsageError, match="a tool is an object with a name and a schema"):
            windlass.bound(loop(1), tools=[tool])

    def test_an_unknown_policy_is_refused(self) -> None:
        with pytest.raises(UsageError, match="defalt"):
            windlass.bound(loop(1), policy="defalt")

    def test_a_limit_holds_with_the_tools(self) -> None:
        tools = [
            {"type": "function", "function": {"name": f"t{n}", "description": "words " * 40}}
            for n in range(20)
        ]
        window = windlass.bound(loop(8), max_input_tokens=3_000, tools=tools)
        assert window.tokens <= 3_000
        assert windlass.bound(loop(8), tools=tools).tokens > 3_000


class TestPins:
    def test_a_pinned_message_stays_as_it_was_said(self) -> None:
        messages = loop(6)
        window = windlass.bound(messages, pins=[2])
        assert window.messages[2] is messages[2]
        assert window.entries[4].action == "replaced"
        by_id = windlass.bound(messages, pins=[window.entries[2].id])
        assert bytes_of(by_id) == bytes_of(window)

    @given(chats(), policies(), st.data())
    def test_both_ways_give_the_same(self, messages: Any, options: Any, data: Any) -> None:
        pins = data.draw(st.lists(st.integers(0, len(messages) - 1), max_size=3))
        context = windlass.Context(policy=options, pins=pins)
        for message in messages:
            context.append(message)
        window = context.window()
        shown = {id(message) for message in window.messages}
        mended = {one.position for one in window.entries if one.action == "repaired"}
        assert all(id(messages[pin]) in shown or pin in mended for pin in pins)
        assert bytes_of(windlass.bound(messages, policy=options, pins=pins)) == bytes_of(window)

    def test_a_later_pin_keeps_the_memo(self) -> None:
        messages = loop(6)
        first = windlass.bound(messages[:7], pins=[2])
        later = windlass.bound(messages, pins=[2, 8])
        assert later.messages[2] is messages[2]
        assert later.messages[8] is messages[8]
        assert later._context is first._context
        assert windlass.bound(messages, pins=[8])._context is not first._context

    def test_context_pins_from_then_on(self) -> None:
        context = windlass.Context()
        messages = loop(3)
        for message in messages:
            context.append(message)
        context.pin(6)
        context.pin(context.window().entries[1].id)
        for message in lookup(9):
            context.append(message)
        window = context.window()
        assert window.messages[6] is messages[6]
        assert window.entries[2].action == "replaced"

    @pytest.mark.parametrize("pin", [99, "nobody", -1, True, None, 1.5])
    def test_what_is_not_there_is_refused(self, pin: Any) -> None:
        with pytest.raises(UsageError, match="pin"):
            windlass.bound(loop(2), pins=[pin])
        context = windlass.Context()
        context.append(loop(0)[0])
        with pytest.raises(UsageError, match="pin"):
            context.pin(pin)


class TestReport:
    def test_corrects_later_counts(self) -> None:
        context = windlass.Context()
        for message in loop(3):
            context.append(message)
        window = context.window()
        counted = window.tokens
        context.report({"prompt_tokens": counted * 2}, window)
        assert context.window().tokens == counted * 2
        context.report({"prompt_tokens": counted * 2}, window)
        assert context.window().tokens == counted * 2
        usage = {"input_tokens": 10, "cache_read_input_tokens": counted, "output_tokens": 5}
        context.report(usage)
        assert context.window().tokens == counted + 10

    def test_a_limit_counts_anew(self) -> None:
        messages = loop(9)
        context = windlass.Context(max_input_tokens=16_000, policy={"see_results": 3})
        for message in messages:
            context.append(message)
        window = context.window()
        context.report({"prompt_tokens": window.tokens * 2}, window)
        assert 8_000 < context.window().tokens <= 16_000


@pytest.mark.parametrize("profile", ["default", "lean", "careful", "spec"])
def test_a_recording_is_valid_at_each_call(profile: str) -> None:
    for count in range(1, len(RECORDED) + 1):
        window = windlass.bound(RECORDED[:count], policy=profile)
        assert problems(window) == []
        assert all(one.because != "repair" or one.position is None for one in window.entries)


def test_importing_it_takes_little() -> None:
    code = (
        "import sys, windlass; windlass.bound;"
        "heavy = {'pydantic', 'jinja2', 'sqlite3', 'asyncio', 'yaml', 'numpy'};"
        "assert not heavy & set(sys.modules);"
        "print(len(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 285
