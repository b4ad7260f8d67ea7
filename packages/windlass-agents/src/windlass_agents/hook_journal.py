"""What hooks did, one JSON line an event, and the originals of what they shortened.

    <store>/hooks/<agent>/<session>.jsonl
    <store>/hooks/<agent>/<session>.calls.jsonl      where the agent keeps no transcript
    <store>/hooks/<agent>/<session>.figures.json     what the live line says
    <store>/hooks/<agent>/<session>.tools.jsonl      which tools wait (`deferred_tools`)
    <store>/hooks/<agent>/<session>.compacted.jsonl  of compactions (`kept_compactions`)
    <store>/hooks/originals/<content hash>.json

An original is written before its line, and a line before the agent gets its answer. Nothing else
is needed to get an original back. When a session is put into the store, its originals move there.

Whether a model got what a hook answered: the agent's transcript has what it was shown.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from windlass.public import (
    Message,
    ToolCall,
    UnreadableError,
    arguments_of,
    open_file,
    own_files,
    packing,
    parse_recorded,
    read_bytes,
    reference_to,
)
from windlass_agents import codex_rollouts
from windlass_agents.agent_events import SeenCall
from windlass_agents.kept_compactions import SUFFIX, KeptCompactions
from windlass_agents.kept_originals import originals_folder
from windlass_agents.shapes import CLAUDE_CODE, shape_of, text_of_content

_CALLS: Final = ".calls.jsonl"
_FIGURES: Final = ".figures.json"
_TOOLS: Final = ".tools.jsonl"
_LONGEST_LINE: Final = 1 << 28
_MOMENT: Final = "moment"
_MOST_BYTES: Final = 100_000_000
"""Bytes of a file that is read."""
_MOST_SESSIONS: Final = 100
"""Other sessions, the newest, in which a call is looked for."""

Outcome: TypeAlias = Literal[
    "shortened",
    "whole",
    "held out",
    "failed result",
    "unknown shape",
    "error",
]
"""What became of a result; `whole`: shortening it would not lower the bill, or it is short;
`held out`: the session is one of those that stay untouched for comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortening:
    """What stands in the place of a result, and what that saves."""

    original: str = ""
    """The content hash of the original, where it was shortened."""
    shown: str = ""
    """SHA-256, in hex, of the text that stands in its place."""
    tokens_before: int = 0
    """Tokens of what the agent itself would have shown, by the model's count."""
    tokens_after: int = 0
    refers: str = ""
    """The content hashes of earlier messages that the short form refers to, a space between."""

    @property
    def originals(self) -> tuple[str, ...]:
        """Return the content hashes of all messages that the short form names."""
        return tuple(f"{self.original} {self.refers}".split())


@dataclass(frozen=True, slots=True)
class HookLine(Shortening):
    """What became of one tool result."""

    time: float
    """Seconds since 1970."""
    agent: str
    session: str
    call_id: str
    tool: str
    outcome: Outcome
    thread: str = ""
    because: str = ""
    """The rule that shortened it, or in words why it was left (or failed)."""
    transcript: str = ""
    cut: bool = False
    """Whether the agent itself would have shown the beginning of it alone."""
    folder: str = ""
    """The project, where the agent names one."""
    redacted: bool = False
    """Whether credentials are taken out of all that is noted and stored of the session."""


_Line = TypeVar("_Line", HookLine, SeenCall)

_CALL_FIELDS: Final = ("time", "thread", "model", "call_id", "tool", "arguments", "result")
"""What is noted of a call; its arguments as JSON text."""

_UNSAID: Final = {each.name: each.default for each in fields(HookLine)}
"""What a field has that a line need not say."""


