"""A session while it runs: what it was set up with, and the holders of what it comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from windlass.caching.rates import cost
from windlass.cascade.deterministic import stands_for
from windlass.cascade.flow import may_have_run, may_jump
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.ready import ReadyCascade, output_names
from windlass.engine._phase_run import BarePhase, Generation
from windlass.engine._session_state import ModelCaches, Notices, SessionState, SessionTotals
from windlass.engine.events import Event, Noted
from windlass.engine.injecting.injected import Injected
from windlass.engine.people.questions import AnswerSource
from windlass.engine.result import Result
from windlass.engine.resume.journal import Journal
from windlass.engine.turn.kept_results import KeptResults
from windlass.engine.turn.record import Recorder, with_usage
from windlass.history.base import NodeType, Row
from windlass.history.decisions import Remark
from windlass.history.row_details import RowDetails
from windlass.history.step import Step
from windlass.messages import Message, Part, ToolSpec
from windlass.providers.base import ModelInfo, Provider, Resolve
from windlass.providers.spending import Allowance
from windlass.settings.settings import Settings
from windlass.text.templates import NotRun
from windlass.tools.base import Spent, WebSearch
from windlass.tools.registry import Registry
from windlass.window.blocks import tools_needed
from windlass.window.thoughts import Thoughts
from windlass.wire.base import Usage
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


@dataclass(frozen=True, slots=True)
class Access:
    """Whom a run may ask, and within which limits; runs below it ask the same."""

    find_model: Resolve
    """Turns `provider/model` into its provider and what is known of the model."""
    allowances: tuple[Allowance, ...] = ()
    """The limits that hold; calls of the models that are found count against them."""
    answers: AnswerSource = field(default_factory=AnswerSource)
    """Where answers of a person come from."""
    search: WebSearch | None = None
    """The provider's search of the web that `web_search` has, if it has one."""

    def within(self, allowance: Allowance) -> Access:
        """Return the same, where each call counts against these limits, too."""
        limited = allowance.resolving(self.find_model)
        return replace(self, find_model=limited, allowances=(*self.allowances, allowance))


