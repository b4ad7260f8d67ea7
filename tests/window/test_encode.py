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
from windlass.window.policies.rare import Masking

FLIGHTS = [
    {
        "flight": f"HAT{at:03}",
        "origin": "IAH",
        "times": {"start": f"{at:02}:00:00", "end": "13:00"},
        "price": 100 + at,
        "id": f"{at}7",
    }
    for at in range(4)
]


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

    def test_json_inside_a_text_is_written_as_its_value(self) -> None:
        orders = {"orders": [{"id": f"o-{at}", "state": "open"} for at in range(30)]}
        text = json.dumps({"content": [{"type": "text", "text": json.dumps(orders, indent=2)}]})
        encoded = encode(text)
        assert encoded is not None
        assert "json value: its text" in encoded.split("\n")[0]
        assert "\\" not in encoded
        assert len(encoded) < 0.3 * len(text)
        twice = encode(json.dumps(json.dumps(orders)))
        assert twice is not None
        assert "\no-7\n" in twice

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

    def test_a_model_can_read_it(self) -> None:
        assert encode(json.dumps({"user": "yara_1", "zip": "80212", "flights": FLIGHTS})) == (
            "[JSON without quotes; table: keys, then rows; key=value: in every row]\n"
            "{user:yara_1\n"
            'zip:"80212"\n'
            "flights:[table flight,origin=IAH,times{start,end=13:00},price,id\n"
            'HAT000,00:00:00,100,"07"\n'
            'HAT001,01:00:00,101,"17"\n'
            'HAT002,02:00:00,102,"27"\n'
            'HAT003,03:00:00,103,"37"]}'
        )

    def test_a_column_that_counts_the_rows_is_told_among_the_keys(self) -> None:
        hits = [
            {"title": f"a title {at}", "at": {"rank": at + 1}, "row": at, "as": str(at), "n": 7}
            for at in range(6)
        ]
        encoded = encode(json.dumps(hits))
        assert encoded is not None
        assert encoded.split("\n")[1:3] == [
            "[table title,at{rank=1..6},row=0..5,as,n=7",
            'a title 0,"0"',
        ]
        assert decode(encoded) == parse(json.dumps(hits))

    @pytest.mark.parametrize(
        "column",
        [
            [1, 2, 3, 4],  # too few to save anything
            [2, 3, 4, 5, 6, 7],
            [1, 2, 3, 5, 4, 6],
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            list(range(1, 1_001)),  # names that may be asked for
        ],
    )
    def test_other_columns_of_numbers_stay(self, column: list[float]) -> None:
        rows = [{"key of it": one, "text": f"what {one} says"} for one in column]
        encoded = encode(json.dumps(rows, indent=4))
        assert encoded is not None
        assert "[table key of it,text\n" in encoded
        assert decode(encoded) == parse(json.dumps(rows))

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

    @pytest.mark.parametrize("body", ["{a:1", "[table a\n1", "[1,2]x", "{a}", "{"])
    def test_broken_ones_are_refused(self, body: str) -> None:
        with pytest.raises(NotPlain):
            decode(f"[JSON without quotes]\n{body}")


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

    def test_a_line_for_each(self) -> None:
        text = repr([("Aruba", 4, None), ("Congo, Republic", 6, 1.10)] * 30)
        encoded = encode_rows(text)
        assert encoded is not None
        assert encoded.split("\n")[1:3] == ["Aruba,4,None", "'Congo, Republic',6,1.1"]

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

    def test_what_is_still_in_sight_stays(self) -> None:
        """A shorter text over a longer one leaves its end on the screen."""
        assert clean('"version": "2.541.3\r"') == '"version": "2.541.3\r"'

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
    def test_data_comes_as_a_table(self) -> None:
        text = json.dumps(FLIGHTS * 3)
        sent = one_result(text, Lossless())
        assert decode(sent.text) == parse(text)
        assert len(sent.text) < len(text) / 2

    @pytest.mark.parametrize("name", ["read_file", "bash", "Edit", "Read"])
    def test_files_and_output_are_never_re_encoded(self, name: str) -> None:
        text = json.dumps(FLIGHTS * 9, indent=1)
        assert one_result(text, Lossless(), name).text == text

    def test_diffs_stay_letter_for_letter(self) -> None:
        text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a  \n+b \r\n" * 30
        assert one_result(text, Lossless(), "bash").text == text

    def test_small_ones_stay(self) -> None:
        text = json.dumps(FLIGHTS)
        assert one_result(text, Lossless(lossless=len(text) + 1)).text == text
        assert one_result(text, Lossless(lossless=len(text))).text != text
        assert one_result(text, Lossless(max_chars=len(text) - 1)).text == text

    def test_output_is_cleaned_if_wanted(self) -> None:
        assert one_result("a  \n\x1b[1mb\x1b[0m", Lossless(), "bash").text == "a\nb"
        assert one_result("a  \nb", Lossless(clean_output=False), "bash").text == "a  \nb"

    def test_only_what_was_never_sent(self) -> None:
        call = ToolCall("c1", "get_order", "{}")
        conversation = Conversation([])
        for at, message in enumerate(
            (
                user("go"),
                assistant(calls=[call]),
                tool(call, json.dumps(FLIGHTS * 3)),
                assistant("a"),
            )
        ):
            conversation.append(Item(str(at), message, "x"))
        conversation.policies = [Lossless()]
        conversation.append(Item("4", user("more"), "x"))
        assert conversation.window().messages[2].text == json.dumps(FLIGHTS * 3)


