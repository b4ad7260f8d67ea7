"""What an injector is: a name, a tier, a priority, a cap in tokens, a guard and a renderer.

A user's own injector is one class that derives from `Injector`. It gets a `Situation` and returns
text in whole items; it counts no tokens, and places nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from windlass.messages import ToolSpec

if TYPE_CHECKING:
    from windlass.memory.banks import Memory

Progress: TypeAlias = Literal["fraction", "percentage", "bar", "steps"]
Listing: TypeAlias = Literal["bulleted", "numbered", "indented"]

PROGRESS: Final[tuple[Progress, ...]] = ("fraction", "percentage", "bar", "steps")
"""Forms of progress: 3/5 steps completed; 60%; [######----]; step 3 of 5."""
SEPARATORS: Final = ("\n\n", "\n---\n", "\n===\n", "\n***\n")
"""Separators between blocks: a blank line, or one of three rules."""
LISTINGS: Final[tuple[Listing, ...]] = ("bulleted", "numbered", "indented")
LABELS: Final = ("Progress:", "Status:", "Current state:")
BAR: Final = 10
"""Characters of a progress bar."""


@dataclass(frozen=True, slots=True)
class Style:
    """One way to write. `separator` goes between blocks, `label` before the progress."""

    progress: Progress = "fraction"
    separator: str = "\n\n"
    listing: Listing = "bulleted"
    label: str = "Progress:"

    def progress_text(self, done: int, total: int) -> str:
        """Format progress with its label.

        >>> Style().progress_text(3, 5)
        'Progress: 3/5 steps completed'
        >>> Style("bar", label="Status:").progress_text(3, 5)
        'Status: [######----]'
        """
        match self.progress:
            case "fraction":
                text = f"{done}/{total} steps completed"
            case "percentage":
                text = f"{100 * done // total}%"
            case "bar":
                full = BAR * done // total
                text = f"[{'#' * full}{'-' * (BAR - full)}]"
            case "steps":
                text = f"step {done} of {total} done"
        return f"{self.label} {text}"

    def listed(self, items: Sequence[str]) -> list[str]:
        """Format the items of a list, one text each.

        >>> Style(listing="numbered").listed(["a", "b"])
        ['1. a', '2. b']
        """
        match self.listing:
            case "bulleted":
                return [f"- {item}" for item in items]
            case "numbered":
                return [f"{at}. {item}" for at, item in enumerate(items, 1)]
            case "indented":
                return [f"    {item}" for item in items]


PLAIN: Final = Style()
"""The style without variation."""


def style_of(seed: str, phase: str, turn: int) -> Style:
    """Return the style of one call; the same arguments give the same style."""
    digest = hashlib.sha256(f"{seed}\0{phase}\0{turn}".encode()).digest()
    return Style(
        PROGRESS[digest[0] % len(PROGRESS)],
        SEPARATORS[digest[1] % len(SEPARATORS)],
        LISTINGS[digest[2] % len(LISTINGS)],
        LABELS[digest[3] % len(LABELS)],
    )


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
class ReadableBanks:
    """The memory banks that a phase reads, and what memories are in some banks now."""

    names: tuple[str, ...] = ()
    memories: Callable[[Sequence[str]], Sequence[Memory]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What a prompt is made of besides the texts of injectors, and how its lists are written.

    `system` is the rendered system prompt, `definitions` are those of the phase's tools, `values`
    the volatile values that were moved out of the stable tier, by name.
    """

    system: str = ""
    definitions: tuple[ToolSpec, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    style: Style = PLAIN


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
    banks: ReadableBanks = ReadableBanks()
    """The memory banks that the phase reads."""
    failures: tuple[FailedCall, ...] = ()
    """Calls that failed, newest first."""
    skills: tuple[str, ...] = ()
    """The names of skills that the model asked for."""
    tools: tuple[str, ...] = ()
    """The names of the tools that the phase has."""
    artifacts: tuple[Artifact, ...] = ()
    """The session's pictures and files, newest first."""
    prompt: PromptParts = field(default_factory=PromptParts)
    """What the prompt has besides the texts of injectors."""


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
