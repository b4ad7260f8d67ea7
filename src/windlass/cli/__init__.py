"""The command line: thin commands over the library's rooms."""

from __future__ import annotations

import sys
import threading

from windlass.cli.ending import leave, open_streams, signals_interrupt
from windlass.cli.output import Escaping
from windlass.errors import WindlassError


def main() -> None:
    """Run the command line and exit with its code.

    A mistake of the user's is one sentence and exit code 2; a failure of the run or the machine 1;
    a run that neither failed nor completed 3; an interruption (Ctrl-C, SIGTERM, SIGHUP) 130.
    Never a traceback for an error of ours. Output that nobody reads any more is no failure.
    """
    threads = frozenset(threading.enumerate())
    open_streams()
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (Escaping(stream) for stream in streams)
    try:
        with signals_interrupt():
            code = _run()
    finally:
        sys.stdout, sys.stderr = streams
    leave(code, threads)


def _run() -> int:
    """Run the command and print what stopped it; its exit code."""
    try:
        from windlass.cli.app import app  # a signal may come while it is imported

        app(prog_name="windlass")  # and not as whoever imported this was called
    except WindlassError as error:
        _print(f"windlass: {error}")
        if error.session_id is not None:
            _print(f"what was recorded: windlass show {error.session_id}")
        return error.exit_code
    except KeyboardInterrupt:  # before a command began
        _print("windlass: interrupted")
        return 130
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _print(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201
    except (OSError, ValueError):
        return  # a terminal that hung up, a pipe that is closed: nobody is left to read it
