"""What `context_management` says, and what holds where it says nothing, by what tasks then see."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, windlass
from tests.support.tasks_sections import FRESH, INHERITED, PREVIOUS
from tests.tasks.conftest import TaskHouse, house, inputs
from tests.tasks.making import atomic, block, reduce, sequential
from windlass.errors import StoreError, TaskFileError
from windlass.memory.banks import Banks
from windlass.memory.matching import WordIndex

__all__ = ["house", "windlass"]

MEMORY = "<memory><folder>docs</folder></memory>"
PARENT = "Known before: the bridge is of steel."
LONG = "The bridge is long. " + "Each of its spans is told of here at length. " * 100
EXAMPLE = (
    Path(__file__).parents[2] / "examples" / "operators" / "reduce_with_custom_context.xml"
).read_text(encoding="utf-8")


@pytest.fixture
def docs(house: TaskHouse) -> TaskHouse:
    """A house with one file that each task `Do ...` of a bridge matches, and one that none does."""
    house.write(docs__bridge="A bridge of steel is painted.", docs__tea="Tea is poured.")
    return house


def bridge(name: str, inside: str = "") -> str:
    return atomic(name, inside, asks=f"Say {name} of the steel bridge.")


class TestDefaults:
    @pytest.mark.req("ADR-14", "ADR-30")
    async def test_of_an_atomic_task(self, docs: TaskHouse) -> None:
        ran = await docs.run(bridge("a", MEMORY), context=PARENT)
        assert PARENT in ran.section("a", INHERITED)
        assert "[docs/bridge.md:1]" in ran.section("a", FRESH)
        assert "tea" not in ran.section("a", FRESH)

    @pytest.mark.req("ADR-15", "ADR-28")
    async def test_of_a_sequence(self, docs: TaskHouse) -> None:
        # The steps say nothing themselves, so each is as the sequence has it.
        ran = await docs.run(
            sequential(bridge("a"), bridge("b"), inside=MEMORY),
            {"Say a of the steel bridge.": LONG},
            context=PARENT,
        )
        assert PARENT in ran.section("b", INHERITED)  # full
        told = ran.section("b", PREVIOUS)  # accumulates
        assert "[notes on a]\nThe bridge is long." in told  # notes only
        assert len(told) < len(LONG) / 2
        assert "[docs/bridge.md:1]" in ran.section("b", FRESH)  # fetches

    @pytest.mark.req("ADR-16", "ADR-17", "ADR-18", "ADR-29", "ADR-13")
    async def test_of_a_reduce_its_inner_task_and_its_reduction(self, docs: TaskHouse) -> None:
        docs.write(inner__x="This steel bridge is new.", end__y="That steel bridge is old.")
        inner, end = (MEMORY.replace("docs", name) for name in ("inner", "end"))
        xml = reduce(inputs("x"), inside=MEMORY, inner=inner, reduction=end)
        ran = await docs.run(xml.replace("Do ", "Say of the steel bridge "), context=PARENT)
        for task in ("inner[0]", "reduction"):
            inherited = ran.section(task, INHERITED)
            assert PARENT in inherited  # each of the three inherits in full
            assert "[docs/bridge.md:1]" in inherited  # what the reduce fetched
        assert ran.section("inner[0]", FRESH) == ""
        assert "[end/y.md:1]" in ran.section("reduction", FRESH)

    @pytest.mark.req("ADR-14", "ADR-15", "ADR-16", "ADR-17", "ADR-18", "ADR-29", "ADR-30", "ADR-31")
    def test_are_printed_by_check(self, windlass: CommandLine) -> None:
        xml = sequential(atomic("a"), reduce(inputs("x"), name="r"), name="s")
        (windlass.folder / "t.xml").write_text(xml)
        said = windlass("check", "t.xml", "--explain-defaults")
        assert said.code == 0
        defaults = [line.split() for line in said.out.splitlines() if "(default of " in line]
        told = {(line[-1].rstrip(")"), line[0]): line[1] for line in defaults}
        documented = {
            "atomic": ("full", None, None, "enabled"),
            "sequential": ("full", "true", "notes_only", "enabled"),
            "reduce": ("full", None, None, "enabled"),
            "reduce.inner_task": ("full", None, None, "disabled"),
            "reduce.reduction_task": ("full", None, None, "enabled"),
        }
        names = ("inherit_context", "accumulate_data", "accumulation_format", "fresh_context")
        assert told == {
            (kind, name): value
            for kind, values in documented.items()
            for name, value in zip(names, values, strict=True)
            if value is not None
        }


class TestBlocks:
    @pytest.mark.req("ADR-1", "ADR-12", "ADR-8")
    async def test_a_sequence_has_all_four_and_a_step_its_own(self, docs: TaskHouse) -> None:
        inside = MEMORY + block("none", "disabled", "true", "full_output")
        own = block("full", "enabled")
        ran = await docs.run(
            sequential(
                bridge("a"), bridge("b", own), bridge("c", block("none", "disabled")), inside=inside
            ),
            {"Say a of the steel bridge.": LONG},
            context=PARENT,
        )
        assert ran.section("c", INHERITED) == ran.section("c", FRESH) == ""
        assert LONG.strip() in ran.section("c", PREVIOUS)
        assert "[docs/bridge.md:1]" in ran.section("b", FRESH)

    @pytest.mark.req("ADR-13")
    async def test_a_reduce_has_three(self, docs: TaskHouse) -> None:
        xml = reduce(
            inputs("x"),
            inside=MEMORY + block("full", "disabled"),
            inner=block("full", "enabled"),
            reduction=block("none", "disabled"),
        ).replace("Do ", "Say of the steel bridge ")
        ran = await docs.run(xml, context=PARENT)
        assert PARENT in ran.section("inner[0]", INHERITED)
        assert "[docs/bridge.md:1]" in ran.section("inner[0]", FRESH)
        assert ran.section("reduction", INHERITED) == ran.section("reduction", FRESH) == ""

    @pytest.mark.req("ADR-48", "ADR-13")
    async def test_the_example_of_a_reduce_takes_of_its_parent_what_belongs_to_it(
        self, house: TaskHouse
    ) -> None:
        """The document's block in a task that has something to filter and something to fetch."""
        house.write(
            corpus__x_caching="Cached tokens of X cost a tenth.",
            corpus__y_caching="Cached tokens of Y cost a quarter.",
            docs__inputs="To process multiple inputs, put sentences into one comparison.",
            docs__tea="Tea is poured.",
        )
        known = "Multiple inputs of this comparison are about providers.\n\nThe cat is grey."
        memory = "<memory><folder>docs</folder></memory>"
        xml = EXAMPLE.replace("</description>", f"</description>{memory}", 1)
        ran = await house.run(xml, lambda _: "said", context=known)
        assert ran.result.status == "completed"
        for task in ("inner[0]", "inner[1]"):
            assert ran.section(task, INHERITED) == ran.section(task, FRESH) == ""
        inherited = ran.section("reduction", INHERITED)
        assert "about providers" in inherited
        assert "grey" not in inherited
        assert "[docs/inputs.md:1]" in inherited  # the reduce fetched it
        assert "Tea" not in inherited

    @pytest.mark.req("ADR-25")
    async def test_what_a_file_said_when_it_was_read_holds_for_the_run(
        self, house: TaskHouse
    ) -> None:
        other = sequential(atomic("a"), atomic("b"), inside=block("none", "disabled", "false"))
        seen: list[str] = []

        def rewrite(request: object) -> str:
            seen.append(str(request))
            (house.folder / "task.xml").write_text(other)
            return "said of a"

        ran = await house.run(
            sequential(atomic("a"), atomic("b")), {"Do a.": rewrite}, context=PARENT
        )
        assert seen
        assert PARENT in ran.section("b", INHERITED)
        assert "said of a" in ran.section("b", PREVIOUS)


