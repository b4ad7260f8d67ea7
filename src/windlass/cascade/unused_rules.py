"""Rules that are written and never followed: told before a run, because somebody meant them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from windlass.cascade.load import PartialCascade
from windlass.cascade.model import Phase
from windlass.cascade.tools_named import wards_of
from windlass.errors import Mistake

_WITHOUT_JUDGE: Final = "nothing refuses an output of this phase: it has no 'loop_until'"


def unused_rules(partial: PartialCascade) -> Iterator[Mistake]:
    """A warning for each text of a phase's rules that no run ever says."""
    for index, phase in enumerate(partial.cascade.phases):
        for key, why in _unused(partial, phase):
            yield partial.mistake(("phases", index, "rules", key), f"is never said: {why}")


def _unused(partial: PartialCascade, phase: Phase) -> Iterator[tuple[str, str]]:
    rules = phase.rules
    judged = rules.loop_until is not None or partial.cascade.settings_for(phase).output_schema
    retries = any(ward.mode == "retry" and place == "post" for place, _, ward in wards_of(phase))
    if rules.retry_instructions is not None and not retries:
        if not judged:
            yield "retry_instructions", f"{_WITHOUT_JUDGE} and no 'output_schema'"
        elif rules.max_attempts == 1:
            yield "retry_instructions", "'max_attempts' is 1"
    if rules.turn_prompt is not None and rules.max_turns == 1:
        yield "turn_prompt", "'max_turns' is 1"
    if rules.loop_until_prompt is not None and rules.loop_until_silent:
        yield "loop_until_prompt", "'loop_until_silent' is true"
