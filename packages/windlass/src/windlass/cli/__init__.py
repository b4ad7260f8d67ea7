"""The command line: thin commands over the library's rooms."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own, which takes 10 ms
if TYPE_CHECKING:
    from windlass.errors import WindlassError


def main() -> None:
    """Run the command line and exit with its code.

    A mistake of the user's is one sentence and exit code 2; a failure of the run or the machine 1;
    a run that neither failed nor completed 3; an interruption (Ctrl-C, SIGTERM, SIGHUP) 130.
    Never a traceback for an error of ours. Output that nobody reads any more is no failure.
    """
    import threading

    from windlass.cli.signals import signals_interrupt

    threads = frozenset(threading.enumerate())
    with signals_interrupt():
        try:
            if (code := _answer_at_once()) is not None:
                sys.exit(code)
            from windlass.cli.standard_streams import Escaping, open_streams

            open_streams()
            streams = sys.stdout, sys.stderr
            sys.stdout, sys.stderr = (Escaping(stream) for stream in streams)
            try:
                code = _run()
            finally:
                sys.stdout, sys.stderr = streams
        except KeyboardInterrupt:  # before a command began, or after it ended
            _print("windlass: interrupted")
            code = 130
        from windlass.cli.ending import exit_process

        exit_process(code, threads)


def _run() -> int:
    """Run the command and print what stopped it; its exit code."""
    from windlass.errors import WindlassError

    try:
        from windlass.cli.app import app

        app(prog_name="windlass")  # and not as whoever imported this was called
    except WindlassError as error:
        return _tell(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _answer_at_once() -> int | None:
    """Return the exit code of a plugin's command that answers quickly (None: there is no such).

    An agent waits for such an answer: what other commands import takes three times as long.
    """
    words = sys.argv[1:]
    if not words or None in (sys.stdin, sys.stdout, sys.stderr):
        return None
    from windlass.errors import WindlassError
    from windlass.settings.plugins import COMMANDS, EXTRAS, QUICK, announced, load_announced

    if words[0] not in EXTRAS[COMMANDS]:
        return None
    try:
        for entry in announced(QUICK):
            if entry.name == words[0]:
                code: int | None = load_announced(entry, "command")(words[1:])
                return code
    except WindlassError as error:
        return _tell(error)
    return None


def _tell(error: WindlassError) -> int:
    """Print what stopped a command; its exit code."""
    from windlass.cli.next_commands import with_store
    from windlass.safety.escaping import escaped

    _print(escaped(with_store(f"windlass: {error}")))
    if error.session_id is not None:
        _print(with_store(f"what was recorded: windlass show {error.session_id}"))
    if error.again is not None:
        _print(with_store(f"go on from there: {error.again}"))
    return error.exit_code


def _print(text: str) -> None:
    from windlass.errors import WindlassError

    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201
    except (WindlassError, OSError, ValueError):
        return  # a terminal that hung up, a pipe that is closed: nobody is left to read it
