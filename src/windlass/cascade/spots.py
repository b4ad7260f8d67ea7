"""Where in its file something of a cascade stands, for what is said of it."""

from __future__ import annotations

from typing import Any

from windlass.cascade import sentences
from windlass.cascade.draft import Draft, at
from windlass.cascade.load import Loaded
from windlass.cascade.origin import Path
from windlass.errors import Mistake


class Spots:
    """The places of one cascade: its draft, and the data behind it."""

    def __init__(self, loaded: Loaded, draft: Draft) -> None:
        self.loaded = loaded
        self.draft = draft
        self.cascade = draft.cascade

    def mistake(self, path: Path, text: str, line: int | None = None) -> Mistake:
        """What is said of the value at `path`; `line` where it is another than the value's."""
        path = self.draft.original(path)
        place = sentences.where(path, self.loaded.data)
        line = self.loaded.reading.line(path) if line is None else line
        return Mistake(self.loaded.file, line, f"{place}: {text}" if place else text)

    def in_template(self, path: Path, template: str, line: int, text: str) -> Mistake:
        """What is said of a line of the template at `path`; lines count from 1."""
        block = self.loaded.reading.blocks.get(self.draft.original(path))
        if block is not None:
            return self.mistake(path, text, block + line)
        within = f" (line {line} of the text)" if "\n" in template.strip() else ""
        return self.mistake(path, text + within)

    def written(self, path: Path) -> Any:
        """What the file says at `path`; None where it says nothing."""
        return at(self.loaded.data, self.draft.original(path))
