"""What is left of the results of failed calls, seen by loops and by a cascade."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.support.context_documented_windows import asked, idle, result, user
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted

LINES = (
    "java.lang.Exception: no",
    "stack overflow in loop",
    "ERRORS were met",
    "2 tests Failed, 3 passed",
    "TRACEBACK follows",
    "the unFAILEDness of it",
    "the quick brown fox jumps over the lazy dog",
    "",
    "    indented error text   ",
    'raise TypeError("x")',
    "x" * 230 + " error " + "y" * 80,
)
TELLING = re.compile(r"error|exception|failed|traceback", re.IGNORECASE)
LEFT_OUT = re.compile(r"\[([\d,]+) error lines? left out\]")
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"profile": "spec"},
    {"profile": "lean"},
    {"profile": "careful"},
    {"see_results": None, "fold_after": 1},
    {"see_results": None, "decay": {"full": 1, "fold": 2}},
    {"max_input_tokens": 600, "see_results": None},
    {"profile": "spec", "compress": {"above_chars": 700, "by_kind": True}},
    {"compress": {"above_chars": 700, "max_result_tokens": 200}, "see_results": None},
)


def kept(text: str, shown: str, room: int) -> None:
    """Each telling line is in what is shown, or it says how many are not, and why: no room."""
    lines = {line.strip() for line in text.split("\n") if TELLING.search(line)}
    there = {line for line in lines if line in shown}
    match = LEFT_OUT.search(shown)
    if match is None:
        cut = {line for line in lines - there if len(line) > 200}
        assert lines - there == cut
        assert not cut or sum(map(len, lines)) + len(lines) > room
    else:
        assert int(match[1]) >= len(lines - there) - sum(len(line) > 200 for line in lines)
        assert sum(map(len, lines)) + len(lines) > room


@pytest.mark.req("AC-115", "AC-37")
@given(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=60),
    st.sampled_from(POLICIES),
    st.sampled_from((None, 60, 1_000)),
    st.sampled_from(("bash", "search", "read_file", "http_get", "ask")),
)
def test_a_failed_result_keeps_each_line_that_tells_of_it(
    lines: list[str], policy: dict[str, Any], room: int | None, name: str
) -> None:
    text = "\n".join(["Exit code: 1", *lines, *["nothing of note here"] * 40])
    said = [user("Go."), asked(1, name, command="x", path="a.py"), result(1, text), *idle(12)]
    options = {**policy, **({"error_chars": room} if room else {}), "commit": "at_once"}
    error_chars = windlass.Policy(**options).error_chars
    window = windlass.bound(said, policy=options).messages
    told = "\n".join(str(each["content"]) for each in window)
    if "max_input_tokens" in options and "Exit code: 1" not in told:
        return  # the whole turn is left out
    kept(text, told, error_chars)
    if len(window) == len(said):
        assert len(window[2]["content"]) <= len(text)


@pytest.mark.req("AC-115")
@pytest.mark.parametrize("profile", ["default", "spec"])
def test_a_context_keeps_it_call_by_call(profile: str) -> None:
    text = "Exit code: 1\nthread main\n" + "at com.shop.Main\n" * 60 + "java.lang.Exception: no"
    policy = {"profile": profile, "commit": "at_once"}
    context = windlass.Context("anthropic/claude-sonnet-4-5", policy=policy, recall=True)
    for message in [user("Go."), asked(1, "run"), result(1, text), *idle(6)]:
        context.append(message)
    shown = str(context.window().messages[2]["content"])
    assert len(shown) < len(text) / 2
    assert "java.lang.Exception: no" in shown


def test_without_preserve_errors_nothing_is_kept_for_its_errors() -> None:
    text = "Exit code: 1\n" + "at com.shop.Main\n" * 60 + "an exception: no way"
    said = [user("Go."), asked(1, "run"), result(1, text), *idle(6)]
    options = {"profile": "spec", "commit": "at_once", "preserve_errors": False}
    assert "no way" not in str(windlass.bound(said, policy=options).messages[2]["content"])


@pytest.mark.req("AC-115")
@pytest.mark.parametrize("profile", ["default", "spec"])
def test_a_cascade_keeps_the_lines_of_a_failed_tool(profile: str, tmp_path: Path) -> None:
    def build(target: str) -> str:
        """Build a target."""
        lines = [f"compiling {target}"] * 80
        raise RuntimeError("\n".join([*lines, f"caused by: EXCEPTION in {target}"]))

    calls = [
        ToolCall(f"c{n}", "build", f'{{"target": "{target}"}}')
        for n, target in enumerate(("main", "a", "b", "c", "d", "e"))
    ]
    replies: list[Message | str] = [*(assistant("", calls=[call]) for call in calls), "done"]
    cascade = {
        "cascade_id": "build",
        "auto_context": {"profile": profile, "commit": "at_once"},
        "phases": [{"name": "build", "instructions": "Build.", "tackle": ["build"]}],
    }
    provider = Scripted(lambda _: replies.pop(0))
    windlass.run_sync(
        cascade,
        model="scripted/x",
        store=tmp_path / "store",
        root=tmp_path,
        tools=[build],
        providers={"scripted": provider},
    )
    results = [each for each in provider.requests[-1].messages if each.role == "tool"]
    assert len(results[0].text) < 600
    assert "caused by: EXCEPTION in main" in results[0].text
