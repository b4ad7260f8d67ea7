"""A cascade that runs another: what the child sees, and what comes back."""

from __future__ import annotations

import pytest

from tests.examples.conftest import Play
from windlass.history.base import SessionFilter
from windlass.history.sqlite import SqliteStore


@pytest.mark.req("CI-50", "CI-51")
def test_the_child_sees_the_plan_and_gives_back_what_it_read(play: Play) -> None:
    answers = {"plan": ["To get a new one."], "topic": ["A lamp."], "tone": ["Upset."]}
    run = play("sub_cascades/answer_mail.yaml", answers)
    assert (run.result.status, run.result.error) == ("completed", None)
    plan, asked = run.saw("topic")
    assert plan["content"].endswith("To get a new one.")
    assert asked["content"].endswith("The lamp of my order came broken.")
    *_, asked = run.saw("answer")
    assert asked["content"].endswith("It is about: A lamp. The customer: Upset.")
    assert run.result.state == {"topic": "A lamp."}
    with SqliteStore.open_existing(run.store) as store:
        (child,) = store.sessions(SessionFilter(under=(run.result.session_id,)))
        assert (child.cascade_id, child.parent_phase, child.calls) == ("read_mail", "answer", 2)
        assert list(store.verify()) == []
