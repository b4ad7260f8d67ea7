"""Large results before they are first sent: the default's cut, and the form of each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._pending import WindowPolicy
from windlass.window.conversation import Conversation
from windlass.window.encode.short_forms import cut, head_end, tail_start
from windlass.window.entries import Item
from windlass.window.options import Policy as Options
from windlass.window.policies.compress import Compress
from windlass.window.policies.lossless import Lossless
from windlass.window.steps import steps
from windlass.window.window_rules import WindowRules
from windlass.wire.openai import check_sequence

(SPEC,) = [each for each in steps(Options(profile="spec")) if isinstance(each, Compress)]
"""The compressor as the documents describe it, with the numbers of its profile."""

PATH = "storage/tool_results/abc.json"


def sent(
    text: str,
    policy: WindowPolicy = SPEC,
    *before: WindowPolicy,
    name: str = "peek",
    arguments: Mapping[str, object] | None = None,
    said: str = "go",
) -> Message:
    """The result of the call as it is first sent."""
    call = ToolCall("c1", name, json.dumps(arguments or {}))
    conversation = Conversation([*before, policy], rules=WindowRules(recall_hint=lambda _: PATH))
    for at, message in enumerate((user(said), assistant(calls=[call]), tool(call, text))):
        conversation.append(Item(str(at), message, "x"))
    window = conversation.window()
    check_sequence(window.messages, None)
    return window.messages[-1]


class TestDefault:
    def test_below_8000_tokens_nothing_is_cut(self) -> None:
        assert sent("x y\n" * 8_000, Compress()).text == "x y\n" * 8_000

    def test_recalled_originals_are_not_cut_again(self) -> None:
        text = "a b " * 20_000
        assert sent(text, Compress(), name="recall").text == text
        assert sent(text, SPEC, name="mcp__windlass__recall").text == text

    def test_what_was_sent_stays(self) -> None:
        conversation = Conversation([])
        call = ToolCall("c1", "peek", "{}")
        spoken = (user("go"), assistant(calls=[call]), tool(call, "a b " * 20_000), assistant("x"))
        for at, message in enumerate(spoken):
            conversation.append(Item(str(at), message, "x"))
        conversation.policies = [Compress()]
        conversation.append(Item("4", user("more"), "x"))
        assert conversation.window().messages[2] == spoken[2]


class TestSpec:
    @pytest.mark.req("CE-30")
    def test_up_to_1500_characters_nothing_changes(self) -> None:
        text = "word and " * 166 + "end."
        assert len(text) <= 1_500
        assert sent(text).text == text
        assert len(sent(text * 2).text) <= 1_500

    @pytest.mark.req("CE-26", "CE-32")
    def test_search_results(self) -> None:
        hits = [
            {"title": f"Title {at}", "url": f"https://x.org/{at}", "snippet": "words " * 60}
            for at in range(8)
        ]
        for text in (
            json.dumps({"results": hits}),
            "\n\n".join(f"{at}. Title {at - 1} (a.md)\n{'words ' * 60}" for at in range(1, 9)),
        ):
            told = sent(text, name="web_search").text
            assert told.startswith("Found 8 results. Top 5:\n1. Title 0")
            assert "5. Title 4" in told
            assert "Title 5" not in told
            assert told.endswith(f"Full data: {PATH}")
            assert len(told) <= 2_000

    def test_hits_of_a_grep(self) -> None:
        text = "\n".join(f"src/a.py:{at}: found here and there" for at in range(100))
        told = sent(text, name="Grep").text
        assert told.startswith("Found 100 results. Top 5:\n1. src/a.py:0: found")

    @pytest.mark.req("CE-27")
    def test_file_reads(self) -> None:
        lines = [f"line {at} of a long file" for at in range(200)]
        told = sent("\n".join(lines), name="read_file", arguments={"path": "src/a.py"}).text
        first, *rest = told.split("\n")
        assert first == "[File src/a.py: 200 lines, 4689 characters; the first 10:]"
        assert rest == [*lines[:10], f"Full data: {PATH}"]
        assert len(told) <= 1_000

    @pytest.mark.req("CE-28")
    def test_code_execution(self) -> None:
        lines = [f"step {at}" for at in range(900)]
        lines[400] = "TypeError: unsupported operand in total()"
        text = "<returncode>2</returncode>\n" + "\n".join(lines)
        told = sent(text, name="bash", arguments={"command": "make"}).text
        assert "exit code 2" in told.split("\n")[0]
        assert [f"step {at}" in told.split("\n") for at in (0, 48, 49)] == [True, True, False]
        assert [f"step {at}" in told.split("\n") for at in (879, 880, 899)] == [False, True, True]
        assert "TypeError: unsupported operand in total()" in told
        assert len(told) <= 1_500

    @pytest.mark.req("CE-29")
    def test_answers_of_an_api(self) -> None:
        text = json.dumps(
            {"id": "ord_77", "status": "failed", "error": "card declined", "blob": "x" * 900}
            | {"items": [{"name": f"item {at}", "notes": "y" * 80} for at in range(50)]}
        )
        told = sent(text, name="http_get").text
        for kept in ("ord_77", "failed", "card declined", "item 0", "more"):
            assert kept in told
        assert "xxxx" not in told
        assert len(told) <= 1_000

    @pytest.mark.req("CA-13", "CE-23")
    def test_above_3000_tokens_it_is_stored_apart(self) -> None:
        text = "some words here\n" * 13_821
        told = sent(text, name="bash", arguments={"command": "make"})
        ref = tool("c1", text, name="bash").content_hash[:8]
        assert told.text.startswith(f"[Stored as result_{ref} - 221k chars]\n")
        assert len(told.text) <= 1_600

    def test_the_original_is_summed_up_not_the_table(self) -> None:
        text = json.dumps(
            [{"id": at, "state": "open", "words": f"{at * 7919} z"} for at in range(290)]
        )
        both = sent(text, SPEC, Lossless()).text
        assert both == sent(text, SPEC).text

    @pytest.mark.parametrize(
        ("text", "has"),
        [
            ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +9 @@\n" + "+new line\n" * 400,
             "400 lines added"),
            ("\n".join(f"src/part_{at}.py" for at in range(400)), "[400 entries]"),
            ("a | b | c\n" + "1 | 2 | 3\n" * 400, "[401 lines]"),
            ("2024-05-01 10:00:00 INFO fine\n" * 200 + "2024-05-01 10:00:01 ERROR disk full\n"
             + "2024-05-01 10:00:02 INFO fine\n" * 200, "ERROR disk full"),
            (json.dumps({"rows": [[at, "x" * 40] for at in range(90)]}), "85 more"),
            ("just prose, nothing else. " * 200, "[Truncated "),
        ],
    )  # fmt: skip
    def test_the_other_kinds(self, text: str, has: str) -> None:
        told = sent(text).text
        assert has in told
        assert PATH in told
        assert len(told) <= 1_500


class TestAnything:
    @settings(max_examples=80)
    @given(
        strategies.rough_texts() | strategies.json_values().map(json.dumps),
        st.integers(1, 400),
        st.sampled_from(["peek", "bash", "read_file", "Grep", "http_get", "run_sql", "Glob"]),
    )
    def test_it_never_grows_and_names_the_way_back(self, text: str, times: int, name: str) -> None:
        text = (text + "\n") * times
        told = sent(text, SPEC, name=name, arguments={"command": "make"}).text
        assert told == Message("tool", tool("c", text).parts).text or (
            len(told) < len(text) and PATH in told
        )

    @pytest.mark.parametrize("policy", [SPEC, Compress()])
    @pytest.mark.parametrize(
        "text",
        [
            "x" * 5_000_000,
            "\x00\x1b[2J\x07" * 50_000,
            '{"a":' * 60_000,
            "[" * 60_000 + "]" * 60_000,
            '{"a": NaN, "a": 1}' * 9_000,
            "é\u0301👨‍👩‍👧" * 20_000,
            "\n" * 90_000,
        ],
        ids=["one line", "control", "open", "deep", "no json", "joined", "empty lines"],
    )
    def test_hostile_texts(self, text: str, policy: Compress) -> None:
        told = sent(text, policy, Lossless()).text
        assert len(told) < len(text)
        told.encode("utf-8")


class TestCut:
    @given(st.text(st.sampled_from("ab1_ é\u0301👍🏽\u200d.\n"), max_size=400), st.integers(0, 400))
    def test_no_character_is_split(self, text: str, most: int) -> None:
        for at in (head_end(text, most), tail_start(text, most)):
            assert 0 <= at <= len(text)
            if 0 < at < len(text) and text[at - 1] != "\n":
                assert text[at] not in "\u0301\u200d🏽"
                assert text[at - 1] != "\u200d"

    def test_no_identifier_is_split(self) -> None:
        text = "order_id=#W123-4567 " * 100
        parts = {"order_id=#W123-4567", "order_id=", "order_id", "=#W123-4567", "#W123-4567"}
        for most in range(200, 260):
            head, tail = text[: head_end(text, most)], text[tail_start(text, most) :]
            assert set(head.split()) | set(tail.split()) <= parts

    @given(strategies.texts(), st.integers(1, 300), st.integers(0, 3_000))
    def test_it_fits(self, text: str, times: int, most: int) -> None:
        text = (text + " ") * times
        told = cut(text, most, head=0.6, errors=200, recall_hint=PATH)
        assert len(told) <= max(most, 80) or told == text
