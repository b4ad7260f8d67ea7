"""Sessions of all kinds for the inspector: long, wasteful, forked, sounded, hostile, of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.scenarios.sessions import five_phases

import windlass
from tests.engine.harness import call, calls, cascade, phase
from tests.support.engine_soundings import PICK, picking
from tests.support.report_costs import PRICED, Hosted
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

RECORDINGS = Path(__file__).parents[2] / "examples" / "recordings"
HOSTILE = "<script>alert(1)</script> \"'><img src=x onerror=alert(2)> \u202etxt.exe & {0} </pre>"
ODD = "we/ird <n&me>~?#"


def store_sessions(folder: Path) -> None:
    """Sessions of all kinds in a store."""
    run_long(folder)
    run_whole(folder)
    run_others(folder)
    windlass.import_sessions(RECORDINGS / "claude_code.jsonl", store=folder)


def run_long(folder: Path) -> None:
    """Five phases with large results and pictures, shortened as they grow."""
    session = five_phases()
    replies = iter(session.replies)
    result = windlass.run_sync(
        {**session.cascade, "auto_context": {"inter_phase": False}},
        {"question": "How do prices of homes move?"},
        store=folder,
        session_id="long",
        tools=session.tools,
        providers={"scripted": Scripted(lambda _: next(replies), counts_as="gpt-4o")},
    )
    assert result.error is None


def fetch(name: str) -> str:
    """Fetch a report: a long one of the north."""
    rows = range(900 if name == "north" else 9)
    lines = (f"row {at} of {name}: amount {at * 7} at place_{name}_{at}" for at in rows)
    return f"report id_{name}_77\n" + "\n".join(lines)


def idle(question: str) -> str:
    """Ask somebody who is never asked."""
    return question


def run_whole(folder: Path) -> None:
    """A session that sends large results whole, long after they were used."""
    script = [
        calls(call("fetch", '{"name": "north"}')),
        calls(call("fetch", '{"name": "north"}')),
        *(calls(call("fetch", f'{{"name": "tiny{at}"}}')) for at in range(7)),
        "done",
    ]
    replies = iter(script)
    result = windlass.run_sync(
        cascade(phase("work", tackle=["fetch", "idle"], rules={"max_turns": 20})),
        model=PRICED,
        store=folder,
        session_id="whole",
        tools=[fetch, idle],
        providers={"anthropic": Hosted(PRICED, lambda _: next(replies))},
    )
    assert result.error is None


def run_others(folder: Path) -> None:
    """Soundings, forks, a failure, a hostile session with an odd name."""

    def say(script: Callable[[Request], str]) -> dict[str, Hosted]:
        return {"anthropic": Hosted(PRICED, script)}

    def fails(_: Request) -> str:
        raise RuntimeError("the provider is down")

    common: Any = {"model": PRICED, "store": folder}
    two = cascade(phase("a"), phase("b"))
    windlass.run_sync(two, session_id="first", providers=say(lambda _: "said"), **common)
    for origin, name in (("first", "second"), ("second", "third")):
        changes = {"b.instructions": f"Do b as {name}."}
        windlass.fork_sync(
            origin,
            2,
            changes=changes,
            store=folder,
            session_id=name,
            providers=say(lambda _: "said another way"),
        )
    windlass.run_sync(two, session_id="failing", providers=say(fails), **common)
    soundings = {"factor": 3, "evaluator_instructions": "Take the best."}
    answers = iter(["one", "two", "three", '{"winner": 1}'])
    windlass.run_sync(
        cascade(phase("sounded", soundings=soundings)),
        session_id="sounded",
        providers=say(lambda _: next(answers)),
        **common,
    )
    whole = cascade(phase("a"), soundings={"factor": 3, **PICK})
    windlass.run_sync(whole, session_id="sounded-whole", providers=say(picking(1)), **common)
    windlass.run_sync(
        cascade(phase("a", instructions=HOSTILE.replace("{0}", ""))),
        session_id=ODD,
        providers=say(lambda _: HOSTILE),
        **common,
    )
