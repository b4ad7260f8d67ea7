"""A person and a session, line by line, as `windlass chat` lets them talk."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windlass.api.engine import Engine, run
from windlass.api.sessions import Session
from windlass.caching.rates import override
from windlass.cli.answers import TypedLines, person_at_terminal
from windlass.cli.named_store import open_reporting_losses
from windlass.cli.one_run import describe_unfinished, resume_command
from windlass.cli.output import out, progress
from windlass.cli.printed_tables import print_costs
from windlass.cli.progress import Progress
from windlass.cli.session_text import print_session
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
from windlass.report.costs import session_cost
from windlass.safety.foreign import whole_number
from windlass.settings.settings import Settings

_COMMANDS: Final = ("/show", "/cost", "/exit")


class _Replies(Progress):
    """Prints replies on standard output, and on standard error only what is unusual.

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


class Chat:
    """A chat. `options` are those of `windlass.Session`, `settings` the settings with them."""

    def __init__(self, settings: Settings, options: Mapping[str, Any]) -> None:
        self._settings = settings
        self._lines = TypedLines()
        self._options = {**options, "on_question": person_at_terminal(self._lines)}
        self._reply: asyncio.Task[Result] | None = None

    async def talk(self, cascade: Path | None, resume: str | None, values: Any) -> None:
        """Run the cascade, if there is one, then answer line by line."""
        watcher = _Replies(progress, self._settings.addresses(), verbose=progress.verbose)
        if cascade is None:
            session = Engine(on_event=watcher, **self._options).session(resume=resume)
        else:
            session = await self._run_cascade(cascade, values, watcher)
        async with session:
            if sys.platform != "win32":  # where Ctrl-C ends the session
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
            progress.print(
                "type a message, or one of the commands /show [CALL], /cost and /exit", style="dim"
            )
            while (line := await self._lines.next("> ")) is not None:
                if line.strip() == "/exit":
                    break
                if line.strip():
                    await self._answer_line(session, line, watcher)
        if session.session_id is not None:
            go_on = f"windlass chat --session {session.session_id}"
            progress.hint(f"\ngo on from there: {go_on}", style="dim")

    async def _run_cascade(self, cascade: Path, values: Any, watcher: Progress) -> Session:
        """Run the cascade; its session, which goes on."""
        shown = Progress(progress, self._settings.addresses(), verbose=progress.verbose)
        try:
            result = await run(cascade, values, on_event=shown, **self._options)
        finally:
            shown.end()
        result.check()
        if result.output:
            out.print(result.output)
        if result.status != "completed":
            progress.hint(str(describe_unfinished(result, resume_command("run", cascade))))
        assert isinstance(result.session, Session)
        result.session.on_event = watcher
        return result.session

    async def _answer_line(self, session: Session, line: str, watcher: _Replies) -> None:
        """Answer one line; a failure is printed, and the chat goes on."""
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
                progress.hint(
                    str(describe_unfinished(result, "windlass chat --session {}", resumes=False))
                )
        except StoreError:
            raise
        except WindlassError as error:
            watcher.end()
            progress.hint(f"windlass: {error}")
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
            raise UsageError("nothing has been said yet")
        if word == "/show":
            number = whole_number(rest[0]) if rest else None
            if rest and number is None:
                raise UsageError(f"/show takes the number of a call, from 1, not {rest[0]!r:.42}")
            print_session(session.session_id, number, str(self._settings.store), full=False)
            return
        with open_reporting_losses(self._settings) as store, override(self._settings.prices):
            costs = session_cost(store, session.session_id, self._settings.price_as)
            print_costs(costs)


def _is_cancelled() -> bool:
    """Return whether the whole work is cancelled, and not a reply."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
