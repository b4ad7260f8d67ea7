"""One conversation of an agent: what its model has in view, and how the next result is shown.

The decision is that of `Context`, as in any agent loop, with a policy that only shortens what no
call has seen. An earlier result is referred to only while the model still has it in view: the
transcript tells when the user went back, or when the conversation was compacted.

What a session's model has in view, read from the end of a growing transcript.

The reader of Claude Code's transcripts puts what is new into its tree; the path to the last node is
what the model sees. Where the user goes back, or the conversation is compacted, what was said since
is not on it any more. A record may also name results that the model no longer sees though they
stand there.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from windlass.public import (
    REF,
    SIDE_CHAIN,
    Because,
    Chat,
    ClaudeTranscript,
    Context,
    FamilyCounter,
    Message,
    NamedFile,
    Node,
    Override,
    Policy,
    Prices,
    Replace,
    Text,
    ToolCall,
    arguments_of,
    override,
    prices_of,
    redacted_text,
    reference,
    user,
)
from windlass_agents._earlier import EarlierResults
from windlass_agents.agent_events import AgentPlace, SeenCall, ToolEvent
from windlass_agents.hook_journal import text_hash
from windlass_agents.shapes import CLAUDE_CODE

_MOST_BYTES: Final = 16_000_000
"""Bytes of a transcript that are read at once; of a longer one the end."""
_MOST_KEPT: Final = 4 * _MOST_BYTES
"""Bytes of it that are kept in memory; then its end is read again."""
_STEPS: Final = ("user", "assistant", "system", "attachment")
"""The records of a conversation."""


@dataclass(frozen=True, slots=True)
class _Result:
    """What is known of a result as the agent keeps it."""

    bare: str = ""
    """The result as the tool gave it, where the agent puts numbers before its lines."""
    hash: str = ""
    stored: str = ""


@dataclass(slots=True)
class Tail:
    """A transcript, read as it grows."""

    path: Path
    model: str | None = None
    """`provider/model` of the last answer."""
    _file: tuple[int, int] = (0, 0)
    """What the system knows the file by."""
    _first: int = 0
    """Where reading began."""
    _offset: int = 0
    _rest: bytes = b""
    _transcript: ClaudeTranscript = field(init=False)
    _end: Node | None = None
    """The last step that the model saw."""
    _results: dict[str, _Result] = field(default_factory=dict[str, _Result])
    """By their calls."""
    _went_back: bool = False
    """Whether a step did not follow the one before it."""

    def __post_init__(self) -> None:
        self._transcript = ClaudeTranscript(NamedFile(self.path))

    def read(self) -> bool:
        """Take in what was appended. Whether all of it only appends to what was in view.

        A file that cannot be read appends nothing.
        """
        self._went_back = False
        with suppress(OSError), self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            size, name = status.st_size, (status.st_dev, status.st_ino)
            is_other = size < self._offset or name != self._file
            if is_other or size - self._offset > _MOST_BYTES or size - self._first > _MOST_KEPT:
                self._begin_anew(max(0, size - _MOST_BYTES))
            self._file = name
            file.seek(self._offset)
            data = self._rest + file.read(size - self._offset)
            self._offset = file.tell()
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        self._take(record)
        return not self._went_back

    def _begin_anew(self, first: int) -> None:
        was_read = self._offset > 0
        self.__init__(self.path, self.model)  # type: ignore[misc]
        self._went_back, self._first, self._offset = was_read, first, first

    def _take(self, record: Mapping[str, Any]) -> None:
        nodes, cleared = self._transcript.tree.nodes, len(self._transcript.cleared)
        before = len(nodes)
        node = self._transcript.add(record)
        is_side_chain = node is not None and node.lane and not self.path.stem.startswith(SIDE_CHAIN)
        if record.get("type") not in _STEPS or is_side_chain:
            return
        if node is not None and node.call is not None:
            self.model = node.call.model
        message = record.get("message")
        for block in message.get("content") or () if isinstance(message, Mapping) else ():
            is_result = isinstance(block, Mapping) and block.get("type") == "tool_result"
            # Of a result that was rewritten the transcript has both: the model saw the block.
            if is_result and record.get("toolResultRewritten") is not True:
                self._note(str(block.get("tool_use_id")), record.get("toolUseResult"))
        at, new = node, set(nodes[before:])
        while at in new and at is not self._end and at is not None:
            at = at.parent
        follows = at is self._end or self._end is None
        # More of the last answer, of which results are there.
        is_piece = self._end is not None and node is not None and node is self._end.parent
        is_piece = is_piece and record["type"] == "assistant"
        is_cleared = len(self._transcript.cleared) > cleared
        self._went_back = self._went_back or is_cleared or not (follows or is_piece)
        if not is_piece:
            self._end = node

    def _note(self, call_id: str, result: object) -> None:
        """Note what is known of a result, where it has a shape that is known."""
        for shape in CLAUDE_CODE:
            text = shape.text_of(result)
            if text is not None:
                bare = text if shape.numbered else ""
                self._results[call_id] = _Result(bare, text_hash(text), shape.stored(result))
                return

    def in_view(self) -> Iterator[str | SeenCall]:
        """Yield what the model sees, in order: words of the user, and calls with their results."""
        calls: dict[str, tuple[ToolCall, str]] = {}
        for node in self._end.path() if self._end is not None else ():
            words = ""
            for message in node.messages:
                match message.role:
                    case "assistant":
                        for call in message.tool_calls:
                            calls[call.id] = call, words
                        words = "" if message.tool_calls else message.text or words
                    case "tool" if message.tool_call_id in calls:
                        call, before = calls.pop(message.tool_call_id or "")
                        yield self._seen(call, before, message.text)
                    case "user":
                        for part in message.parts:
                            if isinstance(part, Text) and part.text:
                                yield part.text
                    case _:
                        pass

    def _seen(self, call: ToolCall, before: str, text: str) -> SeenCall:
        seen = SeenCall(call.id, call.name, arguments_of(call), "", before)
        if call.id in self._transcript.cleared:
            return seen
        known = self._results.get(call.id, _Result())
        return replace(seen, result=known.bare or text, replaced=known.hash, stored=known.stored)

    def before(self, call_id: str) -> str:
        """Return what the model said before it made a call.

        Empty: nothing, or not recorded yet.
        """
        words = ""
        node = self._transcript.callers.get(call_id)
        for message in node.messages if node is not None else ():
            if any(call.id == call_id for call in message.tool_calls):
                return words
            words = "" if message.tool_calls else message.text or words
        return ""


_LEAST_SAVED: Final = 80
"""Characters that a short form must save: it is read by each later call, and may be fetched."""

_ANSWER: Final = "(answered)"
"""What stands for an answer without calls, which no result depends on."""
_SEEN: Final = "the model saw it so before"
_REFERENCE: Final = re.compile(rf"\b{REF}[0-9a-f]{{8}}\b")


@dataclass(frozen=True, slots=True)
class ShortForm:
    """A result as its model is to see it."""

    text: str
    original: Message
    sources: tuple[Message, ...]
    """Other messages that the text refers to, as they were said."""
    because: str
    reason: str
    tokens_before: int
    tokens_after: int


@dataclass(slots=True)
class AgentThread:
    """What one model has seen.

    Args:
        policy: How results are shortened.
        way_back: The command that gets an original back, which stands before its reference.
        tail: The transcript (None: the agent writes none; what it saw is what was told here).
        earlier: What is known of results that the model saw in another form.
        redact: Whether credentials are taken out of what was seen, before anything is made of it.
        read_history: Reads what the model saw before, in order, where there is no transcript.
        user_prices: The user's own prices of models.

    One result is taken in after the other, whoever calls.
    """

    policy: Policy
    way_back: str
    tail: Tail | None = None
    earlier: EarlierResults | None = None
    redact: bool = False
    read_history: Callable[[], list[SeenCall]] | None = None
    user_prices: Mapping[str, Override] = field(default_factory=dict[str, "Override"])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _history: list[SeenCall] | None = None
    """What the model saw, in order, where there is no transcript (None: not read yet)."""
    _context: Context | None = None
    _met: set[str] = field(default_factory=set[str])
    """The calls whose results are in the context."""
    _words: int = 0
    """How often the user's words in view are in the context."""
    _waiting: str | None = None
    """The message that was shortened last, until the call that shows it counts as made."""
    _is_stale: bool = True
    """Whether the context is to be built anew from what is in view."""

    def begin_anew(self) -> None:
        """Forget what was seen."""
        with self._lock:
            self._context, self._is_stale, self._history = None, True, []

    def read_again(self) -> None:
        """Read anew what was seen: the agent has said more of the time before."""
        with self._lock:
            self._context, self._is_stale, self._history = None, True, None

    def prepare(self, place: AgentPlace) -> None:
        """Do what takes long before the first result comes."""
        with self._lock, override(self.user_prices):
            context = self._catch_up(place)
            if self._met or self._words:
                context.window()
            else:
                FamilyCounter(context.model).message(user("."))  # loads the vocabulary

    def shorten(self, event: ToolEvent) -> ShortForm | None:
        """Return the short form of a result whose text is known (None: it stays as it is)."""
        with self._lock, override(self.user_prices):
            return self._shorten(event)

    def _shorten(self, event: ToolEvent) -> ShortForm | None:
        context = self._catch_up(event.place, event.call_id)
        ident = event.call_id or f"call {len(self._met)}"
        if ident in self._met:  # told twice: what was shown of it must not refer to itself
            return None
        before = "" if self.tail is None else self.tail.before(ident)
        seen = SeenCall(ident, event.tool, event.arguments, event.text or "", before)
        self._append(context, seen)
        window = context.window()
        shown, entry = window.next_call.entries[-1], window.entries[-1]
        text = shown.message.text
        saves = entry.action == "replaced" and event.shown_chars - len(text) >= _LEAST_SAVED
        # Half a character is mended when it is taken in, and would not come back as it was.
        is_kept = shown.item.message.text == seen.result
        is_short = saves and is_kept and (event.fits is None or event.fits(text, seen.result))
        if self.tail is None:
            self._seen().append(replace(seen, result=text) if is_short else seen)
        if is_short:
            self._waiting = f"of {ident}"
        else:
            context.pin(f"of {ident}")
            # What the context believes to be shown is not what the agent shows.
            self._is_stale = entry.action == "replaced" or event.shown_chars < len(seen.result)
            return None
        share = min(1.0, event.shown_chars / max(1, len(seen.result)))
        return ShortForm(
            text,
            shown.item.message,
            tuple(_sources(context, text, shown.item.message)),
            entry.because or "",
            entry.reason,
            round(entry.tokens_before * share),
            entry.tokens_after,
        )

    def _catch_up(self, place: AgentPlace, call_id: str = "") -> Context:
        """Return the context with what was seen before the result of a call."""
        tail = self.tail
        appends = tail.read() if tail is not None else True
        if self._context is None or not appends or self._is_stale:
            model = (None if tail is None else tail.model) or place.model
            self._met, self._words, self._is_stale, self._waiting = set(), 0, False, None
            self._context = Context(
                model, self.policy, way_back=self.way_back, prices=_prices(model)
            )
        in_view = [*(tail.in_view() if tail is not None else self._seen())]
        calls = [one.call_id for one in in_view if isinstance(one, SeenCall)]
        if self.earlier is not None:
            self.earlier.look_for(one for one in calls if one not in (*self._met, call_id))
        words = 0
        for one in in_view:
            words += isinstance(one, str)
            if isinstance(one, str):
                is_new = words > self._words
            else:
                is_new = one.call_id not in self._met and one.call_id != call_id
            if is_new:
                self._append(self._context, one, as_it_is=True)
        self._words = words
        return self._context

    def _seen(self) -> list[SeenCall]:
        """Return what the model saw, where there is no transcript."""
        if self._history is None:
            self._history = [] if self.read_history is None else self.read_history()
        return self._history

    def _append(self, context: Context, seen: str | SeenCall, *, as_it_is: bool = False) -> None:
        """Append words, or a call with its result; `as_it_is`: the result was shown so before."""
        if isinstance(seen, str):
            if self._waiting is not None:
                self._append_answer(context, {"role": "assistant", "content": _ANSWER})
            words = redacted_text(seen) if self.redact else seen
            context.append({"role": "user", "content": words})
            return
        original = None if self.earlier is None or not as_it_is else self.earlier.original(seen)
        ident, seen = seen.call_id, seen.redacted() if self.redact else seen
        self._met.add(ident)
        call = {"name": seen.tool or "tool", "arguments": json.dumps(dict(seen.arguments))}
        calls = [{"id": ident, "type": "function", "function": call}]
        answer = {"role": "assistant", "content": seen.before or None, "tool_calls": calls}
        self._append_answer(context, answer)
        result = seen.result if original is None else original[0]
        if self.redact:
            result = redacted_text(result)
        name = f"of {ident}"
        context.append({"role": "tool", "tool_call_id": ident, "content": result, "id": name})
        if original is not None:
            (*_, item) = context.conversation.items
            shown, because = item.message.with_parts(Text(seen.result)), original[1]
            context.conversation.settle(Replace(name, shown, cast("Because", because), _SEEN))
        if as_it_is:
            context.pin(name)

    def _append_answer(self, context: Context, answer: Chat) -> None:
        """Append an answer of the model: what it saw before stays as it is from here on."""
        context.append(answer)
        if self._waiting is not None:
            context.pin(self._waiting)
            self._waiting = None


def _sources(context: Context, text: str, own: Message) -> Iterator[Message]:
    """Yield the messages of a conversation that a text refers to, but for one."""
    refs = set(_REFERENCE.findall(text)) - {reference(own)}
    for item in context.conversation.items if refs else ():
        if reference(item.message) in refs:
            yield item.message


def _prices(model: str | None) -> Prices | None:
    """Give the model's prices, as they are behind a system prompt and tools: these are never short.

    An agent's are longer than the shortest prefix that a cache keeps. None: no model is known.
    """
    return None if model is None else replace(prices_of(model, warn=lambda _: None), minimum=0)
