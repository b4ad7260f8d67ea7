"""An agent that records its session as Claude Code does, and asks a hook at each result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from windlass_agents.handler import HookHandler, HookRequest

MODEL = "claude-sonnet-4-5-20250929"
USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 9_000,
    "cache_creation_input_tokens": 500,
    "output_tokens": 40,
}


def lines(words: str, count: int = 900) -> str:
    """A long output without anything that a later call needs."""
    return "\n".join(f"{words} {number}: compiled with flags -O2 -Wall" for number in range(count))


def bash(stdout: str) -> dict[str, Any]:
    """The output of a command, as the agent keeps it."""
    return {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}


class RecordingAgent:
    """A session of an agent in `folder`, with its transcript."""

    def __init__(self, folder: Path, session: str = "s1", *arguments: str) -> None:
        self.folder = folder
        self.session = session
        self.transcript = folder / "projects" / f"{session}.jsonl"
        self.arguments = ("claude-code", *arguments)
        self.answering = HookHandler(lambda: 1_000_000.0)
        self.takes = True
        """Whether it takes what the hook answers."""
        self._last: str | None = None
        self._number = 0
        self.thread = ""
        self.write("user", {"role": "user", "content": f"build the project of {session}"})

    def subagent(self, thread: str) -> RecordingAgent:
        """A subagent of the session, with a transcript of its own."""
        below = copy(self)
        below.thread, below._last, below._number = thread, None, 100
        below.write("user", {"role": "user", "content": f"look around as {thread}"})
        return below

    @property
    def file(self) -> Path:
        """The transcript that is written to."""
        if not self.thread:
            return self.transcript
        return self.transcript.with_suffix("") / "subagents" / f"agent-{self.thread}.jsonl"

    @property
    def store(self) -> Path:
        return self.folder / ".windlass"

    def ask(self, event: str, **more: Any) -> str:
        """What the hook answers to an event."""
        payload = {
            "hook_event_name": event,
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.folder),
            **({"agent_id": self.thread} if self.thread else {}),
            **more,
        }
        request = HookRequest(
            self.folder, {"PATH": "/nowhere"}, self.arguments, json.dumps(payload).encode()
        )
        return self.answering.answer(request).text

    def run(self, tool: str, given: Mapping[str, Any], response: Any, text: str = "") -> Any:
        """Call a tool, ask the hook about its result, record what the model is shown of it."""
        self._number += 1
        call_id = f"toolu_{self.session}{self.thread}_{self._number}"
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": dict(given)}
        self.answer([block])
        answer = self.ask(
            "PostToolUse",
            tool_name=tool,
            tool_input=dict(given),
            tool_response=response,
            tool_use_id=call_id,
        )
        shown = response
        if answer and self.takes:
            shown = json.loads(answer)["hookSpecificOutput"]["updatedToolOutput"]
        result = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": text or (shown["stdout"] if isinstance(shown, dict) else shown),
        }
        # Transcripts of subagents have only what their model was shown.
        kept = {} if self.thread else {"toolUseResult": shown}
        self.write("user", {"role": "user", "content": [result]}, **kept)
        return shown

    def answer(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """An answer of the model."""
        message = {
            "id": f"msg_{self.session}{self.thread}_{self._number}",
            "role": "assistant",
            "model": MODEL,
            "content": list(blocks),
            "stop_reason": "tool_use",
            "usage": USAGE,
        }
        self.write(
            "assistant", message, requestId=f"req_{self.session}{self.thread}_{self._number}"
        )

    def write(self, kind: str, message: Mapping[str, Any], **more: Any) -> None:
        """Append a record to the transcript."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        size = self.file.stat().st_size if self._last else 0
        ident = f"{self.session}-{self.thread}-{size}"
        record = {
            "type": kind,
            "uuid": ident,
            "parentUuid": self._last,
            "sessionId": self.session,
            "cwd": str(self.folder),
            "timestamp": f"2026-11-20T10:{self._number % 60:02}:00.000Z",
            "message": dict(message),
            **({"agentId": self.thread, "isSidechain": True} if self.thread else {}),
            **more,
        }
        self._last = ident
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(record)}\n")
