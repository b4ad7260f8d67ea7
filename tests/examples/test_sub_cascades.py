"""A cascade that runs another: what the child sees, and what comes back."""

from __future__ import annotations

import pytest

from tests.examples.conftest import Play, is_call
from windlass.history.base import SessionFilter
from windlass.history.sqlite import SqliteStore


@pytest.mark.req("CI-50", "CI-51")
def test_the_child_sees_the_plan_and_gives_its_fact_back(play: Play) -> None:
    fact = "Five minutes."
    run = play("sub_cascades/answer_mail.yaml", {"plan": ["The lifetime."], "fact": [fact]})
    assert (run.result.status, run.result.error) == ("completed", None)
    plan, asked = run.saw("search")
    assert plan["content"].endswith("The lifetime.")
    assert "How long does a cached prefix live with Anthropic?" in asked["content"]
    assert is_call(run.saw("search", 2)[2], "web_search")
    *_, asked = run.saw("answer")
    assert asked["content"].endswith(f"if it helps: {fact}")
    assert run.result.state == {"fact": fact}
    with SqliteStore.open_existing(run.store) as store:
        (child,) = store.sessions(SessionFilter(under=(run.result.session_id,)))
        assert (child.cascade_id, child.parent_phase, child.calls) == ("find_fact", "answer", 3)
        assert list(store.verify()) == []
