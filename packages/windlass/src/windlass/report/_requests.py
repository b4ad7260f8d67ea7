"""The requests of a session, each told as what is new in it against the one before.

As they were sent, and as a plain snowball would have sent them; `shortened.py` has them under a
policy. So bills of a long session take as long as its messages, and not as the sum of its requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.caching.meter import Segments
from windlass.history.base import ShownMessage, StoredRow
from windlass.history.lanes import History
from windlass.ledger.windows import NewSegments
from windlass.messages import Message, canonical_json
from windlass.report.calls import Call, SessionRecord, tokens_of_tools
from windlass.text.tokens import FamilyCounter
from windlass.window.entries import INJECT

TOOLS: Final = "tools"
"""What the definitions of the tools are called among the pieces of a request."""


class Requests(ABC):
    """The requests of a model."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        self.record = record
        self.counter = counter
        self._tools: Sequence[Mapping[str, Any]] | None = None
        self._head = ("", 0)

    def weighed(self, key: str, message: Message) -> tuple[str, int]:
        """Return a message as a piece."""
        return key, self.record.tokens(self.counter, message)

    def is_same_head(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the tools, which stand first, are those of the request before."""
        if self._tools is not None and (tools is self._tools or tools == self._tools):
            return True
        tokens = tokens_of_tools(self.counter, tools) + self.record.missing(self.counter)
        self._tools, self._head = tools, (f"tools:{canonical_json(list(tools))}", tokens)
        return False

    def with_head(
        self, kept: int, pieces: Segments, names: list[str], *, same: bool
    ) -> NewSegments:
        """Return the pieces behind the tools, or with them where they are new."""
        if same:
            return NewSegments(1 + kept, pieces, names)
        return NewSegments(0, [self._head, *pieces], [TOOLS, *names])

    @abstractmethod
    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""


class SentRequests(Requests):
    """What was sent; `because` names what edited each message that was not sent as it was said."""

    def __init__(self, record: SessionRecord, counter: FamilyCounter) -> None:
        super().__init__(record, counter)
        self._shown: Sequence[ShownMessage] = ()
        self.because: dict[str, str] = {}

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        same = 0
        if has_same_head := self.is_same_head(call.tools):
            pairs = zip(call.shown, self._shown, strict=False)
            differing = (at for at, (now, was) in enumerate(pairs) if now is not was and now != was)
            same = next(differing, min(len(call.shown), len(self._shown)))
        self._shown = call.shown
        more = call.shown[same:]
        for shown in more:
            if shown.because is not None:
                edits = [name for name in shown.because.split(", ") if name != INJECT]
                self.because.update((shown.message_id, name) for name in edits)
        pieces = [self.weighed(*self.record.sent(shown)) for shown in more]
        return self.with_head(
            same, pieces, [shown.message_id for shown in more], same=has_same_head
        )


class SnowballRequests(Requests):
    """What a snowball would have sent."""

    _stood: Sequence[StoredRow] = ()
    _history = History((), 0, (), 0)

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        before, now = self._history, call.history
        goes_on = self.is_same_head(call.tools) and now.said is before.said
        goes_on = goes_on and [each.key for each in call.head] == [each.key for each in self._stood]
        begin = before.born if goes_on else 0
        more = [*(() if goes_on else call.head), *now.said[begin : now.born]]
        pieces = [self.weighed(str(each.key), _message(each)) for each in more]
        self._stood, self._history = call.head, now
        return self.with_head(
            len(call.head) + begin, pieces, [str(each.id) for each in more], same=goes_on
        )


def _message(stored: StoredRow) -> Message:
    return stored.row.message or Message("user")
