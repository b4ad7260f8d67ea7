"""The ten-phase session that chooses, small: recorded calls replayed, and what it measures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.bench_auto import VARIANTS, lines_of, table
from bench.scenarios import content
from bench.scenarios.recorded import PHASES, sessions_in
from bench.windows.recordings import Chat, Recording

from windlass.replays.pricing import VECTORS


def recorded(count: int, *, size: int = 16_000) -> Recording:
    """A run of so many calls: each reads a listing and names a record of the one before."""
    messages: list[Chat] = [
        {"role": "system", "content": "You check records."},
        {"role": "user", "content": "Check the records of each page for {{ braces }}."},
    ]
    named = "page_0"
    for number in range(count):
        records = content.properties(size).replace("prop_", f"page{number}_")
        arguments: dict[str, Any] = {"page": number, "because_of": named}
        function = {"name": "read.page", "arguments": json.dumps(arguments)}
        asked = {"id": f"c{number}", "type": "function", "function": function}
        text = f"I read page {number} because of a record."
        messages.append({"role": "assistant", "content": text, "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": records})
        named = json.loads(records)[7]["property_id"]
    return Recording("made/1", "test", tuple(messages))


def test_a_run_is_cut_into_ten_phases() -> None:
    (made,) = sessions_in(recorded(24), 2)
    phases = made.cascade["phases"]
    assert len(phases) == 10
    assert len(made.replies) == 20
    assert all(phase["rules"]["max_turns"] == 2 for phase in phases)
    assert "{{ braces }}" in made.task
    assert not sessions_in(recorded(19), 2)
    assert not sessions_in(recorded(20, size=3_000), 2)


def test_a_long_run_is_several_sessions_that_share_no_call() -> None:
    first, second = sessions_in(recorded(25), 1)
    said = [str(reply) for one in (first, second) for reply in one.replies]
    assert len(said) == len(set(said)) == 20
    assert first.name != second.name


@pytest.mark.req("AC-110")
def test_choosing_sends_far_less_sees_what_is_needed_and_is_never_dearer() -> None:
    (made,) = sessions_in(recorded(10), 1)
    lines = list(lines_of([made], 1, (VARIANTS[0], VARIANTS[1]), VECTORS))
    at_once = [one for one in lines if one.variant == VARIANTS[0].name]
    priced = [one for one in lines if one.variant == VARIANTS[1].name]
    for one in (*at_once, *priced):
        assert one.values >= 0.995
    assert all(one.tokens <= 0.4 for one in at_once)
    assert all(one.dearest <= 1.0 for one in priced)
    assert {one.prices: one.bill < 0.5 for one in priced}["none"]
    assert "chosen, priced" in table(lines)
    assert PHASES == 10
