"""The block `context_management`: its values, its defaults, and the rules about it."""

from __future__ import annotations

import pytest

from tests.tasks.making import (
    atomic,
    block,
    compiled,
    complaints,
    sequential,
    warnings,
)
from windlass.tasks.model import ContextManagement


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


class TestRules:
    @pytest.mark.req("ADR-11")
    def test_a_format_of_nothing_is_a_warning(self) -> None:
        xml = sequential(atomic("a"), inside=block("full", "enabled", "false", "full_output"))
        assert warnings(xml) == [
            "5: <accumulation_format> does nothing where <accumulate_data> is false"
        ]
        assert context(xml, "task").accumulation_format is None
