"""The breaker over many runs of one cascade: what is a loss, and what it never switches off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, Ran, by_phase, cascade, phase
from tests.engine.logs import logs, lookup, reading, shown
from tests.support.engine_planning import set_prices
from windlass.engine.events import Event
from windlass.history.base import Batch, Outcome, SessionStart
from windlass.history.details import OutcomeDetails, WindowSavings
from windlass.history.sqlite import SqliteStore
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted
from windlass.wire.base import Reply, Request, Usage

BUILDS = tuple(str(number) for number in range(20))


class Paid(Scripted):
    """A scripted model that is paid for, with a window of its own."""

    def __init__(self, replies: Mapping[str, Sequence[Any]], window: int) -> None:
        super().__init__(by_phase(replies), window=window)

    def model(self, name: str) -> ModelInfo:
        return replace(super().model(name), free=False)

    def told(self, usage: Usage) -> Usage:
        """What it reports of a call."""
        return usage

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        reply = await super().send(request, on_text)
        return replace(reply, usage=self.told(reply.usage))


@pytest.fixture
def priced(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.chdir(house.folder)
    set_prices(house)
    return house


async def run(
    house: House,
    made: Mapping[str, Any],
    replies: Mapping[str, Sequence[Any]] | None = None,
    *,
    model: type[Paid] = Paid,
    window: int,
) -> Ran:
    events: list[Event] = []
    scripted = model(replies or reading(*BUILDS), window)
    result = await windlass.run(
        made,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[logs()],
        providers={"scripted": scripted},
        on_event=events.append,
    )
    return Ran(result, scripted, house.open_store(), events)


def windows(ran: Ran) -> Mapping[str, Any]:
    """What a session's outcome tells of its windows."""
    (outcome,) = [one for one in ran.store.outcomes(ran.session) if one.phase is None]
    savings = outcome.details.windows
    return {} if savings is None else asdict(savings)


def net(ran: Ran) -> float:
    return float(windows(ran)["net"])


def lose(house: House, count: int) -> None:
    """Put sessions into the store whose windows lost money."""
    store = SqliteStore(house.store)
    told = OutcomeDetails(WindowSavings(5, saved=-9.0, net=-9.0))
    for number in range(count):
        store.append(Batch(f"lost_{number}", start=SessionStart("test", "m", {}, {}, 1.0)))
        store.append(Batch(f"lost_{number}", outcomes=[Outcome("completed", 2.0, details=told)]))
    store.close()


WORKING = {
    "the model's window": (12_000, lookup()),
    "a budget": (30_000, lookup(max_input_tokens=7_000)),
    "newest turns": (30_000, lookup(intra_context={"keep_recent_turns": 3})),
    "expiry": (30_000, lookup(context_ttl={"tool_results": 1})),
}


@pytest.mark.parametrize(("window", "asked"), WORKING.values(), ids=WORKING)
async def test_a_cascade_that_works_by_its_windows_goes_on_working(
    priced: House, window: int, asked: dict[str, Any]
) -> None:
    set_prices(priced, write=3.0, read=0.0)  # shortening what is cached never pays
    made = cascade(asked, auto_context={})
    for _ in range(5):
        ran = await run(priced, made, window=window)
        assert ran.result.error is None
        assert ran.decisions("breaker") == []
    assert windows(ran)["needed"]  # so it is no loss: everything could not have been sent


@pytest.mark.parametrize(("window", "asked"), WORKING.values(), ids=WORKING)
async def test_what_keeps_to_limits_is_never_switched_off(
    priced: House, window: int, asked: dict[str, Any]
) -> None:
    made = cascade(asked, auto_context={})
    lose(priced, 4)
    ran = await run(priced, made, window=window)
    (told,) = ran.decisions("breaker")
    assert "breaker_sessions" in told["text"]
    assert ran.result.error is None
    last = shown(ran, -1)
    if "max_input_tokens" in asked:
        assert all(one.sent_tokens <= 7_000 for one in ran.calls())
    if "intra_context" in asked:
        assert len(last) == 3
    # What saves money is off: of what is shown at all, the first half of a result is not shorter.
    whole = [text for text in last if "characters" not in text and "expired" not in text]
    assert whole
    assert len(set(map(len, whole[:9]))) == 1
    assert windows(ran) == {}


@pytest.mark.parametrize(("window", "fits"), [(30_000, True), (11_000, False)])
async def test_a_phase_that_chooses_still_chooses_what_would_not_fit(
    priced: House, window: int, fits: bool
) -> None:
    apart = {**lookup(), **phase("c"), "context": {"from": []}}
    made = cascade(lookup(), apart, phase("b", context={"mode": "auto"}))
    replies = reading(*BUILDS[:4]) | {"c": reading(*BUILDS[4:8])["a"]}
    lose(priced, 4)
    ran = await run(priced, made, replies, window=window)
    assert ran.result.error is None
    assert (len(shown(ran, 1, "b")) == 8) is fits
    (off,) = ran.decisions("switched_off")
    assert "where all of it fits, because the breaker (breaker_sessions)" in off["text"]


class Careless(Paid):
    """Reports that nothing was ever read from a cache."""

    def told(self, usage: Usage) -> Usage:
        return replace(usage, tokens_cached=0)


class Silent(Paid):
    """Reports nothing, so that somebody else counted."""

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        reply = await super().send(request, on_text)
        usage = replace(reply.usage, tokens_cached=0)
        return replace(reply, usage=usage, estimated=True)


async def test_what_the_provider_reported_is_what_counts(priced: House) -> None:
    """Without a cache every token that is left out is saved, whatever a cache would have given."""
    set_prices(priced, write=1.25, read=0.0)
    made = cascade(lookup(), system="Be careful. " * 600, auto_context={"commit": "at_once"})
    counted = await run(priced, made, model=Silent, window=200_000)
    reported = await run(priced, made, model=Careless, window=200_000)
    assert net(counted) < 0 < net(reported)
    left_out = sum(one.full_tokens - one.sent_tokens for one in reported.calls())
    assert net(reported) == pytest.approx(left_out / 1e6, rel=0.01)


class Twice(Paid):
    """Counts twice the tokens that we do."""

    def told(self, usage: Usage) -> Usage:
        return replace(usage, tokens_in=2 * usage.tokens_in, tokens_cached=2 * usage.tokens_cached)


async def test_everything_is_counted_as_the_provider_counts(priced: House) -> None:
    made = cascade(lookup(), auto_context={})
    once = await run(priced, made, window=200_000)
    twice = await run(priced, made, model=Twice, window=200_000)
    assert net(once) > 0
    assert net(twice) == pytest.approx(2 * net(once), rel=0.01)
