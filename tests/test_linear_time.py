"""Texts by models, tools and files that were made to take long: time grows as the text does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import windlass
from tests.support.linear_time import assert_linear, repeated
from windlass.engine.tasks.job import declared_notes
from windlass.providers._http import Endpoint
from windlass.providers.litellm import failure_of
from windlass.safety.redaction import (
    credentials,
    redacted,
    redacted_command,
    redacted_text,
    redacted_url,
)
from windlass.tools.base import ToolContext
from windlass_data.charts import create_chart

CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "src/a.py"},
    "grep": {"pattern": "x"},
    "bash": {"command": "make test"},
    "run_sql": {"query": "select 1"},
    "fetch": {"url": "http://a.b"},
    "ls": {"path": "."},
    "look_up": {"order": 1},
}
"""Calls whose results are of all kinds."""


def exchange(number: int, name: str, arguments: Any, result: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def later(turns: int = 9) -> list[dict[str, Any]]:
    """Turns by which what was said before them grows old."""
    return [
        {"role": role, "content": f"I go on, {turn}."}
        for turn in range(turns)
        for role in ("assistant", "user")
    ]


def windows_of_results(text: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend a.py of order 12_3."}]
    for number, (name, arguments) in enumerate(CALLS.items()):
        messages += exchange(number, name, arguments, text)
    windlass.bound([*messages, *later()], policy="default")


def windows_of_a_write(command: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write f.py."}]
    for number in range(2):
        messages += exchange(number, "bash", {"command": command}, "ok")
    windlass.bound([*messages, *later()], policy="default")


def windows_of_refusals(reason: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Tell a number."}]
    for attempt in range(2, 5):
        asked = f"[Validation Failed]\n{reason}\n\nPlease try again (Attempt #{attempt})."
        messages += [
            {"role": "assistant", "content": "many"},
            {"role": "user", "content": asked},
        ]
    windlass.bound([*messages, {"role": "assistant", "content": "7"}], policy="default")


def chosen_among(text: str) -> None:
    messages = [
        {"role": "user", "content": "Where is order 12_3?"},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "And then?"},
    ]
    windlass.select(messages, "order 12_3", strategy="heuristic")


def chosen_by_a_model(answer: str) -> None:
    messages = [{"role": "user", "content": f"Order {at} is late. " * 9} for at in range(3)]
    windlass.select(messages, "order 2", strategy="llm", helper=lambda _: answer)


UNITS = (
    *("a", "A ", "1", "1:", "1.", "1-", "a.", "a/", "/a", "a:", "a_", "_", ".", "/", "-", "- "),
    *(" ", "\t", "\n", "\n ", " \n", "\r", "a \r", "\x08", "\x1b[", "\x1b]", "==", "key="),
    *("[", "[]", "(", "a(", "{", "{}", '"', '"\\', "'", "\\", "|", ",", "a,", "0x", "<a>", "#"),
    *("http://", "?a=b&", "Error ", "image ", "result_a1b2c3d4 ", "test_a PASSED ", " ... ok"),
)
RESULTS = {
    **{f"{unit!r} again and again": repeated(unit) for unit in UNITS},
    "lines of a unit": repeated("a.py:1: x = [1]\n"),
    "lines of spaces": repeated(" " * 399 + "\n"),
    "tests that passed": repeated(f"1/1 Test #1: {' ' * 380} Passe\n", behind="Passed"),
    "JSON": repeated("a" * 60 + '","', before='["', behind='"]'),
    "records": repeated('{"id":1,"a":"x y"},', before="[", behind='{"id":1}]'),
    "tuples": repeated("(1, 'a'), ", before="[", behind=")]"),
    "beginnings of references": repeated("[1 lines: lines 1-2 of ", behind=", result_a1b2c3d4"),
    "beginnings of short references": repeated("[1-2 as 3-4 of result_a1b2c3d4 ", behind="a]"),
    "numbers to the end": repeated("    12→\n"),
    "beginnings of the same": repeated("[Same as ", behind=", result_a1b2c3d4"),
    "states of a progress line": lambda chars: (
        "a" * (chars // 4) + " " * (chars // 4) + "\r" + "b\r" * (chars // 4) + "b"
    ),
    "numbers that are too long": repeated("1", before="1\ta\n2\tb\n3\tc\n", behind=":\td"),
}


class TestWindows:
    @pytest.mark.parametrize("name", RESULTS)
    def test_results(self, name: str) -> None:
        assert_linear(windows_of_results, RESULTS[name])

    @pytest.mark.parametrize(
        "shape",
        [
            repeated("\n", before="cat <<EOF > f.py\n", behind="x"),
            repeated("<<EOF\n", before="cat <<EOF > f.py\n"),
            repeated("A", before="cat <<", behind=" > f.py\nA\nB"),
            repeated(" ", before="cat > f.py <<EOF", behind="x"),
        ],
        ids=["blank lines", "beginnings", "a long word", "spaces"],
    )
    def test_here_documents(self, shape: Callable[[int], str]) -> None:
        assert_linear(windows_of_a_write, shape)

    @pytest.mark.parametrize(
        "shape",
        [
            repeated(" ", before="\n\nPlease try again (Attempt #1).", behind="\nx"),
            repeated("\n\nPlease try again (Attempt #1)."),
            repeated("1", before="\n\nPlease try again (Attempt #", behind=")."),
        ],
        ids=["spaces", "beginnings", "digits"],
    )
    def test_refusals(self, shape: Callable[[int], str]) -> None:
        assert_linear(windows_of_refusals, shape)

    def test_a_number_of_an_attempt_may_have_any_length(self) -> None:
        asked = f"[Validation Failed]\nNo.\n\nPlease try again (Attempt #{'1' * 5_000})."
        messages = [
            {"role": "user", "content": "Tell a number."},
            {"role": "assistant", "content": "many"},
            {"role": "user", "content": asked},
        ]
        assert windlass.bound(messages).messages[-1]["content"] == asked


class TestSelections:
    @pytest.mark.parametrize("unit", UNITS)
    def test_messages(self, unit: str) -> None:
        assert_linear(chosen_among, repeated(unit))

    @pytest.mark.parametrize("unit", ["{", "}", '{"selected":['])
    def test_answers(self, unit: str) -> None:
        assert_linear(chosen_by_a_model, repeated(unit))


class TestCredentials:
    @pytest.mark.parametrize("unit", [*UNITS, "eyj-", "eyja.", "://a@", "sk-", "bearer ", "--key "])
    def test_in_texts_addresses_and_commands(self, unit: str) -> None:
        def taken_out(text: str) -> None:
            # What is found anywhere is among the patterns for commands, which addresses share.
            redacted_command([text])
            credentials(url="http://" + text.replace("[", "").replace("]", ""))

        assert_linear(taken_out, repeated(unit))

    @pytest.mark.parametrize("unit", ["key=", "a=a1", "'", "key: '"])
    def test_in_what_is_recorded(self, unit: str) -> None:
        assert_linear(redacted_text, repeated(unit))

    def test_each_is_taken_out(self) -> None:
        assert_linear(redacted_url, repeated("?key=abcd;"))
        assert redacted_url("http://a.b?key=abcd;") == "http://a.b?***"

    def test_a_token_is_taken_out_whole_at_any_length(self) -> None:
        token = f"eyJ{'a' * 3_000}.{'b' * 5_000}.{'c' * 50}"
        assert redacted(f"it was {token}, and eyJ-no.more") == "it was ***, and eyJ-no.more"


class TestOthers:
    def test_notes_of_a_task(self) -> None:
        assert_linear(declared_notes, repeated("<notes>"))

    def test_errors_of_a_library(self) -> None:
        def reported(text: str) -> None:
            failure_of(ValueError(text), Endpoint("a", ""), {}, httpx.Timeout(120.0))

        assert_linear(reported, repeated(" ", behind="x"))

    def test_limits_that_a_provider_tells(self) -> None:
        def failed(text: str) -> None:
            Endpoint("a", "").failure(400, json.dumps({"error": {"message": text}}))

        assert_linear(failed, repeated("maximum context length is 1 tokens "))
        assert_linear(failed, repeated("1", before="prompt is too long: ", behind=" tokens > 1"))

    def test_cells_of_a_table(self, tmp_path: Any) -> None:
        context = ToolContext(session_id="s", phase="p", root=tmp_path, state={})

        def drawn(digits: str) -> None:
            rows = [{"a": "x", "b": 1}, {"a": digits, "b": 2}]
            create_chart(context, kind="bar", title="", file=json.dumps(rows))

        assert_linear(drawn, repeated("1", behind="x"))
