"""Conversations that arrive as whole lists, told apart by their longest common beginning.

A list that begins with all that a thread was given goes on with it. One that begins as a thread
and then differs is a thread of its own, which takes over what was sent of the common beginning,
and what the provider counted of it: what its cache holds, and what thinking is bound to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from threading import Lock
from typing import Any, Final

from windlass.context.context import Context
from windlass.context.window import ChatWindow
from windlass.wire.forms import FormName

_MOST: Final = 64
"""Threads that are kept; of more the one that was not used longest goes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a thread takes it.

    `head` is what stands in front of the list (None: nothing), `messages` are the list, `tools`
    the caller's.
    """

    form: FormName
    model: str
    head: Mapping[str, Any] | None
    messages: Sequence[Any]
    tools: Sequence[Any]


@dataclass(slots=True)
class Call:
    """A call of a thread: how many messages it had been given, when, and its window.

    `usage` is what the provider said of it, `answered_at` when (None: nothing so far).
    """

    count: int
    window: ChatWindow
    usage: Mapping[str, Any] | None = None
    answered_at: float | None = None


@dataclass(eq=False, slots=True)
class Thread:
    """One conversation. `key` is what never changes in it, `number` its place among all."""

    number: int
    key: object
    context: Context
    said: list[Any] = field(default_factory=list[Any])
    calls: list[Call] = field(default_factory=list[Call])

    def take(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Append messages, with the times that they bring."""
        for message in messages:
            self.context.append(message)

    def call(self) -> Call:
        """What the next call sees; the same as the last one, where nothing was said since."""
        last = self.calls[-1] if self.calls else None
        same = last is not None and last.count == len(self.said)
        window = last.window if last is not None and same else self.context.window()
        call = Call(len(self.said), window)
        self.calls.append(call)
        return call

    def tell(self, call: Call) -> None:
        """Have the next calls planned by what the provider said of one."""
        if call.usage is not None:
            self.context.report(call.usage, call.window, at=call.answered_at)


class Threads:
    """The conversations of one client.

    Args:
        begin: Makes the context of a new thread.
        clock: Seconds from any moment.
    """

    def __init__(self, begin: Callable[[Asked], Context], clock: Callable[[], float]) -> None:
        self._begin = begin
        self._clock = clock
        self._kept: list[Thread] = []
        self._count = 0
        self._lock = Lock()

    def call(self, asked: Asked) -> tuple[Thread, Call]:
        """The thread of a request, and what it should see.

        Raises what the context raises for a list that cannot be read; its thread is gone then.
        """
        key = asked.form, asked.model, asked.head, list(asked.tools)
        said = list(asked.messages)
        with self._lock:
            thread = self._thread(asked, key, said)
            new = said[len(thread.said) :]
            if new:
                new[-1] = {**new[-1], "at": self._clock()}
            thread.take(new)
            thread.said = said
            call = thread.call()
            self._kept.insert(0, thread)
            del self._kept[_MOST:]
            return thread, call

    def answered(self, thread: Thread, call: Call, usage: Mapping[str, Any]) -> None:
        """Take what the provider counted of a call; what it says later is added."""
        with self._lock:
            call.usage = {**(call.usage or {}), **usage}
            call.answered_at = self._clock()
            thread.tell(call)

    def without_thinking(self, thread: Thread) -> Call:
        """A call in the place of the last one, whose thinking was refused."""
        with self._lock:
            thread.context.thinking_refused()
            thread.calls.pop()
            return thread.call()

    def drop(self, thread: Thread) -> None:
        """Forget a thread: what was sent is not what it says."""
        with self._lock:
            self._kept = [one for one in self._kept if one is not thread]

    def contexts(self) -> list[Context]:
        """The contexts of all threads, the one that was used last first."""
        with self._lock:
            return [thread.context for thread in self._kept]

    def _thread(self, asked: Asked, key: object, said: Sequence[Any]) -> Thread:
        """The thread that a list goes on with, taken out of those that are kept."""
        same = [thread for thread in self._kept if thread.key == key]
        common = [sum(1 for _ in takewhile(bool, map(eq, one.said, said))) for one in same]
        for thread, length in zip(same, common, strict=True):
            new = said[length:]
            if length == len(thread.said) and thread.context.goes_on_with(new[:1]):
                self._kept.remove(thread)
                return thread
        self._count += 1
        thread = Thread(self._count, key, self._begin(asked))
        longest = max(common, default=0)
        if longest:
            self._fork(thread, same[common.index(longest)], longest)
        return thread

    @staticmethod
    def _fork(thread: Thread, parent: Thread, count: int) -> None:
        """Bring a new thread where `parent` was when it had been given `count` messages."""
        ahead = len(thread.context.appended)  # what stands in front of every list
        given = parent.context.appended[ahead:]
        for call in parent.calls:
            if call.count <= count:
                thread.take(given[len(thread.said) : call.count])
                thread.said = parent.said[: call.count]
                again = thread.call()
                again.usage, again.answered_at = call.usage, call.answered_at
                thread.tell(again)
