"""Named banks of what was remembered, kept in the store across sessions.

A bank is a history of its own, named `memory:NAME`, and so has what every history has: nothing
is changed, an acknowledged write survives a kill, `verify` proves it, `prune --session` removes
it. A key that is remembered again is a new version; what was forgotten or has expired is found
no more and stays readable as a version. Times are handed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

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
from windlass.history.marks import Forgotten, Remembered
from windlass.messages import user

CASCADE: Final = "memory"
"""The cascade id under which banks stand in the record."""

LONGEST_KEY: Final = 200
"""Characters of a key."""

MOST_CHARS: Final = 20_000
"""Characters of one memory: what is longer belongs into a file."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One version of what is remembered under a key of a bank."""

    bank: str
    key: str
    version: int
    """From 1 within the key."""
    text: str
    remembered: float
    """Seconds since 1970."""
    expires: float | None = None
    """Seconds since 1970 (None: it never expires)."""
    by: str = ""
    """Where it was said."""
    forgotten: bool = False
    """Whether this version and those before it were taken back."""

    @property
    def reference(self) -> str:
        """What names this version: `bank/key@version`."""
        return f"{self.bank}/{self.key}@{self.version}"

    @property
    def searched(self) -> str:
        """What it is found by: its words and those of its key."""
        return f"{self.key}\n{self.text}"

    def holds(self, now: float) -> bool:
        """Return whether it is in force at `now`, as far as it alone can tell."""
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
        row = Row(NodeType.USER, self.new_id(), now, message, details=Remembered(key, expires, by))
        self._append(bank, row)
        # Read back: another process may have been quicker with the same key.
        versions = _versions(bank, self._rows(bank))
        return next(memory for memory, trace in versions if trace == row.trace_id)

    def forget(self, bank: str, key: str, *, by: str = "") -> Memory:
        """Take back what is remembered under a key; returns the version that was in force.

        It stays readable as a version. Raises UsageError where nothing is in force under it.
        """
        memories = {memory.key: memory for memory in self.memories(bank)}
        if key not in memories:
            self._must_exist(bank)
            near = did_you_mean(key, memories)
            raise UsageError(f"bank {bank!r} holds nothing under {key!r}; {near}")
        text = f"forgotten: {key!r} (by {by})"
        row = Row(
            NodeType.DECISION, self.new_id(), self.clock(), text=text, details=Forgotten(key, by)
        )
        self._append(bank, row)
        return memories[key]

    def memories(self, bank: str) -> tuple[Memory, ...]:
        """Return what is in force in a bank now, oldest first: the newest version of each key."""
        now = self.clock()
        newest: dict[str, Memory] = {}
        for memory, _ in _versions(bank, self._rows(bank)):
            newest.pop(memory.key, None)
            newest[memory.key] = memory
        return tuple(memory for memory in newest.values() if memory.holds(now))

    def versions(self, bank: str, key: str) -> tuple[Memory, ...]:
        """All that was ever remembered under a key, oldest first, also what is not in force."""
        versions = _versions(bank, self._rows(bank))
        return tuple(memory for memory, _ in versions if memory.key == key)

    def names(self) -> tuple[str, ...]:
        """Return the banks there are, sorted."""
        sessions = (info.session_id for info in self.store.sessions())
        return tuple(sorted(name.removeprefix(BANK) for name in sessions if name.startswith(BANK)))

    def known(self, bank: str) -> bool:
        """Return whether anything was ever remembered in a bank."""
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
    """Return every version in the order in which they were remembered, each with its trace."""
    versions: list[tuple[Memory, str]] = []
    counts: dict[str, int] = {}
    forgotten: dict[str, int] = {}
    for stored in rows:
        row = stored.row
        if (gone := Forgotten.read(row)) is not None:
            forgotten[gone.key] = counts.get(gone.key, 0)
        elif (kept := Remembered.read(row)) is not None and row.message is not None:
            key, text, at = kept.key, row.message.text, row.timestamp
            counts[key] = counts.get(key, 0) + 1
            memory = Memory(bank, key, counts[key], text, at, kept.expires, kept.by)
            versions.append((memory, row.trace_id))
    return [
        (replace(memory, forgotten=memory.version <= forgotten.get(memory.key, 0)), trace)
        for memory, trace in versions
    ]


def check_memory(text: str, key: str) -> None:
    """Raise UsageError for a text or a key that no bank takes."""
    _checked_text(text)
    _checked_key(key)


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
    key = " ".join(key.split())
    if len(key) > LONGEST_KEY:
        raise UsageError(f"a key has at most {LONGEST_KEY} characters, not {len(key):,}")
    return key


# ---- when something expires, as people and models write it: an age from now, or a date in UTC ----

_AGE: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(s|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)", re.IGNORECASE
)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def expiry_of(expires: str, now: float) -> float | None:
    """Return the time in seconds since 1970; None where nothing is said.

    `expires` is an age such as `30d`, `12h`, `2 weeks`, or a date such as `2027-01-31` or
    `2027-01-31T12:00` (UTC unless it says otherwise). Raises UsageError for anything else.

    >>> expiry_of("2h", 1_000.0), expiry_of("1970-01-02", 0.0), expiry_of("", 0.0)
    (8200.0, 86400.0, None)
    """
    text = expires.strip()
    if not text or text.casefold() in {"never", "none"}:
        return None
    age = _AGE.fullmatch(text)
    if age is not None:
        return now + float(age[1]) * _SECONDS[age[2][0].casefold()]
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"expires {expires!r} must be an age such as '30d' or '12h', or a date such as "
            "'2027-01-31'"
        ) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def time_text(seconds: float) -> str:
    """Return a time for people, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
