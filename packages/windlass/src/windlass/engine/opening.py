"""The one door to a session's recorder: who comes in holds the session first, and reads it then.

Whatever runs a session, or goes on with one, opens it here. Nobody else runs it meanwhile, in this
process or another one, and nobody prunes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from windlass.errors import StoreError, UsageError
from windlass.history.base import BANK, Store


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that this process holds, and whether the store has it already.

    Those under it are held with it.
    """

    store: Store
    session_id: str
    is_begun: bool


@contextmanager
def open_session(
    store: Store, name: str | None = None, *, begun: bool = False
) -> Iterator[OpenSession]:
    """Hold a session, and then look at what the store has of it.

    Args:
        store: Where it is.
        name: Its name (None: a new one, made of time and chance).
        begun: Whether it is there already; then the beginning of its name will do, or `latest`.

    Raises UsageError where it is not there although it must be, or the other way round, SessionHeld
    where somebody else runs it, and StoreError where a record that is to be gone on with was
    edited.
    """
    session_id = store.find_session(name or "") if begun else name or new_session_id()
    if not begun and session_id.startswith(BANK):
        raise UsageError(f"session {session_id!r}: names that begin with {BANK!r} are memory banks")
    with store.hold(session_id):
        if begun:
            check_unedited(store, session_id)
        elif name is not None and has_begun(store, session_id):
            raise _is_there(session_id)
        yield OpenSession(store, session_id, begun)


def open_under(store: Store, session_id: str, *, may_be_begun: bool) -> OpenSession:
    """Return a session under one that is held. Raises UsageError for one that must not be there."""
    is_begun = has_begun(store, session_id)
    if is_begun and not may_be_begun:
        raise _is_there(session_id)
    return OpenSession(store, session_id, is_begun)


def check_unedited(store: Store, session_id: str) -> None:
    """Raise StoreError where rows of a session, or of one under it, are not as they were written.

    Raises UsageError where there is none.
    """
    for changed in store.changed(session_id):
        raise StoreError(
            f"{changed.where} {changed.what}; nobody goes on with a record that was edited."
            " All that is wrong in the store: windlass verify"
        )


def has_begun(store: Store, session_id: str) -> bool:
    """Return whether a store has a session of just this name."""
    try:
        store.start(session_id)
    except UsageError:
        return False
    return True


def new_session_id() -> str:
    """Return a name for a session: the time in UTC, and chance."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def _is_there(session_id: str) -> UsageError:
    return UsageError(
        f"session {session_id!r} is in the store already; give the new one another name,"
        f" or look at it: windlass show {session_id}"
    )
