"""Named banks of what was remembered, kept in the store across sessions.

A bank is a history of its own, named `memory:NAME`, and so has what every history has: nothing
is changed, an acknowledged write survives a kill, `verify` proves it, `prune --session` removes
it. A key that is remembered again is a new version; what was forgotten or has expired is found
no more and stays readable as a version. Times are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.errors import StoreError, UsageError, did_you_mean
from windlass.history.base import (
    BANK,
    Batch,
    NodeType,
    Outcome,
    Row,
    SessionStart,
    Store,
    StoredRow,
)
from windlass.messages import user

CASCADE: Final = "memory"
"""The cascade id under which banks stand in the record."""

LONGEST_KEY: Final = 200
"""Characters of a key."""

MOST_CHARS: Final = 20_000
"""Characters of one memory: what is longer belongs into a file."""

_REMEMBERED: Final = "memory"
_FORGOTTEN: Final = "memory forgotten"


@dataclass(frozen=True, slots=True)
class Memory:
    """One version of what is remembered under a key of a bank.

    `version` counts from 1 within the key. `remembered` and `expires` are seconds since 1970
    (None: it never expires); `by` says where it was said. `forgotten`: this version and those
    before it were taken back.
    """

    bank: str
    key: str
    version: int
    text: str
    remembered: float
    expires: float | None = None
    by: str = ""
    forgotten: bool = False

    @property
    def reference(self) -> str:
        """What names this version: `bank/key@version`."""
        return f"{self.bank}/{self.key}@{self.version}"

    def holds(self, now: float) -> bool:
        """Whether it is in force at `now`, as far as it alone can tell."""
        return not self.forgotten and (self.expires is None or now < self.expires)


class Banks:
    """The banks of a store.

    `clock` gives seconds since 1970, `new_id` a fresh trace id. All verbs raise StoreError
    where the store fails.
    """

    def __init__(self, store: Store, clock: Callable[[], float], new_id: Callable[[], str]) -> None:
        self.store = store
        self.clock = clock
        self.new_id = new_id

    def remember(
        self, bank: str, text: str, *, key: str = "", expires: float | None = None, by: str = ""
    ) -> Memory:
        """Keep a text in a bank and return it as it stands there.

        Without a key it goes by the beginning of its hash, so that the same text twice is one
        memory. What is in force already in the same words and until the same time is not
        written again. Raises UsageError for an empty or too long text or key, and for a time
        that has passed.
        """
        now = self.clock()
        message = user(_checked_text(text))
        key = _checked_key(key) or message.content_hash
        if expires is not None and expires <= now:
            raise UsageError("it would have expired already: give a time that is still to come")
        before = self.versions(bank, key)
        if before and before[-1].holds(now):
            last = before[-1]
            if (last.text, last.expires) == (message.text, expires):
                return last
        metadata = {"kind": _REMEMBERED, "key": key, "expires": expires, "by": by}
        row = Row(NodeType.USER, self.new_id(), now, message, metadata=metadata)
        self._append(bank, row)
        # Read back: another process may have been quicker with the same key.
        (written,) = (
            one for one, trace in _versions(bank, self._rows(bank)) if trace == row.trace_id
        )
        return written

    def forget(self, bank: str, key: str, *, by: str = "") -> Memory:
        """Take back what is remembered under a key; returns the version that was in force.

        It stays readable as a version. Raises UsageError where nothing is in force under it.
        """
        known = {one.key: one for one in self.memories(bank)}
        if key not in known:
            self._must_exist(bank)
            raise UsageError(
                f"bank {bank!r} holds nothing under {key!r}; {did_you_mean(key, known)}"
            )
        text = f"forgotten: {key!r} (by {by})"
        metadata = {"kind": _FORGOTTEN, "key": key, "by": by, "text": text}
        row = Row(NodeType.DECISION, self.new_id(), self.clock(), metadata=metadata)
        self._append(bank, row)
        return known[key]

    def memories(self, bank: str) -> tuple[Memory, ...]:
        """What is in force in a bank now, oldest first: the newest version of each key."""
        now = self.clock()
        newest: dict[str, Memory] = {}
        for one, _ in _versions(bank, self._rows(bank)):
            newest.pop(one.key, None)
            newest[one.key] = one
        return tuple(one for one in newest.values() if one.holds(now))

    def versions(self, bank: str, key: str) -> tuple[Memory, ...]:
        """All that was ever remembered under a key, oldest first, also what is not in force."""
        return tuple(one for one, _ in _versions(bank, self._rows(bank)) if one.key == key)

    def names(self) -> tuple[str, ...]:
        """The banks there are, sorted."""
        found = (info.session_id for info in self.store.sessions())
        return tuple(sorted(name.removeprefix(BANK) for name in found if name.startswith(BANK)))

    def known(self, bank: str) -> bool:
        """Whether anything was ever remembered in a bank."""
        try:
            self.store.start(BANK + bank)
        except UsageError:
            return False
        return True

    def _must_exist(self, bank: str) -> None:
        if not self.known(bank):
            raise UsageError(f"there is no bank {bank!r}; {did_you_mean(bank, self.names())}")

    def _rows(self, bank: str) -> Iterable[StoredRow]:
        return self.store.rows(BANK + bank)

    def _append(self, bank: str, row: Row) -> None:
        if not self.known(bank):
            start = SessionStart(CASCADE, "", {}, {}, row.timestamp)
            done = Outcome("completed", row.timestamp)  # no run that could be going on
            # Another process may begin the same bank at this moment: then it is there.
            with suppress(StoreError):
                self.store.append(Batch(BANK + bank, start=start, outcomes=[done]))
        self.store.append(Batch(BANK + bank, rows=[row]))


def _versions(bank: str, rows: Iterable[StoredRow]) -> Sequence[tuple[Memory, str]]:
    """Every version in the order in which they were remembered, each with its trace."""
    found: list[tuple[Memory, str]] = []
    counts: dict[str, int] = {}
    forgotten: dict[str, int] = {}
    for stored in rows:
        row = stored.row
        told: Any = row.metadata
        if told.get("kind") == _FORGOTTEN:
            forgotten[told["key"]] = counts.get(told["key"], 0)
        elif told.get("kind") == _REMEMBERED and row.message is not None:
            key = told["key"]
            counts[key] = counts.get(key, 0) + 1
            expires, by = told.get("expires"), str(told.get("by", ""))
            said = (bank, key, counts[key], row.message.text, row.timestamp, expires, by)
            found.append((Memory(*said), row.trace_id))
    return [
        (replace(one, forgotten=one.version <= forgotten.get(one.key, 0)), trace)
        for one, trace in found
    ]


def _checked_text(text: str) -> str:
    if not text.strip():
        raise UsageError("there is nothing to remember: the text is empty")
    if len(text) > MOST_CHARS:
        raise UsageError(
            f"a memory has at most {MOST_CHARS:,} characters, not {len(text):,}: "
            "remember what matters of it, or write a file"
        )
    return text


def _checked_key(key: str) -> str:
    said = " ".join(key.split())
    if len(said) > LONGEST_KEY:
        raise UsageError(f"a key has at most {LONGEST_KEY} characters, not {len(said):,}")
    return said
