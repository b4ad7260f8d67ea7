"""All who ask what stood before a call are told the same, and it is what the run itself saw."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.history.builders import row
from tests.support.lanes import said_in, stood_before
from tests.support.report_matrix import SESSION, sessions
from windlass.engine.turn.record import Recorder
from windlass.history.base import StoredRow
from windlass.replays.replayable import conversations_of
from windlass.report.calls import SessionRecord
from windlass.report.exporting import export


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_all_readers_say_what_the_slow_definition_says(data: st.DataObject) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        data.draw(sessions(Path(folder))) as store,
    ):
        record = SessionRecord(store, SESSION)
        for one in record.calls:
            said = said_in(stood_before(record.rows, one.stored))
            assert one.history.messages == said
            seen = {shown.message_id for shown in one.shown}
            hidden = Counter(each.row.phase for each in said if each.id not in seen)
            assert one.hidden == hidden
        after = StoredRow(len(record.rows) + 1, SESSION, None, None, row(phase="z"))
        end = stood_before(record.rows, after)
        recorder = Recorder(store, SESSION, lambda: 0.0, lambda: "")
        assert recorder.rows() == end
        assert [item.id for item in recorder.items()] == [each.id for each in said_in(end)]
        exported = json.loads("".join(export(store, SESSION, "openai")))["messages"]
        kept = [one for one in exported if one["role"] != "system"]
        assert len(kept) == len(said_in(end))
        replayed = [one.id for talk in conversations_of(store, SESSION) for one in talk.calls]
        assert sorted(replayed) == sorted(one.row.trace_id for one in record.calls)
