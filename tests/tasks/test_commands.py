"""The commands of tasks: check, evaluate, schema; and the examples, which run."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tests.cli.conftest import CommandLine, windlass
from tests.tasks.making import atomic, block, sequential
from windlass.tasks.parse import relax_ng

__all__ = ["windlass"]

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "operators").glob("*.xml"))


def write(windlass: CommandLine, xml: str) -> str:
    (windlass.folder / "t.xml").write_text(xml)
    return "t.xml"


class TestCheck:
    @pytest.mark.req("ADR-19", "ADR-31")
    def test_it_tells_warnings_and_defaults(self, windlass: CommandLine) -> None:
        said = windlass("check", write(windlass, atomic("a", block("none", "disabled"))))
        assert said.code == 0
        assert said.err == (
            "warning: t.xml:1: task 'a' has no context: it inherits, accumulates and fetches"
            " nothing, and sees its own description and inputs only\n"
        )
        assert "no mistakes, 1 warning" in said.out
        said = windlass("check", write(windlass, sequential(atomic("a"))), "--explain-defaults")
        assert "accumulation_format  notes_only  (default of sequential)" in said.out
        told = windlass("check", "t.xml", "--explain-defaults", "--json").json
        assert told["defaults"][1]["rule"]["carried"]["previous"] == "notes_only"

    @pytest.mark.req("ADR-21")
    def test_strict_refuses_what_a_block_lacks(self, windlass: CommandLine) -> None:
        file = write(windlass, atomic("a", block(None, "enabled")))
        assert windlass("check", file).code == 0
        said = windlass("check", file, "--strict")
        assert said.code == 2
        assert "t.xml:1: <context_management> lacks <inherit_context>" in said.complaint

    def test_the_schema_is_printed(self, windlass: CommandLine) -> None:
        said = windlass("schema", "operators")
        assert said.out == relax_ng()


class TestEvaluate:
    def test_it_prints_the_output_and_a_table(self, windlass: CommandLine) -> None:
        file = write(windlass, sequential(atomic("a"), atomic("b")))
        said = windlass("evaluate", file, "-i", "x=1")
        assert said.code == 0
        assert (
            "[2/2] b  (sees all of its parent's context; notes on each step before; what of …)"
            in said.err
        )
        assert "all tasks" in said.out
        told = windlass("evaluate", file, "--json").json
        assert told["status"] == "completed"
        assert [line["task"] for line in told["tasks"]] == ["a", "b"]

    @pytest.mark.parametrize(
        ("asks", "given", "told"),
        [
            ("<inputs><file>gone.md</file></inputs>", (), "there is no file 'gone.md'"),
            ("<inputs><glob>*.pdf</glob></inputs>", (), "matches '*.pdf'"),
            ("<inputs><file>{{ input.at }}</file></inputs>", ("at=x",), "there is no file 'x'"),
            ("<inputs><expression>input.rows</expression></inputs>", (), "needs the input 'rows'"),
            ("<inputs><expression>input.rows</expression></inputs>", ("rows=[]",), "to nothing"),
            ("", ('user={"a": 1}',), "there is no 'name' here"),
        ],
    )
    def test_a_missing_input_is_told_before_anything_begins(
        self, windlass: CommandLine, asks: str, given: tuple[str, ...], told: str
    ) -> None:
        described = "" if asks else "Do {{ input.user.name }}."
        file = write(windlass, sequential(atomic("a"), atomic("b", asks, described)))
        inputs = [part for each in given for part in ("-i", each)]
        said = windlass("evaluate", file, *inputs)
        assert (said.code, told in said.complaint) == (2, True), said.err
        assert said.complaint.startswith("windlass: t.xml:")
        assert windlass.requests == []
        assert not (windlass.folder / ".windlass").exists()

    def test_what_is_wrong_is_one_sentence(self, windlass: CommandLine) -> None:
        assert "give a task file to run" in windlass("evaluate").complaint
        assert "no such task file: 'gone.xml'" in windlass("evaluate", "gone.xml").complaint
        file = write(windlass, atomic("a"))
        for option in (["--accept"], ["--again", "look"]):
            complaint = windlass("evaluate", file, *option).complaint
            assert "for a session that is resumed; name it, too" in complaint
        for option in (["--input", "x=1"], ["--context", file], ["--session", "s2"]):
            complaint = windlass("evaluate", "--resume", "s", *option).complaint
            assert "a resumed session has its own input, context and name" in complaint
        assert "no engine 'spark'" in windlass("evaluate", file, "--engine", "spark").complaint

    def test_without_ray_it_says_what_to_install(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "ray", None)
        said = windlass("evaluate", write(windlass, atomic("a")), "--engine", "ray")
        assert said.code == 2
        assert "pip install 'windlass[ray]'" in said.complaint


class TestExamples:
    @pytest.mark.req("ADR-46", "ADR-47", "ADR-48", "ADR-49")
    @pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
    def test_they_are_sound_and_run(self, windlass: CommandLine, file: Path) -> None:
        etree.RelaxNG(etree.fromstring(relax_ng().encode())).assertValid(etree.parse(file))
        assert windlass("check", str(file)).code == 0
        said = windlass("evaluate", str(file), "--root", str(EXAMPLES))
        assert said.code == 0

    @pytest.mark.parametrize(
        ("name", "block"),
        [
            ("basic_sequential", ("full", "true", "notes_only", "enabled")),
            ("isolated_sequential", ("none", "true", "full_output", "enabled")),
            ("minimal_atomic", ("none", None, None, "disabled")),
            ("reduce_with_custom_context", ("subset", None, None, "enabled")),
        ],
    )
    @pytest.mark.req("ADR-46", "ADR-47", "ADR-48", "ADR-49")
    def test_their_blocks_are_those_of_the_document(
        self, name: str, block: tuple[str | None, ...]
    ) -> None:
        root = etree.parse(EXAMPLES / "operators" / f"{name}.xml").getroot()
        tags = ("inherit_context", "accumulate_data", "accumulation_format", "fresh_context")
        assert tuple(root.findtext(f"context_management/{tag}") for tag in tags) == block
