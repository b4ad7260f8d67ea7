"""How progress, separators, lists and labels are written in the DYNAMIC tier.

They are always written in the same way, unless the user asks for variation. Then a seed from
session, phase and turn chooses the form, so that a replay writes the same. None of it is placed
before a cached cut point.
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
