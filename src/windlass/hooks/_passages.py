"""The search over past sessions: which passages say most of a query.

An index in memory is made when it is first asked, newest sessions first, and grows with the store.
A message that stands in several sessions is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from windlass.history.base import BORN, SessionFilter, SessionInfo, Store
from windlass.memory.matching import WordIndex
from windlass.memory.passages import split_text
from windlass.messages import Message
from windlass.window.originals import as_text, reference

ALL_CHARS: Final = 20_000_000
"""Characters of messages that are searched: the newest."""
_SHOWN: Final = 240
"""Characters of a passage that are shown."""


@dataclass(frozen=True, slots=True)
class SessionPassage:
    """A piece of a message: what brings it back, its lines (from 1), and what it says."""

    reference: str
    first: int
    last: int
    said_by: str
    """The tool, or the role, that said it."""
    session: str
    text: str

    def line(self, words: frozenset[str]) -> str:
        """Write it in one line, with what has most of some words."""
        shown = " ".join(_around(self.text, words).split())
        where = f"{self.reference} lines {self.first}:{self.last}"
        return f"[{where}] {self.said_by}, session {self.session}: {shown}"


@dataclass(slots=True)
class PassageIndex:
    """What was read of a store."""

    left_out: set[str] = field(default_factory=set[str])
    """Sessions that are not read whole: there was no room for them."""
    _words: WordIndex[SessionPassage] = field(
        default_factory=lambda: WordIndex(lambda passage: passage.text)
    )
    _known: set[str] = field(default_factory=set[str])
    """The keys of the messages that were read."""
    _sessions: dict[str, SessionInfo] = field(default_factory=dict[str, SessionInfo])
    _room: int = ALL_CHARS

    def close(self) -> None:
        """Let the index go."""
        self._words.close()

    def read(self, store: Store, is_meant: Callable[[str], bool]) -> int:
        """Read what is new in the sessions that are meant; how many there are."""
        every = store.sessions(SessionFilter(banks=False))
        meant = [info for info in every if is_meant(info.session_id)]
        are_gone = not self._sessions.keys() <= {info.session_id for info in meant}
        fresh = [info for info in meant if self._sessions.get(info.session_id) != info]
        if are_gone or (fresh and self._room <= 0):
            self.close()
            self.__init__()  # type: ignore[misc]
            fresh = meant
        # What the newest session says next finds room, and not all is read again for it.
        least = 0 if self._sessions else ALL_CHARS // 5
        for info in fresh:
            tools: dict[str | None, str] = {}
            for stored in store.rows(info.session_id) if self._room > least else ():
                message = stored.row.message
                if stored.row.node_type in BORN and message is not None:
                    tools |= {call.id: call.name for call in message.tool_calls}
                    who = message.name or tools.get(message.tool_call_id) or message.role
                    self._add(message, who, info.session_id)
            self._sessions[info.session_id] = info
            if self._room <= least:
                self.left_out.add(info.session_id)
        return len(meant)

    def _add(self, message: Message, who: str, session: str) -> None:
        """Add a message, if there is room and it is new."""
        if self._room <= 0 or message.key in self._known:
            return
        self._known.add(message.key)
        text = as_text(message)[: self._room]
        self._room -= len(text)
        ref = reference(message)
        for line, part in split_text(text):
            last = line + part.count("\n")
            self._words.add(SessionPassage(ref, line, last, who, session, part))

    def search(self, query: str) -> list[SessionPassage]:
        """Return the passages that belong to a query, the best first; of equal ones the newest."""
        return self._words.best(query)


def words_of_query(query: str) -> frozenset[str]:
    """Return the words of a query, folded."""
    return frozenset(re.findall(r"\w+", query.casefold()))


def _around(text: str, words: frozenset[str]) -> str:
    """Return the part of a passage around its line with most of these words."""
    lines = text.split("\n")
    folded = [line.casefold() for line in lines]
    counts = [sum(word in line for word in words) for line in folded]
    best = counts.index(max(counts))
    ats = [at for word in words if (at := folded[best].find(word)) >= 0]
    begin = max(0, min(ats, default=0) - _SHOWN // 2)
    shown = lines[best][begin:]
    return "\n".join([shown, *lines[best + 1 :]])[:_SHOWN]
