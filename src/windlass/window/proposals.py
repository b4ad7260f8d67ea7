"""What policies are told of tools, and what they ask for: data, and no rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windlass.messages import Message
from windlass.window.entries import Because

if TYPE_CHECKING:
    from windlass.window.draft import Draft


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change that a policy would make.

    `span` are positions: one, which `write` gives the new message of, or a span to fold
    into the message that `write` gives. `write` is called when the change is made, with
    what is visible then; None: nothing is to be gained any more. With `write` None the
    span is dropped. `must`: the user's settings ask for it, whatever it costs.
    """

    span: tuple[int, ...]
    because: Because
    reason: str
    write: Callable[[Draft], Message | None] | None
    folds: bool = False
    must: bool = False
