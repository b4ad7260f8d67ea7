"""One event of an agent, answered: what its model is to see of a result, and what is noted of it.

An original is kept before its short form is handed out; where it cannot be kept, the result stays
as it was.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from windlass.public import (
    Policy,
    Settings,
    UsageError,
    WindlassError,
    redacted_json,
    redacted_text,
)
from windlass_agents._earlier import EarlierResults
from windlass_agents.agent_events import (
    AgentPlace,
    Door,
    SeenCall,
    SessionEvent,
    ToolEvent,
    is_recall,
)
from windlass_agents.agent_threads import AgentThread, ShortForm, Tail
from windlass_agents.agents import AGENTS, Codex, adapter_of
from windlass_agents.hook_journal import HookJournal, HookLine, Outcome, text_hash
from windlass_agents.options import HookOptions, read_options
from windlass_agents.project_stores import usual_store

RECALLED: Final = "recall"
"""Why the output of that command stays as it is."""
_REDACTED: Final = "without credentials"
_TOO_LATE: Final = "the answer came too late"
_MOST_WORDS: Final = 400
"""Characters of an error that are noted."""
_MOST_SESSIONS: Final = 100
"""Sessions whose variables are kept."""
_MOST_THREADS: Final = 12
"""Conversations that are kept in memory; one more is read anew when it goes on."""
_LOGIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where any login shell finds commands: Codex runs those of its model in one."""
_STORED_EVERY_S: Final = 60.0
"""Seconds between two times that a session which goes on is put into the store."""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """An event as the short process hands it over."""

    folder: Path
    variables: Mapping[str, str]
    """Those of its environment that say where things are."""
    arguments: tuple[str, ...]
    """The words that follow `windlass agent run`."""
    payload: bytes
    door: Door = "hook"


