"""Progressive decay: the newest turns whole, those before folded, the oldest in a summary.

Three zones, in turns, newest last: the summary zone, one message that a model writes; the fold
zone, where tool pairs are lines and long words head and tail; the full zone. The borders move in
blocks of `step` turns, both at the same call, so that what lies behind them is rewritten once in
`step` calls and a summary is asked for as seldom. Between two moves the full zone grows from
`full` to `full + step - 1` turns; the fold zone always holds `fold`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from windlass.messages import Message
from windlass.text.prompts import summary_header
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._pending import PendingEdits, Proposal
from windlass.window._survive import cut_with_hint, summarised, with_text
from windlass.window.policies.rare.folding import folded
from windlass.window.policies.shared import ERROR_CHARS, Count

USER_TOKENS: Final = 500
"""A user message of more tokens is pasted material, of which the summary zone keeps the ends."""


@dataclass(frozen=True, kw_only=True)
class DecayOptions:
    """The zones of a decaying history: the newest turns whole, those before folded."""

    full: Count = 4
    """Turns that stay as they are."""
    fold: Count = 6
    """Turns before those, folded to a line; older: a summary."""


@dataclass(frozen=True, kw_only=True)
class Decay:
    """Lets turns decay by zones.

    No user message is folded: in the summary zone each stands beside the summary as it was
    said, or, above 500 tokens, with its head and tail and a reference; the task stays whole.

    Until a summary is supplied, and where the one supplied does not hold what it must, the
    folded lines stand. A summary must say something, be at most `summary_tokens` long, not
    report an error and be smaller than what it replaces; names that only the replaced messages
    hold and that it lacks are written behind it, within as many tokens again. The next block
    is summarised together with the summary before it.

    Args:
        options: The zones.
        summary_tokens: Tokens that a summary may take.
        step: Turns by which the borders move.
        text_chars: Characters that words of the assistant keep in the fold zone.
        names_chars: Characters of names that a folded call keeps.
        error_chars: Characters of error lines that a folded call keeps that failed; 0: none.
    """

    options: DecayOptions = DecayOptions()
    summary_tokens: int = 500
    step: int = 4
    text_chars: int = 1_200
    names_chars: int = 400
    error_chars: int = ERROR_CHARS
    name: str = "decay"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield what crosses a border at this call, and the summary once it is there."""
        border = self._border(pending.turn)
        fresh = range(border - self.step + 1, border + 1)
        if border == self._border(pending.turn - 1):
            fresh = range(0)
        waiting = tuple(pending.due(self.name))
        crossing = (at for turn in fresh for at in pending.born(pending.turn - 1 - turn))
        for at in (*waiting, *crossing):
            yield from self._folded(pending, at)
        last = border - self.options.fold
        if last > 0:
            if fresh:
                first = max(0, last - self.step + 1) if last > self.step else 0
                yield from self._pasted(pending, range(first, last + 1))
            yield from self._summary(pending, last)

    def _border(self, turn: int) -> int:
        """Return the newest turn of the fold zone at a call; 0: there is none."""
        return max(0, turn - 1 - self.options.full) // self.step * self.step

    def _folded(self, pending: PendingEdits, at: int) -> Iterable[Proposal]:
        entry = pending.entry(at)
        if entry is None or pending.original(at).role != "assistant":
            return
        span, chars = pending.exchange(at), self.text_chars
        if pending.is_whole(at):
            if not pending.put_off(self.name, at, self.step, span):
                write = partial(
                    folded,
                    at=at,
                    names_chars=self.names_chars,
                    error_chars=self.error_chars,
                    text_chars=chars,
                )
                reason = f"tool pair older than {self.options.full} turns"
                yield Proposal(span, "fold", reason, write, folds=True)
            return
        is_long = len(entry.message.text) > chars and entry.because is None
        if is_long and not pending.put_off(self.name, at, self.step, span):
            reason = f"words older than {self.options.full} turns"
            yield Proposal((at,), "decay", reason, partial(_ends, at=at, chars=chars))

    def _pasted(self, pending: PendingEdits, turns: range) -> Iterable[Proposal]:
        """Long user messages of turns that enter the summary zone."""
        chars = USER_TOKENS * CHARS_A_TOKEN
        for turn in turns:
            for at in pending.born(pending.turn - 1 - turn):
                message = pending.original(at)
                if message.role != "user" or at in pending.transcript.asking:
                    continue
                if len(message.text) > chars and pending.untouched(at) and not pending.fixed(at):
                    reason = f"pasted text of more than {USER_TOKENS} tokens, in the summary zone"
                    yield Proposal((at,), "decay", reason, partial(_ends, at=at, chars=chars))

    def _summary(self, pending: PendingEdits, last: int) -> Iterable[Proposal]:
        """The summary of turns 1 to `last`: asked for, and shown once it is there and holds."""
        start = next(iter(pending.born(pending.turn - 2)), None)  # the first answer
        entry = None if start is None else pending.entry(start)
        if start is None or entry is None:
            return
        header = summary_header(1, last)
        if entry.because == "summarise" and entry.message.text.startswith(header):
            return
        ends = pending.born(pending.turn - 1 - last)
        places = range(start, ends.stop)
        seal = pending.original(ends.start).content_hash
        shown = [entry for entry in map(pending.entry, places) if entry is not None]
        key = f"{self.name}:{last}:{pending.original(start).content_hash}:{seal}"
        kept = {at for at in places if pending.fixed(at)}
        beside = {at for each in kept for at in (each, pending.caller(each)) if at is not None}
        beside |= {result for at in beside for result in pending.results(at)}
        span = [
            at
            for at in places
            if at not in beside and pending.original(at).role in ("assistant", "tool")
        ]
        yield from summarised(
            pending,
            span if span[:1] == [start] else (),
            shown,
            key=key,
            header=header,
            tokens=self.summary_tokens,
            reason=f"turns 1 to {last} summarised by a model",
        )


def _ends(pending: PendingEdits, at: int, chars: int) -> Message:
    """Return a message with the head and tail of its text."""
    message = pending.shown(at)
    return with_text(message, cut_with_hint(pending, at, message.text, chars))
