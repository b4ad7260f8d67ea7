"""A read gives way only to what is in view and covers its lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.window.policies.compress import Compress
from windlass.window.policies.supersede import Supersede
from windlass.window.proposals import Facts
from windlass.wire.openai import check_sequence

Made: TypeAlias = "tuple[str, Mapping[str, Any], str]"

LINES = [f"line {at} of the file, and something more" for at in range(1, 31)]
FILE = "\n".join(LINES)


def run(
    made: Sequence[Made],
    policy: Supersede,
    facts: dict[str, Facts] | None = None,
    *before: Compress,
) -> Window:
    """The window after these calls, one a turn: tool, arguments, result."""
    conversation = Conversation([*before, policy], facts=facts or {})
    spoken: list[Message] = [user("go")]
    for turn, (name, arguments, text) in enumerate(made):
        call = ToolCall(f"c{turn}", name, json.dumps(arguments))
        spoken += [assistant(calls=[call]), tool(call, text)]
    for at, message in enumerate(spoken):
        conversation.append(Item(str(at), message, "x"))
    window = conversation.window()
    check_sequence(window.messages, None)
    return window


def read(first: int = 1, last: int = 30) -> Made:
    text = "\n".join(LINES[first - 1 : last])
    return "read_file", {"path": "a.py", "start_line": first, "end_line": last}, text


WHOLE: Made = ("read_file", {"path": "a.py"}, FILE)
SUPERSEDE = Supersede(within=None)


class TestSupersede:
    def test_a_later_read_of_the_same_lines(self) -> None:
        window = run([read(5, 20), read(1, 30)], SUPERSEDE)
        assert window.entries[2].because == "supersede"
        ref = window.entries[2].item.message.content_hash
        assert window.messages[2].text == (
            f"[lines 5-20 of a.py, read again later; as it was then: result_{ref[:8]}]"
        )
        assert window.entries[4].because is None

    def test_a_later_read_of_fewer_lines_covers_nothing(self) -> None:
        assert run([read(1, 30), read(5, 20)], SUPERSEDE).entries[2].because is None
        assert run([WHOLE, read(1, 30)], SUPERSEDE).entries[2].because is None

    def test_another_file_is_another_file(self) -> None:
        other = ("read_file", {"path": "b.py"}, FILE)
        assert run([WHOLE, other], SUPERSEDE).entries[2].because is None

    def test_reads_in_a_shell(self) -> None:
        first = ("bash", {"command": "sed -n '1,30p' a.py"}, FILE)
        later = ("bash", {"command": "cat a.py"}, FILE)
        assert run([first, later], SUPERSEDE).entries[2].because == "supersede"

    def test_as_declared(self) -> None:
        made = [("peek", {"key": "k"}, FILE)] * 2
        assert run(made, SUPERSEDE).entries[2].because is None
        facts = {"peek": Facts(reads="key")}
        assert run(made, SUPERSEDE, facts).entries[2].because == "supersede"

    @pytest.mark.parametrize("text", ["Error: no such file", "<returncode>1</returncode>", "short"])
    def test_a_failed_or_cut_read_covers_nothing(self, text: str) -> None:
        later = ("read_file", {"path": "a.py"}, text)
        assert run([WHOLE, later], SUPERSEDE).entries[2].because is None

    def test_the_copy_that_stays_must_be_shown_whole(self) -> None:
        cut = Compress(above_chars=1_000, max_result_tokens=100)
        first = ("read_file", {"path": "a.py", "limit": 20}, "\n".join(LINES[:20]))
        assert run([first, WHOLE], SUPERSEDE).entries[2].because == "supersede"
        assert run([first, WHOLE], SUPERSEDE, {}, cut).entries[2].because is None

    def test_a_write_replaces_the_file(self) -> None:
        write = ("write_file", {"path": "a.py", "text": "new"}, "written")
        window = run([WHOLE, write], SUPERSEDE)
        assert "replaced since" in window.messages[2].text
        assert run([WHOLE, write], Supersede(writes=False)).entries[2].because is None

    def test_an_edit_leaves_the_rest_of_it(self) -> None:
        edit = ("Edit", {"file_path": "a.py", "old_string": "x"}, "edited")
        assert run([WHOLE, edit], SUPERSEDE).entries[2].because is None

    def test_only_young_reads(self) -> None:
        between: list[Made] = [("peek", {}, "x")] * 2
        assert run([WHOLE, *between, WHOLE], Supersede(within=1)).entries[2].because is None
        assert run([WHOLE, WHOLE], Supersede(within=1)).entries[2].because == "supersede"
        assert run([WHOLE, *between, WHOLE], Supersede(within=3)).entries[2].because == "supersede"

    def test_small_reads_stay(self) -> None:
        assert run([WHOLE, WHOLE], Supersede(min_chars=9_999)).entries[2].because is None
