"""What the tools of the MCP server answer: originals, past sessions, memory banks, costs.

They read one store. Of sessions whose folder is known only those of the project are searched and
told; the others, and memory banks, belong to everybody who uses the store. What they give back is
text that was recorded, and nothing in it is followed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from windlass.api.opening import open_store
from windlass.caching.rates import many, money, override
from windlass.errors import UsageError
from windlass.history.base import SessionFilter, Store, in_words
from windlass.hooks._passages_found import PassageIndex, words_of_query
from windlass.hooks.kept_originals import excerpt, find_by_settings
from windlass.importing.storing import PROJECT, imported_from
from windlass.memory.association import searched
from windlass.memory.banks import Banks, Memory
from windlass.memory.matching import best_matches
from windlass.messages import user
from windlass.report.call_views import title_of
from windlass.report.costs import session_cost
from windlass.safety.escaping import escaped
from windlass.settings.settings import Settings
from windlass.window.originals import as_text, reference

MOST_CHARS: Final = 25_000
"""Characters of an answer, which are some 6,000 tokens."""
MOST_FOUND: Final = 50
"""Passages, and memories, that one search brings."""
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
        self._index = PassageIndex()
        self._folders: dict[str, str] = {}

    def close(self) -> None:
        """Let go of what was read. Nothing may be asked any more."""
        self._index.close()

    def recall(self, ref: str, grep: str = "", lines: str = "") -> str:
        """The original that a reference means, or the part that is asked for."""
        message = find_by_settings(self.settings, ref)
        return excerpt(escaped(as_text(message)), grep=grep, lines=lines, most=MOST_CHARS)

    def search(self, query: str, limit: int = 8) -> str:
        """The passages of sessions, and the memories, that belong to a query."""
        words = words_of_query(query)
        if not words:
            raise UsageError("there is nothing to look for: give some words")
        limit = min(max(limit, 1), MOST_FOUND)
        sessions, memories = 0, list[str]()
        with self._opened() as store:
            if store is not None:
                sessions = self._index.read(store, lambda name: self._is_meant(store, name))
                memories = _memories(store, query, limit)
        told = [each.told(words) for each in islice(self._index.found(query), limit)]
        of = "" if self.project is None else f" of {self.project}, or of a folder that is not known"
        parts = [f"searched: {many(sessions, 'session')}{of}"]
        if self._index.left_out:
            parts[0] += f"; {len(self._index.left_out):,} of them, older ones, not whole"
        parts.append("\n".join(["found, for recall:", *told]) if told else "no session says it")
        if memories:
            parts.append("\n".join(["in memory banks:", *memories]))
        return escaped("\n\n".join(parts))[:MOST_CHARS]

    def cost(self, session: str = "") -> str:
        """What a session cost (empty: the newest that is meant)."""
        with self._opened() as store:
            if store is None:
                raise UsageError("the store holds no session yet")
            name = store.find_session(session) if session else self._newest(store)
            if not self._is_meant(store, name):
                raise UsageError(f"session {name!r} is of another folder than {self.project}")
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

        from windlass.declared import Name

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
        self.settings.check_trust("store")
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

    def _newest(self, store: Store) -> str:
        for info in store.sessions(SessionFilter(banks=False, under=())):
            if self._is_meant(store, info.session_id):
                return info.session_id
        raise UsageError("the store holds no session of this folder yet")

    def _is_meant(self, store: Store, session: str) -> bool:
        if session not in self._folders:
            origin = imported_from(store.start(session).cascade)
            self._folders[session] = str(origin.get(PROJECT, ""))
        return self._is_inside(self._folders[session])

    def _is_inside(self, folder: str) -> bool:
        if not folder or self.project is None:
            return True
        return Path(folder).resolve().is_relative_to(self.project)


def _banks(store: Store) -> Banks:
    return Banks(store, time.time, lambda: secrets.token_hex(8))


def _memories(store: Store, query: str, limit: int) -> list[str]:
    """The memories that belong to a query, the best first."""
    banks = _banks(store)
    held = [memory for name in banks.names() for memory in banks.memories(name)]
    best = best_matches(query, {number: searched(memory) for number, memory in enumerate(held)})
    return [_memory_told(held[number]) for number in best[:limit]]


def _memory_told(memory: Memory) -> str:
    text = memory.text
    if len(text) > _MEMORY_SHOWN:
        text = f"{text[:_MEMORY_SHOWN]} [... the rest: recall {reference(user(memory.text))}]"
    return f"[{memory.reference}] {text}"
