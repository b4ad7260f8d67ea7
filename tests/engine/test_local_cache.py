"""With the local model and its own tokenizer: what its cache gives is what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import cascade, phase
from windlass.history.base import CallRecord
from windlass.history.sqlite import SqliteStore

ATTEMPTS = 6
"""Each is a turn that calls the tool and one that may answer."""
OFF = 16
"""Tokens by which a call may differ: the runtime reads the last ones anew."""


def build_log(build: str) -> str:
    """Read the log of a build.

    Args:
        build: Which.
    """
    return "\n".join(f"step {number} of {build[:8]} went as it always goes" for number in range(12))


def never(output: str) -> dict[str, Any]:
    """Refuses every output."""
    return {"valid": False, "reason": "Look once more."}


async def recorded(folder: Path, **options: Any) -> Sequence[CallRecord]:
    """The calls of a phase of twenty turns under these options of its window."""
    looked = phase(
        "a",
        tackle=["build_log"],
        tool_choice="build_log",
        rules={
            "loop_until": "never",
            "max_attempts": ATTEMPTS,
            "on_exhausted": "continue",
            "max_turns": 2,
        },
        intra_context=options,
    )
    result = await windlass.run(
        cascade(looked, system="You look at builds.", max_output_tokens=24),
        model="local/smollm2",
        store=folder / "store",
        root=folder,
        tools=[build_log, never],
    )
    assert result.error is None
    with SqliteStore.open_existing(folder / "store") as store:
        return store.calls(result.session_id)


@pytest.mark.local
async def test_each_call_reads_what_was_expected(tmp_path: Path) -> None:
    calls = await recorded(tmp_path, commit="at_once", compress_loops=False)
    assert len(calls) >= 2 * ATTEMPTS  # and one for each reply that was cut at its limit
    told = [call.details.as_json()["cache"] for call in calls]
    for one in told:
        assert one["reported"] == pytest.approx(one["expected"], abs=OFF)
    # Edits were made in between, and what came behind them was read anew.
    broken = [call for call in calls if call.details.as_json()["prefix"]["broken_by"] is not None]
    assert len(broken) >= ATTEMPTS // 2
    shared = sum(one["expected"] for one in told) / sum(call.sent_tokens for call in calls)
    assert shared > 0.5


def last(outputs: list[str]) -> int:
    """Pick the last.

    Args:
        outputs: All.
    """
    return len(outputs) - 1


@pytest.mark.local
async def test_soundings_read_what_the_first_wrote(tmp_path: Path) -> None:
    variations = ["Make it a question.", "Use five words.", "Name a number."]
    tried = phase(
        "title",
        instructions="Write a title for this log.\n" + build_log("4711") * 4,
        soundings={"factor": 4, "mutate": variations, "evaluator": {"function": "last"}},
    )
    result = await windlass.run(
        cascade(tried, system="You look at builds.", max_output_tokens=24),
        model="local/smollm2",
        store=tmp_path / "store",
        root=tmp_path,
        tools=[last],
    )
    assert result.error is None
    with SqliteStore.open_existing(tmp_path / "store") as store:
        first, *others = store.calls(result.session_id)
    assert len(others) >= len(variations)
    for call in others:
        reported = call.details.as_json()["cache"]["reported"]
        assert reported == pytest.approx(call.details.as_json()["cache"]["expected"], abs=OFF)
        assert reported >= first.sent_tokens - OFF
