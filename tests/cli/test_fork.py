"""`windlass fork` and `diff`: a session from one of its calls on, another way."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine, Transcript
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


def test_what_is_printed_of_forks(ran: CommandLine, transcript: Transcript) -> None:
    transcript(
        "fork",
        "fork s1 --at 2 --set 'b.instructions=Do b well.' --session s2",
        *("diff s1 s2", "report s2", "show s2", "show s1"),
        *("fork s1 --at 9", "fork s1 --at 1 --set x.instructions=y"),
        "fork s1 --at 1 --set nonsense",
    )
    assert len(ran.requests) == 3 + 2


def test_it_has_limits_of_its_own(ran: CommandLine) -> None:
    said = ran("fork", "s1", "--at", "2", "--session", "s2", "--max-turns", "1")
    assert said.code == 3
    assert len(ran.requests) == 3 + 1
    assert ran("sessions", "--json").json[0]["status"] == "incomplete"
    assert "go on with it: windlass run --resume s2" in ran("show", "s2").out
    assert "go on with it" not in ran("show", "s1").out
