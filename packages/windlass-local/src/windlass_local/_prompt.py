"""What the local model reads: messages and tools as ChatML, and their exact count.

A prompt is a sequence of turns (`<|im_start|>`, the role, a newline, the body,
`<|im_end|>`, a newline) and the opening of the answer. Bodies go to the model as token
ids in which no special token can occur, so a text that spells one cannot end its turn
or begin another. Each turn is split into tokens on its own: a message costs the same
wherever it stands, and the count of a request is the plain sum of its parts.

Order: the leading system messages, one system turn with the tools, the rest. Tools
stand behind the system prompt, so that two phases with different tools still share
it as a prefix; they do not depend on `tool_choice`, so neither does the prefix.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from windlass.public import Message, ToolCall, ToolSpec, calls, canonical_json
from windlass_local._grammar import CLOSE, OPEN, call_head
from windlass_local._vocabulary import Vocabulary

_START: Final = "<|im_start|>"
_END: Final = "<|im_end|>"

_TOOLS: Final = (
    "You have these tools:\n<tools>\n{tools}\n</tools>\n"
    f'If a tool can help, answer with {OPEN}{{{{"name": ..., "arguments": ...}}}}{CLOSE}.'
    " Otherwise answer in plain words."
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One ChatML turn: the role as the model knows it, and what is said."""

    role: str
    body: str


def tools_turn(tools: Sequence[ToolSpec]) -> Turn:
    """Return the definitions of `tools`, one canonical JSON object a line."""
    lines = (
        canonical_json(
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        )
        for spec in tools
    )
    return Turn("system", _TOOLS.format(tools="\n".join(lines)))


def message_turn(message: Message) -> Turn:
    """Return one message as its turn.

    A tool's result has a role of its own: the model then answers from it, where it
    only repeats what stands under the user's name.
    """
    body = "\n".join([*calls.words(message.parts), *map(call_text, message.tool_calls)])
    if message.role == "tool":
        name = f" name={json.dumps(message.name)}" if message.name else ""
        return Turn("tool", f"<tool_response{name}>\n{body}\n</tool_response>")
    return Turn("system" if message.is_system else message.role, body)


def call_text(call: ToolCall) -> str:
    """Give a tool call as the grammar makes the model write it, the arguments letter for letter."""
    return f"{OPEN}{call_head(call.name)}{call.arguments}}}{CLOSE}"


def _ids(vocabulary: Vocabulary, turn: Turn) -> Iterable[int]:
    yield vocabulary.special(_START)
    yield from vocabulary.encode(f"{turn.role}\n")
    yield from vocabulary.encode(turn.body)
    yield vocabulary.special(_END)
    yield from vocabulary.encode("\n")


class LocalCounter:
    """Counts with the local model's own tokenizer; remembers each message's tokens.

    A request reports exactly `tools() + sum of message() + opening` prompt tokens.
    """

    exact = True

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._messages: dict[str, list[int]] = {}
        self._tools: tuple[tuple[ToolSpec, ...], list[int]] = (), []
        self._open = [vocabulary.special(_START), *vocabulary.encode("assistant\n")]
        self.opening = len(self._open)
        """Tokens that open the answer, once a request: 3."""

    def text(self, text: str) -> int:
        """Return tokens of a bare text."""
        return self.vocabulary.count(text)

    def message(self, message: Message) -> int:
        """Return tokens a message adds to a request, its frame included."""
        return len(self._ids_of(message))

    def tools(self, tools: Sequence[ToolSpec]) -> int:
        """Return tokens of the turn that defines `tools`; 0 without tools."""
        return len(self._ids_of_tools(tools))

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Return the prompt of a request, up to where the answer begins.

        Each message is split once.
        """
        head = sum(1 for _ in takewhile(lambda message: message.is_system, messages))
        turns_of = [self._ids_of(message) for message in messages]
        turns_of.insert(head, self._ids_of_tools(tools))
        return [token for turn in (*turns_of, self._open) for token in turn]

    def reply(self, message: Message) -> list[int]:
        """Return the tokens of an answer behind its prompt, which opens its turn."""
        return self._ids_of(message)[self.opening :]

    def _ids_of(self, message: Message) -> list[int]:
        ids = self._messages.get(message.key)
        if ids is None:
            ids = self._messages[message.key] = [*_ids(self.vocabulary, message_turn(message))]
        return ids

    def _ids_of_tools(self, tools: Sequence[ToolSpec]) -> list[int]:
        if not tools:
            return []
        held = self._tools  # another thread may replace it
        if held[0] != tuple(tools):
            held = self._tools = tuple(tools), [*_ids(self.vocabulary, tools_turn(tools))]
        return held[1]
