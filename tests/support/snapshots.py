"""What commands print, whole, beside files that keep it: `pytest --snapshots` writes them anew."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "cli" / "snapshots"
_CHANGES: Final = (
    (re.compile(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+\d\d:\d\d)?\b"), "<time>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "<day>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{6}\b"), "<session>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"(?<=policy )[0-9a-f]{16}\b"), "<id>"),
    (re.compile(r"(?<=genai-prices )[\d.]+\b"), "<version>"),
    (re.compile(r"^note: prices and cache rules are as of .*\n", re.MULTILINE), ""),
    (re.compile(r"(?<![\d.,])\d+(\.\d+)? m?s\b"), "<n> s"),
)
"""What differs from run to run, and what stands for it."""


@dataclass(frozen=True)
class Snapshots:
    """Compares texts with the files that keep them, or writes those."""

    write: bool

    def check(self, name: str, text: str) -> None:
        """Compare a text with `snapshots/NAME.txt`, but for what changes from run to run."""
        kept = text
        for pattern, stand_in in _CHANGES:
            kept = pattern.sub(stand_in, kept)
        file = FOLDER / f"{name}.txt"
        if self.write:
            file.parent.mkdir(exist_ok=True)
            file.write_text(kept, encoding="utf-8")
        assert file.is_file(), f"no {file.name}: `pytest --snapshots` writes it"
        wanted = file.read_text(encoding="utf-8")
        lines = difflib.unified_diff(wanted.splitlines(), kept.splitlines(), "wanted", "printed")
        assert kept == wanted, "\n".join(lines)