class TestMistakes:
    @pytest.mark.req("ADR-11", "ADR-20")
    @pytest.mark.parametrize(
        ("xml", "told"),
        [
            (
                atomic("a", "\n" + block("full", "enabled", "true", "full_output")),
                "4: <accumulate_data> is for sequential tasks",
            ),
            (
                reduce(inputs("x"), inside=block("full", "enabled", None, "notes_only")),
                "4: <accumulation_format> is for sequential tasks",
            ),
            (
                sequential(atomic("a"), inside=block("full", "enabled", "true")),
                "2: <accumulate_data> is true, so <accumulation_format> must say",
            ),
        ],
    )
    async def test_a_wrong_block_is_refused_with_its_line(
        self, house: TaskHouse, windlass: CommandLine, xml: str, told: str
    ) -> None:
        with pytest.raises(TaskFileError):
            await house.run(xml)
        said = windlass("check", "task.xml")
        assert said.code == 2
        assert f"task.xml:{told}" in said.complaint

    @pytest.mark.req("ADR-21", "ADR-22", "ADR-23", "ADR-28")
    def test_what_a_block_lacks_is_a_warning_and_an_error_where_asked(
        self, windlass: CommandLine
    ) -> None:
        (windlass.folder / "t.xml").write_text(
            sequential(atomic("a"), inside="<context_management></context_management>")
        )
        said = windlass("check", "t.xml", "--explain-defaults")
        assert said.code == 0
        lacking = {"inherit_context": "full", "fresh_context": "enabled", "accumulate_data": "true"}
        for tag, default in lacking.items():
            assert f"lacks <{tag}>: the default of sequential, '{default}', is taken" in said.err
        strict = windlass("check", "t.xml", "--strict")
        assert strict.code == 2
        assert all(f"lacks <{tag}>" in strict.err for tag in lacking)


