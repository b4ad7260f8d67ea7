"""Patterns of others: what Python means by them, in a time that grows with the text."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.safety import patterns
from windlass.safety.patterns import BadPattern, Unsupported, compile_pattern, search
from windlass.safety.schemas import validator_for

ATOMS = [
    "a", "b", "é", "_", "7", ".", " ", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\.", r"\n",
    "[ab]", "[^a]", r"[\w-]", r"[^\W\d]", r"[\W_]", r"[^\s]", "[a-c7]", "^", "$", r"\A", r"\Z",
    r"\x41", r"\u00e9", "(?i:A)", "(?:ab)", "(a|b)", "(?P<n>a)",
]  # fmt: skip
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{1,2}", "{2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
TEXTS = st.text(st.sampled_from("abAé_7. \n\u0663\u65e5-"), max_size=12)
FLAGS = st.sampled_from([0, re.MULTILINE, re.DOTALL, re.IGNORECASE, re.MULTILINE | re.IGNORECASE])


def pythons(pattern: str, flags: int) -> re.Pattern[str] | None:
    """Python's own, where it takes the pattern."""
    try:
        return re.compile(pattern, flags)
    except re.error:  # such as two groups of one name
        return None


@given(PATTERNS, TEXTS, FLAGS)
def test_a_pattern_is_found_where_python_finds_it(pattern: str, text: str, flags: int) -> None:
    ours = pythons(pattern, flags)
    if ours is None:
        return
    try:
        found = compile_pattern(pattern, flags).search(text)
    except Unsupported:
        return
    expected = ours.search(text)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        # A `$` takes the line end with it that ends the text.
        assert (found[0] or "").removesuffix("\n") == expected[0].removesuffix("\n")


@given(PATTERNS, st.lists(TEXTS, max_size=5).map("\n".join))
def test_lines_are_found_as_each_by_itself(pattern: str, text: str) -> None:
    ours = pythons(pattern, 0)
    if ours is None:
        return
    expected = [
        (number, line, found.start())
        for number, line in enumerate(text.split("\n"), 1)
        if (found := ours.search(line))
    ]
    assert [
        tuple(found) for found in compile_pattern(pattern, in_lines=True).lines(text)
    ] == expected


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?=a)b", "has lookahead or lookbehind"),
        ("(?<!a)b", "has lookahead or lookbehind"),
        (r"(a)\1", "has a backreference"),
        ("a++", "has a possessive quantifier"),
        ("(?>a)", "has an atomic group"),
        ("(a)(?(1)b|c)", "has a condition"),
        ("a{2000}", "repeats by number more than 1,000 times"),
        ("(?:(?:a{100}){100}){100}", "is too large"),
        ("a$b", r"has more after a \$"),
    ],
)
def test_what_the_engine_lacks_is_named(pattern: str, told: str) -> None:
    with pytest.raises(Unsupported, match=told):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "is not a regular expression: missing"),
        ("(?:" * 3_000 + ")" * 3_000, "more than 10,000 characters|nested too deeply"),
        ("(" * 2_000 + ")" * 2_000, "nested too deeply"),
        ("\ud800", "half a character"),
    ],
)
def test_what_is_no_pattern_is_refused_in_a_sentence(pattern: str, told: str) -> None:
    with pytest.raises(BadPattern, match=told):
        compile_pattern(pattern)


def test_texts_with_halves_of_characters_are_searched_too() -> None:
    found = compile_pattern("b+").search("a\ud800bb")
    assert found is not None
    assert found[0] == "bb"
    assert [
        tuple(line) for line in compile_pattern("b", in_lines=True).lines("\ud800\na\ud800b")
    ] == [(2, "a\ud800b", 2)]


def test_words_and_digits_are_pythons() -> None:
    """But for characters that one of the two has a newer edition of Unicode for."""
    for category in (r"\w", r"\d", r"\s"):
        ours, theirs = compile_pattern(category), re.compile(category)
        differ = sum(
            (ours.search(chr(code)) is None) != (theirs.search(chr(code)) is None)
            for code in range(0x3000)
        )
        assert differ < 50, category


BOMBS = ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){20}$", r"^(\w+\s?)*$", "(x+x+)+y"]


@pytest.mark.parametrize("pattern", BOMBS)
@pytest.mark.parametrize("end", ["", "!"])
def test_no_pattern_takes_longer_than_the_text(pattern: str, end: str) -> None:
    def seconds(flags: int, *, in_lines: bool) -> float:
        began = time.thread_time()
        made = compile_pattern(pattern, flags, in_lines=in_lines)
        list(made.lines(text)) if in_lines else made.search(text)
        return time.thread_time() - began

    text = "a" * 10_000 + end
    compile_pattern.cache_clear()
    assert min(seconds(re.DOTALL, in_lines=False) for _ in range(3)) < 0.1
    assert min(seconds(0, in_lines=True) for _ in range(3)) < 0.1


def test_what_the_engine_lacks_is_searched_in_a_process_that_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert search(r"(?<=: )(\w+)", "a: b") == ("b", "b")
    assert search(r"(?=(x))", "a: b") is None
    monkeypatch.setattr(patterns, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"searched 10,001 characters for more than 0\.5 s"):
        search("(?=a)((a+)+)$", "a" * 10_000 + "!")
    assert time.monotonic() - began < 20


SCHEMAS: list[tuple[dict[str, Any], Any, bool]] = [
    ({"pattern": "(a+)+$"}, "a" * 10_000 + "!", False),
    ({"pattern": "^a"}, "ab", True),
    ({"pattern": "^a"}, 7, True),
    ({"patternProperties": {"(a+)+$": {"type": "null"}}}, {"a" * 5_000 + "!": 1}, True),
    ({"patternProperties": {"^x": {"type": "null"}}}, {"xy": 1}, False),
    (
        {"patternProperties": {"(a+)+$": True}, "additionalProperties": False},
        {"a" * 5_000 + "!": 1},
        False,
    ),
    (
        {"properties": {"b": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False},
        {"xy": 1, "b": 2},
        True,
    ),
    (
        # A part that names its draft is checked by the same engine.
        {"$ref": "#/$defs/d", "$defs": {"d": {"$schema": "http://json-schema.org/draft-07/schema#",
                                              "pattern": "(a+)+$"}}},
        "a" * 10_000 + "!",
        False,
    ),
    ({"const": {"$schema": "x"}}, {"$schema": "x"}, True),
    ({"properties": {"$schema": {"type": "null"}}}, {"$schema": 1}, False),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "valid"), SCHEMAS)
def test_schemas_search_for_their_patterns_in_linear_time(
    schema: dict[str, Any], value: Any, valid: bool
) -> None:
    began = time.thread_time()
    assert (next(validator_for(schema).iter_errors(value), None) is None) is valid
    assert time.thread_time() - began < 2


def test_the_process_of_a_slow_search_imports_nothing_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert search("(?=a)(.)", "ba") == ("a", "a")
