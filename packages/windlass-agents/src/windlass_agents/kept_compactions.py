"""What compactions of a session took out of its model's view, in one file a session.

    <store>/hooks/<agent>/<session>.compacted.jsonl

A line holds a message, or tells a compaction: which text stands for which messages. A line is
written before the client gets its answer. The next compaction is made from these messages again,
and not from the text that stood for them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    Message,
    StoreError,
    UnreadableError,
    from_dict,
    own_files,
    parse_json,
    read_bytes,
)

SUFFIX: Final = ".compacted.jsonl"
_MOST_BYTES: Final = 1 << 28
_MOST_SESSIONS: Final = 100
"""Other sessions, the newest, in which a compaction is looked for."""
_HASH: Final = re.compile(rb'^\{"hash":"([0-9a-f]{16,64})"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCompaction:
    """A compaction as it is noted, or that none was made."""

    agent: str
    session: str
    time: float
    """Seconds since 1970."""
    trigger: str
    """What asked for it, in the client's word."""
    reason: str
    """Why it was made or not, and what became of the conversation."""
    tokens_before: int
    """Tokens of the conversation, without system prompt and tools."""
    tokens_after: int
    block: str = ""
    """SHA-256, in hex, of the text that stands for the messages (empty: it was not made)."""
    folded: tuple[str, ...] = ()
    """The content hashes of the messages, in order."""
    thread: str = ""
    folder: str = ""
    """The project."""


_FIELDS: Final = frozenset(each.name for each in fields(KeptCompaction))


def block_hash(text: str) -> str:
    """Return what a compaction's text is known by."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class KeptCompactions:
    """The compactions of one session in a store.

    Args:
        store: The folder of the store.
        agent: The client.
        session: The client's name of the session.
    """

    store: Path
    agent: str
    session: str

    @property
    def path(self) -> Path:
        """Return the file, which may not be there."""
        from windlass.public import packing  # takes long: not where an original is only read

        folder = self.store / "hooks" / packing.path_part(self.agent)
        return folder / f"{packing.path_part(self.session)}{SUFFIX}"

    def keep(self, compaction: KeptCompaction, messages: Sequence[Message]) -> None:
        """Note a compaction and the messages that it folds, durably; each message once.

        Raises OSError, and StoreError for a link in the way.
        """
        before = _read(self.path)
        known = set(_HASH.findall(before))
        # What was cut off when the disk was full stays a line by itself.
        lines = [b"\n"] if before and not before.endswith(b"\n") else []
        for message in messages:
            name = message.content_hash.encode()
            if name not in known:
                known.add(name)
                lines.append(b'{"hash":"%s","message":%s}\n' % (name, message.canonical.encode()))
        lines.append(json.dumps(asdict(compaction)).encode() + b"\n")
        if not self.store.exists():  # nobody asked for a store, so nobody should commit it
            own_files.make_folder(self.store)
            own_files.ignore_in_git(self.store)
        own_files.make_folder(self.path.parent, self.store)
        data = b"".join(lines)
        handle = own_files.open_own(self.path, flags=os.O_APPEND)
        try:
            if os.write(handle, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(handle)
        finally:
            os.close(handle)

    def __iter__(self) -> Iterator[KeptCompaction]:
        """Yield the compactions in order; a line that cannot be read is left out."""
        yield from _compactions(_read(self.path))

    def originals(self, block: str) -> list[Message]:
        """Return the messages for which a text stands, of this session or one it goes on from.

        Empty: it is not known, or not all of them are there.
        """
        wanted = block_hash(block).encode()
        others = sorted(
            (path for path in self.path.parent.glob(f"*{SUFFIX}") if path != self.path),
            key=_changed,
            reverse=True,
        )
        for path in (self.path, *others[:_MOST_SESSIONS]):
            data = _read(path)
            if wanted not in data:
                continue
            for compaction in _compactions(data):
                if compaction.block.encode() == wanted:
                    messages = dict(_messages(data, set(compaction.folded)))
                    if all(each in messages for each in compaction.folded):
                        return [messages[each] for each in compaction.folded]
        return []


def kept_beginning(store: Path, digits: str) -> dict[str, Message]:
    """Return the messages that compactions in a store folded whose hash begins so.

    Raises StoreError where one was changed.
    """
    mark = b'{"hash":"%s' % digits.encode()
    messages: dict[str, Message] = {}
    for path in sorted((store / "hooks").glob(f"*/*{SUFFIX}"), key=_changed, reverse=True):
        data = _read(path)
        at = data.find(mark)
        while at >= 0:
            if at == 0 or data[at - 1 : at] == b"\n":
                end = data.find(b"\n", at)
                with suppress(ValueError, LookupError, TypeError, AttributeError):
                    message = from_dict(parse_json(data[at : end if end >= 0 else None])["message"])
                    messages[message.content_hash] = message
                    if not message.content_hash.startswith(digits):
                        raise StoreError(
                            f"an original in {str(path)!r} was changed: its hash is another one"
                        )
            at = data.find(mark, at + 1)
    return messages


def compactions_in(store: Path) -> list[KeptCompaction]:
    """Return what became of each conversation that was to be compacted, the newest last."""
    files = (store / "hooks").glob(f"*/*{SUFFIX}")
    told = [one for path in files for one in _compactions(_read(path))]
    return sorted(told, key=lambda one: one.time)


def _compactions(data: bytes) -> Iterator[KeptCompaction]:
    for line in data.splitlines():
        if line and not line.startswith(b'{"hash":'):
            with suppress(ValueError, TypeError, LookupError):
                told: Mapping[str, Any] = parse_json(line)
                known = {name: told[name] for name in told.keys() & _FIELDS}
                yield KeptCompaction(**{**known, "folded": tuple(told["folded"])})


def _messages(data: bytes, hashes: set[str]) -> Iterator[tuple[str, Message]]:
    for line in data.splitlines():
        match = _HASH.match(line)
        if match is not None and match[1].decode() in hashes:
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                message = from_dict(parse_json(line)["message"])
                if message.content_hash == match[1].decode():
                    yield message.content_hash, message


def _read(path: Path) -> bytes:
    """Return what a file holds; nothing, where it is none that was written here."""
    with suppress(UnreadableError, OSError):
        if not path.is_symlink():
            return read_bytes(path, _MOST_BYTES)
    return b""


def _changed(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
