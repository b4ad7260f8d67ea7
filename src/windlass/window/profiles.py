"""The profiles: sets of options with names. Every number of a profile stands here and nowhere else.

`default` says every option; the others say what they have otherwise. What a user writes goes
before what the profile says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

Profile: TypeAlias = Literal["default", "lean", "careful", "spec"]
Commit: TypeAlias = Literal["priced", "at_once"]

_DEFAULT: Final[Mapping[str, Any]] = {
    "enabled": True,
    "commit": "priced",
    "guard": None,
    "window": 1,
    "mask_observations_after": None,
    "min_masked_chars": 200,
    "preserve_reasoning": True,
    "preserve_errors": True,
    "see_results": 1,
    "see_reads": 8,
    "see_shell_reads": 2,
    "see_crowded": 2,
    "see_named": 8,
    "most_waiting": 16_000,
    "most_crowded": 8_000,
    "without_cache": {
        "see_reads": 16,
        "see_shell_reads": 12,
        "see_crowded": 16,
        "most_crowded": 16_000,
    },
    "digest_above_chars": 200,
    "share_records": 0.5,
    "most_records": 4_000,
    "share_text": 0.3,
    "most_text": 1_200,
    "error_chars": 300,
    "lossless": 400,
    "repeats": True,
    "supersede": True,
    "supersede_writes": True,
    "compress": {"above_chars": 32_000, "max_result_tokens": 8_000, "passed_lines": 20},
    "images_after": 2,
    "reasoning_max_chars": 2_000,
    "fold_after": None,
    "fold_subtasks": False,
    "shorten_arguments": False,
    "decay": None,
    "compress_loops": True,
    "loop_history_limit": 3,
    "attempt_chars": 500,
    "keep_recent_turns": 0,
    "keep_recent_images": 0,
    "max_input_tokens": None,
    "expand": False,
}

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": _DEFAULT,
    "lean": {
        **_DEFAULT,
        "see_reads": 3,
        "see_shell_reads": 1,
        "see_crowded": 1,
        "see_named": 0,
        "without_cache": None,
        "images_after": 1,
        "attempt_chars": 200,
    },
    "careful": {
        **_DEFAULT,
        "window": 5,
        "see_reads": 16,
        "see_shell_reads": 8,
        "see_crowded": 6,
        "most_waiting": 32_000,
        "most_crowded": 32_000,
        "without_cache": None,
        "most_text": 2_000,
        "error_chars": 400,
        "supersede_writes": False,
        "images_after": 4,
    },
    "spec": {
        **_DEFAULT,
        "window": 5,
        "mask_observations_after": 3,
        "see_results": None,
        "without_cache": None,
        "lossless": None,
        "repeats": False,
        "supersede": False,
        "supersede_writes": False,
        "error_chars": 400,
        "compress": {"above_chars": 1_500, "max_result_tokens": 3_000, "by_kind": True},
    },
}
"""From a profile's name to its options; `default` is what holds where none is named."""

ABOUT: Final[Mapping[str, str]] = {
    "default": "results are digested once they were seen, files that were read stay a few turns",
    "lean": "shows less and costs least; for agents that can read a file again",
    "careful": "keeps results and reads longer in sight, and costs more",
    "spec": "the documented numbers: window 5, observations masked after 3 turns",
}
"""What each profile is for, in half a sentence."""
