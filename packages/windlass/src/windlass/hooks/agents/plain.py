"""The contract for every other client: one JSON object in, one out.

In: `{"session": "s1", "tool": "bash", "arguments": {"command": "ls"}, "text": "..."}`, and where
they are known `thread`, `call_id`, `folder`, `model` (`provider/model`), `failed`, and `earlier`: a
list of what the model sees of calls from before, `{"call_id", "tool", "arguments", "text"}`. Or,
without `tool`: `{"session": "s1", "moment": "began"}` (or `compacted`, `paused`, `ended`).
Out: `{"text": "..."}`, what the model is to see; `{}`: what the tool said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from windlass.hooks.agent_events import (
    AgentPlace,
    HookEvent,
    Moment,
    SeenCall,
    SessionEvent,
    ToolEvent,
)


@dataclass(frozen=True, slots=True)
class Plain:
    """The adapter of an agent with this name."""

    name: str

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what a client says. Raises ValueError where the session is missing."""
        session = str(payload.get("session") or "")
        if not session:
            raise ValueError('no "session"')
        model = payload.get("model")
        place = AgentPlace(
            agent=self.name,
            session=session,
            thread=str(payload.get("thread") or ""),
            folder=Path(str(payload.get("folder") or ".")),
            model=model if isinstance(model, str) and "/" in model else None,
        )
        moment = next((one for one in get_args(Moment) if one == payload.get("moment")), None)
        if moment is not None:
            return SessionEvent(place, moment)
        text, arguments = payload.get("text"), payload.get("arguments")
        return ToolEvent(
            place=place,
            call_id=str(payload.get("call_id") or ""),
            tool=str(payload.get("tool") or ""),
            arguments=arguments if isinstance(arguments, Mapping) else {},
            text=text if isinstance(text, str) else None,
            shown_chars=len(text) if isinstance(text, str) else 0,
            failed=payload.get("failed") is True,
            earlier=tuple(_earlier(payload.get("earlier"))),
        )

    def write_answer(self, payload: Mapping[str, Any], text: str | None) -> str:
        """Return what the client reads."""
        del payload
        return json.dumps({} if text is None else {"text": text})


def _earlier(listed: object) -> Iterator[SeenCall]:
    """Yield the earlier results that a client tells of; what is none is left out."""
    for one in listed if isinstance(listed, list) else ():
        match one:
            case {"call_id": str(call_id), "tool": str(tool), "text": str(text)} if call_id:
                arguments = one.get("arguments")
                given = arguments if isinstance(arguments, Mapping) else {}
                yield SeenCall(call_id, tool, given, text)
