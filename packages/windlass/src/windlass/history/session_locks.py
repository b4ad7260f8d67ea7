"""Who runs a session: one process at a time, from before it reads the record to its last row.

A process holds a session by a lock on a file in the store's folder. The system takes the lock away
when the process ends, however it ends; the file of one that was killed stays and tells of it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from windlass.errors import SessionHeld, StoreError
from windlass.history.base import (
    Holder,
    Open,
    Outcome,
    Reason,
    SessionInfo,
    Status,
    status_by_record,
)
from windlass.history.packing import path_part, text
from windlass.safety.foreign import parse_json
from windlass.safety.own_files import make_folder, open_own

try:
    import fcntl
except ImportError:  # another system: two runs at once are not told apart there
    fcntl = None  # type: ignore[assignment]

_TRIES: Final = 6
_PAUSE_S: Final = 0.01
"""Who looks whether a session is held has its lock for a moment, too."""
_MOST_BYTES: Final = 4_096

_HANDLES: Final[set[int]] = set()
"""The locked files of this process."""


def _let_go() -> None:
    """Close the files that a fork copied: its parent alone runs the sessions."""
    for handle in _HANDLES:
        with suppress(OSError):
            os.close(handle)
    _HANDLES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True, slots=True)
class HeldSessions:
    """Who holds which sessions, those under others among them."""

    holders: dict[str, Holder] = field(default_factory=dict[str, Holder])

    def named(self, state: Open) -> list[str]:
        """Return the sessions that stand so."""
        return [text(name) for name, each in self.holders.items() if each.state == state]

    def with_status(self, info: SessionInfo) -> SessionInfo:
        """Return a listed session as it stands, by what its record says."""
        status, reason = cast("Status", info.status), cast("Reason | None", info.reason)
        ended = Outcome(status, info.ended or 0.0, error=info.error, reason=reason)
        stands = status_by_record(ended if status else None, self.holders.get(info.session_id))
        return replace(
            info,
            status=stands.status,
            reason=stands.reason,
            error=stands.error,
            ended=info.ended if stands.status == status else None,
        )


class SessionLocks:
    """The locks of the sessions of the store in `store`, and who holds them on this machine."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._folder = store / "running"

    def file(self, session_id: str) -> Path:
        """Return the file that whoever runs a session has locked."""
        return self._folder / path_part(session_id)

    @contextmanager
    def hold(self, session_id: str) -> Iterator[None]:
        """Keep all others on this machine from running a session.

        Waits until nobody prunes. Raises SessionHeld where somebody runs it, and StoreError where
        the folder cannot be written.
        """
        if fcntl is None:
            yield
            return
        file, process = self.file(session_id), os.getpid()
        try:
            make_folder(self._folder, self._store)
            handle = self._locked(file, session_id)
        except OSError as error:
            raise StoreError(
                f"{str(file)!r} cannot be written or locked: {error.strerror}"
            ) from error
        try:
            with self._gate(fcntl.LOCK_SH):
                pass
            yield
        finally:
            if os.getpid() == process:  # and no fork of it
                with suppress(OSError):
                    file.unlink()
                _close(handle)

    def _locked(self, file: Path, session_id: str) -> int:
        told = ""
        for _ in range(_TRIES):
            handle = open_own(file)
            _HANDLES.add(handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever held it may have ended and taken the file away since it was opened.
                if _is_at(handle, file):
                    os.ftruncate(handle, 0)
                    os.write(handle, _told(session_id))
                    return handle
                _close(handle)
            except BlockingIOError:
                told = str(_read(handle).get("process", ""))
                _close(handle)
                time.sleep(_PAUSE_S)
            except BaseException:
                _close(handle)
                raise
        raise SessionHeld(session_id, told)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Meanwhile nobody on this machine begins to run a session; those that run go on."""
        if fcntl is None or not self._folder.is_dir():
            yield
            return
        with self._gate(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _gate(self, how: int) -> Iterator[None]:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)

    def holders(self) -> Mapping[str, Holder]:
        """Who holds which session, and which sessions were left by a process that was killed."""
        found = dict[str, Holder]()
        if fcntl is not None and self._folder.is_dir():
            for entry in sorted(self._folder.iterdir()):
                told, is_held = look_at(entry)
                if isinstance(name := told.get("session"), str):
                    process = str(told.get("process", ""))
                    found[name] = Holder("running" if is_held else "broken off", process)
        return found

    def forget(self, session_id: str) -> None:
        """Remove what a process that was killed left of a session."""
        with suppress(SessionHeld), self.hold(session_id):
            pass


def machine_name() -> str:
    """Give the name of this machine, and behind a slash what tells it from others of that name."""
    own = ""
    with suppress(OSError):
        own = Path("/etc/machine-id").read_text(encoding="utf-8", errors="replace").strip()
    return f"{platform.node()}/{own}"


def look_at(file: Path) -> tuple[Mapping[str, Any], bool]:
    """Return what a locked file says, and whether somebody holds it; ({}, False): there is none."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}, False
    try:
        told = _read(handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return told, True
    except OSError:
        return {}, False
    else:
        return told, False
    finally:
        os.close(handle)


def _close(handle: int) -> None:
    _HANDLES.discard(handle)
    os.close(handle)


def _told(session_id: str) -> bytes:
    return json.dumps({"process": os.getpid(), "session": text(session_id)}).encode("ascii")


def _read(handle: int) -> Mapping[str, Any]:
    try:
        told = parse_json(os.pread(handle, _MOST_BYTES, 0))
    except ValueError:  # it was killed before it wrote this
        return {}
    return told if isinstance(told, dict) else {}


def _is_at(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False
