"""What a hook is installed with: the arguments of `windlass agent run`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.public import UsageError, did_you_mean
from windlass_agents.agents import AGENTS

_SHARE: Final = re.compile(r"(\d{1,2}(?:\.\d+)?)%?")
_FLAGS: Final = ("--store", "--policy", "--holdout", "--redact")


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How the results of an agent's tools are shortened."""

    agent: str
    store: str | None = None
    """The folder of the history (None: `.windlass` in the project)."""
    policy: str | None = None
    """A policy, as `windlass replay --policy` takes it (None: the default)."""
    holdout: float = 0.0
    """The share of sessions that stay as they are, for comparison."""
    redact: bool = False
    """Whether credentials in results are replaced by `***`."""

    def arguments(self) -> list[str]:
        """Return the words that follow `windlass agent run`."""
        given = [self.agent]
        given += ["--store", self.store] if self.store else []
        given += ["--policy", self.policy] if self.policy else []
        given += ["--holdout", f"{100 * self.holdout:g}%"] if self.holdout else []
        return [*given, "--redact"] if self.redact else given

    def holds_out(self, session: str) -> bool:
        """Return whether a session stays as it is. The same session always gets the same answer."""
        drawn = int.from_bytes(hashlib.sha256(session.encode()).digest()[:4])
        return drawn < self.holdout * 2**32


def read_options(arguments: Sequence[str]) -> HookOptions:
    """Return the options in the words that follow `windlass agent run`.

    Raises UsageError in one sentence.
    """
    if not arguments or arguments[0] not in AGENTS:
        name = arguments[0] if arguments else ""
        raise UsageError(f"agent run: {name!r} is no agent; {did_you_mean(name, AGENTS)}")
    agent, *rest = arguments
    given: dict[str, str] = {}
    while rest:
        flag, _, value = rest.pop(0).partition("=")
        if flag not in _FLAGS:
            raise UsageError(f"agent run: unknown option {flag!r}; {did_you_mean(flag, _FLAGS)}")
        if flag != "--redact" and not value:
            value = rest.pop(0) if rest else ""
        given[flag] = value
    return HookOptions(
        agent,
        given.get("--store") or None,
        given.get("--policy") or None,
        read_share(given.get("--holdout") or "0"),
        "--redact" in given,
    )


def read_share(text: str) -> float:
    """Return a share that is written in percent: `10%` is 0.1. Raises UsageError."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--holdout {text!r}: expected a share of the sessions, such as 10%")
    return float(match[1]) / 100
