"""`windlass explain`: what became of each message at a call, as text and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.support.engine_choosing import SEVEN, TOPICS, asks, pages
from tests.support.snapshots import Snapshots
from windlass.caching.pauses import Lifetime
from windlass.cli.output import out
from windlass.cli.session_text import cache_text, planner_text
from windlass.history.details import CallDetails, MarkDetails
from windlass.report.explanation import PlannerDecision


@pytest.fixture
def shortened(windlass: CommandLine) -> CommandLine:
    """The command line in a folder where the session `s1` shortened the listing it saw."""
    windlass.write("notes.py", NOTES)
    listing = calls(call("notes", "{}"))
    again = calls(call("set_state", '{"key": "k", "value": "v"}'))
    windlass.write(
        "one.json",
        cascade(
            phase("a", tackle=["notes:notes", "set_state"]),
            auto_context={
                "free_moments": {"keep": {"share": 0.5}},
                "intra_phase": {"images_after": 7},
            },
        ),
    )
    windlass.script = by_phase({"a": [listing, again, "done"]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1")
    assert said.code == 0, said.err
    return windlass


NOTES = '''
def notes(which: int = 0) -> str:
    """List notes.

    Args:
        which: Which.
    """
    return "\\n".join(f"note {number} of {which} tells what we all know" for number in range(200))
'''


@pytest.mark.usefixtures("shortened")
def test_what_is_explained(transcript: Transcript) -> None:
    transcript("explain", "explain s1 3", "explain s1 9", "explain s9 1")


@pytest.mark.usefixtures("priced")
def test_what_is_explained_of_a_plan(transcript: Transcript) -> None:
    transcript("explain_a_plan", "explain s1 4", "show s1 --call 4")


def test_the_table_fits_a_terminal_of_120_columns(
    shortened: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "_width", 120)
    _, table, *_ = shortened("explain", "s1", "3").out.split("\n\n")
    lines = table.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 120
    assert any("result_" in line for line in lines)


def test_json_holds_every_message_with_its_numbers(shortened: CommandLine) -> None:
    told: dict[str, Any] = shortened("explain", "s1", "3", "--json").json
    assert [one["action"] for one in told["decisions"]] == [
        *("shown", "shown", "shortened", "shown", "shown")
    ]
    wanted = {"reason", "chars_before", "chars_after", "tokens", "reference", "message_id"}
    assert all(wanted <= set(one) for one in told["decisions"])
    assert told["selection"]["semantic_actor"] == "auto_context"
    assert told["differs"]["images_after"] == 7
    assert told["call"]["sent_tokens"] < told["call"]["snowball_tokens"]


@pytest.fixture
def priced(windlass: CommandLine) -> CommandLine:
    """The same where the model has a cache with a price, and four listings are read."""
    windlass.write("notes.py", NOTES)
    windlass.write("windlass.toml", PRICES)
    several = [calls(call("notes", json.dumps({"which": which}))) for which in range(4)]
    windlass.write("one.json", cascade(phase("a", tackle=["notes:notes"]), auto_context=WHOLE))
    windlass.script = by_phase({"a": [*several, "done"]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1")
    assert said.code == 0, said.err
    return windlass


WHOLE = {"intra_phase": {"cuts": None}}
"""Listings are shown whole once."""
PRICES = """
[prices."scripted/function"]
input = 1.0
output = 5.0
cache_read = 0.1
cache_write = 1.25
"""


def test_a_decision_of_the_planner_can_be_checked_by_hand(priced: CommandLine) -> None:
    said = priced("explain", "s1", "4")
    lines = said.out.splitlines()
    at = lines.index("planner: commit from message 4 on, because it pays:")
    found = SUM.fullmatch(lines[at + 1])
    assert found is not None, lines[at + 1]
    n, r, removed, over, stay, put, gain = (float(one.replace(",", "")) for one in found.groups())
    assert (n, r, over) == (10, 0.1, 1.15)
    assert round(n * r * removed - over * (stay + put)) == gain > 0
    (row,) = (line for line in lines if line.split()[:2] == ["4", "tool"])
    assert "shortened: digest" in row
    assert all(len(line) <= 120 for line in lines[at : at + 2])


SUM = re.compile(
    r"N \* r \* D - \(w - r\) \* \(S \+ d\)"
    r" = (\S+) \* (\S+) \* (\S+) - (\S+) \* \((\S+) \+ (\S+)\) = (\S+) tokens' worth"
)


def test_tells_where_the_marks_stood_and_why_one_is_kept_for_an_hour() -> None:
    lifetime = Lifetime(long=True, pauses=2, calls=8, to_come=2.5)
    marks = MarkDetails(((-1, 2), (0, 0), (7, 1)), ((0, 0),), lifetime)
    assert cache_text(CallDetails(marks=marks)) == (
        "cache marks (message.part; -1 is the tools): -1.2, 0.0, 7.1; 0.0 for an hour, because"
        " after 2 long pauses in 8 calls 2.5 more are expected"
    )
    assert cache_text(CallDetails()) == ""


def test_json_holds_the_planners_decision(priced: CommandLine) -> None:
    told: dict[str, Any] = priced("explain", "s1", "4", "--json").json
    planned = told["planner"]
    assert (planned["verdict"], planned["row"], planned["calls"]) == ("commit", 4, 10)
    assert told["decisions"][4]["message_id"] == planned["message_id"]
    assert priced("explain", "s1", "1", "--json").json["planner"] == {}


TOLD = PlannerDecision(
    verdict="defer",
    row=3,
    calls=10,
    read=0.1,
    write=1.25,
    removed=100,
    stay=1_200,
    put=300,
    gain=-1_625.0,
    waiting=2,
)


def test_what_the_planner_decided_in_words(snapshots: Snapshots) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"calls": 30.5, "removed": 1_000, "gain": 1_325.0, "waiting": 1},
        {"removed": 0},
        {"verdict": "cold"},
        {"verdict": "quiet"},
        {"verdict": "new", "row": None},
    ]
    texts = (planner_text(replace(TOLD, **change)) for change in changes)
    snapshots.check("planner", "\n\n".join(texts) + "\n")


def chosen_by(windlass: CommandLine, **selection: Any) -> list[dict[str, Any]]:
    """What became of each message at the call of a phase that chose from seven pages."""
    windlass.write(
        "choose.json",
        cascade(
            *SEVEN,
            asks("last", "rivers"),
            auto_context={"commit": "at_once", "inter_phase": {"selection": selection}},
        ),
    )
    windlass.script = by_phase(pages(*TOPICS))  # type: ignore[assignment]
    said = windlass("run", "choose.json", "--session", "s1")
    assert said.code == 0, said.err
    decisions: list[dict[str, Any]] = windlass("explain", "s1", "8", "--json").json["decisions"]
    return decisions


@pytest.mark.parametrize(
    ("selection", "why"),
    [({"max_messages": 1}, "limit"), ({"max_tokens": 2_000}, "budget"), ({}, "budget")],
)
def test_what_was_not_chosen_has_score_rank_and_why(
    windlass: CommandLine, selection: dict[str, Any], why: str
) -> None:
    decisions = chosen_by(windlass, strategy="heuristic", **selection)
    left = [one for one in decisions if one["action"] == "not shown"]
    assert len(left) >= 2
    assert why in {one["not_chosen"] for one in left}
    assert {one["not_chosen"] for one in left} <= {"budget", "limit", "threshold", "repeat"}
    assert all(isinstance(one["score"], float) for one in left)
    ranked = sorted((one["rank"], -one["score"]) for one in left if one["rank"] is not None)
    assert [score for _, score in ranked] == sorted(score for _, score in ranked)
    assert not any(one["rank"] for one in decisions if one["action"] != "not shown")
    text = " ".join(windlass("explain", "s1", "8").out.split())
    best = min((one for one in left if one["rank"]), key=lambda one: one["rank"])
    assert f"(score {best['score']:g}, rank {best['rank']})" in text
    assert text.count("not chosen: ") == len(left)


def test_recall_is_named_only_where_there_is_one(shortened: CommandLine) -> None:
    """A window that shortens offers it; results that expire are gone for good."""
    assert "recall(reference)" in shortened("explain", "s1", "3").out
    expires = phase("a", tackle=["notes:notes", "set_state"], context_ttl={"tool_results": 1})
    shortened.write("expires.json", cascade(expires))
    replies = [
        calls(call("notes", "{}")),
        *(calls(call("set_state", f'{{"key": "k", "value": {number}}}')) for number in range(2)),
        "done",
    ]
    shortened.script = by_phase({"a": replies})  # type: ignore[assignment]
    assert shortened("run", "expires.json", "--session", "s2").code == 0
    told = shortened("explain", "s2", "4")
    assert "shortened: expire" in told.out
    assert "recall" not in told.out
