"""The command line: thin commands over the library's rooms."""

from __future__ import annotations

import sys

from windlass.cli.terminal import Escaping

TYPE_CHECKING = False  # typing's own, without the time that importing it takes
if TYPE_CHECKING:
    from windlass.errors import WindlassError


def main() -> None:
    """Run the command line and exit with its code.

    A mistake of the user's is one sentence and exit code 2; a failure of the run or
    the machine 1; an interruption 130. Never a traceback for an error of ours.
    """
    streams = sys.stdout, sys.stderr
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no failure
    sys.stdout, sys.stderr = (stream and Escaping(stream) for stream in streams)
    from windlass.cli.app import app

    try:
        app(prog_name="windlass")  # and not as whoever imported this was called
    except _our_errors() as error:
        print(f"windlass: {error}", file=sys.stderr)  # noqa: T201
        if error.session_id is not None:
            print(f"what was recorded: windlass show {error.session_id}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("windlass: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: nobody is left to tell.
        sys.stderr.close()
        sys.exit(0)
    finally:
        sys.stdout, sys.stderr = streams


def _our_errors() -> type[WindlassError]:
    # Called only when something was raised: a page of help need not know the tree of errors.
    from windlass.errors import WindlassError

    return WindlassError
