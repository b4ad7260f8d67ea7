"""Questions at the terminal, and files of answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from windlass.cli.output import progress
from windlass.engine.people.questions import Asked, Question
from windlass.errors import UsageError
from windlass.safety.fairness import start_thread
from windlass.safety.foreign import parse_json


class TypedLines:
    """Lines that a person types. A line that is no longer waited for answers the next question."""

    def __init__(self) -> None:
        self._coming: Future[str] | None = None

    async def next(self, prompt: str) -> str | None:
        """Return the next line, without its end (None: there are no more)."""
        progress.print(prompt, end="")
        if self._coming is None:
            self._coming = start_thread(sys.stdin.readline, "typed")
        line = await asyncio.shield(asyncio.wrap_future(self._coming))
        self._coming = None
        return line.rstrip("\r\n") if line else None


def person_at_terminal(lines: TypedLines) -> Asked | None:
    """Return what asks the person at the terminal (None: there is no terminal)."""
    if progress.quiet or not (sys.stdin.isatty() and progress.file.isatty()):
        return None
    turn = asyncio.Lock()  # soundings ask side by side

    async def answer(question: Question) -> str | None:
        async with turn:
            if question.tool is not None:  # a number that was meant for a choice says nothing
                progress.print(f"  {question.tool}: yes, no, or why not")
            else:
                for number, option in enumerate(question.options, start=1):
                    progress.print(f"  {number} {option}")
            while True:
                typed = await lines.next("> ")
                if typed is None:
                    return None
                try:
                    return question.answered(typed)
                except UsageError as error:
                    progress.print(str(error))

    return answer


def read_answers(path: Path | None, first: str | None) -> Any:
    """Return the answers that a command line gives: `first`, then those of a file.

    The file holds JSON lines, a list, or an object that maps questions to answers. Raises
    UsageError.
    """
    given: list[Any] = [] if first is None else [first]
    if path is None:
        return given
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--answers {str(path)!r} cannot be read as text: {error}") from error
    try:
        held = [parse_json(text)]
    except ValueError:
        held = [_line(line, f"{path}:{at}") for at, line in _filled(text)]
    match held:
        case [list(values)]:
            return [*given, *values]
        case [dict(values)] if not values.keys() >= {"question", "answer"}:
            return [*given, *({"question": key, "answer": of} for key, of in values.items())]
        case _:
            return [*given, *held]


def read_approvals(approve: Sequence[str] | None, deny: Sequence[str] | None) -> dict[str, Any]:
    """Return what a command line says of tools that need approval, as `windlass.run` takes it.

    A denial may say why, behind a `=`. Raises UsageError for a name that has both.
    """
    said: dict[str, Any] = dict.fromkeys(approve or (), True)
    for written in deny or ():
        name, _, why = written.partition("=")
        if said.get(name) is True:
            raise UsageError(f"{name!r} is approved and denied; give one of --approve and --deny")
        said[name] = why or False
    return said


def approval_words(said: Mapping[str, Any]) -> list[str]:
    """Return the options that `read_approvals` reads as this."""
    words: list[str] = []
    for name, may in said.items():
        why = f"={may}" if isinstance(may, str) else ""
        words += ["--approve", name] if may is True else ["--deny", f"{name}{why}"]
    return words


def _filled(text: str) -> list[tuple[int, str]]:
    return [(at, line) for at, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _line(line: str, where: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise UsageError(
            f'{where}: each line of --answers must be JSON, such as "yes": {error}'
        ) from error
