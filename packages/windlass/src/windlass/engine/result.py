"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from windlass.errors import WindlassError
from windlass.history.base import Reason, Status
from windlass.wire.base import Usage


class Talk(Protocol):
    """A session with which a person goes on."""

    async def send(self, text: str) -> Result:
        """Send a message; the session's answer. Raises UsageError for an empty one."""

    def send_sync(self, text: str) -> Result:
        """Return the same for code that is not async."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a session ended.

    `reason` says why its `status` is `incomplete`, of the first phase that is (None: it is not).
    `output` is the last phase's output text (None where the run failed: what an earlier phase put
    out is not its result), `outputs` each phase's by name, with those of sub-cascades, `state` the
    state at the end. `usage` are the reported tokens of all calls; `cost` is in US dollars (None: a
    model without a price took part; 0.0 for a model on this machine). `saved` is the number of
    input tokens that a snowball would have sent more, negative where it would have sent less.
    `error` is what stopped the run: it is in the record, too. `notes` are those of a task that
    failed: `partialResults`, and `budget`: what the run might cost, was spent, and the next call
    could have cost, in US dollars. `session` goes on with a cascade's session (None: a task ran).
    """

    status: Status
    output: str | None
    outputs: Mapping[str, str]
    state: Mapping[str, Any]
    session_id: str
    usage: Usage
    cost: float | None
    saved: int
    error: WindlassError | None = field(default=None)
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reason: Reason | None = None
    session: Talk | None = field(default=None, repr=False, compare=False)

    def check(self) -> Result:
        """This result, or raise the error that stopped the run."""
        if self.error is not None:
            raise self.error
        return self
