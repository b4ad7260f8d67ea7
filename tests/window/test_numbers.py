"""Numbers without padding, and references to results and arguments, are read back exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.window.reading_back import padded, resolve
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._references import references_in
from windlass.window.conversation import Conversation, Window
from windlass.window.encode.legend import legend_of
from windlass.window.entries import Item
from windlass.window.originals import part_of, reference
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
