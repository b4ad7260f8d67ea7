"""Going on with sessions that are there: `resume`, `fork`, and `Session`, message by message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from windlass.api._recorded import RecordedWork, tell_root, unedited
from windlass.api.loading import Tools, load_cascade
from windlass.api.opening import (
    in_a_loop,
    limited,
    listening,
    noted,
    open_store,
    opened,
    shared_store,
)
from windlass.errors import StepDiffers, UsageError
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.engine.cascade_run import CascadeRun
    from windlass.engine.events import Event
    from windlass.engine.people.questions import Approvals, Asked
    from windlass.engine.result import Result
    from windlass.history.base import Store
    from windlass.providers.base import Provider, Resolve
    from windlass.providers.spending import Allowance


async def resume(
    session: str,
    cascade: Cascade | Mapping[str, Any] | str | Path | None = None,
    *,
    again: Collection[str] = (),
    accept: bool = False,
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    auto: bool = False,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    approve: Approvals = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Go on with a session of a cascade that was broken off, failed, or ended by a limit.

    The program is walked again. What was answered comes from the record at no cost, and the first
    step that was not is sent. A call that was sent and never answered may have been billed; it is
    sent again, and both stand in the record.

    Args:
        session: Its id, the beginning of it, or `latest`.
        cascade: Its cascade, as `run` takes it; default the one that its record names. Modules,
            servers, tools that change something outside, hosts and folders that only the record
            names need trust.
        again: The tools that may run again, though they may have run when it was broken off and
            their effects cannot be taken back. Without their names it ends as `waiting` there.
        accept: Whether to go on in a new session from the first step that is another one now.
        model: As in `run`; default what the run was given.
        store: As in `run`.
        root: As in `run`.
        search_folder: As in `run`.
        tools: As in `run`.
        providers: As in `run`.
        on_event: As in `run`.
        auto: As in `run`.
        budget: As in `run`; what was answered before does not count.
        max_tokens: Likewise.
        max_seconds: As in `run`.
        max_turns: As `budget`.
        allowances: As in `run`.
        answers: As in `run`; what was answered before is not asked again.
        approve: Likewise.
        on_question: As in `run`.
        trust: As in `run`.

    Raises UsageError for a session that completed or runs. Raises StepDiffers, before anything is
    sent, where cascade, tools, policy or model are others now and a step differs by it; not where
    that is accepted.
    """
    on_event = listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.cards.card_models import check_cards
        from windlass.engine.cascade import run_cascade
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.people.talking import recorded_answers
        from windlass.engine.resume.resuming import (
            check_sent_time,
            definition_of,
            fork_run,
            lock_session,
            resume_run,
            start_to_resume,
        )
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.turn.approving import approvable
        from windlass.history.base import RAN

        history = closing.enter_context(open_store(chosen, existing=True, writing=True))
        session = unedited(history, session)
        start = start_to_resume(history, session)
        closing.enter_context(lock_session(history, session))
        begun = start.cascade[RAN]
        flags["model"] = model or begun["model"]
        settings = Settings.read(flags, trust=trust)
        tell_root(session, begun["root"], settings, noted(on_event))
        record = RecordedWork(session, history.folder, settings, tools, trust)
        options: dict[str, Any] = {
            "auto": auto,
            "input": start.input,
            "warn": noted(on_event),
        }
        named = cascade is not None
        if cascade is None:
            definition = {key: value for key, value in start.cascade.items() if key != RAN}
            cascade = begun["file"] if Path(begun["file"] or ".").is_file() else definition
            ready = record.named_by(begun["file"]).load_cascade(cascade, **options)
        else:
            ready = load_cascade(cascade, settings, tools, **options)
        loaded, registry, children = ready
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question, approve)
        person.skip_answered(recorded_answers(history, session))
        person.check(*(approvable(each.cascade, each.registry) for each in ready.walk()))
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
            check_cards(each.cascade, settings, resolve)

        def prepared(session_id: str | None) -> CascadeRun:
            run = prepare(
                ReadyCascade(loaded, registry, children),
                start.input,
                settings=settings,
                store=history,
                resolve=resolve,
                on_event=on_event,
                session_id=session_id,
                resumed=session_id is not None,
            )
            return replace(run, allowances=within, answers=person)

        run = resume_run(prepared(session), definition_of(loaded), again)
        try:
            result = await run_cascade(run)
        except StepDiffers as differs:
            if not accept:
                raise
            moment = check_sent_time(differs.sent, differs.session_id or session)
            run = fork_run(prepared(None), session, moment)
            closing.enter_context(lock_session(history, run.record.session_id))
            result = await run_cascade(run)
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "approve": approve,
        "on_question": on_question,
    }
    behind = Session(cascade, **flags, tools=tools, providers=providers, **own)
    behind.recorded = not named
    return behind.behind(result, run, within)


