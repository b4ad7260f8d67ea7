"""What the runs of one call are set up with, and what is checked before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from windlass.api.opening import EngineCall, OnEvent
from windlass.cascade.children import ReadyCascade
from windlass.engine.cards.card_models import check_cards
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.opening import OpenSession
from windlass.engine.people.questions import AnswerSource
from windlass.engine.setup import check_models, prepare
from windlass.engine.turn.approving import approvable
from windlass.providers.base import Resolve
from windlass.providers.spending import Allowance
from windlass.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What runs are set up with; their calls of models count against all `allowances`."""

    call: EngineCall
    settings: Settings
    allowances: tuple[Allowance, ...]
    """Those that runs share, then the run's own."""
    person: AnswerSource
    """Answers what a model asks, and what tools need."""
    on_event: OnEvent | None

    @classmethod
    def of(
        cls,
        call: EngineCall,
        answers: Mapping[str, Any] | Sequence[Any] = (),
        *,
        settings: Settings | None = None,
        allowances: Iterable[Allowance] | None = None,
    ) -> Self:
        """Return the setup of a call, by default with the settings and the limits of its engine."""
        options = call.options
        if allowances is None:
            allowances = (*options["allowances"], _limits_of_run(call))
        person = AnswerSource(answers, options["on_question"], options["approve"])
        return cls(call, settings or call.settings, tuple(allowances), person, call.on_event)

    @classmethod
    def of_batch(cls, call: EngineCall, whole: Allowance) -> Self:
        """The setup of the runs of a batch, which stay within the limits of the `whole`, too."""
        shared = call.options["allowances"]
        return cls.of(call, allowances=(*shared, whole, _limits_of_run(call)))

    def for_row(self, on_event: OnEvent | None) -> RunSetup:
        """Get the setup of one run of a batch, with limits of its own; `on_event` is told of it."""
        allowances = (*self.allowances[:-1], _limits_of_run(self.call))
        return replace(self, allowances=allowances, on_event=on_event)

    @property
    def resolve(self) -> Resolve:
        """Return how models are found, each of which counts against all allowances."""
        return self._within(self.allowances)

    @property
    def resolve_shared(self) -> Resolve:
        """Return how models are found that are no part of a run.

        They count against what runs share.
        """
        return self._within(self.allowances[:-1])

    def _within(self, allowances: Iterable[Allowance]) -> Resolve:
        resolve: Resolve = self.call.resources.providers.resolve
        for allowance in allowances:
            resolve = allowance.resolving(resolve)
        return resolve

    def check_approvals(self, family: Iterable[ReadyCascade]) -> None:
        """Raise UsageError for an approval of what needs none in these cascades."""
        self.person.check(*(approvable(each.cascade, each.registry) for each in family))

    def check_models(self, family: Iterable[ReadyCascade]) -> None:
        """Raise UsageError for a model of these cascades or their cards that does not exist."""
        resolve = self.resolve
        for each in family:
            check_models(each.cascade, self.settings, resolve)
            check_cards(each.cascade, self.settings, resolve)

    def check(self, family: Iterable[ReadyCascade]) -> None:
        """Raise UsageError for approvals and models of these cascades that no run could use."""
        listed = list(family)
        self.check_approvals(listed)
        self.check_models(listed)

    def prepare(
        self,
        ready: ReadyCascade,
        input: Mapping[str, Any],  # noqa: A002  (the DSL's word)
        session: OpenSession,
    ) -> CascadeRun:
        """Return a run of a checked cascade in a session that is open, not begun."""
        run = prepare(
            ready,
            input,
            session,
            settings=self.settings,
            resolve=self.resolve,
            on_event=self.on_event,
        )
        return replace(run, allowances=self.allowances, answers=self.person)


def _limits_of_run(call: EngineCall) -> Allowance:
    return Allowance("the run", **call.engine.limits)
