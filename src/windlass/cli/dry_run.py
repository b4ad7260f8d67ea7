"""`windlass run --dry-run`: the first request and the largest cost, with nothing sent."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.api.loading import ReadingOptions, load_cascade
from windlass.api.opening import open_store
from windlass.caching.rates import many, money, override
from windlass.cli.cost_tables import price_text
from windlass.cli.ending import run_interruptibly
from windlass.cli.output import note, out, printed_as_json, progress, shorten, to_plain
from windlass.cli.progress import models_with_places
from windlass.cli.run_input import read_input
from windlass.cli.untrusted import list_unchecked, print_unchecked, strip_untrusted_family
from windlass.engine.cascade_run import Access
from windlass.engine.opening import open_session
from windlass.engine.setup import check_models, prepare
from windlass.engine.turn.forecast import Forecast, forecast_cost
from windlass.providers.at_hand import Providers
from windlass.settings.settings import Settings
from windlass.settings.trust import is_trusted


def _warn(text: str) -> None:
    (progress.print if text.startswith("warning: ") else note)(text)


def show_forecast(
    cascade: Path,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    how: ReadingOptions,
    *,
    auto: bool,
) -> None:
    """Show the first request, its tokens and price, and the largest possible cost.

    Nothing that the folder holds is run or started unless the user trusts it; a note lists what
    the request lacks for that.
    """
    values, trust = read_input(given or ()), bool(how.trust)
    settings = Settings.read(flags, trust=trust)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Settings.read({**flags, "store": folder}, trust=trust)
        ready = load_cascade(cascade, settings, auto=auto, how=how, input=values, warn=_warn)
        trusts = trust or is_trusted(cascade.resolve().parent)
        family = list(ready.walk())
        servers = () if trusts else [each.cascade for each in family]
        left_out = list_unchecked(settings, *(each.registry for each in family), left_out=servers)
        if left_out:
            ready = strip_untrusted_family(ready, settings)
        providers = Providers({}, settings, warn=_warn, keys=None)
        for each in ready.walk():
            check_models(each.cascade, settings, providers.resolve)
        try:
            with (
                open_store(scratch) as store,
                open_session(store) as session,
                override(settings.prices),
            ):
                access = Access(providers.resolve)
                prepared = prepare(ready, values, session, settings=settings, access=access)
                forecast = run_interruptibly(forecast_cost(prepared, settings.price_as))
        finally:
            run_interruptibly(providers.close())
    if printed_as_json({**to_plain(forecast), **({"unchecked": left_out} if left_out else {})}):
        return
    print_unchecked(left_out, settings)
    with override(settings.prices):
        _print_forecast(forecast, settings.addresses())


def _print_forecast(forecast: Forecast, addresses: Mapping[str, str]) -> None:
    out.print(f"models that would see content: {models_with_places(forecast.models, addresses)}")
    out.print(
        f"first request: phase {forecast.phase}, {forecast.tokens:,} input tokens,"
        f" {money(forecast.dollars)}"
    )
    for message in forecast.messages:
        out.print(f"\n{message.role}:", style="bold")
        out.print(shorten(message.text, 2_000))
    if forecast.tools:
        out.print(f"\ntools: {', '.join(forecast.tools)}")
    out.print(
        f"\nat most {many(forecast.most_calls, 'call')} and {money(forecast.most_dollars)},"
        " if every call filled its window and no cache held any of it"
        f"\nprices: {price_text(forecast.priced_as)}"
    )
    if forecast.search is not None:
        out.print(f"not counted there: searches of the web by {forecast.search}")
