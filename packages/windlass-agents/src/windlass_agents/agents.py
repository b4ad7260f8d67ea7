"""Adapters: how each agent calls its hooks, a class for each way to call them.

Claude Code, and each agent that calls hooks as it does.

A hook gets an object with `hook_event_name` and answers `hookSpecificOutput` with
`updatedToolOutput` in the shape of `tool_response`.

Where a mod of ours runs inside Claude Code, it tells more, and more may be replaced.

The contract for every other client: one JSON object in, one out.

In: `{"session": "s1", "tool": "bash", "arguments": {"command": "ls"}, "text": "..."}`, and where
they are known `thread`, `call_id`, `folder`, `model` (`provider/model`), `failed`, and `earlier`: a
list of what the model sees of calls from before, `{"call_id", "tool", "arguments", "text"}`. Or,
without `tool`: `{"session": "s1", "moment": "began"}` (or `compacted`, `paused`, `ended`).
Out: `{"text": "..."}`, what the model is to see; `{}`: what the tool said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from windlass.public import UsageError, did_you_mean
from windlass_agents._earlier import read_stored
from windlass_agents.agent_events import (
    Adapter,
    AgentPlace,
    Door,
    HookEvent,
    Moment,
    SeenCall,
    SessionEvent,
    ToolEvent,
)
from windlass_agents.codex_rollouts import EndedCall, ended_call
from windlass_agents.numbered_lines import NumberedLines
from windlass_agents.shapes import CLAUDE_CODE, CODEX, shape_of, text_of_content


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
"""The events that a hook of Claude Code is installed for."""
CODEX_EVENTS: Final = (_AFTER, "SessionStart", "PostCompact", "Stop")
"""Those of Codex."""


class ClaudeCode:
    """The adapter of its hooks."""

    name = "claude-code"

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what Claude Code says.

        Raises ValueError where it is not Claude Code that says it.
        """
        event = str(payload.get("hook_event_name") or "")
        if not event or not payload.get("session_id"):
            raise ValueError("no hook_event_name and session_id")
        place = _place(payload)
        if event in (_AFTER, _FAILED):
            return _tool_event(payload, place, failed=event == _FAILED)
        moment = _moment_of(payload)
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


