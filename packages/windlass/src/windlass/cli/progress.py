"""Live progress of a run, one line or piece of text at a time, on standard error.

On a terminal a spinner says meanwhile what the run waits for, and for how long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from windlass.caching.rates import money
from windlass.cli.next_commands import with_store
from windlass.cli.output import shorten
from windlass.engine.events import (
    CallEnded,
    CallStarted,
    Event,
    InputEnded,
    Noted,
    PhaseEnded,
    PhaseStarted,
    PlanChanged,
    QuestionAsked,
    SessionStarted,
    SubCascadeEnded,
    TextArrived,
    ToolEnded,
    ToolStarted,
    Validated,
    Waiting,
)
from windlass.history.base import in_words
from windlass.safety.escaping import escaped

_STEPS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
_FRAMES_A_SECOND = 8
_SEEN = 72
"""Characters that say what a phase sees, unless all is asked for."""
_INPUT_LINES = 20
"""About how many lines show the inputs of a reduce."""


class Progress:
    """Prints events as they come. `session_id` is the session's, once it has started.

    `addresses` are those that the settings give providers, which may differ from the vendors'.
    `verbose`: each request is reported too, and how its context was made.
    """

    def __init__(
        self,
        console: Console,
        addresses: Mapping[str, str] | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        self.session_id: str | None = None
        self._verbose = verbose
        self._addresses = addresses or {}
        self._console = console
        self._in_text = False
        self._spinner = _WaitSpinner(console)

    def __call__(self, event: Event) -> None:
        """Print one event."""
        self._spinner.hide()
        if not isinstance(event, TextArrived):
            self.end_text()
        self._print(event)
        self._spinner.follow(event)
        if not self._in_text:
            self._spinner.show()

    def end(self) -> None:
        """End the line on which text streams in, and the spinner: the run is over."""
        self._spinner.hide()
        self.end_text()

    def _print(self, event: Event) -> None:
        match event:
            case SessionStarted(session, cascade, parent_id=str()):
                self._line(f"\n  sub-cascade {cascade}: session {session}", "bold")
            case SubCascadeEnded(_, cascade, _, status, reason):
                self._line(f"\n  sub-cascade {cascade}: {in_words(status, reason)}", "bold")
            case SessionStarted(session, cascade, models):
                self.session_id = session
                names = models_with_places(models, self._addresses)
                self._line(f"cascade {cascade}; models that will see content: {names}")
                self._line(f"session {session}", "dim")
            case PhaseStarted(phase, index, total, context):
                seen = context.rstrip(".")
                if not self._verbose and len(seen) > _SEEN:
                    seen = f"{seen[:_SEEN].rpartition(' ')[0]} …"
                number = index if total is None else f"{index}/{total}"
                self._line(f"\n[{number}] {phase}  ({seen})", "bold")
            case CallStarted() | CallEnded() if not self._verbose:
                pass
            case Noted(detail=True) if not self._verbose:
                pass
            case PhaseEnded(status="completed") if not self._verbose:
                pass
            case CallStarted(_, turn, attempt, tokens, snowball):
                beside = f"; sending everything: {snowball:,}" if snowball != tokens else ""
                tried = f", attempt {attempt}" if attempt > 1 else ""
                doing = f"sending {tokens:,} tokens{beside}"
                if event.is_recorded:
                    doing = "answered in the record"
                self._line(f"  turn {turn}{tried}: {doing}", "cyan")
            case TextArrived(_, text):
                if not self._in_text:
                    self._console.print("  ", end="")
                self._in_text = True
                self._console.print(text.replace("\n", "\n  "), style="dim", end="")
            case CallEnded(is_recorded=False):
                cost = f", {money(event.cost)}" if event.cost else ""
                self._line(
                    f"  reply: {event.tokens_in:,} in ({event.tokens_cached:,} cached),"
                    f" {event.tokens_out:,} out, {event.seconds:.1f} s{cost}",
                    "cyan",
                )
            case QuestionAsked(phase, question, context=context):
                self._line(f"  {phase} asks: {shorten(question, 4_000)}", "bold")
                for line in shorten(context, 40_000).splitlines():
                    self._line(f"    {line}", "dim")
            case ToolStarted(_, name, arguments):
                self._line(f"  tool {name}({shorten(arguments, 160)})", "yellow")
            case ToolEnded(_, name, error, summary, pictures):
                shown = f" [picture {'; '.join(pictures)}]" if pictures else ""
                failed = "failed: " if error else ""
                line = f"  tool {name}: {failed}{shorten(summary, 160)}{shown}"
                self._line(line, "red" if error else "yellow")
            case Validated(_, attempt, valid, reason):
                verdict = "accepted" if valid else f"refused: {shorten(reason, 200)}"
                self._line(f"  attempt {attempt} {verdict}", "green" if valid else "red")
            case Noted(_, text):
                self._line(f"  note: {with_store(text)}", "magenta")
            case PlanChanged(_, goal, done, total, _, steps):
                self._line(f"  plan: {shorten(goal, 120)} ({done}/{total})", "blue")
                for status, text, conclusion in steps:
                    after = f" -> {conclusion}" if conclusion else ""
                    self._line(f"    {_STEPS[status]} {shorten(text + after, 150)}", "blue")
            case Waiting(_, seconds, because, attempt, tries):
                next_try = f", try {attempt} of {tries}" if attempt > 1 else ""
                self._line(
                    f"  waiting {seconds:.0f} s: {shorten(because, 200)}{next_try}", "magenta"
                )
            case InputEnded(phase, _, name, done, total):
                if done % max(1, total // _INPUT_LINES) == 0 or done == total:
                    self._line(f"  {phase}: {done:,} of {total:,} inputs ({name})", "green")
            case PhaseEnded(_, status, _, reason):
                style = "green" if status == "completed" else "magenta"
                self._line(f"  {in_words(status, reason)}", style)

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style)

    def end_text(self) -> None:
        """End the line on which text streams in, before something else is printed."""
        if self._in_text:
            self._console.print()
            self._in_text = False


@contextmanager
def show_count(console: Console, what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a line that counts, and remove it afterwards; only on a terminal.

    Yields a function that takes what is counted, how many are done, and how many there are.
    """
    if not console.is_terminal or console.quiet:
        yield lambda _what, _number, _total: None
        return
    with console.status(what) as status:

        def count(name: str, number: int, total: int) -> None:
            status.update(f"{what}: {number:,} of {total:,} {name}")

        yield count