def resume_sync(session: str, *arguments: Any, **options: Any) -> Result:
    """`resume` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.resume(...)` is
    what is meant.
    """
    return in_a_loop(lambda: resume(session, *arguments, **options), "resume")


async def fork(
    session: str,
    at: int,
    *,
    changes: Mapping[str, Any] | None = None,
    message: str = "",
    model: str | None = None,
    store: str | Path | None = None,
    root: str | Path | None = None,
    search_folder: str | Path | None = None,
    tools: Tools = (),
    providers: Mapping[str, Provider] | None = None,
    on_event: Callable[[Event], None] | None = None,
    session_id: str | None = None,
    auto: bool = False,
    budget: float | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_turns: int | None = None,
    allowances: Sequence[Allowance] = (),
    answers: Mapping[str, Any] | Sequence[Any] = (),
    approve: Approvals = (),
    on_question: Asked | None = None,
    trust: bool = False,
) -> Result:
    """Run a session of a cascade anew from one of its calls on, in a session of its own.

    What was answered before that call comes from the record at no cost, whatever has changed; its
    contents are shared. The bill of the new session shows what it inherits apart.

    Args:
        session: Its id, the beginning of it, or `latest`; it may have completed.
        at: The number of the first call that is sent anew, as `windlass show` lists them.
        changes: What is another one in the new session, by its key: `PHASE.KEY` of a phase, or a
            key of the cascade such as `model`; `profile` is that of `auto_context`.
        message: What the user says before that call.
        model: As in `run`; default what the run was given.
        store: As in `run`.
        root: As in `run`.
        search_folder: As in `run`.
        tools: As in `run`.
        providers: As in `run`.
        on_event: As in `run`.
        session_id: A name for the new session.
        auto: As in `run`.
        budget: As in `run`; what is inherited does not count.
        max_tokens: Likewise.
        max_seconds: As in `run`.
        max_turns: As `budget`.
        allowances: As in `run`.
        answers: As in `run`; what was answered before is not asked again.
        approve: Likewise.
        on_question: As in `run`.
        trust: As in `run`.

    Raises UsageError for a call or a key that is not there.
    """
    on_event = listening(on_event)
    flags: dict[str, Any] = {
        "model": model,
        "store": store,
        "root": root,
        "search_folder": search_folder,
    }
    async with opened(flags, providers, on_event, trust=trust) as (chosen, at_hand, closing):
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.cascade import run_cascade
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.resume.resuming import (
            change_definition,
            fork_run,
            lock_session,
            start_to_resume,
            time_of_call,
        )
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.turn.approving import approvable
        from windlass.engine.turn.record import Recorder
        from windlass.history.base import RAN
        from windlass.history.decisions import Forked

        history = closing.enter_context(open_store(chosen, existing=True, writing=True))
        session = unedited(history, session)
        start = start_to_resume(history, session, ended=True)
        moment = time_of_call(history, session, at)
        begun = start.cascade[RAN]
        flags["model"] = model or begun["model"]
        if "model" in (changes or {}) and model is None:
            flags["model"] = None  # the cascade's own is meant
        settings = Settings.read(flags, trust=trust)
        tell_root(session, begun["root"], settings, noted(on_event))
        limits = {"max_tokens": max_tokens, "max_seconds": max_seconds, "max_turns": max_turns}
        resolve, within = limited(at_hand, allowances, budget=budget, **limits)
        person = AnswerSource(answers, on_question, approve)
        cascade = change_definition(start.cascade, changes or {})
        record = RecordedWork(session, history.folder, settings, tools, trust)
        loaded, registry, children = ready = record.load_cascade(
            cascade, auto=auto, input=start.input, warn=noted(on_event)
        )
        person.check(*(approvable(each.cascade, each.registry) for each in ready.walk()))
        for each in ready.walk():
            check_models(each.cascade, settings, resolve)
        run = prepare(
            ReadyCascade(loaded, registry, children),
            start.input,
            settings=settings,
            store=history,
            resolve=resolve,
            on_event=on_event,
            session_id=session_id,
        )
        closing.enter_context(lock_session(history, run.record.session_id))
        run = replace(run, allowances=within, answers=person)
        run = fork_run(run, session, moment, message)
        result = await run_cascade(run)
        origin = Recorder(history, session, run.record.clock, run.record.new_id)
        told = f"forked at call {at} as session {result.session_id}"
        origin.decide("", told, Forked(result.session_id, at))
    own: dict[str, Any] = {
        "auto": auto,
        "trust": trust,
        "on_event": on_event,
        "approve": approve,
        "on_question": on_question,
    }
    behind = Session(cascade, **flags, tools=tools, providers=providers, **own)
    behind.recorded = True
    return behind.behind(result, run, within)


