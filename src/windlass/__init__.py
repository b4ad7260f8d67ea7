"""Windlass: the context engine for LLM workflows. These are its public names."""

TYPE_CHECKING = False  # typing's own, without the 10 ms that importing it takes

__version__ = "0.1.0"

__all__ = [
    "Cascade",
    "Context",
    "Phase",
    "Policy",
    "Prices",
    "WindlassError",
    "batch",
    "batch_sync",
    "bound",
    "compare",
    "compare_sync",
    "evaluate",
    "evaluate_sync",
    "fork",
    "fork_sync",
    "import_sessions",
    "query_unified",
    "replay",
    "resume",
    "resume_sync",
    "run",
    "run_sync",
    "select",
    "tune",
    "wrap",
]

_HOMES = {
    "Cascade": "windlass.cascade.model",
    "Context": "windlass.loop.context",
    "Phase": "windlass.cascade.model",
    "Policy": "windlass.window.options",
    "Prices": "windlass.caching.prices",
    "WindlassError": "windlass.errors",
    "batch": "windlass.api",
    "batch_sync": "windlass.api",
    "bound": "windlass.loop.bound",
    "compare": "windlass.api",
    "compare_sync": "windlass.api",
    "evaluate": "windlass.api",
    "evaluate_sync": "windlass.api",
    "fork": "windlass.sessions",
    "fork_sync": "windlass.sessions",
    "import_sessions": "windlass.recordings",
    "query_unified": "windlass.api",
    "replay": "windlass.recordings",
    "resume": "windlass.sessions",
    "resume_sync": "windlass.sessions",
    "run": "windlass.api",
    "run_sync": "windlass.api",
    "select": "windlass.loop.select",
    "tune": "windlass.recordings",
    "wrap": "windlass.loop.wrap",
}

if TYPE_CHECKING:
    from windlass.api import (
        batch,
        batch_sync,
        compare,
        compare_sync,
        evaluate,
        evaluate_sync,
        query_unified,
        run,
        run_sync,
    )
    from windlass.caching.prices import Prices
    from windlass.cascade.model import Cascade, Phase
    from windlass.errors import WindlassError
    from windlass.loop.bound import bound
    from windlass.loop.context import Context
    from windlass.loop.select import select
    from windlass.loop.wrap import wrap
    from windlass.recordings import import_sessions, replay, tune
    from windlass.sessions import fork, fork_sync, resume, resume_sync
    from windlass.window.options import Policy


def __getattr__(name: str) -> object:
    # Names are fetched when they are used, so that `import windlass` is instant.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'windlass' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
