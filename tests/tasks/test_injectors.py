"""Injectors of atomic tasks: `injectors` as phases have it, but for what fresh context brings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tasks.conftest import TaskHouse, inputs
from tests.tasks.making import atomic, block, complaints, reduce, sequential
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message, ToolCall, assistant
from windlass.wire.base import Request

SKILLS = '{"skills": {"active": ["brief"]}, "own": ["tests.engine.own_injectors:Deadline"]}'
TOOLS = "<tools><tool>plan</tool><tool>read_file</tool></tools>"


def injectors(said: str) -> str:
    return f"<injectors>{said}</injectors>"


def call(name: str, **arguments: Any) -> Message:
    return assistant(calls=[ToolCall(f"call_{name}", name, json.dumps(arguments))])


def skill(house: TaskHouse) -> None:
    house.write(skills__brief__SKILL="---\nname: brief\ndescription: x\n---\nAnswer in a word.")


@pytest.mark.req("CE-55", "CE-4", "CE-8", "CE-9")
async def test_a_task_has_injectors_as_a_phase_has(house: TaskHouse) -> None:
    skill(house)
    xml = atomic(inside=f"<system>It is {{{{ now }}}}.</system>{TOOLS}{injectors(SKILLS)}")
    replies = iter(
        [
            call("plan", goal="Do it", steps=["look", "tell"]),
            call("read_file", path="nowhere.md"),
            "done",
        ]
    )
    ran = await house.run(xml, lambda _: next(replies))
    assert (ran.result.status, ran.result.error) == ("completed", None)
    first, second, third = (request.messages for request in ran.model.requests)
    assert first[0].text.startswith("It is [now].")
    assert first[0].text.endswith("Answer in a word.")
    for request in (first, second, third):
        assert request[0] == first[0]
        assert "now: 20" in request[-1].text
    assert "[Deadline] 4 turns are left." in first[-1].text
    assert "[Plan]" not in first[-1].text
    assert "Progress: 0/2 steps completed\nNext: look" in second[-1].text
    assert "[Failed before; do not repeat]\n- read_file" in third[-1].text
    kinds = [json_of(row.row).get("injector") for row in ran.store.rows(ran.result.session_id)]
    assert {"system_role", "skills", "deadline", "plan", "todo", "values"} <= set(kinds)


@pytest.mark.req("CE-56")
async def test_without_them_requests_are_what_they_were(house: TaskHouse) -> None:
    skill(house)
    plain = await house.run(atomic())
    off = await house.run(atomic(inside=injectors("false")))
    assert plain.model.requests[0].messages == off.model.requests[0].messages
    rows = plain.store.rows(plain.result.session_id)
    assert all(row.row.node_type != NodeType.CONTEXT_INJECTION for row in rows)


async def test_what_fresh_context_is_for_is_not_injected(house: TaskHouse) -> None:
    house.remember("likes", tone="Do everything briefly.")
    house.write(knowledge__all="Do everything well, and do it soon.")
    memory = "<memory><bank>likes</bank></memory>"
    xml = atomic(inside=f"{block(fresh='disabled')}{memory}{injectors('true')}")
    ran = await house.run(xml)
    said = [message.text for message in ran.model.requests[0].messages]
    assert not [text for text in said if "briefly" in text or "well" in text]
    for name in ("knowledge", "user_memory"):
        (told,) = complaints(atomic(inside=injectors(json.dumps({name: True}))))
        assert f"<injectors>: a task has no '{name}'; <fresh_context>enabled" in told


async def test_a_task_knows_nothing_of_what_others_were_told(house: TaskHouse) -> None:
    skill(house)
    inner = f"{TOOLS}{injectors(SKILLS)}"
    xml = sequential(
        reduce(inputs("x", "y"), inner=inner, reduction=inner, name="r"),
        atomic("last", inside=injectors(SKILLS)),
    )

    def answer(request: Request) -> Message | str:
        failed = any(message.role == "tool" for message in request.messages)
        inner = "Do inner." in request.messages[-1].text
        return call("read_file", path="nowhere.md") if inner and not failed else "done"

    ran = await house.run(xml, answer)
    assert (ran.result.status, ran.result.error) == ("completed", None)
    for request in ran.model.requests:
        own = any(message.role == "tool" for message in request.messages)
        assert ("[Failed before" in request.messages[-1].text) == own
        assert sum("[Deadline]" in message.text for message in request.messages) == 1
        assert request.messages[0] == ran.model.requests[0].messages[0]


def test_mistakes_in_them_are_told_with_their_line() -> None:
    (told,) = complaints(atomic(inside=injectors('{"skils": true}')))
    assert "skils" in told
    assert "'skills'" in told
    (text,) = complaints(atomic(inside=injectors("yes")))
    assert "<injectors> must hold JSON" in text
    (place,) = complaints(sequential(atomic("a"), inside=injectors("true")))
    assert "injectors" in place
