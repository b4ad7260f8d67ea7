"""The same in fewer characters: what is read back is what was there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies
from tests.window.reading_back import decode
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation
from windlass.window.encode import decode_rows, encode, encode_rows
from windlass.window.encode._tables import NotPlain, Number, parse
from windlass.window.encode.command_output import clean
from windlass.window.entries import Item
from windlass.window.policies.lossless import Lossless


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Objects that are mostly alike, as tools answer with."""
    key = st.sampled_from(
        ["id", "name", "a b", "x:y", "true", "1", "", 'q"', "table", "(k)", "k=v"]
    )
    words = st.sampled_from(
        [
            "",
            " a",
            "a ",
            "1.10",
            "1e5",
            "-",
            "---",
            "null",
            "table x",
            "a,b",
            "a\nb",
            "a:b",
            "[",
            "é",
        ]
    )
    leaf = st.none() | st.booleans() | st.integers() | words | strategies.texts()
    cell = st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(key, inner, max_size=3),
        max_leaves=5,
    )
    return st.lists(key, min_size=1, max_size=4, unique=True).flatmap(
        lambda keys: st.lists(
            st.fixed_dictionaries({}, optional=dict.fromkeys(keys, cell)), min_size=2, max_size=4
        )
    )


def one_result(text: str, policy: Lossless, name: str = "get_order") -> Message:
    """The result as it is sent."""
    call = ToolCall("c1", name, '{"command": "x"}' if name == "bash" else "{}")
    conversation = Conversation([policy])
    for at, message in enumerate((user("go"), assistant(calls=[call]), tool(call, text))):
        conversation.append(Item(str(at), message, "x"))
    return conversation.window().messages[-1]


