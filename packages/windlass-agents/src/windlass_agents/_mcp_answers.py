"""What the tools of the MCP server answer: originals, past sessions, memory banks, costs.

They read one store. Of sessions whose folder is known only those of the project are searched and
told; the others, and memory banks, belong to everybody who uses the store. What they give back is
text that was recorded, and nothing in it is followed.

The search over past sessions: which passages say most of a query.

An index in memory is made when it is first asked, newest sessions first, and grows with the store.
A message that stands in several sessions is one.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from windlass.public import (
    BORN,
    LATEST,
    PROJECT,
    Banks,
    Memory,
    Message,
    SessionFilter,
    SessionInfo,
    Settings,
    Store,
    StoreError,
    UsageError,
    WindlassError,
    WordIndex,
    as_text,
    best_matches,
    check_store,
    escaped,
    imported_from,
    in_words,
    many,
    money,
    open_store,
    override,
    reference,
    session_cost,
    split_text,
    title_of,
    user,
)
from windlass_agents.hook_journal import HookJournal
from windlass_agents.kept_compactions import compactions_in
from windlass_agents.kept_originals import (
    UnknownReference,
    excerpt,
    find_among,
    find_by_settings,
    open_folder,
    original_text,
)
from windlass_agents.project_stores import folders_of, stores_around

MOST_CHARS: Final = 25_000
"""Characters of an answer, which are some 6,000 tokens."""
MOST_FOUND: Final = 50
"""Passages, and memories, that one search brings."""
_FEW: Final = 5
"""Sessions that a message about an ambiguous name lists."""
_MEMORY_SHOWN: Final = 400
"""Characters of a memory that a search shows; `recall` brings back the whole."""


class ToolAnswers:
    """What the tools answer. Each method raises WindlassError with one sentence.

    Args:
        settings: Where the store is, and prices.
        project: The folder whose sessions are meant, and its folders' (None: all of the store).
    """

    def __init__(self, settings: Settings, project: Path | None) -> None:
        self.settings = settings
        self.project = None if project is None else project.resolve()
        trees = () if self.project is None else folders_of(self.project)
        self._folders_meant = tuple(folder.resolve() for folder in trees)
        self._index = PassageIndex()
        self._folders: dict[str, str] = {}

    def close(self) -> None:
        """Let go of what was read. Nothing may be asked any more."""
        self._index.close()

    def recall(self, ref: str, grep: str = "", lines: str = "") -> str:
        """Return the original that a reference means, or the part that is asked for.

        A path may follow the reference, as it stands in a window.
        """
        ref, _, path = ref.strip().partition(" ")
        message = self._find(ref)
        # Ends of lines stay as they are: an agent may edit a file by what it reads.
        text = "\r\n".join(map(escaped, original_text(message, path.strip()).split("\r\n")))
        return excerpt(text, grep=grep, lines=lines, most=MOST_CHARS)

    def search(self, query: str, limit: int = 8) -> str:
        """Return the passages of sessions, and the memories, that belong to a query."""
        words = words_of_query(query)
        if not words:
            raise UsageError("there is nothing to look for: give some words")
        limit = min(max(limit, 1), MOST_FOUND)
        sessions, memories = 0, list[str]()
        with self._opened() as store:
            if store is not None:
                sessions = self._index.read(store, lambda name: self._is_meant(store, name))
                memories = _memories(store, query, limit)
        told = [each.line(words) for each in self._index.search(query)[:limit]]
        of = "" if self.project is None else f" of {self.project}, or of a folder that is not known"
        parts = [f"searched: {many(sessions, 'session')}{of}"]
        if self._index.left_out:
            parts[0] += f"; {len(self._index.left_out):,} of them, older ones, not whole"
        parts.append("\n".join(["found, for recall:", *told]) if told else "no session says it")
        if memories:
            parts.append("\n".join(["in memory banks:", *memories]))
        return escaped("\n\n".join(parts))[:MOST_CHARS]

    def cost(self, session: str = "") -> str:
        """Return what a session cost (empty: the newest that is meant)."""
        with self._opened() as store:
            if store is None:
                raise UsageError("the store holds no session yet")
            name = self._named(store, session) if session else self._newest(store)
            with override(self.settings.prices):
                costs = session_cost(store, name, self.settings.price_as)
            title = title_of(store, name)
        total = costs.total
        tokens = f"{total.tokens_in:,} tokens in, {total.tokens_cached:,} of them from the cache"
        everything = f"; sending everything: {money(total.snowball_dollars)}"
        prices = sorted(set(costs.priced_as.values()))
        return escaped(
            f"session {name} ({title}): {in_words(costs.status, costs.reason)}\n"
            f"{many(total.calls, 'call')}, {tokens}, {total.tokens_out:,} out\n"
            f"{'billed' if costs.billed else 'would have cost'}: {money(total.dollars)} at the"
            f" prices of {', '.join(prices)}{'' if costs.is_everything else everything}"
        )

    def remember(self, bank: str, key: str, text: str) -> str:
        """Keep a text in a memory bank, under a key."""
        from pydantic import TypeAdapter, ValidationError

        from windlass.public import Name

        try:
            TypeAdapter[str](Name).validate_python(bank)
        except ValidationError as error:
            raise UsageError(
                f"bank {bank[:80]!r} must be a name of at most 100 characters, without a dot in"
                ' front and without any of / \\ < > : " | ? *'
            ) from error
        with open_store(self.settings, writing=True) as store:
            kept = _banks(store).remember(bank, text, key=key, by="an agent, through MCP")
        return f"remembered as {kept.key!r} in bank {kept.bank!r}, version {kept.version}"

    @contextmanager
    def _opened(self) -> Iterator[Store | None]:
        """The store (None: there is none yet); what it has lost does not end an answer."""
        check_store(self.settings)
        try:
            store = open_store(self.settings, existing=True)
        except UsageError:
            if not isinstance(self.settings.store, Path):
                raise
            yield None
            return
        with store:
            store.mark_lost(lambda _: None)
            yield store

    def _find(self, ref: str) -> Message:
        """Return the message that a reference means, of the project.

        Its hooks may keep it in the store of another working tree.
        """
        reason: WindlassError | None = None
        try:
            message = find_by_settings(self.settings, ref)
            with self._opened() as store:
                if self._is_of_project(store, message):
                    return message
        except (UnknownReference, StoreError) as error:
            reason = error
        for folder in () if self.project is None else stores_around(self.project):
            original = find_among([folder], ref)
            if original is not None and self._is_of_project_in(folder, original):
                return original
        raise reason or UnknownReference(
            f"the reference {ref[:80]!r} is of another folder than {self.project}"
        )

    def _is_of_project_in(self, folder: Path, message: Message) -> bool:
        """Return `_is_of_project` in a folder, which may have no store."""
        try:
            opened = open_folder(folder, reading=True)
        except UsageError:
            return self._is_of_hooks(folder, message)
        with opened as store:
            return self._is_of_project(store, message)

    def _is_of_project(self, store: Store | None, message: Message) -> bool:
        """Return whether a message may be told: nobody knows that it is of other folders alone."""
        if store is None:
            place = self.settings.store
            return not isinstance(place, Path) or self._is_of_hooks(place, message)
        sql = "SELECT DISTINCT session_id FROM unified_logs WHERE content_hash = ?"
        rows = store.query(sql, [message.content_hash])
        sessions = [str(row["session_id"]) for row in rows]
        if any(self._is_meant(store, name) for name in sessions):
            return True
        return self._is_of_hooks(store.folder, message, unknown=not sessions)

    def _is_of_hooks(self, folder: Path, message: Message, *, unknown: bool = True) -> bool:
        """Return the same of what hooks noted; `unknown`: the answer where they noted nothing."""
        name = message.content_hash
        folders = [line.folder for line in HookJournal(folder).lines_naming(name)]
        folders += [one.folder for one in compactions_in(folder) if name in one.folded]
        return any(map(self._is_inside, folders)) if folders else unknown

    def _named(self, store: Store, name: str) -> str:
        """Return the session of the project that a name means, or its beginning.

        Raises UsageError.
        """
        if name == LATEST:
            return self._newest(store)
        listed = store.sessions(SessionFilter(prefix=name, banks=False))
        ids = [info.session_id for info in listed]
        own = [each for each in ids if self._is_meant(store, each)]
        if name in own or len(own) == 1:
            return name if name in own else own[0]
        if own:
            several = ", ".join(own[:_FEW])
            raise UsageError(f"{name[:80]!r} is the beginning of several sessions: {several}")
        if name in ids:
            raise UsageError(f"session {name!r} is of another folder than {self.project}")
        raise UsageError(f"there is no session {name[:80]!r} of this folder")

    def _newest(self, store: Store) -> str:
        for info in store.sessions(SessionFilter(banks=False, under=())):
            if self._is_meant(store, info.session_id):
                return info.session_id
        raise UsageError("the store holds no session of this folder yet")

    def _is_meant(self, store: Store, session: str) -> bool:
        if session not in self._folders:
            self._folders[session] = _folder_of(store, session)
        return self._is_inside(self._folders[session])

    def _is_inside(self, folder: str) -> bool:
        if not folder or self.project is None:
            return True
        place = Path(folder).resolve()
        return any(place.is_relative_to(each) for each in self._folders_meant)


def _folder_of(store: Store, session: str) -> str:
    """Return the folder in which a session, or one above it, worked (empty: nobody knows)."""
    above: str | None = session
    while above is not None:
        start = store.start(above)
        if folder := imported_from(start.cascade).get(PROJECT):
            return str(folder)
        above = start.parent_id
    return ""


def _banks(store: Store) -> Banks:
    return Banks(store, time.time, lambda: secrets.token_hex(8))


def _memories(store: Store, query: str, limit: int) -> list[str]:
    """Return the memories that belong to a query, the best first."""
    banks = _banks(store)
    held = [memory for name in banks.names() for memory in banks.memories(name)]
    best = best_matches(query, held, lambda memory: memory.searched)
    return [_memory_told(memory) for memory in best[:limit]]


def _memory_told(memory: Memory) -> str:
    text = memory.text
    if len(text) > _MEMORY_SHOWN:
        text = f"{text[:_MEMORY_SHOWN]} [... the rest: recall {reference(user(memory.text))}]"
    return f"[{memory.reference}] {text}"


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
