"""Frameworks whose clients are wrapped: nothing is refused, and the bill is lower."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

from tests_apart.frameworks.work import TURNS, Work, measure, row

MODULES = {
    "langchain": "of_langchain",
    "litellm": "of_litellm",
    "agents": "of_openai_agents",
    "pydantic_ai": "of_pydantic_ai",
    "llama_index": "of_llama_index",
    "google.adk": "of_google_adk",
    "smolagents": "of_smolagents",
}
"""By the package that each needs. No environment has all."""
WORKS: list[Work] = [
    work
    for package, name in MODULES.items()
    if find_spec(package)
    for work in import_module(f"tests_apart.frameworks.{name}").WORKS
]


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_wrapped_clients_are_billed_less_and_heard(work: Work, rows: list[str]) -> None:
    plain, wrapped = (
        measure(work.run, work.script(TURNS), wrapped=wrapped) for wrapped in (False, True)
    )
    rows.append(row(work, plain, wrapped))
    assert plain.server.refused == wrapped.server.refused == []
    assert len(plain.server.billed) == len(wrapped.server.billed) == TURNS + 1
    calls = [call for report in wrapped.reports for call in report.calls]
    assert [call.usage.tokens_in if call.usage else None for call in calls] == [
        one.tokens for one in wrapped.server.billed
    ]
    assert {call.thread for call in calls} == {1}
    assert not any(report.passed for report in wrapped.reports)
    assert wrapped.bill <= (0.75 if work.saves else 1.01) * plain.bill
