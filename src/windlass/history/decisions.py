"""What a session decided: one type for each kind of decision, and for the messages it brought in.

The words that people read stand beside, in the row's `text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from windlass.history.base import NodeType, Row, StoredRow
from windlass.history.details import BlockDetails, PhaseChoice, WindowSelection
from windlass.history.row_details import RowDetails

Topic: TypeAlias = Literal["cards", "extraction", "input_map", "memory", "output_schema", "vectors"]


@dataclass(frozen=True, slots=True)
class Remark(RowDetails):
    """A decision that is told in words alone, with what it is about."""

    topic: Topic

    def as_json(self) -> dict[str, Any]:
        """The topic is the kind of the row."""
        return {"kind": self.topic}


# ---- how a run goes on and ends --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resumed(RowDetails):
    """A session is taken up again, of whose tasks `finished` are not repeated, or a task is."""

    kind = "resume"
    finished: int | None = None


@dataclass(frozen=True, slots=True)
class Forked(RowDetails):
    """Another session goes on from the call with this number, from 1."""

    kind = "fork"
    session_id: str
    call: int


@dataclass(frozen=True, slots=True)
class SubCascadeRun(RowDetails):
    """A sub-cascade ran in a session of its own."""

    kind = "sub_cascade"
    session_id: str


@dataclass(frozen=True, slots=True)
class RunLimit(RowDetails):
    """A limit was reached: the reason, whose limit, what it allows, and what was spent of it."""

    kind = "limit"
    reason: str
    of: str
    budget: float
    spent: float
    next_call: float | None
    reached_in: str | None


@dataclass(frozen=True, slots=True)
class TurnsUsedUp(RowDetails):
    """A phase took all the turns that it may take."""

    kind = "limit"
    max_turns: int


@dataclass(frozen=True, slots=True)
class Waits(RowDetails):
    """A run waits for a person, as these tools of a turn may have run."""

    kind = "waiting"
    place: str
    tools: Sequence[str]


@dataclass(frozen=True, slots=True)
class Asks(RowDetails):
    """A run waits for the answer to a question; the fields are those of `AnswerNeeded`."""

    kind = "question"
    question: str
    tool: str | None
    call: str | None
    options: Sequence[str]
    why: str | None


@dataclass(frozen=True, slots=True)
class Routed(RowDetails):
    """After a phase `target` comes next, which is one of `ways`, or the run ends; `by` chose it.

    That is `model`, `output` or `default`: the first, as nothing was chosen.
    """

    kind = "route"
    target: str
    by: str
    ways: Sequence[str]


@dataclass(frozen=True, slots=True)
class VisitBegun(RowDetails):
    """A phase runs again: for which time, and the last turn of the times before."""

    kind = "visit"
    visit: int
    after_turn: int


@dataclass(frozen=True, slots=True)
class VisitsUsedUp(RowDetails):
    """A phase has run as often as it may, and was to run again: the run ends."""

    kind = "visits"
    max_visits: int


@dataclass(frozen=True, slots=True)
class ReplyUnfinished(RowDetails):
    """A reply does not end its phase in order."""

    kind = "unfinished"
    reason: str


@dataclass(frozen=True, slots=True)
class Breaker(RowDetails):
    """Windows are off, as they `lost` so many US dollars in the last `sessions`.

    They are made again after `back_after` sessions.
    """

    kind = "breaker"
    lost: float
    sessions: int
    back_after: int


@dataclass(frozen=True, slots=True)
class SwitchedOff(RowDetails):
    """Something is not done, because the `setting` says so, which stands in `origin`."""

    kind = "switched_off"
    setting: str
    origin: str


@dataclass(frozen=True, slots=True)
class ErrorDetails(RowDetails):
    """A failure: the name of the error's class, and what it says."""

    nodes = frozenset({NodeType.ERROR})
    error: str
    text: str


# ---- calls, windows, caches ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Continuation(RowDetails):
    """A reply that was cut is asked to go on; also of the message that asks."""

    nodes = frozenset({NodeType.DECISION, NodeType.CONTEXT_INJECTION})
    kind = "continuation"
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Replanned(RowDetails):
    """A request that a provider `refused` as too long is sent again shorter.

    Tokens and messages by the engine's count; `counted` and `limit` are the provider's numbers
    (None: it named none), `room` what the request could have.
    """

    kind = "replan"
    turn: int
    tokens_before: int
    tokens_after: int
    messages_left_out: int
    refused: str
    counted: int | None
    limit: int | None
    room: int


@dataclass(frozen=True, slots=True)
class ThinkingLeftOut(RowDetails):
    """Signed thinking is left out: of these messages, or of all where a provider `refused` it."""

    kind = "thinking"
    turn: int
    messages: Sequence[str] = ()
    tokens: int = 0
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Summary(RowDetails):
    """A model was asked for a text that a window wants, by its key (None: it gave no answer)."""

    kind = "summary"
    key: str
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class CacheTrust(RowDetails):
    """A call shows that the cache does not do what was assumed, or does again."""

    kind = "cache"
    turn: int
    planned_as: str


