"""One conversation of an agent: what its model has in view, and how the next result is shown.

The decision is that of `Context`, as in any agent loop, with a policy that only shortens what no
call has seen. An earlier result is referred to only while the model still has it in view: the
transcript tells when the user went back, or when the conversation was compacted.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from windlass.caching.prices import Prices
from windlass.caching.rates import Override, override, prices_of
from windlass.context.context import Context
from windlass.context.lists import Chat
from windlass.hooks._earlier import EarlierResults
from windlass.hooks._tail import Tail
from windlass.hooks.agent_events import AgentPlace, SeenCall, ToolEvent
from windlass.messages import Message, Text, user
from windlass.safety.redaction import redacted_text
from windlass.text.tokens import FamilyCounter
from windlass.window.entries import Because, Replace
from windlass.window.options import Policy
from windlass.window.originals import REF, reference

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
    """The model's prices, as they are behind a system prompt and tools: these are never short.

    An agent's are longer than the shortest prefix that a cache keeps. None: no model is known.
    """
    return None if model is None else replace(prices_of(model, warn=lambda _: None), minimum=0)