@dataclass(frozen=True, slots=True)
class Nesting:
    """Where a run stands among runs: which is above it, and how one below it runs."""

    parent: CascadeRun | None = None
    """The run under which this one has its session: as a sub-cascade of its phase `parent_phase`,
    or as one of its soundings (None: under none)."""
    parent_phase: str | None = None
    sounding: int | None = None
    """Its index among the soundings of a whole cascade, which `parent` is (None: it is none)."""
    wording: Wording = AS_WRITTEN
    """How the first phase is asked where it is a sounding."""
    run_below: Callable[[CascadeRun], Awaitable[Result]] | None = None
    """Runs a cascade below this one (None: it has not begun)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeRun:
    """One session: what it was set up with, and its progress."""

    record: Recorder
    """Where rows go."""
    input: Mapping[str, Any]
    """The user's input, as JSON values."""
    ready: ReadyCascade
    """The cascade that runs, checked, with its tools and with those below it."""
    settings: Settings
    """The user's settings."""
    access: Access
    """Whom it may ask: models, people, the web."""
    emit: Callable[[Event], None]
    """Where events go."""
    nesting: Nesting = field(default_factory=Nesting)
    """Where it stands among runs."""
    caches: ModelCaches = field(default_factory=ModelCaches)
    """The prompt caches of its models."""
    injected: Injected = field(default_factory=Injected)
    """The state of injectors for the session."""
    journal: Journal = field(default_factory=Journal)
    """The steps that the record of a resumed session knows."""
    thoughts: Thoughts = field(default_factory=Thoughts)
    """The beginning of the request before each reply, for models that bind their thinking to it."""
    session: SessionState = field(default_factory=SessionState)
    """State, outputs and edits, as its phases left them."""
    totals: SessionTotals = field(default_factory=SessionTotals)
    """Its calls so far, their tokens, their cost, and what windows saved."""
    notices: Notices = field(default_factory=Notices)
    """Findings that its user was told once."""
    kept_results: KeptResults = field(default_factory=KeptResults)
    """The results of tools that stand for later calls."""

    @property
    def cascade(self) -> Cascade:
        """The cascade that runs."""
        return self.ready.cascade

    @property
    def registry(self) -> Registry:
        """The tools by name."""
        return self.ready.registry

    @property
    def is_sounding(self) -> bool:
        """Whether it may turn out not to be the one that is taken."""
        own = self.record.sounding is not None or self.nesting.sounding is not None
        return own or (self.nesting.parent is not None and self.nesting.parent.is_sounding)

    @property
    def above(self) -> CascadeRun | None:
        """The run of whose phase it is a sub-cascade (None: of none's)."""
        parent = self.nesting.parent
        return parent.above if self.nesting.sounding is not None and parent else parent

    def resolve(self, name: str) -> tuple[Provider, ModelInfo]:
        """Return the provider of a model, and what is known of it. Raises UsageError."""
        return self.access.find_model(name)

    def step_of(self, on: BarePhase) -> Step:
        """Return the step of the call of a phase's turn."""
        return self.record.turn(on.phase.name, on.now.attempt, on.now.turn)

    def within(self, allowance: Allowance) -> CascadeRun:
        """Return the same run, each call of which counts against these limits, too."""
        return replace(self, access=self.access.within(allowance)) if allowance.limits else self

    def with_cascade(self, cascade: Cascade) -> CascadeRun:
        """Return the same run of a cascade that differs."""
        return replace(self, ready=self.ready._replace(cascade=cascade))

    def check_time(self) -> None:
        """Raise RunLimitReached where no step may begin any more."""
        for allowance in self.access.allowances:
            allowance.check_time()

    # ---- what its phases are made of -------------------------------------------------

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

    def definitions(
        self, allowed: Sequence[ToolSpec], messages: Sequence[Message]
    ) -> tuple[ToolSpec, ...]:
        """Return the tools a request must define: those it allows, and those its messages call."""
        registered = {name: self.registry.get(name).spec for name in self.registry.names()}
        return tools_needed(allowed, messages, registered)

    def stands_for(self, phase: Phase) -> str | None:
        """Return the phase whose output that of `phase` is, too (None: none's)."""
        return stands_for(phase.name, {each.name: each.on_error for each in self.cascade.phases})

    def where(self, phase: Phase, key: str) -> str:
        """Return where a key of a phase stands in the cascade's file."""
        names = [each.name for each in self.cascade.phases]
        return self.cascade.where(f"phases[{names.index(phase.name)}].{key}")

    def template_values(self) -> dict[str, Any]:
        """Return what templates see: input, state, outputs of earlier phases.

        Of phases that may have run and have not, outputs print nothing. Where the cascade was read
        leniently, so does what else is not there.
        """
        session = self.session
        values: dict[str, Any] = {
            "input": self.input,
            "state": session.state,
            "outputs": session.outputs,
        }
        if self.cascade.is_lenient:
            values["is_lenient"] = True
        phases = self.cascade.phases
        if not may_jump(phases):
            return values
        here = session.visit.phase
        index = next((at for at, each in enumerate(phases) if each.name == here), 0)
        names = [*may_have_run(phases, index)]
        for (at, position), child in self.ready.children.items():
            if phases[at].name in names and phases[at].sub_cascades[position].context_out:
                names += output_names(child.cascade)
        missing = {name: NotRun(partial(self._tell_not_run, name)) for name in names}
        return {**values, "outputs": {**missing, **session.outputs}}

    def _tell_not_run(self, name: str) -> None:
        here = self.session.visit.phase
        text = f"phase {here!r}: outputs.{name} prints nothing, as {name!r} has not run"
        self.tell_once(here, text, Remark("outputs"))

    # ---- what is told, and what is paid ----------------------------------------------

    def tell(self, phase: str, text: str, details: RowDetails, *, detail: bool = False) -> None:
        """Record a decision, and tell it to who watches; `detail` as in `Noted`."""
        self.record.decide(phase, text, details)
        self.emit(Noted(phase, text, detail))

    def tell_once(self, phase: str, text: str, details: RowDetails) -> None:
        """The same, but for what was told before in this run."""
        if text not in self.notices.told:
            self.notices.told.add(text)
            self.tell(phase, text, details)

    def charge(self, info: ModelInfo, usage: Usage, *, saved: int = 0) -> float | None:
        """Add a call to the session's totals and return its cost in US dollars."""
        dollars = 0.0 if info.free else cost(info.name, **asdict(usage))
        self.totals.add(usage, dollars, saved)
        return dollars

    def charge_tool(self, spent: Spent) -> float | None:
        """Return the same for what a tool's own call of a model used."""
        dollars = spent.dollars
        if dollars is None:
            dollars = cost(spent.model, **asdict(spent.usage))
        self.totals.add(spent.usage, dollars)
        return dollars

    def charge_beside(
        self, phase: str, text: str, details: RowDetails, *, info: ModelInfo, usage: Usage
    ) -> None:
        """Charge a call beside those of the phase's turns, and record what came of it."""
        row = Row(NodeType.DECISION, phase=phase, turn=0, text=text, details=details)
        self.record.append([with_usage(row, info.name, usage, self.charge(info, usage))])
