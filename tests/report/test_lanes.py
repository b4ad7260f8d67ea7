"""All who ask what stood before a call are told the same, and it is what the run itself saw."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import House, call, calls, cascade, phase
from tests.history.builders import row
from tests.support.engine_soundings import PICK, judges, sounded
from tests.support.lanes import said_in, stood_before
from tests.support.report_matrix import SESSION, sessions
from tests.support.session_lanes import agrees_with_the_run, replays_as_sent
from windlass.engine.turn.record import Recorder
from windlass.history.base import StoredRow
from windlass.replays.replayable import conversations_of
from windlass.report.calls import SessionRecord
from windlass.report.exporting import export
from windlass.wire.base import Request


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


class TestRuns:
    async def test_soundings_of_a_phase_that_runs_again(self, house: House) -> None:
        reforge = {"steps": 1, "factor_per_step": 2, "honing_prompt": "Better."}
        a = sounded(soundings={**PICK, "reforge": reforge}, handoffs=["a", "b"])
        winners, said = iter([1, 4, 0, 3]), itertools.count(1)
        judged = 0

        def script(request: Request) -> Any:
            nonlocal judged
            if judges(request):
                judged += 1
                return json.dumps({"winner": next(winners)})
            if request.messages[-1].text in ("Do one.", "Do b."):
                return "done"
            target = json.dumps({"target": "a" if judged < 2 else "b"})
            return calls(call("route_to", target), text=f"answer {next(said)}")

        ran = await house.run(
            cascade(phase("one", handoffs=["a"]), a, phase("b"), system="Be."), script
        )
        assert ran.result.status == "completed"
        record = agrees_with_the_run(house.open_store(), ran.session)
        lanes = {str(call.lane) for call in record.calls}
        assert {"one#1", "a#1.0", "a#1.4", "a#2.3", "b#1"} <= lanes
        replays_as_sent(record)

    async def test_a_reply_that_was_cut(self, house: House) -> None:
        replies = {"a": [("Half of ", "length"), "the answer."]}
        ran = await house.run(cascade(phase("a"), phase("b")), replies)
        record = agrees_with_the_run(house.open_store(), ran.session)
        texts = [[seen.message.text for seen in call.seen] for call in record.calls]
        assert "Half of " in texts[1]
        assert "Half of " not in texts[2]
        assert "Half of the answer." in texts[2]
