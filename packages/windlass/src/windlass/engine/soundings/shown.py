"""Soundings as a person sees them who picks one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.cascade.evaluators import HumanEval
from windlass.engine.people.questions import Question
from windlass.messages import Picture
from windlass.text.prompts import cut_text

NONE_OF_THEM: Final = "none of them"
"""The answer that takes no sounding."""

_LONGEST: Final = 36_000
"""Characters of all outputs together that a person is shown; each is cut to its share."""


@dataclass(frozen=True, slots=True)
class ShownSounding:
    """A sounding as it is shown: its output, its pictures, and what it cost, if that counts."""

    index: int
    text: str
    pictures: Sequence[Picture] = ()
    cost: str | None = None


def question_about(
    phase: str, standing: Sequence[ShownSounding], looked_for: str | None, human: HumanEval
) -> Question:
    """Return what a person is asked about soundings; they are numbered from 1, as answers are."""
    share = _LONGEST // len(standing)
    parts = [looked_for] if looked_for else []
    for number, each in enumerate(standing, start=1):
        cost = f", {each.cost}" if each.cost else ""
        pictures = "".join(f"\n[{picture.describe()}]" for picture in each.pictures)
        heading = f"== attempt {number} (sounding {each.index}{cost})"
        parts.append(f"{heading}\n{cut_text(each.text, share)}{pictures}")
    options = [f"attempt {number}" for number in range(1, 1 + len(standing))]
    options += [NONE_OF_THEM] if human.allow_reject_all else []
    return Question(
        phase,
        f"Which attempt at {phase!r} is the best?",
        tuple(options),
        context="\n\n".join(parts),
        timeout_s=human.timeout_seconds,
    )
