"""The functions of the library: each makes an engine for one call. `query_unified` reads records.

They are the methods of `Engine` of the same names, with the same arguments and options.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from windlass.api._sync import sync_form
from windlass.api.engine import Engine
from windlass.api.opening import open_store
from windlass.errors import UsageError
from windlass.settings.settings import Settings

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _function(
    method: Callable[Concatenate[Engine, _Given], Coroutine[Any, Any, _Answer]],
) -> Callable[_Given, Coroutine[Any, Any, _Answer]]:
    """Return a method as a function, which makes an engine for each call."""

    @wraps(method)
    async def function(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        return await method(Engine(), *args, **kwargs)

    own = signature(method)
    vars(function)["__signature__"] = own.replace(parameters=[*own.parameters.values()][1:])
    return function


run = _function(Engine.run)
resume = _function(Engine.resume)
fork = _function(Engine.fork)
evaluate = _function(Engine.evaluate)
resume_task = _function(Engine.resume_task)
batch = _function(Engine.batch)
compare = _function(Engine.compare)
run_sync = sync_form(run)
resume_sync = sync_form(resume)
fork_sync = sync_form(fork)
evaluate_sync = sync_form(evaluate)
resume_task_sync = sync_form(resume_task)
batch_sync = sync_form(batch)
compare_sync = sync_form(compare)


def query_unified(
    where: str, params: Sequence[Any] = (), *, store: str | Path | None = None
) -> Rows:
    """Return the rows of `unified_logs` for which `where` holds, as dicts by column name.

    `where` is the condition of a SELECT; values are bound with `?` and `params`. The
    connection is read-only. Raises UsageError for anything but one condition.

    >>> query_unified("node_type = 'follow_up' AND tokens_in > ?", [50_000])  # doctest: +SKIP
    """
    settings = Settings.read({"store": store})
    history = open_store(settings, existing=True)
    try:
        sql = f"SELECT * FROM unified_logs WHERE ({where}\n)"  # noqa: S608  (read-only, one statement)
        return Rows(history.query(sql, params))
    finally:
        history.close()


class Rows(list[dict[str, Any]]):
    """Rows of a query: a list of dicts that can become a data frame."""

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame. Raises UsageError where pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(list(self))
