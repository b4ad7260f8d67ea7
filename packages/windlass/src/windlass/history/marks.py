"""What rows say of messages that are marked, of cards, and of what is remembered.

Callouts: messages of a session that somebody marked as important, each with a name.

A mark is a row of the record (`decision`, kind `callout`) and like all of the record never
changed: a message that is marked again goes by its newest name. This module reads and writes
such rows and knows how people and models name a message; what a mark does to a window is the
engine's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from windlass.errors import UsageError, did_you_mean
from windlass.history.base import NodeType, StoredRow
from windlass.history.row_details import RowDetails
from windlass.window.originals import REF, matching

By: TypeAlias = Literal["tool", "pattern", "phase", "user"]
"""Who marked a message: the model by the tool, a phase's pattern or its name for it, a person."""


class CalloutMark(RowDetails, kind="callout"):
    """A message was marked as important: its id, the name it goes by, and who marked it.

    `kept` says whether it is shown whole from then on, `pattern` what found it.
    """

    message_id: str
    name: str
    by: By
    kept: bool | None = None
    pattern: str | None = None

    @property
    def text(self) -> str:
        """Return the mark in words."""
        return f"called out as {self.name!r}: {self.message_id} (by {self.by})"


class PinMark(RowDetails, kind="pin"):
    """A message is an anchor by a user's word, or is none any more."""

    message_id: str
    pinned: bool
    by: By

    @property
    def text(self) -> str:
        """Return the mark in words."""
        what = "pinned" if self.pinned else "not pinned any more"
        return f"{what}: {self.message_id} (by {self.by})"


class CardsLack(RowDetails, kind="cards_failed"):
    """The cards of these messages lack a summary or a vector, which a model did not give."""

    lacks: Literal["summary", "vector"]
    failed: Sequence[str]
    model: str
    error: str

    @property
    def text(self) -> str:
        """The same in a sentence."""
        count = f"{len(self.failed)} card{'s' if len(self.failed) > 1 else ''}"
        what = "a summary by rule" if self.lacks == "summary" else "no vector"
        return f"{count} with {what}, because of {self.model}: {self.error}"


class Remembered(RowDetails, kind="memory", nodes={NodeType.USER}, always=("expires", "by")):
    """A text was put into a memory bank under a key, until a time in seconds since 1970."""

    key: str
    expires: float | None = None
    by: str = ""


class ResultReused(RowDetails, kind="reused"):
    """A call of a tool did not run: the result of an earlier `turn` stands for it."""

    tool: str
    turn: str


class MessagesKept(RowDetails, kind="memory kept"):
    """So many messages of a phase that ended were put into a bank that keeps them all."""

    bank: str
    messages: int


class Forgotten(RowDetails, kind="memory forgotten"):
    """What stood under a key of a memory bank was taken back."""

    key: str
    by: str


LONGEST_NAME: Final = 100
"""Characters of a name."""

_NAMED: Final = 8
"""References that a message about an unknown one names."""


@dataclass(frozen=True, slots=True)
class Callout:
    """A marked message: `stored` is its row, `name` what it is called.

    `by` says who marked it, `marked` when (seconds since 1970).
    """

    name: str
    by: str
    marked: float
    stored: StoredRow

    @property
    def message_id(self) -> str:
        """Return the id of the occurrence that is marked."""
        assert self.stored.id is not None
        return self.stored.id


def find_callouts(rows: Iterable[StoredRow]) -> tuple[Callout, ...]:
    """Return the marked messages among rows, in the order in which they were said.

    `rows` are those of one session in order, such as those that stood before a call; a mark of a
    message that is not among them says nothing.
    """
    messages: dict[str, StoredRow] = {}
    callouts: dict[str, Callout] = {}
    for stored in rows:
        if stored.id is not None:
            messages[stored.id] = stored
        elif (mark := CalloutMark.read(stored.row)) and mark.message_id in messages:
            message = messages[mark.message_id]
            callouts[mark.message_id] = Callout(mark.name, mark.by, stored.row.timestamp, message)
    return tuple(sorted(callouts.values(), key=lambda callout: callout.stored.seq))


def check_callout_name(name: str) -> str:
    """Return a name without what surrounds it. Raises UsageError where it is none."""
    cleaned = " ".join(name.split())
    if not cleaned:
        raise UsageError("a callout needs a name, such as 'decision'")
    if len(cleaned) > LONGEST_NAME:
        raise UsageError(
            f"the name of a callout has at most {LONGEST_NAME} characters, not {len(cleaned)}: "
            f"{cleaned[:40]!r}..."
        )
    return cleaned


def find_message(rows: Sequence[StoredRow], ref: str) -> StoredRow:
    """Return the message of a session that `ref` names; of several equal ones the newest.

    `ref` is an id (`{hash}-{n}`), a content hash with or without `result_`, the beginning of
    one (4 digits or more) that no other message shares, or the name of a tool: its newest
    result. Raises UsageError with what is known where it names none, or more than one.
    """
    target = ref.strip().removeprefix(REF)
    messages = [stored for stored in rows if stored.id is not None]
    for stored in reversed(messages):
        if target in (stored.id, _short(stored)):
            return stored
    for stored in reversed(messages):
        message = stored.row.message
        if message is not None and message.role == "tool" and message.name == target:
            return stored
    newest_of = {_short(stored): stored for stored in messages}
    near = matching(target, newest_of)
    if len(near) == 1:
        return newest_of[near[0]]
    if near:
        raise UsageError(
            f"{ref!r} is the beginning of {len(near)} messages: {', '.join(sorted(near))}"
        )
    tools = {
        str(stored.row.message.name)
        for stored in messages
        if stored.row.message is not None and stored.row.message.role == "tool"
    }
    newest = [str(stored.id) for stored in messages[-_NAMED:]]
    raise UsageError(
        f"no message of this session goes by {ref!r}; {did_you_mean(ref, [*newest, *tools])}"
    )


def _short(stored: StoredRow) -> str:
    return str(stored.id).rpartition("-")[0]
