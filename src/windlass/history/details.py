"""What the record keeps as JSON of calls, of how they chose, and of endings: its shapes.

The engine writes them, reports read them. All is optional: a record of an older version, and a call
without a cache, injectors or a policy, has less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from windlass.caching.breakpoints import Place
from windlass.caching.meter import PrefixDetails
from windlass.wire.editing import ProviderEdits


class CallDetails(TypedDict, total=False):
    """The details of one call. Tokens by the engine's count, bills in fresh tokens' worth."""

    tool_choice: str
    prefix: PrefixDetails
    position: Mapping[str, Any]
    budget: BudgetDetails
    planner: Mapping[str, Any]
    injectors: InjectorDetails
    replanned: Mapping[str, int | None]
    assumed: list[str]
    cache: CacheDetails
    marks: MarkDetails
    blocks_bill: BlocksBill
    provider_edits: ProviderEdits
    cleared_note: ClearedNote
    edits: int
    """How many edits the session's record holds once the call is in it."""
    as_it_came: str
    """Why a wrapped client sent its caller's request as it came."""
    plain: PlainRequest


class PlainRequest(TypedDict):
    """The request of a wrapped client as it came: what it would have come to.

    Input tokens are by its provider's count, dollars US dollars (None: no price is known).
    """

    tokens_in: int
    dollars: float | None


@dataclass(frozen=True, slots=True)
class NotChosen:
    """A message that a phase could have chosen and did not, in `not_chosen` of its choice's record.

    `rank` is its place among all candidates, from 1; a call and its results share it (None: it
    scored nothing). `because`: `budget` (no tokens left), `limit` (no messages left), `threshold`
    (it has nothing of the task), `repeat` (a chosen one says the same) or `model` (it was not
    picked by the model that was asked).
    """

    id: str
    score: float
    rank: int | None
    because: Literal["budget", "limit", "threshold", "repeat", "model"]


class BudgetDetails(TypedDict):
    """A request near `max_input_tokens`, or beyond it."""

    limit: int
    tokens: int
    exceeded: bool


class CacheDetails(TypedDict, total=False):
    """The tokens that the cache should have given, and did; what the call was planned as."""

    expected: int
    reported: int
    planned_as: str


class TierDetails(TypedDict):
    """How a tier of the injectors is cached (None: not)."""

    place: Place | None
    kept: str | None


class MarkDetails(TypedDict, total=False):
    """The places of the request's cache marks, and why its head is kept so long."""

    places: Sequence[Place]
    long: Sequence[Place]
    lifetime: Mapping[str, Any]
    tiers: Mapping[str, TierDetails]


class BlockDetails(TypedDict, total=False):
    """A block of an injector: its tokens and cap, what was cut, its row, and its place."""

    injector: str
    version: str
    tier: str
    priority: int
    cap: int
    full_cap: int
    tokens: int
    cut: list[str]
    id: str | None
    message: int | None
    part: int


class OldBlocks(TypedDict):
    """The blocks of earlier calls: how many stand, how many were taken away, and why."""

    blocks: int
    gone: int
    because: str | None


class InjectorDetails(TypedDict):
    """The blocks of a call, and what became of older ones."""

    blocks: list[BlockDetails]
    old: OldBlocks


class ClearedNote(TypedDict):
    """What the last message of a call says of results that the provider had cleared.

    `results` are the ids of their messages, `tokens` those of the note.
    """

    results: list[str]
    tokens: int


class BlocksBill(TypedDict):
    """The input's bill as sent, and with each older block gone."""

    kept: float
    dropped: float


@dataclass(frozen=True, slots=True)
class AnchorDetails:
    """A message that a phase sees whatever it chose; `id` is None where it is one of ours."""

    kind: str
    id: str | None
    reference: str
    tokens: int
    shortened: bool


@dataclass(frozen=True, slots=True)
class ChoiceBudget:
    """The tokens that a phase may choose, and those that anchors and its choice have."""

    max_tokens: int | None
    cap: int | None
    anchors: int
    selected: int


@dataclass(frozen=True, slots=True)
class WindowSavings:
    """What the windows of a session saved and cost over so many calls, in US dollars.

    `needed`: everything could not have been sent.
    """

    calls: int = 0
    saved: float = 0.0
    spent: float = 0.0
    net: float = 0.0
    needed: bool = False


@dataclass(frozen=True, slots=True)
class OutcomeDetails:
    """What the record keeps of an ending; None: it says nothing of that.

    `windows` is of a session, `soundings` of a phase that had some; the others are of a task: the
    key of its output's body, the tokens of that, and the digest of the inputs that it worked on.
    """

    windows: WindowSavings | None = None
    soundings: Mapping[str, Any] | None = None
    key: str | None = None
    tokens: int | None = None
    input: str | None = None
