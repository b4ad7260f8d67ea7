"""A replacement has the shape of the result: one field is changed, the rest stays as it came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hooks_events import after, bash, output

from windlass_agents.agent_events import ToolEvent
from windlass_agents.agents import ClaudeCode
from windlass_agents.shapes import CLAUDE_CODE, SHAPES, Shape, shape_of

PERSISTED = {"persistedOutputPath": "/tmp/t/1.txt", "persistedOutputSize": 90_000}
READ = {
    "type": "text",
    "file": {
        "filePath": "/p/a.py",
        "content": "one\ntwo\nthree",
        "numLines": 3,
        "startLine": 1,
        "totalLines": 3,
    },
}
GREP = {
    "mode": "content",
    "numFiles": 0,
    "filenames": [],
    "content": "a.py:1:one\nb.py:2:two",
    "numLines": 2,
    "appliedLimit": 250,
}
FILES = {"filenames": ["a.py", "b.py"], "durationMs": 3, "numFiles": 2, "truncated": False}
BLOCKS = [{"type": "text", "text": "one\ntwo", "annotations": {"priority": 1}}]

KNOWN = (
    ("Bash", bash("one\ntwo", returnCodeInterpretation="ok"), ("stdout",)),
    ("Read", READ, ("file", "content")),
    ("Grep", GREP, ("content",)),
    ("Grep", {**FILES, "mode": "files_with_matches"}, ("filenames",)),
    ("Glob", FILES, ("filenames",)),
    ("mcp__db__query", "one\ntwo", ()),
    ("mcp__db__query", ["one", "two"], ()),
    ("mcp__db__query", BLOCKS, (0, "text")),
)
UNKNOWN = (
    ("Edit", {"filePath": "/a", "oldString": "a", "newString": "b", "structuredPatch": []}),
    ("Write", {"type": "create", "filePath": "/a", "content": "one"}),
    ("Read", {"type": "image", "file": {"base64": "aGk=", "type": "image/png"}}),
    ("Read", {"type": "text", "file": {"filePath": "/a"}}),
    ("Read", {"type": "file_unchanged", "file": {"filePath": "/a"}}),
    ("Task", {"status": "completed", "content": [{"type": "text", "text": "one"}]}),
    ("WebFetch", {"code": 200, "result": "one", "url": "http://localhost"}),
    ("Bash", "one"),
    ("Bash", bash("one", interrupted=True)),
    ("Bash", bash("data:image/png;base64,aGk=", isImage=True)),
    ("Bash", {"stdout": "one", "stderr": "", "interrupted": 0}),
    ("Bash", {"stdout": ["one"], "stderr": "", "interrupted": False}),
    ("Bash", {"stdout": "one", "interrupted": False}),
    ("Glob", {"filenames": [], "numFiles": 0}),
    ("Glob", {"filenames": ["a", 1], "numFiles": 2}),
    ("Glob", {"filenames": ["a"], "numFiles": True}),
    ("mcp__db__query", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    ("mcp__db__query", [{"type": "image", "data": "aGk="}]),
    ("mcp__db__query", {"rows": ["one"]}),
    ("mcp__db__query", None),
    ("Invented", ["one", "two"]),
    ("", 3),
)


def changes(old: Any, new: Any, *at: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where two values differ, types included."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if key in old and key in new:
                yield from changes(old[key], new[key], *at, key)
            else:
                yield (*at, key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) == 1:
        yield from changes(old[0], new[0], *at, 0)
    elif type(old) is not type(new) or old != new:
        yield at


def read(payload: dict[str, Any]) -> ToolEvent:
    event = ClaudeCode().read_event(payload)
    assert isinstance(event, ToolEvent)
    return event


def replaced(payload: dict[str, Any], text: str) -> Any:
    return output(json.loads(ClaudeCode().write_answer(payload, text)))


@pytest.mark.parametrize(("tool", "result", "field"), KNOWN)
def test_exactly_the_field_of_the_text_is_changed(
    tool: str, result: Any, field: tuple[str | int, ...]
) -> None:
    payload = after(result, tool=tool)
    assert read(payload).text
    new = replaced(payload, "short")
    assert list(changes(result, new)) == [field] or new == ["short"]
    assert read(after(new, tool=tool)).text == "short"


@pytest.mark.parametrize(("tool", "result"), UNKNOWN)
def test_an_unknown_shape_is_left_alone(tool: str, result: Any) -> None:
    payload = after(result, tool=tool)
    assert read(payload).text is None
    assert ClaudeCode().write_answer(payload, "short") == ""


def test_of_an_output_that_was_stored_the_beginning_counts_as_shown() -> None:
    assert read(after(bash("x" * 90_000, **PERSISTED))).shown_chars == 2_250
    assert read(after(bash("x" * 100, **PERSISTED))).shown_chars == 100
    assert read(after(bash("x" * 90_000))).shown_chars == 90_000


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
NEAR = st.sampled_from([result for _, result, _ in KNOWN] + [result for _, result in UNKNOWN])
TOOLS = st.sampled_from(["Bash", "Read", "Grep", "Glob", "mcp__a__b", "Edit", "Invented"])


@st.composite
def near_results(draw: st.DrawFn) -> Any:
    """A result of a known shape, with a value put in the place of one of its own."""
    result = json.loads(json.dumps(draw(NEAR)))
    if isinstance(result, dict):
        inner = draw(st.sampled_from([one for one in (result, result.get("file")) if one]))
        if isinstance(inner, dict):
            inner[draw(st.sampled_from(sorted(inner)) | st.text())] = draw(JSON)
    return result


@given(TOOLS, JSON | near_results(), st.text(min_size=1))
def test_any_result_stays_or_gets_another_text_alone(tool: str, result: Any, text: str) -> None:
    payload = after(result, tool=tool)
    answer = ClaudeCode().write_answer(payload, text)
    found = shape_of(CLAUDE_CODE, tool, result)
    if found is None:
        assert answer == ""
        return
    shape, _ = found
    new = output(json.loads(answer))
    assert type(new) is type(result)
    for at in changes(result, new):
        assert at[: len(shape.field)] == shape.field or at[0] in shape.removed
    assert shape.text_of(new) == text


@given(st.lists(st.text("ab", max_size=2), max_size=5), st.lists(st.text("ab", max_size=2)))
def test_lines_that_the_agent_numbers_stand_at_their_own_places(
    original: list[str], text: list[str]
) -> None:
    (numbered,) = (shape for shape in CLAUDE_CODE if shape.numbered)
    kept = text[:-1]
    own = all(at < len(original) and original[at] == line for at, line in enumerate(kept))
    given_lines = original or [""]
    if numbered.fits("\n".join(text), "\n".join(given_lines)):
        assert all(given_lines[at] == line for at, line in enumerate(kept))
    else:
        assert not own


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.agent}: {shape.name}")
def test_each_shape_says_since_when_and_where_it_was_tried(shape: Shape) -> None:
    assert shape.since or shape.agent == "opencode"  # since when is not known
    assert shape.tested
    assert shape.agent in {"claude-code", "codex", "opencode", "plain"}
