"""What tests of window windows properties build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from windlass.messages import Message, Opaque, ToolSpec
from windlass.window.conversation import Conversation, Window
from windlass.window.entries import Item
from windlass.wire import anthropic, gemini, openai_chat
from windlass.wire.base import Request


def items(messages: Sequence[Message]) -> list[Item]:
    return [Item(f"m{at}", message, message.role) for at, message in enumerate(messages)]


def walked(conversation: Conversation, said: Sequence[Item]) -> Iterator[tuple[Window, int]]:
    """The window of each call of the history, and of the call to come; how much was said."""
    for at, item in enumerate(said):
        if item.message.role == "assistant":
            yield conversation.window(), at
        conversation.append(item)
    yield conversation.window(), len(said)


def asked(messages: Sequence[Message], model: str) -> Request:
    names = {call.name for message in messages for call in message.tool_calls}
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in sorted(names))
    return Request(model, tuple(messages), 1_000, tools)


def problems(messages: Sequence[Message], provider: str) -> list[str]:
    """What the provider would refuse."""
    match provider:
        case "openai":
            return openai_rules.problems(openai_chat.body(asked(messages, "gpt-4.1")))
        case "anthropic":
            body = anthropic.body(asked(messages, "claude-sonnet-4-5"))
            return anthropic_rules.problems(body)
        case _:
            body = gemini.body(asked(messages, "gemini-3-pro"))
            return gemini_rules.problems(body, model="gemini-3-pro")


def signed(message: Message) -> tuple[Opaque, ...]:
    return tuple(part for part in message.parts if isinstance(part, Opaque))
