"""What rows say of messages that are marked, of cards, and of what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from windlass.history.base import NodeType
from windlass.history.row_details import RowDetails

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
        """The mark in words."""
        return f"called out as {self.name!r}: {self.message_id} (by {self.by})"


class PinMark(RowDetails, kind="pin"):
    """A message is an anchor by a user's word, or is none any more."""

    message_id: str
    pinned: bool
    by: By

    @property
    def text(self) -> str:
        """The mark in words."""
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