class TestOneModel:
    """The same block says the same in each kind of task."""

    LEAVES = ("first", "r.inner[0]", "r.reduction")
    BELOW: Mapping[str, Sequence[str]] = {
        "sequential": LEAVES,
        "atomic": LEAVES[:1],
        "reduce": LEAVES[1:],
        "inner_task": LEAVES[1:2],
        "reduction_task": LEAVES[2:],
    }

    @pytest.mark.req("ADR-51")
    @pytest.mark.parametrize("mode", ["full", "subset", "none"])
    @pytest.mark.parametrize("place", BELOW)
    async def test_what_is_inherited(self, house: TaskHouse, place: str, mode: str) -> None:
        said = {place: block(mode, "disabled")}
        xml = sequential(
            atomic("first", said.get("atomic", "")),
            reduce(
                inputs("x"),
                name="r",
                inside=said.get("reduce", ""),
                inner=said.get("inner_task", ""),
                reduction=said.get("reduction_task", ""),
            ),
            inside=said.get("sequential", ""),
        )
        tea = "Tea is poured."
        ran = await house.run(
            xml.replace("Do ", "Of the steel bridge: "), context=f"{PARENT}\n\n{tea}"
        )
        assert ran.result.status == "completed"
        for leaf in self.LEAVES:
            inherited = ran.section(leaf, INHERITED)
            changed = leaf in self.BELOW[place]
            assert (PARENT in inherited) is (mode != "none" or not changed)
            assert (tea in inherited) is (mode == "full" or not changed)