def results(*values: Any, policy: Lossless | None = None, edits: Any = ()) -> list[str]:
    """The results of calls in turn, as the call after the last one sees them."""
    conversation = Conversation([*edits, policy or Lossless()])
    said: list[Message] = [user("go")]
    for number, value in enumerate(values):
        call = ToolCall(f"c{number}", "get_order", "{}")
        said += [assistant(calls=[call]), tool(call, json.dumps(value))]
    for at, message in enumerate(said):
        conversation.append(Item(str(at), message, "x"))
    return [message.text for message in conversation.window().messages if message.role == "tool"]


class TestLegends:
    def test_how_to_read_it_is_told_once(self) -> None:
        other = [{**flight, "id": f"{flight['id']}0"} for flight in FLIGHTS]
        first, second = results(FLIGHTS * 2, other * 2)
        assert first.startswith("[JSON without quotes; table: keys, then rows; key=value")
        assert second.startswith("[JSON without quotes]\n[table ")
        assert decode(first) == parse(json.dumps(FLIGHTS * 2))
        assert decode(second) == parse(json.dumps(other * 2))

    def test_a_liberty_that_was_not_told_is_told(self) -> None:
        order = {f"the_field_{n}": f"its value {n}" for n in range(40)}
        first, second, third = results(order, FLIGHTS * 2, order)
        assert first.startswith("[JSON without quotes]\n")
        assert second.startswith("[JSON without quotes; table: keys, then rows; key=value")
        assert third.startswith("[JSON without quotes]\n")

    def test_what_is_not_shown_any_more_tells_nothing(self) -> None:
        first, second = results(
            FLIGHTS * 2, FLIGHTS * 3, edits=[Masking(mask_observations_after=1, min_masked_chars=1)]
        )
        assert "table" not in first
        assert second.startswith("[JSON without quotes; table")

    def test_what_stands_far_above_tells_nothing(self) -> None:
        seen = results(FLIGHTS * 2, *["ok"] * 12, FLIGHTS * 3)
        assert seen[-1].startswith("[JSON without quotes; table")
        assert results(FLIGHTS * 2, *["ok"] * 11, FLIGHTS * 3)[-1].startswith(
            "[JSON without quotes]"
        )
