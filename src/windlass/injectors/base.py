"""What an injector is: a name, a tier, a priority, a cap in tokens, a guard, and what it renders.

A user's own injector is one class that derives from `Injector`. It sees a `Situation` and
answers with text in whole items; it counts no tokens, and places nothing.
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
    """How long a block stays as it is, and so where it stands in a request."""

    STABLE = "STABLE"
    """Part of the system prompt: the same for every call of a phase."""

    SESSION = "SESSION"
    """A message behind the system prompt: the same until what it tells of has changed."""

    DYNAMIC = "DYNAMIC"
    """The last part of the last message: new at each call."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that failed and did not succeed since: the tool, its arguments, the first line."""

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
    """A folder inside it that nobody looks into."""
    banks: tuple[str, ...] = ()
    """The memory banks that the phase reads."""
    memories: Callable[[Sequence[str]], Sequence[Memory]] = lambda _: ()
    """Gives what is in force in some banks."""
    failures: tuple[FailedCall, ...] = ()
    """Calls that failed, newest first."""
    skills: tuple[str, ...] = ()
    """The names of skills that the model asked for."""
    tools: tuple[str, ...] = ()
    """The names of the tools that the phase has."""
    style: Style = PLAIN
    """How progress and lists are written."""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """Volatile values that were moved out of the stable part, by name."""
    artifacts: tuple[Artifact, ...] = ()
    """The session's pictures and files, newest first."""
    system: str = ""
    """The rendered system prompt."""
    definitions: tuple[ToolSpec, ...] = ()
    """The definitions of the phase's tools."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A picture or a file of the session: what `look_again` takes, what it is, what is said of it.

    `described`: the model said it. `in_sight`: the request shows it anyway.
    """

    reference: str
    what: str
    says: str = ""
    described: bool = False
    in_sight: bool = False


@dataclass(frozen=True, slots=True)
class BlockItem:
    """A piece of a block that is shown whole or not at all. `key` names it in the record."""

    text: str
    key: str = ""

    @property
    def name(self) -> str:
        """Its key, else the beginning of its first line."""
        return self.key or self.text.strip().partition("\n")[0][:80]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What an injector has to say: a first line, and items, the most important first.

    `left_out` names what it left out by itself, for the record.
    """

    head: str = ""
    items: tuple[BlockItem, ...] = ()
    left_out: tuple[str, ...] = ()


class Injector:
    """Brings one named block into the prompt. Derive from it and say `name`, `tier`, `render`.

    `priority`: lower numbers stand first within a tier. `cap`: the most tokens of its block.
    `version`: another one whenever the same situation would be rendered otherwise. `refreshes`:
    whether a SESSION block is rendered at each call, so that changes are seen.
    """

    name: ClassVar[str] = ""
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 50
    cap: ClassVar[int] = 300
    version: ClassVar[str] = "1"
    refreshes: ClassVar[bool] = False

    def guard(self, seen: Situation) -> bool:  # noqa: ARG002 - for those who derive
        """Whether it has anything to say; False: it is not asked."""
        return True

    def render(self, seen: Situation) -> Rendered | str | None:  # noqa: ARG002
        """What it says; None or nothing: no block. A text is one item."""
        raise TypeError(f"injector {type(self).__name__} has no method 'render'")


def option(default: Any, meaning: str) -> Any:
    """A field of an injector that can be set in a cascade, and what it means."""
    return field(default=default, metadata={"meaning": meaning})
