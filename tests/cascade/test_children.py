"""Sub-cascades as they are loaded: what is wrong with them is said before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.api.loading import load_cascade, read_cascade
from windlass.cascade.children import family_needs
from windlass.cascade.ready import ReadyCascade
from windlass.errors import CascadeError
from windlass.settings.settings import Settings


def phase(name: str, instructions: str = "Do it.", **keys: Any) -> dict[str, Any]:
    return {"name": name, "instructions": instructions, **keys}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *phases: dict[str, Any], **keys: Any) -> str:
    """A file of a cascade called like it; the phases stand from line 4 on, one a line."""
    data = {**keys, "cascade_id": Path(name).stem}
    lines = ",\n".join(json.dumps(each) for each in phases)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(f'{{"phases": [\n\n\n{lines}],\n{json.dumps(data)[1:]}', encoding="utf-8")
    return name


def read(name: str, given: dict[str, Any] | None = None) -> ReadyCascade:
    return load_cascade(name, Settings.read({}, {}), input=given)


def mistakes(name: str, given: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(CascadeError) as caught:
        read(name, given)
    return [str(mistake) for mistake in caught.value.mistakes]


def only(name: str, given: dict[str, Any] | None = None) -> str:
    (mistake,) = mistakes(name, given)
    return mistake


def sub(*refs: str, **keys: Any) -> list[dict[str, Any]]:
    return [{"ref": ref, **keys} for ref in refs]


class TestBadInput:
    def test_a_child_that_is_no_json(self) -> None:
        Path("logs.json").write_text("{\n")
        assert only(write("top.json", phase("p", sub_cascades=sub("logs.json")))).startswith(
            "logs.json:2: "
        )

    def test_a_cycle_under_another_name(self) -> None:
        write("top.json", phase("p", sub_cascades=sub("link.json")))
        Path("link.json").symlink_to("top.json")
        assert "would run itself without end" in only("top.json")

    def test_six_deep_is_one_too_many(self) -> None:
        for depth in range(6):
            write(f"c{depth}.json", phase("p", sub_cascades=sub(f"c{depth + 1}.json")))
        write("c6.json", phase("p"))
        assert only("c0.json").startswith(
            "c5.json:4: phase 'p', sub_cascades[0].ref: 'c6.json' would be nested 6 deep"
        )
        assert read("c1.json").cascade.cascade_id == "c1"

    @pytest.mark.parametrize(
        ("subs", "told"),
        [
            (["logs.json"], "sub_cascades[0]: expected an object with 'ref', not 'logs.json'"),
            ([{}], "sub_cascades[0]: 'ref' is missing"),
            (
                [{"ref": "logs.json", "contxt_in": True}],
                "unknown key 'contxt_in'; did you mean 'context_in'?",
            ),
            ([{"ref": "logs.json", "context_out": "no"}], "expected true or false, not 'no'"),
            ([{"ref": "logs.json", "input_map": {"a": "{{ x }}"}}], "holds the template '{{ x }}'"),
            ("logs.json", "sub_cascades: expected a list, not 'logs.json'"),
        ],
    )
    def test_forms(self, subs: Any, told: str) -> None:
        write("logs.json", phase("a"))
        assert told in only(write("top.json", phase("p", sub_cascades=subs)))


class TestInput:
    def test_without_the_parents_input_the_map_must_give_it(self) -> None:
        write("logs.json", phase("a", "{{ input.ticket }}"))
        top = write("top.json", phase("p", sub_cascades=sub("logs.json", context_in=False)))
        assert only(top) == (
            "top.json:4: phase 'p', sub_cascades[0]: 'logs.json' needs the input 'ticket'"
            " (logs.json:4), and with 'context_in: false' has only what 'input_map' gives it;"
            " add it there"
        )

    def test_needs_of_children_are_those_of_the_cascade(self) -> None:
        write("logs.json", phase("a", "{{ input.ticket }} {{ input.file }}"))
        write("top.json", phase("p", "{{ input.file }}", sub_cascades=sub("logs.json")))
        family = read_cascade("top.json", Settings.read({}, {}))
        assert [need.name for need in family_needs(family)] == ["file", "ticket"]


class TestNames:
    @pytest.mark.req("CI-51")
    def test_a_phase_of_the_parent_must_have_run(self) -> None:
        write("child.json", phase("a", context={"from": ["parent.facts"]}))
        assert read("child.json").cascade.cascade_id == "child", "alone nothing is known of it"
        below = phase("p", sub_cascades=sub("child.json"))
        assert read(write("top.json", phase("facts"), below)).children
        assert only(write("top.json", phase("fact"), below)) == (
            "child.json:4: phase 'a', context.from[0]: the cascade that runs this one has had no"
            " phase 'facts' by then; did you mean 'fact'? known: fact"
        )
        assert "it runs before all of them" in only(write("top.json", below, phase("facts")))

    @pytest.mark.req("CI-51")
    def test_a_run_without_a_parent_is_refused(self) -> None:
        child = write(
            "child.json", phase("a", context={"from": [{"phase": "parent.facts", "if": "1"}]})
        )
        assert only(child, {}) == (
            "child.json:4: phase 'a', context.from[0]: 'parent.facts' is a phase of the cascade"
            " that runs this one, and nobody does: run that cascade, which names this file under"
            " 'sub_cascades'"
        )
