"""What cascades of the original runner hold, on the command line: checked, and run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, cascade, phase
from windlass.settings import trust


@pytest.fixture
def mark(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder of settings, in which folders are marked as trusted."""
    own = windlass.folder / "own"
    own.mkdir()
    monkeypatch.setattr(trust, "user_folder", lambda: own)
    return own


def tool(name: str, *tackle: str, **more: Any) -> dict[str, Any]:
    """A cascade that is a tool."""
    judged = 'Say {"valid": true} of {{ input.content }}'
    asked = {"name": "judge", "instructions": judged, "tackle": [*tackle]}
    schema = {"content": "the text"}
    return {"cascade_id": name, "inputs_schema": schema, "phases": [asked], **more}


# ---- folders of tools ----------------------------------------------------------------------


def test_a_tool_cascade_may_have_tags(windlass: CommandLine) -> None:
    (windlass.folder / "tackle").mkdir()
    windlass.write("tackle/words.json", tool("words", tags=["validator"]))
    made = cascade(phase("a", rules={"loop_until": "words"}), tools=["./tackle"])
    windlass.write("c.json", made)
    windlass.script = lambda _: '{"valid": true}'
    assert windlass("check", "c.json").code == 0
    said = windlass("run", "c.json")
    assert said.code == 0, said.err
    assert len(windlass.requests) == 2


@pytest.mark.parametrize("wrong", [{}, {"rules": {"max_turns": 0}}])
def test_a_folder_of_tools_that_nobody_trusts_is_told_with_the_command(
    windlass: CommandLine, mark: Path, wrong: dict[str, Any]
) -> None:
    assert mark.is_dir()
    (windlass.folder / "tackle").mkdir()
    windlass.write("tackle/words.json", tool("words"))
    windlass.write("windlass.toml", 'tools = ["./tackle"]\n')
    windlass.write("c.json", cascade(phase("a", tackle=["words"], **wrong)))
    said = windlass("check", "c.json")
    assert "tools of windlass.toml:1" in said.err.replace(f"{windlass.folder}/", "")
    assert f"windlass trust {windlass.folder}" in said.err
    if not wrong:
        assert windlass("trust", ".").code == 0
        assert "trust" not in windlass("check", "c.json").err


def test_lenient_reaches_the_tools_of_tool_cascades(windlass: CommandLine) -> None:
    (windlass.folder / "tackle").mkdir()
    windlass.write("tackle/visit.json", tool("visit", "page_opener"))
    made = cascade(phase("a", tackle="manifest"), tools=["./tackle"])
    windlass.write("c.json", made)
    assert windlass("run", "c.json").code == 2
    said = windlass("check", "c.json", "--lenient")
    assert said.code == 0
    assert "'page_opener'" in said.out
    assert "it is left out" in said.out


# ---- names that are not set ----------------------------------------------------------------


def test_check_names_each_place_that_may_not_be_set(windlass: CommandLine) -> None:
    windlass.write(
        "c.json",
        cascade(
            phase("get", tackle=["set_state"], handoffs=["use"]),
            phase(
                "use",
                instructions="On {{ state.topic }}{% if outputs.get.comment %}!{% endif %}"
                "{% if state.tone is defined %}{{ state.tone }}{{ state.tone.warmth }}{% endif %}"
                "{{ state.size | default('') }}",
                rules={"retry_instructions": "{{ state.again }}"},
                handoffs=["end"],
            ),
        ),
    )
    said = windlass("check", "c.json")
    told = [line.partition("may not be set: ")[2] for line in said.out.splitlines()]
    assert sorted(filter(None, told)) == [
        "outputs.get.comment; use outputs.get.comment | default('')",
        "state.again; use state.again | default('')",
        "state.topic; use state.topic | default('')",
    ]
    assert "c.json:" in said.out


def test_what_is_certainly_set_is_not_told(windlass: CommandLine) -> None:
    extraction = {"pattern": "(.)", "store_as": "peak", "required": True}
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    windlass.write(
        "c.json",
        cascade(
            phase("a", output_extraction=extraction, output_schema=schema),
            {"name": "b", "tool": "set_state", "inputs": {"key": "k", "value": "v"}},
            phase(
                "c",
                instructions="{{ state.peak }}{{ state.validated_output }}{{ state.k }}"
                "{{ state.output_a }}{{ input.x }}{{ input.y }}",
            ),
            inputs_schema={"x": {"default": "1"}, "y": "needed"},
        ),
    )
    assert "may not be set" not in windlass("check", "c.json").out


def test_an_input_that_only_one_way_needs_is_told(windlass: CommandLine) -> None:
    ways = [{"target": "b", "description": "one"}, {"target": "c", "description": "two"}]
    windlass.write(
        "c.json",
        cascade(
            phase("a", handoffs=ways),
            phase("b", instructions="{{ input.rare }}", handoffs=["end"]),
            phase("c", handoffs=["end"]),
        ),
    )
    assert "may not be set: input.rare" in windlass("check", "c.json").out


