"""The policies of a replay, as a user names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.cascade import policies
from windlass.errors import UsageError
from windlass.importing.recording import Recording
from windlass.window.options import Policy, over

_OTHERS: Final = frozenset({"inter_phase", "helper_model"})
"""Keys of `auto_context` that are not about the windows of one conversation."""

PolicyName: TypeAlias = str | Mapping[str, Any] | Policy | Path


@dataclass(frozen=True, slots=True)
class Head:
    """What stands in front of the messages otherwise than it was recorded, in the model's tokens.

    Args:
        waiting: Tokens of the definitions, by the names of their tools, that are not sent before a
            call needs one: all of the same names are found together by one more request, and sent
            from then on.
        search: Tokens that finding them takes, in that request and after it.
        repeated: Tokens of the head that are written anew behind a compaction, since the client
            says them again.
        more: Tokens behind the head that each call is sent besides the recorded ones.
        once: Fresh input tokens that are paid once (below 0: saved).
    """

    waiting: Mapping[tuple[str, ...], float] = field(default_factory=dict[tuple[str, ...], float])
    search: float = 0.0
    repeated: float = 0.0
    more: float = 0.0
    once: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """A policy of windows, and its name in tables."""

    name: str
    policy: Policy
    kept: Callable[[Recording], Collection[int]] | None = None
    """The places of messages that stay as they were said (None: none has to)."""
    way_back: str = ""
    """What placeholders say before a reference; see `ContextOptions`."""
    heads: Callable[[Recording], Sequence[Head]] | None = None
    """The bounds of what stands in front of the messages (None: what was recorded)."""


def policies_of(named: Iterable[PolicyName]) -> tuple[ReplayPolicy, ...]:
    """Return the policies, each once and in order. Raises UsageError for an unknown one."""
    return tuple({policy.name: policy for policy in map(policy_of, named)}.values())


def policy_of(named: PolicyName) -> ReplayPolicy:
    """Return the policy that a user names as `windlass.cascade.policies.policy_of` says.

    In Python it may also be a dict of options or a `Policy`. Raises UsageError in one sentence.
    """
    if isinstance(named, Policy):
        return ReplayPolicy(named.profile if named == Policy(named.profile) else named.key, named)
    if isinstance(named, Mapping):
        settings = _windows(named)
        return ReplayPolicy(_title(settings), Policy.of(settings))
    if not isinstance(named, str | Path):
        return ReplayPolicy("", Policy.of(named))  # raises, and says what a policy is
    name, auto = policies.policy_of(named)
    if isinstance(auto, bool):
        return ReplayPolicy(name, Policy() if auto else Policy(enabled=False))
    return ReplayPolicy(name, Policy.of(_windows(auto)))


def _title(settings: Mapping[str, Any]) -> str:
    """Return options as the command line takes them."""
    profile = settings.get("profile", "default")
    options = (f"{key}={json.dumps(value)}" for key, value in settings.items() if key != "profile")
    return ",".join([str(profile), *options])


def _windows(auto: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of windows in an `auto_context`; options of a policy as they are."""
    settings = {str(key): value for key, value in auto.items() if key not in _OTHERS}
    inner = settings.pop("intra_phase", {})
    if isinstance(inner, bool):
        inner = {} if inner else {"enabled": False}
    if not isinstance(inner, Mapping):
        raise UsageError(f"intra_phase must be true, false or an object, not {inner!r}")
    whole = over(settings, dict(inner))
    Policy.of(whole)
    return dict(whole)
