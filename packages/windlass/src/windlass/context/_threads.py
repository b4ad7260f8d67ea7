"""Conversations that arrive as whole lists, told apart by their longest common beginning.

A list that begins with all that a thread was given goes on with it, whatever its system prompt says
by now. One that begins as a thread and then differs is a thread of its own, which takes over what
was sent of the common beginning, and what the provider counted of it: what its cache holds, and
what thinking is bound to. Messages are compared as they would be sent, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import RLock
from typing import Any, Final

from windlass.caching.breakpoints import Place
from windlass.context._bodies import OpenedRequest
from windlass.context.context import Context
from windlass.context.window import ChatWindow
from windlass.context.wrapped_calls import CallContents
from windlass.messages import Message, Text
from windlass.window.entries import Edit

_MOST_CHARS: Final = 200_000_000
"""Characters of the threads that are kept; above, those that were not used longest go."""
_MOST_THREADS: Final = 1_000


@dataclass(slots=True)
class ThreadWindow:
    """The window that a thread gave a call, and how many messages it had been given by then.

    `usage` is what the provider said of it, `answered_at` when (None: nothing so far).
    """

    count: int
    window: ChatWindow
    usage: Mapping[str, Any] | None = None
    answered_at: float | None = None


@dataclass(eq=False, slots=True)
class Thread:
    """One conversation. `number` is its place among all, `keys` tell its beginnings apart.

    `head` are the texts in front of it, `tools` tells its tools. `times` are when its messages
    came. `made` is how many calls it made, those included that it took over; `answered`: whether a
    model has said anything in it.
    """

    number: int
    context: Context
    head: Sequence[tuple[Place, str]]
    tools: bytes
    keys: list[bytes] = field(default_factory=list[bytes])
    times: list[float | None] = field(default_factory=list[float | None])
    calls: list[ThreadWindow] = field(default_factory=list[ThreadWindow])
    made: int = 0
    answered: bool = False
    chars: int = 0
    called_at: float | None = None
    """When its last call was sent, in seconds (None: it made none)."""
    unread: tuple[float, float] = (0.0, 0.0)
    """Until when its cache keeps what the last call wrote, in seconds, and what that cost more than
    the plain request, in fresh input tokens."""
    plain: bool = False
    """Whether its requests go out as they came, because the conversations before it cost more."""
    shown: dict[int, Edit] = field(default_factory=dict[int, Edit])
    """The edits that its calls showed so far, by position."""

    @property
    def drawn(self) -> float:
        """Return a number from 0 to 1, drawn by what it began with and its place among all."""
        text = self.keys[0] + str(self.number).encode() if self.keys else b""
        return int.from_bytes(blake2b(text, digest_size=4).digest()) / 2**32

    def take(
        self,
        messages: Sequence[Mapping[str, Any]],
        keys: Sequence[bytes],
        times: Sequence[float | None],
    ) -> None:
        """Append messages, with the times at which they came (None: not known)."""
        for message, at in zip(messages, times, strict=True):
            self.context.append(message if at is None else {**message, "at": at})
            self.answered = self.answered or _is_reply(message)
            self.chars += len(str(message))
        self.keys += keys
        self.times += times

    def call(self) -> ThreadWindow:
        """Say what the next call sees; the same as the last one, where nothing was said since."""
        last = self.calls[-1] if self.calls else None
        if last is not None and last.count == len(self.keys):
            window = self.context.window_again(last.window)
        else:
            window = self.context.window()
        call = ThreadWindow(len(self.keys), window)
        self.calls.append(call)
        self.made += 1
        return call

    def tell(self, call: ThreadWindow) -> None:
        """Have the next calls planned by what the provider said of one."""
        if call.usage is not None:
            self.context.report(call.usage, call.window, at=call.answered_at)


class Threads:
    """The conversations of one client.

    Args:
        begin: Makes the context of a new thread.
        clock: Seconds from any moment.
    """

    def __init__(
        self, begin: Callable[[OpenedRequest], Context], clock: Callable[[], float]
    ) -> None:
        self._begin = begin
        self._clock = clock
        self._kept: dict[Thread, None] = {}
        """In the order of their last use."""
        self._holders: dict[bytes, Thread] = {}
        """By a key of any of its beginnings, the thread that had it last."""
        self._numbers: dict[bytes, int] = {}
        """The numbers of threads that went, by the key of all that they were given."""
        self._contents: dict[int, dict[int, CallContents]] = {}
        """What was said in the calls of each thread, by its number and theirs."""
        self.count = 0
        self.lock = RLock()

    def thread(self, request: OpenedRequest) -> Thread:
        """Return the thread of a request, which has taken its messages. Hold the lock meanwhile.

        Raises what the context raises for a list that cannot be read; its thread is gone then.
        """
        keys = _keys(request)
        thread = self._going_on(request, keys) or self._new(request, keys)
        self._forget(thread)  # so that one whose messages cannot be taken is gone
        count = len(thread.keys)
        new = request.bare[count:]
        thread.take(new, keys[count:], [*[None] * (len(new) - 1), *[self._clock()] * bool(new)])
        self._holders |= dict.fromkeys(thread.keys, thread)
        self._kept[thread] = None
        self._let_go()
        thread.context.now_said([*request.head, *request.messages])
        return thread

    def answered(self, thread: Thread, call: ThreadWindow, usage: Mapping[str, Any]) -> None:
        """Take what the provider counted of a call; what it says later is added."""
        with self.lock:
            call.usage = {**(call.usage or {}), **usage}
            call.answered_at = self._clock()
            thread.tell(call)

    def without_thinking(self, thread: Thread, call: ThreadWindow) -> ThreadWindow:
        """Return a call in the place of one whose thinking was refused."""
        with self.lock:
            thread.context.thinking_refused()
            if call in thread.calls:
                thread.calls.remove(call)
                thread.made -= 1
            return thread.call()

    def drop(self, thread: Thread) -> None:
        """Forget a thread: what was sent is not what it says."""
        with self.lock:
            self._forget(thread)
            self._contents.pop(thread.number, None)

    def contexts(self) -> list[Context]:
        """Return the contexts of all threads, the one that was used last first."""
        with self.lock:
            return [thread.context for thread in reversed(self._kept)]

    def note(self, thread: Thread, contents: CallContents) -> None:
        """Keep what was said in a call of a thread, as long as the thread is kept."""
        self._contents.setdefault(thread.number, {})[contents.call.number] = contents

    def contents(self) -> dict[int, CallContents]:
        """What was said in the calls of the threads that are kept, by the numbers of the calls."""
        with self.lock:
            return {
                number: replace(contents)
                for of_thread in self._contents.values()
                for number, contents in of_thread.items()
            }

    def unread(self, at: float) -> float:
        """Return what was written for calls that may yet come, in fresh input tokens."""
        return sum(cost for until, cost in (one.unread for one in self._kept) if until >= at)

    def _going_on(self, request: OpenedRequest, keys: Sequence[bytes]) -> Thread | None:
        """Return the thread that a list goes on with."""
        for count in range(len(keys), 0, -1):
            thread = self._holders.get(keys[count - 1])
            if thread is None or thread.keys[-1] != keys[count - 1]:
                continue
            new_head = thread.head != request.head_blocks
            if new_head and not thread.answered:
                return None  # the same question, asked of somebody else
            if not thread.context.listed.goes_on_with(request.bare[count : count + 1]):
                continue
            if thread.tools != _tools_key(request) or len(thread.head) != len(request.head_blocks):
                return self._anew(thread, request)
            if new_head:
                for at in range(len(request.head)):
                    parts = [Text(text) for (own, _), text in request.head_blocks if own == at]
                    thread.context.replace_head(at, Message("system", tuple(parts)))
                thread.head = request.head_blocks
            return thread
        return None

    def _anew(self, thread: Thread, request: OpenedRequest) -> Thread:
        """Return the same thread with other tools, which stand in front of all that was cached."""
        self._forget(thread)
        return Thread(
            thread.number,
            self._begin(request),
            request.head_blocks,
            _tools_key(request),
            made=thread.made,
        )

    def _new(self, request: OpenedRequest, keys: Sequence[bytes]) -> Thread:
        """Return a thread of its own, brought where one was that began alike."""
        tools, head = _tools_key(request), request.head_blocks
        number = next((self._numbers[key] for key in reversed(keys) if key in self._numbers), None)
        if number is None:
            self.count += 1
            number = self.count
        thread = Thread(number, self._begin(request), head, tools)
        for common in range(len(keys), 0, -1):
            parent = self._holders.get(keys[common - 1])
            if parent is not None and parent.tools == tools and parent.head == head:
                self._fork(thread, parent, common, request)
                break
        return thread

    @staticmethod
    def _fork(thread: Thread, parent: Thread, count: int, request: OpenedRequest) -> None:
        """Bring a new thread where `parent` was when it had been given `count` messages."""
        for call in parent.calls:
            if call.count <= count:
                new = slice(len(thread.keys), call.count)
                thread.take(request.bare[new], parent.keys[new], parent.times[new])
                again = thread.call()
                again.usage, again.answered_at = call.usage, call.answered_at
                thread.tell(again)

    def _let_go(self) -> None:
        """Forget the threads that were not used longest, above the most that are kept."""
        chars = sum(thread.chars for thread in self._kept)
        while len(self._kept) > 1 and (len(self._kept) > _MOST_THREADS or chars > _MOST_CHARS):
            oldest = next(iter(self._kept))
            chars -= oldest.chars
            if oldest.answered:
                self._numbers[oldest.keys[-1]] = oldest.number
            self._forget(oldest)
            self._contents.pop(oldest.number, None)

    def _forget(self, thread: Thread) -> None:
        self._kept.pop(thread, None)
        for key in thread.keys:
            if self._holders.get(key) is thread:
                del self._holders[key]


def _keys(request: OpenedRequest) -> list[bytes]:
    """Return a key for each beginning of a list."""
    keys: list[bytes] = []
    before = f"{request.form}/{request.model}".encode()
    for digest in request.digests:
        before = blake2b(before + digest, digest_size=16).digest()
        keys.append(before)
    return keys


def _tools_key(request: OpenedRequest) -> bytes:
    return blake2b(repr(request.tools).encode(errors="surrogatepass"), digest_size=16).digest()


def _is_reply(message: Mapping[str, Any]) -> bool:
    """Return whether a model said a message: in the Responses form that shows by its type alone."""
    kind = str(message.get("type", ""))
    return message.get("role") in ("assistant", "model") or kind.endswith("_call")