@dataclass(frozen=True, slots=True)
class ToolChoiceInWords(RowDetails):
    """A model takes no such `tool_choice`: it is asked for in words."""

    kind = "tool_choice"
    tool_choice: str


@dataclass(frozen=True, slots=True)
class ToolsChosen(RowDetails):
    """A model was asked which tools a phase needs."""

    kind = "manifest"
    chosen: Sequence[str]
    asked: Sequence[str]
    answer: str


@dataclass(frozen=True, slots=True)
class PlanKept(RowDetails):
    """The plan of the tools `plan` and `todo`, as it is after a turn."""

    kind = "plan"
    turn: int
    plan: Mapping[str, Any]


# ---- what is brought in ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FromSource(RowDetails):
    """A message that a phase brought in from what came before.

    `source` is a phase, `input` or the session, `what` the part of it, and `place` where the
    cascade asks for it. `of` is the id of the message of another session that it repeats.
    """

    nodes = frozenset({NodeType.CONTEXT_INJECTION})
    source: str
    what: str
    of: str | None = None
    place: str | None = None
    as_role: str | None = None


@dataclass(frozen=True, slots=True)
class SourceSkipped(RowDetails):
    """What the cascade asks for in `place` is not brought in."""

    kind = "source skipped"
    place: str


@dataclass(frozen=True, slots=True)
class TaskSection(RowDetails):
    """A section of a task's context, and where it came from."""

    nodes = frozenset({NodeType.CONTEXT_INJECTION})
    injector: str
    section: str
    sources: Sequence[str]


@dataclass(frozen=True, slots=True)
class Expanded(RowDetails):
    """A message that a window brought back whole, unasked, and why."""

    nodes = frozenset({NodeType.CONTEXT_INJECTION})
    kind = "expand"
    reason: str


@dataclass(frozen=True, slots=True)
class InjectedBlock(RowDetails):
    """A block of an injector: the message of it, or, where nothing fitted, a decision of a turn."""

    kind = "injector"
    block: BlockDetails
    turn: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The details of the block stand beside the others."""
        turn = {} if self.turn is None else {"turn": self.turn}
        return {"kind": self.kind, **turn, **self.block}


@dataclass(frozen=True, slots=True)
class InjectorWarning(RowDetails):
    """Something that injectors warn of: values by `names`, or text that was `found` `at` a place.

    `at` counts characters of the prompt from 0.
    """

    kind = "injector"
    names: Sequence[str] = ()
    at: int | None = None
    found: str = ""


@dataclass(frozen=True, slots=True)
class UserContextMade(RowDetails):
    """The message of the user's context, made of the blocks with these ids."""

    nodes = frozenset({NodeType.CONTEXT_INJECTION})
    kind = "user_context"
    blocks: Sequence[str]


@dataclass(frozen=True, slots=True)
class UserContextChanged(RowDetails):
    """The user's context has changed: told in so many tokens.

    `rewrite` is what writing it anew would have cost, in fresh tokens' worth.
    """

    kind = "user_context"
    turn: int
    tokens: int
    rewrite: int
    changes: str


@dataclass(frozen=True, slots=True)
class PictureDescribed(RowDetails):
    """A model described a picture, by its reference."""

    kind = "described"
    reference: str


@dataclass(frozen=True, slots=True)
class SystemPrompt(RowDetails):
    """A system prompt; `new_prefix`: it is the phase's own, so a cache begins anew with it."""

    nodes = frozenset({NodeType.SYSTEM})
    new_prefix: bool


# ---- soundings -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SoundingEnded(RowDetails):
    """How a sounding ended; `round` 0 is that of the phase itself, the others are refinements.

    `session_id` is its session where it is one of a whole cascade.
    """

    kind = "sounding"
    round: int
    index: int
    model: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class SoundingsDecided(RowDetails):
    """Which sounding is taken (None: they are `joined`), of `factor` and `refinements` more.

    `failed` are those that gave no answer.
    """

    kind = "soundings"
    winner: int | None = None
    joined: Sequence[int] | None = None
    factor: int | None = None
    refinements: int | None = None
    failed: Sequence[int] | None = None

    @property
    def summary(self) -> Mapping[str, Any]:
        """The same for the outcome of the phase."""
        return {key: value for key, value in self.as_json().items() if key != "kind"}


@dataclass(frozen=True, slots=True)
class Evaluation(RowDetails):
    """A step of the decision which sounding is taken.

    A validator finds a `sounding` valid or not; a function has `picked` one; the first that stands
    is the `fallback`; or a model was `asked`, and this is its `answer`. It was shown the soundings
    in this `order`, which was drawn by `seed`, or `joins` so many of them.
    """

    kind = "evaluation"
    sounding: int | None = None
    valid: bool | None = None
    fallback: int | None = None
    picked: int | None = None
    asked: Sequence[str] | None = None
    answer: str | None = None
    seed: str | None = None
    order: Sequence[int] | None = None
    joins: int | None = None