def _nothing() -> None:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What the agent reads."""

    text: str
    take_back: Callable[[], None] = _nothing
    """To be called where the agent did not get it."""
    failure: str = ""
    """What failed though there is an answer: it is to be counted."""
    afterwards: Callable[[], None] = _nothing
    """What takes long, to be called when the agent has its answer."""


@dataclass(frozen=True, slots=True)
class HookPlace:
    """Where a request comes from, and what that means for its answer."""

    options: HookOptions
    place: AgentPlace
    store: Path
    """The folder of the history."""
    way_back: str
    """The command that gets an original back."""

    @property
    def is_held_out(self) -> bool:
        """Return whether all of the session stays as it is, for comparison."""
        return self.options.holds_out(self.place.session)


class HookHandler:
    """All conversations of one user's agents."""

    def __init__(
        self,
        clock: Callable[[], float],
        store_session: Callable[[Path, AgentPlace], None] | None = None,
        note_store: Callable[[Path], None] | None = None,
    ) -> None:
        """`clock` gives seconds since 1970; `store_session` puts a session into its store.

        `note_store` is told of each store, once.
        """
        self._clock = clock
        self._store_session = store_session
        self._note_store = note_store
        self._stores: set[Path] = set()
        self._guard = threading.Lock()
        self._threads: OrderedDict[tuple[str, ...], AgentThread] = OrderedDict()
        self._models: dict[tuple[str, str], str] = {}
        self._stored: dict[tuple[str, str], float] = {}
        self._inside: set[tuple[str, str]] = set()
        """The sessions inside which a mod runs: their hooks leave results alone."""
        self._variables: OrderedDict[tuple[str, str], Mapping[str, str]] = OrderedDict()

    def answer(self, request: HookRequest) -> HookAnswer:
        """Return what the agent reads. Raises ValueError and WindlassError for what is no event.

        Where credentials are to be taken out, that comes first, and whatever fails afterwards the
        model sees the result without them.
        """
        options = _safest_options(request.arguments)
        adapter = adapter_of(options.agent, request.door)
        payload = json.loads(request.payload)
        if not isinstance(payload, Mapping):
            raise ValueError("an event must be an object")  # noqa: TRY004 - what was read is wrong
        event = adapter.read_event(payload)
        if event is None:
            return HookAnswer("")
        place = replace(event.place, folder=request.folder / event.place.folder)
        if options.redact:
            session, thread = redacted_text(place.session), redacted_text(place.thread)
            place = replace(place, session=session, thread=thread)
        event = replace(event, place=place)
        request = replace(request, variables=self._variables_of(place, request))
        if not self._is_answered_here(event, request.door):
            return HookAnswer(adapter.write_answer(payload, None))
        if isinstance(event, SessionEvent):
            options = read_options(request.arguments)
            store = store_folder(options, place, request.variables)
            return HookAnswer("", afterwards=self._take_moment(event, options, store, request))
        clean = _redacted(event) if options.redact else event
        # What the agent would have cut stays cut: else the whole of it would be shown.
        instead = None if clean.text == event.text else (clean.text or "")[: clean.shown_chars]
        try:
            because = "" if instead is None else _REDACTED
            text, take_back = self._show(clean, request, because)
        except Exception as error:
            if instead is None:
                raise
            failure = f"{type(error).__name__}: {redacted_text(str(error))}"
            shown = event.as_shown(instead)
            return HookAnswer(adapter.write_answer(payload, shown), failure=failure)
        if text is None and instead is not None:
            text = event.as_shown(instead)
        return HookAnswer(adapter.write_answer(payload, text), take_back)

    def find(self, request: HookRequest) -> HookPlace:
        """Return where a request comes from. Raises ValueError and WindlassError."""
        options = read_options(request.arguments)
        event = adapter_of(options.agent, request.door).read_event(json.loads(request.payload))
        if event is None:
            raise ValueError("an event that tells no place")
        place = event.place
        model = place.model or self._models.get((place.agent, place.session))
        place = replace(place, folder=request.folder / place.folder, model=model)
        request = replace(request, variables=self._variables_of(place, request))
        store = store_folder(options, place, request.variables)
        return HookPlace(options, place, store, _way_back(options, store, request))

    def _variables_of(self, place: AgentPlace, request: HookRequest) -> Mapping[str, str]:
        """Return the variables of an agent's own environment, which only its hooks tell."""
        name = place.agent, place.session
        if request.door == "hook":
            self._variables[name] = request.variables
            self._variables.move_to_end(name)
            if len(self._variables) > _MOST_SESSIONS:
                self._variables.popitem(last=False)
        return self._variables.get(name, request.variables)

    def _is_answered_here(self, event: ToolEvent | SessionEvent, door: Door) -> bool:
        """Return whether an event is to be answered, and not left to the other door.

        A mod is told of a session's beginning after the hooks are.
        """
        name = event.place.agent, event.place.session
        if isinstance(event, SessionEvent):
            if event.moment == "ended" or (door == "hook" and event.moment == "began"):
                self._inside.discard(name)
            elif door == "mod":
                self._inside.add(name)
            return True
        if door == "mod":
            self._inside.add(name)
        return door == "mod" or name not in self._inside

    def _show(
        self, event: ToolEvent, request: HookRequest, because: str
    ) -> tuple[str | None, Callable[[], None]]:
        """Return the short form of a result (None: it stays), and what is to be done if it is late.

        `because`: what was done to the result before.
        """
        options, place = read_options(request.arguments), event.place
        store = store_folder(options, place, request.variables)
        journal = HookJournal(store)
        line = HookLine(
            time=self._clock(),
            agent=options.agent,
            session=place.session,
            thread=place.thread,
            call_id=event.call_id,
            tool=event.tool,
            outcome="whole",
            because=because,
            transcript=str(place.transcript or ""),
            cut=event.text is not None and event.shown_chars < len(event.text),
            folder=str(project_folder(place, request.variables)),
            redacted=options.redact,
        )
        has_earlier = journal.note_earlier(line, _earlier_calls(event, line))
        left = _left_alone(event, options)
        if left is not None:
            _note_call(journal, event, line, event.text)
            journal.write(replace(line, outcome=left[0], because=left[1] or because))
            return None, _nothing
        thread = None
        try:
            thread = self._thread(place, options, store, request)
            if has_earlier:
                thread.read_again()
            short = thread.shorten(event)
            if short is not None:
                short = replace(short, text=event.as_shown(short.text))
            text = None if short is None else short.text
            if short is not None:  # what it names is kept before it is handed out
                for original in (short.original, *short.sources):
                    journal.keep(original)
                self._note(store)
            _note_call(journal, event, line, text or event.text)
            journal.write(line if short is None else _shortened(line, short))
        except Exception as error:
            if thread is not None:
                thread.begin_anew()
            words = redacted_text(str(error))[:_MOST_WORDS]
            with suppress(OSError, WindlassError):
                journal.write(replace(line, outcome="error", because=words))
            raise

        def take_back() -> None:
            thread.begin_anew()
            if text is not None:
                late = replace(line, outcome="error", because=_TOO_LATE)
                _note_call(journal, event, late, event.text)
                journal.write(late)

        return text, take_back

    def _note(self, store: Path) -> None:
        """Let originals of a store be found from everywhere."""
        if self._note_store is not None and store not in self._stores:
            self._stores.add(store)
            with suppress(OSError):
                self._note_store(store.absolute())

    def _take_moment(
        self, event: SessionEvent, options: HookOptions, store: Path, request: HookRequest
    ) -> Callable[[], None]:
        """Take in what happened to a session; what is to be done afterwards."""
        place = event.place
        name = (place.agent, place.session)
        if place.model:
            self._models[name] = place.model
        if event.moment == "compacted":
            HookJournal(store).note_compaction(place.agent, place.session)
            with self._guard:
                for key in [key for key in self._threads if key[:2] == name]:
                    del self._threads[key]
        if event.moment in ("began", "compacted"):
            thread = self._thread(place, options, store, request)
            return lambda: thread.prepare(place)
        is_due = self._clock() - self._stored.get(name, 0.0) >= _STORED_EVERY_S
        if self._store_session is not None and (event.moment == "ended" or is_due):
            self._stored[name] = self._clock()
            return partial(self._store_session, store, place)
        return _nothing

    def _thread(
        self, place: AgentPlace, options: HookOptions, store: Path, request: HookRequest
    ) -> AgentThread:
        """Return what the model of a place has seen."""
        words = str(store), request.door, *request.arguments
        key = (place.agent, place.session, place.thread, *words)
        with self._guard:
            thread = self._threads.get(key)
        # Files of the project are read, which nobody else waits for.
        thread = thread or self._new_thread(place, options, store, request)
        with self._guard:
            thread = self._threads.pop(key, thread)  # another one may have been faster
            self._threads[key] = thread
            while len(self._threads) > _MOST_THREADS:
                self._threads.popitem(last=False)
        return thread

    def _new_thread(
        self, place: AgentPlace, options: HookOptions, store: Path, request: HookRequest
    ) -> AgentThread:
        settings = Settings.read({}, request.variables, place.folder)
        policy = Policy()
        if options.policy is not None:
            from windlass.public import policy_of

            policy = policy_of(options.policy).policy
        tail = None
        if place.view is not None:
            tail = Tail(place.view, self._models.get((place.agent, place.session)))
        journal = HookJournal(store)
        own = place.agent, place.session
        return AgentThread(
            policy.at_birth(),
            _way_back(options, store, request),
            tail,
            EarlierResults(journal, *own, place.transcript),
            redact=options.redact,
            read_history=partial(journal.calls_in_view, *own, place.thread),
            user_prices=settings.prices,
        )


