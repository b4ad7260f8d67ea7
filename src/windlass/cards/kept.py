"""How kept cards are made: the settings `cards` as one value.

Imports nothing, since every command reads settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NONE: Final = "none"
"""Said of a summariser or an embedder that is not wanted, whatever else names one."""
WORDLLAMA: Final = "wordllama"
"""The embedding model in a package of its own."""


@dataclass(frozen=True, slots=True)
class CardOptions:
    """How cards are made.

    `summariser` is `provider/model` (None: summaries are made by rule). `embedder` is
    `wordllama`, `none`, or `provider/model` (None: wordllama where it is installed). Batches
    are of `batch_size` messages, `workers` of them are made at once; a summary has at most
    `summary_chars` characters and is made of `input_chars` (head and tail).
    """

    summariser: str | None = None
    embedder: str | None = None
    batch_size: int = 10
    workers: int = 1
    summary_chars: int = 300
    input_chars: int = 2_000