def test_a_lenient_run_prints_nothing_for_what_is_not_set(windlass: CommandLine) -> None:
    text = "[{{ state.topic }}{{ outputs.get.selected }}{{ checkpoint_id }}{{ state.a.b + 'x' }}]"
    windlass.write(
        "c.json",
        cascade(phase("get"), phase("use", instructions=text, context={"from": []})),
    )
    assert windlass("run", "c.json").code == 2
    windlass.write("d.json", cascade(phase("use", instructions="{{ state.topic }}!")))
    assert windlass("run", "d.json").code == 1
    said = windlass("check", "c.json", "--lenient")
    assert said.code == 0
    for name in ("state.topic", "outputs.get.selected", "checkpoint_id"):
        assert name in said.out
    said = windlass("run", "c.json", "--lenient")
    assert said.code == 0, said.err
    assert windlass.requests[-1].messages[-1].text == "[x]"


# ---- values ----------------------------------------------------------------------------------


def test_lenient_takes_turns_that_are_a_template(windlass: CommandLine) -> None:
    rules = {"max_turns": "{{ input.n | default(3) }}"}
    windlass.write("c.json", cascade(phase("a", tackle=["list_files"], rules=rules)))
    assert windlass("check", "c.json").code == 2
    said = windlass("check", "c.json", "--lenient")
    assert said.code == 0
    assert "is read without the input: 3 holds" in said.out
    explained = windlass("check", "c.json", "--lenient", "--explain-defaults")
    assert explained.code == 0


