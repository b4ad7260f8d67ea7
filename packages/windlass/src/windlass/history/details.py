"""What the record keeps as JSON of calls, of how they chose, and of endings: its shapes.

The engine writes them, reports read them. A record of an older version, and a call without a
cache, injectors or a policy, has less: what it says nothing of is None, and has no key in the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import Field, GetPydanticSchema, TypeAdapter
from pydantic_core import core_schema

from windlass.caching.breakpoints import Place
from windlass.caching.meter import PrefixDetails
from windlass.caching.pauses import Lifetime
from windlass.wire.editing import ProviderEdits

_Value = TypeVar("_Value")

_ADAPTERS: Final = dict[Any, TypeAdapter[Any]]()


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes values of a type; made when the first of them comes."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


AsItCame: TypeAlias = Annotated[
    ProviderEdits, GetPydanticSchema(lambda *_: core_schema.any_schema())
]
"""What a provider said, in its own objects."""

Optional: TypeAlias = Annotated[_Value | None, Field(exclude_if=lambda value: value is None)]
"""What a record may say nothing of: then its key is left out of the JSON."""


@dataclass(frozen=True, slots=True)
class CallDetails:
    """The details of one call. Tokens by the engine's count, bills in fresh tokens' worth.

    `edits` is how many edits the session's record holds once the call is in it; `as_it_came` why a
    wrapped client sent its caller's request as it came.
    """

    tool_choice: Optional[str] = None
    prefix: Optional[PrefixDetails] = None
    position: Optional[PositionDetails] = None
    budget: Optional[BudgetDetails] = None
    planner: Optional[PlannerDetails] = None
    cleared_note: Optional[ClearedNote] = None
    injectors: Optional[InjectorDetails] = None
    replanned: Optional[RefusedTokens] = None
    assumed: Optional[tuple[str, ...]] = None
    cache: Optional[CacheDetails] = None
    provider_edits: Optional[AsItCame] = None
    marks: Optional[MarkDetails] = None
    blocks_bill: Optional[BlocksBill] = None
    edits: Optional[int] = None
    as_it_came: Optional[str] = None
    plain: Optional[PlainRequest] = None

    def as_json(self) -> dict[str, Any]:
        """Return the details as a store keeps them."""
        data: dict[str, Any] = adapter_of(CallDetails).dump_python(self, warnings=False)
        return data


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """The request of a wrapped client as it came: what it would have come to.

    Input tokens are by its provider's count, dollars US dollars (None: no price is known).
    """

    tokens_in: int = 0
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class PlaceCost:
    """A request with injected sources at one place: its tokens, and those that a cache may hold.

    `dollars` is its input's cost in US dollars if it does (None: the model has no price).
    """

    tokens: int = 0
    shared_tokens: int = 0
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class PositionDetails:
    """The place where injected sources stand, and what both places cost."""

    chosen: str
    start: PlaceCost
    end: PlaceCost


@dataclass(frozen=True, slots=True)
class RefusedTokens:
    """The tokens of a request that its provider refused as too long.

    Those that it counted and would have taken (None: it did not say), and the room that the call
    was planned for instead, by the engine's count.
    """

    counted: int | None = None
    limit: int | None = None
    room: int = 0


@dataclass(frozen=True, slots=True)
class PostponedEdit:
    """An edit that waits; its fields are those of `Wait` of the planner."""

    position: int
    because: str
    calls: int | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class PlannerDetails:
    """What the planner decided of edits that are not free; `message_id` is where they begin.

    The other fields are those of the planner's `Decision`; a verdict may be another version's.
    """

    verdict: str = ""
    position: int = 0
    stay: int = 0
    put: int = 0
    removed: int = 0
    calls: float = 0.0
    read: float = 0.0
    write: float = 0.0
    gain: float = 0.0
    waiting: int = 0
    waits: tuple[PostponedEdit, ...] = ()
    blocks: int = 0
    message_id: str | None = None


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


@dataclass(frozen=True, slots=True)
class BudgetDetails:
    """A request near `max_input_tokens`, or beyond it."""

    limit: int = 0
    tokens: int = 0
    exceeded: bool = False


@dataclass(frozen=True, slots=True)
class CacheDetails:
    """The tokens that the cache should have given, and did; what the call was planned as."""

    expected: int = 0
    reported: int = 0
    planned_as: Optional[str] = None


@dataclass(frozen=True, slots=True)
class TierDetails:
    """How a tier of the injectors is cached (None: not)."""

    place: Place | None = None
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class MarkDetails:
    """The places of the request's cache marks, and why its head is kept so long."""

    places: tuple[Place, ...] = ()
    long: tuple[Place, ...] = ()
    lifetime: Lifetime = field(default_factory=Lifetime)
    tiers: Optional[Mapping[str, TierDetails]] = None


@dataclass(frozen=True, slots=True)
class BlockDetails:
    """A block of an injector: its tokens and cap, what was cut, its row, and its place."""

    injector: str
    version: str = ""
    tier: str = ""
    priority: int = 0
    cap: int = 0
    full_cap: int = 0
    tokens: int = 0
    cut: tuple[str, ...] = ()
    id: str | None = None
    message: Optional[int] = None
    part: Optional[int] = None


@dataclass(frozen=True, slots=True)
class OldBlocks:
    """The blocks of earlier calls: how many stand, how many were taken away, and why."""

    blocks: int = 0
    gone: int = 0
    because: str | None = None


@dataclass(frozen=True, slots=True)
class InjectorDetails:
    """The blocks of a call, and what became of older ones."""

    blocks: tuple[BlockDetails, ...] = ()
    old: OldBlocks = OldBlocks()


@dataclass(frozen=True, slots=True)
class ClearedNote:
    """What the last message of a call says of results that the provider had cleared.

    `results` are the ids of their messages, `tokens` those of the note.
    """

    results: tuple[str, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class BlocksBill:
    """The input's bill as sent, and with each older block gone."""

    kept: float = 0.0
    dropped: float = 0.0


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
