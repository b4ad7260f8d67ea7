"""What tests of window planner build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from windlass.caching.prices import Prices
from windlass.messages import Message, Text, ToolCall, assistant, tool, user
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.window_rules import WindowRules

ANTHROPIC = Prices(read=0.1, write=1.25, minimum=1_024, step=1, ttl_s=300)


def _chars(message: Message) -> int:
    return len(message.text)


CHARS = WindowRules(count=_chars)


@dataclass(frozen=True)
class Shorten:
    """Proposes to cut messages: at a call, positions with the characters that they keep."""

    at: Mapping[int, Sequence[tuple[int, int]]]
    must: bool = False
    name: str = "shorten"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """What is listed for this call."""
        for at, keep in self.at.get(pending.turn, ()):
            yield Proposal((at,), "digest", "cut", partial(_cut, at=at, keep=keep), must=self.must)


def _cut(pending: PendingEdits, *, at: int, keep: int) -> Message:
    shown = pending.item(at).message
    return shown.with_parts(Text(shown.text[:keep]))


def _said(*results: int, first: int = 2_000, words: int = 100) -> list[Message]:
    """A user's word, then an assistant's with its result again and again, so many characters."""
    said = [user("u" * first)]
    for number, chars in enumerate(results):
        call = ToolCall(f"c{number}", "look", "{}")
        said += [assistant("a" * words, calls=(call,)), tool(call, chr(98 + number) * chars)]
    return said
