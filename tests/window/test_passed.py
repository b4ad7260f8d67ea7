"""Tests that passed, as a count: what stays whatever the runner, what is asked for, what is odd."""

from __future__ import annotations

import json

import pytest

from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.options import Policy
from windlass.window.policies.compress import Compress, CompressOptions
from windlass.window.steps import steps
from windlass.window.window_rules import WindowRules

PYTEST = [f"tests/test_sums.py::test_sum_{at} PASSED   [{at:3d}%]" for at in range(30)]
FAILED = "tests/test_sums.py::test_rest FAILED   [ 31%]"
SUMMARY = "========= 1 failed, 30 passed in 0.12s ========="
LOG = "\n".join(["collected 31 items", *PYTEST[:9], FAILED, *PYTEST[9:], SUMMARY])
RUNNERS = {
    "pytest": "tests/test_a.py::test_{0} PASSED",
    "cargo": "test parser::tests::reads_{0} ... ok",
    "go": "--- PASS: TestPort{0} (0.0{0}s)",
    "jest": "  \u2713 adds number {0} ({0} ms)",
    "tap": "ok {0} - gate {0} opens",
    "googletest": "[       OK ] Gate.Opens{0} ({0} ms)",
    "mix": "  * test gate {0} opens (0.{0}ms) [L#{0}] ok",
}


def shown(
    text: str, policy: Compress | None = None, *, name: str = "run_tests", task: str = "Mend it."
) -> Message:
    """A result as it is first sent; by default under the default profile."""
    arguments = {"path": "log.txt"} if name == "read_file" else {}
    call = ToolCall("c1", name, json.dumps(arguments))
    conversation = Conversation(
        [policy] if policy else steps(Policy()), rules=WindowRules(recall_hint=lambda _: "ref 7")
    )
    for at, message in enumerate((user(task), assistant(calls=[call]), tool(call, text))):
        conversation.append(Item(str(at), message, "x"))
    return conversation.window().messages[-1]


def test_a_run_of_tests_is_its_failures_its_sums_and_a_count() -> None:
    assert shown(LOG).text.split("\n") == [
        "collected 31 items",
        "[30 of 33 lines left out: tests that passed; ref 7]",
        FAILED,
        SUMMARY,
    ]


@pytest.mark.parametrize("runner", RUNNERS)
def test_whatever_the_runner(runner: str) -> None:
    lines = [RUNNERS[runner].format(at) for at in range(10, 60)]
    lines[20:20] = ["gate 3 does not open", "    left: 4", "    right: 5"]
    text = shown("\n".join([*lines, "50 passed, 1 failed"])).text
    assert "lines left out: tests that passed; ref 7]" in text
    assert "gate 3 does not open\n    left: 4\n    right: 5" in text
    assert len(text.split("\n")) < 12


def test_a_test_that_was_asked_for_keeps_its_line() -> None:
    told = shown(LOG, task="Make test_sum_17 pass.").text
    assert PYTEST[17] in told.split("\n")
    assert "[29 of 33 lines" in told


def test_a_slow_one_keeps_its_line() -> None:
    lines = [f"tests/test_a.py::test_{at} PASSED ({at % 7} ms)" for at in range(40)]
    lines[23] = "tests/test_a.py::test_23 PASSED (48211 ms)"
    assert lines[23] in shown("\n".join(lines)).text


def test_few_of_them_and_files_stay_letter_for_letter() -> None:
    few = "\n".join([*PYTEST[:12], FAILED])
    assert shown(few).text == few
    assert shown(LOG, name="read_file").text == LOG


def test_those_among_many_other_lines_stay_beside_them() -> None:
    blocks = [f"to_snake('A{at}') = 'a{at}'\nExpected: 'a{at}'\nPASS\n" for at in range(40)]
    text = "\n".join(blocks)
    assert shown(text).text == text


def test_what_is_cut_is_not_cut_again() -> None:
    lines = [f"tests/test_{at % 40}.py::test_{at} PASSED" for at in range(400)]
    text = shown("\n".join([*lines, FAILED, SUMMARY])).text
    assert text.count("[Cut from") + text.count("tests that passed") == 1
    assert FAILED in text


def test_zero_switches_it_off_and_the_threshold_adapts() -> None:
    def at_least(lines: int, window: int = 0) -> str:
        options = CompressOptions(passed_lines=lines)
        return shown(LOG, Compress(options=options, window_tokens=window)).text

    assert at_least(0) == LOG
    assert at_least(31) == LOG
    # With all of the window left, half as many more are needed; with none, half as many do.
    assert at_least(25, 10**6) == LOG
    assert at_least(50, 100) != LOG
