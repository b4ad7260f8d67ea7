"""Claude Code, and each agent that calls hooks as it does.

A hook gets an object with `hook_event_name` and answers `hookSpecificOutput` with
`updatedToolOutput` in the shape of `tool_response`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windlass.hooks._earlier import read_stored
from windlass.hooks.agent_events import AgentPlace, HookEvent, Moment, SessionEvent, ToolEvent
from windlass.hooks.shapes import CLAUDE_CODE, shape_of

_AFTER: Final = "PostToolUse"
_FAILED: Final = "PostToolUseFailure"
_MOMENTS: Final[Mapping[str, Moment]] = {
    "SessionStart": "began",
    "PostCompact": "compacted",
    "Stop": "paused",
    "SubagentStop": "paused",
    "SessionEnd": "ended",
}
EVENTS: Final = (_AFTER, _FAILED, *_MOMENTS)
"""The events that a hook is installed for."""


class ClaudeCode:
    """The adapter."""

    name = "claude-code"

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """What Claude Code says. Raises ValueError where it is not Claude Code that says it."""
        event = str(payload.get("hook_event_name") or "")
        if not event or not payload.get("session_id"):
            raise ValueError("no hook_event_name and session_id")
        place = _place(payload)
        if event in (_AFTER, _FAILED):
            return _tool_event(payload, place, failed=event == _FAILED)
        moment = _MOMENTS.get(event)
        if moment == "began" and payload.get("source") in ("clear", "compact"):
            moment = "compacted"
        return None if moment is None else SessionEvent(place, moment)

    def write_answer(self, payload: Mapping[str, Any], text: str | None) -> str:
        """Return what Claude Code reads: nothing where the result stays."""
        result = payload.get("tool_response")
        found = None if text is None else shape_of(CLAUDE_CODE, _tool(payload), result)
        if text is None or found is None:
            return ""
        new = found[0].with_text(result, text)
        output = {"hookEventName": _AFTER, "updatedToolOutput": new}
        return json.dumps({"hookSpecificOutput": output})


def _place(payload: Mapping[str, Any]) -> AgentPlace:
    transcript = payload.get("transcript_path")
    path = Path(transcript) if isinstance(transcript, str) and transcript else None
    thread = payload.get("agent_id")
    if path is not None and isinstance(thread, str) and thread:
        path = path.with_suffix("") / "subagents" / f"agent-{thread}.jsonl"
    model = payload.get("model")
    return AgentPlace(
        agent=ClaudeCode.name,
        session=str(payload["session_id"]),
        thread=thread if isinstance(thread, str) else "",
        folder=Path(str(payload.get("cwd") or ".")),
        transcript=path,
        model=f"anthropic/{model}" if isinstance(model, str) and model else None,
    )


def _tool(payload: Mapping[str, Any]) -> str:
    return str(payload.get("tool_name") or "")


def _tool_event(payload: Mapping[str, Any], place: AgentPlace, *, failed: bool) -> ToolEvent:
    result = payload.get("tool_response")
    found = None if failed else shape_of(CLAUDE_CODE, _tool(payload), result)
    text, shown_chars = None, 0
    if found is not None:
        shape, handed = found
        stored = shape.stored(result)
        whole = read_stored(stored, place.transcript, handed) if stored else None
        text, shown_chars = whole or handed, shape.shown_chars(result, handed)
    arguments = payload.get("tool_input")
    return ToolEvent(
        place=place,
        call_id=str(payload.get("tool_use_id") or ""),
        tool=_tool(payload),
        arguments=arguments if isinstance(arguments, Mapping) else {},
        text=text,
        shown_chars=shown_chars,
        failed=failed,
        fits=None if found is None else found[0].fits,
    )
