"""What of a request will be sent again, by the calls before it: where cache marks are worth it.

Writing to a cache costs more than not writing, so nothing is written before there is a reason to
expect a second call of the same beginning: the conversation goes on, another one began alike, most
conversations went on so far, or tools are offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from operator import eq
from typing import Final

from windlass.caching.breakpoints import TOOLS, Place
from windlass.context._bodies import OpenedRequest

NOTHING: Final[Place] = (TOOLS, 0)
"""No mark stands before it."""
_NEW_EACH_TIME: Final = re.compile(
    r"\b\d{1,2}:\d{2}(:\d{2})?\b|\b\d{10,13}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}"
)
"""What a text holds that may be another one in the next call: a time of day, an id made for it."""
_MOST_SHOWN: Final = 60
_CHAT_CALLS: Final = 3
"""Calls of a conversation without tools after which it is expected to go on."""
_TIMES: Final = 2
"""Changes in a row that are no accident."""
_ALIKE: Final = 0.5
"""The share of a system prompt from which on another one is the same with a change."""


@dataclass(frozen=True, slots=True)
class ChangingHead:
    """A part of the system prompt that is another one in each call.

    `where` is `beginning`, `middle` or `end`, `text` how it begins now; `tokens` of the request
    stand there or behind, so that no cache holds them. `written`: the caller has them written.
    """

    where: str
    text: str
    tokens: int
    written: bool

    def __str__(self) -> str:
        paid = "written to the cache" if self.written else "paid"
        return (
            f"the {self.where} of the system prompt changes with every call ({self.text!r}):"
            f" {self.tokens:,} tokens are {paid} anew; put it into the last user message"
        )


class Reuse:
    """The beginnings of the requests to one model, and how often conversations go on.

    Args:
        ttl_s: Seconds that its cache keeps a beginning (None: no time is known).
    """

    def __init__(self, ttl_s: float | None) -> None:
        self._ttl = float("inf") if ttl_s is None else ttl_s
        self._seen: dict[bytes, float] = {}
        """When each beginning of tools and system prompt was sent last, in seconds."""
        self._hopes: set[bytes] = set()
        """Beginnings that were written because tools were offered, and not sent again so far."""
        self._begun = self._went_on = 0
        self._last: dict[bytes, Sequence[str]] = {}
        """The texts of the last system prompt, by the tools in front of it."""
        self._changes = 0
        self.changing: ChangingHead | None = None
        """What changes in the system prompt with each call, if it did so in the last two."""

    def marks_until(
        self, request: OpenedRequest, made: int, gap: float | None, at: float
    ) -> Place | None:
        """Return the first place of a request at which no mark of ours is worth it.

        None: there is none.

        Args:
            request: The request.
            made: How many calls its conversation made before.
            gap: Seconds since the last of them (None: not known).
            at: When it is sent, in seconds.
        """
        blocks = request.head_blocks
        keys = _beginnings(request)
        times = [self._seen.get(key) for key in keys]
        same = next((n for n, time in enumerate(times) if time is None), len(keys))
        self._compare(request, made)
        seen = [time for time in times[:same] if time is not None]
        paused = gap is not None and gap > self._ttl
        lately = bool(seen) and at - seen[-1] <= self._ttl
        if made:
            until = self._in_conversation(request, len(seen), len(keys), paused=paused)
            if until is None and made < _CHAT_CALLS and not request.offers_tools:
                until = len(request.head), 0  # many talks end after a word or two
        else:
            until = self._at_beginning(request, len(seen), len(keys), lately=lately)
        self._hopes.discard(keys[-1])
        if not made and not lately and until == (len(request.head), 0):
            self._hopes.add(keys[-1])
        self._seen |= dict.fromkeys(keys, at)
        self._begun += made == 0
        self._went_on += made == 1
        self._last[keys[0]] = [text for _, text in blocks]
        own = max((mark.place for mark in request.marks), default=NOTHING)
        return None if until is None else max(until, own)  # what stands before theirs is written

    def _in_conversation(
        self, request: OpenedRequest, seen: int, keys: int, *, paused: bool
    ) -> Place | None:
        """Give the same for a conversation that goes on; `seen` of the `keys` were sent before."""
        if paused or not seen:
            return NOTHING  # who pauses so long once may do so again
        return None if seen == keys else request.head_blocks[seen - 1][0]

    def _at_beginning(
        self, request: OpenedRequest, seen: int, keys: int, *, lately: bool
    ) -> Place | None:
        """Get the same for a conversation that begins; what was `seen` the cache may still have."""
        behind, blocks = (len(request.head), 0), request.head_blocks
        if lately and seen < keys and seen > 1:
            return blocks[seen - 1][0]
        if lately and seen == keys:
            return None if self._mostly_go_on else behind
        text = " ".join(text for _, text in blocks)
        own = any(mark.place < behind for mark in request.marks)  # they know what stays
        hopes = request.offers_tools and not (own or self._hopes or _NEW_EACH_TIME.search(text))
        return behind if hopes else NOTHING

    @property
    def _mostly_go_on(self) -> bool:
        """Return whether at least half of the conversations had a second call.

        The last one may yet.
        """
        return self._begun > 1 and 2 * self._went_on >= self._begun

    def _compare(self, request: OpenedRequest, made: int) -> None:
        """Note what changed in the system prompt since the last request."""
        texts = [text for _, text in request.head_blocks]
        before = self._last.get(_beginnings(request)[0])
        if before is None or texts == before:
            if made:
                self._changes, self.changing = 0, None
            return
        at = next(
            (n for n, pair in enumerate(zip(texts, before, strict=False)) if pair[0] != pair[1]),
            min(len(texts), len(before)),
        )
        if at >= len(texts):
            return
        text, old = texts[at], before[at] if at < len(before) else ""
        common = _common(text, old)
        ends = min(_common(text[::-1], old[::-1]), len(text) - common)
        ahead = sum(map(len, texts[:at])) + common
        whole = sum(map(len, texts)) or 1
        alike = ahead + ends + sum(map(len, texts[at + 1 :])) >= _ALIKE * whole
        if not (alike or made):
            return
        self._changes += 1
        if self._changes < _TIMES:
            return
        where = "end" if ahead > 0.6 * whole else "beginning" if ahead < 0.3 * whole else "middle"
        place = len(request.tools) + at
        before_it = request.pieces.sums[place - 1] if place else 0.0
        written = max(request.pieces.marks, default=-1) >= place
        tokens = round(request.pieces.tokens - before_it)
        part = text[common : common + _MOST_SHOWN].strip()
        self.changing = ChangingHead(where, part, tokens, written)


def _common(one: str, other: str) -> int:
    """Return characters that two texts begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _beginnings(request: OpenedRequest) -> list[bytes]:
    """A key for the tools of a request, and for each beginning of its system prompt behind them."""
    keys = [blake2b(repr(request.tools).encode(errors="surrogatepass"), digest_size=16).digest()]
    for _, text in request.head_blocks:
        text_bytes = text.encode(errors="surrogatepass")
        keys.append(blake2b(keys[-1] + text_bytes, digest_size=16).digest())
    return keys
