"""The shapes in which agents hand over the results of tools, as data.

An agent takes a replacement only in the shape in which it gave the result, and drops any other
without a word. So one field is changed, and the rest stays as it came. A shape that is not here is
left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of a result.

    Args:
        name: What it is, in words.
        tools: The names of the tools that have it; a `*` at the end stands for anything.
        agent: Whose adapter knows it.
        since: The first version of the agent that takes a replacement in this shape (empty: not
            known).
        tested: The versions in which that was tried.
        field: The keys that lead to the text (none: the result is the text). A list of texts
            stands for its lines; in a list of blocks the only text is meant.
        has: Values that the result must have.
        typed: Keys whose values must be of these types.
        unless: Keys that say, where they are true, that the text is no text: a picture.
        removed: Keys that a replacement must not have.
        truncated: The key that names the file of the whole result, where the agent shows the
            beginning alone, and how many characters of it.
        numbered: Whether the agent puts numbers before the lines.
    """

    name: str
    tools: tuple[str, ...]
    agent: str
    since: str
    tested: tuple[str, ...]
    field: tuple[str, ...] = ()
    has: Mapping[str, Any] | None = None
    typed: Mapping[str, type] | None = None
    unless: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    truncated: tuple[str, int] | None = None
    numbered: bool = False

    def has_tool(self, tool: str) -> bool:
        """Return whether a tool's results may have this shape."""
        return any(
            tool.startswith(name[:-1]) if name.endswith("*") else tool == name
            for name in self.tools
        )

    def text_of(self, result: object) -> str | None:
        """Return the text of a result of this shape (None: it has another one)."""
        if self.field or self.has or self.typed:
            if not isinstance(result, Mapping):
                return None
            if any(result.get(key) != value for key, value in (self.has or {}).items()):
                return None
            if any(type(result.get(key)) is not kind for key, kind in (self.typed or {}).items()):
                return None
            if any(result.get(key) for key in self.unless):
                return None
        value: object = result
        for key in self.field:
            value = value.get(key) if isinstance(value, Mapping) else None
        return _text(value)

    def with_text(self, result: object, text: str) -> object:
        """Return a result of this shape that says something else."""
        return _put(result, self.field, text, self.removed)

    def shown_chars(self, result: object, text: str) -> int:
        """Return the characters that the agent itself would show of the text."""
        if self.truncated is not None and isinstance(result, Mapping):
            key, most = self.truncated
            if result.get(key):
                return min(len(text), most)
        return len(text)

    def stored(self, result: object) -> str:
        """Return the file in which the agent stored the whole result (empty: the text is whole)."""
        if self.truncated is None or not isinstance(result, Mapping):
            return ""
        return str(result.get(self.truncated[0]) or "")

    def fits(self, text: str, original: str) -> bool:
        """Return whether a text may stand in the place of an original.

        Where the agent numbers the lines, each line but the last must stand at its own place.
        """
        if not self.numbered:
            return True
        *lines, _ = text.split("\n")
        return lines == original.split("\n")[: len(lines)]


_TRIED: Final = ("2.1.121", "2.1.197", "2.1.330", "2.1.331")

CLAUDE_CODE: Final = (
    Shape(
        "output of a command",
        ("Bash",),
        "claude-code",
        "2.1.121",
        _TRIED,
        ("stdout",),
        typed={"stdout": str, "stderr": str, "interrupted": bool},
        has={"interrupted": False},
        unless=("isImage",),
        removed=("persistedOutputPath", "persistedOutputSize"),
        truncated=("persistedOutputPath", 2_250),
    ),
    Shape(
        "text of a file",
        ("Read",),
        "claude-code",
        "2.1.121",
        _TRIED,
        ("file", "content"),
        has={"type": "text"},
        numbered=True,
    ),
    Shape(
        "lines that match",
        ("Grep",),
        "claude-code",
        "2.1.121",
        _TRIED,
        ("content",),
        has={"mode": "content"},
        typed={"content": str, "filenames": list},
    ),
    Shape(
        "names of files",
        ("Glob", "Grep"),
        "claude-code",
        "2.1.121",
        _TRIED,
        ("filenames",),
        typed={"filenames": list, "numFiles": int},
    ),
    Shape("a text, or one block of text", ("mcp__*",), "claude-code", "2.1.121", _TRIED),
)
"""Claude Code. Edit, Write, agents, pictures and the rest have no text that may be shortened."""

CODEX: Final = (
    Shape(
        "the only block of text",
        ("mcp__*",),
        "codex",
        "0.124.0",
        ("0.171.0",),
        ("content",),
        typed={"content": list},
        unless=("isError", "structuredContent"),
    ),
    Shape("a text", ("*",), "codex", "0.124.0", ("0.171.0",)),
)
"""Codex."""
OPENCODE: Final = (
    Shape("a text", ("*",), "opencode", "", ("1.18.33",), ("output",), typed={"output": str}),
)
PLAIN: Final = (Shape("a text", ("*",), "plain", "1", ("1",)),)

SHAPES: Final = (*CLAUDE_CODE, *CODEX, *OPENCODE, *PLAIN)
"""All that are known."""


def shape_of(shapes: tuple[Shape, ...], tool: str, result: object) -> tuple[Shape, str] | None:
    """Return the first shape that a tool's result has, and its text (None: none is known)."""
    for shape in shapes:
        if shape.has_tool(tool) and (text := shape.text_of(result)) is not None:
            return shape, text
    return None


def text_of_content(content: object) -> str | None:
    """Return the text of a result as the messages API has it (None: it has none).

    What is no text, such as a picture, stays beside it; several texts count as one.
    """
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [one["text"] for one in blocks if _is_text(one)]
    return "\n".join(texts) if texts else None


def _is_text(block: object) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case _:
            return False


def _text(value: object) -> str | None:
    match value:
        case str():
            return value
        case [*names] if names and all(isinstance(name, str) for name in names):
            return "\n".join(map(str, names))
        case [{"text": str(text)}]:
            return text
        case _:
            return None


def _put(value: object, field: tuple[str, ...], text: str, removed: tuple[str, ...]) -> object:
    if field and isinstance(value, Mapping):
        key, *rest = field
        kept = {name: each for name, each in value.items() if name not in removed}
        return kept | {key: _put(value[key], tuple(rest), text, ())}
    match value:
        case [Mapping() as block]:
            return [{**block, "text": text}]
        case [*_]:
            return text.split("\n")
        case _:
            return text
