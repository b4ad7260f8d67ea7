"""Waiting for a run on the command line: Ctrl-C ends it in order, and errors name its session."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from windlass.cli.progress import Progress
from windlass.engine.result import Result
from windlass.errors import Interrupted, WindlassError


def wait_for(work: Coroutine[Any, Any, Result], watcher: Progress, then: str = "") -> Result:
    """The result of a run that `watcher` shows.

    Raises what the run raises, with its session; Interrupted after Ctrl-C, which says `then` too,
    with the session in place of `{}`.
    """
    try:
        return asyncio.run(_interruptible(work))
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        stopped = Interrupted("interrupted" + then.format(watcher.session_id))
        stopped.session_id = watcher.session_id
        raise stopped from error
    except WindlassError as error:
        error.session_id = watcher.session_id
        raise
    finally:
        watcher.end_text()


async def _interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """The work, cancelled by Ctrl-C.

    The event loop's own handler also wakes the loop. Without one, a Ctrl-C that comes
    in the moment before the loop goes to sleep is noticed only at its next event.
    """
    task = asyncio.current_task()
    if task is not None and sys.platform != "win32":
        with suppress(RuntimeError):  # not in the main thread: nobody presses Ctrl-C there
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    return await work
