"""What a session decided: one type for each kind of decision, and for the messages it brought in.

The words that people read stand beside, in the row's `text`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import Field

from windlass.history.base import NodeType, Row
from windlass.history.details import AnchorDetails, BlockDetails, ChoiceBudget, NotChosen
from windlass.history.marks import MessagesKept, ResultReused
from windlass.history.row_details import RowDetails
from windlass.history.step import RecordedStep

Topic: TypeAlias = Literal[
    "cards", "extraction", "input_map", "memory", "output_schema", "outputs", "vectors"
]


class Remark(RowDetails, kinds=get_args(Topic)):
    """A decision that is told in words alone, with what it is about."""

    topic: Annotated[Topic, Field(alias="kind")]

    @property
    def tag(self) -> str:
        """Return the kind in the JSON."""
        return self.topic


# ---- how a run goes on and ends --------------------------------------------------------------


class Resumed(RowDetails, kind="resume"):
    """A session is taken up again, of whose tasks `finished` are not repeated, or a task is."""

    finished: int | None = None


class Forked(RowDetails, kind="fork"):
    """Another session goes on from the call with this number, from 1."""

    session_id: str
    call: int


class SubCascadeRun(RowDetails, kind="sub_cascade"):
    """A sub-cascade ran in a session of its own."""

    session_id: str


class RunLimit(RowDetails, kind="limit"):
    """A limit was reached: the reason, whose limit, what it allows, and what was spent of it."""

    reason: str
    of: str
    budget: float
    spent: float
    next_call: float | None
    reached_in: str | None


class TurnsUsedUp(RowDetails, kind="limit"):
    """A phase took all the turns that it may take."""

    max_turns: int


class Waits(RowDetails, kind="waiting"):
    """A run waits for a person, as these tools of a turn may have run."""

    place: str
    tools: Sequence[str]


class Asks(RowDetails, kind="question"):
    """A run waits for the answer to a question; the fields are those of `AnswerNeeded`."""

    question: str
    tool: str | None
    call: str | None
    options: Sequence[str]
    why: str | None
    context: str = ""


class PersonDecided(RowDetails, kind="decision point"):
    """A person answered what an output asked, and the `action` that follows.

    `answer` is None where nobody answered in time.
    """

    question: str
    answer: str | None
    action: str


class DecisionUnread(RowDetails, kind="decision unread"):
    """An output asks a person for a decision in a block that cannot be read, and why."""

    why: str
    block: str


class LayoutLeftOut(RowDetails, kind="layout"):
    """A call that asks a person says how a page looks; these arguments are left out."""

    tool: str
    arguments: Sequence[str]


class Routed(RowDetails, kind="route"):
    """After a phase `target` comes next, one of its `ways` on; `end` ends the run.

    `by` chose it: the `model`, the `output`, a `person`, a tool's `result` or its `error`, or
    nobody, as it is the `only` or the `first` way.
    """

    target: str
    by: str
    ways: Sequence[str]


class ToolCalled(RowDetails, kind="tool phase"):
    """A phase runs its tool, with these arguments as JSON text."""

    step: RecordedStep
    tool: str
    arguments: str


class VisitBegun(RowDetails, kind="visit"):
    """A phase runs again: for which time, and the last turn of the times before."""

    visit: int
    after_turn: int


class VisitsUsedUp(RowDetails, kind="visits"):
    """A phase has run as often as it may, and was to run again: the run ends."""

    max_visits: int


class ReplyUnfinished(RowDetails, kind="unfinished"):
    """A reply does not end its phase in order."""

    reason: str


class Breaker(RowDetails, kind="breaker"):
    """Windows are off, as they `lost` so many US dollars in the last `sessions`.

    They are made again after `back_after` sessions.
    """

    lost: float
    sessions: int
    back_after: int


class SwitchedOff(RowDetails, kind="switched_off"):
    """Something is not done, because the `setting` says so, which stands in `origin`."""

    setting: str
    origin: str


class ErrorDetails(RowDetails, nodes={NodeType.ERROR}):
    """A failure: the name of the error's class, and what it says."""

    error: str
    text: str


# ---- calls, windows, caches ------------------------------------------------------------------


class Continuation(
    RowDetails, kind="continuation", nodes={NodeType.DECISION, NodeType.CONTEXT_INJECTION}
):
    """A reply that was cut is asked to go on; also of the message that asks."""

    turn: int | None = None


class Replanned(RowDetails, kind="replan"):
    """A request that a provider `refused` as too long is sent again shorter.

    Tokens and messages by the engine's count; `counted` and `limit` are the provider's numbers
    (None: it named none), `room` what the request could have.
    """

    turn: int
    tokens_before: int
    tokens_after: int
    messages_left_out: int
    refused: str
    counted: int | None
    limit: int | None
    room: int


