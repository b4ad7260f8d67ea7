"""Records of Claude Code as its schema has them, made small."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """A file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class Session:
    """Makes the records of a session; each follows the one before."""

    def __init__(self, name: str = "s-1", model: str = "claude-opus-4-5-20251101") -> None:
        self.name = name
        self.model = model
        self.records: list[dict[str, Any]] = []
        self.last: str | None = None

    def add(self, kind: str, message: Any = None, **keys: Any) -> dict[str, Any]:
        ident = f"{self.name}-{len(self.records)}"
        record = {
            "type": kind,
            "uuid": ident,
            "parentUuid": self.last,
            "sessionId": self.name,
            "isSidechain": False,
            "timestamp": f"2026-01-21T15:30:{len(self.records) % 60:02}.000Z",
            **({} if message is None else {"message": message}),
            **keys,
        }
        self.records.append(record)
        self.last = record["uuid"]
        return record

    def user(self, content: Any, **keys: Any) -> dict[str, Any]:
        return self.add("user", {"role": "user", "content": content}, **keys)

    def answer(
        self,
        ident: str,
        *blocks: dict[str, Any],
        usage: dict[str, Any] | None = None,
        stopped: bool = True,
        **keys: Any,
    ) -> dict[str, Any]:
        message = {
            "id": ident,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(blocks),
            "stop_reason": "end_turn" if stopped else None,
            "usage": usage or used(),
        }
        return self.add("assistant", message, **keys)


def used(fresh: int = 10, out: int = 20, read: int = 0, written: int = 0, hour: int = 0) -> Any:
    """A usage in Anthropic's words; `hour` of those written are kept for an hour."""
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": written - hour,
            "ephemeral_1h_input_tokens": hour,
        },
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(ident: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def result(ident: str, words: str = "done", **keys: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": words, **keys}
