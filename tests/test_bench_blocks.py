"""The benchmark of windows under injectors: what it tells the calls of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.windows.blocks import EverythingTold, Injected, Plain, WindlassTold
from bench.windows.measure import Bench
from bench.windows.recordings import Chat, Recording

from tests.support.context_bound import lookup
from windlass.replays.pricing import VECTORS, Vector

ANTHROPIC, _, NONE = VECTORS


def recording(*, role: bool = True) -> Recording:
    """Four calls; the second fails."""
    said: list[Chat] = [{"role": "system", "content": "Be good."}] if role else []
    said += [{"role": "user", "content": "Compare the orders."}, *lookup(1)]
    said += lookup(2, "Error: there is no order #W2")
    said += [*lookup(3), {"role": "assistant", "content": "done"}]
    return Recording("a", "made", tuple(said))


@pytest.mark.req("CE-4", "CE-5", "CE-6", "CE-7", "CE-8", "CE-9")
@pytest.mark.parametrize("role", [True, False])
def test_all_injectors_tell_what_the_recording_says(tmp_path: Path, role: bool) -> None:
    told, one = Injected(tmp_path), recording(role=role)
    contestant = EverythingTold(told, ANTHROPIC)
    contestant.begin(one)
    windows = [contestant.window(list(one.messages[:at]), 0) for at in one.calls]
    first, *_, last = windows
    assert first[0]["role"] == "system"
    assert first[0]["content"].startswith("Be good." if role else "")
    assert "A day has its turnover" in first[0]["content"]
    for text in ("Ann likes answers", "booked on the day", "Look up one day at a time"):
        assert text in first[1]["content"]
    end = last[-1]["content"]
    for text in ("[Plan] Compare the orders.", "2026-11-22", "there is no order #W2"):
        assert text in end
    assert end.rstrip().splitlines()[-1] == "Next: go on with the task"
    assert "there is no order" not in first[-1]["content"]
    # Older blocks stay where they were.
    assert last[: len(first)] == first


def test_windlass_is_told_the_same_blocks_as_everything() -> None:
    one = recording()
    for vector in VECTORS:
        ends = []
        for contestant in (EverythingTold(Plain(40), vector), WindlassTold(Plain(40), vector)):
            contestant.begin(one)
            new_from, last = 0, list[Chat]()
            for at in one.calls:
                last = contestant.window(list(one.messages[:at]), new_from)
                new_from = at
            said = [str(chat["content"]) for chat in last]
            assert sum("[Plan]" in text for text in said) == (1 if vector is NONE else 3)
            ends.append(said[-1].count("step 4 of the work"))
        assert ends[0] == ends[1] > 0


def test_the_bills_differ_by_what_is_told() -> None:
    bench, vector = Bench(recording()), Vector(0.1, 1.25, 0, 1, name="any")
    bills = [
        bench.run(EverythingTold(Plain(tokens), vector), [vector])["any"].bill
        for tokens in (0, 400)
    ]
    # Each is written once, and read by the calls after it.
    assert bills[1] - bills[0] == pytest.approx(400 * (3 * 1.25 + (2 + 1) * 0.1), rel=0.01)
