"""Replies with signed thinking, and the calls that a model which binds it would refuse.

Each recorded reply is given a signed block when it is made. Whether a call may send the blocks
that it sends is asked of `tests/validators/thinking.py`, which shares nothing with the package.
There messages are digests of what they say: equal ones are equal, and others are not.

Thinking is in nobody's bill, as the recordings hold none. But a message that lost its block is
another message, so that whoever takes thinking away pays for what he sends anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bench.windows.recordings import Chat, Recording
from tests.validators.thinking import CONTROLS, Thinking

KEY: Final = "thinking_blocks"
"""The key of a chat message that holds signed blocks."""
_TEXT: Final = (
    "I look at what came back and at what is still to be done, and go on from there. " * 8
)
"""Some 150 tokens, which name nothing."""
_DROP: Final = {
    "type": "adaptive",
    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
}


class SentRequest(NamedTuple):
    """A message of a window: as it came, without thinking, as it is billed, and its signatures."""

    chat: Chat
    bare: Chat
    billed: Chat
    signatures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Legality:
    """Calls that are accepted, blocks that are sent and could be, and calls that send fewer."""

    legal: int
    blocks: int
    blocks_made: int
    epochs: int


class SignedThinking:
    """A recording whose replies carry signed blocks."""

    def __init__(self, recording: Recording) -> None:
        self.messages: list[Chat] = []
        self._sent: dict[int, SentRequest] = {}
        self._digests: dict[int, tuple[Chat, str]] = {}
        for at, chat in enumerate(recording.messages):
            signed = chat
            if chat["role"] == "assistant":
                block = {"type": "thinking", "thinking": _TEXT, "signature": f"signed_{at}"}
                signed = {**chat, KEY: [block]}
                self._sent[id(signed)] = SentRequest(signed, chat, chat, (f"signed_{at}",))
            self.messages.append(signed)

    def sent(self, chat: Chat) -> SentRequest:
        """What a message of a window is."""
        found = self._sent.get(id(chat))
        if found is None:
            blocks = chat.get(KEY) or ()
            bare = {key: each for key, each in chat.items() if key != KEY} if KEY in chat else chat
            stripped = chat["role"] == "assistant" and not blocks
            billed = {**bare, KEY: "left out"} if stripped else bare
            signatures = tuple(block["signature"] for block in blocks)
            # Kept with its object, so that no other one gets its identity.
            found = self._sent[id(chat)] = SentRequest(chat, bare, billed, signatures)
        return found

    def judged(self, calls: Sequence[int], windows: Sequence[Sequence[SentRequest]]) -> Legality:
        """What becomes of the blocks in the windows of the calls at these positions."""
        if not calls:
            return Legality(0, 0, 0, 0)
        checker, legal, sent, made, epochs = Thinking(), 0, 0, 0, 0
        first = next(at for at, chat in enumerate(self.messages) if KEY in chat)
        came_to = [self.sent(chat) for chat in self.messages[:first]]
        checker.note(self._body(came_to), self._answer(first))
        before = {f"signed_{first}"}
        replies = 1
        for at, window in zip(calls, windows, strict=True):
            body = self._body(window)
            fine = checker.check(body) is None
            legal += fine
            now = {each for one in window for each in one.signatures}
            sent, made = sent + len(now), made + replies
            epochs += not before <= now
            # A call that is refused is sent again without the blocks that it is refused for.
            beta = "" if fine else CONTROLS
            checker.note(body if fine else {**body, "thinking": _DROP}, self._answer(at), beta)
            before, replies = {*now, f"signed_{at}"}, replies + 1
        return Legality(legal, sent, made, epochs)

    def _answer(self, at: int) -> list[dict[str, Any]]:
        """The blocks of the reply at a position."""
        _, *blocks = self._blocks([self.sent(self.messages[at])])
        return blocks  # the first is the text of what came before

    def _body(self, window: Sequence[SentRequest]) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": [*self._blocks(window)]}]}

    def _blocks(self, window: Sequence[SentRequest]) -> Iterator[dict[str, Any]]:
        """Blocks of a request: of each reply its thinking, and with what came behind it a text."""
        said: list[str] = []
        for one in window:
            if one.bare["role"] == "assistant":
                yield {"type": "text", "text": " ".join(said)}
                said = []
            for each in one.signatures:
                yield {"type": "thinking", "thinking": "", "signature": each}
            said.append(self._digest(one))
        yield {"type": "text", "text": " ".join(said)}

    def _digest(self, one: SentRequest) -> str:
        known = self._digests.get(id(one.chat))
        if known is None:
            text = json.dumps(one.bare, sort_keys=True)
            known = one.chat, hashlib.sha256(text.encode()).hexdigest()
            self._digests[id(one.chat)] = known
        return known[1]
