"""What an injector is: a name, a tier, a priority, a cap in tokens, a guard and a renderer.

A user's own injector is one class that derives from `Injector`. It gets a `Situation` and returns
text in whole items; it counts no tokens, and places nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from windlass.injectors.variation import PLAIN, Style
from windlass.messages import ToolSpec

if TYPE_CHECKING:
    from windlass.memory.banks import Memory

LOOK: Final = "look_again"
"""The tool that shows a picture or a file again."""


class Tier(StrEnum):
    """How long a block stays unchanged, and so where it is placed in a request."""

    STABLE = "STABLE"
    """Part of the system prompt: the same for every call of a phase."""

    SESSION = "SESSION"
    """A message after the system prompt: the same until its subject changes."""

    DYNAMIC = "DYNAMIC"
    """The last part of the last message: new at each call."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that failed and has not succeeded since: the tool, its arguments, the first line."""

    tool: str
    arguments: str
    reason: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What an injector may look at."""

    session_id: str
    phase: str
    task: str
    """The instructions of the phase."""
    turn: int = 1
    """The call within the phase, from 1."""
    call: int = 1
    """The call within the session, from 1."""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    root: Path = Path()
    """The folder of the run's files."""
    closed: Path | None = None
    """A folder inside it that is off limits."""
    banks: tuple[str, ...] = ()
    """The memory banks that the phase reads."""
    memories: Callable[[Sequence[str]], Sequence[Memory]] = lambda _: ()
    """Returns the current memories of some banks."""
    failures: tuple[FailedCall, ...] = ()
    """Calls that failed, newest first."""
    skills: tuple[str, ...] = ()
    """The names of skills that the model asked for."""
    tools: tuple[str, ...] = ()
    """The names of the tools that the phase has."""
    style: Style = PLAIN
    """How progress and lists are written."""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """Volatile values that were moved out of the stable tier, by name."""
    artifacts: tuple[Artifact, ...] = ()
    """The session's pictures and files, newest first."""
    system: str = ""
    """The rendered system prompt."""
    definitions: tuple[ToolSpec, ...] = ()
    """The definitions of the phase's tools."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A picture or file of the session: its reference for `look_again`, its kind, its description.

    `described`: the model wrote the description. `in_sight`: the request already shows it.
    """

    reference: str
    what: str
    says: str = ""
    described: bool = False
    in_sight: bool = False


@dataclass(frozen=True, slots=True)
class BlockItem:
    """A piece of a block that is shown as a whole or not at all. `key` names it in the record."""

    text: str
    key: str = ""

    @property
    def name(self) -> str:
        """Its key, or else the beginning of its first line."""
        return self.key or self.text.strip().partition("\n")[0][:80]


@dataclass(frozen=True, slots=True)
class Rendered:
    """The output of an injector: a first line, and items, the most important first.

    `left_out` names what it left out by itself, for the record.
    """

    head: str = ""
    items: tuple[BlockItem, ...] = ()
    left_out: tuple[str, ...] = ()


class Injector:
    """Adds one named block to the prompt. Derive from it and set `name`, `tier` and `render`.

    `priority`: lower numbers stand first within a tier. `cap`: the most tokens of its block.
    `version`: change it whenever the same situation renders differently. `refreshes`: whether a
    SESSION block is rendered at each call, so that changes are seen.
    """

    name: ClassVar[str] = ""
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 50
    cap: ClassVar[int] = 300
    version: ClassVar[str] = "1"
    refreshes: ClassVar[bool] = False

    def guard(self, seen: Situation) -> bool:  # noqa: ARG002 - for those who derive
        """Return whether it has anything to add; if False, it is not rendered."""
        return True

    def render(self, seen: Situation) -> Rendered | str | None:  # noqa: ARG002
        """Return its content; None or an empty text adds no block. A text is one item."""
        raise TypeError(f"injector {type(self).__name__} has no method 'render'")


def option(default: Any, meaning: str) -> Any:
    """Return a field of an injector that can be set in a cascade, and what it means."""
    return field(default=default, metadata={"meaning": meaning})
