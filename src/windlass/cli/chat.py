"""`windlass chat`: a person and a session, line by line."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from windlass.api.engine import Engine
from windlass.api.functions import run
from windlass.api.sessions import Session
from windlass.caching.rates import override
from windlass.cli.answers import TypedLines, person_at
from windlass.cli.ending import finish
from windlass.cli.output import out, progress
from windlass.cli.progress import Progress
from windlass.cli.report import print_costs
from windlass.cli.run import command_again, read_input, unfinished
from windlass.cli.show import show_session
from windlass.cli.store import open_marked
from windlass.cli.trust import asking_for_trust, settings_to_run
from windlass.engine.events import (
    CallEnded,
    CallStarted,
    Event,
    PhaseEnded,
    PhaseStarted,
    TextArrived,
)
from windlass.engine.result import Result
from windlass.errors import StoreError, UsageError, WindlassError, did_you_mean
from windlass.providers.spending import Allowance
from windlass.report.costs import session_cost
from windlass.settings.settings import Settings

_COMMANDS: Final = ("/show", "/cost", "/exit")


def chat(
    cascade: Path | None,
    session: str | None,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    *,
    limits: Mapping[str, float | None],
    approve: Mapping[str, bool | str],
    trust: bool,
) -> None:
    """Run the cascade, if one is given, then answer lines until there are no more."""
    if session is not None and (cascade is not None or given):
        raise UsageError("--session goes on with what it ran; leave out the cascade and its input")
    if cascade is None and given:
        raise UsageError("--input is a cascade's; there is none")
    values = read_input(given or ())
    settings = settings_to_run(flags, trusted=trust)
    if session is None and cascade is None and settings["model"].origin == "default":
        raise UsageError(
            "give a cascade, --model to talk to, or --session to go on with; `model` in"
            " windlass.toml or WINDLASS_MODEL names the usual one"
        )
    options = {**flags, "allowances": [Allowance("the chat", **limits)]}
    options |= {"approve": approve, "trust": trust}
    asking_for_trust(lambda: finish(_Chat(settings, options).talk(cascade, session, values)))


class _Replies(Progress):
    """Progress of replies: their text on standard output, and what is out of the ordinary.

    `streamed`: whether the text of the newest reply is printed already.
    """

    streamed = False

    def end_text(self) -> None:
        if self._in_text:
            out.print()
            self._in_text = False

    def _print(self, event: Event) -> None:
        match event:
            case TextArrived(_, text):
                self._in_text = self.streamed = True
                out.print(text, end="")
            case CallStarted():
                self.streamed = False
            case PhaseStarted() | CallEnded() | PhaseEnded():
                pass
            case _:
                super()._print(event)


class _Chat:
    """A chat in hand."""

    def __init__(self, settings: Settings, options: Mapping[str, Any]) -> None:
        self._settings = settings
        self._lines = TypedLines()
        self._options = {**options, "on_question": person_at(self._lines)}
        self._reply: asyncio.Task[Result] | None = None

    async def talk(self, cascade: Path | None, resume: str | None, values: Any) -> None:
        """All of it: the cascade, then line by line."""
        watcher = _Replies(progress, self._settings.addresses(), verbose=progress.verbose)
        if cascade is None:
            session = Engine(on_event=watcher, **self._options).session(resume=resume)
        else:
            session = await self._begun(cascade, values, watcher)
        async with session:
            if sys.platform != "win32":  # where Ctrl-C ends the session
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
            progress.print("say something; /show [CALL], /cost and /exit are for you", style="dim")
            while (line := await self._lines.next("> ")) is not None:
                if line.strip() == "/exit":
                    break
                if line.strip():
                    await self._one(session, line, watcher)
        if session.session_id is not None:
            go_on = f"windlass chat --session {session.session_id}"
            progress.print(f"\ngo on from there: {go_on}", style="dim")

    async def _begun(self, cascade: Path, values: Any, watcher: Progress) -> Session:
        """The session of a cascade that ran."""
        shown = Progress(progress, self._settings.addresses(), verbose=progress.verbose)
        try:
            result = await run(cascade, values, on_event=shown, **self._options)
        finally:
            shown.end()
        result.check()
        if result.output:
            out.print(result.output)
        if result.status != "completed":
            progress.print(str(unfinished(result, command_again("run", cascade))))
        assert isinstance(result.session, Session)
        result.session.on_event = watcher
        return result.session

    async def _one(self, session: Session, line: str, watcher: _Replies) -> None:
        """Answer one line, whatever comes of it."""
        try:
            if line.startswith("/"):
                self._command(session, line)
                return
            self._reply = asyncio.ensure_future(session.send(line))
            result = await self._reply
            if result.error is not None:
                raise result.error
            watcher.end()
            if result.output and not watcher.streamed:
                out.print(result.output)
            if result.status != "completed":
                progress.print(str(unfinished(result, "windlass chat --session {}", resumes=False)))
        except StoreError:
            raise
        except WindlassError as error:
            watcher.end()
            progress.print(f"windlass: {error}")
        except asyncio.CancelledError:
            if self._reply is None or not self._reply.cancelled() or _is_cancelled():
                raise
            watcher.end()
            progress.print("the reply was ended; the session goes on", style="dim")
        finally:
            watcher.end()
            self._reply = None

    def _interrupt(self) -> None:
        """Ctrl-C: end the reply, and never the session."""
        if self._reply is not None:
            self._reply.cancel()
        else:
            progress.print("\n/exit or the end of input (Ctrl-D) ends the session\n> ", end="")

    def _command(self, session: Session, line: str) -> None:
        word, *rest = line.split()
        if word not in _COMMANDS:
            raise UsageError(f"there is no {word!r}; {did_you_mean(word, _COMMANDS)}")
        if session.session_id is None:
            raise UsageError("nothing was said yet")
        if word == "/show":
            if rest and not rest[0].isdecimal():
                raise UsageError(f"/show takes the number of a call, from 1, not {rest[0]!r}")
            number = int(rest[0]) if rest else None
            show_session(session.session_id, number, str(self._settings.store), full=False)
            return
        with open_marked(self._settings) as store, override(self._settings.prices):
            costs = session_cost(store, session.session_id, self._settings.price_as)
            print_costs(costs)


def _is_cancelled() -> bool:
    """Whether the whole work is cancelled, and not a reply."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
