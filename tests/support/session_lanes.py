"""What the record says that stood before the calls of a run, beside what the run itself sent."""

from __future__ import annotations

from windlass.history.base import Store
from windlass.history.row_details import json_of
from windlass.replays.replayable import conversations_of
from windlass.report.calls import Call, SessionRecord


def stands(call: Call) -> list[str | None]:
    """The keys of what a call would be sent if all that stood before it were sent."""
    return [each.key for each in (*call.head, *call.history.messages)]


def sent(call: Call) -> list[str | None]:
    """The keys of what it was sent, but for what asks a model to go on."""
    rows = (call.session.by_id[shown.message_id] for shown in call.shown)
    return [each.key for each in rows if json_of(each.row).get("kind") != "continuation"]


def agrees_with_the_run(store: Store, session: str) -> SessionRecord:
    """Check that each call was sent what stood before it, and that the run counted the same."""
    record = SessionRecord(store, session)
    for call in record.calls:
        assert sent(call) == stands(call), call.place
        if not call.reply_details.continues:  # what asks to go on is said to this call alone
            assert call.snowball_tokens == call.sent_tokens
        assert not call.hidden or record.start.cascade.get("operators")
    return record


def replays_as_sent(record: SessionRecord) -> None:
    """Check that the calls of a session are replayed with what they were sent."""
    windows = {
        one.id: [message.key for message in talk.messages[: one.at]]
        for talk in conversations_of(record.store, record.session_id)
        for one in talk.calls
    }
    for call in record.calls:
        assert windows.pop(call.row.trace_id) == [each.message.key for each in call.seen]
    assert not windows