class Codex:
    """The adapter of Codex, which calls hooks nearly as Claude Code does.

    A hook replaces a result by blocking it: its model reads the reason, and nothing else. Where a
    script of the model made the call, that would end the script: such a result stays.
    """

    name = "codex"

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what Codex says. Raises ValueError where it is not Codex that says it."""
        event = str(payload.get("hook_event_name") or "")
        if not event or not payload.get("session_id"):
            raise ValueError("no hook_event_name and session_id")
        model, thread = payload.get("model"), payload.get("agent_id")
        rollout = payload.get("transcript_path")
        place = AgentPlace(
            agent=self.name,
            session=str(payload["session_id"]),
            thread=thread if isinstance(thread, str) else "",
            folder=Path(str(payload.get("cwd") or ".")),
            transcript=Path(rollout) if isinstance(rollout, str) and rollout else None,
            tells_view=False,
            model=f"openai/{model}" if isinstance(model, str) and model else None,
        )
        if event != _AFTER:
            moment = _moment_of(payload)
            return None if moment is None else SessionEvent(place, moment)
        found = shape_of(CODEX, _tool(payload), payload.get("tool_response"))
        call_id = str(payload.get("tool_use_id") or "")
        ended = _ended(payload, call_id, place.transcript)
        arguments = payload.get("tool_input")
        return ToolEvent(
            place=place,
            call_id=call_id if ended is None else ended.call_id,
            tool=_tool(payload),
            arguments=arguments if isinstance(arguments, Mapping) else {},
            text=None if found is None or ended is None else found[1],
            shown_chars=0 if found is None else min(len(found[1]), _MOST_SHOWN),
            fits=_fits_codex,
            as_shown=str if ended is None else partial(_with_exit_code, ended.exit_code),
        )

    def write_answer(self, payload: Mapping[str, Any], text: str | None) -> str:
        """Return what Codex reads: nothing where the result stays."""
        del payload
        return "" if text is None else json.dumps({"decision": "block", "reason": text})


_SHELL: Final = "Bash"
_SCRIPT: Final = "exec-"
"""How the calls begin that a script of the model makes."""
_MOST_SHOWN: Final = 48_000
"""Characters that Codex shows of a result; what a command says it cuts before it tells a hook."""
_MOST_SAID: Final = 9_900
"""Bytes of a reason that Codex shows whole, a line before it left out."""


def _ended(payload: Mapping[str, Any], call_id: str, rollout: Path | None) -> EndedCall | None:
    """Return the call of the model whose result Codex is about to show.

    None: a script of the model made it, or it is not known how the command ended.
    """
    if "transcript_path" not in payload:
        return None if call_id.startswith(_SCRIPT) else EndedCall(call_id, None)
    ended = None
    with suppress(OSError):
        ended = None if rollout is None else ended_call(rollout, call_id)
    if ended is not None and ended.exit_code is None and _tool(payload) == _SHELL:
        return None
    return ended


def _fits_codex(text: str, original: str) -> bool:
    del original
    return len(text.encode()) <= _MOST_SAID


def _with_exit_code(exit_code: int | None, text: str) -> str:
    """Return a result with what Codex itself would say of how the command ended."""
    if exit_code is None:
        return text
    return f"Process exited with code {exit_code}\nOutput:\n{text}"


def _moment_of(payload: Mapping[str, Any]) -> Moment | None:
    """Return the moment that an event of a hook tells of."""
    moment = _MOMENTS.get(str(payload.get("hook_event_name")))
    if moment == "began" and payload.get("source") in ("clear", "compact"):
        return "compacted"
    return moment


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


class ClaudeCodeMod(ClaudeCode):
    """The adapter of Claude Code's mod, which tells a result as the model is about to see it.

    A result is `{"session_id", "tool_use_id", "tool_name", "tool_input", "content"}`, and where
    they are known `agent_id`, `transcript_path`, `cwd` and `model`; `content` is what a block of
    the messages API has. All else that happens is told in the words of the hooks.
    """

    def read_event(self, payload: Mapping[str, Any]) -> HookEvent | None:
        """Return what the mod says. Raises ValueError where the session is missing."""
        if payload.get("hook_event_name"):
            return super().read_event(payload)
        if not payload.get("session_id"):
            raise ValueError("no session_id")
        place = _place(payload)
        shown, arguments = text_of_content(payload.get("content")), payload.get("tool_input")
        file = NumberedLines.read(shown) if shown is not None and _tool(payload) == _READ else None
        match = None if shown is None else _STORED_AT.match(shown)
        whole = None if match is None else read_stored(match[1].strip(), place.transcript)
        # A failed result may be replaced as any other: the mark that it failed stays.
        return ToolEvent(
            place=place,
            call_id=str(payload.get("tool_use_id") or ""),
            tool=_tool(payload),
            arguments=arguments if isinstance(arguments, Mapping) else {},
            text=whole or (shown if file is None else file.text),
            shown_chars=len(shown or "" if file is None else file.text),
            fits=None if file is None else file.fits,
            as_shown=str if file is None else file.with_numbers,
        )

    def write_answer(self, payload: Mapping[str, Any], text: str | None) -> str:
        """Return what the mod reads."""
        del payload
        return json.dumps({} if text is None else {"text": text})


_READ: Final = "Read"
_STORED_AT: Final = re.compile(r"<persisted-output>\n.{0,200}saved to: (.+)")
"""How Claude Code begins what it shows of a result that it stored."""

# The plugin of opencode (`opencode.js`) says what `tool.execute.after` gets in the plain contract,
# and puts the text that comes back in the place of `output.output`.
AGENTS: Final[Mapping[str, Adapter]] = {
    one.name: one for one in (ClaudeCode(), Codex(), Plain("opencode"), Plain("plain"))
}
"""The adapters of hooks by the names of the agents."""

_INSIDE: Final[Mapping[str, Adapter]] = {ClaudeCode.name: ClaudeCodeMod()}
"""The adapters of code of ours that runs inside an agent."""


def adapter_of(agent: str, door: Door = "hook") -> Adapter:
    """Return the adapter of an agent. Raises UsageError for a name that there is not."""
    if agent not in AGENTS:
        raise UsageError(f"there is no adapter for {agent!r}; {did_you_mean(agent, AGENTS)}")
    return _INSIDE.get(agent, AGENTS[agent]) if door == "mod" else AGENTS[agent]
