"""Recordings with results that are large, and a session file of Claude Code with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.importing.making import Session, text, used, write_lines

MODEL = "anthropic/claude-sonnet-4-5"
RESULT_TOKENS = 11_000
"""Of a result, by the count of Claude."""


def listing(number: int, lines: int = 400) -> str:
    """A large result of plain words, with one name that stands nowhere else."""
    words = "\n".join(f"line {line} of some file that nobody needs again" for line in range(lines))
    return f"{words}\nthe ticket is TICKET-{number}{number}\n{words}"


def call(number: int, **arguments: Any) -> dict[str, Any]:
    function = {"name": "search", "arguments": json.dumps(arguments)}
    made = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def talk(turns: int = 8, *, needs: bool = False) -> list[dict[str, Any]]:
    """A talk in which each turn searches; with `needs` the last one uses what the first found."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look for the tickets"}]
    for number in range(turns):
        last = needs and number == turns - 1
        messages.append(call(number, query="TICKET-00" if last else "tickets"))
        result = {"role": "tool", "tool_call_id": f"call_{number}", "content": listing(number)}
        messages.append(result)
    messages.append({"role": "assistant", "content": "done"})
    return messages


def session_file(
    path: Path, turns: int = 6, name: str = "s-1", model: str = "claude-sonnet-4-5-20250929"
) -> Path:
    """A session of Claude Code, whose calls sent 20,000 tokens beside the messages."""
    session = Session(name, model)
    session.user("look for the tickets")
    read, written = 0, 20_000
    for number in range(turns):
        block = {"type": "tool_use", "id": f"t{number}", "name": "search", "input": {"q": number}}
        usage = used(read=read, written=written)
        session.answer(f"{name}-m{number}", text("next"), block, usage=usage)
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": listing(number)}
        session.user([result])
        read, written = read + written, RESULT_TOKENS
    session.answer(f"{name}-end", text("done"), usage=used(read=read, written=written))
    return write_lines(path, session.records)
