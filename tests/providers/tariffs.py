"""What vendors ask for the input of a call, as their pages have it; shares nothing with Windlass.

bill("claude-sonnet-5-5", Counts(10_000, read=8_000, written=2_000))   # US dollars
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tariff:
    """`input`: US dollars for a million fresh tokens; `read` and the writes are shares of it.

    `minimum`: the tokens from which a prefix is kept, in steps of `step`, for `lives` seconds.
    `above`: from so many tokens on all of a request costs so many times as much.
    """

    input: float
    read: float = 0.1
    write: float = 1.0
    write_long: float = 2.0
    minimum: int = 1_024
    step: int = 1
    lives: float = 300.0
    above: tuple[int, float] = (10**9, 1.0)


_CLAUDE = Tariff(3.0, write=1.25)
_GPT = Tariff(1.25, step=128)
_GPT_WRITES = Tariff(2.0, write=1.25, lives=1_800.0, above=(272_000, 2.0))
_GEMINI = Tariff(0.3, minimum=2_048, lives=180.0)

_TARIFFS = (
    (r"(fable|mythos)-5-2", replace(_CLAUDE, input=8.0, read=0.025)),
    (r"(fable|mythos)-5-1", replace(_CLAUDE, input=10.0, read=0.025, minimum=512)),
    (r"(fable|mythos)-5", replace(_CLAUDE, input=10.0, minimum=512)),
    (r"opus-5-5", replace(_CLAUDE, input=4.0, read=0.05, minimum=512)),
    (r"sonnet-(5-5|[6-9])", replace(_CLAUDE, input=2.0, read=0.05, minimum=512)),
    (r"haiku-5-5", replace(_CLAUDE, input=0.1, minimum=512, above=(100_000, 5.0))),
    (r"opus-5", replace(_CLAUDE, input=5.0, minimum=512)),
    (r"opus-4-7", replace(_CLAUDE, input=5.0, minimum=2_048)),
    (r"opus-4-8", replace(_CLAUDE, input=5.0)),
    (r"opus-4-[56]", replace(_CLAUDE, input=5.0, minimum=4_096)),
    (r"haiku-4-5", replace(_CLAUDE, input=1.0, minimum=4_096)),
    (r"sonnet-5", replace(_CLAUDE, input=2.0)),
    (r"sonnet-4-5", replace(_CLAUDE, above=(200_000, 2.0))),
    (r"claude", _CLAUDE),
    (r"gpt-6\.1", replace(_GPT_WRITES, read=0.05)),
    (r"gpt-5\.[6-9]", replace(_GPT_WRITES, input=4.0)),
    (r"gpt-[6-9]", _GPT_WRITES),
    (r"gpt-4o", replace(_GPT, input=2.5, read=0.5)),
    (r"gpt", _GPT),
    (r"gemini-4", replace(_GEMINI, input=2.0, read=0.05, minimum=4_096)),
    (r"gemini-[3-9]", replace(_GEMINI, input=2.0, minimum=4_096)),
    (r"gemini-2\.5-pro", replace(_GEMINI, input=1.25, above=(200_000, 2.0))),
    (r"gemini", _GEMINI),
)
"""By a pattern for the model, the first match counts."""


def tariff(model: str) -> Tariff:
    """What a model asks; another vendor's asks nothing."""
    return next((one for known, one in _TARIFFS if re.search(known, model)), Tariff(0.0))


@dataclass(frozen=True)
class Counts:
    """Input tokens of one call: all, those read from a cache, those written for either time."""

    tokens: int
    read: int = 0
    written: int = 0
    written_long: int = 0


def bill(model: str, counts: Counts) -> float:
    """US dollars of one call's input."""
    asks = tariff(model)
    fresh = counts.tokens - counts.read - counts.written - counts.written_long
    units = fresh + asks.read * counts.read + asks.write * counts.written
    units += asks.write_long * counts.written_long
    above, factor = asks.above
    return units * asks.input / 1e6 * (factor if counts.tokens > above else 1.0)
