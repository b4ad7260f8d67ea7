"""The block `context_management`: its values, its defaults, and the rules about it."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tasks.making import (
    atomic,
    block,
    compiled,
    complaints,
    reduce,
    sequential,
    warnings,
)
from windlass.tasks.model import ContextManagement, Task

ONE = "<input>x</input>"


def context(xml: str, path: str) -> ContextManagement:
    return next(task.context for task in compiled(xml).task.walk() if task.path == path)


def values(said: ContextManagement) -> tuple[object, ...]:
    return (
        said.inherit_context,
        said.accumulate_data,
        said.accumulation_format,
        said.fresh_context,
    )


class TestValues:
    @pytest.mark.req("ADR-1", "ADR-12")
    def test_a_sequence_has_all_four_and_tasks_in_it_their_own(self) -> None:
        inner = atomic("a", block("none", "enabled"))
        xml = sequential(inner, inside=block("subset", "disabled", "true", "full_output"))
        assert values(context(xml, "task")) == ("subset", True, "full_output", False)
        assert values(context(xml, "a")) == ("none", None, None, True)

    @pytest.mark.req("ADR-13")
    def test_a_reduce_has_a_block_for_itself_its_inner_task_and_its_reduction(self) -> None:
        xml = reduce(
            ONE,
            inside=block("subset", "enabled"),
            inner=block("none", "disabled"),
            reduction=block("full", "disabled"),
        )
        assert values(context(xml, "task")) == ("subset", None, None, True)
        assert values(context(xml, "inner")) == ("none", None, None, False)
        assert values(context(xml, "reduction")) == ("full", None, None, False)

    def test_unknown_values_and_elements_are_told_with_their_lines(self) -> None:
        xml = sequential(atomic("a"), inside=block("ful", "on", "yes").replace("_data", "_date"))
        assert complaints(xml) == [
            "3: <inherit_context> is 'ful'; did you mean 'full'? known: full, none, subset",
            (
                "4: <context_management> has no <accumulate_date>; did you mean 'accumulate_data'?"
                " known: accumulate_data, accumulation_format, fresh_context, inherit_context"
            ),
            "5: <fresh_context> is 'on'; known: disabled, enabled",
        ]

    @pytest.mark.req("ADR-11")
    @pytest.mark.parametrize("tag", ["accumulate", "how"])
    def test_atomic_and_reduce_tasks_accumulate_nothing(self, tag: str) -> None:
        said = {"accumulate": "true"} if tag == "accumulate" else {"how": "notes_only"}
        for xml in (atomic("a", block(**said)), reduce(ONE, inside=block(**said))):
            (told,) = complaints(xml)
            assert "is for sequential tasks" in told
            assert told[0] in "34"
        (told,) = complaints(reduce(ONE, inner=block(**said)))
        assert "<inner_task> has no steps" in told


class TestDefaults:
    @pytest.mark.req("ADR-14", "ADR-30")
    def test_of_an_atomic_task(self) -> None:
        assert values(context(atomic("a"), "a")) == ("full", None, None, True)

    @pytest.mark.req("ADR-15")
    def test_of_a_sequence(self) -> None:
        assert values(context(sequential(atomic("a")), "task")) == (
            "full",
            True,
            "notes_only",
            True,
        )

    @pytest.mark.req("ADR-16", "ADR-17", "ADR-18", "ADR-29")
    def test_of_a_reduce_and_its_two_parts(self) -> None:
        xml = reduce(ONE)
        assert values(context(xml, "task")) == ("full", None, None, True)
        assert values(context(xml, "inner")) == ("full", None, None, False)
        assert values(context(xml, "reduction")) == ("full", None, None, True)
        assert warnings(xml) == []

    @pytest.mark.req("ADR-21", "ADR-22")
    def test_a_required_element_that_is_missing_is_a_warning_naming_line_and_value(self) -> None:
        xml = atomic("a", "\n" + block(None, None))
        assert values(context(xml, "a")) == ("full", None, None, True)
        assert warnings(xml) == [
            f"2: <context_management> lacks <{tag}>: the default of atomic, {value!r}, is taken"
            for tag, value in (("inherit_context", "full"), ("fresh_context", "enabled"))
        ]

    @pytest.mark.req("ADR-22", "ADR-28")
    def test_a_sequence_without_fresh_context_has_it_enabled(self) -> None:
        xml = sequential(atomic("a"), inside=block("none", None, "true", "notes_only"))
        assert context(xml, "task").fresh_context
        (told,) = warnings(xml)
        assert told.startswith("2: <context_management> lacks <fresh_context>:")
        assert told.endswith("the default of sequential, 'enabled', is taken")

    def test_an_inner_task_that_does_not_say_fetches_nothing(self) -> None:
        xml = reduce(ONE, inner=block("full", None))
        assert not context(xml, "inner").fresh_context
        assert "default of reduce.inner_task, 'disabled'" in warnings(xml)[0]

    @pytest.mark.req("ADR-23")
    def test_a_sequence_that_does_not_say_accumulates(self) -> None:
        xml = sequential(atomic("a"), inside=block("full", "enabled"))
        assert values(context(xml, "task")) == ("full", True, "notes_only", True)
        assert "lacks <accumulate_data>: the default of sequential, 'true'" in warnings(xml)[0]

    @pytest.mark.req("ADR-21", "ADR-22", "ADR-23")
    def test_strict_takes_what_is_missing_for_a_mistake(self) -> None:
        xml = sequential(atomic("a"), inside=block(None, None))
        told = complaints(xml, strict=True)
        tags = ["inherit_context", "fresh_context", "accumulate_data"]
        assert [f"<{tag}>" in line for tag, line in zip(tags, told, strict=True)] == [True] * 3
        assert complaints(atomic("a", block("none", "disabled")), strict=True) == []


class TestRules:
    @pytest.mark.req("ADR-20")
    def test_who_accumulates_says_what_is_kept(self) -> None:
        xml = sequential(atomic("a"), inside=block("full", "enabled", "true"))
        (told,) = complaints(xml)
        assert told.startswith("2: <accumulate_data> is true, so <accumulation_format> must say")
        assert complaints(xml.replace("true", "false")) == []

    @pytest.mark.req("ADR-11")
    def test_a_format_of_nothing_is_a_warning(self) -> None:
        xml = sequential(atomic("a"), inside=block("full", "enabled", "false", "full_output"))
        assert warnings(xml) == [
            "5: <accumulation_format> does nothing where <accumulate_data> is false"
        ]
        assert context(xml, "task").accumulation_format is None

    @pytest.mark.req("ADR-19")
    @pytest.mark.parametrize(
        ("xml", "named"),
        [
            (atomic("a", block("none", "disabled")), "'a'"),
            (sequential(atomic("a"), inside=block("none", "disabled", "false")), "'task'"),
            (reduce(ONE, inside=block("none", "disabled")), "'task'"),
            (reduce(ONE, inner=block("none", "disabled")), "'inner'"),
            (sequential(atomic("a", block("none", "disabled"))), "'a'"),
        ],
    )
    def test_no_context_at_all_is_a_warning_once(self, xml: str, named: str) -> None:
        (told,) = warnings(xml)
        assert f"task {named} has no context" in told

    @pytest.mark.req("ADR-19")
    def test_not_where_something_is_handed_on(self) -> None:
        later = atomic("b", block("none", "disabled"))
        assert warnings(sequential(atomic("a"), later)) == []
        assert (
            warnings(
                sequential(atomic("a"), inside=block("none", "disabled", "true", "notes_only"))
            )
            == []
        )
        assert warnings(reduce(ONE, reduction=block("none", "disabled"))) == []
        off = block("full", "enabled", "false")
        assert len(warnings(sequential(atomic("a"), later, inside=off))) == 1


@pytest.mark.req("ADR-25")
def test_settings_are_fixed_when_the_file_is_read() -> None:
    task: Task = compiled(atomic("a")).task
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.context.fresh_context = False  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.context = task.context  # type: ignore[misc]
