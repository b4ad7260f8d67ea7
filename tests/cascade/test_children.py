"""Sub-cascades as they are loaded: what is wrong with them is said before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.api.loading import load_cascade, read_cascade
from windlass.cascade.children import family_needs
from windlass.cascade.load import load
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
    @pytest.mark.req("CI-50")
    def test_mistakes_of_a_child_have_its_file_and_line(self) -> None:
        write("flows/logs.json", phase("a"), phase("b", "{{ outputs.nope }}", tackle=["no_tool"]))
        write("flows/top.json", phase("p", "{{ outputs.q }}", sub_cascades=sub("logs.json")))
        assert [each.partition(": phase")[0] for each in mistakes("flows/top.json")] == [
            "flows/top.json:4",
            "flows/logs.json:5",
            "flows/logs.json:5",
        ]

    def test_form_and_names_of_a_child_are_told_together(self) -> None:
        write("logs.json", phase("a", wrong=1), phase("b", context={"from": ["c"]}))
        top = write("top.json", phase("p", sub_cascades=sub("logs.json")))
        assert [each.partition(": phase")[0] for each in mistakes(top)] == [
            "logs.json:4",
            "logs.json:5",
        ]

    def test_a_child_that_is_no_json(self) -> None:
        Path("logs.json").write_text("{\n")
        assert only(write("top.json", phase("p", sub_cascades=sub("logs.json")))).startswith(
            "logs.json:2: "
        )

    def test_a_missing_file(self) -> None:
        write("logs.json", phase("a"))
        assert only(write("top.json", phase("p", sub_cascades=sub("lgos.json")))) == (
            "top.json:4: phase 'p', sub_cascades[0].ref: no such file: 'lgos.json';"
            " did you mean 'logs.json' or 'top.json'?"
        )

    def test_a_file_that_is_no_cascade_by_its_name(self) -> None:
        Path("notes.txt").write_text("x")
        told = only(write("top.json", phase("p", sub_cascades=sub("notes.txt"))))
        assert "does not have the name of a cascade file" in told

    @pytest.mark.parametrize("through", [(), ("a",), ("a", "b")])
    def test_a_cycle(self, through: tuple[str, ...]) -> None:
        names = ["top", *through]
        for name, below in zip(names, [*names[1:], "top"], strict=True):
            write(f"{name}.json", phase("p", sub_cascades=sub(f"{below}.json")))
        way = " -> ".join(f"{name}.json" for name in [*names, "top"])
        assert only("top.json") == (
            f"{names[-1]}.json:4: phase 'p', sub_cascades[0].ref: 'top.json' would run itself"
            f" without end ({way}); take one of these references out"
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

    def test_keys_of_a_sub_cascade_have_a_home(self) -> None:
        told = only(write("top.json", phase("p", context_in=True)))
        assert told.endswith("'context_in' does not belong here but in a sub-cascade")


class TestInput:
    @pytest.mark.req("CI-50")
    def test_a_child_that_needs_an_input_its_parent_lacks(self) -> None:
        write("logs.json", phase("a", "{{ input.ticket }} {{ input.day }}"))
        top = write("top.json", phase("p", sub_cascades=sub("logs.json", input_map={"day": "d"})))
        assert only(top, {"tickt": 1}) == (
            "logs.json:4: phase 'a', instructions: the template needs the input 'ticket', which is"
            " not given; did you mean 'tickt'? known: tickt; give it with -i ticket=..."
            " (in Python: input={'ticket': ...})"
        )
        assert read(top, {"ticket": 1}).children

    def test_an_input_that_is_mapped_is_given(self) -> None:
        write("logs.json", phase("a", "{{ input.ticket }}"))
        write("top.json", phase("p", sub_cascades=sub("logs.json", input_map={"ticket": 1})))
        assert read("top.json", {}).children

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
    def test_outputs_of_children_are_known_from_their_phase_on(self) -> None:
        write("logs.json", phase("find"))
        uses = "{{ outputs.logs }} {{ outputs.find }} {{ outputs.logs_find }}"
        top = write("top.json", phase("p", uses, sub_cascades=sub("logs.json")), phase("q", uses))
        assert read(top).children
        top = write("top.json", phase("q", uses), phase("p", sub_cascades=sub("logs.json")))
        assert len(mistakes(top)) == 3
        kept = sub("logs.json", context_out=False)
        assert len(mistakes(write("top.json", phase("p", uses, sub_cascades=kept)))) == 3

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


class TestReady:
    def test_no_tool_may_write_a_file_of_the_family(self) -> None:
        write("logs.json", phase("a", sub_cascades=sub("disk.json")))
        write("disk.json", phase("a"))
        top = read(write("top.json", phase("p", sub_cascades=sub("logs.json"))))
        for each in top.walk():
            for name in ("top.json", "logs.json", "disk.json"):
                assert each.registry.modules.in_use(Path(name).resolve()) == "in use by this run"

    def test_a_cascade_that_was_loaded_refers_from_its_file(self) -> None:
        write("flows/logs.json", phase("a"))
        made = load(write("flows/top.json", phase("p", sub_cascades=sub("logs.json")))).cascade
        assert load_cascade(made, Settings.read({}, {})).children[0, 0].cascade.cascade_id == "logs"

    def test_yaml_and_folders(self) -> None:
        Path("flows").mkdir()
        Path("flows/logs.yaml").write_text(
            "cascade_id: logs\nphases:\n- {name: a, instructions: b}\n"
        )
        top = write("top.json", phase("p", sub_cascades=sub("flows/logs.yaml")))
        assert read(top).children[0, 0].cascade.cascade_id == "logs"

    def test_a_dict_refers_from_the_current_folder(self) -> None:
        write("logs.json", phase("a"))
        made = {"cascade_id": "top", "phases": [phase("p", sub_cascades=sub("logs.json"))]}
        assert load_cascade(made, Settings.read({}, {})).children[0, 0].cascade.cascade_id == "logs"

    def test_a_child_without_a_model_has_that_of_its_phase(self) -> None:
        write("logs.json", phase("a"))
        write("own.json", phase("a"), model="anthropic/own")
        subs = sub("logs.json", "own.json")
        top = write("top.json", phase("p", model="openai/gpt-4o", sub_cascades=subs))
        assert [each.cascade.model for each in read(top).children.values()] == [
            "openai/gpt-4o", "anthropic/own",
        ]  # fmt: skip

    def test_tools_of_a_child_are_its_own(self) -> None:
        Path("my_child_tools.py").write_text(
            'def look() -> str:\n    """Look."""\n    return "x"\n'
        )
        write("logs.json", phase("a", tackle=["look"]), tools=["my_child_tools:look"])
        top = read(write("top.json", phase("p", sub_cascades=sub("logs.json"))))
        assert "look" in top.children[0, 0].registry.names()
        assert "look" not in top.registry.names()
