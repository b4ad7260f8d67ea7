"""The functions of the library: each makes an engine for one call. `query_unified` reads records.

The arguments are those of the method of `Engine` of the same name, the options those of its engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from windlass.api._sync import sync_form
from windlass.api.engine import Engine
from windlass.api.opening import open_store
from windlass.api.options import (
    BatchCall,
    BatchOptions,
    CascadeSource,
    CompareCall,
    CompareOptions,
    RunCall,
    RunLimits,
)
from windlass.errors import UsageError
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.api.batches.workers import BatchResult
    from windlass.api.comparing.comparison import Comparison
    from windlass.api.comparing.judging import JudgeFunction
    from windlass.engine.result import Result


async def run(
    cascade: CascadeSource,
    input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
    *,
    session_id: str | None = None,
    answers: Mapping[str, Any] | Sequence[Any] = (),
    **options: Unpack[RunCall],
) -> Result:
    """Run a cascade and answer how it ended, as `Engine.run` does."""
    return await _engine(options).run(cascade, input, session_id=session_id, answers=answers)


async def resume(
    session: str,
    cascade: CascadeSource | None = None,
    *,
    again: Collection[str] = (),
    accept: bool = False,
    answers: Mapping[str, Any] | Sequence[Any] = (),
    **options: Unpack[RunCall],
) -> Result:
    """Go on with a session of a cascade that was broken off, as `Engine.resume` does."""
    engine = _engine(options)
    return await engine.resume(session, cascade, again=again, accept=accept, answers=answers)


async def fork(
    session: str,
    at: int,
    *,
    changes: Mapping[str, Any] | None = None,
    message: str = "",
    session_id: str | None = None,
    answers: Mapping[str, Any] | Sequence[Any] = (),
    **options: Unpack[RunCall],
) -> Result:
    """Run a session of a cascade again from one of its calls on, as `Engine.fork` does."""
    return await _engine(options).fork(
        session, at, changes=changes, message=message, session_id=session_id, answers=answers
    )


async def evaluate(
    task: str | Path,
    input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
    *,
    context: str = "",
    engine: str = "local",
    session_id: str | None = None,
    answers: Mapping[str, Any] | Sequence[Any] = (),
    **options: Unpack[RunCall],
) -> Result:
    """Run a task file and answer how it ended, as `Engine.evaluate` does."""
    return await _engine(options).evaluate(
        task, input, context=context, engine=engine, session_id=session_id, answers=answers
    )


async def resume_task(
    session: str,
    task: str | Path | None = None,
    *,
    again: Collection[str] = (),
    accept: bool = False,
    engine: str = "local",
    answers: Mapping[str, Any] | Sequence[Any] = (),
    **options: Unpack[RunCall],
) -> Result:
    """Go on with a session of a task file, as `Engine.resume_task` does."""
    return await _engine(options).resume_task(
        session, task, again=again, accept=accept, engine=engine, answers=answers
    )


async def batch(
    cascade: CascadeSource,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    *,
    out: str | Path,
    **options: Unpack[BatchCall],
) -> BatchResult:
    """Run a cascade on many inputs side by side, as `Engine.batch` does."""
    own, shared = _split(options, BatchOptions)
    return await _engine(shared).batch(cascade, inputs, out=out, **own)


async def compare(
    cascade: CascadeSource,
    inputs: str | Path | Iterable[Mapping[str, Any]],
    policies: Sequence[str | Path] | Mapping[str, Any],
    *,
    out: str | Path,
    judge: str | JudgeFunction = "validator",
    **options: Unpack[CompareCall],
) -> Comparison:
    """Run a cascade under several policies on the same inputs, as `Engine.compare` does."""
    own, shared = _split(options, CompareOptions)
    return await _engine(shared).compare(cascade, inputs, policies, out=out, judge=judge, **own)


run_sync = sync_form(run)
resume_sync = sync_form(resume)
fork_sync = sync_form(fork)
evaluate_sync = sync_form(evaluate)
resume_task_sync = sync_form(resume_task)
batch_sync = sync_form(batch)
compare_sync = sync_form(compare)


def _split(options: Mapping[str, Any], own: type) -> tuple[Any, dict[str, Any]]:
    """The options of a call, which `own` lists, and the others."""
    names = own.__annotations__.keys()
    return (
        {name: value for name, value in options.items() if name in names},
        {name: value for name, value in options.items() if name not in names},
    )


def _engine(options: Mapping[str, Any]) -> Engine:
    """An engine with these options; each limit may stand among them."""
    limits, shared = _split(options, RunLimits)
    return Engine(**{**shared, "limits": {**shared.get("limits", {}), **limits}})


def query_unified(
    where: str, params: Sequence[Any] = (), *, store: str | Path | None = None
) -> Rows:
    """The rows of `unified_logs` for which `where` holds, as dicts by column name.

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
