"""What counts as a failed tool result."""

from __future__ import annotations

import pytest

import windlass
from windlass.messages import tool
from windlass.window.digests import has_failed


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such file",
        "ERROR no such file",
        "  error: no such file",
        '{"error": "not found"}',
        '{"error": {"code": 404}}',
        "['Error', 'no such file']",
        "Traceback (most recent call last):\n  x",
        "Exception: bad",
        "Failed to open a.txt",
        "fatal: not a git repository",
        "<tool_use_error>No such tool</tool_use_error>",
        "bash: nothere: command not found",
        "<returncode>1</returncode>\n<output>",
        "Exit code 2\nno tests",
        "Exit code: 127",
        "EXIT CODE: -9",
    ],
)
def test_words_of_failures(text: str) -> None:
    assert has_failed(tool("c", text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "done",
        "# Error handling\nErrors are raised.",
        '{"error": null, "rows": 3}',
        '{"error": "", "rows": 3}',
        "errors.py\nmain.py",
        "<returncode>0</returncode>\nno error here",
        "Exit code 0",
        "x" * 300 + "\nError: far below",
    ],
)
def test_what_is_none(text: str) -> None:
    assert not has_failed(tool("c", text))


def test_the_flag_goes_first() -> None:
    assert has_failed(tool("c", "wrote nothing", failed=True))


def test_a_list_of_chat_messages_may_carry_the_flag() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "save", "arguments": "{}"}}
    context = windlass.Context(model="anthropic/claude-sonnet-4-5")
    context.append({"role": "user", "content": "Save it."})
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append({"role": "tool", "tool_call_id": "c", "content": "no", "is_error": True})
    window = context.window()
    (block,) = window.wire("anthropic")["messages"][-1]["content"]
    assert block["is_error"] is True
    assert window.messages[-1]["is_error"] is True  # what the caller's own code may read
