"""How kept cards are made: the settings `cards`, and the words that they know."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import StringConstraints

from windlass.declared import Expected, Model, ModelOrNone, Whole

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
