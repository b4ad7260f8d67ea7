"""What tests of engine forecast build their cases of; others use it, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.api.loading import load_cascade
from windlass.cascade.ready import ReadyCascade
from windlass.engine.cascade_run import Access
from windlass.engine.opening import open_session
from windlass.engine.setup import prepare
from windlass.engine.turn.forecast import Forecast, forecast_cost
from windlass.history.sqlite import SqliteStore
from windlass.providers.base import Provider
from windlass.settings.settings import Settings

PRICED = "anthropic/claude-sonnet-4-5"


async def forecast(folder: Path, made: dict[str, Any], **models: Provider) -> Forecast:
    settings = Settings.read({"store": folder / "store"}, {}, folder)
    loaded, registry, *_ = load_cascade({"model": "a/x", **made}, settings)
    with SqliteStore(folder / "store") as store, open_session(store) as session:
        run = prepare(
            ReadyCascade(loaded, registry, {}),
            {},
            session,
            settings=settings,
            access=Access(lambda name: (models[name[0]], models[name[0]].model(name[2:]))),
            on_event=lambda event: None,
        )
        return await forecast_cost(run, PRICED)
