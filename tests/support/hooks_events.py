"""Events as agents tell them to a hook, an agent that tells them, and texts that get shorter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from windlass.errors import UsageError
from windlass.history.base import Store
from windlass.messages import Message
from windlass_agents.handler import HookAnswer, HookHandler, HookRequest
from windlass_agents.hook_journal import HookJournal, HookLine
from windlass_agents.kept_originals import find_original

SESSION = "5f0c1a52-0c6b-4f43-9a51-1f4f6a3f0b11"


def log(lines: int = 600, name: str = "worker") -> str:
    """A log of many like lines, which gets much shorter."""
    return "\n".join(
        f"2026-01-01 12:00:{at % 60:02} INFO {name}-{at} served /api/users/{at * 7} in {at % 13} ms"
        for at in range(lines)
    )


def listing(lines: int = 40, name: str = "part") -> str:
    """A text that is short enough to stay whole, and long enough to be referred to."""
    return "\n".join(f"{name} {at} is defined in src/{name}_{at}.py" for at in range(lines))


def bash(stdout: str, **keys: Any) -> dict[str, Any]:
    """What Bash answers."""
    told = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    return {**told, "noOutputExpected": False, **keys}


def after(result: Any, call_id: str = "c1", tool: str = "Bash", **keys: Any) -> dict[str, Any]:
    """What Claude Code tells after a tool ran."""
    return {
        "session_id": SESSION,
        "hook_event_name": "PostToolUse",
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": {"command": f"make {call_id}"},
        "tool_response": result,
        "tool_use_id": call_id,
        **keys,
    }


class HookedAgent:
    """An agent in a project folder, with its hook in this process."""

    def __init__(self, folder: Path, *arguments: str, name: str = "claude-code") -> None:
        self.folder = folder
        self.arguments = (name, *arguments)
        self.answering = HookHandler(lambda: 1_000.0)
        self.journal = HookJournal(folder / ".windlass")

    def answer(self, payload: Any, **variables: str) -> HookAnswer:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        told = {"PATH": "", **variables}
        return self.answering.answer(HookRequest(self.folder, told, self.arguments, data))

    def tell(self, payload: Any, **variables: str) -> Any:
        """The answer, read (None: the result stays)."""
        text = self.answer(payload, **variables).text
        return json.loads(text) if text else None

    def result(self, payload: dict[str, Any]) -> Any:
        """What Claude Code shows of the result of an event."""
        told = self.tell(payload)
        return payload["tool_response"] if told is None else output(told)

    def lines(self, session: str = SESSION) -> list[HookLine]:
        return list(self.journal.lines(self.arguments[0], session))

    def files(self) -> Iterator[bytes]:
        """What lies in all files of the store."""
        for path in (self.folder / ".windlass").rglob("*"):
            if path.is_file():
                yield path.read_bytes()


def output(told: Any) -> Any:
    """The replacement in what Claude Code reads."""
    assert told.keys() == {"hookSpecificOutput"}
    said = told["hookSpecificOutput"]
    assert said.keys() == {"hookEventName", "updatedToolOutput"}
    assert said["hookEventName"] == "PostToolUse"
    return said["updatedToolOutput"]


def kept(journal: HookJournal, ref: str) -> Message:
    """The original that a reference means, among those that hooks keep."""

    def no_store() -> AbstractContextManager[Store]:
        raise UsageError("there is no store")

    return find_original(journal.folder.parent, ref, no_store)
