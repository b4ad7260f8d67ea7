"""Why a call saw what it saw: every message before it, what became of it, and by which rule."""

from __future__ import annotations

import pytest

from tests.engine.harness import House, Ran, cascade, phase
from tests.engine.logs import logs, lookup, reading
from windlass.report.explanation import MessageDecision, explain_call


def decisions(ran: Ran, number: int) -> tuple[MessageDecision, ...]:
    """What became of each message at a call of the session."""
    return explain_call(ran.store, ran.session, number).decisions


async def shortened(house: House, **options: object) -> Ran:
    """A run whose first phase shortens results, and whose second reaches back to it."""
    return await house.run(
        cascade(
            lookup(intra_context={"profile": "lean", "cuts": None, **options}),
            phase("b", context={"from": ["a"]}),
            system="Be.",
        ),
        reading("1", "2", "3", "4"),
        tools=[logs()],
    )


@pytest.mark.req("AC-99")
async def test_a_switch_is_noted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_PASSTHROUGH", "1")
    ran = await shortened(house)
    (note,) = explain_call(ran.store, ran.session, 5).notes
    assert "WINDLASS_PASSTHROUGH switches it off" in note
    assert explain_call(ran.store, ran.session, 6).notes == ()
