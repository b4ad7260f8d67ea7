"""A model that is a function: for tests, for dry runs of a cascade, for teaching.

It counts with a hosted model's tokenizer and reports as cached what its request
shares with the one before it, so that accounting can be tested to the token.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from windlass.messages import Message, assistant
from windlass.providers.base import ModelInfo
from windlass.text.tokens import Counter, FamilyCounter
from windlass.wire.base import Finish, Reply, Request, Usage

ScriptedReply: TypeAlias = "Message | str | tuple[Message | str, Finish]"
"""A message or its text, or a pair of that and how it ended."""

Script: TypeAlias = Callable[[Request], "ScriptedReply | Awaitable[ScriptedReply]"]
"""A function from a request to the reply."""


class Scripted:
    """A provider that answers with `script(request)`, plain or async.

    `window` is the model's window in tokens, `counts_as` the model whose tokenizer
    counts.
    """

    def __init__(
        self,
        script: Script,
        *,
        window: int = 200_000,
        counts_as: str = "gpt-4o",
        sees_pictures: bool = True,
        system_anywhere: bool = True,
    ) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._counter: Counter = FamilyCounter(counts_as)
        self._info = ModelInfo(
            name="scripted/function",
            window=window,
            counter=self._counter,
            sees_pictures=sees_pictures,
            system_anywhere=system_anywhere,
            free=True,
        )
        self._previous: list[tuple[str, int]] = []

    def model(self, name: str) -> ModelInfo:  # noqa: ARG002 - the protocol's argument
        """Return the one scripted model, under any name."""
        return self._info

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """Answer with the script; exceptions of the script are the provider's failures."""
        self.requests.append(request)
        answer = self.script(request)
        if inspect.isawaitable(answer):
            answer = await answer
        ended: Finish | None = None
        if isinstance(answer, tuple):
            answer, ended = answer
        message = assistant(answer) if isinstance(answer, str) else answer
        if message.text:
            on_text(message.text)
        weighed = [("tools", self._counter.tools(request.tools) + self._counter.opening)]
        weighed += [(m.key, self._counter.message(m)) for m in request.messages]
        cached = 0
        for mine, earlier in zip(weighed, self._previous, strict=False):
            if mine != earlier:
                break
            cached += mine[1]
        self._previous = weighed
        usage = Usage(
            tokens_in=sum(tokens for _, tokens in weighed),
            tokens_out=self._counter.message(message),
            tokens_cached=cached,
        )
        finish: Finish = "tool_calls" if message.tool_calls else "stop"
        return Reply(message, usage, ended or finish, self._info.name)

    async def close(self) -> None:
        """Does nothing: there is nothing to release."""
