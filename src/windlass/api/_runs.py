"""Runs of cascades as an engine makes them: new ones, and those that go on with a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.api._recorded import RecordedWork, find_unedited, warn_of_other_root
from windlass.api._run_setup import RunSetup
from windlass.api.loading import ReadingOptions, load_cascade
from windlass.api.opening import EngineCall
from windlass.api.options import CascadeSource
from windlass.api.sessions import Session
from windlass.engine.cascade import run_cascade
from windlass.engine.people.talking import recorded_answers
from windlass.engine.result import Result
from windlass.engine.resume.resuming import (
    change_definition,
    check_sent_time,
    definition_of,
    fork_run,
    lock_session,
    resume_run,
    start_to_resume,
    time_of_call,
)
from windlass.engine.turn.record import Recorder
from windlass.errors import StepDiffers
from windlass.history.base import RAN
from windlass.history.decisions import Forked


async def run_new(
    call: EngineCall,
    cascade: CascadeSource,
    input: Mapping[str, Any],  # noqa: A002  (the DSL's word)
    *,
    name: str | None,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Run a cascade as a new session of this name, as `Engine.run` says."""
    # The user's mistakes are reported before anything is written.
    setup, options = RunSetup.of(call, answers), call.options
    ready = load_cascade(
        cascade,
        call.settings,
        options["tools"],
        auto=options["auto"],
        how=ReadingOptions(lenient=options["lenient"]),
        input=input,
        warn=call.warn,
    )
    setup.check(ready.walk())
    run = setup.prepare(ready, input, call.resources.store(), name)
    call.closing.enter_context(lock_session(run.record.store, run.record.session_id))
    return Session(call.engine, cascade).attach(await run_cascade(run), run)


async def run_resumed(
    call: EngineCall,
    session: str,
    cascade: CascadeSource | None,
    *,
    again: Collection[str],
    accept: bool,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Go on with a session of a cascade, as `Engine.resume` says."""
    options, store = call.options, call.resources.store(existing=True)
    session = find_unedited(store, session)
    start = start_to_resume(store, session)
    call.closing.enter_context(lock_session(store, session))
    ran = start.cascade[RAN]
    model = options["model"] or ran["model"]
    settings = call.settings_with(model)
    warn_of_other_root(session, ran["root"], settings, call.warn)
    loading: dict[str, Any] = {
        "auto": options["auto"],
        "how": ReadingOptions(lenient=options["lenient"] or ran.get("lenient", False)),
        "input": start.input,
        "warn": call.warn,
    }
    by_record = cascade is None
    if cascade is None:
        definition = {key: value for key, value in start.cascade.items() if key != RAN}
        cascade = ran["file"] if Path(ran["file"] or ".").is_file() else definition
        record = RecordedWork.of(call, session, settings).named_by(ran["file"])
        ready = record.load_cascade(cascade, **loading)
    else:
        ready = load_cascade(cascade, settings, options["tools"], **loading)
    setup = RunSetup.of(call, answers, settings=settings)
    setup.person.skip_answered(recorded_answers(store, session))
    setup.check(ready.walk())
    run = setup.prepare(ready, start.input, store, session, resumed=True)
    run = resume_run(run, definition_of(ready.cascade), again)
    try:
        result = await run_cascade(run)
    except StepDiffers as differs:
        if not accept:
            raise
        moment = check_sent_time(differs.sent, differs.session_id or session)
        run = fork_run(setup.prepare(ready, start.input, store, None), session, moment)
        call.closing.enter_context(lock_session(store, run.record.session_id))
        result = await run_cascade(run)
    follower = Session(call.engine, cascade, model=model, by_record=by_record)
    return follower.attach(result, run)


async def run_forked(
    call: EngineCall,
    session: str,
    at: int,
    changes: Mapping[str, Any],
    *,
    message: str,
    name: str | None,
    answers: Mapping[str, Any] | Sequence[Any],
) -> Result:
    """Run a session again from its call `at` on, as a new one of this name: `Engine.fork`."""
    options, store = call.options, call.resources.store(existing=True)
    session = find_unedited(store, session)
    start = start_to_resume(store, session, ended=True)
    moment = time_of_call(store, session, at)
    ran = start.cascade[RAN]
    # A model among the changes is the cascade's own, and the run's would go before it.
    model = options["model"] or (None if "model" in changes else ran["model"])
    settings = call.settings_with(model)
    warn_of_other_root(session, ran["root"], settings, call.warn)
    setup = RunSetup.of(call, answers, settings=settings)
    cascade = change_definition(start.cascade, changes)
    ready = RecordedWork.of(call, session, settings).load_cascade(
        cascade, auto=options["auto"], input=start.input, warn=call.warn
    )
    setup.check(ready.walk())
    run = setup.prepare(ready, start.input, store, name)
    call.closing.enter_context(lock_session(store, run.record.session_id))
    run = fork_run(run, session, moment, message)
    result = await run_cascade(run)
    origin = Recorder(store, session, run.record.clock, run.record.new_id)
    told = f"forked at call {at} as session {result.session_id}"
    origin.decide("", told, Forked(result.session_id, at))
    return Session(call.engine, cascade, model=model, by_record=True).attach(result, run)