class ThinkingLeftOut(RowDetails, kind="thinking"):
    """Signed thinking is left out: of these messages, or of all where a provider `refused` it."""

    turn: int
    messages: Sequence[str] = ()
    tokens: int = 0
    refused: str | None = None


class Summary(RowDetails, kind="summary"):
    """A model was asked for a text that a window wants, by its key (None: it gave no answer)."""

    key: str
    answer: str | None = None


class CacheTrust(RowDetails, kind="cache"):
    """A call shows that the cache does not do what was assumed, or does again."""

    turn: int
    planned_as: str


class ToolChoiceInWords(RowDetails, kind="tool_choice"):
    """A model takes no such `tool_choice`: it is asked for in words."""

    tool_choice: str


class ToolsChosen(RowDetails, kind="manifest"):
    """A model was asked which tools a phase needs."""

    chosen: Sequence[str]
    asked: Sequence[str]
    answer: str


class PlanKept(RowDetails, kind="plan"):
    """The plan of the tools `plan` and `todo`, as it is after a turn."""

    turn: int
    plan: Mapping[str, Any]


# ---- what is brought in ----------------------------------------------------------------------


class FromSource(RowDetails, nodes={NodeType.CONTEXT_INJECTION}):
    """A message that a phase brought in from what came before.

    `source` is a phase, `input` or the session, `what` the part of it, and `place` where the
    cascade asks for it. `of` is the id of the message of another session that it repeats.
    """

    source: str
    what: str
    of: str | None = None
    place: str | None = None
    as_role: str | None = None


class SourceSkipped(RowDetails, kind="source skipped"):
    """What the cascade asks for in `place` is not brought in."""

    place: str


class TaskSection(RowDetails, nodes={NodeType.CONTEXT_INJECTION}):
    """A section of a task's context, and where it came from."""

    injector: str
    section: str
    sources: Sequence[str]


_UNLESS_NONE: Final = Field(exclude_if=lambda value: value is None)


class InjectedBlock(
    RowDetails,
    kind="injector",
    nodes={NodeType.DECISION, NodeType.CONTEXT_INJECTION},
    flat={"block": BlockDetails},
    sparse=False,
):
    """A block of an injector: the message of it, or, where nothing fitted, a decision of a turn."""

    block: BlockDetails
    turn: Annotated[int | None, _UNLESS_NONE] = None

    def as_json(self) -> dict[str, Any]:
        """Return the details as a row keeps them: without the id, which is the row's own."""
        data = super().as_json()
        del data["id"]
        return data


class InjectorWarning(RowDetails, kind="injector"):
    """Something that injectors warn of: values by `names`, or text that was `found` `at` a place.

    `at` counts characters of the prompt from 0.
    """

    names: Sequence[str] = ()
    at: int | None = None
    found: str = ""


class UserContextMade(RowDetails, kind="user_context", nodes={NodeType.CONTEXT_INJECTION}):
    """The message of the user's context, made of the blocks with these ids."""

    blocks: Sequence[str]


class UserContextChanged(RowDetails, kind="user_context"):
    """The user's context has changed: told in so many tokens.

    `rewrite` is what writing it anew would have cost, in fresh tokens' worth.
    """

    turn: int
    tokens: int
    rewrite: int
    changes: str


class PictureDescribed(RowDetails, kind="described"):
    """A model described a picture, by its reference."""

    reference: str


class SystemPrompt(RowDetails, nodes={NodeType.SYSTEM}):
    """A system prompt; `new_prefix`: it is the phase's own, so a cache begins anew with it."""

    new_prefix: bool


# ---- soundings -------------------------------------------------------------------------------


class Reworded(RowDetails, kind="rewording"):
    """A model was asked to write the instructions of a sounding anew by an `order`.

    `answer` are the new ones. `failed`: they stay as the cascade words them.
    """

    order: str
    answer: str = ""
    failed: bool = False


class SoundingEnded(RowDetails, kind="sounding"):
    """How a sounding ended; `round` 0 is that of the phase itself, the others are refinements.

    `session_id` is its session where it is one of a whole cascade.
    """

    round: int
    index: int
    model: str | None = None
    session_id: str | None = None


class SoundingsDecided(RowDetails, kind="soundings"):
    """Which sounding is taken (None: they are `joined`), of `factor` and `refinements` more.

    `failed` are those that gave no answer.
    """

    winner: int | None = None
    joined: Sequence[int] | None = None
    factor: int | None = None
    refinements: int | None = None
    failed: Sequence[int] | None = None

    @property
    def summary(self) -> Mapping[str, Any]:
        """Return the same for the outcome of the phase."""
        return {key: value for key, value in self.as_json().items() if key != "kind"}