def fork_sync(session: str, at: int, **options: Any) -> Result:
    """`fork` for code that is not async; takes the same arguments.

    Raises UsageError inside a running event loop, where `await windlass.fork(...)` is
    what is meant.
    """
    return in_a_loop(lambda: fork(session, at, **options), "fork")


class Session:
    """A session with which a person goes on, message by message: a finished one, or a fresh one.

    `run` answers one as `result.session`. Each message is answered by a phase `chat` in the
    session's record, which sees all that was said and has the tools, the memory and the model of
    the cascade's last phase. With `async with`, providers and tools stay open between messages.

    Args:
        cascade: The cascade, as `run` takes it; None: that of the recorded session `resume`, else
            a conversation with the model alone.
        resume: A session in the store to go on with (its id, the beginning of it, or `latest`).
        auto: As `run` takes it, and likewise the others.
    """

    held: CascadeRun | None = None
    """What is known of the session so far (None: nothing was said here)."""

    recorded: bool = False
    """Whether only a record names the cascade, and not the user."""

    def __init__(
        self,
        cascade: Cascade | Mapping[str, Any] | str | Path | None = None,
        *,
        resume: str | None = None,
        model: str | None = None,
        store: str | Path | None = None,
        root: str | Path | None = None,
        search_folder: str | Path | None = None,
        tools: Tools = (),
        providers: Mapping[str, Provider] | None = None,
        on_event: Callable[[Event], None] | None = None,
        approve: Approvals = (),
        on_question: Asked | None = None,
        allowances: Sequence[Allowance] = (),
        auto: bool = False,
        trust: bool = False,
    ) -> None:
        self._cascade = cascade
        self._resume = resume
        self._model = model
        self._flags = {"model": model, "store": store, "root": root, "search_folder": search_folder}
        self._tools = tools
        self._providers = providers
        self.on_event = on_event
        """Called with each event, from the next message on that is sent after it was closed."""
        self._approve = approve
        self._on_question = on_question
        self._allowances = tuple(allowances)
        self._declared: Allowance | None = None
        self._auto = auto
        self._trust = trust
        self._closing: AsyncExitStack | None = None
        self._busy = False
        self._fresh = False

    @property
    def session_id(self) -> str | None:
        """The session in the store (None: nothing was said yet)."""
        return None if self.held is None or self._fresh else self.held.record.session_id

    def behind(self, result: Result, run: CascadeRun, within: tuple[Allowance, ...]) -> Result:
        """The result of a run with this session, which goes on behind it within its limits."""
        within[-1].limits.pop("time", None)  # the run is over; all else goes on to hold
        self.held, self._allowances = run, within
        return replace(result, session=self)

    async def send(self, text: str) -> Result:
        """What the session answers a message, in its record. Its totals are the session's.

        Raises UsageError for what the user wrote and StoreError where the store fails. A failure
        is in the result's `error`; the next message goes on behind it.
        """
        if not text.strip():
            raise UsageError("the message is empty; say something")
        if self._busy:
            raise UsageError("the session answers another message; wait for that one first")
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
        return in_a_loop(lambda: self.send(text), "Session.send")

    async def __aenter__(self) -> Self:
        """Open the store, the providers and the tools. Raises UsageError."""
        from windlass.cascade.children import ReadyCascade
        from windlass.engine.cascade import add_server_tools, needed_servers
        from windlass.engine.people.questions import AnswerSource
        from windlass.engine.people.talking import (
            add_chat,
            chat_cascade,
            continue_session,
            recorded_cascade,
            restore_session,
        )
        from windlass.engine.resume.resuming import lock_session
        from windlass.engine.setup import check_models, prepare
        from windlass.engine.turn.approving import approvable
        from windlass.history.base import RAN
        from windlass.providers.spending import Allowance

        async with AsyncExitStack() as closing:
            on_event = listening(self.on_event)
            resources = opened(self._flags, self._providers, on_event, trust=self._trust)
            settings, at_hand, _ = await closing.enter_async_context(resources)
            source, given, known = self._cascade, {}, self.session_id
            store: Store | None = None
            if self._resume is not None and known is None:
                store = closing.enter_context(open_store(settings, existing=True, writing=True))
                known = unedited(store, self._resume)
                start = store.start(known)
                given = dict(start.input)
                tell_root(known, start.cascade.get(RAN, {}).get("root"), settings, noted(on_event))
                if source is None:
                    self.recorded, source = True, recorded_cascade(start.cascade, known)
            elif source is None:
                source = chat_cascade(self._model)
            store = store or closing.enter_context(shared_store(settings))
            if self.recorded and known is not None:
                record = RecordedWork(known, store.folder, settings, self._tools, self._trust)
                ready = record.load_cascade(source, auto=self._auto)
            else:
                ready = load_cascade(source, settings, self._tools, auto=self._auto)
            cascade = add_chat(ready.cascade)
            if self._declared is None:
                limits = dict(cascade.limits or {}) | {"max_seconds": None}
                self._declared = Allowance("the session", **limits)
                self._allowances += (self._declared,)
            resolve: Resolve = at_hand.resolve
            for allowance in self._allowances:
                resolve = allowance.resolving(resolve)
            check_models(cascade, settings, resolve)
            run = prepare(
                ReadyCascade(cascade, ready.registry, {}),
                given if self.held is None else self.held.input,
                settings=settings,
                store=store,
                resolve=resolve,
                on_event=on_event,
                session_id=known,
                resumed=known is not None,
            )
            closing.enter_context(lock_session(store, run.record.session_id))
            person = AnswerSource((), self._on_question, self._approve)
            person.check(*(approvable(each.cascade, each.registry) for each in ready.walk()))
            run = replace(run, answers=person, allowances=self._allowances)
            if self.held is not None and not self._fresh:
                run = continue_session(self.held, run)
            elif known is not None:
                restore_session(run)
            else:
                self._fresh = True
            servers = needed_servers(run)
            closing.push_async_callback(servers.stop)
            await add_server_tools(run, servers)
            self.held = run
            self._closing = closing.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened; the session may be gone on with again."""
        closing, self._closing = self._closing, None
        if closing is not None:
            await closing.aclose()

    async def _answer(self, text: str) -> Result:
        from windlass.engine.cascade import start_session
        from windlass.engine.events import SessionStarted
        from windlass.engine.people.talking import answer_message

        assert self.held is not None
        run = self.held
        if self._fresh:
            models = start_session(run)
            self._fresh = False
            run.emit(SessionStarted(run.record.session_id, run.cascade.cascade_id, models))
        return replace(await answer_message(run, text), session=self)
