"""Associative matching: what of files and banks belongs to a task.

The memory only matches: it returns what belongs to the task without rank or order, and leaves
the choosing to whoever asks. A failed look is tried once more; then it is an error of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windlass.errors import MatchingFailed, StoreError, UsageError, did_you_mean
from windlass.history.base import BANK
from windlass.memory.banks import Banks, Memory
from windlass.memory.matching import WordIndex
from windlass.memory.passages import Files, Passage

MOST_MATCHES: Final = 50
"""Matches of one task; where more would match, more of the task is asked of each."""

HEADINGS: Final[Mapping[str, str]] = {
    "task": "## Task",
    "inherited": "## Inherited context",
    "previous_outputs": "## Previous outputs",
    "fresh": "## Relevant material",
}
"""What stands above each section, unless the settings say otherwise."""

_FIELDS: Final = {
    "taskText": "task_text",
    "inheritedContext": "inherited_context",
    "previousOutputs": "previous_outputs",
}


@dataclass(frozen=True, slots=True)
class ContextGenerationInput:
    """What a task is matched by: its text, and what it has by inheritance and accumulation."""

    task_text: str
    inherited_context: str = ""
    previous_outputs: str = ""

    @classmethod
    def of(cls, given: ContextGenerationInput | Mapping[str, Any]) -> ContextGenerationInput:
        """Return the input out of an object with `taskText`, `inheritedContext`, `previousOutputs`.

        Raises UsageError for another key, a value that is no text, or no task.
        """
        if isinstance(given, Mapping):
            for key in given.keys() - _FIELDS.keys():
                raise UsageError(f"unknown key {key!r}; {did_you_mean(str(key), _FIELDS)}")
            texts = {_FIELDS[key]: value for key, value in given.items() if value is not None}
            for name, value in texts.items():
                if not isinstance(value, str):
                    raise UsageError(f"{name} must be text, not {value!r:.80}")
            given = cls(**{"task_text": "", **texts})
        if not given.task_text.strip():
            raise UsageError("taskText is empty: say what the task is")
        return given


@dataclass(frozen=True, slots=True)
class MemoryMatch:
    """Something that belongs to a task: where it is from, what names it there, what it says.

    `source` is a declared folder, or `memory:` and the name of a bank.
    """

    source: str
    reference: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class RelevantContext:
    """The context of a task in its standard sections, and the matches, which have no order.

    `unread` says what of the declared folders was not looked at, and why.
    """

    context: str
    matches: frozenset[MemoryMatch]
    unread: tuple[str, ...] = ()


class Associations:
    """An index of declared folders and of banks, kept up to date at each look.

    Args:
        banks: The store's banks; None where no bank is looked at.
        names: The banks that may be looked at.
        folders: The folders that may be looked at, and nothing else of the disk.
        closed: Folders inside them that are left alone.
        headings: What stands above the sections, by the keys of `HEADINGS`.
    """

    def __init__(
        self,
        banks: Banks | None = None,
        names: Sequence[str] = (),
        folders: Sequence[Path] = (),
        *,
        closed: Sequence[Path] = (),
        headings: Mapping[str, str] | None = None,
    ) -> None:
        self._banks = banks
        self._names = tuple(names) if banks is not None else ()
        self._folders, self._closed = tuple(folders), tuple(closed)
        self._headings = {**HEADINGS, **(headings or {})}
        self._start_anew()

    def _start_anew(self) -> None:
        """Forget what the index holds: after a failure nobody knows how far it came."""
        self._index = WordIndex[Passage | Memory](lambda entry: entry.searched)
        self._files = Files(self._folders, self._closed)
        self._numbers: dict[Passage | Memory, int] = {}

    def close(self) -> None:
        """Let the index go."""
        self._index.close()

    def get_relevant_context_for(
        self, given: ContextGenerationInput | Mapping[str, Any]
    ) -> RelevantContext:
        """Return what belongs to a task, in standard sections, and as matches without order.

        What the task already has, by inheritance or accumulation, is not brought again.
        Raises UsageError for what the caller wrote, and MatchingFailed where the banks or the
        files could not be read, also not at a second try.
        """
        request = ContextGenerationInput.of(given)
        try:
            entries = self._matching(request)
        except (OSError, StoreError, sqlite3.Error):
            self._index.close()
            self._start_anew()
            try:
                entries = self._matching(request)
            except (OSError, StoreError, sqlite3.Error) as error:
                raise MatchingFailed(
                    f"the memory could not be searched, also not at a second try: {error}"
                ) from error
        has = _plain(f"{request.inherited_context}\n{request.previous_outputs}")
        matches = frozenset(
            entry for entry in map(_match, entries) if _plain(entry.excerpt) not in has
        )
        return RelevantContext(self._sections(request, matches), matches, self._files.unread)

    def _matching(self, request: ContextGenerationInput) -> list[Passage | Memory]:
        self._refresh()
        beside = f"{request.inherited_context}\n{request.previous_outputs}"
        return self._index.match(request.task_text, beside=beside, most=MOST_MATCHES)

    def _refresh(self) -> None:
        """Bring the index up to date with the files and the banks."""
        memories: set[Passage | Memory] = set()
        if self._banks is not None:
            memories.update(*map(self._banks.memories, self._names))
        came, gone = self._files.look()
        stale: list[Passage | Memory] = list(gone)
        stale += [
            entry for entry in self._numbers if isinstance(entry, Memory) and entry not in memories
        ]
        fresh: list[Passage | Memory] = list(came)
        fresh += [entry for entry in memories if entry not in self._numbers]
        for old in stale:
            self._index.remove(self._numbers.pop(old))
        for new in fresh:
            self._numbers[new] = self._index.add(new)

    def _sections(self, request: ContextGenerationInput, matches: Iterable[MemoryMatch]) -> str:
        # Sorted by what names them, so that the same matches give the same text.
        listed = sorted(matches, key=lambda entry: (entry.source, entry.reference))
        fresh = "\n\n".join(f"[{entry.reference}]\n{entry.excerpt}" for entry in listed)
        texts = {
            "task": request.task_text,
            "inherited": request.inherited_context,
            "previous_outputs": request.previous_outputs,
            "fresh": fresh,
        }
        return "\n\n".join(
            f"{self._headings[name]}\n{text.strip()}"
            for name, text in texts.items()
            if text.strip()
        )


def _match(entry: Passage | Memory) -> MemoryMatch:
    if isinstance(entry, Passage):
        return MemoryMatch(entry.folder, entry.reference, entry.text)
    return MemoryMatch(BANK + entry.bank, entry.reference, entry.text)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
