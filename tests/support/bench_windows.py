"""What tests of bench windows build their cases of; others use it, too."""

from __future__ import annotations

import json
from typing import Any

from bench.windows.recordings import Chat, Recording


def user(text: str) -> Chat:
    return {"role": "user", "content": text}


def calls(id_: str, content: str | None = None, **arguments: Any) -> Chat:
    function = {"name": "bash", "arguments": json.dumps(arguments)}
    call = {"id": id_, "type": "function", "function": function}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def result(id_: str, text: str) -> Chat:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def recording(*messages: Chat, used: dict[int, tuple[str, ...]] | None = None) -> Recording:
    return Recording("test/1", "test", messages, used)


RUN = recording(
    user("go"),
    calls("1", q="list"),
    result("1", "A-17 " * 1_000),
    calls("2", q="wait"),
    result("2", "done"),
    calls("3", q="show A-17"),
    result("3", "fine"),
)
