"""Cache marks by tier: the head, the user context, and nothing for the DYNAMIC block."""

from __future__ import annotations

from typing import Any

import pytest

import windlass
from tests.caching.requests import mark
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.engine_cache import Reporting, honest
from tests.support.engine_injector_marks import CLAUDE
from tests.validators import anthropic as rules
from windlass.history.base import CallRecord
from windlass.messages import assistant, system, tool, user
from windlass.wire import anthropic

SYSTEM = "Be careful. " * 600


def read(build: str) -> str:
    """Read a log."""
    return f"build {build} went as it always goes"


async def run(
    house: House, pauses: dict[int, float], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[CallRecord], list[dict[str, Any]]]:
    """The calls of a phase whose tool takes its time, and their bodies as they are sent."""
    now = [1_000.0]
    monkeypatch.setattr("windlass.engine.setup.time.time", lambda: now[0])

    def slow(build: str) -> str:
        """Read a log."""
        now[0] += pauses.get(int(build), 1.0)
        return read(build)

    (house.folder / "knowledge").mkdir()
    (house.folder / "knowledge" / "a.md").write_text("Logs of builds are read from the end.")
    said = [calls(call("slow", f'{{"build":"{number}"}}')) for number in range(5)]
    model = Reporting({"a": [*said, "done"]}, honest, CLAUDE)
    one = phase("a", tackle=["slow"], instructions="Do a. Read the logs of builds.")
    result = await windlass.run(
        cascade(one, system=SYSTEM, injectors=True),
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[slow],
        providers={"scripted": model},
    )
    assert result.error is None
    made = list(house.open_store().calls(result.session_id))
    return made, [dict(anthropic.body(request)) for request in model.requests]


@pytest.mark.req("CE-25")
class TestTiers:
    async def test_stable_and_session_are_marked_and_dynamic_is_not(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, bodies = await run(house, {}, monkeypatch)
        for one in made[:2]:
            tiers = one.details.as_json()["marks"]["tiers"]
            assert tiers["STABLE"] == {"place": (0, 0), "kept": "short"}
            assert tiers["SESSION"] == {"place": (1, 0), "kept": "short"}
            assert tiers["DYNAMIC"] == {"place": None, "kept": None}
        for body in bodies:
            assert rules.problems(body) == []
            assert "cache_control" in body["system"][0]

    async def test_stable_is_kept_long_where_pauses_pay_for_it(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, bodies = await run(house, {1: 900.0}, monkeypatch)
        last = made[-1].details.as_json()["marks"]
        assert last["tiers"]["STABLE"]["kept"] == "long"
        assert last["lifetime"]["pauses"] == 1
        assert bodies[-1]["system"][0]["cache_control"]["ttl"] == "1h"
        others = [block for turn in bodies[-1]["messages"] for block in turn["content"]]
        assert not [one for one in others if one.get("cache_control", {}).get("ttl")]

    def test_a_users_block_at_the_end_is_left_unmarked(self) -> None:
        said = [system(SYSTEM), user("Do it.")]
        said[1] = said[1].with_parts(*said[1].parts, *user("[Plan] now").parts)
        assert (1, 1) in mark(None, CLAUDE, said).places
        assert (1, 1) not in mark(None, CLAUDE, said, tail=True).places
        assert (1, 0) in mark(None, CLAUDE, said, tail=True).places

    def test_a_result_is_marked_as_a_whole(self) -> None:
        asked = call("read")
        result = tool(asked, "a log")
        result = result.with_parts(*result.parts, *user("[Plan] now").parts)
        said = [system(SYSTEM), user("Do it."), assistant("", calls=[asked]), result]
        assert (3, 1) in mark(None, CLAUDE, said, tail=True).places

    def test_the_block_is_cached_as_history(self) -> None:
        first = user("Do it.").with_parts(*user("Do it.").parts, *user("[Plan] now").parts)
        said = [system(SYSTEM), first]
        before = mark(None, CLAUDE, said, tail=True)
        after = mark(before, CLAUDE, [*said, assistant("ok"), user("go on")], tail=False)
        assert (3, 0) in after.places
        assert (1, 0) in after.marks.entries