@dataclass(frozen=True, slots=True)
class SoundingsWrite(RowDetails):
    """Every sounding may write with these tools."""

    kind = "soundings write"
    tools: Sequence[str]


def standing(rows: Iterable[StoredRow], own: tuple[str, int] | None = None) -> Iterator[StoredRow]:
    """The rows that count for what comes later: those of soundings only where they won.

    `own` is the phase and the index of a sounding that still runs, whose rows count for itself.
    Rows are those of a session, or of a phase, in order.
    """
    listed: list[tuple[StoredRow, int]] = []
    visits = Counter[str]()
    for stored in rows:
        phase = stored.row.phase or ""
        visits[phase] += VisitBegun.read(stored.row) is not None
        listed.append((stored, visits[phase]))
    taken: set[tuple[str, int, int | None]] = set()
    if own is not None:
        taken.add((own[0], visits[own[0]], own[1]))
    for stored, visit in listed:
        if (decided := SoundingsDecided.read(stored.row)) is not None:
            taken.add((stored.row.phase or "", visit, decided.winner))
    for stored, visit in listed:
        index = stored.row.sounding_index
        if index is None or (stored.row.phase or "", visit, index) in taken:
            yield stored


# ---- tasks -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FreshContext(RowDetails):
    """A look for fresh context found so many matches, and not all of them were taken."""

    kind = "fresh_context"
    matches: int


@dataclass(frozen=True, slots=True)
class ReducedInGroups(RowDetails):
    """Results exceed the window, which has `room` tokens for them: they are reduced in groups.

    `level` counts the levels of groups from 0.
    """

    kind = "tree"
    level: int
    groups: int
    room: int


@dataclass(frozen=True, slots=True)
class TaskNotes(RowDetails):
    """A helper model was asked for notes on the task with this path (None: it gave no answer)."""

    kind = "notes"
    step: str
    answer: str | None = None


# ---- marks, cards, memory --------------------------------------------------------------------

By: TypeAlias = Literal["tool", "pattern", "phase", "user"]
"""Who marked a message: the model by the tool, a phase's pattern or its name for it, a person."""


@dataclass(frozen=True, slots=True)
class CalloutMark(RowDetails):
    """A message was marked as important: its id, the name it goes by, and who marked it.

    `kept` says whether it is shown whole from then on, `pattern` what found it.
    """

    kind = "callout"
    message_id: str
    name: str
    by: By
    kept: bool | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class PinMark(RowDetails):
    """A message is an anchor by a user's word, or is none any more."""

    kind = "pin"
    message_id: str
    pinned: bool
    by: By


@dataclass(frozen=True, slots=True)
class CardsLack(RowDetails):
    """The cards of these messages lack a summary or a vector, which a model did not give."""

    kind = "cards_failed"
    lacks: Literal["summary", "vector"]
    failed: Sequence[str]
    model: str
    error: str


@dataclass(frozen=True, slots=True)
class Remembered(RowDetails):
    """A text was put into a memory bank under a key, until a time in seconds since 1970."""

    nodes = frozenset({NodeType.USER})
    always = frozenset({"expires", "by"})
    kind = "memory"
    key: str
    expires: float | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class MessagesKept(RowDetails):
    """So many messages of a phase that ended were put into a bank that keeps them all."""

    kind = "memory kept"
    bank: str
    messages: int


@dataclass(frozen=True, slots=True)
class Forgotten(RowDetails):
    """What stood under a key of a memory bank was taken back."""

    kind = "memory forgotten"
    key: str
    by: str


# ---- what rows say in words, and what they choose --------------------------------------------


def text_of(row: Row) -> str:
    """What a row says in words, besides its message; empty where it says nothing."""
    return str(row.metadata.get("text", ""))


def window_selection(row: Row) -> WindowSelection | None:
    """What a call saw of the session, and by which rules; None: it is another kind of row."""
    return cast("WindowSelection | None", _selection(row, "intra_phase"))


def phase_choice(row: Row) -> PhaseChoice | None:
    """What a phase chose of what was said before; None: it is another kind of row."""
    return cast("PhaseChoice | None", _selection(row, "inter_phase"))


def _selection(row: Row, kind: str) -> Mapping[str, Any] | None:
    is_one = row.node_type == NodeType.CONTEXT_SELECTION
    return row.metadata if is_one and row.metadata.get("selection_type") == kind else None


TELL_OF_WINDOWS: Final = frozenset(
    each.kind
    for each in (
        Breaker,
        SwitchedOff,
        Replanned,
        Summary,
        Continuation,
        CacheTrust,
        InjectedBlock,
        UserContextChanged,
        FreshContext,
        ReducedInGroups,
        Resumed,
        ThinkingLeftOut,
    )
)
"""The kinds of decisions that tell why a window is as it is."""
