"""When a client's conversation is compacted, by what its transcript tells of calls and cache.

The client compacts by itself where its window is full, or its user asks for it. Besides there are
moments when it is free, or has paid for itself already: when nothing is cached any more, since the
next request is written anew in any case, and where reading what would go has cost more than a
compaction does. A short conversation is left alone. So is one that was compacted a moment ago: a
client that sees three compactions within nine turns makes none any more.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    SIDE_CHAIN,
    FreeMoments,
    FreeMomentsOptions,
    Prices,
    Usage,
    model_of,
    neutral_scale,
    object_of,
    prices_of,
    text_of,
    time_of,
    usage_of,
)
from windlass_agents.agent_events import AgentPlace
from windlass_agents.client_rows import OF_COMPACTING
from windlass_agents.conversation_compaction import (
    COMPACTED,
    DUE,
    CompactedRows,
    CompactionRequest,
    compact_rows,
    options_of,
)
from windlass_agents.hook_journal import SIDE

CACHED_LONG_S: Final = 3_600.0
CACHED_SHORT_S: Final = 300.0
"""Seconds for which the provider keeps a prefix, by the kind of its writes."""
_AFTER_S: Final = 5.0
"""Seconds behind that after which it is surely gone."""
_FEWEST_CALLS: Final = 5
"""Calls between two compactions that the client did not ask for."""
_TURNS: Final = 9
_MOST_IN_TURNS: Final = 2
"""Within so many turns of the user so many compactions: the next one would trip the breaker."""
_NEAR_WINDOW: Final = 0.775
"""The share of a window at which a client is about to compact by itself."""
_MOST_SESSIONS: Final = 24
_CHARS: Final = 4
_BOUNDARY: Final = "compact_boundary"
ASKED_WITHIN_TURNS: Final = 67_000
"""The tokens of a call above which the client asks in the middle of a turn, once the mod tells it
that its window has the 100,000 tokens that it takes at least."""


@dataclass(frozen=True, slots=True)
class SessionCall:
    """A call as the transcript tells it."""

    begun: float | None
    """When its request was begun, in seconds since 1970 (None: unknown)."""
    usage: Usage


@dataclass(slots=True)
class SessionCalls:
    """The calls of a session since its last compaction, read from a transcript that grows."""

    path: Path
    model: str = ""
    """`provider/model` of the last answer (empty: unknown)."""
    calls: list[SessionCall] = field(default_factory=list[SessionCall])
    """The calls since the last compaction, in order."""
    head: float = 0.0
    """Tokens of system prompt, tools and what the client announces, of the first call."""
    written: int = 0
    written_long: int = 0
    """Tokens that all calls wrote to the cache, and those kept for an hour."""
    turns: int = 0
    """How often the user spoke."""
    compacted: list[int] = field(default_factory=list[int])
    """The turns in which a compaction was made."""
    _offset: int = 0
    _file: tuple[int, int] = (0, 0)
    _rest: bytes = b""
    _answer: str = ""
    """The provider's name of the last answer, whose usage several records repeat."""
    _heard: float | None = None
    """When the last words or result came that a call answers."""
    _words: int = 0
    """Characters before the first call."""
    _is_noted: bool = False
    """Whether the last compaction was noted here, and the transcript may tell it still."""

    def read(self) -> None:
        """Take in what was appended; a file that cannot be read appends nothing."""
        with suppress(OSError), self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            name = status.st_dev, status.st_ino
            if status.st_size < self._offset or (self._offset and name != self._file):
                self.__init__(self.path)  # type: ignore[misc]
            self._file = name
            file.seek(self._offset)
            is_all = self.path.stem.startswith(SIDE_CHAIN)  # all of a subagent's file is its own
            data = self._rest + file.read()
            self._offset = file.tell()
            *lines, self._rest = data.split(b"\n")
            for line in lines:
                with suppress(ValueError, RecursionError, TypeError, AttributeError):
                    record = json.loads(line)
                    if isinstance(record, dict) and (is_all or not record.get("isSidechain")):
                        self._take(record)

    def note_compaction(self) -> None:
        """Note that what was said so far goes out of view."""
        self.compacted.append(self.turns)
        self.calls.clear()
        self._is_noted = True

    def _take(self, record: Mapping[str, Any]) -> None:
        message = object_of(record.get("message"))
        match record.get("type"):
            case "user":
                self._heard = time_of(record.get("timestamp")) or self._heard
                content = message.get("content")
                blocks = content if isinstance(content, list) else [content]
                is_result = any(object_of(one).get("type") == "tool_result" for one in blocks)
                texts = [text_of(object_of(one), "text") for one in blocks]
                words = content if isinstance(content, str) else "\n".join(texts)
                is_clients = record.get("isMeta") or record.get("isCompactSummary")
                is_clients = is_clients or OF_COMPACTING.match(words) or COMPACTED.search(words)
                self.turns += not (is_result or is_clients)
                if not self.calls and not self.compacted:
                    self._words += len(words)
            case "system" if record.get("subtype") == _BOUNDARY:
                if self.calls or not self._is_noted:
                    self.note_compaction()
                self._is_noted = False
            case "assistant":
                self._take_answer(record, message)
            case _:
                pass

    def _take_answer(self, record: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        usage = usage_of(message.get("usage"))
        name = str(message.get("id") or "")
        if usage is None or not usage.tokens_in:
            return
        if name and name == self._answer:
            self.calls[-1:] = [replace(one, usage=usage) for one in self.calls[-1:]]
            return
        self._answer, self.model = name, model_of(message.get("model"), "anthropic")
        if not self.calls and not self.compacted:
            words = self._words / _CHARS * neutral_scale(self.model)
            self.head = max(0.0, usage.tokens_in - words)
        self.written += usage.tokens_written
        self.written_long += usage.tokens_written_long
        begun = self._heard or time_of(record.get("timestamp"))
        self.calls.append(SessionCall(begun, usage))

    @property
    def cached_s(self) -> float:
        """Return the seconds for which most of what was written so far is cached."""
        return CACHED_LONG_S if 2 * self.written_long > self.written else CACHED_SHORT_S

    @property
    def call_tokens(self) -> int:
        """Return the tokens of the next call, as far as they are known (0: none was made)."""
        last = self.calls[-1].usage if self.calls else Usage(0, 0)
        return last.tokens_in + last.tokens_out

    @property
    def conversation_tokens(self) -> int | None:
        """Return tokens of the conversation, without the head (None: no call was made)."""
        return round(max(0.0, self.call_tokens - self.head)) if self.calls else None

    @property
    def prices(self) -> Prices:
        """Return what the model's cache charges, by the kind of writes that were made."""
        prices = prices_of(self.model or "anthropic/claude", warn=lambda _: None)
        if self.cached_s == CACHED_LONG_S and prices.write_long is not None:
            return replace(prices, write=prices.write_long, ttl_s=CACHED_LONG_S)
        return prices


@dataclass(frozen=True, slots=True)
class NextMoment:
    """When a conversation is to be compacted without being asked for.

    `seconds` from now (0: now; None: not before it was gone on with), and why, in one sentence.
    """

    seconds: float | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return what the mod is answered."""
        return {"seconds": self.seconds, "reason": self.reason}


def next_moment(told: SessionCalls, now: float, window: int = 0) -> NextMoment:
    """Return when a conversation is to be compacted next.

    `now` is in seconds since 1970, `window` the tokens of the model's window (0: not known).
    """
    conversation = told.conversation_tokens
    if conversation is None:
        return NextMoment(None, "no call was made since the conversation began")
    moments = FreeMoments(FreeMomentsOptions(), told.prices)
    if moments.frees_little(conversation):
        return NextMoment(
            None, f"the conversation has {conversation:,} tokens: a compaction frees too little"
        )
    if told.compacted and len(told.calls) < _FEWEST_CALLS:
        return NextMoment(None, f"it was compacted {len(told.calls)} calls ago")
    if sum(turn > told.turns - _TURNS for turn in told.compacted) >= _MOST_IN_TURNS:
        return NextMoment(
            None, f"it was compacted twice within {_TURNS} turns: one more, and the client stops"
        )
    begun = told.calls[-1].begun
    idle = 0.0 if begun is None else max(0.0, now - begun)
    minutes = f"{told.cached_s / 60:.0f} minutes"
    if idle > told.cached_s:
        return NextMoment(0, f"nothing is cached any more: the last call was {minutes} ago or more")
    if why := _paid(moments, told, conversation, window):
        return NextMoment(0, why)
    return NextMoment(told.cached_s - idle + _AFTER_S, f"what is cached for {minutes} is gone then")


def _paid(moments: FreeMoments, told: SessionCalls, conversation: float, window: int) -> str:
    """Return why a compaction pays while all is cached; empty: it does not."""
    left = moments.left(conversation)
    if told.call_tokens > _NEAR_WINDOW * window >= told.head + left:
        return "the window is nearly full: the client would compact in the middle of a turn"
    for above, factor in told.prices.tiers:
        if factor > 1 and told.call_tokens > above >= told.head + left:
            return f"calls of more than {above:,} tokens are dearer"
    windows = [max(0.0, call.usage.tokens_in - told.head) for call in told.calls]
    return moments.why_priced(windows, moments.cost(told.call_tokens, left))


class CompactionDoor:
    """Answers a client's compactions, and tells when one is due.

    Args:
        clock: Gives seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._sessions: OrderedDict[Path, SessionCalls] = OrderedDict()

    def moment(self, place: AgentPlace, window: int = 0) -> NextMoment:
        """Return when the conversation at a place is to be compacted, without being asked for.

        It is meant to be asked at the end of a turn. `window` are the tokens of the model's window
        (0: not known).
        """
        told = self._told(place)
        if told is None:
            return NextMoment(None, "the client does not say where its transcript is")
        return next_moment(told, self._clock(), window)

    def compact(
        self,
        told: Mapping[str, Any],
        place: AgentPlace,
        store: Path,
        way_back: str,
        *,
        waiting: Collection[str] = (),
        redact: bool = False,
    ) -> CompactedRows:
        """Return what takes the place of a conversation.

        `told` is the client's event. With `own` in it the mod asks because `moment` was due, and
        that is looked at again; `window` may say the tokens of the model's window. Raises OSError
        and StoreError where what would go out of view cannot be kept.
        """
        trigger, thread, instructions, rows = options_of(told)
        if thread and not place.thread and place.transcript is not None:
            beside = place.transcript.with_suffix("") / SIDE / f"{SIDE_CHAIN}{thread}.jsonl"
            place = replace(place, thread=thread, transcript=beside)
        now, calls, why = self._clock(), self._told(place), ""
        if told.get("own") is True and calls is not None:
            window = told.get("window")
            due = next_moment(calls, now, window if isinstance(window, int) else 0)
            if due.seconds != 0:
                return CompactedRows(due.reason, stays=True)
            trigger, why = DUE, due.reason
        asked = CompactionRequest(
            rows=rows,
            trigger=trigger,
            why=why,
            agent=place.agent,
            session=place.session,
            thread=thread or place.thread,
            folder=str(place.folder),
            instructions=instructions,
            model=(calls.model if calls else "") or place.model or "anthropic/claude",
            tokens=calls.conversation_tokens if calls else None,
            waiting=waiting,
        )
        answer = compact_rows(asked, store, way_back, now, redact=redact)
        if answer.rows is not None and calls is not None:
            with self._guard:
                calls.note_compaction()
        return answer

    def _told(self, place: AgentPlace) -> SessionCalls | None:
        path = place.transcript
        if path is None:
            return None
        with self._guard:
            told = self._sessions.pop(path, None) or SessionCalls(path)
            self._sessions[path] = told
            while len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
            told.read()
            return told
