"""Recordings with results that are large, and a session file of Claude Code with them."""

from __future__ import annotations

import json
from itertools import islice, permutations
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


def quoting(number: int, later: int = 25) -> list[dict[str, Any]]:
    """A talk in which an edit quotes a line of a file that was read so many calls before."""
    line = f"    return self.columns[{number}].position_of(the_very_name, 'seldom')"
    words = ("apple", "bread", "cloud", "dance", "earth", "field", "grass", "horse")
    rows = (" ".join(row) for row in islice(permutations(words, 7), number, 9_000, 150))
    filling = "\n".join(rows)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "mend it"}]

    def asked(ident: str, name: str, **arguments: Any) -> None:
        function = {"name": name, "arguments": json.dumps(arguments)}
        made = {"id": ident, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})

    def told(ident: str, content: str) -> None:
        messages.append({"role": "tool", "tool_call_id": ident, "content": content})

    asked("r", "read_file", path=f"src/mod_{number}.py")
    told("r", f"{filling}\n{line}\n{filling}")
    for at in range(later):
        asked(f"w{at}", "think", about=f"step {'x' * at}")
        told(f"w{at}", "go on")
    asked("e", "edit_file", path=f"src/mod_{number}.py", old=line, new="    return 0")
    told("e", "done")
    messages.append({"role": "assistant", "content": "mended"})
    return messages


def request_log(path: Path, messages: list[dict[str, Any]], model: str = "gpt-5") -> Path:
    """A log of the requests and answers of a talk."""
    return write_lines(
        path,
        [
            {
                "request": {"model": model, "messages": messages[:at]},
                "response": {
                    "id": f"{path.stem}-{at}",
                    "object": "chat.completion",
                    "choices": [{"index": 0, "message": message}],
                },
            }
            for at, message in enumerate(messages)
            if message["role"] == "assistant"
        ],
    )
