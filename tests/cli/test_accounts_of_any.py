"""What a session cost is one figure wherever it is read, whatever session it is."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass as library
from tests.cli.conftest import CommandLine
from tests.engine.harness import call, calls, cascade, phase
from tests.importing.making import Session, used, write_lines
from tests.support.engine_soundings import PICK, index_of, judges
from tests.support.hooks_agent import RecordingAgent, bash, lines
from tests.support.report_costs import PRICED, Hosted
from windlass.wire.base import Request, Usage

EQUAL = 1e-9
"""US dollars by which sums of the same amounts may differ."""
MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-5", "anthropic/claude-haiku-4-5")


class Varied(Hosted):
    """A hosted model that reports what it likes."""

    def __init__(self, named: str, script: Any, chance: random.Random) -> None:
        super().__init__(named, script)
        self.chance = chance

    async def send(self, request: Request, on_text: Any) -> Any:
        draw = self.chance.randrange
        fresh, read, written = draw(900), draw(5_000), draw(3_000)
        long = draw(written + 1)
        tier = self.chance.choice(["", "", "batch"])
        self.usage = Usage(
            fresh + read + written, draw(400), read, written, long, draw(3), tier=tier
        )
        return await super().send(request, on_text)


def fetch(name: str) -> str:
    """Fetch a report."""
    return "\n".join(f"row {at} of {name}" for at in range(len(name) * 40))


def run_any(folder: Path, name: str, chance: random.Random) -> None:
    """A cascade with phases of all kinds."""
    model = chance.choice(MODELS)

    def script(request: Request) -> Any:
        if judges(request):
            return f'{{"winner": {chance.randrange(2)}}}'
        last = request.messages[-1]
        if request.tools and last.role != "tool" and chance.random() < 0.7:
            return calls(call("fetch", f'{{"name": "{"x" * chance.randrange(1, 9)}"}}'))
        return f"said {index_of(request)}"

    phases: list[dict[str, Any]] = []
    for number in range(chance.randrange(1, 4)):
        keys: dict[str, Any] = {}
        if chance.random() < 0.4:
            keys["soundings"] = {"factor": 2, **PICK}
        if chance.random() < 0.5:
            keys["tackle"] = ["fetch"]
        phases.append(phase(f"p{number}", **keys))
    provider = model.partition("/")[0]
    result = library.run_sync(
        cascade(*phases),
        model=model,
        store=folder,
        session_id=name,
        tools=[fetch],
        providers={provider: Varied(model, script, chance)},
    )
    assert result.error is None


def import_any(folder: Path, name: str, chance: random.Random) -> None:
    """A session of Claude Code: answers in pieces, side chains, tiers, caches, errors."""
    session = Session(name, chance.choice(["claude-opus-4-8", "claude-sonnet-4-5-20250929"]))
    draw = chance.randrange
    for number in range(draw(1, 7)):
        session.user(f"Go on with {number} of {name}.")
        written = draw(4_000)
        counts = used(draw(900), draw(400), draw(9_000), written, draw(written + 1))
        counts["service_tier"] = chance.choice(["standard", "standard", "batch"])
        if chance.random() < 0.2:
            counts["server_tool_use"] = {"web_search_requests": draw(4)}
        request: dict[str, Any] = {"requestId": f"req_{name}_{number}"}
        text = {"type": "text", "text": f"Step {number}."}
        if chance.random() < 0.3:  # an answer in two records
            thought = {"type": "thinking", "thinking": f"hm {number}", "signature": f"s{number}"}
            session.answer(f"msg_{name}_{number}", thought, usage=counts, **request)
        session.answer(f"msg_{name}_{number}", text, usage=counts, **request)
        if chance.random() < 0.2:
            session.answer(
                f"err_{number}",
                {"type": "text", "text": "API Error: 529"},
                usage=used(0, 0),
                isApiErrorMessage=True,
            )["message"]["model"] = "<synthetic>"
    file = write_lines(folder / f"{name}.jsonl", session.records)
    library.import_sessions(file, store=folder / "store")


def hook_any(folder: Path, name: str, chance: random.Random) -> None:
    """A session of an agent with a hook, with subagents."""
    agent = RecordingAgent(folder, name)
    for number in range(chance.randrange(1, 4)):
        who = agent.subagent(f"a{number}") if chance.random() < 0.4 else agent
        who.takes = chance.random() < 0.8
        count = chance.choice([3, 900])
        who.run("Bash", {"command": f"make {number}"}, bash(lines(f"object {number}", count)))
    agent.answer([{"type": "text", "text": "done"}])


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def near(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < EQUAL)


@given(st.integers(0, 1_000_000))
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_accounts_of_any_sessions_are_equal(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("WINDLASS_PRICE_AS", PRICED)
    chance = random.Random(seed)
    with scratch() as folder:
        store = folder / "store"
        run_any(store, "ran", chance)
        import_any(folder, "told", chance)
        at = ("--store", str(store))
        check_all(windlass, at)
        hook_any(folder, "hooked", chance)
        at = ("--store", str(folder / ".windlass"))
        told = windlass("hook", "report", *at, "--since", "1970-01-02", "--json").json
        costs = check_all(windlass, at)
        for one in told["sessions"]:
            assert near(one["dollars"], costs[one["session_id"]])
        assert near(sum(costs.values()), sum(one["dollars"] for one in told["sessions"]))


def check_all(windlass: CommandLine, at: tuple[str, str]) -> dict[str, float]:
    """What each session of a store cost, by all accounts."""

    def said(*words: str) -> Any:
        answer = windlass(*words, *at, "--json")
        assert answer.code == 0, (words, answer.err)
        return answer.json

    listed = [one for one in said("sessions", "--limit", "100") if one["parent_id"] is None]
    report = said("report", "--limit", "100")
    ranked = {one["name"]: one for one in report["sessions"]}
    costs: dict[str, float] = {}
    for one in listed:
        name = one["session_id"]
        own = said("report", name)
        total, dollars = own["total"], own["total"]["dollars"]
        costs[name] = dollars
        assert near(sum(line["dollars"] for line in own["phases"]), dollars)
        assert near(one["cost"], dollars)
        assert near(ranked[name]["dollars"], dollars)
        assert near(said("replay", name)["recorded"], dollars)
        shown = said("show", name)["total"]
        assert near(shown["cost"], dollars)
        calls_in = one["calls"], one["tokens_in"], one["tokens_out"]
        assert calls_in == (shown["calls"], shown["tokens_in"], shown["tokens_out"])
        assert (total["tokens_in"], total["tokens_out"]) == calls_in[1:]
        assert (ranked[name]["calls"], ranked[name]["tokens_in"]) == calls_in[:2]
    for groups in ("cascades", "days"):
        assert near(sum(one["dollars"] for one in report[groups]), sum(costs.values()))
    assert near(report["total"]["dollars"], sum(costs.values()))
    return costs
