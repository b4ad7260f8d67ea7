"""Folders of raw bodies: what Claude Code sends, byte for byte, where it is set up to keep it.

`OTEL_LOG_RAW_API_BODIES=file:DIR` makes them: `*.request.json`, `*.response.json`, `index.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from windlass.errors import UsageError
from windlass.importing.base import Answers, object_of, text_of
from windlass.importing.exchanges import Exchange, Exchanges
from windlass.importing.json_files import HEAD, LONGEST, NamedFile, RecordedFile, size_text
from windlass.importing.recording import Recording
from windlass.safety.files import UnreadableError, read_text
from windlass.safety.foreign import parse_recorded

_REQUEST: Final = ".request.json"
_RESPONSE: Final = ".response.json"


def is_folder_of_bodies(folder: Path) -> bool:
    """Return whether a folder holds bodies of requests."""
    return any(folder.glob(f"*{_REQUEST}"))


class BodyFolder(RecordedFile):
    """A folder of bodies, read as if it were a file of exchanges."""

    def __init__(self, path: Path) -> None:
        NamedFile.__init__(self, path)
        self.head = list(islice(self.records(), HEAD))
        self.skipped.clear()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the exchanges in the order of the index, the others by the time of their files."""
        index = self._index()
        requests = sorted(
            self.path.glob(f"*{_REQUEST}"),
            key=lambda one: (index.get(one.name, len(index)), one.stat().st_mtime_ns, one.name),
        )
        for request in requests:
            body = self._body(request)
            if body is None:
                continue
            response = request.with_name(request.name.removesuffix(_REQUEST) + _RESPONSE)
            yield {
                "request": body,
                "response": self._body(response) if response.exists() else None,
                "time": request.stat().st_mtime,
            }

    def lines_with(self, word: bytes) -> Iterator[dict[str, Any]]:
        """Yield its exchanges."""
        del word
        yield from self.records()

    def _index(self) -> dict[str, int]:
        """Return the place of each file that the index names."""
        place = self.path / "index.jsonl"
        if not place.exists():
            return {}
        places: dict[str, int] = {}
        for record in RecordedFile(place).records():
            for value in record.values():
                if isinstance(value, str) and value.endswith((_REQUEST, _RESPONSE)):
                    places.setdefault(Path(value).name, len(places))
        return places

    def _body(self, path: Path) -> Any:
        try:
            if path.stat().st_size > LONGEST:
                self.skipped[f"bodies of more than {size_text(LONGEST)}"] += 1
                return None
            text = read_text(path, LONGEST)
        except (OSError, UnreadableError):
            self.skipped["bodies that cannot be read"] += 1
            return None
        try:
            return parse_recorded(text)
        except ValueError:
            if text.lstrip().startswith(("event:", "data:")):
                return text
            self.skipped["bodies that are cut off or not JSON"] += 1
            return None


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the conversations of a folder: exact requests."""
    if not isinstance(file, BodyFolder):
        raise UsageError(f"{str(file.path)!r} is not a folder of *{_REQUEST} files")
    exchanges = Exchanges(file, answers, "claude-code-bodies")
    for record in file.records():
        request = {key: value for key, value in record["request"].items() if key != "betas"}
        key = _session(request)
        exchanges.add(Exchange(request, record["response"], key, record["time"]))
    yield from exchanges.recordings()


def _session(request: Mapping[str, Any]) -> str:
    """Return the name of the session in the client's metadata; empty where there is none."""
    user_id = text_of(object_of(request.get("metadata")), "user_id")
    try:
        return text_of(object_of(parse_recorded(user_id)), "session_id")
    except ValueError:
        return user_id.rpartition("_session_")[2] if "_session_" in user_id else ""
