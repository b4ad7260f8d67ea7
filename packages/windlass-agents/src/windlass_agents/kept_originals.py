"""Originals of shortened results, found by their references.

While a session goes on, its hook keeps them as files in a folder of the store; later they are in
the store itself. It imports little: an agent waits for the command that prints one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.public import (
    REF,
    Message,
    MissingFileError,
    StoreError,
    UsageError,
    as_text,
    bodies_beginning,
    from_dict,
    matching_lines,
    parse_json,
    read_bytes,
    text_at,
)
from windlass_agents.kept_compactions import kept_beginning

if TYPE_CHECKING:
    from windlass.public import Settings, Store

_SHORT: Final = 16
"""Hex digits of a content hash, which is the name of a file of `originals_folder`."""
_REFERENCE: Final = re.compile(rf"(?:{REF})?([0-9a-f]{{8,64}})")
_SPAN: Final = re.compile(r"(\d{1,9})?\s*(?:([:-])\s*(\d{1,9})?)?")
_FEW: Final = 4
"""Originals that a message about an ambiguous reference may name, and one more."""
_SHOWN: Final = 80
_MOST_BYTES: Final = 1 << 28


class UnknownReference(UsageError):
    """No original has a reference, in the store where it was looked for."""


def originals_folder(store: Path) -> Path:
    """Return the folder of the originals that hooks keep, by the folder of the store."""
    return store / "hooks" / "originals"


def find_by_settings(settings: Settings, ref: str) -> Message:
    """Return `find_original` in the store that settings name, which may have an address."""
    from windlass.public import check_store, open_store

    check_store(settings)
    place = settings.store
    if isinstance(place, Path):
        return find_original(place, ref, partial(open_store, settings, existing=True))
    with open_store(settings, existing=True) as history:
        return find_original(history.folder, ref, lambda: nullcontext(history))


def find_original(
    store: Path, ref: str, open_store: Callable[[], AbstractContextManager[Store]]
) -> Message:
    """Return the message that a reference means: one that a hook keeps, or else one of the store.

    A hook keeps a result that it shortened, and what a compaction took out of view.

    Args:
        store: The folder of the store.
        ref: 8 or more hex digits of a content hash, with or without `result_`.
        open_store: Opens the store, or raises UsageError where there is none; called only where
            it has to be opened.

    Raises UnknownReference where none is meant, UsageError where several are, or where neither a
    hook nor a run has written, and StoreError for a damaged one.
    """
    reference = _REFERENCE.fullmatch(ref.strip().lower())
    if reference is None:
        raise UsageError(
            f"the reference {_short(ref)!r} must be 8 to 64 hex digits, with or without {REF!r}"
            " in front"
        )
    digits = reference[1]
    names = [path.stem for path in originals_folder(store).glob(f"{digits[:_SHORT]}*.json")]
    # It may move into the store meanwhile.
    if names and (message := _read(store, _only(digits, names))) is not None:
        return message
    if folded := kept_beginning(store, digits):
        return folded[_only(digits, list(folded))]
    found = bodies_beginning(store, digits, _FEW)
    if found is None:
        return _by_store(store, digits, open_store)
    if not found:
        raise _unknown(digits, store)
    return from_dict(json.loads(found[_only(digits, list(found))]))


def find_among(stores: Iterable[Path], ref: str) -> Message | None:
    """The message that a reference means in the first of several stores that has it, if one has."""
    for store in stores:
        with suppress(UsageError, StoreError):
            return find_original(store, ref, partial(open_folder, store, reading=True))
    return None


def open_folder(store: Path, *, reading: bool = False) -> Store:
    """Return the store in a folder; `reading`: nothing of it is touched.

    Raises UsageError where there is none.
    """
    from windlass.public import SqliteStore

    return SqliteStore.open_existing(store, reading=reading)


def _by_store(
    store: Path, digits: str, open_store: Callable[[], AbstractContextManager[Store]]
) -> Message:
    try:
        opening = open_store()
    except UsageError as error:
        if originals_folder(store).is_dir():
            raise _unknown(digits, store) from error
        raise UnknownReference(str(error)) from error  # neither a hook nor a run has written here
    with opening as history:
        sql = f"SELECT DISTINCT key FROM bodies WHERE key >= ? AND key < ? LIMIT {_FEW}"  # noqa: S608 - a number of ours
        keys = [str(row["key"]) for row in history.query(sql, [digits, f"{digits}g"])]
        if not keys:
            raise _unknown(digits, store)
        return history.message(_only(digits, keys))


def _unknown(digits: str, store: Path) -> UnknownReference:
    return UnknownReference(f"no original has the reference {digits!r} in the store {str(store)!r}")


def _read(store: Path, content_hash: str) -> Message | None:
    """Return an original that a hook keeps (None: it is gone).

    Raises StoreError where it was changed.
    """
    file = originals_folder(store) / f"{content_hash}.json"
    try:
        message = from_dict(parse_json(read_bytes(file, _MOST_BYTES)))
    except MissingFileError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoreError(f"the original {str(file)!r} cannot be read: {error}") from error
    if message.content_hash != content_hash:
        raise StoreError(f"the original {str(file)!r} was changed: its hash is another one")
    return message


def original_text(message: Message, path: str = "") -> str:
    """Return an original as text, or what stands in it at a path, which a reference may name.

    Raises UsageError where nothing stands there.
    """
    if not path:
        return as_text(message)
    try:
        return text_at(message, path)
    except ValueError as error:
        raise UsageError(str(error)) from error


def excerpt(text: str, *, grep: str = "", lines: str = "", most: int | None = None) -> str:
    """Return the part of an original that is asked for.

    Args:
        text: The original.
        grep: Only lines that match this regular expression, each with its number.
        lines: Only these lines, counted from 1: `10:40`, `10:` or `12`.
        most: Characters of it (None: all); a sentence says how to get the rest.

    Raises UsageError for what is no pattern, and for lines that are not there.
    """
    among = text.split("\n")
    first, last = _span(lines, len(among)) if lines else (1, len(among))
    text = "\n".join(among[first - 1 : last])
    if grep:
        try:
            return matching_lines(text, grep, first, most=most)
        except ValueError as error:
            raise UsageError(str(error)) from error
    if most is None or len(text) <= most:
        return text
    end = text.rfind("\n", 0, most + 1)
    if end <= 0:  # a line that is longer than all that is given back at once
        return (
            f"{text[:most]}\n[the first {most:,} characters of line {first}; grep finds parts of"
            f' it, the rest: lines "{first + 1}:"]'
        )
    through = first + text.count("\n", 0, end)
    return (
        f"{text[:end]}\n[lines {first}-{through} of {len(among):,}; the rest: lines"
        f' "{through + 1}:{last if lines else ""}"]'
    )


def _span(lines: str, count: int) -> tuple[int, int]:
    """Return the first and the last line of a range, in a text of so many."""
    span = _SPAN.fullmatch(lines.strip())
    if span is None or not (span[1] or span[3]):
        raise UsageError(f"lines {_short(lines)!r} must be a range such as 10:40, or one number")
    first = int(span[1] or 1)
    last = int(span[3] or (count if span[2] else first))
    if not 1 <= first <= min(last, count):
        raise UsageError(f"lines {_short(lines)!r}: the original has lines 1:{count}")
    return first, last


def _only(digits: str, names: list[str]) -> str:
    if len(names) > 1:
        listed = ", ".join(sorted(f"{REF}{name[:_SHORT]}" for name in names))
        raise UsageError(f"several originals have the reference {digits!r}: {listed}")
    return names[0]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
