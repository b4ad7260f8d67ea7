"""Injectors on the command line: warnings of `check`, the plan in progress, blocks in `show`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase

LONG = "Rule. " * 1_100


@pytest.mark.req("CE-16")
def test_a_system_role_over_its_cap_is_a_warning_and_strictly_a_mistake(
    windlass: CommandLine,
) -> None:
    windlass.write("one.json", cascade(phase("a"), system=LONG, injectors=True))
    said = windlass("check", "one.json")
    assert said.code == 0
    assert "warning: one.json:9: system: the system role has 2,422 tokens" in " ".join(
        said.out.split()
    )
    assert windlass("check", "one.json", "--json").json["warnings"]
    strict = windlass("check", "one.json", "--strict")
    assert strict.code == 2
    assert "more than its cap of 2,000" in strict.err


@pytest.mark.req("CE-17")
def test_tools_over_their_cap_are_told_with_their_sizes(windlass: CommandLine) -> None:
    one = phase("a", tackle=["read_file", "create_chart"])
    windlass.write("one.json", cascade(one, injectors={"tools": {"cap": 100}}))
    told = " ".join(windlass("check", "one.json").out.split())
    assert "the definitions of 2 tools have" in told
    assert "(create_chart " in told
    assert ", read_file " in told
    assert "'tackle': 'manifest'" in told
    assert windlass("check", "one.json", "--strict").code == 2


@pytest.mark.req("CE-41")
def test_volatile_values_are_named_and_the_users_own_are_priced(windlass: CommandLine) -> None:
    text = "Built 2026-11-22T08:00:00Z. It is {{ now }}. {% if state.x %}{{ call }}{% endif %}"
    windlass.write("one.json", cascade(phase("a"), system=text, injectors=True))
    told = " ".join(windlass("check", "one.json").out.split())
    assert "now will be moved behind the stable part" in told
    assert "call, state stand in a block of the template" in told
    assert "character 6: '2026-11-22T08:00:00Z' looks as if it changed from run to run" in told


def test_what_a_run_mends_by_itself_is_no_mistake(windlass: CommandLine) -> None:
    windlass.write("one.json", cascade(phase("a"), system="{{ now }}", injectors=True))
    said = windlass("check", "one.json", "--strict")
    assert said.code == 0
    assert "now will be moved" in said.out


def test_without_injectors_nothing_is_warned_of(windlass: CommandLine) -> None:
    windlass.write("one.json", cascade(phase("a"), system=LONG))
    assert "warning" not in windlass("check", "one.json", "--strict").out


def test_every_option_is_listed_with_its_origin(windlass: CommandLine) -> None:
    one = phase("a", injectors={"todo": {"cap": 99}})
    windlass.write("one.json", cascade(one, injectors={"knowledge": False}))
    said = windlass("check", "one.json", "--explain-defaults")
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "injectors.todo.cap 99 (written)" in lines
    assert "injectors.knowledge False (written, for the whole cascade)" in lines
    assert "injectors.skills.cap 1000 (default)" in lines


@pytest.mark.req("CE-56", "CE-8")
def test_a_run_shows_its_plan_and_show_its_blocks(
    windlass: CommandLine, transcript: Transcript
) -> None:
    plan = calls(call("plan", '{"goal": "Ship it", "steps": ["one", "two"]}'))
    done = calls(call("todo", '{"step": 1, "status": "done", "conclusion": "found 7"}'))
    one = phase("a", tackle=["plan", "todo"])
    windlass.write("one.json", cascade(one, system="S.", injectors=True))
    windlass.script = by_phase({"a": [plan, done, "done"]})  # type: ignore[assignment]
    transcript("plan", "run one.json --session s1", "show s1 --call 3", "explain s1 3")


def test_a_dry_run_shows_the_first_request_with_its_blocks(windlass: CommandLine) -> None:
    made = cascade(phase("a"), system="It is call {{ call }}.", injectors=True)
    windlass.write("one.json", made)
    said = windlass("run", "one.json", "--dry-run")
    assert said.code == 0, said.err
    assert "It is call [call]." in said.out
    assert "[Values now]\ncall: 1" in said.out


class TestPrefix:
    """`windlass report SESSION --prefix`."""

    def run(self, windlass: CommandLine, *, cached: bool = True, **injectors: Any) -> list[Any]:
        if cached:
            windlass.write(
                "windlass.toml",
                '[prices."scripted/function"]\ninput = 1.0\noutput = 5.0\n'
                "cache_read = 0.1\ncache_write = 1.25\n",
            )
        plan = calls(call("plan", '{"goal": "Ship it", "steps": ["one", "two"]}'))
        done = calls(call("todo", '{"step": 1, "status": "done"}'))
        one = phase("a", tackle=["plan", "todo"])
        two = phase("b", tackle=["plan"])
        system = "Be kind. It is call {{ call }}." + " Rule." * 600  # what is short is not cached
        windlass.write("one.json", cascade(one, two, system=system, injectors=injectors))
        windlass.script = by_phase({"a": [plan, done, "done"]})  # type: ignore[assignment]
        said = windlass("run", "one.json", "--session", "s1")
        assert said.code == 0, said.err
        told: list[Any] = windlass("report", "s1", "--prefix", "--json").json
        return told

    @pytest.mark.req("CE-49")
    def test_a_call_that_only_goes_on_shares_all_of_the_one_before(
        self, windlass: CommandLine
    ) -> None:
        told = self.run(windlass)
        assert [one["shared"] for one in told[1:3]] == [one["sent"] for one in told[:2]]
        assert all(0 <= one["shared"] - one["predicted"] < 128 for one in told[1:3])
        assert [one["broken_by"] for one in told] == ["", "", "", ""]
        printed = " ".join(windlass("report", "s1", "--prefix").out.split())
        assert "after the first call:" in printed

    @pytest.mark.req("CE-41")
    def test_it_names_message_character_and_injector(self, windlass: CommandLine) -> None:
        second = self.run(windlass, volatile="in_place")[1]
        assert (second["message"], second["character"]) == (0, len("Be kind. It is call "))
        assert second["injector"] == "system_role"
        assert second["broken_by"].startswith("the block of system_role has changed ('2. Rule")

    def test_it_names_a_block_that_was_taken_away(self, windlass: CommandLine) -> None:
        second = self.run(windlass, cached=False)[1]
        assert second["message"] == 1
        assert second["broken_by"] == "the block at its end was taken away"
        assert second["predicted"] is None

    def test_without_prefix_it_tells_the_cost(self, windlass: CommandLine) -> None:
        self.run(windlass)
        assert "all phases" in windlass("report", "s1").out
