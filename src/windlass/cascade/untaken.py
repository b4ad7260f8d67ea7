"""What a phase asks of its model that the model does not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.cascade.layers import windowed
from windlass.cascade.model import Cascade
from windlass.cascade.sizes import Warned
from windlass.declared import Model
from windlass.wire.editing import clears_tool_uses
from windlass.wire.thinking import takes_choice


def untaken(cascade: Cascade, model_for: Callable[[str | None], str]) -> Iterator[Warned]:
    """Where a model decides for itself whether to call a tool, or its provider clears no tool uses.

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
    yield from _uncleared(cascade, model_for)


def _uncleared(cascade: Cascade, model_for: Callable[[str | None], str]) -> Iterator[Warned]:
    seen: set[str] = set()
    for at, phase in enumerate(cascade.phases):
        policy = windowed(cascade, phase).value
        model = model_for(cascade.settings_for(phase).model)
        if policy is None or policy.server_clear is None or clears_tool_uses(model):
            continue
        own = phase.intra_context
        says = isinstance(own, Model) and "server_clear" in own.model_fields_set
        inside = f"phases[{at}].intra_context" if says else "auto_context.intra_phase"
        place = f"{inside}.server_clear"
        if place not in seen:
            seen.add(place)
            text = (
                f"the provider of {model} clears no tool uses; models of anthropic/ do, and a run"
                " of this one sends them all"
            )
            yield Warned(cascade.mistake_at(place, text), mended=True)
