"""`windlass fork` and `diff`: a session from one of its calls on, another way."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from windlass.wire.base import Request


def says(request: Request) -> str:
    return f"answer to {request.messages[-1].text}"


@pytest.fixture
def ran(windlass: CommandLine) -> CommandLine:
    windlass.script = says
    whole = cascade(*(phase(name, instructions=f"Do {name}.") for name in "abc"))
    windlass.write("c.json", whole)
    assert windlass("run", "c.json", "-m", "local/m", "--session", "s1").code == 0
    return windlass


def test_what_came_before_is_inherited_and_the_rest_is_sent(ran: CommandLine) -> None:
    changed = ("--set", "b.instructions=Do b well.", "--session", "s2")
    said = ran("fork", "s1", "--at", "2", *changed, "--json")
    assert said.code == 0
    assert said.json["outputs"] == {
        "a": "answer to Do a.",
        "b": "answer to Do b well.",
        "c": "answer to Do c.",
    }
    assert len(ran.requests) == 3 + 2
    said = ran("diff", "s1", "s2")
    assert said.code == 0
    assert "Do b well." in said.out
    assert "inherited from session s1" in ran("report", "s2").out
    assert "forked from session s1; where they part: windlass diff s1 s2" in ran("show", "s2").out
    assert "forked at call 2 as session s2" in ran("show", "s1").out


def test_it_has_limits_of_its_own(ran: CommandLine) -> None:
    said = ran("fork", "s1", "--at", "2", "--session", "s2", "--max-turns", "1")
    assert said.code == 3
    assert len(ran.requests) == 3 + 1
    assert ran("sessions", "--json").json[0]["status"] == "incomplete"
    assert "go on with it: windlass run --resume s2" in ran("show", "s2").out
    assert "go on with it" not in ran("show", "s1").out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--at", "9"], "session 's1' has no call 9; its calls are 1 to 3"),
        (["--at", "1", "--set", "x.instructions=y"], "there is no phase 'x'"),
        (["--at", "1", "--set", "nonsense"], "write KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_sentence(ran: CommandLine, more: list[str], told: str) -> None:
    said = ran("fork", "s1", *more)
    assert said.code == 2
    assert told in said.complaint
    assert len(ran.requests) == 3
