"""The engine: it holds what runs share, and its methods run, resume, fork, compare and talk.

The functions of the library: each makes an engine for one call. `query_unified` reads records.

They are the methods of `Engine` of the same names, with the same arguments and options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from windlass.api.opening import (
    EngineBase,
    OnEvent,
    check_options,
    load_rooms,
    open_store,
    split_options,
)
from windlass.api.options import (
    BatchCall,
    BatchOptions,
    CascadeSource,
    CompareCall,
    CompareOptions,
    RunCall,
)
from windlass.api.sessions import Session, sync_form
from windlass.errors import UsageError, did_you_mean
from windlass.settings.plugins import ENGINES, plugin_names
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.api.batches.inputs import BatchInput
    from windlass.api.batches.workers import BatchResult
    from windlass.api.comparing.comparison import Comparison
    from windlass.api.comparing.judging import JudgeFunction
    from windlass.engine.result import Result


class Engine(EngineBase):
    """Runs cascades and tasks with what they share: model, store, tools, providers, limits, trust.

    With `async with` it reads the settings and opens store and providers once, and closes them at
    the end; its runs may go on side by side. Without it each call opens and closes them for itself.

    Args:
        options: As the fields of `windlass.api.options.EngineOptions` say.

    Raises TypeError for an option that does not exist.
    """

    async def run(
        self,
        cascade: CascadeSource,
        input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
        *,
        session_id: str | None = None,
        answers: Mapping[str, Any] | Sequence[Any] = (),
        **options: Unpack[RunCall],
    ) -> Result:
        """Run a cascade and answer how it ended. What the cascade names as code is trusted.

        Args:
            cascade: A `Cascade`, the same as a dict, or the path of a JSON or YAML file.
            input: What templates see as `input`.
            session_id: A name for the session. Default: a new one, made of time and chance.
            answers: Answers to what `ask_human` asks: a mapping by question, or a list in order.
            options: Those of the engine (`windlass.api.options.EngineOptions`) that are others for
                this call, and its limits (`RunLimits`).

        Raises UsageError (CascadeError) for what the user wrote and StoreError where the store
        fails. Failures of phases, providers and limits are in the result's `error`.
        """
        chosen = self.with_options(options)
        check_input(input)
        async with chosen.open_own_call() as call:
            from windlass.api._runs import run_new

            return await run_new(call, cascade, input or {}, name=session_id, answers=answers)

    async def resume(
        self,
        session: str,
        cascade: CascadeSource | None = None,
        *,
        again: Collection[str] = (),
        accept: bool = False,
        answers: Mapping[str, Any] | Sequence[Any] = (),
        **options: Unpack[RunCall],
    ) -> Result:
        """Go on with a session of a cascade that was broken off, failed, or was ended by a limit.

        The cascade is walked through again. What was answered comes from the record at no cost, and
        the first step that was not answered is sent. A call that was sent and never answered may
        have been billed; it is sent again, and both stand in the record.

        Args:
            session: Its id, the beginning of it, or `latest`.
            cascade: Its cascade, as `run` takes it. Default: the one that its record names.
                Modules, servers, tools that change something outside, hosts and folders that only
                the record names need trust.
            again: The tools that may run again although they may have run when the session was
                broken off, and what they did cannot be undone. Without their names the run ends as
                `waiting` there.
            accept: Whether to go on in a new session from the first step that differs now.
            answers: As in `run`; what was answered before is not asked again.
            options: As in `run`.

        Raises UsageError for a session that completed or that is running. Raises StepDiffers,
        before anything is sent, where the cascade, its tools, the policy or the model have changed
        so that a step differs, unless that is accepted.
        """
        async with self.with_options(options).open_own_call() as call:
            from windlass.api._runs import run_resumed

            return await run_resumed(
                call, session, cascade, again=again, accept=accept, answers=answers
            )

    async def fork(
        self,
        session: str,
        at: int,
        *,
        changes: Mapping[str, Any] | None = None,
        message: str = "",
        session_id: str | None = None,
        answers: Mapping[str, Any] | Sequence[Any] = (),
        **options: Unpack[RunCall],
    ) -> Result:
        """Run a session of a cascade again from one of its calls on, as a session of its own.

        What was answered before that call comes from the record at no cost, whatever has changed;
        its contents are shared. The bill of the new session shows what it inherits separately.

        Args:
            session: Its id, the beginning of it, or `latest`; it may have completed.
            at: The number of the first call that is sent again, as `windlass show` lists them.
            changes: What is different in the new session, by its key: `PHASE.KEY` of a phase, or a
                key of the cascade such as `model`; `profile` is that of `auto_context`.
            message: What the user says before that call.
            session_id: A name for the new session.
            answers: As in `run`; what was answered before is not asked again.
            options: As in `run`.

        Raises UsageError for a call or a key that does not exist.
        """
        async with self.with_options(options).open_own_call() as call:
            from windlass.api._runs import run_forked

            return await run_forked(
                call, session, at, changes or {}, message=message, name=session_id, answers=answers
            )

    async def evaluate(
        self,
        task: str | Path,
        input: Mapping[str, Any] | None = None,  # noqa: A002  (the DSL's word)
        *,
        context: str = "",
        engine: str = "local",
        session_id: str | None = None,
        answers: Mapping[str, Any] | Sequence[Any] = (),
        **options: Unpack[RunCall],
    ) -> Result:
        """Run a task file and answer how it ended. What the file names as code is trusted.

        Args:
            task: The path of an XML file.
            input: What templates and expressions see as `input`. Where the file does not name it,
                it is part of the context that the root inherits.
            context: The context of the root's parent, which it inherits as its file says.
            engine: `local`, or `ray`: inner tasks of a reduce run on a Ray cluster.
            session_id: A name for the session. Default: a new one, made of time and chance.
            answers: Answers to what `ask_human` asks: a mapping by question, or a list in order.
            options: As in `run`.

        Raises UsageError (TaskFileError) for what the user wrote and StoreError where the store
        fails. Failures of tasks, providers and limits are in the result's `error`, and what was
        finished by then in its `notes`.
        """
        chosen = self.with_options(options)
        check_input(input)
        _check_place(chosen, engine)
        async with chosen.open_own_call() as call:
            from windlass.api._runs import run_new_task

            return await run_new_task(
                call, task, input or {}, context, engine, name=session_id, answers=answers
            )

    async def resume_task(
        self,
        session: str,
        task: str | Path | None = None,
        *,
        again: Collection[str] = (),
        accept: bool = False,
        engine: str = "local",
        answers: Mapping[str, Any] | Sequence[Any] = (),
        **options: Unpack[RunCall],
    ) -> Result:
        """Go on with a session of a task file; its task, input and context are those of then.

        What it had finished is not repeated, and what was answered is not sent again.

        Args:
            session: Its id, the beginning of it, or `latest`.
            task: The file that the session ran. Default: what its record holds; modules, servers
                and the like that only the record names need trust.
            again: Tools that may run again although they may have run.
            accept: Whether a task that would ask something else now is run again.
            engine: As in `evaluate`.
            answers: As in `evaluate`; what was answered before is not asked again.
            options: As in `run`.

        Raises UsageError for a session that cannot be resumed, or that ran another file.
        """
        chosen = self.with_options(options)
        _check_place(chosen, engine)
        async with chosen.open_own_call() as call:
            from windlass.api._runs import run_resumed_task

            return await run_resumed_task(
                call, session, task, engine, again=again, accept=accept, answers=answers
            )

    async def batch(
        self,
        cascade: CascadeSource,
        inputs: str | Path | Iterable[Mapping[str, Any]],
        *,
        out: str | Path,
        **options: Unpack[BatchCall],
    ) -> BatchResult:
        """Run a cascade on many inputs side by side and answer what they came to.

        Each run is a session of its own, within the limits of the engine. A run that fails stops
        none of the others.

        Args:
            cascade: A `Cascade`, the same as a dict, or the path of a JSON or YAML file.
            inputs: The inputs, one a row: mappings, or the path of a file of JSON lines (.jsonl) or
                CSV (.csv).
            out: The file of results. One line of JSON is added when a run ends, so that a process
                that is killed loses nothing that was answered.
            options: As the fields of `windlass.api.options.BatchOptions` say, and those of the
                engine that are others for this call.

        Raises UsageError (FileError with every mistake in the inputs) for what the user wrote,
        before anything is sent, and StoreError where the store or the results cannot be written.
        """
        check_options("batch", options, BatchCall)
        own, shared = split_options(options, BatchOptions)
        engine = self.with_options(shared)
        await load_rooms()
        from windlass.api._started_batch import start_batch
        from windlass.api.batches.workers import line_of

        auto = engine.options["auto"]
        async with start_batch(engine, cascade, inputs, Path(out), own, auto=auto) as started:

            async def run_row(given: BatchInput, emit: OnEvent) -> dict[str, Any]:
                return line_of(await opened.run(started.cascade, given, emit))

            opened = started.open_results(started.inputs, [started.cascade])
            return await opened.finish(run_row)

    async def compare(
        self,
        cascade: CascadeSource,
        inputs: str | Path | Iterable[Mapping[str, Any]],
        policies: Sequence[str | Path] | Mapping[str, Any],
        *,
        out: str | Path,
        judge: str | JudgeFunction = "validator",
        **options: Unpack[CompareCall],
    ) -> Comparison:
        """Run a cascade under several policies on the same inputs; say whether answers get worse.

        It is a batch of every input under every policy, whose limits hold for all runs and for what
        a model costs that judges.

        Args:
            cascade: As in `batch`.
            inputs: As in `batch`.
            policies: Two or more; the others are compared with the first. Each is the name of a
                profile, `everything` (nothing is shortened), `mask:TURNS`, a profile with options
                (`lean,window=3`), or a JSON or YAML file with `auto_context`. A mapping gives each
                what `auto_context` is, by a name of your own. It replaces the cascade's own
                `auto_context`.
            out: The file of results, with a line for each run.
            judge: What says whether an answer will do: `validator` (the run completed, so its
                validators accept it), `module:function` or a function that is given the input and
                the outputs of the phases by name and answers true, false or a number where more is
                better, or `provider/model`, which is asked for a score from 0 to 1. With another
                judge, a comparison that is resumed judges its answers again, and runs none.
            options: As the fields of `windlass.api.options.CompareOptions` say, and those of the
                engine that are others for this call.

        Raises UsageError for what the user wrote, before anything is sent, and StoreError where the
        store or the results cannot be written.
        """
        check_options("compare", options, CompareCall)
        own, shared = split_options(options, CompareOptions)
        engine = self.with_options(shared)
        await load_rooms()
        from windlass.api._started_batch import start_batch
        from windlass.api.comparing.judging import ComparedBatch, read_policies

        compared = read_policies(policies)
        repeat, margin = own.pop("repeat", 1), own.pop("margin", 0.05)
        if repeat < 1 or not 0 < margin < float("inf"):
            raise UsageError(f"repeat {repeat!r} and margin {margin!r} must be numbers above 0")
        # Each policy stands in the place of `auto_context`.
        async with start_batch(engine, cascade, inputs, Path(out), own, auto=False) as started:
            return await ComparedBatch(started, compared, judge, repeat, margin).finish()

    def session(
        self, cascade: CascadeSource | None = None, *, resume: str | None = None
    ) -> Session:
        """Return a session with which a person goes on, message by message.

        Args:
            cascade: The cascade, as `run` takes it. Default: that of the recorded session `resume`,
                else a conversation with the model alone.
            resume: A session in the store to go on with: its id, the beginning of it, or `latest`.
        """
        return Session(self, cascade, resume=resume)


def _check_place(chosen: Engine, engine: str) -> None:
    """Raise UsageError where a task cannot run there."""
    engines = ("local", *plugin_names(ENGINES))
    if engine not in engines:
        raise UsageError(f"there is no engine {engine!r}; {did_you_mean(engine, engines)}")
    if engine != "local" and (chosen.options["allowances"] or any(chosen.limits.values())):
        raise UsageError("limits cannot be shared with a cluster; leave out the engine, or them")


def check_input(given: object) -> None:
    """Raise UsageError for an input that is no mapping of names to values."""
    kind = type(given).__name__
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"the input must be a mapping of names to values, such as {{'question': 'text'}}, "
            f"not {kind} {str(given)[:60]!r}"
        )
    if names := [name for name in given or () if not isinstance(name, str)]:
        raise UsageError(f"the input's names must be text, not {names[0]!r}")


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
        """Return the rows as a pandas DataFrame.

        Raises UsageError where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(list(self))
