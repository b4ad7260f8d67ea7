"""What rows say besides their columns: a tagged union of small values, a type for each kind.

A row keeps it as JSON, which pydantic writes and reads (`packing.py`). The tag is the type of the
row together with the `kind` in the JSON. What a row of an earlier version lacks has its default
here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, astuple, dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self, dataclass_transform

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from windlass.history.base import Details, NodeType, Row, StoredRow
from windlass.history.details import AsItCame, adapter_of
from windlass.history.step import RecordedStep, Step
from windlass.wire.base import Finish, Usage
from windlass.wire.editing import ProviderEdits


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class RowDetails:
    """The details of a row of one kind: a class made of this one is a frozen dataclass.

    A field with a default is left out of the JSON where it has that value, unless it is one of
    `always`: then only rows of earlier versions lack it.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    kind: ClassVar[str] = ""
    """What tells them apart from others in rows of these types."""
    kinds: ClassVar[Collection[str]] = ()
    """The kinds that it may be of: its own, or several, which a field tells."""
    nodes: ClassVar[Collection[NodeType]] = frozenset({NodeType.DECISION})
    """The types of rows that have them."""
    always: ClassVar[Collection[str]] = frozenset()
    """The fields that are written whatever they are."""
    sparse: ClassVar[bool] = True
    """Whether any are left out."""
    flat: ClassVar[Mapping[str, type[Any]]] = {}
    """The fields whose value is a dataclass, by its type, that have no key in the JSON: their own
    fields stand there beside the others."""

    def __init_subclass__(
        cls,
        kind: str = "",
        nodes: Collection[NodeType] = (),
        always: Collection[str] = (),
        kinds: Collection[str] = (),
        *,
        sparse: bool = True,
        flat: Mapping[str, type[Any]] = MappingProxyType({}),
    ) -> None:
        """Make a class of details; what is not given is as in the class that it is made of."""
        cls.kind, cls.nodes, cls.always = kind or cls.kind, nodes or cls.nodes, always or cls.always
        cls.kinds, cls.sparse, cls.flat = kinds or (cls.kind,), sparse, flat
        dataclass(frozen=True)(cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic put what stands in the JSON for a flat field into a value of its own."""
        schema = handler(source)
        if not cls.flat:
            return schema
        return core_schema.no_info_before_validator_function(cls._with_parts, schema)

    @classmethod
    def _with_parts(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        names = {name: {each.name for each in fields(kind)} for name, kind in cls.flat.items()}
        parts = {
            name: {key: data[key] for key in keys & data.keys()} for name, keys in names.items()
        }
        return {**data, **parts}

    @classmethod
    def read(cls, row: Row) -> Self | None:
        """Return the details of a row; None: it is a row of another kind."""
        found = details_of(row)
        return found if isinstance(found, cls) and type(found) is cls else None

    @property
    def tag(self) -> str:
        """Return the kind in the JSON."""
        return self.kind

    def as_json(self) -> dict[str, Any]:
        """Return the details as a row keeps them."""
        data = {"kind": self.kind} if self.kind else {}
        told = adapter_of(type(self)).dump_python(
            self, by_alias=True, exclude_defaults=self.sparse, warnings=False
        )
        for key, value in told.items():
            data |= value if key in self.flat else {key: value}
        return data | {name: getattr(self, name) for name in self._always() if name not in data}

    def _always(self) -> Collection[str]:
        return self.always


def json_of(row: Row) -> dict[str, Any]:
    """Return what the store keeps of a row's words and details."""
    if row.stored_json:
        stored: dict[str, Any] = json.loads(row.stored_json)
        return stored
    words = {"text": row.text} if row.text else {}
    return words if row.details is None else words | row.details.as_json()


def details_of(row: Row) -> Details | None:
    """Return what a row says; None: nothing.

    A reply or a result that says nothing is a usual one.
    """
    return _USUAL.get(row.node_type) if row.details is None else row.details


def kind_of(row: Row) -> str | None:
    """Return the kind of a decision (None: the row is no decision)."""
    is_known = row.details is not None and row.node_type == NodeType.DECISION
    return row.details.tag if is_known and row.details is not None else None


def turn_of(row: Row) -> Step:
    """Return the turn that a row belongs to."""
    return Step(row.phase or "", row.sounding_index, row.attempt or 1, row.turn or 0)


# ---- calls of models -------------------------------------------------------------------------


class CallSent(RowDetails, kind="sent"):
    """A call of a model is sent; `request` is the digest of what is asked."""

    step: RecordedStep
    request: str
    model: str


def usage_counts(usage: Usage) -> Sequence[int]:
    """Return the numbers of a usage in their order, without its tier, which says what they cost."""
    return astuple(usage)[:-1]


def usage_of(counts: Sequence[int]) -> Usage:
    """Return the usage with these numbers, of which those at the end may be missing."""
    tokens_in, tokens_out, cached, written, long, searches = (*counts, *(0,) * _COUNTS)[:_COUNTS]
    return Usage(tokens_in, tokens_out, cached, written, long, searches)


_COUNTS: Final = 6
"""The numbers of a `Usage`."""


@dataclass(frozen=True, slots=True)
class ReplyOnly:
    """A reply that has no row of its own; `usage` are the counts of `Usage` in their order."""

    text: str
    usage: Sequence[int]
    finish: Finish
    model: str


class CallAnswered(RowDetails, kind="answered"):
    """A call was answered, and the reply has no row of its own."""

    step: RecordedStep
    reply: ReplyOnly


class CallFailed(RowDetails, kind="failed"):
    """A call was refused or broken off: the name of the error's class, and what is told of it.

    Where a provider refused it as too long, `counted` and `limit` are the tokens that it counted
    and would have taken (None: it did not say).
    """

    text: str
    error: str
    step: RecordedStep
    counted: int | None = None
    limit: int | None = None

    @property
    def message(self) -> str:
        """Return what the error said."""
        return self.text.removeprefix(f"{self.step}: ")


@dataclass(frozen=True, slots=True)
class Inherited:
    """The session that paid for a reply, and the counts of its `Usage` in their order."""

    session: str
    usage: Sequence[int]


class ReplyDetails(
    RowDetails,
    nodes={NodeType.AGENT, NodeType.FOLLOW_UP},
    always=("finish", "step", "tokens_written", "tokens_written_long", "tries", "waited_s"),
):
    """A reply of a model that is said in the session.

    `step` is the call that it answers (None: it answers none, or an earlier version wrote it).
    Tokens written to a cache, searches and tier are those of `Usage`. The request was sent `tries`
    times, with `waited_s` seconds between. `inherited`: another session paid for it. `continues` is
    the id of the cut reply whose text it begins with; `rest` is its own text then.
    A recording of another program has less: no `finish` (None), and where it did not say how many
    tokens there were, `tokens_out_estimated`; `answer` is the id by which its provider knows it.
    """

    finish: Finish | None = None
    step: RecordedStep | None = None
    tokens_written: int = 0
    tokens_written_long: int = 0
    tries: int = 1
    waited_s: float = 0.0
    provider_edits: AsItCame = field(default_factory=ProviderEdits)
    inherited: Inherited | None = None
    continues: str | None = None
    rest: str | None = None
    tokens_out_estimated: bool = False
    searches: int = 0
    tier: str = ""
    answer: str = ""

    def _always(self) -> Collection[str]:
        return () if self.finish is None else self.always


# ---- tools, people, validators ---------------------------------------------------------------


class ToolsStarted(RowDetails, kind="started"):
    """Tools of a turn are about to run whose effects cannot be taken back."""

    step: RecordedStep
    tools: Sequence[str]


INTERRUPTED_TEXT: Final = "[no result: the run was interrupted]"
"""What stands for the result of a tool that ran when the user stopped the run."""


class ToolAttemptFailed(RowDetails, kind="tool failed"):
    """An attempt at the tool of a phase failed, and the tool is tried again or the run ends."""

    step: RecordedStep
    tool: str
    error: str


class ToolResult(RowDetails, nodes={NodeType.TOOL_RESULT}, always=("error", "tool", "interrupted")):
    """The result of a tool: whether it failed, and the tool's name.

    `interrupted`: the user stopped the run while it ran, so there is no result; a resumed run does
    not count it. `reads` and `writes` are the names of what it touched, `searches` the searches of
    the web that it took. `state` is what the tools of its turn set in the state, in the first
    result of the turn.
    """

    error: bool = False
    tool: str = ""
    interrupted: bool = False
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    searches: int = 0
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Answer(RowDetails, kind="answer", always=("step", "at", "name", "arguments", "tool")):
    """What a person answered to a call that asks one; `text` is the question with the answer.

    A phase that asks by itself has a call, too, of a name that no tool has. The call is told by its
    turn (None: an earlier version wrote it), its position there, from 0, the tool, and its
    arguments; `call` is the id that it had. Earlier versions told of a call by its id alone: then
    position, name and arguments are None. `tool` is the tool that a person let run or not (None:
    the model asked).
    """

    text: str
    call: str
    answer: str
    step: RecordedStep | None = None
    at: int | None = None
    name: str | None = None
    arguments: str | None = None
    tool: str | None = None

    @property
    def question(self) -> str:
        """Return what was asked."""
        return self.text.removesuffix(f" {self.answer}")


class Approval(Answer, kind="approval"):
    """What a person said of a tool that needs approval: `yes`, `no`, or why it may not run."""


class TimeOver(Answer, kind="time over"):
    """Nobody answered in the time that a question had; the answer is empty."""


class Validation(RowDetails, nodes={NodeType.VALIDATION}):
    """What a validator or a schema said of the output of an attempt.

    `repair`: the attempt has one more turn to mend it.
    """

    attempt: int
    output: str
    validation_reason: str
    valid: bool
    repair: bool = False


class WardJudged(RowDetails, kind="ward"):
    """A ward judged a text: a phase's input (`pre`), a reply (`turn`) or its output (`post`).

    `position` counts the wards of that place from 0, `digest` is of the text.
    """

    step: RecordedStep
    place: Literal["pre", "post", "turn"]
    position: int
    validator: str
    mode: str
    digest: str
    valid: bool
    reason: str


_USUAL: Final[Mapping[NodeType, Details]] = {
    NodeType.AGENT: ReplyDetails(),
    NodeType.FOLLOW_UP: ReplyDetails(),
    NodeType.TOOL_RESULT: ToolResult(),
}
"""What rows of these types say where they say nothing, as those of imported messages."""

STEPS: Final = frozenset({CallSent.kind, CallAnswered.kind, CallFailed.kind, ToolsStarted.kind})
"""The kinds of rows that a resumed run is told from, and that people need not see."""


def continued(rows: Iterable[StoredRow]) -> frozenset[str]:
    """Return the ids of replies that were cut at their limit and stand whole in a later one."""
    replies = (ReplyDetails.read(stored.row) for stored in rows)
    return frozenset(each.continues for each in replies if each is not None and each.continues)
