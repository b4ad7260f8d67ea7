"""The part of the user's cascade and settings that a call needs; calls know no more of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from windlass.cascade.callout_rules import CalloutRule
from windlass.window.expire import Expiry


class CallPhase(Protocol):
    """The part of a phase that a call needs."""

    @property
    def name(self) -> str:
        """The name of the phase."""

    @property
    def callouts(self) -> Mapping[str, CalloutRule | str]:
        """What is called out, by the name that it gets or by what it is."""


class CallSettings(Protocol):
    """The part of the settings that a call needs."""

    @property
    def root(self) -> Path:
        """The folder that tools work in."""

    @property
    def tripped(self) -> bool:
        """Whether windows are off because they lost money."""


class CallBudget(Protocol):
    """The input tokens that the user allows a request."""

    @property
    def limit(self) -> int | None:
        """The most input tokens (None: what the model takes)."""

    @property
    def warn(self) -> float:
        """The share of the limit from which on the user is told."""

    @property
    def on_exceed(self) -> str:
        """`warn`, `fail`, or how a request beyond the limit is shortened."""

    @property
    def summary_tokens(self) -> int:
        """The most tokens of a summary of what is beyond the limit."""


class CallPolicy(Protocol):
    """The options of a window that a call needs."""

    @property
    def profile(self) -> str:
        """The profile that holds for options not written."""

    @property
    def enabled(self) -> bool:
        """Whether anything is shortened to save money."""

    @property
    def max_input_tokens(self) -> int | None:
        """The most tokens that messages may have (None: what the model takes)."""

    @property
    def keep_recent_turns(self) -> int:
        """The newest turns that are shown (0: all)."""

    @property
    def keep_recent_images(self) -> int:
        """The newest pictures that are shown (0: all)."""

    @property
    def key(self) -> str:
        """A hash of the options, equal for equal ones."""

    def settings(self) -> dict[str, Any]:
        """The options by name, for the record."""


class CallRule(Protocol):
    """The part of a compiled rule that a call needs."""

    @property
    def mode(self) -> Literal["snowball", "selective", "auto"]:
        """All that was said before, named sources only, or what the phase chooses."""

    @property
    def sliding(self) -> bool:
        """Whether only the newest whole turns are shown."""

    @property
    def newest_turns(self) -> int | None:
        """The last turns of a snowball that the phase sees (None: all)."""

    @property
    def output_only(self) -> bool:
        """Whether later phases see nothing of it but its output."""

    @property
    def expiry(self) -> Expiry:
        """When messages leave by themselves."""

    @property
    def budget(self) -> CallBudget:
        """The input tokens that the user allows a request."""

    @property
    def policy(self) -> CallPolicy | None:
        """The options of its window (None: nothing is shortened)."""
