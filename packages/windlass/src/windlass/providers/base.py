"""The protocol of every provider: what it gets and what it returns.

A provider sends a finished request and reports what came back. It decides nothing about the
context. There is only an async form; a blocking backend runs in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from windlass.messages import Message
from windlass.text.tokens import MARGIN, Counter
from windlass.wire.base import Reply, Request
from windlass.wire.web_search import SearchReply


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the engine must know about a model.

    `name` is `provider/model`; `window` counts tokens of input and output together;
    `sees_pictures`: whether pictures can be sent (else their descriptions are); `system_anywhere`:
    whether a system message may stand after the first place; `free`: whether a call costs nothing
    (a model on this machine). `tools_first`: whether the tools come before the system prompt in
    what a cache compares.
    """

    name: str
    window: int
    counter: Counter
    sees_pictures: bool
    system_anywhere: bool
    free: bool = False
    tools_first: bool = True
    max_output_tokens: int = 1_024

    def input_room(self, max_output_tokens: int) -> int:
        """Return input tokens that leave room for a reply, less a margin for inexact counts."""
        room = self.window - max_output_tokens
        return room if self.counter.exact else math.floor(room / (1 + MARGIN))

    def question(
        self,
        messages: Sequence[Message],
        most: int,
        schema: Mapping[str, Any] | None = None,
        load: Callable[[str], bytes] | None = None,
    ) -> Request:
        """Give a request beside the conversation: no tools, no chance, `most` tokens of an answer.

        `load` fetches the bytes of its pictures by SHA-256 (None: it has none).
        """
        return Request(
            model=self.name.partition("/")[2],
            messages=tuple(messages),
            tool_choice="none",
            max_output_tokens=most,
            temperature=0.0,
            output_schema=schema,
            load=load,
        )


@dataclass(frozen=True, slots=True)
class RequestWait:
    """A wait before a request goes to `model`: its seconds and its reason.

    `attempt` is the try that comes after it, from 1, of at most `tries`.
    """

    model: str
    seconds: float
    because: str
    attempt: int
    tries: int


class Provider(Protocol):
    """Answers requests. Raises ProviderError (BadRequest, ContextTooLong)."""

    def model(self, name: str) -> ModelInfo:
        """Return what is known about the model `name` (without the provider's part).

        Raises UsageError naming the known models if it is unknown.
        """
        ...

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """Send one request; `on_text` is handed each piece of text as it arrives.

        Cancelling the task stops the generation.
        """
        ...

    async def close(self) -> None:
        """Release connections, threads and memory; may be called twice."""
        ...


Resolve: TypeAlias = Callable[[str], tuple[Provider, ModelInfo]]
"""Maps `provider/model` to its provider and the facts about the model."""


@runtime_checkable
class Searching(Protocol):
    """A provider whose models can search the web themselves."""

    async def search(self, model: str, query: str, most: int) -> SearchReply:
        """Have `model` (without the provider's part) search the web for `query`.

        `most` is the number of pages wanted. Raises ProviderError, LimitReached.
        """
        ...
