"""A run of a cascade: what its phases need of it, beside what each call needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.cascade.children import Place, ReadyCascade
from windlass.cascade.model import Cascade, Phase
from windlass.engine.state import Generation, Run
from windlass.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeRun(Run):
    """A run that holds all that its user wrote."""

    cascade: Cascade
    """The cascade that runs."""
    settings: Settings
    """The user's settings."""
    children: Mapping[Place, ReadyCascade] = field(default_factory=dict[Place, ReadyCascade])
    """The sub-cascades, checked, by where they are named."""
    parent: CascadeRun | None = None
    """The run whose phase `parent_phase` runs this one as a sub-cascade (None: nobody does)."""
    parent_phase: str | None = None

    def generation_of(self, phase: Phase) -> Generation:
        """How a phase's replies are asked for: the flag, the phase, the cascade, else a default."""
        written = self.cascade.settings_for(phase)
        model = self.settings.model_for(written.model)
        _, info = self.resolve(model)
        limits = self.settings.with_cascade(
            {"max_output_tokens": written.max_output_tokens}, self.cascade.cascade_id
        )
        return Generation(
            model=model,
            max_output_tokens=limits.max_output_tokens or info.max_output_tokens,
            tool_choice=written.tool_choice or "auto",
            temperature=written.temperature,
            reasoning_effort=written.reasoning_effort,
            output_schema=written.output_schema,
        )
