"""What stands in the place of a message whose text is missing or changed, for who looks back.

A run never gets one: there it is a StoreError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from windlass.errors import StoreError
from windlass.history._blobs import BlobPlace
from windlass.history.base import NodeType
from windlass.messages import Message, Role, Text

_ROLES: Final[dict[str, Role]] = {
    NodeType.SYSTEM: "system",
    NodeType.AGENT: "assistant",
    NodeType.FOLLOW_UP: "assistant",
    NodeType.TOOL_RESULT: "tool",
}


@dataclass(frozen=True)
class Lost(Message):
    """A message that says why the one it stands for cannot be read, and has the key of that one."""

    @classmethod
    def of(cls, key: str, why: str, role: Role = "user") -> Lost:
        """Return the stand-in for the message with this key."""
        message = cls(role, (Text(f"[message {key[:16]} cannot be read: {why}]"),))
        message.__dict__["key"] = key  # else it would be worked out from this text
        return message

    def in_row(self, node_type: str) -> Lost:
        """Return the same in the role that messages of such a row have."""
        message = Lost(_ROLES.get(node_type, self.role), self.parts)
        message.__dict__["key"] = self.key
        return message


def tell_once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """`tell`, for texts that it has not heard."""
    heard: set[str] = set()

    def hear(text: str) -> None:
        if text not in heard:
            heard.add(text)
            tell(text)

    return hear


def damage_error(what: str) -> StoreError:
    """Return the error for a piece of the record that is not what it should be."""
    return StoreError(f"{what}: the store is damaged, run `windlass verify` to see how")


def stand_in_for(key: str, why: str, blobs: BlobPlace, what: str = "file") -> Lost:
    """The stand-in for a message, of which `blobs` is told. Raises StoreError: none is wanted."""
    sentence = f"the {what} of message {key!r} {why}" if what else f"there is no message {key!r}"
    if blobs.on_lost is None:
        raise damage_error(sentence)
    blobs.on_lost(sentence)
    return Lost.of(key, f"its {what or 'row'} {key} {why}")
