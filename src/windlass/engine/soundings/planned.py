"""The attempts of a round before they begin: with which model, and in which words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from windlass.cascade.sounding_options import Soundings, VariedOptions
from windlass.engine.cascade_run import AS_WRITTEN, Wording
from windlass.messages import Part, Text
from windlass.text.prompts import OF_MODES


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt to come: its settings in place of the phase's, and its words."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wording: Wording = AS_WRITTEN

    @property
    def model(self) -> str:
        """The model that is named for it (empty: the phase's)."""
        return str(self.settings.get("model", ""))


def plan_round(
    wanted: Soundings, varied: VariedOptions, factor: int, seed: str, refined: Sequence[Part] = ()
) -> list[Planned]:
    """Return the attempts of a round, in their order.

    What is to be refined stands behind the instructions of each. A draw of models is made by the
    seed.
    """
    settings = _settings(wanted, factor, seed)
    words = wordings(varied, factor)
    behind = Wording(after=tuple(refined))
    return [Planned(*each) for each in zip(settings, map(behind.joined, words), strict=True)]


def _settings(wanted: Soundings, factor: int, seed: str) -> list[Mapping[str, Any]]:
    models: list[Mapping[str, Any]] = [each.changes for each in wanted.attempt_models]
    if models and wanted.model_strategy == "random":
        drawing = random.Random(seed)  # noqa: S311  # a draw that can be made again
        if len(models) == factor:
            drawing.shuffle(models)
        else:
            models = drawing.choices(models, k=factor)
    return list(islice(cycle(models or [{}]), factor))


def wordings(varied: VariedOptions, factor: int) -> list[Wording]:
    """Return how each attempt is asked; the first in the words of the cascade.

    >>> [each.after for each in wordings(VariedOptions(mutate=["Be brief."]), 2)]
    [(), (Text(text='Be brief.'),)]
    """
    if not varied.mutate:
        return [AS_WRITTEN] * factor
    texts = varied.mutations or OF_MODES[varied.mutation_mode]
    worded = (_worded(varied.mutation_mode, text) for text in cycle(texts))
    return [AS_WRITTEN, *islice(worded, factor - 1)]


def _worded(mode: str, text: str) -> Wording:
    match mode:
        case "rewrite":
            return Wording(orders=(text,))
        case "augment":
            return Wording(before=(Text(text),))
        case _:
            return Wording(after=(Text(text),))
