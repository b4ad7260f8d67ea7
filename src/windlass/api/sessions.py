"""A session with which a person goes on, message by message.

The forms of coroutines for code that is not async.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from windlass.errors import StoreError, UsageError

if TYPE_CHECKING:
    from windlass.api.opening import EngineBase, EngineCall
    from windlass.api.options import CascadeSource
    from windlass.cascade.children import ReadyCascade
    from windlass.engine.cascade_run import CascadeRun
    from windlass.engine.opening import OpenSession
    from windlass.engine.result import Result
    from windlass.engine.turn.record import Recorder
    from windlass.providers.spending import Allowance


class Session:
    """A session with which a person goes on, message by message: a finished one, or a fresh one.

    `Engine.session` makes one, and `run` answers one as `result.session`. Each message is answered
    by a phase `chat` in the session's record, which sees all that was said and has the tools, the
    memory and the model of the cascade's last phase. With `async with`, providers and tools stay
    open between messages.

    Args:
        engine: What it shares with other runs.
        cascade: The cascade, as `Engine.run` takes it; None: that of the recorded session `resume`,
            else a conversation with the model alone.
        resume: A session in the store to go on with: its id, the beginning of it, or `latest`.
        model: The model of its run, where the engine does not name one.
        by_record: Whether only a record names the cascade, and not the user.
    """

    def __init__(
        self,
        engine: EngineBase,
        cascade: CascadeSource | None = None,
        *,
        resume: str | None = None,
        model: str | None = None,
        by_record: bool = False,
    ) -> None:
        self._engine = engine
        self._cascade = cascade
        self._resume = resume
        self._model = model or engine.options["model"]
        self._by_record = by_record
        self.on_event = engine.options["on_event"]
        """Called with each event, from the next message on that is sent after it was closed."""
        self._run: CascadeRun | None = None
        self._started = False
        self._written = 0
        self._allowances: tuple[Allowance, ...] | None = None
        self._call: EngineCall | None = None
        self._closing: AsyncExitStack | None = None
        self._busy = False

    @property
    def session_id(self) -> str | None:
        """Return the session in the store (None: nothing was said yet)."""
        return self._run.record.session_id if self._run is not None and self._started else None

    def attach(self, result: Result, run: CascadeRun) -> Result:
        """Give the result of a run with this session, which goes on behind it within its limits."""
        run.allowances[-1].limits.pop("time", None)  # the run is over; all else goes on to hold
        self._run, self._started = run, True
        self._count(run.record)
        return replace(result, session=self)

    async def send(self, text: str) -> Result:
        """Return what the session answers a message, in its record. Its totals are the session's.

        Raises UsageError for what the user wrote and StoreError where the store fails. A failure
        is in the result's `error`; the next message goes on behind it.
        """
        if not text.strip():
            raise UsageError("the message is empty; say something")
        if self._busy:
            raise UsageError("the session is answering another message; wait for that one first")
        self._busy = True
        try:
            if self._closing is not None:
                return await self._answer(text)
            async with self:
                return await self._answer(text)
        finally:
            self._busy = False

    def send_sync(self, text: str) -> Result:
        """`send` for code that is not async. Raises UsageError inside a running event loop."""
        return in_new_loop(lambda: self.send(text), "Session.send")

    async def __aenter__(self) -> Self:
        """Open the store, the providers and the tools. Raises UsageError."""
        from windlass.engine.events import Listener

        async with AsyncExitStack() as closing:
            listener = self.on_event and Listener(self.on_event)
            call = await closing.enter_async_context(self._engine.open_call(listener))
            with call.in_force():
                await self._open(call, closing)
            self._call, self._closing = call, closing.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened; the session may be gone on with again."""
        closing, self._closing, self._call = self._closing, None, None
        if closing is not None:
            await closing.aclose()

    async def _open(self, call: EngineCall, closing: AsyncExitStack) -> None:
        from windlass.api._run_setup import RunSetup
        from windlass.engine.cascade import add_server_tools, needed_servers
        from windlass.engine.people.talking import add_chat, continue_session, restore_session

        known = self.session_id or self._resume
        opened = None if known is None else call.open_session(known, begun=True)
        given, ready = self._load(call, opened)
        cascade = add_chat(ready.cascade)
        if self._allowances is None:
            self._allowances = self._limits_of(cascade.limits)
        settings = call.settings_with(self._model)
        setup = RunSetup.of(call, settings=settings, allowances=self._allowances)
        setup.check_approvals(ready.walk())
        chat = ready._replace(cascade=cascade, children={})
        setup.check_models([chat])
        opened = opened or call.open_session()  # a new one, now that nothing is wrong
        run = setup.prepare(chat, given, opened)
        written = opened.store.batches(opened.session_id)
        if self._run is not None and self._started and self._written == written:
            run = continue_session(self._run, run)
        elif opened.is_begun:
            restore_session(run)
            self._started = True
        closing.callback(self._count, run.record)
        servers = needed_servers(run)
        closing.push_async_callback(servers.stop)
        await add_server_tools(run, servers)
        self._run = run

    def _count(self, record: Recorder) -> None:
        """Note how much is recorded: until the next message others may go on."""
        with suppress(StoreError):  # then what is recorded is read again
            self._written = record.store.batches(record.session_id)

    def _load(
        self, call: EngineCall, opened: OpenSession | None
    ) -> tuple[dict[str, Any], ReadyCascade]:
        """Return what a session was given (None: a new one), and its cascade, checked."""
        from windlass.api._recorded import RecordedWork, check_same_cascade, warn_of_other_root
        from windlass.api.loading import ReadingOptions, load_cascade
        from windlass.engine.people.talking import chat_cascade, recorded_cascade
        from windlass.history.base import RAN

        options, settings = self._engine.options, call.settings_with(self._model)
        source, start = self._cascade, None
        given = {} if self._run is None else dict(self._run.input)
        if opened is not None and self.session_id is None:
            start = opened.store.start(opened.session_id)
            given, root = dict(start.input), start.cascade.get(RAN, {}).get("root")
            warn_of_other_root(opened.session_id, root, settings, call.warn)
            if source is None:
                self._by_record = True
                source = recorded_cascade(start.cascade, opened.session_id)
        elif source is None:
            source = chat_cascade(self._model)
        auto, ran = options["auto"], {} if start is None else start.cascade.get(RAN, {})
        how = ReadingOptions(lenient=options["lenient"] or ran.get("lenient", False))
        if self._by_record and opened is not None:
            record = RecordedWork.of(call, opened.session_id, settings)
            return given, record.load_cascade(source, auto=auto, how=how)
        ready = load_cascade(source, settings, options["tools"], auto=auto, how=how)
        if opened is not None and start is not None:
            check_same_cascade(ready.cascade, opened.session_id, start)
        return given, ready

    def _limits_of(self, declared: Any) -> tuple[Allowance, ...]:
        """What holds for all messages together: the run's limits or the engine's, and declared."""
        from windlass.providers.spending import Allowance

        timeless = {"max_seconds": None}
        own = Allowance("the session", **{**dict(declared or {}), **timeless})
        if self._run is not None and self._started:
            return (*self._run.allowances, own)
        of_engine = Allowance("the session", **{**self._engine.limits, **timeless})
        return (*self._engine.options["allowances"], of_engine, own)

    async def _answer(self, text: str) -> Result:
        from windlass.engine.cascade import start_session
        from windlass.engine.events import SessionStarted
        from windlass.engine.people.talking import answer_message

        assert self._run is not None
        assert self._call is not None
        run = self._run
        with self._call.in_force():
            if not self._started:
                models = start_session(run)
                self._started = True
                run.emit(SessionStarted(run.record.session_id, run.cascade.cascade_id, models))
            return replace(await answer_message(run, text), session=self)


_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def in_new_loop(work: Callable[[], Coroutine[Any, Any, _Answer]], name: str) -> _Answer:
    """Return what a coroutine comes to, in an event loop of its own.

    Raises UsageError inside a running event loop, naming the public coroutine `windlass.name`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise UsageError(
        f"{name}_sync cannot be called inside a running event loop; write:"
        f" await windlass.{name}(...)"
    )


def sync_form(
    function: Callable[_Given, Coroutine[Any, Any, _Answer]],
) -> Callable[_Given, _Answer]:
    """Return the same function for code that is not async."""
    name = function.__name__

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        return in_new_loop(lambda: function(*args, **kwargs), name)

    call.__name__ = call.__qualname__ = f"{name}_sync"
    call.__doc__ = (
        f"`{name}` for code that is not async; it takes the same arguments.\n\n"
        f"Raises UsageError inside a running event loop; there, `await windlass.{name}(...)`."
    )
    return call
