"""The profiles of windows on the command line, `run --auto`, and where options come from."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.cli.conftest import CommandLine
from windlass.cascade.options import first_paragraph
from windlass.declared import meanings_in
from windlass.window.options import Policy
from windlass.window.profiles import ABOUT, PROFILES, RARE

ONE = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "Do a."}]}


class TestPolicies:
    def test_lists_the_profiles_with_what_they_have_otherwise(self, windlass: CommandLine) -> None:
        said = windlass("policies")
        assert said.code == 0
        assert all(name in said.out for name in PROFILES)
        assert ABOUT["spec"] in said.out
        assert "mask_observations_after 3" in said.out

    def test_lists_them_as_json(self, windlass: CommandLine) -> None:
        found = windlass("policies", "--json").json
        assert found == {name: Policy.of(name).settings() for name in PROFILES}

    @pytest.mark.parametrize("name", sorted(PROFILES))
    def test_prints_one_as_yaml_that_a_cascade_takes(
        self, windlass: CommandLine, name: str
    ) -> None:
        said = windlass("policies", name, "--all")
        options = yaml.safe_load(said.out)
        assert options == windlass("policies", name, "--json").json
        assert Policy.of(options) == Policy.of(name)
        meanings = map(first_paragraph, meanings_in(Policy).values())
        assert all(f"# {meaning}" in said.out for meaning in meanings)
        cascade = {**ONE, "auto_context": {"intra_phase": options}}
        assert windlass("check", windlass.write("c.json", cascade)).code == 0

    @pytest.mark.parametrize("name", sorted(PROFILES))
    def test_options_that_are_rarely_on_are_printed_where_they_are_on(
        self, windlass: CommandLine, name: str
    ) -> None:
        options = yaml.safe_load(windlass("policies", name).out)
        assert Policy.of(options) == Policy.of(name)
        printed = {*options, *(f"compress.{key}" for key in options["compress"])}
        assert printed >= RARE if name == "spec" else not printed & RARE

    def test_an_unknown_one_is_told_with_the_nearest(self, windlass: CommandLine) -> None:
        said = windlass("policies", "leen")
        assert said.code == 2
        assert "there is no profile 'leen'; did you mean 'lean'? known: careful" in said.complaint


class TestCheck:
    @pytest.mark.req("AC-51")
    def test_explain_defaults_names_the_origin_of_each_option(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_KEEP_RECENT_IMAGES", "4")
        phase = {**ONE["phases"][0], "intra_context": {"window": 3}}  # type: ignore[dict-item]
        cascade = {**ONE, "auto_context": {"profile": "spec"}, "phases": [phase]}
        said = windlass("check", windlass.write("c.json", cascade), "--explain-defaults")
        lines = [" ".join(line.split()) for line in said.out.splitlines()]
        assert "intra_context.profile spec (auto_context)" in lines
        assert "intra_context.window 3 (intra_context)" in lines
        assert "intra_context.mask_observations_after 3 (profile spec)" in lines
        assert "intra_context.keep_recent_images 4 (WINDLASS_KEEP_RECENT_IMAGES)" in lines

    @pytest.mark.req("AC-99")
    def test_explain_defaults_names_the_flag_that_switches_off(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_INTRA_PHASE_ENABLED", "false")
        file = windlass.write("c.json", {**ONE, "auto_context": {}})
        said = windlass("check", file, "--explain-defaults", "--json")
        (phase,) = said.json
        assert phase["rule"]["policy"] is None
        assert phase["rule"]["switched_off"] == "auto_context_intra_phase_enabled"

    def test_a_mistake_in_an_option_ends_with_2_and_its_line(self, windlass: CommandLine) -> None:
        file = windlass.write("c.json", {**ONE, "auto_context": {"intra_phase": {"windw": 3}}})
        said = windlass("check", file)
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert "c.json:" in said.err
        assert "did you mean 'window'?" in said.err


class TestAuto:
    @pytest.mark.req("AC-69")
    def test_gives_a_cascade_auto_context_with_its_defaults(self, windlass: CommandLine) -> None:
        file = windlass.write("c.json", ONE)
        assert windlass("run", file, "--auto").code == 0
        assert "shortened (profile default)" in windlass("run", file, "--auto").err
        assert "shortened" not in windlass("run", file).err

    def test_leaves_what_the_cascade_says_as_it_is(self, windlass: CommandLine) -> None:
        spec = windlass.write("c.json", {**ONE, "auto_context": {"profile": "spec"}})
        assert "shortened (profile spec)" in windlass("run", spec, "--auto").err
        off = windlass.write("c.json", {**ONE, "auto_context": False})
        assert "shortened" not in windlass("run", off, "--auto").err

    def test_works_with_a_dry_run(self, windlass: CommandLine) -> None:
        file = windlass.write("c.json", ONE)
        assert windlass("run", file, "--auto", "--dry-run").code == 0


@pytest.mark.parametrize(
    ("moments", "says"),
    [
        ({"prized": 2}, "unknown key 'prized'; did you mean 'priced'?"),
        ({"priced": 0.5}, "auto_context.free_moments.priced: must be at least 1, not 0.5"),
        ({"keep": {"share": 2}}, "auto_context.free_moments.keep.share: must be at most 1, not 2"),
    ],
)
def test_a_mistake_in_free_moments_is_one_sentence_with_its_line(
    windlass: CommandLine, moments: dict[str, Any], says: str
) -> None:
    made = {**ONE, "auto_context": {"free_moments": moments}}
    windlass.write("c.json", json.dumps(made, indent=1))
    said = windlass("check", "c.json")
    assert said.code == 2
    (line,) = said.err.strip().splitlines()
    assert re.match(r"(windlass: )?c\.json:\d+: ", line)
    assert says in line
