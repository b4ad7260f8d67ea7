"""The store that `--store` names, and the times and ages that options name."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from windlass.api.opening import open_store
from windlass.cli.output import note
from windlass.errors import UsageError
from windlass.history.base import SessionFilter, Store
from windlass.settings.settings import Settings

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_DAY = re.compile(r"\d{4}-?(\d\d-?\d\d|W\d\d-?\d)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read_settings(store: str | None) -> Settings:
    """Return the settings of a command that only takes `--store`."""
    return Settings.read({"store": store})


def open_existing(store: str | None, *, writing: bool = False) -> Store:
    """Open the store that the flag, the variable or the file names, if it exists.

    Raises UsageError where there is none, and StoreError where it is to be written and cannot be.
    """
    return open_reporting_losses(read_settings(store), writing=writing)


def open_reporting_losses(settings: Settings, *, writing: bool = False) -> Store:
    """Open a store that exists; messages that it has lost are left out, and named in a note."""
    store = open_store(settings, existing=True, writing=writing)
    store.mark_lost(note)
    return store


def read_age(text: str) -> float | None:
    """Return the seconds that a number with a unit stands for, such as 90d or 12h.

    None: not an age.
    """
    match = _AGE.fullmatch(text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def read_time(option: str, text: str, *, whole_day: bool = False) -> float:
    """Return the time, in seconds since 1970, that an option names: an ISO date in UTC, or an age.

    `whole_day`: a date without a time stands for its end. Raises UsageError.
    """
    if (age := read_age(text)) is not None:
        return time.time() - age
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if whole_day and _DAY.fullmatch(text.strip()):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!r} must be a date such as 2026-01-31 or 2026-01-31T08:00, in UTC, or"
            " an age such as 2h or 3d"
        ) from error


def read_session_filter(
    *,
    cascade: str | None,
    status: str | None = None,
    since: str | None,
    until: str | None,
) -> SessionFilter:
    """Return the sessions that `--cascade`, `--status`, `--since` and `--until` name.

    Raises UsageError.

    Those under another one are among them where they are asked for by cascade or status.
    """
    return SessionFilter(
        cascade=cascade,
        status=status,
        since=None if since is None else read_time("--since", since),
        until=None if until is None else read_time("--until", until, whole_day=True),
        banks=False,
        under=() if cascade is None and status is None else None,
    )
