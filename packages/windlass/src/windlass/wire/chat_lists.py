"""Lists in OpenAI's chat form: an object is a message, and stands by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.messages import Message
from windlass.wire.forms import ListReading
from windlass.wire.openai import from_openai, to_openai

NOT_SENT: Final = frozenset({"id", "at", "usage"})


class ChatList:
    """Reads the objects of one list, in order."""

    def read(self, given: Mapping[str, Any], where: str) -> ListReading:
        """Return the next object. Raises SequenceError for what the provider refuses."""
        said = {key: value for key, value in given.items() if key not in NOT_SENT}
        return ListReading((from_openai(said, where=where),))


list_reader = ChatList


def side(message: Message) -> None:  # noqa: ARG001 - one signature for all forms
    """Nobody's: neighbours stay apart."""
    return


def write(messages: Sequence[Message], caller: Message | None = None) -> list[dict[str, Any]]:  # noqa: ARG001
    """Return the messages, an object each."""
    return [to_openai(message) for message in messages]


def opening() -> list[dict[str, Any]]:
    """Nothing: a list may begin with anybody."""
    return []
