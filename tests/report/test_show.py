"""What a call saw, told from the record alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.history.builders import call as recorded
from tests.history.builders import row, start
from tests.strategies import png
from windlass.errors import UsageError
from windlass.history.base import Batch
from windlass.history.details import CacheDetails
from windlass.history.sqlite import SqliteStore
from windlass.messages import assistant
from windlass.report.call_views import view_session
from windlass.report.calls import SessionRecord


def tell() -> str:
    """Tell something long."""
    return "long " * 500


def test_json_has_what_other_versions_say_of_a_call(tmp_path: Path) -> None:
    said = {"edits": 3, "of a later version": {"x": None}, "cache": {"reported": 9, "cold": True}}
    with SqliteStore(tmp_path) as store:
        reply = row(assistant("Lamps."))
        sent = recorded([], trace_id=reply.trace_id, stored_json=json.dumps(said))
        store.append(Batch("s", start=start(), rows=[reply], calls=[sent]))
        (told,) = SessionRecord(store, "s").calls
    assert told.as_json()["details"] == said
    assert told.details.cache == CacheDetails(reported=9)


class TestCalls:
    async def test_hold_exactly_what_was_sent(self, house: House) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["tell"], context_ttl={"tool_results": 1}),
                phase("b", context={"from": ["a"]}),
                phase("c", inject_from=["a"], position="end"),
                system="Be.",
            ),
            {"a": [calls(call("tell")), calls(call("tell")), "end"]},
            tools=[tell],
        )
        session = view_session(house.open_store(), ran.session)
        assert len(session.calls) == len(ran.model.requests)
        for view, request in zip(session.calls, ran.model.requests, strict=True):
            assert tuple(seen.message for seen in view.seen) == request.messages
            assert view.tool_names == tuple(spec.name for spec in request.tools)
            assert sum(seen.tokens for seen in view.seen) <= view.sent_tokens == view.tokens_in
            for seen in view.seen:
                assert (seen.original is None) is (seen.because is None)
                assert seen.reason
        assert [seen.because for seen in session.calls[2].seen if seen.because] == ["expire"]

    async def test_count_what_was_said_and_not_shown(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c", context={"from": ["b"]}), system="Be.")
        )
        session = view_session(ran.store, ran.session)
        assert [dict(view.hidden) for view in session.calls] == [{}, {}, {"a": 2, "b": 2}]

    async def test_are_numbered_from_one(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b")))
        session = SessionRecord(ran.store, ran.session)
        assert session.call(2).phase == "b"
        for number in (0, 3):
            with pytest.raises(UsageError, match="it has calls 1 to 2"):
                session.call(number)

    async def test_pictures_have_a_file_to_look_at(self, house: House) -> None:
        def draw() -> bytes:
            """Draw."""
            return png()

        ran = await house.run(
            cascade(phase("a", tackle=["draw"]), phase("b", context={"from": ["a"]})),
            {"a": [calls(call("draw")), "end"]},
            tools=[draw],
        )
        session = view_session(ran.store, ran.session)
        (file,) = session.pictures.values()
        assert file.name == "image_0.png"
        assert file.read_bytes() == png()
        shown = {part.sha256 for seen in session.calls[-1].seen for part in seen.message.pictures}
        assert shown == set(session.pictures)


class TestSessions:
    async def test_tell_decisions_validations_and_errors_as_notes(self, house: House) -> None:
        def judge(output: str) -> dict[str, object]:
            """Judge."""
            return {"valid": False, "reason": "no good"}

        rules = {"loop_until": "judge", "max_attempts": 1}
        source = {"phase": "a", "if": "no"}
        ran = await house.run(
            cascade(phase("a"), phase("b", rules=rules, context={"from": [source]})), tools=[judge]
        )
        session = view_session(ran.store, ran.session)
        assert session.status == "failed"
        assert session.error == str(ran.result.error)
        assert [(note.node_type, note.phase) for note in session.notes] == [
            ("decision", "b"),
            ("validation", "b"),
            ("error", "b"),
        ]
        texts = [note.text for note in session.notes]
        assert "skipped: its condition 'no' is false" in texts[0]
        assert texts[1] == "attempt 1 refused: no good"
        assert "used up its 1 attempts" in texts[2]

    async def test_that_made_no_call(self, house: House) -> None:
        ran = await house.run(cascade({"name": "a", "instructions": "{{ state.x }}"}))
        session = SessionRecord(ran.store, ran.session)
        assert session.calls == ()
        with pytest.raises(UsageError, match="it made none"):
            session.call(1)

    async def test_an_unknown_one_is_told_with_the_nearest(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")), session_id="monday")
        with pytest.raises(UsageError, match="did you mean 'monday'"):
            view_session(ran.store, "mondai")
