"""Lines of passed tests as a count: which lines go, which stay, and what is told of them."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation
from windlass.window.encode.command_output import passed_lines, without_passed
from windlass.window.entries import Item
from windlass.window.options import Policy as Options
from windlass.window.policies.compress import Compress, CompressOptions
from windlass.window.steps import steps
from windlass.window.window_rules import WindowRules

PYTEST: Final = [f"tests/test_order.py::test_sum_{at} PASSED [ {at}%]" for at in range(30)]
FAILED: Final = "tests/test_order.py::test_tax FAILED src/order.py:31: AssertionError: 4 != 5"
SUMMARY: Final = "===== 1 failed, 30 passed in 0.41s ====="


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_a.py::test_b PASSED",
        "tests/test_a.py::test_b[x y] PASSED                [ 12%]",
        "[gw0] [ 12%] PASSED tests/a.py::test_b",
        "PASSED tests/a.py::test_b",
        "test_x (mod.Class.test_x) ... ok",
        "test money::adds ... ok",
        "    --- PASS: TestX/sub (0.00s)",
        "PASS  src/a.test.js (5.2 s)",
        " 1/20 Test  #1: name ............   Passed    0.01 sec",
        "[       OK ] Suite.Name (0 ms)",
        "test_issue_1 ok                 [  1%]",
    ],
)
def test_lines_of_runners_in_use_are_known(line: str) -> None:
    assert passed_lines(f"collected\n{line}\nx") == [1]


@pytest.mark.parametrize(
    "line",
    [
        *("OK", "PASS", "ok", "everything is ok", "5 passed in 0.1s", "Ran 3 tests in 0.1s"),
        *("t.py::x FAILED", "t.py::x XPASS (strict)", "t.py::x SKIPPED", "The user said PASS"),
        *("PASSED: 12, FAILED: 3", "ok  \tpkg/orders\t0.01s", "Starting nginx ... ok"),
        *("✓ buy milk", "ok 12 - works", "t.py::a PASSED and then failed: disk full"),
    ],
)
def test_sums_failures_and_other_lines_are_none(line: str) -> None:
    assert passed_lines(line) == []


def test_signs_that_lists_have_too_count_only_beside_a_sum() -> None:
    assert passed_lines("  ✓ adds (3 ms)\n  ✗ takes\n\n  1 passing (4ms)\n  1 failing") == [0]
    assert passed_lines("1..2\nok 1 - adds\nnot ok 2 - takes\nok 3 # SKIP no disk") == [1]


def test_where_a_passed_test_began_goes_with_it_and_a_failed_one_stays_whole() -> None:
    text = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.00s)"
    assert passed_lines(text) == [0, 1]
    text = "[ RUN      ] Sum.Adds\n[       OK ] Sum.Adds (0 ms)\n[ RUN      ] Sum.Takes\nerror"
    assert passed_lines(text) == [0, 1]


def shown(
    text: str, policy: Compress | None = None, *, name: str = "run_tests", task: str = "Mend it."
) -> Message:
    """A result as it is first sent; by default under the default profile."""
    arguments = {"path": "log.txt"} if name == "read_file" else {}
    call = ToolCall("c1", name, json.dumps(arguments))
    conversation = Conversation(
        [policy] if policy else steps(Options()), rules=WindowRules(recall_hint=lambda _: "ref 7")
    )
    for at, message in enumerate((user(task), assistant(calls=[call]), tool(call, text))):
        conversation.append(Item(str(at), message, "x"))
    return conversation.window().messages[-1]


class TestPolicy:
    LOG: Final = "\n".join(["collected 31 items", *PYTEST[:9], FAILED, *PYTEST[9:], SUMMARY])

    def test_a_run_of_tests_is_its_failures_its_sums_and_a_count(self) -> None:
        assert shown(self.LOG).text.split("\n") == [
            "collected 31 items",
            "[30 of 33 lines left out: tests that passed; ref 7]",
            FAILED,
            SUMMARY,
        ]

    def test_a_test_that_was_asked_for_keeps_its_line(self) -> None:
        told = shown(self.LOG, task="Make test_sum_17 pass.").text
        assert PYTEST[17] in told.split("\n")
        assert "[29 of 33 lines" in told

    def test_few_of_them_and_files_stay_letter_for_letter(self) -> None:
        few = "\n".join([*PYTEST[:12], FAILED])
        assert shown(few).text == few
        assert shown(self.LOG, name="read_file").text == self.LOG

    def test_zero_switches_it_off_and_the_threshold_adapts(self) -> None:
        assert shown(self.LOG, Compress(options=CompressOptions(passed_lines=0))).text == self.LOG
        assert shown(self.LOG, Compress(options=CompressOptions(passed_lines=31))).text == self.LOG
        # With all of the window left, half as many more are needed; with none, half as many do.
        assert (
            shown(
                self.LOG, Compress(options=CompressOptions(passed_lines=25), window_tokens=10**6)
            ).text
            == self.LOG
        )
        assert (
            shown(
                self.LOG, Compress(options=CompressOptions(passed_lines=50), window_tokens=100)
            ).text
            != self.LOG
        )

    def test_the_forms_of_a_kind_are_made_of_what_is_left(self) -> None:
        failing = [f"{FAILED} {at:03d} {'x' * 60}" for at in range(20)]
        policy = Compress(
            options=CompressOptions(above_chars=1_500, max_result_tokens=3_000, by_kind=True)
        )
        told = shown("\n".join([*PYTEST, *failing, SUMMARY]), policy, name="bash").text
        assert "lines left out: tests that passed" in told
        assert not any(line in told for line in PYTEST)


LINES: Final = st.sampled_from([*PYTEST, FAILED, SUMMARY, "", "test_x (a.B) ... ok"]) | (
    strategies.rough_texts().map(lambda text: text.replace("\n", " "))
)


@given(st.lists(LINES, max_size=60), st.integers(1, 40), st.booleans())
def test_only_lines_of_passed_tests_go_and_a_second_pass_changes_nothing(
    lines: list[str], least: int, named: bool
) -> None:
    text = "\n".join(lines)
    asked = ["see test_sum_3"] if named else []
    told = without_passed(text, least, asked, "; ref 7")
    if told == text:
        return
    places = set(passed_lines(text))
    gone = re.search(
        r"^\[(\d+) of (\d+) lines left out: tests that passed; ref 7\]$", told, re.MULTILINE
    )
    assert gone is not None
    assert least <= int(gone[1]) <= len(places)
    assert int(gone[2]) == len(lines)
    left = told.split("\n")
    left.remove(gone[0])
    # What is left stands in the order of the text, and all that did not pass is left.
    rest = iter(lines)
    assert all(line in rest for line in left)
    assert len(left) + int(gone[1]) == len(lines)
    kept = [line for at, line in enumerate(lines) if at not in places]
    assert [line for line in left if line in kept] == [line for line in lines if line in kept]
    if named:
        assert all(line in left for line in lines if re.search(r"test_sum_3\b", line))
    assert without_passed(told, least, asked, "; ref 7") == told
