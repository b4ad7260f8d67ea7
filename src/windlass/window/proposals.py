"""What policies are told of tools, and what they ask for: data, and no rule."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.messages import Message


@dataclass(frozen=True, slots=True)
class Facts:
    """What is declared of a tool: the kind of its results, and what it touches.

    `kind` is one of `kinds.KINDS` (None: found out from the name and the text). `reads` and
    `writes` name the argument that holds what is read or written (a path, a key).
    """

    kind: str | None = None
    reads: str | None = None
    writes: str | None = None


@dataclass(frozen=True, slots=True)
class Want:
    """A text that a policy would like to show and cannot make itself (a summary).

    `key` names it, the same whenever the same messages are meant; `messages` are what it
    is to be made of; `purpose` says how; `max_tokens` is how long it may be.
    """

    key: str
    purpose: str
    messages: tuple[Message, ...]
    max_tokens: int
