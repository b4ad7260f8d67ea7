"""`search_context`: a phase searches its own session, and `recall` brings what it found."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.support.engine_choosing import TOPICS, pages, talk
from windlass.messages import Message
from windlass.wire.base import Request

SEVEN = [phase(name) for name in TOPICS]


def searching(query: str, **more: Any) -> Message:
    return calls(call("search_context", json.dumps({"query": query, **more})))


def last(*replies: Any, **keys: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    made = phase("last", tackle=["search_context"], context_strategy="fresh", **keys)
    return made, {**{name: list(said) for name, said in pages(*TOPICS).items()}, "last": [*replies]}


async def found(house: House, query: str, **more: Any) -> tuple[Ran, str]:
    made, replies = last(searching(query, **more), "ok")
    ran = await house.run(cascade(*SEVEN, made), replies)
    return ran, ran.request("last", 2).messages[-1].text


@pytest.mark.req("AC-108")
async def test_names_references_with_summaries_and_recall_brings_the_original(
    house: House,
) -> None:
    made, _ = last()
    asked: list[str] = []

    def script(request: Request) -> Message | str:
        said = request.messages[-1]
        if said.text.startswith("Do last"):
            return searching("the key of orchards", max_results=3)
        if said.name == "search_context":
            (ref,) = re.findall(r"\[(result_\w+)\] assistant \(orchards", said.text)
            asked.append(said.text)
            return calls(call("recall", json.dumps({"ref": ref})))
        if said.role == "tool":
            asked.append(said.text)
            return "ok"
        return talk(said.text.removeprefix("Do ").rstrip("."))

    ran = await house.run(cascade(*SEVEN, made), script)
    answer, original = asked
    assert answer.startswith("3 found; recall(ref) brings an original back:")
    assert "~" in answer
    assert "orchards report" in answer
    assert len(answer) < 1_000
    assert original == talk("orchards")
    assert [tool.name for tool in ran.request("last", 1).tools] == ["search_context", "recall"]
    assert ran.has_no_damage()


@pytest.mark.req("AC-27", "AC-108")
async def test_never_searches_another_session(house: House) -> None:
    await house.run(cascade(*SEVEN), pages(*TOPICS))
    made = phase("last", tackle=["search_context"])
    ran = await house.run(
        cascade(phase("a"), made),
        {"a": ["nothing much"], "last": [searching("orchards key"), "ok"]},
    )
    said = ran.request("last", 2).messages[-1].text
    assert "orchards report" not in said


@pytest.mark.req("AC-108")
@pytest.mark.parametrize(
    ("query", "more", "says"),
    [
        (" ", {}, "give some words"),
        ("orchards", {"max_results": 0}, "from 1 to 20"),
        ("orchards", {"max_results": 99}, "from 1 to 20"),
    ],
)
async def test_bad_questions_are_answered_in_words(
    house: House, query: str, more: dict[str, Any], says: str
) -> None:
    ran, said = await found(house, query, **more)
    assert says in said
    assert ran.result.status == "completed"


@pytest.mark.req("AC-108")
async def test_what_nobody_said_is_not_found(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.selection.vectors.installed", lambda: False)
    _, said = await found(house, "zzzqqq")
    assert said == "nothing said in this session matches 'zzzqqq'"


@pytest.mark.req("AC-108", "CI-45")
async def test_what_is_hidden_is_not_found_but_by_its_output(house: House) -> None:
    made, replies = last(searching("Do rivers key"), "ok")
    hidden = {**SEVEN[0], "context_retention": "output_only"}
    ran = await house.run(cascade(hidden, *SEVEN[1:], made), replies)
    said = ran.request("last", 2).messages[-1].text
    assert "assistant (rivers" in said
    assert "user (rivers" not in said
