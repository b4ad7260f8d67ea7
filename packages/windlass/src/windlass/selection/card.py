"""The card of a message: what it is known by when it is chosen for a task.

A card belongs to one occurrence of a message (its id) and carries the content hash; cards of
equal bodies share summary and embedding, not phase or turn. `making.py` makes it of the message
alone, so that it can be made anew at any time. Where cards are kept is not its affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

BY_RULE: Final = "rule"
"""The `generator_model` of a summary that no model wrote."""


@dataclass(frozen=True, slots=True)
class Card:
    """A short view of one message.

    `tokens` are those of the original. `embedding` is the unit vector of the message in the
    space of `embedding_model`; vectors of different models are never compared. `callout` is
    the name under which it was marked as important (None: it was not; empty: without a name).
    `is_anchor`: a rule or a user pins it. `generator_model` wrote the summary. `generated_at`
    is when the card was made, in whole seconds since 1970 (0: it is not kept anywhere).

    The embedding of a message of several chunks is the mean of theirs, of length 1 too.
    """

    id: str
    content_hash: str
    summary: str
    keywords: tuple[str, ...]
    tokens: int
    role: str
    phase: str | None = None
    turn: int | None = None
    is_anchor: bool = False
    callout: str | None = None
    embedding: Sequence[float] = field(default=(), hash=False)
    embedding_model: str = ""
    generator_model: str = BY_RULE
    generated_at: int = 0

    @property
    def is_callout(self) -> bool:
        """Whether the message was marked as important."""
        return self.callout is not None
