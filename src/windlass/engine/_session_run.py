"""A session while it runs: what it was set up with, and the holders of what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from windlass.caching.rates import cost
from windlass.engine._meters import ModelCaches, Net
from windlass.engine._session_state import Notices, SessionState, SessionTotals
from windlass.engine.events import Event, Noted
from windlass.engine.injecting.injected import Injected
from windlass.engine.people.questions import AnswerSource
from windlass.engine.resume.journal import Journal
from windlass.engine.turn.kept_results import KeptResults
from windlass.engine.turn.record import Recorder
from windlass.history.row_details import RowDetails
from windlass.messages import Message, ToolSpec
from windlass.providers.base import ModelInfo, Provider
from windlass.providers.spending import Allowance
from windlass.settings.settings import Settings
from windlass.tools.base import Spent, WebSearch
from windlass.tools.registry import Registry
from windlass.window.blocks import tools_needed
from windlass.window.thoughts import Thoughts
from windlass.wire.base import Usage


@dataclass(frozen=True, slots=True)
class Run:
    """One session: what it was set up with, and its progress."""

    record: Recorder
    """Where rows go."""
    input: Mapping[str, Any]
    """The user's input, as JSON values."""
    resolve: Callable[[str], tuple[Provider, ModelInfo]]
    """Turns `provider/model` into its provider and what is known of the model."""
    registry: Registry
    """The tools by name."""
    emit: Callable[[Event], None]
    """Where events go."""
    settings: Settings
    """The user's settings."""
    search: WebSearch | None = None
    """The provider's search of the web that `web_search` has, if it has one."""
    caches: ModelCaches = field(default_factory=ModelCaches)
    """The prompt caches of its models."""
    net: Net = field(default_factory=Net)
    """The dollars that windows saved and cost."""
    injected: Injected = field(default_factory=Injected)
    """The state of injectors for the session."""
    journal: Journal = field(default_factory=Journal)
    """The steps that the record of a resumed session knows."""
    thoughts: Thoughts = field(default_factory=Thoughts)
    """The beginning of the request before each reply, for models that bind their thinking to it."""
    session: SessionState = field(default_factory=SessionState)
    """State, outputs and edits, as its phases left them."""
    totals: SessionTotals = field(default_factory=SessionTotals)
    """Its calls so far, their tokens and their cost."""
    notices: Notices = field(default_factory=Notices)
    """Findings that its user was told once."""
    allowances: tuple[Allowance, ...] = ()
    """The limits that hold for it; calls through `resolve` count against them."""
    kept_results: KeptResults = field(default_factory=KeptResults)
    """The results of tools that stand for later calls."""
    answers: AnswerSource = field(default_factory=AnswerSource)
    """Where answers of a person come from."""

    def definitions(
        self, allowed: Sequence[ToolSpec], messages: Sequence[Message]
    ) -> tuple[ToolSpec, ...]:
        """Return the tools a request must define: those it allows, and those its messages call."""
        registered = {name: self.registry.get(name).spec for name in self.registry.names()}
        return tools_needed(allowed, messages, registered)

    def template_values(self) -> dict[str, Any]:
        """Return the values that templates see: input, state, outputs of earlier phases."""
        session = self.session
        return {"input": self.input, "state": session.state, "outputs": session.outputs}

    def tell(self, phase: str, text: str, details: RowDetails, *, detail: bool = False) -> None:
        """Record a decision, and tell it to who watches; `detail` as in `Noted`."""
        self.record.decide(phase, text, details)
        self.emit(Noted(phase, text, detail))

    def tell_once(self, phase: str, text: str, details: RowDetails) -> None:
        """The same, but for what was told before in this run."""
        if text not in self.notices.told:
            self.notices.told.add(text)
            self.tell(phase, text, details)

    def check_time(self) -> None:
        """Raise RunLimitReached where no step may begin any more."""
        for allowance in self.allowances:
            allowance.check_time()

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
