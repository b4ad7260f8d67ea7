"""Reading, listing and writing files of the allowed folder. `paths.py` says which."""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from windlass.errors import ToolError
from windlass.messages import clean_text
from windlass.safety.files import UnreadableError, read_bytes
from windlass.safety.foreign import decode_text
from windlass.safety.own_files import replace
from windlass.text.pictures import picture
from windlass.tools import paths
from windlass.tools.base import ToolContext, ToolOutput
from windlass.tools.registry import tool

_MAX_LISTED: Final = 500
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@tool(reads=("path",), effects="none")
def read_file(
    context: ToolContext, path: str, start_line: int = 1, end_line: int | None = None
) -> ToolOutput:
    """Read a text file, or some of its lines; a picture is shown as a picture.

    Args:
        context: What the run provides.
        path: The file, relative to the allowed folder.
        start_line: The first line to read, counting from 1.
        end_line: The last line to read; all of them if left out.
    """
    real = paths.to_read(context, path)
    if real.is_dir():
        raise ToolError(f"{path!r} is a folder: use list_files")
    try:
        data = read_bytes(real)
    except UnreadableError as problem:
        raise ToolError(f"{path!r} {problem}") from problem
    try:
        image = dataclasses.replace(picture(data), name=real.name)
    except ValueError:
        return ToolOutput(_lines(_text(data, path), path, start_line, end_line))
    return ToolOutput(f"picture {image.describe()}", (image,))


def _text(data: bytes, path: str) -> str:
    if data.startswith(_UTF16):
        return data.decode("utf-16", "replace")
    text = None if b"\0" in data else decode_text(data.removeprefix(b"\xef\xbb\xbf"))
    if text is None:
        raise ToolError(f"{path!r} is neither text nor a picture ({len(data)} bytes)")
    return text


def _lines(text: str, path: str, start: int, end: int | None) -> str:
    if not text:
        return f"({path} is empty)"
    if start == 1 and end is None:
        return text
    # Only "\n" counts, as in editors: str.splitlines also cuts at form feeds.
    lines = text.removesuffix("\n").split("\n")
    last = len(lines) if end is None else min(end, len(lines))
    if not 1 <= start <= last:
        raise ToolError(f"{path!r} has lines 1 to {len(lines)}, not {start} to {end or 'the end'}")
    return "\n".join([*lines[start - 1 : last], f"({path}: lines {start}-{last} of {len(lines)})"])


@tool(reads=("folder",), effects="none")
def list_files(context: ToolContext, folder: str = ".", pattern: str = "*") -> str:
    """List the files of a folder with their sizes in bytes.

    Args:
        context: What the run provides.
        folder: The folder, relative to the allowed folder.
        pattern: Which names to list, like '*.csv'; '**/*.csv' looks into folders too.
    """
    real = paths.to_read(context, folder)
    if not real.is_dir():
        raise ToolError(f"{folder!r} is a file, not a folder: use read_file")
    lines: list[str] = []
    count = 0
    for entry in paths.walk(real) if "/" in pattern else _entries(real):
        relative = entry.relative_to(real).as_posix()
        # The added slash lets `**/` stand for no folder as well.
        if not (fnmatch(relative, pattern) or fnmatch(f"/{relative}", pattern.removeprefix("**"))):
            continue
        if not paths.may_read(context, entry.resolve()):
            continue  # of the store, only what this session may read is listed
        count += 1
        if count <= _MAX_LISTED:
            shown = paths.shown(context, real / relative)
            lines.append(f"{shown}/" if entry.is_dir() else f"{shown}  {entry.stat().st_size}")
    if not count:
        return f"no file in {folder!r} matches {pattern!r}"
    if count > _MAX_LISTED:
        lines.append(f"({count} files, the first {_MAX_LISTED} shown: give a narrower pattern)")
    return "\n".join(lines)


def _entries(folder: Path) -> list[Path]:
    """Files and folders directly in `folder`, without hidden names and links that lead out."""
    return [
        each
        for each in sorted(folder.iterdir())
        if not each.name.startswith(".")
        and each.exists()
        and (not each.is_symlink() or each.resolve().is_relative_to(folder))
    ]


@tool(writes=("path",), effects="idempotent")
def write_file(context: ToolContext, path: str, text: str) -> str:
    """Write a text file; a file that is already there is replaced.

    Args:
        context: What the run provides.
        path: The file, relative to the allowed folder; missing folders are made.
        text: The whole content.
    """
    real = paths.to_write(context, path)
    data = clean_text(text).encode()
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        replaced = real.exists()
        replace(real, [data])
    except OSError as problem:
        raise ToolError(f"cannot write {path!r}: {problem.strerror}") from problem
    verb = "replaced" if replaced else "wrote"
    return f"{verb} {paths.shown(context, real)} ({len(data)} bytes)"
