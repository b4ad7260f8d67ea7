"""The requests of a session as a policy would have shortened them: windows, made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.caching.prices import Prices
from windlass.history.lanes import Lane
from windlass.ledger.windows import NewSegments
from windlass.report._requests import Requests
from windlass.report.calls import Call, SessionRecord
from windlass.text.tokens import FamilyCounter
from windlass.window.conversation import Conversation
from windlass.window.entries import Entry, Item
from windlass.window.options import Policy
from windlass.window.steps import holds_thinking, planner_of, steps
from windlass.window.window_rules import WindowRules


class ShortenedRequests(Requests):
    """What was sent, shortened by a policy as the phases' windows would have been.

    A conversation goes on as long as calls are sent all that the one before was.
    """

    def __init__(
        self, record: SessionRecord, counter: FamilyCounter, policy: Policy, prices: Prices
    ) -> None:
        super().__init__(record, counter)
        self._policy = policy
        self._prices = prices
        self._of_lanes: dict[Lane, _Appended] = {}
        self._entries: Sequence[Entry] = ()

    def new(self, call: Call) -> NewSegments:
        """Return what is new in the request of a call."""
        has_same_head = self.is_same_head(call.tools)
        known = self._conversation_of(call)
        if not has_same_head:
            known.conversation.cool()
        at = None if call.free else call.row.timestamp
        for shown in call.shown[len(known.ids) :]:
            row = self.record.by_id[shown.message_id].row
            message = self.record.sent(shown)[1]
            item = Item(shown.message_id, message, row.node_type, row.phase, row.turn, row.attempt)
            known.conversation.append(item, at=at)
            known.ids.append(shown.message_id)
        entries = known.conversation.window().entries
        pairs = enumerate(zip(entries, self._entries, strict=False))
        differing = (at for at, (now, was) in pairs if now is not was)
        same = next(differing, min(len(entries), len(self._entries))) if has_same_head else 0
        self._entries = entries
        pieces = [self.weighed(each.message.key, each.message) for each in entries[same:]]
        return self.with_head(
            same, pieces, [each.item.id for each in entries[same:]], same=has_same_head
        )

    def _conversation_of(self, call: Call) -> _Appended:
        """The conversation that the call goes on with: its lane's, or that which this continues."""
        ids = [shown.message_id for shown in call.shown]
        known = next(
            (self._of_lanes[lane] for lane in call.lane.chain() if lane in self._of_lanes), None
        )
        if known is None or known.ids != ids[: len(known.ids)]:
            known = _Appended(self._conversation(call.row.model or ""), [])
        self._of_lanes[call.lane] = known
        return known

    def _conversation(self, model: str) -> Conversation:
        return Conversation(
            steps(self._policy, prices=self._prices),
            planner_of(self._policy, self._prices),
            WindowRules(holds=holds_thinking(self._policy, model)),
        )


class _Appended(NamedTuple):
    """A conversation, and the ids of what was appended to it."""

    conversation: Conversation
    ids: list[str]
