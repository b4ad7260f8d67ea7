"""What a provider compacted stands in recordings whole and in order, and comes out again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importing.making import Session, call, result, text, write_lines
from tests.support.importing_exchanges import META, TURN, item, read, rollout, spent
from windlass.messages import Message, Opaque
from windlass.wire import anthropic, openai_responses
from windlass.wire.base import Request, Usage

SIGNED = {"type": "compaction", "content": None, "signature": "sig"}
UNSIGNED = {"type": "compaction", "content": "All of it, é."}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque é"}


def data(messages: tuple[Message, ...]) -> list[str]:
    return [
        part.data
        for message in messages
        for part in message.parts
        if isinstance(part, Opaque) and "compaction" in part.kind
    ]


def test_a_claude_code_session(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "iterations": [
            {"type": "compaction", "input_tokens": 900, "output_tokens": 100},
            {"type": "message", "input_tokens": 10, "output_tokens": 20},
        ],
    }
    session = Session()
    session.user("Go.")
    session.answer("m1", SIGNED, usage=usage)
    session.answer("m1", text("a"), usage=usage)
    session.user("On.")
    session.answer("m2", UNSIGNED, text("b"))
    (one,) = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert one.format == "claude-code"
    assert one.calls[0].usage == Usage(910, 120)
    assert list(map(json.loads, data(one.messages))) == [SIGNED, UNSIGNED]
    body = anthropic.body(Request("claude-opus-5-5", one.messages, 10))
    assert body["messages"][1]["content"] == [SIGNED, text("a")]
    assert body["messages"][3]["content"] == [UNSIGNED, text("b")]


def test_a_claude_code_session_that_was_built_anew(tmp_path: Path) -> None:
    """Rows that stand for earlier ones are no answers; their results do not lead back to these."""
    session = Session()
    session.user("Go.")
    session.answer("m1", call("c1"))
    session.user([result("c1", "long")])
    session.answer("m2", call("c2"))
    session.user([result("c2", "short")])
    session.last = None
    session.add("system", subtype="compact_boundary")
    session.user("Go.\n\nWhat was said stands here.")
    session.model = "<synthetic>"
    session.answer("built-1", call("c2"))
    session.user([result("c2", "short")])
    session.answer("built-2", text("So far."))
    session.model = "claude-opus-5-5"
    session.user("On.")
    session.answer("m3", text("Done."))
    first, other = read(write_lines(tmp_path / "s.jsonl", session.records))
    assert [one.kind for one in (first, other)] == ["session", "after compaction"]
    assert [call.id for call in first.calls] == ["m1", "m2"]
    assert [call.id for call in other.calls] == ["m3"]
    assert [message.text for message in other.messages] == [
        *("Go.\n\nWhat was said stands here.", "", "short", "So far.", "On.", "Done.")
    ]


def test_a_codex_rollout(tmp_path: Path) -> None:
    usage = ("token_usage_record", {"response_id": "r1", "usage": spent(100)})
    cut = ("compacted", {"message": "", "replacement_history": [item("user", "Short.")[1], ITEM]})
    records = rollout(
        META, TURN, item("user", "Go."), ("response_item", ITEM), item("assistant", "a"), usage,
        cut, item("assistant", "b"),
    )  # fmt: skip
    one, other = read(write_lines(tmp_path / "rollout-1.jsonl", records))
    for recording in (one, other):
        assert list(map(json.loads, data(recording.messages))) == [ITEM]
        listed = openai_responses.body(Request("gpt-5.6", recording.messages, 10))["input"]
        at = listed.index(ITEM)
        assert listed[at - 1]["role"] == "user"
        assert listed[at + 1]["role"] == "assistant"
