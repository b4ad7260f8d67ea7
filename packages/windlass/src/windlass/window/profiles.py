"""The profiles: sets of options with names, each where it differs from the defaults.

The defaults stand with the options, in `policies` and `options`. What a user writes goes
before what a profile says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

Profile: TypeAlias = Literal["default", "lean", "careful", "spec"]
Commit: TypeAlias = Literal["priced", "at_once"]

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "lean": {
        "cuts": "firm",
        "images_after": 1,
        "attempt_chars": 200,
    },
    "careful": {
        "cuts": None,
        "window": 5,
        "see_reads": 40,
        "most_text": 2_000,
        "error_chars": 400,
        "supersede_writes": False,
        "images_after": 4,
    },
    "spec": {
        "window": 5,
        "cuts": None,
        "mask_observations_after": 3,
        "see_results": None,
        "free_moments": None,
        "lossless": None,
        "repeats": False,
        "supersede_writes": False,
        "error_chars": 400,
        "compress": {"above_chars": 1_500, "max_result_tokens": 3_000, "by_kind": True},
    },
}
"""From a profile's name to the options that it has otherwise."""

ABOUT: Final[Mapping[str, str]] = {
    "default": "results are digested once they were seen, files that were read stay a few turns",
    "lean": "cuts long results firmly and lets old thinking go where that pays; costs least",
    "careful": "keeps results and reads longer in sight, and costs more",
    "spec": "the documented numbers: window 5, observations masked after 3 turns",
}
"""What each profile is for, in half a sentence."""

FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "In general": ("profile", "enabled"),
    "What is new": ("cuts", "repeats"),
    "What ages": ("see_results", "see_reads", "free_moments"),
    "Limits": ("keep_recent_turns", "max_input_tokens"),
    "Pictures": ("images_after",),
    "The bill": ("commit",),
}
"""The options that people set first, by what they are about. The others are rarely needed."""

RARE: Final = frozenset(
    {
        "guard",
        "mask_observations_after",
        "min_masked_chars",
        "fold_after",
        "fold_subtasks",
        "shorten_arguments",
        "decay",
        "server_clear",
        "compress.by_kind",
        "compress.search_results",
        "compress.search_chars",
        "compress.file_lines",
        "compress.file_chars",
        "compress.code_head",
        "compress.code_tail",
        "compress.code_chars",
        "compress.api_chars",
    }
)
"""Options that no profile but `spec` turns on: lists show them only when asked for all."""
