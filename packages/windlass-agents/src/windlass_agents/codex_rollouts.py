"""What Codex records of a call that just ended and does not tell its hooks.

A hook that replaces a result replaces what Codex says with it: how the command ended. And a call
that a script of the model made is no call of the model: what a hook says there ends the script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TAILS: Final = (1 << 20, 1 << 24)
"""Bytes of the end of a rollout in which a call is looked for, and if it is not there in more."""
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")
_POLL: Final = "write_stdin"
"""The tool that waits for a command that still runs: its result is told as that of the command."""


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call of the model's own whose result is about to be shown."""

    call_id: str
    """The call that the result answers: of a command that was waited for, the one that waits."""
    exit_code: int | None
    """How the command ended (None: it was none, or that is not recorded)."""


def ended_call(rollout: Path, call_id: str) -> EndedCall | None:
    """Return what a rollout tells of the call that a hook was told of.

    None: the model did not make it, or it is not clear which one it is. Raises OSError.
    """
    for size in _TAILS:
        if (found := _find(rollout, call_id, size)) is not None:
            return found if found.call_id else None
    return None


def results(data: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the call and the output that a line of a rollout is about, if it is about one."""
    if b'_call_output"' in data:
        match _payload(data):
            case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
                yield call_id, output


def _find(rollout: Path, call_id: str, size: int) -> EndedCall | None:
    """Return the call, without a name where there are several that it may be (None: not there)."""
    with rollout.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - size))
        lines = file.read().split(b"\n")
    own, exit_code = json.dumps(call_id).encode(), None
    answered: set[str] = set()
    polls: list[str] = []
    for line in reversed(lines):
        if own not in line and b'"function_call' not in line:
            continue
        match _payload(line):
            case {"item": {"type": "CommandExecution", "id": ident, "exit_code": int(code)}} if (
                ident == call_id
            ):
                exit_code = code
            case {"type": "function_call_output", "call_id": str(ident)}:
                answered.add(ident)
            case {"type": "function_call", "name": name, "call_id": str(ident)} if name == _POLL:
                polls += [] if ident in answered else [ident]
            case {"type": kind, "call_id": ident} if kind in _CALLS and ident == call_id:
                names = polls if call_id in answered else [call_id]
                return EndedCall(names[0] if len(names) == 1 else "", exit_code)
    return None


def _payload(line: bytes) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        match json.loads(line):
            case {"payload": Mapping() as payload}:
                return payload
    return {}
