"""Numbers without padding, and references to results and arguments, are read back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windlass
from tests.window.reading_back import padded, resolve
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._references import read_reference, references_in
from windlass.window.conversation import Conversation, Window
from windlass.window.encode.legend import legend_of
from windlass.window.entries import Item
from windlass.window.originals import part_of, reference
from windlass.window.policies.compress import Compress
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.repeats import Repeats

CODE = [
    "\n".join(f"{' ' * (4 * (at % 3))}value_{block} = function_{at}({block})" for at in range(12))
    for block in range(3)
]
SIGNS = ["→", "\t", ":", ": ", " | "]


def windows(said: Sequence[Message], *policies: object) -> list[Window]:
    """The window of each call."""
    conversation = Conversation(policies or (Lossless(lossless=1, clean_output=False), Repeats()))  # type: ignore[arg-type]
    shown: list[Window] = []
    for at, message in enumerate(said):
        if message.role == "assistant":
            shown.append(conversation.window())
        conversation.append(Item(str(at), message, "x"))
    return [*shown, conversation.window()]


def turns(
    *turns: tuple[Sequence[tuple[str, Mapping[str, object]]], Sequence[str]],
) -> list[Message]:
    """A conversation: each turn's calls, by name and arguments, and their results."""
    said: list[Message] = [user("go")]
    for number, (calls, results) in enumerate(turns):
        made = [
            ToolCall(f"c{number}_{at}", name, json.dumps(given))
            for at, (name, given) in enumerate(calls)
        ]
        said.append(assistant(calls=made))
        said += [tool(call, text) for call, text in zip(made, results, strict=True)]
    return said


def read_back(window: Window) -> int:
    """Every result is what was said, by what a reader finds; how many were written otherwise."""
    sources: dict[str, str] = {}
    messages: dict[str, Message] = {}
    changed = 0
    for entry in window.entries:
        said = entry.item.message
        messages[reference(said)] = said
        for number, call in enumerate(said.tool_calls):
            before = f"[{number}]." if len(said.tool_calls) > 1 else ""
            for name, value in json.loads(call.arguments).items():
                sources[f"{reference(said)} {before}{name}"] = str(value)
        if said.role != "tool":
            continue
        text = entry.message.text
        if entry.because is not None and legend_of(text) is None:
            changed += 1
            assert resolve(padded(text), sources) == said.text
            for found in references_in(text):
                part = f"{found.path} {found.first}-{found.last}".strip()
                lines = sources[f"{found.ref} {found.path}".rstrip()].split("\n")
                told = part_of(messages[found.ref], part).split("\n")
                assert [line.partition(": ")[2] for line in told] == lines[
                    found.first - 1 : found.last
                ]
        sources[reference(said)] = said.text
    return changed


def listed(block: str, first: int, width: int, sign: str) -> str:
    lines = block.split("\n")
    return "\n".join(f"{first + at:>{width}}{sign}{line}" for at, line in enumerate(lines))


def indented(block: str, by: str) -> str:
    return "\n".join(by + line if line.strip() else line for line in block.split("\n"))


def blocks() -> st.SearchStrategy[str]:
    """Texts of few blocks, numbered in any way, indented in any way, with odd lines between."""
    odd = st.sampled_from(
        ["", " ", "        ", "\t", "x", "7:", "    12→", "12:a", "[3-4 of", "a" * 50, "   \t b"]
    )
    block = st.sampled_from(CODE) | st.lists(odd, max_size=4).map("\n".join)
    block = st.builds(indented, block, st.sampled_from(["", "    ", "\t\t\t", " " * 9]))
    numbers = st.builds(
        listed,
        block,
        st.sampled_from([1, 3, 95, 998]),
        st.sampled_from([0, 2, 6]),
        st.sampled_from(SIGNS),
    )
    return st.lists(block | numbers | odd, max_size=4).map("\n".join)


class TestReadBack:
    @settings(max_examples=150)
    @given(st.lists(blocks(), min_size=1, max_size=4))
    @example([indented(CODE[0], " " * 12), f"a\n{indented(CODE[0], ' ' * 12)}\nb"])
    def test_results(self, texts: list[str]) -> None:
        said = turns(*[([("bash", {"at": at})], [text]) for at, text in enumerate(texts)])
        for window in windows(said):
            read_back(window)

    @settings(max_examples=100)
    @given(st.lists(st.tuples(blocks(), blocks()), min_size=1, max_size=3), st.booleans())
    def test_arguments(self, texts: list[tuple[str, str]], several: bool) -> None:
        given_turns = []
        for written, shown in texts:
            calls: list[tuple[str, Mapping[str, object]]] = [
                ("edit_file", {"path": "a.py", "new_string": written})
            ]
            results = [shown]
            if several:
                calls.insert(0, ("bash", {"command": f"cat <<E\n{shown}\nE"}))
                results.insert(0, written)
            given_turns.append((calls, results))
        for window in windows(turns(*given_turns)):
            read_back(window)

    @settings(max_examples=100)
    @given(
        st.sampled_from(CODE),
        st.sampled_from([1, 95, 998]),
        st.sampled_from([6, 7]),
        st.sampled_from(SIGNS[:3]),
        st.booleans(),
    )
    def test_a_file_that_was_written_and_is_read_with_numbers(
        self, block: str, first: int, width: int, sign: str, more: bool
    ) -> None:
        text = block + "\nthe last line" * more
        said = turns(
            ([("write_file", {"path": "a.py", "content": text})], ["ok"]),
            ([("read_file", {"path": "a.py"})], [listed(text, first, width, sign)]),
        )
        window = windows(said)[-1]
        assert read_back(window) == 1
        found = references_in(window.messages[-1].text)
        assert [each.path for each in found] == ["content"]
        assert found[0].numbered == (first + 1, first + 11 + more)


