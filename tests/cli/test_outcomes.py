"""How a run ends on the command line: the reason, the exit code, and what later commands say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import call, calls, cascade, phase
from windlass.errors import BadRequest
from windlass.messages import Message

KEPT = '{"key": "k", "value": "v"}'


@pytest.fixture
def endless(windlass: CommandLine) -> CommandLine:
    """The command line in a folder with a cascade and a task that never stop calling tools."""
    made = phase("a", tackle=["set_state"], rules={"max_turns": 2})
    windlass.write("endless.json", cascade(made, phase("b")))
    windlass.write("endless.xml", ENDLESS)
    windlass.script = lambda request: (
        calls(call("set_state", KEPT), text="So far.") if request.tool_choice == "auto" else "ok"
    )
    return windlass


ENDLESS = """<task type="sequential" name="both">
  <description>Do both.</description>
  <steps>
    <task type="atomic" name="a"><description>Do a.</description>
      <tools><tool>set_state</tool></tools><rules><max_turns>2</max_turns></rules></task>
    <task type="atomic" name="b"><description>Do b.</description></task>
  </steps>
</task>
"""


@pytest.mark.usefixtures("endless")
def test_what_is_printed_of_an_incomplete_run(transcript: Transcript) -> None:
    transcript(
        "incomplete",
        *("run endless.json --session s1", "sessions", "show s1", "report s1", "explain s1 1"),
        "query 'SELECT phase, status, reason FROM lineage'",
    )


def test_a_task_ends_so_too_and_names_the_way_on(endless: CommandLine) -> None:
    said = endless("evaluate", "endless.xml", "--session", "s1")
    assert said.code == 3
    assert "incomplete (turns)" in said.complaint
    assert "go on from there: windlass evaluate endless.xml --resume s1" in said.out
    endless.script = lambda _: "done"
    again = endless("evaluate", "--resume", "s1", "--json")
    assert (again.code, again.json["status"], again.json["reason"]) == (0, "completed", None)


def test_one_turn_with_a_tool_is_completed_with_a_note(endless: CommandLine) -> None:
    endless.write("one.json", cascade(phase("a", tackle=["set_state"], rules={"max_turns": 1})))
    endless.write("one.xml", ENDLESS.replace("<max_turns>2<", "<max_turns>1<"))
    for command, file in (("run", "one.json"), ("evaluate", "one.xml")):
        said = endless(command, file)
        assert said.code == 0
        assert "has one turn (max_turns is 1); one more call answers" in said.err
        assert "incomplete" not in said.err + said.out
        told = endless("show", "latest")
        assert "incomplete" not in told.out
    assert endless("check", "one.json").out.splitlines()[1:] == []


def test_a_full_window_is_told_as_what_it_is(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a")))
    windlass.script = lambda _: ("half", "window")  # type: ignore[assignment,return-value]
    said = windlass("run", "c.json", "-m", "local/m")
    assert said.code == 3
    assert "the run is incomplete (length): a reply was cut before its end" in said.complaint
    why = "The reply was cut where the model's context window was full."
    assert why in said.err
    assert why in windlass("show", "latest").out
    assert "output limit" not in said.err
    assert len(windlass.requests) == 1, "a full window has no room for the rest"


def test_help_lists_the_exit_codes(windlass: CommandLine) -> None:
    told = " ".join(windlass("--help").out.split())
    for code in ("0 completed", "1 the run", "2 a mistake", "3 the run is incomplete", "130 inter"):
        assert code in told


def test_an_input_that_no_template_uses_is_a_warning(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", instructions="Read the file {{ input.file }}.")))
    for command in ((), ("--dry-run",)):
        said = windlass("run", "c.json", "-i", "file=A", "-i", "flie=B", *command)
        assert said.code == 0
        told = "warning: no template uses the input 'flie': write {{ input.flie }} where it belongs"
        assert told in said.err
        assert "did you mean 'file'?" in said.err
        assert "'file':" not in said.err
    for uses in (
        phase("a", instructions="{{ input }}"),
        phase("a", instructions="{% for key in input %}{{ key }}{% endfor %}"),
        phase("a", instructions="{% if input.flie is defined %}Go{% endif %}."),
        phase("a", context={"from": []}),
    ):
        windlass.write("c.json", cascade(uses))
        assert "no template uses" not in windlass("run", "c.json", "-i", "flie=B").err


def test_what_is_sent_and_why_is_told_with_v_only(
    windlass: CommandLine, transcript: Transcript
) -> None:
    windlass.write(
        "c.json",
        cascade(phase("a", tackle=["set_state"]), phase("b", context={"from": ["a"]})),
    )
    asked = calls(call("set_state", '{"key": "k", "value": 1}'))
    replies: Iterator[Message | str] = iter([asked, "x " * 400, "done"] * 2)
    windlass.script = lambda _: next(replies)
    transcript("verbose", "run c.json", "run c.json -v")


@pytest.mark.parametrize("flags", [(), ("--output-only",), ("--json",)])
def test_a_run_that_can_be_resumed_says_how_once_and_one_that_cannot_does_not(
    windlass: CommandLine, flags: tuple[str, ...]
) -> None:
    windlass.write("c.json", cascade(phase("a")))
    windlass.script = lambda _: ""
    said = windlass("run", "c.json", "--session", "s1", *flags)
    assert said.code == 3
    assert (said.out + said.err).count("go on from there: windlass run c.json --resume s1") == 1

    def breaks(_: object) -> str:
        raise BadRequest("not so")

    windlass.script = breaks
    said = windlass("run", "c.json", "--session", "s2", *flags)
    assert said.code == 1
    assert (said.out + said.err).count("go on from there: windlass run c.json --resume s2") == 1
    windlass.script = lambda _: "fine"
    for again in (("run", "c.json"), ("run", "c.json", "--resume", "s2")):
        said = windlass(*again, *flags)
        assert said.code == 0
        assert "--resume" not in said.out + said.err