class _WaitSpinner:
    """A spinner with what a run waits for, and for how long; only where a person watches."""

    def __init__(self, console: Console) -> None:
        self._awaited: dict[tuple[str, str], float] = {}
        self._live: Live | None = None
        self._console = console
        unicode = console.encoding.startswith("utf")
        self._spinner = Spinner("dots" if unicode else "line", style="dim")

    def follow(self, event: Event) -> None:
        """Start or stop waiting, as an event says."""
        match event:
            case CallStarted(phase):
                self._awaited[phase, "model"] = time.monotonic()
            case ToolStarted(phase, name):
                self._awaited.setdefault((phase, f"tool {name}"), time.monotonic())
            case TextArrived(phase) | CallEnded(phase):
                self._awaited.pop((phase, "model"), None)
            case ToolEnded(phase, name):
                self._awaited.pop((phase, f"tool {name}"), None)
            case PhaseEnded(phase):
                self._awaited = {key: at for key, at in self._awaited.items() if key[0] != phase}

    def show(self) -> None:
        """Spin while something is waited for."""
        if self._awaited and is_watched(self._console):
            self._live = live_line(self._console, self._drawn, _FRAMES_A_SECOND)

    def hide(self) -> None:
        """Remove the spinner, so that a line may be printed."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self) -> Spinner:
        (_, name), since = min(self._awaited.items(), key=lambda item: item[1])
        seconds = f" {int(time.monotonic() - since)} s"
        room = max(self._console.width - len(seconds) - 4, 1)
        self._spinner.update(text=Text(escaped(name)[:room] + seconds, style="dim"))
        return self._spinner


def live_line(console: Console, drawn: Callable[[], RenderableType], frames: int) -> Live:
    """Give a line that is redrawn `frames` times a second until it is stopped, and then removed."""
    live = Live(
        console=console,
        get_renderable=drawn,
        refresh_per_second=frames,
        transient=True,
        # What tools print is not output: nothing may lead it to the console.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    live.start()
    return live


def is_watched(console: Console) -> bool:
    """Return whether a person watches, so that a line may change in place."""
    at_terminal = console.is_terminal and not console.is_dumb_terminal
    return at_terminal and console.file.isatty() and not console.quiet and not _in_ci()


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def models_with_places(models: Iterable[str], addresses: Mapping[str, str]) -> str:
    """Return the models, each with where it runs unless that is at its vendor."""
    return ", ".join(name + _where(name, addresses) for name in models)


def _where(model: str, addresses: Mapping[str, str]) -> str:
    provider = model.partition("/")[0]
    if provider == "local":
        return " (on this machine)"
    return f" (at {addresses[provider]})" if provider in addresses else ""
