"""What tests of tasks sections build their cases of; others use it, too."""

from __future__ import annotations

INHERITED, PREVIOUS, FRESH = (
    "## Inherited context",
    "## Previous outputs",
    "## Relevant material",
)
