"""The ten-phase session that chooses, small: recorded calls replayed, and what it measures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench import bench_auto
from bench.bench_auto import VARIANTS, lines_of, session_of, table
from bench.scenarios import content
from bench.windows.bill import VECTORS
from bench.windows.recordings import Chat, Recording


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
    made = session_of(recorded(24), 2)
    assert made is not None
    phases = made.cascade["phases"]
    assert len(phases) == 10
    assert len(made.replies) == 20
    assert all(phase["rules"]["max_turns"] == 2 for phase in phases)
    assert "{{ braces }}" in made.task
    assert session_of(recorded(19), 2) is None
    assert session_of(recorded(20, size=3_000), 2) is None


@pytest.mark.req("AC-110")
def test_choosing_sends_far_less_sees_what_is_needed_and_is_never_dearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = session_of(recorded(10), 1)
    assert made is not None
    at_once, priced = list(lines_of([made], 1, VARIANTS[:2], VECTORS))[1:]
    assert at_once.tokens <= 0.4
    assert at_once.values >= 0.995
    assert priced.values >= 0.995
    for vector in VECTORS:
        assert priced.dearest[vector.name] <= 1.0
    assert priced.bill["none"] < 0.5
    assert "chosen, priced" in table([at_once, priced])
    assert bench_auto.PHASES == 10
