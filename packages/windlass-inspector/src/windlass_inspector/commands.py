"""The command `windlass serve`. What it needs is imported when it runs: help is instant."""

import os
import sys
from contextlib import suppress
from threading import Thread
from typing import Annotated

from typer import Argument, Option

from windlass.public import StoreOption, command, out


@command(has_json=False)
def serve(
    session: Annotated[
        str | None, Argument(help="The session to begin with, as in show (default: the list).")
    ] = None,
    *,
    store: StoreOption = None,
    port: Annotated[
        int, Option("--port", help="The port of this machine (0: any that is free).")
    ] = 7410,
    token: Annotated[
        str | None, Option("--token", help="What the address must hold (default: made anew).")
    ] = None,
    no_open: Annotated[bool, Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Show the sessions of the store in a browser: every call, what it saw, why, what it cost.

    It prints the address, answers on this machine alone, and changes nothing. Ctrl-C ends it.
    """
    from windlass.public import read_settings
    from windlass_inspector.serving import serve as serve_pages

    def tell(address: str) -> None:
        out.print(f"the inspector: {address}")
        out.print("Ctrl-C ends it")
        out.file.flush()

    serve_pages(
        read_settings(store),
        session=session,
        port=port,
        token=token,
        on_ready=tell,
        open_browser=None if no_open or not _has_windows() else _open_browser,
    )


def _has_windows() -> bool:
    """Whether there is a screen for a browser that needs no terminal."""
    if not sys.platform.startswith("linux"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_browser(address: str) -> None:
    """Open an address in the user's browser."""
    import webbrowser

    def show() -> None:
        with suppress(webbrowser.Error, OSError):
            webbrowser.open(address)

    Thread(target=show, daemon=True).start()
