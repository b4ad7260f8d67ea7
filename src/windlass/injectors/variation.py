"""How progress, separators, lists and labels are written in the DYNAMIC tier.

Always the same way, unless variation is asked for: then by a seed made of the session, the
phase and the turn, so that a replay writes the same. Nothing of it stands before a cut point that
is cached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Progress: TypeAlias = Literal["fraction", "percentage", "bar", "steps"]
Listing: TypeAlias = Literal["bulleted", "numbered", "indented"]

PROGRESS: Final[tuple[Progress, ...]] = ("fraction", "percentage", "bar", "steps")
"""Forms of progress: 3/5 steps completed; 60%; [######----]; step 3 of 5."""
SEPARATORS: Final = ("\n\n", "\n---\n", "\n===\n", "\n***\n")
"""What stands between blocks: a blank line, or one of three rules."""
LISTINGS: Final[tuple[Listing, ...]] = ("bulleted", "numbered", "indented")
LABELS: Final = ("Progress:", "Status:", "Current state:")
BAR: Final = 10
"""Characters of a progress bar."""


@dataclass(frozen=True, slots=True)
class Style:
    """One way to write. `separator` stands between blocks, `label` before progress."""

    progress: Progress = "fraction"
    separator: str = "\n\n"
    listing: Listing = "bulleted"
    label: str = "Progress:"

    def progress_text(self, done: int, total: int) -> str:
        """How far something is, with its label.

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
        """The items of a list, a text each.

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
"""How it is written where no variation is asked for."""


def style_of(seed: str, phase: str, turn: int) -> Style:
    """The way to write at one call, the same whenever it is asked for."""
    digest = hashlib.sha256(f"{seed}\0{phase}\0{turn}".encode()).digest()
    return Style(
        PROGRESS[digest[0] % len(PROGRESS)],
        SEPARATORS[digest[1] % len(SEPARATORS)],
        LISTINGS[digest[2] % len(LISTINGS)],
        LABELS[digest[3] % len(LABELS)],
    )
