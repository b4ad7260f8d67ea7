"""Windlass: the context engine for LLM workflows. These are its public names."""

TYPE_CHECKING = False  # typing's own, without the 10 ms that importing it takes

__version__ = "0.1.0"

__all__ = [
    "Cascade",
    "Context",
    "Engine",
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
    "recall_tool",
    "replay",
    "resume",
    "resume_sync",
    "resume_task",
    "resume_task_sync",
    "run",
    "run_sync",
    "select",
    "tune",
    "wrap",
]

_HOMES = {
    "Cascade": "windlass.cascade.model",
    "Context": "windlass.context.context",
    "Engine": "windlass.api.engine",
    "Phase": "windlass.cascade.model",
    "Policy": "windlass.window.options",
    "Prices": "windlass.caching.prices",
    "WindlassError": "windlass.errors",
    "batch": "windlass.api.engine",
    "batch_sync": "windlass.api.engine",
    "bound": "windlass.context.bound",
    "compare": "windlass.api.engine",
    "compare_sync": "windlass.api.engine",
    "evaluate": "windlass.api.engine",
    "evaluate_sync": "windlass.api.engine",
    "fork": "windlass.api.engine",
    "fork_sync": "windlass.api.engine",
    "import_sessions": "windlass.api.recordings",
    "query_unified": "windlass.api.engine",
    "recall_tool": "windlass.context.recall",
    "replay": "windlass.api.recordings",
    "resume": "windlass.api.engine",
    "resume_sync": "windlass.api.engine",
    "resume_task": "windlass.api.engine",
    "resume_task_sync": "windlass.api.engine",
    "run": "windlass.api.engine",
    "run_sync": "windlass.api.engine",
    "select": "windlass.context.select",
    "tune": "windlass.api.recordings",
    "wrap": "windlass.api.wrapping",
}

if TYPE_CHECKING:
    from windlass.api.engine import (
        Engine,
        batch,
        batch_sync,
        compare,
        compare_sync,
        evaluate,
        evaluate_sync,
        fork,
        fork_sync,
        query_unified,
        resume,
        resume_sync,
        resume_task,
        resume_task_sync,
        run,
        run_sync,
    )
    from windlass.api.recordings import import_sessions, replay, tune
    from windlass.api.wrapping import wrap
    from windlass.caching.prices import Prices
    from windlass.cascade.model import Cascade, Phase
    from windlass.context.bound import bound
    from windlass.context.context import Context
    from windlass.context.recall import recall_tool
    from windlass.context.select import select
    from windlass.errors import WindlassError
    from windlass.window.options import Policy


def __getattr__(name: str) -> object:
    # Names are fetched when they are used, so that `import windlass` is instant.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'windlass' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
