"""A session that is read once and asked many questions: what the pages of the inspector show.

Reading a long session takes most of the time of an answer, so that its parts are kept: its record,
its calls, and, once they are asked for, its bills and what each call shares with the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

from windlass.caching.rates import priced_as
from windlass.errors import UsageError
from windlass.history.base import Store
from windlass.history.decisions import SoundingsDecided
from windlass.messages import Message
from windlass.report.account import Account, AccountTree, CallCharge
from windlass.report.advice import Advice, advise
from windlass.report.call_views import view_recorded
from windlass.report.calls import Call, SessionRecord
from windlass.report.contents import ContextReport, call_report_of
from windlass.report.explanation import Explanation, explain
from windlass.report.paid import MessageLife, PaidMessage, life_of, paid_in
from windlass.report.prefix import Prefix, PrefixBreak, breaks_of, prefixes_of, with_before
from windlass.report.session_costs import SessionReport, report_of


class InspectedSession:
    """A session of a store, read once.

    `price_as` is the model at whose prices those are told that cost nothing. Raises UsageError for
    an unknown session.
    """

    def __init__(self, store: Store, session_id: str, price_as: str) -> None:
        self.store = store
        self.session_id = session_id
        self.price_as = price_as
        self.record = SessionRecord(store, session_id)
        self.view = view_recorded(self.record)

    @cached_property
    def account(self) -> Account:
        """Return the session's own bills."""
        return Account(self.store, self.session_id, self.price_as, self.record)

    @cached_property
    def costs(self) -> Mapping[int, CallCharge]:
        """Return what each call cost, by its number."""
        return {call.number: call for call in self.account.costs}

    @cached_property
    def report(self) -> SessionReport:
        """Return what `windlass report` tells of the session, with all sessions under it."""
        return report_of(AccountTree.read(self.store, self.session_id, self.price_as, self.account))

    @cached_property
    def prefixes(self) -> tuple[Prefix, ...]:
        """Return what each call shares with the one before it."""
        return prefixes_of(self.record.calls)

    @cached_property
    def breaks(self) -> Sequence[PrefixBreak]:
        """Where the prefix broke, in order."""
        return list(breaks_of(self.record.calls, self.prefixes, self.priced_model))

    @cached_property
    def advice(self) -> Advice:
        """Return what of the last call to shorten, drop or keep."""
        calls = self.view.calls
        return advise(self.record, self.priced_model(calls[-1].model) if calls else "")

    @cached_property
    def _free(self) -> Mapping[str, bool]:
        """Return whether a model of the session costs nothing because it is not sold."""
        free: dict[str, bool] = {}
        for call in self.view.calls:
            free[call.model] = free.get(call.model, True) and call.free
        return free

    def priced_model(self, model: str) -> str:
        """Return the model at whose prices a model's calls are told."""
        return priced_as(model, self.price_as, free=self._free[model])

    def call(self, number: int) -> Call:
        """Return a call, by its number from 1. Raises UsageError where there is none."""
        return self.record.call(number)

    def before(self, number: int) -> Call | None:
        """Return the call that call `number` goes on from (None: it is the first of its kind)."""
        return self._before[number]

    @cached_property
    def _before(self) -> Mapping[int, Call | None]:
        return {call.number: before for call, before in with_before(self.record.calls)}

    def explain(self, number: int) -> Explanation:
        """Return why a call saw what it saw. Raises UsageError where there is no such call."""
        return explain(self.record, number)

    def call_report(self, number: int) -> ContextReport:
        """Return what a call cost and was made of. Raises UsageError where it was not answered."""
        found = self.costs.get(number)
        if found is None:
            raise UsageError(f"call {number} of session {self.session_id!r} was not answered")
        return call_report_of("", self.account, found)

    @cached_property
    def has_soundings(self) -> bool:
        """Return whether a phase, or the whole cascade, was answered several times at once."""
        of_phases = (SoundingsDecided.read(stored.row) for stored in self.record.rows)
        of_cascade = (child.sounding_index is not None for child in self.view.children)
        return any(of_cascade) or any(each is not None for each in of_phases)

    def media_type(self, sha256: str) -> str | None:
        """Return the kind of a picture of the session (None: it has none of that hash)."""
        said = (stored.row.message for stored in self.record.rows)
        sent = (body for call in self.record.sent_calls for body in call.bodies)
        pictures = (
            picture
            for message in chain(said, sent)
            if message is not None
            for picture in message.pictures
        )
        return next((each.media_type for each in pictures if each.sha256 == sha256), None)

    def said(self, message_id: str) -> Message:
        """Return a message as it was said."""
        message = self.record.by_id[message_id].row.message
        assert message is not None
        return message

    def paid_in(self, number: int) -> Sequence[PaidMessage]:
        """Return what each message of a call paid of its bill, in order.

        Raises UsageError where there is no such call.
        """
        call = self.call(number)
        return list(paid_in(self.record, call, self.priced_model(call.model)))

    def life(self, message_id: str) -> MessageLife:
        """Return the life of a message, by its id or the trace of its row.

        Raises UsageError where there is none.
        """
        if message_id not in self.record.by_id:
            rows = (stored for stored in self.record.rows if stored.row.trace_id == message_id)
            message_id = next((stored.id for stored in rows if stored.id), message_id)
        return life_of(self.record, self.view, self.priced_model, message_id)