class TestMatching:
    @pytest.mark.req("ADR-26", "ADR-27")
    async def test_all_that_matches_comes_and_no_score_with_it(self, house: TaskHouse) -> None:
        texts = {f"docs__f{n}": f"Steel number {n}. " + "It is so. " * (8 - n) for n in range(8)}
        house.write(**texts, docs__less="Steel, and much besides. " * 9, docs__tea="Tea is poured.")
        ran = await house.run(atomic("a", MEMORY, asks="What is steel?"))
        found = ran.section("a", FRESH)
        named = [line for line in found.splitlines() if line.startswith("[docs/")]
        # In the order of their names, which is not that of what says most of steel.
        assert named == [f"[docs/{name}.md:1]" for name in (*(f"f{n}" for n in range(8)), "less")]
        assert "score" not in found

    @pytest.mark.req("ADR-35")
    async def test_what_it_has_besides_lifts_what_shares_little_with_the_task(
        self, house: TaskHouse
    ) -> None:
        texts = {f"docs__f{n}": f"Number {n} is no matter of ours." for n in range(9)}
        house.write(**texts, docs__a="Steel of girders, rivets, paint.", docs__b="Steel of spoons.")
        asks = "Write eleven verses about steel, thunder, harvest, pilots, candles and ravens."
        alone = await house.run(atomic("a", MEMORY, asks=asks))
        assert alone.section("a", FRESH) == ""
        told = await house.run(atomic("a", MEMORY, asks=asks), context="Girders, rivets and paint.")
        assert told.section("a", FRESH).count("[docs/") == 1
        assert "[docs/a.md:1]" in told.section("a", FRESH)

    @pytest.mark.req("ADR-35", "ADR-32")
    async def test_it_is_given_task_inherited_context_and_outputs(self, house: TaskHouse) -> None:
        said, known, new = (f"Steel is {word}." for word in ("hard", "grey", "old"))
        house.write(docs__a=said, docs__b=known, docs__c=new, docs__d="Tea is hot.")
        asks = "What is steel?"
        xml = sequential(atomic("a", asks="Begin."), atomic("b", MEMORY, asks=asks))
        ran = await house.run(xml, {"Begin.": said}, context=known)
        assert ran.section("b", FRESH) == f"{FRESH}\n\n[docs/c.md:1]\n{new}"

    @pytest.mark.req("ADR-37", "ADR-38")
    @pytest.mark.parametrize("failures", [1, 2])
    @pytest.mark.parametrize(
        ("fails", "error"),
        [
            ((Banks, "memories"), StoreError("it is locked")),
            ((WordIndex, "add"), sqlite3.OperationalError("it is locked")),
            ((WordIndex, "match"), sqlite3.OperationalError("it is locked")),
        ],
    )
    async def test_so_is_that_of_a_bank_of_the_index_and_of_the_parents_context(
        self,
        docs: TaskHouse,
        monkeypatch: pytest.MonkeyPatch,
        fails: tuple[type, str],
        error: Exception,
        failures: int,
    ) -> None:
        kind, name = fails
        real, tries = getattr(kind, name), list[Any]()

        def failing(self: Any, *given: Any, **named: Any) -> Any:
            if name != "add" or "A bridge" in str(given):  # and nobody reads the file anew
                tries.append(given)
                if len(tries) <= failures:
                    raise error
            return real(self, *given, **named)

        docs.remember("facts", rust="A steel bridge rusts.")
        monkeypatch.setattr(kind, name, failing)
        both = "<memory><bank>facts</bank><folder>docs</folder></memory>"
        tea = "\n\nTea is poured."
        ran = await docs.run(bridge("a", both + block("subset", "enabled")), context=PARENT + tea)
        if failures == 1:
            assert ran.result.status == "completed"
            assert ran.section("a", INHERITED).endswith(PARENT)
            assert "[docs/bridge.md:1]" in ran.section("a", FRESH)
            assert "A steel bridge rusts." in ran.section("a", FRESH)
        else:
            assert ran.result.status == "failed"
            assert "it is locked" in str(ran.result.error)
            assert not ran.model.requests

    @pytest.mark.req("ADR-37", "ADR-38")
    @pytest.mark.parametrize("failures", [1, 2])
    async def test_one_failure_is_tried_again_and_a_second_is_told(
        self, docs: TaskHouse, monkeypatch: pytest.MonkeyPatch, failures: int
    ) -> None:
        tries: list[Path] = []
        real = Path.read_bytes

        def read_bytes(path: Path) -> bytes:
            if path.name == "bridge.md":
                tries.append(path)
                if len(tries) <= failures:
                    raise OSError(5, "disk I/O error")
            return real(path)

        monkeypatch.setattr(Path, "read_bytes", read_bytes)
        ran = await docs.run(bridge("a", MEMORY))
        assert len(tries) == 2
        if failures == 1:
            assert ran.result.status == "completed"
            assert "[docs/bridge.md:1]" in ran.section("a", FRESH)
        else:
            assert ran.result.status == "failed"
            assert "disk I/O error" in str(ran.result.error)
            assert not ran.model.requests
