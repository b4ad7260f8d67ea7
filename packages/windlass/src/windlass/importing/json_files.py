"""Files as JSON: objects line by line, or one JSON text. What is wrong is one sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from windlass.errors import UsageError
from windlass.messages import Message
from windlass.safety.foreign import TOO_DEEP, parse_recorded

LONGEST: Final = 64 << 20
"""The most bytes of a line, or of a file that is one JSON text, that are read into memory."""
MOST: Final = 128 << 20
"""The most characters of messages and bytes of pictures in the conversations of one file."""
MOST_AGAIN: Final = 1_000_000
"""The most messages of all branches in the conversations of one file, each counted whole."""
HEAD: Final = 40
"""The first records of a file, by which its format is recognised."""
_RESOURCE_SPANS: Final = b"\x0a"
"""The first byte of an export of OpenTelemetry in protobuf: the tag of its first field."""
_CUT: Final = "lines that are cut off or not JSON"
_NOT_TEXT: Final = "is not text in UTF-8, so it cannot be JSON"


def size_text(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / (1 << 30):.1f} GB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MB"


class NamedFile:
    """A file of records; `skipped` counts by reason what was left out of it as it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: Counter[str] = Counter()

    def take_skipped(self) -> Counter[str]:
        """Say what was left out since this was called last, once for each recording of a file."""
        taken = +self.skipped
        self.skipped.clear()
        return taken


class RecordedFile(NamedFile):
    """A file of JSON lines, or of one JSON text.

    `skipped` grows each time the file is read. Raises UsageError where the file is neither, or too
    large.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            if not path.is_file():  # reading a pipe might never end
                raise UsageError(f"{str(path)!r} is not a regular file")
            self.size = path.stat().st_size
            with path.open("rb") as file:
                start = file.read(4096)
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
        if not start.strip():
            raise UsageError(f"{str(path)!r} is empty")
        self._whole: dict[str, Any] | None = None
        is_text = "\ufffd" not in start.decode("utf-8", "replace")[:-3]
        if start[:1] == _RESOURCE_SPANS and (b"\0" in start or not is_text):
            self._whole = self._read_protobuf()
        elif b"\0" in start:
            raise UsageError(
                f"{str(path)!r} is binary, not JSON; recordings are JSON, or JSON lines"
            )
        elif not is_text:
            raise UsageError(f"{str(path)!r} {_NOT_TEXT}")
        elif not self._has_lines():
            self._whole = self._read_whole()
        self.head: list[dict[str, Any]] = list(islice(self.records(), HEAD))
        self.skipped.clear()
        if not self.head:
            raise UsageError(f"{str(path)!r} holds no JSON object")

    def _has_lines(self) -> bool:
        """Return whether one of the first lines is an object by itself."""
        return any(isinstance(value, dict) for value in islice(self._lines(), HEAD))

    def _read_protobuf(self) -> dict[str, Any]:
        """Return an export of OpenTelemetry."""
        self._check_size("protobuf text")
        try:
            from google.protobuf.json_format import MessageToDict
            from google.protobuf.message import DecodeError
            from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
        except ImportError as error:
            raise UsageError(
                f"{str(self.path)!r} is binary; if it is OTLP in protobuf, it is read after"
                " `pip install 'windlass[otel]'`"
            ) from error
        message, export = TracesData(), dict[str, Any]()
        with suppress(DecodeError):
            message.ParseFromString(self.path.read_bytes())
            export = MessageToDict(message)
        if not export.get("resourceSpans"):
            raise UsageError(f"{str(self.path)!r} is binary, and neither JSON nor OTLP in protobuf")
        return export

    def _check_size(self, kind: str) -> None:
        if self.size > LONGEST:
            raise UsageError(
                f"{str(self.path)!r} is one {kind} of {size_text(self.size)}; at most"
                f" {size_text(LONGEST)} are read at once (JSON lines may be longer)"
            )

    def _read_whole(self) -> dict[str, Any]:
        self._check_size("JSON text")
        try:
            value = parse_recorded(self.path.read_bytes())
        except UnicodeDecodeError as error:
            raise UsageError(f"{str(self.path)!r} {_NOT_TEXT}") from error
        except json.JSONDecodeError as error:
            cut = "is cut off" if error.pos >= len(error.doc.rstrip()) - 1 else "is not JSON"
            cut = "is cut off" if error.msg.startswith("Unterminated string") else cut
            raise UsageError(
                f"{str(self.path)!r} {cut}: {error.msg} (line {error.lineno}, column {error.colno})"
            ) from error
        except ValueError as error:  # nested too deep
            raise UsageError(f"{str(self.path)!r} cannot be read: {error}") from error
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            value = {"records": value}
        if not isinstance(value, dict):
            raise UsageError(f"{str(self.path)!r} holds no JSON object")
        return value

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield its objects in order, one for a JSON text.

        Lines that hold no object are counted.
        """
        if self._whole is not None:
            several = self._whole.get("records")
            yield from several if isinstance(several, list) else [self._whole]
            return
        for value in self._lines():
            if isinstance(value, str):
                self.skipped[value] += 1
            else:
                yield value

    def lines_with(self, word: bytes) -> Iterator[dict[str, Any]]:
        """Yield its objects on the lines that contain `word`."""
        if self._whole is not None:
            yield from self.records()
            return
        for value in self._lines(word):
            if isinstance(value, dict):
                yield value

    def _lines(self, word: bytes = b"") -> Iterator[dict[str, Any] | str]:
        """Yield the object of each line, or a reason why it has none."""
        with self.path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST):
                number += 1
                if len(line) == LONGEST and not line.endswith(b"\n"):
                    raise UsageError(
                        f"{str(self.path)!r}, line {number}: longer than {size_text(LONGEST)}"
                    )
                line = line.strip()
                if not line or line.startswith((b"//", b"#")) or word not in line:
                    continue
                yield _object(line)


def _object(line: bytes) -> dict[str, Any] | str:
    try:
        value = parse_recorded(line)
    except ValueError as error:
        return f"lines that cannot be read: {TOO_DEEP}" if str(error) == TOO_DEEP else _CUT
    return value if isinstance(value, dict) else _CUT


class MemoryLimit:
    """Limits what the conversations of a file may hold: each of them is kept in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chars = 0
        self._again = 0

    def take(self, message: Message) -> None:
        """Count a message that is kept: its characters, and the bytes of its pictures.

        Raises UsageError where the limit is reached.
        """
        self._chars += message.chars + sum(len(one.data or b"") for one in message.pictures)
        if self._chars > MOST:
            raise UsageError(
                f"{str(self._path)!r} holds conversations of more than {size_text(MOST)}: more"
                " than is kept in memory; split the file"
            )

    def take_again(self, messages: int) -> None:
        """Count the messages of a branch, whose beginning may be that of others.

        Raises UsageError where the limit is reached.
        """
        self._again += messages
        if self._again > MOST_AGAIN:
            raise UsageError(
                f"{str(self._path)!r} holds branches of more than {MOST_AGAIN:,} messages together:"
                " more than is kept in memory"
            )
