"""Numbers that stand side by side agree: what is announced, sent, shown, explained, reported."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade
from tests.support.engine_choosing import talk
from windlass.engine.events import CallStarted, Noted
from windlass.report.costs import session_cost
from windlass.report.explanation import explain_call
from windlass.report.prefix import prefix_of

TOLD = re.compile(r"its first call sends ([\d,]+) tokens, sending everything ([\d,]+)$")


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("auto", [{"commit": "at_once"}, {}, {"profile": "lean"}])
async def test_what_is_announced_is_what_is_sent_and_told(
    house: House, auto: dict[str, Any]
) -> None:
    def note(about: str) -> str:
        """Look something up."""
        return talk(about)

    def looks_up(about: str) -> Any:
        return calls(call("note", f'{{"about": "{about}"}}'))

    chooses: dict[str, Any] = {"context": {"mode": "auto"}}
    script: dict[str, Any] = {
        "a": [looks_up("rivers"), looks_up("markets"), "read both"],
        "b": [looks_up("bridges"), "done"],
        "c": ["fine"],
    }
    ran = await house.run(
        cascade(
            {"name": "a", "instructions": "Do a.", "tackle": ["note"]},
            {"name": "b", "instructions": "Do b.", "tackle": ["note"], **chooses},
            {"name": "c", "instructions": "Do c. Tell the key of rivers.", **chooses},
            system="Be kind. Today is {{ now }}.",
            auto_context=auto,
            injectors={"plan": True, "scratchpad": True},
        ),
        script,
        {"who": "Ann"},
        tools=[note],
    )
    assert ran.result.error is None
    begun = [each for each in ran.events if isinstance(each, CallStarted)]
    announced = {
        each.phase: TOLD.search(each.text) for each in ran.events if isinstance(each, Noted)
    }
    for name in ("b", "c"):
        match = announced[name]
        assert match is not None
        first = next(each for each in begun if each.phase == name)
        assert (number(match[1]), number(match[2])) == (first.tokens, first.snowball_tokens)
    recorded = [(each.sent_tokens, each.full_tokens) for each in ran.calls()]
    assert recorded == [(each.tokens, each.snowball_tokens) for each in begun]
    views = [view for name in "abc" for view in ran.views(name)]
    assert recorded == [(each.sent_tokens, each.snowball_tokens) for each in views]
    for at, pair in enumerate(recorded, start=1):
        told = explain_call(ran.store, ran.session, at).call
        assert (told.sent_tokens, told.snowball_tokens) == pair
    assert [each.sent for each in prefix_of(ran.store, ran.session)] == [one for one, _ in recorded]
    costs = session_cost(ran.store, ran.session, "openai/gpt-4o")
    assert costs.total.snowball == sum(whole for _, whole in recorded)
    assert costs.total.tokens_in == ran.result.usage.tokens_in
    assert sum(each.tokens_in for each in costs.phases) == costs.total.tokens_in
    assert ran.result.saved == sum(whole - sent for sent, whole in recorded)
    assert asdict(costs.total)["calls"] == len(recorded)
