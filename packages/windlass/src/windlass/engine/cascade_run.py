"""A run of a cascade: what its phases need of it, beside what each call needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from windlass.cascade.children import Place, ReadyCascade, output_names
from windlass.cascade.deterministic import stands_for
from windlass.cascade.flow import may_have_run, may_jump
from windlass.cascade.model import Cascade, Phase
from windlass.engine._phase_run import Generation
from windlass.engine._session_run import Run
from windlass.engine.opening import OpenSession
from windlass.engine.result import Result
from windlass.history.decisions import Remark
from windlass.messages import Part
from windlass.providers.spending import Allowance
from windlass.safety.files import HERE, Folders
from windlass.settings.settings import Settings
from windlass.text.templates import NotRun
from windlass.wire.thinking import takes_choice


@dataclass(frozen=True, slots=True)
class Wording:
    """How a sounding is asked in its own words."""

    orders: tuple[str, ...] = ()
    """By which a model writes the instructions anew, one after the other."""
    before: tuple[Part, ...] = ()
    """Parts that stand before the instructions."""
    after: tuple[Part, ...] = ()
    """Parts that stand behind them."""

    def joined(self, other: Wording) -> Wording:
        """Both, the other one inside of what stands around the instructions already."""
        orders, before = self.orders + other.orders, self.before + other.before
        return Wording(orders, before, self.after + other.after)


AS_WRITTEN: Final = Wording()
"""The words of the cascade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeRun(Run):
    """A run that holds all that its user wrote."""

    opened: OpenSession
    """Its session, which this process holds."""
    cascade: Cascade
    """The cascade that runs."""
    settings: Settings
    """The user's settings."""
    children: Mapping[Place, ReadyCascade] = field(default_factory=dict[Place, ReadyCascade])
    """The sub-cascades, checked, by where they are named."""
    folders: Folders = HERE
    """Where the files must lie that the cascade names."""
    tool_cascades: Mapping[str, ReadyCascade] = field(default_factory=dict[str, ReadyCascade])
    """The cascades that are tools, checked, by their file."""
    run_below: Callable[[CascadeRun], Awaitable[Result]] | None = None
    """Runs a cascade below this one (None: it has not begun)."""
    parent: CascadeRun | None = None
    """The run under which this one has its session: as a sub-cascade of its phase `parent_phase`,
    or as one of its soundings (None: under none)."""
    parent_phase: str | None = None
    sounding: int | None = None
    """Its index among the soundings of a whole cascade, which `parent` is (None: it is none)."""
    wording: Wording = AS_WRITTEN
    """How the first phase is asked where it is a sounding."""

    def template_values(self) -> dict[str, Any]:
        """What templates see; of phases that may have run and have not, outputs print nothing.

        Where the cascade was read leniently, so does what else is not there.
        """
        values, session = Run.template_values(self), self.session
        if self.cascade.is_lenient:
            values["is_lenient"] = True
        phases = self.cascade.phases
        if not may_jump(phases):
            return values
        here = session.visit.phase
        index = next((at for at, each in enumerate(phases) if each.name == here), 0)
        names = [*may_have_run(phases, index)]
        for (at, position), child in self.children.items():
            if phases[at].name in names and phases[at].sub_cascades[position].context_out:
                names += output_names(child.cascade)
        missing = {name: NotRun(partial(self._tell_not_run, name)) for name in names}
        return {**values, "outputs": {**missing, **session.outputs}}

    def _tell_not_run(self, name: str) -> None:
        here = self.session.visit.phase
        text = f"phase {here!r}: outputs.{name} prints nothing, as {name!r} has not run"
        self.tell_once(here, text, Remark("outputs"))

    @property
    def is_sounding(self) -> bool:
        """Whether it may turn out not to be the one that is taken."""
        own = self.record.sounding is not None or self.sounding is not None
        return own or (self.parent is not None and self.parent.is_sounding)

    @property
    def above(self) -> CascadeRun | None:
        """The run of whose phase it is a sub-cascade (None: of none's)."""
        if self.sounding is not None and self.parent is not None:
            return self.parent.above
        return self.parent

    def stands_for(self, phase: Phase) -> str | None:
        """Return the phase whose output that of `phase` is, too (None: none's)."""
        return stands_for(phase.name, {each.name: each.on_error for each in self.cascade.phases})

    def within(self, allowance: Allowance) -> CascadeRun:
        """Return the same run, each call of which counts against these limits, too."""
        if not allowance.limits:
            return self
        return replace(
            self,
            resolve=allowance.resolving(self.resolve),
            allowances=(*self.allowances, allowance),
        )

    def generation_of(self, phase: Phase) -> Generation:
        """How a phase's replies are asked for: the flag, the phase, the cascade, else a default."""
        written = self.cascade.settings_for(phase)
        model = self.settings.model_for(written.model)
        _, info = self.resolve(model)
        limits = self.settings.with_cascade(
            {"max_output_tokens": written.max_output_tokens}, self.cascade.cascade_id
        )
        choice = written.tool_choice or "auto"
        wanted = "" if takes_choice(model, choice) else choice
        return Generation(
            model=model,
            max_output_tokens=limits.max_output_tokens or info.max_output_tokens,
            tool_choice="auto" if wanted else choice,
            wanted=wanted,
            temperature=written.temperature,
            reasoning_effort=written.reasoning_effort,
            output_schema=written.output_schema,
        )