class TestNumbers:
    @pytest.mark.parametrize("sign", SIGNS)
    def test_the_first_keeps_its_padding(self, sign: str) -> None:
        text = listed(CODE[0], 3, 6, sign)
        said = turns(([("read_file", {"path": "a.py"})], [text]))
        shown = windows(said)[-1].messages[-1].text.split("\n")
        assert shown[0] == text.split("\n")[0]
        assert shown[1].startswith(f"4{sign}")
        assert shown[-1].startswith(f"14{sign}")

    def test_numbers_of_several_widths_stay(self) -> None:
        text = listed(CODE[0], 94, 6, ":") + "\n  7: x"
        said = turns(([("read_file", {"path": "a.py"})], [text]))
        assert windows(said)[-1].messages[-1].text == text


class TestMarkers:
    def test_a_short_one_has_thirty_characters_at_most(self) -> None:
        lines = [f"line {at} of the file says {'x' * 40}" for at in range(90)]
        said = turns(
            ([("read_file", {"path": "src/x.py"})], ["\n".join(lines)]),
            ([("bash", {"command": "make"})], ["\n".join(["a", *lines[2:45], "b", *lines[50:53]])]),
        )
        shown = windows(said)[-1].messages[-1].text.split("\n")
        ref = reference(said[2])
        assert shown == ["a", f"[3-45 of {ref}, read_file src/x.py]", "b", f"[51-53 of {ref}]"]
        assert len(shown[3]) <= 30
        assert part_of(said[2], "51-53").split("\n")[0] == f"51: {lines[50]}"

    def test_of_arguments_it_says_which_as_recall_takes_it(self) -> None:
        lines = [f"line {at} of the file says {'x' * 40}" for at in range(9)]
        context = windlass.Context()
        arguments = json.dumps({"path": "x", "new_string": "\n".join(lines)})
        call = {"id": "a", "function": {"name": "edit_file", "arguments": arguments}}
        context.append({"role": "user", "content": "go"})
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "Edited:\n" + "\n".join(lines[3:6])
        context.append({"role": "tool", "tool_call_id": "a", "content": text})
        window = context.window()
        line = window.messages[2]["content"].split("\n")[1]
        found = read_reference(line)
        assert found is not None
        assert line == f"[4-6 of {found.ref} new_string]"
        assert window.recall(found.ref, part="new_string 4-6").split("\n") == [
            f"{at}: {lines[at - 1]}" for at in (4, 5, 6)
        ]

    def test_what_was_recalled_stays_whole(self) -> None:
        text = listed(indented("\n".join(CODE), " " * 20), 1, 6, "→")
        said = turns(
            ([("read_file", {"path": "a.py"})], [text]),
            ([("recall", {"ref": "result_1a2b3c4d"})], [text]),
            ([("read_file", {"path": "b.py"})], [f"x\n{text}"]),
        )
        shown = windows(said)[-1].entries
        assert [shown[4].because, shown[6].because] == [None, "repeat"]
        first = windows(said[3:])[-1].entries
        assert first[1].because is None


def test_a_cut_source_is_named_by_the_lines_of_its_original() -> None:
    lines = [f"{at} {'word ' * 20}" for at in range(900)]
    said = turns(
        ([("bash", {"command": "make"})], ["\n".join(lines)]),
        ([("bash", {"command": "make"})], ["\n".join(["now", *lines[-8:]])]),
    )
    window = windows(said, Repeats(), Compress())[-1]
    assert window.entries[2].because == "compress"
    assert window.messages[4].text == f"now\n[893-900 of {reference(said[2])}, bash make]"


def test_rows_of_a_table_in_view_are_referred_to() -> None:
    rows = [{"id": f"ord_{at:03}", "note": f"{at} {'x' * 40}"} for at in range(30)]
    said = turns(
        ([("list_orders", {})], [json.dumps(rows)]), ([("list_orders", {})], [json.dumps(rows[9:])])
    )
    shown = windows(said)[-1].messages[-1].text
    assert [(each.first, each.last) for each in references_in(shown)] == [(12, 32)]