class HookJournal:
    """The journal of a store, by the folder of the store."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._originals = originals_folder(store)
        self.folder = self._originals.parent

    def write(self, line: HookLine) -> None:
        """Append a line. Raises OSError, and StoreError for a link in the way."""
        noted = {name: value for name, value in asdict(line).items() if value != _UNSAID[name]}
        self._append(self._path(line.agent, line.session), noted)

    def write_call(self, line: HookLine, call: SeenCall) -> None:
        """Append a call with its result, of an agent that keeps no transcript.

        Raises as `write` does.
        """
        noted = {name: getattr(call, name) for name in _CALL_FIELDS}
        noted["arguments"] = json.dumps(dict(call.arguments))
        self._append(self._calls(line.agent, line.session), noted)

    def note_tool(self, agent: str, session: str, decision: Mapping[str, Any]) -> None:
        """Append what was decided on a tool of a session. Raises as `write` does."""
        told = {"agent": agent, "session": session, **decision}
        self._append(self._path(agent, session).with_suffix(_TOOLS), told)

    def tools(self, agent: str, session: str) -> Iterator[Mapping[str, Any]]:
        """Yield what `note_tool` noted, in order."""
        yield from _objects(self._path(agent, session).with_suffix(_TOOLS))

    def calls(self, agent: str, session: str) -> Iterator[SeenCall]:
        """Yield what `write_call` noted, in order."""
        yield from _seen(_objects(self._calls(agent, session)))

    def note_earlier(self, line: HookLine, earlier: Sequence[SeenCall]) -> bool:
        """Append calls from before that were not noted yet; whether there are some.

        Raises as `write` does.
        """
        if not earlier:
            return False
        known = {call.call_id for call in self.calls(line.agent, line.session)}
        new = [call for call in earlier if call.call_id not in known]
        for call in new:
            self.write_call(line, call)
        return bool(new)

    def note_compaction(self, agent: str, session: str) -> None:
        """Note that the model no longer sees the calls so far. Raises as `write` does."""
        path = self._calls(agent, session)
        if path.exists():
            self._append(path, {_MOMENT: "compacted"})

    def calls_in_view(self, agent: str, session: str, thread: str) -> list[SeenCall]:
        """Return the calls of a thread since the last compaction."""
        since: list[Mapping[str, Any]] = []
        for one in _objects(self._calls(agent, session)):
            if _MOMENT in one:
                since.clear()
            else:
                since.append(one)
        calls = [call for call in _seen(since) if call.thread == thread]
        return [
            replace(call, call_id=call.call_id or f"call {number}")
            for number, call in enumerate(calls)
        ]

    def lines_of_calls(
        self, agent: str, session: str, calls: Collection[str]
    ) -> dict[str, HookLine]:
        """Return the lines of calls, which a session may have from another that it goes on from."""
        own = self._path(agent, session)
        others = [path for path in own.parent.glob("*.jsonl") if path != own]
        others = sorted(filter(_is_journal, others), key=_changed, reverse=True)
        lines: dict[str, HookLine] = {}
        for path in (own, *others[:_MOST_SESSIONS]):
            missing = set(calls) - lines.keys()
            if not missing:
                break
            lines |= {line.call_id: line for line in _lines(path) if line.call_id in missing}
        return lines

    def lines_naming(self, content_hash: str) -> Iterator[HookLine]:
        """Yield the lines of all sessions whose short form names a message."""
        for path in filter(_is_journal, self.folder.glob("*/*.jsonl")):
            with suppress(OSError):
                if content_hash.encode() in path.read_bytes():
                    yield from (line for line in _lines(path) if content_hash in line.originals)

    def keep(self, original: Message) -> None:
        """Keep an original durably, once. Raises as `write` does."""
        path, data = self._originals / f"{original.content_hash}.json", original.canonical.encode()
        self._make(path.parent)
        with suppress(UnreadableError):  # nothing is there, or what is no original
            if not path.is_symlink() and read_bytes(path, len(data)) == data:
                return
        own_files.replace(path, [data], 0o600, durable=True)

    def lines(self, agent: str, session: str) -> Iterator[HookLine]:
        """Yield the lines of a session, in order; a line that cannot be read is left out.

        Of several lines of a call the last counts: an answer may come too late.
        """
        yield from _lines(self._path(agent, session))

    def sessions(self) -> Iterator[tuple[str, str]]:
        """Yield the agent and the session of each file, the one that was written last first."""
        files = [path for path in self.folder.glob("*/*.jsonl") if not path.is_symlink()]
        known: set[tuple[str, str]] = set()
        for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
            is_beside = path.name.endswith((_TOOLS, SUFFIX))
            told = (one for one in _objects(path) if not is_beside or "session" in one)
            first = next(told, {}) if is_beside or _is_journal(path) else {}
            name = str(first.get("agent")), str(first.get("session"))
            if "session" in first and name not in known:
                known.add(name)
                yield name

    def forget(self, content_hash: str) -> None:
        """Remove an original that the store has by now."""
        (self._originals / f"{content_hash}.json").unlink(missing_ok=True)

    def changed(self, agent: str, session: str) -> float:
        """When something was noted of a session last, in seconds since 1970 (0: nothing is)."""
        return max(map(_changed, self._files(agent, session)))

    def remove(self, agent: str, session: str) -> None:
        """Remove what was noted of a session, and the originals that no other one names.

        Raises OSError.
        """
        own = {each for line in self.lines(agent, session) for each in line.originals}
        for path in self._files(agent, session):
            path.unlink(missing_ok=True)
        others = filter(_is_journal, self.folder.glob("*/*.jsonl")) if own else ()
        for original in own.difference(
            *(line.originals for each in others for line in _lines(each))
        ):
            self.forget(original)

    def write_figures(self, agent: str, session: str, figures: Mapping[str, Any]) -> None:
        """Keep what a session's line says. Raises as `write` does."""
        path = self._path(agent, session).with_suffix(_FIGURES)
        self._make(path.parent)
        own_files.replace(path, [json.dumps(figures).encode()], 0o600)

    def figures(self, agent: str, session: str) -> Mapping[str, Any]:
        """Return what `write_figures` kept last (nothing: it kept none)."""
        return next(_objects(self._path(agent, session).with_suffix(_FIGURES)), {})

    def _path(self, agent: str, session: str) -> Path:
        return self.folder / packing.path_part(agent) / f"{packing.path_part(session)}.jsonl"

    def _calls(self, agent: str, session: str) -> Path:
        return self._path(agent, session).with_suffix(_CALLS)

    def _files(self, agent: str, session: str) -> tuple[Path, ...]:
        compacted = KeptCompactions(self._store, agent, session).path
        path = self._path(agent, session)
        beside = (path.with_suffix(suffix) for suffix in (_CALLS, _FIGURES, _TOOLS))
        return path, *beside, compacted

    def _append(self, path: Path, noted: Mapping[str, Any]) -> None:
        self._make(path.parent)
        handle = own_files.open_own(path, flags=os.O_APPEND)
        try:
            data = json.dumps(noted).encode() + b"\n"
            if os.write(handle, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(handle)

    def _make(self, folder: Path) -> None:
        if not self._store.exists():  # nobody asked for a store, so nobody should commit it
            own_files.make_folder(self._store)
            own_files.ignore_in_git(self._store)
        own_files.make_folder(folder, self._store)


def _lines(path: Path) -> Iterator[HookLine]:
    names = {each.name for each in fields(HookLine)}
    yield from _last(
        _objects(path), lambda one: HookLine(**{name: one[name] for name in one.keys() & names})
    )


def _seen(told: Iterable[Mapping[str, Any]]) -> Iterator[SeenCall]:
    def read(one: Mapping[str, Any]) -> SeenCall:
        call = ToolCall(one["call_id"], one["tool"], one["arguments"])
        told = {name: one[name] for name in _CALL_FIELDS}
        return SeenCall(**{**told, "arguments": arguments_of(call)})

    yield from _last(told, read)


def _is_journal(path: Path) -> bool:
    return not path.name.endswith((_CALLS, _TOOLS, SUFFIX)) and _is_ordinary(path)


def _is_ordinary(path: Path) -> bool:
    """Return whether a file is one that hooks may have written.

    Others may have put something there.
    """
    with suppress(OSError):
        state = path.lstat()
        return stat.S_ISREG(state.st_mode) and state.st_size <= _MOST_BYTES
    return False


def _changed(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file, one a line; what cannot be read is left out."""
    with suppress(UnreadableError), open_file(path) as file:
        while data := file.readline(_LONGEST_LINE):
            with suppress(ValueError):
                told = parse_recorded(data)
                if isinstance(told, Mapping):
                    yield told


def _last(
    told: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], _Line]
) -> Iterator[_Line]:
    """What is told of each call, the last time that it is; what is no such thing is left out."""
    lines: dict[object, _Line] = {}
    for number, one in enumerate(told):
        with suppress(TypeError, LookupError):
            line = read(one)
            lines[(line.thread, line.call_id) if line.call_id else number] = line
    yield from lines.values()


SIDE: Final = "subagents"
"""The folder beside a session's transcript, in a folder of its name, with those of subagents."""


def text_hash(text: str) -> str:
    """Return what a line of the journal knows a short form by."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def main_transcript(lines: Iterable[HookLine]) -> Path | None:
    """Return the transcript of a session, by the lines of its journal (None: it has none)."""
    for line in sorted(lines, key=lambda line: line.thread != ""):
        if line.transcript:
            path = Path(line.transcript)
            return path.parents[1].with_suffix(".jsonl") if path.parent.name == SIDE else path
    return None


def deliveries(lines: Sequence[HookLine], transcript: Path | None) -> dict[str, bool | None]:
    """By the id of each call whose result was shortened: whether its model got the short form.

    None: the transcript does not tell, or not yet.
    """
    short = {line.call_id: line for line in lines if line.outcome == "shortened"}
    got: dict[str, bool | None] = dict.fromkeys(short)
    if transcript is None or not short:
        return got
    beside = transcript.with_suffix("") / SIDE
    others = sorted(beside.glob("*.jsonl")) if beside.is_dir() else []
    others += sorted({Path(line.transcript) for line in lines if line.transcript})
    for path in dict.fromkeys((transcript, *others)):
        for call_id, result, block in _results(path):
            line = short.get(call_id)
            if line is None:
                continue
            shown = text_of_content(block.get("content"))
            if shown is not None and text_hash(shown) == line.shown:
                got[call_id] = True
            elif result is None:  # as of subagents: the short form names its original
                got[call_id] = reference_to(line.original) in json.dumps(block)
            else:
                known = shape_of(CLAUDE_CODE, line.tool, result)
                got[call_id] = known is not None and text_hash(known[1]) == line.shown
    return got


def _results(path: Path) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Each result of a transcript: its call, what the agent keeps (None: nothing), its block."""
    with suppress(OSError), path.open("rb") as file:
        for data in file:
            for call_id, output in codex_rollouts.results(data):
                yield call_id, None, {"content": output}
            if b'"tool_result"' not in data:
                continue
            with suppress(ValueError, RecursionError, TypeError, AttributeError):
                record = json.loads(data)
                for block in record["message"]["content"]:
                    if isinstance(block, Mapping) and block.get("type") == "tool_result":
                        yield str(block.get("tool_use_id")), record.get("toolUseResult"), block
