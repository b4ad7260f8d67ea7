"""What a call saw, told from the record alone."""

from __future__ import annotations

from tests.engine.harness import House, cascade, phase
from windlass.report.call_views import view_session


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
