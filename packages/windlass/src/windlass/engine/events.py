"""Events of a run: small frozen values, handed to one callable.

Events are for people watching. The record does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windlass.errors import LimitName
from windlass.providers.base import RequestWait


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A session begins; `models` are all that will see content.

    `parent_id` is the session of which it is a sub-cascade: until `SubCascadeEnded`, events are
    its own.
    """

    session_id: str
    cascade_id: str
    models: tuple[str, ...]
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase begins; `index` counts from 1; `context` says in words what it will see.

    `total` is how many there will be (None: the phases choose what comes next).
    """

    phase: str
    index: int
    total: int | None
    context: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A request goes out: its input tokens by the engine's count, and a snowball's.

    `is_recorded`: it is not sent, since the record of a resumed run has the answer.
    """

    phase: str
    turn: int
    attempt: int
    tokens: int
    snowball_tokens: int
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class TextArrived:
    """A piece of the reply, as it streams in."""

    phase: str
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A reply is in the record. Tokens as reported, cost in US dollars (None: no price).

    `is_recorded`: it was there before this run, and cost it nothing.
    """

    phase: str
    turn: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float | None
    seconds: float
    is_recorded: bool = False


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool runs, with the arguments the model wrote (JSON text)."""

    phase: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool is done: the first line of its result, and whether it failed."""

    phase: str
    name: str
    error: bool
    summary: str
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A person is asked something: by the model, or whether `tool` may run, in the call `call`.

    `context` is what the person should know to answer.
    """

    phase: str
    question: str
    options: tuple[str, ...]
    tool: str | None = None
    call: str | None = None
    context: str = ""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message is in the record: who says it, its text, the tool whose result it is."""

    phase: str
    role: str
    text: str
    message_id: str
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class MessageEdited:
    """A message is shown otherwise, or no more, from the call on that was made: how, and why."""

    phase: str
    message_id: str
    kind: Literal["replace", "drop"]
    because: str
    reason: str


@dataclass(frozen=True, slots=True)
class LimitHit:
    """The next step could have passed a limit, so it was not begun.

    `of` says whose limit it is (the run, a phase), `limit` its amount and `used` what was used:
    US dollars, tokens, seconds or turns, as `reason` says.
    """

    phase: str
    reason: LimitName
    of: str
    limit: float
    used: float


@dataclass(frozen=True, slots=True)
class Validated:
    """A validator has answered for one attempt."""

    phase: str
    attempt: int
    valid: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something worth a line: a source skipped, a budget passed, a limit reached.

    `detail`: it tells how contexts and caches are handled, and nobody needs to act on it.
    """

    phase: str
    text: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The model's plan is another one: goal, steps done of all, the next step in words.

    `steps` are (status, text, conclusion).
    """

    phase: str
    goal: str
    done: int
    total: int
    next: str
    steps: tuple[tuple[str, str, str], ...]


Waiting = RequestWait
"""A request waits so many seconds before it goes."""


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase is over: its status, its output text, and the reason if it is `incomplete`."""

    phase: str
    status: str
    output: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SubCascadeEnded:
    """A sub-cascade of `phase` is over; `cost` in US dollars (None: a call had no price)."""

    phase: str
    cascade_id: str
    session_id: str
    status: str
    reason: str | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class InputEnded:
    """An inner task of a reduce is over: `index` of its input from 0, and how many are by now."""

    phase: str
    index: int
    name: str
    done: int
    total: int


Event: TypeAlias = (
    SessionStarted
    | PhaseStarted
    | CallStarted
    | TextArrived
    | CallEnded
    | ToolStarted
    | ToolEnded
    | QuestionAsked
    | MessageAdded
    | MessageEdited
    | LimitHit
    | Validated
    | Noted
    | PlanChanged
    | Waiting
    | PhaseEnded
    | SubCascadeEnded
    | InputEnded
)


class Listener:
    """Hands events to a user's function. What that raises ends the run at its next step.

    It is not raised where it would take a reply that is paid for with it. `failure` is what was
    raised; nothing is handed over after it.
    """

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self.failure: Exception | None = None

    def __call__(self, event: Event) -> None:
        """Hand over one event."""
        if self.failure is None:
            try:
                self._on_event(event)
            except Exception as failure:  # noqa: BLE001 - a user's function may raise anything
                self.failure = failure
        if not isinstance(event, SessionStarted | TextArrived | RequestWait | Noted):
            self.check()

    def check(self) -> None:
        """Raise what the function raised, if it did."""
        if self.failure is not None:
            raise self.failure
