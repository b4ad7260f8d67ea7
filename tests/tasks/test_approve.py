"""`rules` of a task in XML: tools that need approval, and limits of the task."""

from __future__ import annotations

from tests.tasks.making import atomic, compiled, complaints

RULES = (
    "<tools><tool>read_file</tool><tool>list_files</tool></tools><rules>"
    "<approve>read_file list_files</approve><budget>0.5</budget>"
    "<max_tokens>9</max_tokens><max_seconds>1.5</max_seconds></rules>"
)


def test_rules_of_a_task_are_those_of_a_phase() -> None:
    rules = compiled(atomic("a", RULES)).cascade.phases[0].rules
    assert rules.approve == ("read_file", "list_files")
    assert rules.limits == {"budget": 0.5, "max_tokens": 9, "max_seconds": 1.5}


def test_a_wrong_one_is_told_with_its_line() -> None:
    wrong = RULES.replace("read_file list_files<", "read_fil<")
    (told,) = complaints(atomic("a", wrong))
    assert "'read_fil' is not in the tackle" in told
    assert complaints(atomic("a", RULES.replace("0.5", "much")))
