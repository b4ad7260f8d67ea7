"""What an agent tells a hook, whichever agent it is, and what an adapter of one must do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from windlass.public import redacted_json, redacted_text
from windlass_agents import shell_words

Door: TypeAlias = Literal["hook", "mod"]
"""By which way an agent tells what happens: `hook`: a program that it starts at each event; `mod`:
code of ours that runs inside it."""


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """Where in an agent's work something happens."""

    agent: str
    """The name of its adapter."""
    session: str
    """The agent's own name of the session."""
    thread: str = ""
    """The agent's name of a subagent; empty: the session's own conversation."""
    folder: Path = Path()
    """The project."""
    transcript: Path | None = None
    """The file in which the agent records the session (None: it has none)."""
    tells_view: bool = True
    """Whether what its model has in view is read from that file, and not kept as it was told."""
    model: str | None = None
    """`provider/model`, where the agent says it."""

    @property
    def view(self) -> Path | None:
        """Return the file from which is read what the model has in view (None: from none)."""
        return self.transcript if self.tells_view else None


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call of a tool, with its result as the model saw it."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    result: str
    before: str = ""
    """What the model said before it called the tool."""
    replaced: str = ""
    """What the journal knows the result by, where a hook replaced it."""
    stored: str = ""
    """The file in which the agent stored the whole result, where it shows the beginning alone."""
    time: float = 0.0
    """Seconds since 1970."""
    thread: str = ""
    model: str = ""
    """`provider/model` (empty: unknown)."""

    def redacted(self) -> SeenCall:
        """Return the same without credentials, whoever said them."""
        return replace(
            self,
            call_id=redacted_text(self.call_id),
            arguments=redacted_json(dict(self.arguments)),
            before=redacted_text(self.before),
            result=redacted_text(self.result),
        )


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """A tool ran, and its result is about to be shown to the model for the first time."""

    place: AgentPlace
    call_id: str
    """The agent's name of the call."""
    tool: str
    arguments: Mapping[str, Any]
    text: str | None
    """The part of the result that can be replaced (None: the shape is not known)."""
    shown_chars: int
    """The characters that the agent itself would show of it: it may truncate a long result."""
    failed: bool = False
    """Whether the tool failed and the agent takes nothing in the place of what it said."""
    fits: Callable[[str, str], bool] | None = None
    """Whether a text may stand in the place of the original, where not each may."""
    as_shown: Callable[[str], str] = str
    """What the model is shown where a text is to stand in the place of the original."""
    earlier: tuple[SeenCall, ...] = ()
    """Results that the model sees from before, where the agent tells of them."""


Moment: TypeAlias = Literal["began", "compacted", "paused", "ended"]
"""`began`: a session began or goes on; `compacted`: its model no longer sees what came before;
`paused`: the model has answered and waits for the user; `ended`."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Something about a session that is no tool result."""

    place: AgentPlace
    moment: Moment


_RECALL_TOOL: Final = re.compile(r"(?:\w+_)?windlass_{1,2}recall")
"""The tool of our MCP server, as clients call it: mostly with the server's name before it."""


def is_recall(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call of a tool fetches an original back, and does nothing else."""
    command = arguments.get("command")
    if isinstance(command, str) and shell_words.is_recall(command):
        return True
    return bool(_RECALL_TOOL.fullmatch(tool))


HookEvent: TypeAlias = ToolEvent | SessionEvent


class Adapter(Protocol):
    """How one agent calls hooks: its JSON in, its JSON out."""

    @property
    def name(self) -> str:
        """Return the agent's name."""
        ...

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what the agent says (None: nothing that concerns Windlass).

        Raises ValueError for a payload that is not one of this agent's.
        """
        ...

    def write_answer(self, payload: Mapping[str, Any], text: str | None) -> str:
        """What is printed for the agent, where its model is to see `text` in place of the result.

        None: the result stays as it was.
        """
        ...
