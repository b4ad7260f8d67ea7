"""Holders that soundings fork: each field has a stated fate, and so has each that is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pytest

from windlass.caching.meter import Meter
from windlass.caching.prices import UNCACHED
from windlass.engine._session_state import (
    ModelCache,
    ModelCaches,
    Ran,
    Route,
    SessionState,
    SessionTotals,
    Visit,
)
from windlass.engine.injecting.injected import Injected, UserContext
from windlass.wire.base import Usage

Fate: TypeAlias = Literal["copied", "shared", "fresh"]


@dataclass(frozen=True)
class Holder:
    """How a holder is filled, and what becomes of each of its fields when it is forked.

    `adopted` are those that the whole takes over from the fork that is taken.
    """

    make: Callable[[], Any]
    forked: Mapping[str, Fate]
    adopted: frozenset[str]


def session() -> SessionState:
    return SessionState(
        readable=(Path("a"),),
        state={"a": 1},
        outputs={"a": object()},  # type: ignore[dict-item]
        edits={"a": object()},  # type: ignore[dict-item]
        callouts={"a": "b"},
        remembered=[lambda: None],
        choosing=object(),
        said_in=object(),  # type: ignore[arg-type]
        last_phase=object(),  # type: ignore[arg-type]
        route=Route("a", "model"),
        ran=[Ran("a", 1, "completed", hidden=False)],
        below=[object()],  # type: ignore[list-item]
        visit=Visit("a"),
    )


def injected() -> Injected:
    return Injected(
        placed={"a": object()},  # type: ignore[dict-item]
        attached={"a": object()},  # type: ignore[dict-item]
        failures=(object(),),  # type: ignore[arg-type]
        touched={object(): frozenset("a")},  # type: ignore[dict-item]
        skills=("a",),
        context=UserContext("a", None, (), {}),
        kept={"a": Meter(UNCACHED)},
        dropped={"a": Meter(UNCACHED)},
        described={"a": "b"},
        files=["a"],
        warned={"a"},
    )


HOLDERS: Final = {
    "session": Holder(
        session,
        {
            "readable": "shared",  # a tuple: who adds to it makes another
            "state": "copied",
            "outputs": "copied",
            "edits": "copied",
            "callouts": "copied",
            "below": "copied",
            "remembered": "fresh",
            "choosing": "fresh",
            "said_in": "shared",
            "last_phase": "shared",
            "route": "fresh",
            "ran": "shared",
            "visit": "shared",
        },
        # State, edits and output are taken over where the phase ends, as those of any phase.
        frozenset({"readable", "callouts", "below"}),
    ),
    "injected": Holder(
        injected,
        {
            "placed": "shared",
            "attached": "copied",
            "failures": "shared",
            "touched": "copied",
            "skills": "shared",
            "context": "copied",
            "kept": "copied",
            "dropped": "copied",
            "described": "copied",
            "files": "copied",
            "warned": "shared",
        },
        frozenset(
            {
                "attached",
                "failures",
                "touched",
                "skills",
                "context",
                "kept",
                "dropped",
                "described",
                "files",
            }
        ),
    ),
    "caches": Holder(
        lambda: ModelCaches({"a": ModelCache("a", UNCACHED, "")}, [("a", 1)]),
        {"by_model": "copied", "previous": "copied"},
        frozenset({"previous"}),
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_each_field_is_copied_shared_or_fresh_as_it_is_said(name: str) -> None:
    holder = HOLDERS[name]
    whole = holder.make()
    assert {field.name for field in fields(whole)} == set(holder.forked), "say what becomes of it"
    fork, empty = whole.fork(), type(whole)()
    for field, fate in holder.forked.items():
        ours, theirs = getattr(whole, field), getattr(fork, field)
        assert ours, "the test fills it"
        match fate:
            case "shared":
                assert theirs is ours
            case "copied":
                assert theirs is not ours
                assert type(theirs) is type(ours)
                if isinstance(ours, dict | list):
                    assert list(theirs) == list(ours)
            case "fresh":
                assert theirs == getattr(empty, field)


@pytest.mark.parametrize("name", HOLDERS)
def test_the_whole_takes_over_what_it_is_said_to(name: str) -> None:
    holder = HOLDERS[name]
    whole = holder.make()
    before = {field: getattr(whole, field) for field in holder.forked}
    taken = holder.make()
    whole.adopt(taken)
    for field in holder.forked:
        expected = getattr(taken, field) if field in holder.adopted else before[field]
        assert getattr(whole, field) is expected, field


def test_caches_of_the_fork_that_is_taken_go_on_with_the_sums_of_all() -> None:
    whole = ModelCaches({"a": ModelCache("a", UNCACHED, "", spent=5.0, spent_whole=7.0)})
    taken, other = whole.fork(), whole.fork()
    taken.by_model["a"].spent += 1.0
    other.by_model["a"].spent_whole += 2.0
    other.by_model["b"] = ModelCache("b", UNCACHED, "", spent=3.0)
    whole.add_spent(taken)
    whole.add_spent(other)
    whole.adopt(taken)
    assert whole.by_model["a"] is taken.by_model["a"]
    assert (whole.by_model["a"].spent, whole.by_model["a"].spent_whole) == (6.0, 9.0)
    assert whole.by_model["b"].spent == 3.0


def test_totals_of_a_fork_begin_at_nothing_and_go_on_counting_calls() -> None:
    whole = SessionTotals(calls=2, usage=Usage(10, 1), cost=1.0, saved_tokens=3)
    fork = whole.fork()
    assert (fork.calls, fork.usage, fork.cost, fork.saved_tokens) == (0, Usage(0, 0), 0.0, 0)
    fork.calls += 1
    fork.add(Usage(5, 1), 0.5, saved_tokens=4)
    assert fork.call_number == 3
    whole.add_all(fork)
    assert whole == SessionTotals(calls=3, usage=Usage(15, 2), cost=1.5, saved_tokens=7)
    whole.add(Usage(0, 0), None)
    assert whole.cost is None
