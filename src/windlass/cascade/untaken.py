"""What a phase asks of its model that the model does not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.cascade.model import Cascade
from windlass.cascade.sizes import Warned
from windlass.wire.thinking import takes_choice


def untaken(cascade: Cascade, model_for: Callable[[str | None], str]) -> Iterator[Warned]:
    """A tool that is forced where the model decides for itself whether to call one.

    `model_for` gives the model of a phase whose file says this of it.
    """
    seen: set[str] = set()
    for at, phase in enumerate(cascade.phases):
        settings = cascade.settings_for(phase)
        model, choice = model_for(settings.model), settings.tool_choice or "auto"
        place = f"phases[{at}].tool_choice" if phase.tool_choice else "tool_choice"
        if takes_choice(model, choice) or place in seen:
            continue
        seen.add(place)
        text = (
            f"{model} takes no tool_choice {choice!r}; a run sends 'auto', and asks for the call"
            " at the end of the instructions"
        )
        yield Warned(cascade.mistake_at(place, text), mended=True)