class Evaluation(RowDetails, kind="evaluation"):
    """A step of the decision which sounding is taken.

    A validator finds a `sounding` valid or not; a function or a person has `picked` one; one is the
    `fallback`, as nobody picked; of some a model has `kept` these for a person; or a model was
    `asked`, and this is its `answer`. It was shown the soundings in this `order`, which was drawn
    by `seed`, or `joins` so many of them.
    """

    sounding: int | None = None
    valid: bool | None = None
    fallback: int | None = None
    picked: int | None = None
    asked: Sequence[str] | None = None
    answer: str | None = None
    seed: str | None = None
    order: Sequence[int] | None = None
    joins: int | None = None
    kept: Sequence[int] | None = None


class ValidatorAsked(RowDetails, kind="validator"):
    """A validator that takes a model judged an output (`valid` None: it gave no verdict).

    A model was `asked` and this is its `answer`, or that of a cascade (`asked` None).
    """

    validator: str
    valid: bool | None = None
    asked: Sequence[str] | None = None
    answer: str | None = None


class SoundingsWrite(RowDetails, kind="soundings write"):
    """Every sounding may write with these tools."""

    tools: Sequence[str]


# ---- tasks -----------------------------------------------------------------------------------


class FreshContext(RowDetails, kind="fresh_context"):
    """A look for fresh context found so many matches, and not all of them were taken."""

    matches: int


class ReducedInGroups(RowDetails, kind="tree"):
    """Results exceed the window, which has `room` tokens for them: they are reduced in groups.

    `level` counts the levels of groups from 0.
    """

    level: int
    groups: int
    room: int


class TaskNotes(RowDetails, kind="notes"):
    """A helper model was asked for notes on the task with this path (None: it gave no answer)."""

    step: str
    answer: str | None = None


# ---- what calls and phases see of what was said ------------------------------------------------


class WindowSelection(RowDetails, nodes={NodeType.CONTEXT_SELECTION}, sparse=False):
    """What a call saw of the session, and by which rules.

    Sizes count messages. `because` counts the messages that were shortened or left out, by the
    name of the edit. `config` are the options of the policy, `policy_hash` what they are known by.
    """

    strategy: str
    turn: int
    full_history_size: int
    context_size: int
    tokens_saved: int
    masked_count: int
    because: Mapping[str, int]
    anchor_hashes: Sequence[str]
    selected_hashes: Sequence[str]
    policy: str
    policy_hash: str
    config: Mapping[str, Any]
    semantic_actor: str = "auto_context"
    selection_type: Literal["intra_phase"] = "intra_phase"


@dataclass(frozen=True, slots=True)
class ChoiceWay:
    """How a phase came to what it sees.

    `strategy` is the one it came by, `strategy_asked` the one that was asked for, `note` why that
    is another. `kept` says why it sees all that was said (empty: it sees its choice), `warning`
    that its anchors took too much.
    """

    strategy: str
    strategy_asked: str = ""
    note: str = ""
    kept: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceSizes:
    """How much there was to choose from, and what is shown: messages, and tokens as named."""

    full_history_size: int = 0
    context_size: int = 0
    masked_count: int = 0
    tokens_saved: int = 0
    candidates: int = 0
    candidate_tokens: int = 0
    budget: ChoiceBudget | None = None


@dataclass(frozen=True, slots=True)
class ChosenMessages:
    """The messages that a phase sees in any case, those it chose, and those it did not."""

    anchor_hashes: Sequence[str] = ()
    anchors: Sequence[AnchorDetails] = ()
    selected_hashes: Sequence[str] = ()
    selected: Sequence[Mapping[str, Any]] = ()
    left_out: Any = ()
    not_chosen: Sequence[NotChosen] = ()


class PhaseChoice(
    RowDetails,
    nodes={NodeType.CONTEXT_SELECTION},
    flat={"way": ChoiceWay, "sizes": ChoiceSizes, "messages": ChosenMessages},
    sparse=False,
):
    """What a phase chose of what was said before.

    `asked` and `answer` are those of the model that was asked (None: none was), `reasoning` what it
    said of its choice, `refused` what it named beside the menu.
    """

    way: ChoiceWay
    sizes: ChoiceSizes = ChoiceSizes()
    messages: ChosenMessages = ChosenMessages()
    reasoning: Any = None
    refused: Sequence[str] = ()
    worth: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outline: AnchorDetails | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    semantic_actor: str = "auto_context"
    selection_type: Literal["inter_phase"] = "inter_phase"
    asked: Annotated[str | None, _UNLESS_NONE] = None
    answer: Annotated[str | None, _UNLESS_NONE] = None


# ---- what rows say in words, and what they choose --------------------------------------------


def text_of(row: Row) -> str:
    """Return what a row says in words, besides its message; empty where it says nothing."""
    return row.text


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
        MessagesKept,
        Resumed,
        ResultReused,
        ThinkingLeftOut,
        Reworded,
        LayoutLeftOut,
    )
)
"""The kinds of decisions that tell why a window is as it is."""