def _way_back(options: HookOptions, store: Path, request: HookRequest) -> str:
    """Give the command that gets an original back, as a short form says it before the reference."""
    command = "windlass"
    path = _LOGIN_PATH if options.agent == Codex.name else request.variables.get("PATH")
    if shutil.which(command, path=path) is None:
        command = shlex.quote(str(Path(sys.executable).with_name(command)))
    return f"{command} recall" + (f" --store {shlex.quote(str(store))}" if options.store else "")


def _safest_options(arguments: tuple[str, ...]) -> HookOptions:
    """Return the options; where others are wrong, at least that credentials are to be taken out.

    Raises UsageError where nothing can be done.
    """
    try:
        return read_options(arguments)
    except UsageError:
        if "--redact" not in arguments or arguments[0] not in AGENTS:
            raise
        return HookOptions(arguments[0], redact=True)


def _redacted(event: ToolEvent) -> ToolEvent:
    """Return an event without credentials in anything that is shown, noted or kept of it."""
    text = None if event.text is None else redacted_text(event.text)
    return replace(
        event,
        call_id=redacted_text(event.call_id),
        tool=redacted_text(event.tool),
        arguments=redacted_json(dict(event.arguments)),
        text=text,
        shown_chars=min(event.shown_chars, len(text or "")),
        earlier=tuple(one.redacted() for one in event.earlier),
    )


def _earlier_calls(event: ToolEvent, line: HookLine) -> list[SeenCall]:
    """Return what the agent tells of the time before, as it is noted."""
    model = event.place.model or ""
    return [replace(one, time=line.time, thread=line.thread, model=model) for one in event.earlier]


def _left_alone(event: ToolEvent, options: HookOptions) -> tuple[Outcome, str] | None:
    """Return why a result stays as it is, whatever it says (None: it may be shortened)."""
    if event.failed:
        return "failed result", ""
    if is_recall(event.tool, event.arguments):
        return "whole", RECALLED
    if options.holds_out(event.place.session):
        return "held out", ""
    if event.text is None:
        return "unknown shape", ""
    return None


def _note_call(journal: HookJournal, event: ToolEvent, line: HookLine, result: str | None) -> None:
    """Note a call with what its model sees, where no transcript is read for that."""
    place = event.place
    if place.view is None and result is not None:
        call = SeenCall(
            event.call_id,
            event.tool,
            event.arguments,
            result,
            time=line.time,
            thread=place.thread,
            model=place.model or "",
        )
        journal.write_call(line, call)


def _shortened(line: HookLine, short: ShortForm) -> HookLine:
    return replace(
        line,
        outcome="shortened",
        because=short.because,
        original=short.original.content_hash,
        shown=text_hash(short.text),
        refers=" ".join(source.content_hash for source in short.sources),
        tokens_before=short.tokens_before,
        tokens_after=short.tokens_after,
    )


def project_folder(place: AgentPlace, variables: Mapping[str, str]) -> Path:
    """Return the project that an agent works in, as it says."""
    return Path(variables.get("CLAUDE_PROJECT_DIR") or place.folder)


def store_folder(options: HookOptions, place: AgentPlace, variables: Mapping[str, str]) -> Path:
    """Give the folder in which a hook writes: the one that is named, or `.windlass` in the project.

    Of a linked working tree that is the project of the main one, which stays when a tree is
    removed. Raises ValueError where no folder is named and the project is a whole disk, and
    StoreError where it is not named and is a link.
    """
    project = project_folder(place, variables)
    named = options.store or variables.get("WINDLASS_STORE")
    if named is not None:
        return project / Path(named).expanduser()
    if project.resolve() == Path(project.resolve().anchor):
        raise ValueError(f"no project: {str(project)!r}")
    return usual_store(project)