class TestTables:
    @given(strategies.json_values() | rows() | st.dictionaries(strategies.texts(), rows()))
    @example([[{"a": 1}, {"a": 2}], [{"a": 3}]])
    @example([{"a": 1}, {"a": 1}])
    @example({"x": {"id": "x", "n": 1}, "y": {"id": "y", "n": 2}})
    @example({"x": {"id": "x"}, "y": {"id": "y"}})
    @example({"table ": 1})
    @example(["table a", "lists b"])
    @example([{"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}] * 2)
    @example([[], [], "a" * 90])
    @example({"text": json.dumps({"orders": [{"id": at, "state": "open"} for at in range(9)]})})
    @example([{"text": "[" + "1," * 30 + "1]"}, {"text": "{" + " " * 60 + "}"}])
    @example("[" + "1, " * 30 + "1]")
    def test_what_is_written_is_read_back(self, value: Any) -> None:
        # White space makes the encoded form the shorter one, whatever the value is.
        text = json.dumps(value, indent=60, ensure_ascii=False)
        encoded = encode(text)
        if encoded is not None:
            assert decode(encoded) == parse(text)
            assert len(encoded) < len(text)

    @given(
        st.lists(
            st.from_regex(r"-?(0|[1-9]\d{0,30})(\.\d{1,9})?([eE][+-]?\d{1,3})?", fullmatch=True)
        )
    )
    def test_numbers_keep_their_text(self, numbers: list[str]) -> None:
        rows = [f'{{"some_key_of_it": {one}, "the_other_key": [{one}, {one}]}}' for one in numbers]
        encoded = encode(f"[{', '.join(rows)}]")
        if encoded is not None:
            read = decode(encoded)
            assert isinstance(read, list)
            assert [row["some_key_of_it"] for row in read] == numbers
            assert all(isinstance(row["some_key_of_it"], Number) for row in read)

    @given(
        st.lists(
            st.sampled_from(["counts", "counts from 0", "1..9", "0..1", "9"]),
            min_size=1,
            max_size=3,
        ),
        st.lists(st.integers(1, 4), min_size=1, max_size=3),
        st.booleans(),
    )
    def test_counts_are_read_back(self, kinds: list[str], sizes: list[int], keyed: bool) -> None:
        def rows(start: int, count: int) -> list[dict[str, Any]]:
            return [
                {
                    kind: at + (kind == "counts") if kind.startswith("counts") else kind
                    for kind in kinds
                }
                for at in range(start, start + count)
            ]

        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        groups = [rows(start, size * 3) for start, size in zip(starts, sizes, strict=True)]
        table = rows(0, 3 * sum(sizes))
        values: list[Any] = [table, groups, [[table], table]]
        if keyed:
            values.append({f"k{at}": row for at, row in enumerate(table)})
        for value in values:
            encoded = encode(json.dumps(value, indent=40))
            assert encoded is None or decode(encoded) == parse(json.dumps(value))

    @pytest.mark.parametrize(
        "text",
        [
            "no json at all",
            '{"a": 1, "a": 2}' + " " * 200,
            "[NaN]" + " " * 200,
            "[Infinity]" + " " * 200,
            "[" * 100_000 + "]" * 100_000,
            '{"a":' * 900 + "1" + "}" * 900,
            '[{"a":' * 80 + "1" + "}]" * 80,
            "[1,2,3]",
            "",
        ],
    )
    def test_what_cannot_be_said_shorter_is_left_alone(self, text: str) -> None:
        assert encode(text) is None

    def test_half_a_character_stays_an_escape(self) -> None:
        text = json.dumps({"a": "\ud800", "b": ["x" * 9] * 20}, indent=9)
        encoded = encode(text)
        assert encoded is not None
        encoded.encode("utf-8")
        assert decode(encoded) == parse(text)

    @given(strategies.texts())
    def test_other_texts_are_refused(self, text: str) -> None:
        with pytest.raises(NotPlain):
            decode(text)
        with pytest.raises(NotPlain):
            decode_rows(text)


class TestRows:
    @given(
        st.lists(
            st.lists(
                st.none() | st.booleans() | st.integers() | st.floats() | strategies.texts()
                | st.sampled_from(["None", "1.5", "a, b", "", "it's", 'say "x"', "\\", "b'x'"])
                | st.sampled_from(["f(x)", "inf", "a(b", "- ", "é"])
                | st.binary(max_size=3) | st.dates(),
                min_size=1, max_size=4,
            ).map(tuple)
        )
    )  # fmt: skip
    def test_letter_for_letter(self, rows: list[tuple[Any, ...]]) -> None:
        text = repr(rows)
        encoded = encode_rows(text)
        if encoded is not None:
            assert decode_rows(encoded) == text

    @pytest.mark.parametrize(
        "text",
        ["[(1, 2)]", "[(1, [2]), (3, 4)]", "[(", "[()]", "[(1,2), (3,4)]", "[(1, 2) (3)]"],
    )
    def test_others_are_left_alone(self, text: str) -> None:
        assert encode_rows(text) is None


class TestClean:
    def test_what_only_a_terminal_understands_goes(self) -> None:
        text = "\x1b[31mred\x1b[0m  \r\n10%\r50%\r100% done\n\x1b]0;title\x07  end\t\nab\x08c"
        assert clean(text) == "red\n100% done\n  end\nac"

    @given(st.text(st.sampled_from("ab \t\r\n\x1b[m0;\x08"), max_size=60))
    def test_lines_stay_where_they_were(self, text: str) -> None:
        assert clean(text).count("\n") == text.count("\n")
        assert clean(clean(text)).count("\n") == text.count("\n")

    @pytest.mark.parametrize(
        "text", [" " * 1_000_000 + "x", "x" * 1_000_000 + "\r", "\x1b]" * 300_000, "\r" * 500_000]
    )
    def test_hostile_output_takes_no_longer(self, text: str) -> None:
        """What is tried again at each place would take hours here."""
        assert len(clean(text)) <= len(text)

    @given(strategies.texts())
    def test_words_stay(self, text: str) -> None:
        plain = "".join(sign for sign in text if sign.isprintable())
        assert clean(plain).rstrip() == plain.rstrip()


class TestLossless:
    def test_diffs_stay_letter_for_letter(self) -> None:
        text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a  \n+b \r\n" * 30
        assert one_result(text, Lossless(), "bash").text == text