def test_lenient_has_an_evaluator_where_none_is_written(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", soundings={"factor": 2})))
    assert windlass("run", "c.json").code == 2
    windlass.script = lambda _: '{"winner": 2}'
    said = windlass("run", "c.json", "--lenient")
    assert said.code == 0, said.err
    assert "best does what was asked" in said.err
    assert any("best does what was asked" in str(each) for each in windlass.requests)


def test_costs_that_the_evaluator_is_not_shown(windlass: CommandLine) -> None:
    asked: dict[bool, str] = {}
    for shown in (True, False):
        costs = {"enabled": True, "show_costs_to_evaluator": shown}
        tried = {"factor": 2, "evaluator_instructions": "Best.", "cost_aware_evaluation": costs}
        windlass.write("c.json", cascade(phase("a", soundings=tried)))
        windlass.script = lambda _: '{"winner": 1}'
        assert windlass("run", "c.json").code == 0
        asked[shown] = windlass.requests[-1].messages[-1].text
    assert "cost" in asked[True].lower()
    assert "cost" not in asked[False].lower()


def test_a_browser_is_left_out_and_its_tools_are_told(windlass: CommandLine) -> None:
    browser = {"url": "https://example.org"}
    made = phase("a", browser=browser, tackle=["control_browser", "extract_page_content"])
    windlass.write("c.json", cascade(made))
    said = windlass("check", "c.json")
    assert said.code == 2
    assert said.err.count("is no tool of Windlass") == 2
    assert windlass("run", "c.json", "--lenient").code == 0
    windlass.write("c.json", cascade(phase("a", browser=browser)))
    assert "'browser' is not part of Windlass, and is left out" in windlass("check", "c.json").out


def test_an_empty_input_is_not_sent(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a"), phase("b", context={"from": ["a"]})))
    assert windlass("run", "c.json").code == 0
    assert "[Original Input]" not in str(windlass.requests[-1])
    assert windlass("run", "c.json", "-i", "x=1").code == 0
    assert "[Original Input]" in str(windlass.requests[-1])


def test_a_prompt_from_the_current_folder_where_that_is_trusted(
    windlass: CommandLine, mark: Path
) -> None:
    assert mark.is_dir()
    for folder in ("sub", "prompts"):
        (windlass.folder / folder).mkdir()
    windlass.write("prompts/hello.txt", "Say hello to {{ input.name }}.")
    windlass.write("sub/c.json", cascade(phase("hi", instructions="@prompts/hello.txt")))
    said = windlass("check", "sub/c.json")
    assert said.code == 2
    assert "windlass trust ." in said.complaint
    assert windlass("trust", ".").code == 0
    said = windlass("run", "sub/c.json", "-i", "name=Bo")
    assert said.code == 0, said.err
    assert windlass.requests[-1].messages[-1].text == "Say hello to Bo."


# ---- people ------------------------------------------------------------------------------------


def human(**options: Any) -> dict[str, Any]:
    """A phase after which a person is asked, and one that shows the answer."""
    asked = phase("a", human_input=options)
    told = phase("b", instructions="{{ state.a | default('nobody') }}", context={"from": []})
    return cascade(asked, told)


@pytest.mark.parametrize(
    ("options", "answer", "state"),
    [
        (
            {"type": "choice", "options": [{"label": "Good", "value": "g"}, "Bad"]},
            "Good",
            "g",
        ),
        ({"type": "choice", "options": [{"label": "Good", "value": "g"}, "Bad"]}, "bad", "Bad"),
        ({"type": "confirmation", "prompt": "Approve?"}, "yes", "yes"),
        ({"type": "rating", "max_rating": 3, "prompt": "How good?"}, "3", "3"),
        ({"type": "text", "prompt": "Why?", "hint": "short"}, "Because.", "Because."),
        ({"prompt": "Why?", "condition": "'said' in output"}, "Because.", "Because."),
    ],
)
def test_a_person_is_asked_as_an_object_says(
    windlass: CommandLine, options: dict[str, Any], answer: str, state: str
) -> None:
    windlass.write("c.json", human(**options))
    assert windlass("check", "c.json").code == 0
    said = windlass("run", "c.json", "--answer", answer)
    assert said.code == 0, said.err
    assert windlass.requests[-1].messages[-1].text == state


def test_a_condition_that_does_not_hold_asks_nobody(windlass: CommandLine) -> None:
    windlass.write("c.json", human(prompt="Why?", condition="'never' in output"))
    assert windlass("run", "c.json").code == 0
    assert windlass.requests[-1].messages[-1].text == "nobody"


def test_a_condition_that_cannot_be_read_is_found_before(windlass: CommandLine) -> None:
    windlass.write("c.json", human(prompt="Why?", condition="'x' in outptu"))
    said = windlass("check", "c.json")
    assert said.code == 2
    assert "human_input.condition: a template cannot use 'outptu'" in said.complaint


def test_an_answer_that_is_none_of_a_persons_choices_is_refused(windlass: CommandLine) -> None:
    windlass.write("c.json", human(type="confirmation", prompt="Approve?"))
    assert windlass("run", "c.json", "--answer", "perhaps").code != 0


# ---- commands ------------------------------------------------------------------------------------


def test_every_command_that_reads_a_cascade_is_lenient_where_it_is_told(
    windlass: CommandLine,
) -> None:
    made = cascade(phase("a", tackle=["lenses"], instructions="[{{ state.x }}]"), nonsense=1)
    windlass.write("c.json", made)
    windlass.write("in.jsonl", json.dumps({"x": 1}))
    policies = ("--policy", "everything", "--policy", "lean")
    commands = [
        ("batch", "c.json", "in.jsonl", "--out", "b.jsonl"),
        ("compare", "c.json", "in.jsonl", *policies, "--out", "d.jsonl"),
    ]
    for command in commands:
        assert windlass(*command).code == 2
        said = windlass(*command, "--lenient")
        assert said.code == 0, said.err
    windlass.patch.setattr(sys, "stdin", io.StringIO("/exit\n"))
    assert windlass("chat", "c.json").code == 2
    assert windlass("chat", "c.json", "--lenient").code == 0
    windlass.script = by_phase({"a": ["one", "two", "three"]})  # type: ignore[assignment]
    assert windlass("run", "c.json", "--lenient", "--session", "s1").code == 0
    for flags in ((), ("--lenient",)):
        said = windlass("fork", "s1", "--at", "1", *flags)
        assert said.code == 0, said.err


# ---- what is different here ----------------------------------------------------------------------


def test_check_says_what_is_different_here(windlass: CommandLine) -> None:
    windlass.write("child.json", {**cascade(phase("k")), "cascade_id": "child"})
    judged = {"good": {"instructions": "Good? {{ input.content }}"}}
    windlass.write(
        "c.json",
        cascade(
            phase("look", tackle=["list_files"], handoffs=["ask"]),
            phase("ask", sub_cascades=[{"ref": "child.json"}], handoffs=["work"]),
            phase(
                "work",
                instructions="{{ outputs.look }}",
                context={"from": []},
                rules={"loop_until": "good", "max_attempts": 2},
            ),
            validators=judged,
        ),
    )
    told = windlass("check", "c.json", "--json").json["different_here"]
    assert all(each["file"] == "c.json" and each["line"] for each in told)
    said = {each["message"].split(": ", 1)[0]: each["message"] for each in told}
    assert set(said) == {
        "phase 'ask'",
        "phase 'ask', sub_cascades",
        "phase 'work', rules.loop_until",
        "phase 'work', instructions",
    }
    assert "'context_strategy': 'fresh'" in said["phase 'ask'"]
    assert "'on_exhausted': 'continue'" in said["phase 'work', rules.loop_until"]
    assert "outputs.look.tool_results" in said["phase 'work', instructions"]
    assert windlass("check", "c.json").out.count("different here: c.json:") == 4
    assert windlass("check", "c.json", "--strict").code == 0


def test_phases_that_see_all_are_told_in_one_line(windlass: CommandLine) -> None:
    phases = phase("a", handoffs=["b"]), phase("b", handoffs=["c"]), phase("c")
    windlass.write("c.json", cascade(*phases))
    (told,) = windlass("check", "c.json", "--json").json["different_here"]
    assert told["message"].startswith("phase 'b': sees all that was said before it, and so do 'c';")


def test_a_cascade_of_our_own_is_told_no_differences(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a"), phase("b")))
    assert "different here" not in windlass("check", "c.json").out
    assert "different here" in windlass("check", "c.json", "--lenient").out
