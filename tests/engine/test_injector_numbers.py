"""The numbers of the injectors: caps on rendered text, counting, and what the cache can hold."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.bench_injectors import BLOCK, measured, recorded, usage_of

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import logs, lookup, reading
from tests.support.engine_planning import set_prices
from windlass.caching.meter import Meter, weigh
from windlass.caching.prices import Prices
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks
from windlass.messages import Message
from windlass.text.tokens import FamilyCounter

CAPS = {
    "system_role": 2_000,
    "tools": 3_000,
    "skills": 1_000,
    "user_memory": 500,
    "knowledge": 800,
    "playbooks": 300,
    "plan": 300,
}
"""The document's."""


def fill(house: House) -> None:
    """Far more for each injector than its cap takes; the STABLE ones just below theirs."""
    words = "the report of the shop is read and summed up by week "
    for name, text in {
        "skills/report/SKILL.md": f"---\ndescription: x\n---\n{words * 75}",
        "playbooks/report.md": "---\nwhen: the report of the shop is read\n---\n"
        + "\n\n".join([f"{number}: {words * 3}" for number in range(40)]),
        **{f"knowledge/{number}.md": f"{number} {words * 19}" for number in range(9)},
    }.items():
        (house.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (house.folder / name).write_text(text)
    ids = iter(range(100))
    with SqliteStore(house.store) as store:
        banks = Banks(store, lambda: 1_000.0, lambda: f"row {next(ids)}")
        for number in range(9):
            banks.remember("likes", f"{number} {words * 12}", key=f"k{number}")


def tool_named(number: int) -> Any:
    def read(path: str) -> str:
        return path

    words = "Reads one part of the report, as it was written down by the shop at that time. "
    read.__doc__ = f"Read part {number}.\n\n    Args:\n        path: {words * 6}\n    "
    read.__name__ = f"read_{number}"
    return read


PLAN = calls(
    call(
        "plan",
        '{"goal":"Sum up","steps":['
        + ",".join(f'"{number}: read a part of the report and sum it up"' for number in range(50))
        + "]}",
    )
)


@pytest.mark.req("CE-24", "CE-48", "CE-16", "CE-17", "CE-18", "CE-19", "CE-20", "CE-21", "CE-22")
async def test_the_caps_hold_together_and_the_provider_counts_the_same(house: House) -> None:
    fill(house)
    tools = [tool_named(number) for number in range(17)]
    one = phase(
        "a",
        instructions="Do a. Read the report of the shop. " + "It is long. " * 950,
        tackle=["plan", *(tool.__name__ for tool in tools)],
    )
    made = cascade(
        one,
        system="Read the report well. " * 390,
        memory=["likes"],
        injectors={"skills": {"active": ["report"]}},
    )
    ran = await house.run(made, {"a": [PLAN, "done"]}, tools=tools)
    assert ran.result.error is None
    record = ran.calls()[-1]
    blocks = {one["injector"]: one for one in record.details.as_json()["injectors"]["blocks"]}
    assert {name: blocks[name]["cap"] for name in CAPS} == CAPS
    named = {name: blocks[name]["tokens"] for name in CAPS}
    assert all(0.6 * cap < named[name] <= cap for name, cap in CAPS.items()), named
    assert 0.8 * 7_900 < sum(named.values()) <= sum(CAPS.values()) == 7_900
    assert blocks["playbooks"]["cut"]
    assert blocks["plan"]["cut"]
    view = ran.views("a")[-1]
    assert 11_000 < view.tokens_in < 13_000
    assert abs(view.tokens_in - record.sent_tokens) <= 0.03 * view.tokens_in


@pytest.mark.req("CE-49", "CE-48")
async def test_thirty_turns_read_all_that_stood_before(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(house)
    monkeypatch.chdir(house.folder)
    kept, back = await thirty(house, "move"), await thirty(house, "in_place")
    for was, now in pairwise(kept.calls()):
        assert now.details.as_json()["prefix"]["shared_tokens"] == was.sent_tokens
    views = kept.views("a")[1:]
    large = [view for view in views if view.tokens_in > 6_000]
    assert len(kept.calls()) == 30
    assert large
    assert all(view.tokens_cached >= 0.9 * view.tokens_in for view in large)
    # What is new in a call is the reply, its results, and the blocks: nothing else is paid anew.
    for view, before in zip(views, kept.views("a"), strict=False):
        blocks = [
            one for one in view.details.as_json()["injectors"]["blocks"] if one["tier"] == "DYNAMIC"
        ]
        fresh = view.tokens_in - view.tokens_cached
        said = sum(one.tokens for one in view.seen[len(before.seen) :])
        assert fresh <= said
        assert said <= 400 + sum(one["tokens"] for one in blocks)
    assert sum(view.tokens_cached for view in back.views("a")) < 0.2 * sum(
        view.tokens_in for view in back.views("a")
    )


async def thirty(house: House, volatile: str) -> Ran:
    """A run of thirty turns with all injectors on."""
    if not (house.folder / "skills").is_dir():
        fill(house)

    def read(part: str) -> str:
        """Read a part.

        Args:
            part: Which.
        """
        return f"part {part}: " + "all is well here " * 20

    plan = calls(call("plan", '{"goal":"Sum up","steps":["read","sum up","tell"]}'))
    replies: list[Message | str] = [plan]
    replies += [calls(call("read", f'{{"part":"{number}"}}')) for number in range(28)]
    one = phase(
        "a",
        instructions="Do a. Read the report of the shop.",
        tackle=["plan", "read"],
        rules={"max_turns": 40},
    )
    made = cascade(
        one,
        system="It is {{ now }}, call {{ call }}. " + "Read the report well. " * 60,
        memory=["likes"],
        injectors={"volatile": volatile},
    )
    return await house.run(made, {"a": [*replies, "done"]}, tools=[read])


@pytest.mark.parametrize("own", [[], ["tests.engine.own_injectors:Reminder"]])
@pytest.mark.parametrize("words", [1, 300])
async def test_windows_cost_no_more_than_what_is_injected(
    house: House, monkeypatch: pytest.MonkeyPatch, own: list[str], words: int
) -> None:
    """The bill of a shortened phase with all injectors on, beside that without them."""
    set_prices(house)
    monkeypatch.chdir(house.folder)
    bills: list[float] = []
    cost = 0.0
    for injectors in (False, {"own": own}):
        one = lookup(rules={"max_turns": 40})
        made = cascade(one, system="Be good. " * words, auto_context={}, injectors=injectors)
        builds = [str(number) for number in range(12)]
        ran = await house.run(made, reading(*builds), tools=[logs()])
        meter, count = Meter(Prices(0.1, 1.25, 0, 1, None)), FamilyCounter("gpt-4o")
        sent = [weigh(count, one.messages, one.tools) for one in ran.model.requests]
        bills.append(sum(meter.bill(request).units for request in sent))
        told = [
            one.details.as_json()["injectors"]
            for one in ran.calls()
            if "injectors" in one.details.as_json()
        ]
        # Sent with everything, a token is written once and read by every call after its own.
        cost = sum(
            (1.25 + 0.1 * (len(told) - number)) * block["tokens"]
            for number, one in enumerate(told, start=1)
            for block in one["blocks"]
            if block["tier"] == "DYNAMIC"
        )
    assert cost
    assert bills[1] - bills[0] <= cost


@pytest.mark.local
@pytest.mark.req("CE-49", "CE-24")
async def test_the_local_model_reads_from_its_cache_what_stood_there(tmp_path: Path) -> None:
    made = await recorded(tmp_path, attempts=3, volatile="move")
    usage = usage_of(tmp_path, made)
    for number, one in enumerate(made):
        tokens, cached = usage[one.trace_id]
        assert abs(tokens - one.sent_tokens) <= 0.03 * tokens  # by its own tokenizer
        # The long arguments of the plan are written anew behind it, in their canonical form.
        assert number == 1 or cached >= one.details.as_json()["cache"]["expected"] - BLOCK
    told = measured("moved", tmp_path, made, 0.0)
    assert told.share > 0.85
    assert told.sent - told.cached <= told.blocks + told.calls * 120
