"""What was written gives way to what was written after it, and to nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.window.stepping import holds_for_every_window, windows
from windlass.messages import Message, Opaque, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.originals import as_text, reference
from windlass.window.policies.rewrites import Rewrites

Made: TypeAlias = "tuple[str, dict[str, Any], str]"

OLD, NEW = "old line of the script\n" * 20, "new line of the script\n" * 20


def talk(made: Sequence[Made], *parts: Opaque) -> list[Message]:
    """These calls, one a turn: tool, arguments, result."""
    spoken: list[Message] = [user("go")]
    for turn, (name, arguments, text) in enumerate(made):
        call = ToolCall(f"c{turn}", name, json.dumps(arguments))
        spoken += [assistant(f"Step {turn}.", *parts, calls=[call]), tool(call, text)]
    return spoken


def write(path: str, text: str, result: str = "written") -> Made:
    return "write_file", {"path": path, "content": text}, result


def last(made: Sequence[Made], *parts: Opaque) -> list[dict[str, Any]]:
    """The arguments of all calls as the last window shows them."""
    shown = windows(talk(made, *parts), Rewrites())[-1].messages
    return [json.loads(call.arguments) for one in shown for call in one.tool_calls]


def line(made: Sequence[Made], turn: int, chars: int) -> str:
    ref = reference(talk(made)[1 + 2 * turn])
    return f"[{chars} characters, written anew later; {ref}]"


def test_a_file_written_anew_leaves_a_line_of_what_was_written_before() -> None:
    made = [write("a.sh", OLD), write("a.sh", NEW)]
    first, second = last(made)
    assert first == {"path": "a.sh", "content": line(made, 0, len(OLD))}
    assert second == {"path": "a.sh", "content": NEW}
    spoken = talk(made)
    shown = windows(spoken, Rewrites())[-1].messages
    assert shown[1].text == "Step 0."
    assert json.dumps(OLD) in as_text(spoken[1])  # the reference brings it back


def test_what_failed_by_its_flag_wrote_nothing() -> None:
    spoken = talk([write("a.sh", OLD), write("a.sh", NEW, "no space left")])
    spoken[-1] = replace(spoken[-1], failed=True)
    shown = windows(spoken, Rewrites())[-1].messages
    assert [message.tool_calls for message in shown] == [message.tool_calls for message in spoken]


def test_edits_of_what_is_gone_go_with_it() -> None:
    edit = ("Edit", {"file_path": "a.sh", "old_string": OLD, "new_string": NEW}, "edited")
    made = [write("a.sh", OLD), edit, write("a.sh", NEW)]
    told = line(made, 1, len(OLD))
    assert last(made)[1] == {"file_path": "a.sh", "old_string": told, "new_string": told}


def test_of_a_command_the_text_of_the_here_document_goes() -> None:
    command = f"cat > a.sh <<'EOF'\n{OLD}EOF\nbash a.sh --fast"
    made: list[Made] = [("bash", {"command": command}, "ran"), write("a.sh", NEW)]
    told = line(made, 0, len(OLD))
    assert last(made)[0] == {"command": f"cat > a.sh <<'EOF'\n{told}\nEOF\nbash a.sh --fast"}


@pytest.mark.parametrize(
    "later",
    [
        write("b.sh", NEW),
        write("a.sh", NEW, "Error: read-only file system"),
        write("a.sh", NEW, "ERROR: read-only file system"),
        ("bash", {"command": f"cat > a.sh <<'EOF'\n{NEW}EOF"}, "EXIT CODE: 1\nno space"),
        ("Edit", {"file_path": "a.sh", "old_string": "x", "new_string": NEW}, "edited"),
        ("bash", {"command": f"cat >> a.sh <<'EOF'\n{NEW}EOF"}, "done"),
        ("read_file", {"path": "a.sh"}, OLD),
    ],
    ids=[
        "another file",
        "a write that failed",
        "in capitals",
        "in a shell",
        "an edit",
        "what is added",
        "a read",
    ],
)
def test_nothing_else_replaces_it(later: Made) -> None:
    made = [write("a.sh", OLD), later]
    assert last(made)[0] == {"path": "a.sh", "content": OLD}


def test_a_write_that_failed_stays_as_it_was_tried() -> None:
    made = [write("a.sh", OLD, "Error: no space"), write("a.sh", NEW)]
    assert last(made)[0]["content"] == OLD


def test_short_texts_and_signed_calls_stay() -> None:
    made = [write("a.sh", "short"), write("a.sh", NEW)]
    assert last(made)[0]["content"] == "short"
    signed = Opaque("gemini", "call:0", "{}")
    assert last([write("a.sh", OLD), write("a.sh", NEW)], signed)[0]["content"] == OLD


def test_writes_of_one_reply_do_not_replace_each_other() -> None:
    calls = [
        ToolCall(f"c{at}", "write_file", json.dumps({"path": "a.sh", "content": text}))
        for at, text in enumerate((OLD, NEW))
    ]
    spoken = [user("go"), assistant("Both.", calls=calls), *(tool(call, "ok") for call in calls)]
    assert windows(spoken, Rewrites())[-1].messages == tuple(spoken)


def test_asking_between_two_messages_changes_no_window() -> None:
    spoken = [*talk([write("a.sh", OLD), write("a.sh", NEW)]), user("And?")]
    conversation = Conversation([Rewrites()])
    for at, message in enumerate(spoken):
        conversation.append(Item(str(at), message, "x"))
        conversation.window()
    assert conversation.window().messages == windows(spoken, Rewrites())[-1].messages
    assert "written anew" in conversation.window().messages[1].tool_calls[0].arguments


_PATHS = st.sampled_from(["a.sh", "b.sh"])
_TEXTS = st.sampled_from([OLD, NEW, "short", OLD + NEW])
_RESULTS = st.sampled_from(["ok", "ok", "Error: no"])
_MADE = st.one_of(
    st.builds(write, _PATHS, _TEXTS, _RESULTS),
    st.builds(
        lambda path, text, ok: ("bash", {"command": f"cat > {path} << EOF\n{text}\nEOF\nls"}, ok),
        *(_PATHS, _TEXTS, _RESULTS),
    ),
    st.builds(
        lambda path, text, ok: ("Edit", {"file_path": path, "old_string": text}, ok),
        *(_PATHS, _TEXTS, _RESULTS),
    ),
)


@given(st.lists(_MADE, max_size=8))
def test_what_a_file_holds_is_in_sight(made: list[Made]) -> None:
    spoken = talk(made)
    for window in holds_for_every_window(spoken, Rewrites()):
        answered = {entry.item.message.tool_call_id for entry in window.entries}
        held: dict[str, ToolCall] = {}  # what the last write that succeeded put into each file
        shown: dict[str, ToolCall] = {}
        for entry in window.entries:
            calls = entry.message.tool_calls
            for call, before in zip(calls, entry.item.message.tool_calls, strict=True):
                assert call.parsed().keys() == before.parsed().keys()
                assert ("a.sh" in call.arguments) == ("a.sh" in before.arguments)
                name, _, result = made[int(call.id[1:])]
                if result == "ok" and name != "Edit" and call.id in answered:
                    held["a.sh" if "a.sh" in call.arguments else "b.sh"] = before
                shown[call.id] = call
        for call in held.values():
            assert shown[call.id] == call
