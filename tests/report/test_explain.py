"""Why a call saw what it saw: every message before it, what became of it, and by which rule."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.engine.harness import House, Ran, cascade, phase
from tests.engine.logs import log, logs, lookup, reading
from windlass.errors import UsageError
from windlass.history.base import BORN
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


@pytest.mark.req("AC-105", "AC-2")
async def test_every_message_before_the_call_is_listed_once(house: House) -> None:
    ran = await shortened(house)
    rows = ran.rows()
    for number, recorded in enumerate(ran.calls(), start=1):
        told = decisions(ran, number)
        at = next(n for n, one in enumerate(rows) if one.row.trace_id == recorded.trace_id)
        before = [one.id for one in rows[:at] if one.id and one.row.node_type in BORN]
        ids = [one.message_id for one in told]
        assert len(ids) == len(set(ids))
        assert set(before) <= set(ids)
        sent = {one.message_id: one.tokens for one in recorded.shown}
        assert {one.message_id: one.tokens for one in told if one.tokens} == sent


async def test_what_became_of_each_and_why(house: House) -> None:
    ran = await shortened(house)
    told = decisions(ran, 3)
    assert [(one.role, one.action, one.because) for one in told] == [
        ("system", "shown", None),
        ("user", "shown", None),
        ("assistant", "shown", None),
        ("tool", "shortened", "digest"),
        ("assistant", "shown", None),
        ("tool", "shown", None),
    ]
    first, second = (one for one in told if one.role == "tool")
    assert first.reason == "tool result seen by 1 calls"
    assert (first.chars_before, second.chars_before) == (len(log("1")), len(log("2")))
    assert first.chars_after < second.chars_after == len(log("2"))
    assert first.tokens < second.tokens
    assert (first.phase, first.turn) == ("a", 1)
    results = [m for m in ran.request("a", 2).messages if m.role == "tool"]
    assert first.reference == f"result_{results[0].content_hash[:8]}"


async def test_edits_that_came_later_do_not_count(house: House) -> None:
    ran = await shortened(house)
    assert {one.action for one in decisions(ran, 2)} == {"shown"}
    assert [one.because for one in decisions(ran, 4) if one.role == "tool"] == [
        "digest",
        "digest",
        None,
    ]


async def test_another_phase_sees_what_its_sources_bring(house: House) -> None:
    ran = await shortened(house)
    told = decisions(ran, 6)
    shown = [(one.action, one.reason) for one in told if one.tokens]
    assert shown[0] == ("shown", "the system prompt")
    assert ("brought in", "output of a") in shown
    hidden = [one for one in told if one.action == "not shown"]
    assert {one.reason for one in hidden} == {"the phase's context does not include it"}
    assert len(hidden) == 10  # instructions, five answers, four results
    assert all(one.because is None and one.chars_after == 0 for one in hidden)


async def test_a_fold_names_the_message_that_tells_of_it(house: House) -> None:
    ran = await shortened(house, fold_after=1, see_results=None)
    told = decisions(ran, 5)
    folded = [one for one in told if one.action == "folded"]
    assert {one.role for one in folded} == {"tool"}
    assert {one.because for one in folded} == {"fold"}
    heads = {one.message_id: one for one in told if one.action == "shortened"}
    for one in folded:
        assert one.reason.rpartition(" ")[2] in heads


@pytest.mark.req("AC-52")
async def test_the_policy_and_what_it_has_otherwise(house: House) -> None:
    ran = await shortened(house, images_after=7)
    explained = explain_call(ran.store, ran.session, 3)
    assert explained.selection["policy"] == "lean"
    assert explained.differs == {"cuts": None, "images_after": 7}
    assert explain_call(ran.store, ran.session, 6).selection == {}
    assert explain_call(ran.store, ran.session, 6).differs == {}


async def test_what_the_planner_decided_names_the_first_message_by_its_row(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(house.folder)
    (house.folder / "windlass.toml").write_text(
        '[prices."scripted/function"]\ninput = 1\noutput = 5\ncache_read = 0.1\n'
    )
    ran = await shortened(house)
    assert explain_call(ran.store, ran.session, 2).planner is None
    explained = explain_call(ran.store, ran.session, 4)
    recorded, told = ran.calls()[3].details.planner, explained.planner
    assert recorded is not None
    assert told is not None
    assert told.row is not None
    assert asdict(told) == {**asdict(recorded), "row": told.row}
    assert recorded.verdict == "commit"
    one = explained.decisions[told.row]
    assert (one.message_id, one.action) == (recorded.message_id, "shortened")


@pytest.mark.req("AC-99")
async def test_a_switch_is_noted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_PASSTHROUGH", "1")
    ran = await shortened(house)
    (note,) = explain_call(ran.store, ran.session, 5).notes
    assert "WINDLASS_PASSTHROUGH switches it off" in note
    assert explain_call(ran.store, ran.session, 6).notes == ()


@pytest.mark.parametrize("number", [0, 7])
async def test_a_call_that_was_not_made(house: House, number: int) -> None:
    ran = await shortened(house)
    with pytest.raises(UsageError, match=f"has no call {number}; it has calls 1 to 6"):
        explain_call(ran.store, ran.session, number)
