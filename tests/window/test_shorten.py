"""The cutter: marks that add up, decisions that are the same each time, odd shapes of text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.window.kinds import KINDS, Kind
from windlass.window.shorten import RequestTexts, shorten

MARK = re.compile(
    r"\[\.\.\. lines? (\d+)(?:-(\d+))?"
    r"(?:, (?:same form as above|same forms as the \d lines above|(equal to the line above)))?"
    r" \.\.\.\]"
)
PART = re.compile(r"\[\.\.\. (?:([\d,]+) characters|1 line) \.\.\.\]")
WORDS = st.text(alphabet="abcdefé /_.:0123456789ö\t\r漢", max_size=60)
ROWS = st.builds(
    "{} {} running {} ms".format,
    st.sampled_from(["gate", "crane", "dock"]),
    st.integers(0, 99),
    st.integers(0, 10**6),
)
LINES = st.lists(
    st.one_of(WORDS, ROWS, st.sampled_from(["", "}", "same line", "x" * 30, "Error: no"])),
    min_size=1,
    max_size=150,
)
TEXTS = st.one_of(LINES, st.lists(ROWS, min_size=30, max_size=150), st.just([""] * 90))
KIND = st.sampled_from([kind for kind in KINDS if kind not in ("file", "diff")])


def lines_told(made: str, original: Sequence[str]) -> list[str]:
    """The lines of the original, from what is shown and the numbers that marks name."""
    lines: list[str] = []
    for line in made.split("\n"):
        mark = MARK.fullmatch(line)
        if mark is None:
            lines.append(line)
            continue
        first, last = int(mark[1]), int(mark[2] or mark[1])
        left = original[first - 1 : last]
        if mark[3]:
            assert {*left} == {lines[-1]}
        lines += left
    return lines


@given(lines=TEXTS, words=st.lists(WORDS, max_size=3), room=st.integers(0, 4_000), kind=KIND)
@example(lines=["a"] * 12, words=[], room=0, kind="text")
@example(lines=["a b 1"] * 3 + ["a b 2", "c"] * 20, words=["c"], room=60, kind="command")
def test_marks_add_up(lines: Sequence[str], words: Sequence[str], room: int, kind: Kind) -> None:
    text = "\n".join(lines)
    asked = RequestTexts(*words)
    made = shorten(text, room, asked, kind=kind, starts=range(1, len(lines) + 1))
    assert made == shorten(text, room, asked, kind=kind, starts=range(1, len(lines) + 1))
    assert len(made.text) <= len(text)
    if made.told == "Cut":
        assert lines_told(made.text, lines) == lines


@given(words=st.lists(WORDS, min_size=20, max_size=400), room=st.integers(0, 4_000))
def test_a_long_line_keeps_its_pieces_in_order(words: Sequence[str], room: int) -> None:
    text = " ".join(words)
    made = shorten(text, room, RequestTexts()).text
    at = 0
    for piece in PART.split(made)[::2]:
        at = text.find(piece, at)
        assert at >= 0
        at += len(piece)
    if "1 line" not in made:
        left = [int(number.replace(",", "")) for number in PART.findall(made)]
        assert sum(map(len, PART.split(made)[::2])) + sum(left) == len(text)


@given(
    hunks=st.lists(
        st.lists(st.sampled_from([" same", "-old", "+new", "", " ", "+", "-"]), min_size=1),
        min_size=1,
        max_size=8,
    ),
    room=st.integers(200, 4_000),
)
def test_a_diff_loses_unchanged_lines_alone_and_counts_right(
    hunks: Sequence[Sequence[str]], room: int
) -> None:
    old = new = 1
    lines: list[str] = ["diff --git a/m b/m", "index 1..2", "--- a/m", "+++ b/m"]
    for hunk in hunks:
        gone, come = (sum(line[:1] in ("", " ", sign) for line in hunk) for sign in "-+")
        lines += [f"@@ -{old - (not gone)},{gone} +{new - (not come)},{come} @@", *hunk]
        old, new = old + gone + 5, new + come + 5
    made = shorten("\n".join(lines), room, RequestTexts(), kind="diff")
    if "cut" not in made.told:
        changes = [line for line in lines[4:] if line[:1] in ("+", "-")]
        shown = made.text.split("\n")
        assert [line for line in shown[1:] if line[:1] in ("+", "-")] == changes
        head = 0
        left: list[int] = []
        for at, line in enumerate(shown):
            if match := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
                assert left in ([], [0, 0])
                left = [int(count) if count else 1 for count in match.groups()]
                head = at
            elif head:
                left[0] -= line[:1] in ("", " ", "-")
                left[1] -= line[:1] in ("", " ", "+")
        assert left in ([], [0, 0])


@pytest.mark.parametrize(
    "text",
    [
        "x" * 300_000,
        "\n" * 300_000,
        "\t" * 300_000,
        "a b " * 90_000,
        "a\r" * 90_000,
        "@@ -1 +1 @@\n" * 30_000,
        "a/b.c:1:x\n" * 30_000,
        "".join(f"{at}\n" for at in range(60_000)),
        "\0\x1b[" * 60_000,
    ],
    ids=["line", "ends", "tabs", "words", "returns", "hunks", "hits", "numbers", "controls"],
)
def test_odd_shapes_are_cut_and_add_up(text: str) -> None:
    lines = text.split("\n")
    made = shorten(text, 2_800, RequestTexts("b"), kind="command", starts=range(1, len(lines) + 1))
    assert len(made.text) < 8_000
    if made.told == "Cut" and not PART.search(made.text):
        assert lines_told(made.text, lines) == lines


def test_a_changed_line_of_a_cut_diff_stands_under_the_head_of_its_hunk() -> None:
    hunks = [
        f"@@ -{at} +{at} @@ func Crane{at}() {{\n-\tlift({at}, load, nil)\n+\tlift({at}, load, err)"
        for at in range(10, 2_000, 10)
    ]
    text = "\n".join(["diff --git a/m.go b/m.go", "--- a/m.go", "+++ b/m.go", *hunks])
    lines = shorten(text, 2_000, RequestTexts("lift(1270"), kind="diff").text.split("\n")
    changed = [at for at, line in enumerate(lines) if line.startswith(("-\tlift", "+\tlift"))]
    assert len(changed) > 20
    for at in changed:
        number = re.findall(r"\d+", lines[at])[0]
        heads = [line for line in lines[:at] if line.startswith("@@")]
        assert heads[-1] == f"@@ -{number} +{number} @@ func Crane{number}() {{"
