"""What can be said of a selection (strategy, budget, weights, threshold) and of how cards are made.

The names are those of the cascade's `selection` block and of the settings `cards`. Numbers are
checked here, once, for every door.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import StringConstraints

from windlass.declared import Expected, Model, ModelOrNone, Whole
from windlass.errors import UsageError, did_you_mean

Strategy: TypeAlias = Literal["heuristic", "semantic", "llm", "hybrid"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)

KEYWORD_WEIGHT: Final = 0.25
RECENCY_WEIGHT: Final = 0.45
CALLOUT_WEIGHT: Final = 0.3
"""The measured best; the document's sketch has 0.4, 0.3 and 0.3."""
SIMILARITY_THRESHOLD: Final = 0.1
MAX_TOKENS: Final = 30_000
"""Tokens that a choice may take."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """How near a message must be to a task: a share of the model's scale, or a bare cosine."""

    value: float
    is_cosine: bool = False

    def cosine(self, floor: float) -> float:
        """Return the least cosine, for a model whose unrelated texts have this mean cosine."""
        return self.value if self.is_cosine else floor + self.value * (1 - floor)


_COSINE: Final = re.compile(r"\s*cosine\s*>=\s*(-?(?:\d+(?:\.\d+)?|\.\d+))\s*")


def read_threshold(value: Any) -> Threshold:
    """Return what a user wrote as `similarity_threshold`: a share from 0 to 1, or `cosine>=0.7`.

    Raises UsageError for anything else.
    """
    if isinstance(value, Threshold):
        return value
    if isinstance(value, str) and (found := _COSINE.fullmatch(value)):
        cosine = float(found[1])
        if -1 <= cosine <= 1:
            return Threshold(cosine, is_cosine=True)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return Threshold(float(value))
    raise UsageError(
        f"similarity_threshold {value!r} is neither a share from 0 (unrelated) to 1 (the same) nor"
        " a text such as 'cosine>=0.7'"
    )


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts, as shares of 1; 0 switches one off.

    `keyword` is for what a message says of the task (by words, by vectors or by both),
    `recency` for its position, `callout` for having been marked as important.
    """

    keyword: float
    recency: float
    callout: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The options of a selection.

    `max_tokens` bounds the originals that are chosen, `max_messages` their number (None: no
    bound). `similarity_threshold` is how near a message must be to the task to count as a hit
    by its vector: a share of the model's scale, or `cosine>=0.7`. Raises UsageError for what
    is out of range.
    """

    strategy: Strategy = "hybrid"
    max_tokens: int = MAX_TOKENS
    max_messages: int | None = 50
    recency_weight: float = RECENCY_WEIGHT
    keyword_weight: float = KEYWORD_WEIGHT
    callout_weight: float = CALLOUT_WEIGHT
    similarity_threshold: float | str = SIMILARITY_THRESHOLD

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            near = did_you_mean(str(self.strategy), STRATEGIES)
            raise UsageError(f"unknown strategy {self.strategy!r}; {near}")
        _check_count("max_tokens", self.max_tokens)
        if self.max_messages is not None:
            _check_count("max_messages", self.max_messages)
        read_threshold(self.similarity_threshold)
        weights = {
            name: getattr(self, name)
            for name in ("recency_weight", "keyword_weight", "callout_weight")
        }
        for name, value in weights.items():
            if not _is_number(value) or value < 0:
                raise UsageError(f"{name} {value!r} is not a number of at least 0")
        if not any(weights.values()):
            raise UsageError(f"{', '.join(weights)} are all 0: nothing is left to choose by")

    @property
    def weights(self) -> Weights:
        """The three weights, brought to a sum of 1."""
        total = self.keyword_weight + self.recency_weight + self.callout_weight
        return Weights(
            self.keyword_weight / total, self.recency_weight / total, self.callout_weight / total
        )

    @property
    def threshold(self) -> Threshold:
        """The similarity threshold, read."""
        return read_threshold(self.similarity_threshold)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} {value!r} is not a whole number of at least 1")


NONE: Final = "none"
"""Said of a summariser or an embedder that is not wanted, whatever else names one."""
WORDLLAMA: Final = "wordllama"
"""The embedding model in a package of its own."""

_Embedder: TypeAlias = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^(wordllama|none|[^/\s]+/\S+)$"),
    Expected("'wordllama', 'none' or a model as provider/name"),
]


class CardOptions(Model):
    """How cards are made."""

    summariser: ModelOrNone | None = None
    """Model that writes summaries, as `provider/name`; `none`: summaries are made by rule. Without
    it the helper model writes them, where one is named."""

    embedder: _Embedder | None = None
    """`wordllama` (a package on this machine), `none`, or an embedding model as `provider/name`.
    Without it: wordllama where it is installed."""

    batch_size: Whole = 10
    """Messages in one batch."""

    workers: Whole = 1
    """Batches that are made at the same time."""

    summary_chars: Whole = 300
    """Most characters of a summary."""

    input_chars: Whole = 2_000
    """Characters of a message (head and tail) that its summary is made of."""
