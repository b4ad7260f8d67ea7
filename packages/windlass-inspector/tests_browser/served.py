"""Stores of sessions of all kinds, served by the command as a user would serve them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
from tests.history.builders import row, start
from tests.support.hooks_agent import RecordingAgent, bash, lines
from tests.support.web_sessions import HOSTILE, ODD, store_sessions

from windlass.engine.opening import open_session
from windlass.history.base import Batch, SessionFilter
from windlass.history.sqlite import SqliteStore
from windlass.messages import assistant, user
from windlass.report.inspected import InspectedSession
from windlass_agents.hooked_sessions import store_hooked
from windlass_inspector._rendering import address

PRICES: Final = "anthropic/claude-sonnet-4-5"
TOKEN: Final = "a-token-for-browsers"
LIVE: Final = "running"
"""The session that is still being written."""


@dataclass(frozen=True)
class Served:
    """An inspector at work.

    `start` is the address that it printed, with the token; `root` is what the addresses of all
    pages begin with.
    """

    start: str
    root: str

    @property
    def host(self) -> str:
        return self.start.partition("/?")[0]


@contextmanager
def served(store: Path) -> Iterator[Served]:
    """The inspector of a store, at a port that is free."""
    command = [sys.executable, "-m", "windlass", "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-open", "--token", TOKEN], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert "http://127.0.0.1:" in said, (said, process.poll())
            start = said.split()[-1]
            page = httpx.get(start, follow_redirects=False).headers["location"]
            yield Served(start, start.partition("/?")[0] + page.removesuffix("/"))
        finally:
            process.terminate()


def store_all(folder: Path) -> tuple[Path, str]:
    """A store in `folder` with sessions of all kinds, and the session of an agent with a hook."""
    store = folder / "store"
    agent = RecordingAgent(folder / "agent", "s1")
    agent.run("Bash", {"command": "make"}, bash(lines("object")))
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    agent.run("Bash", {"command": "make test"}, bash(lines("test")))
    [hooked] = store_hooked(agent.store, "claude-code", "s1")
    shutil.move(agent.store, store)
    store_sessions(store)
    return store, hooked.session_id


@contextmanager
def live(folder: Path) -> Iterator[None]:
    """A session that another process than the inspector's writes, and holds as a run does."""
    with SqliteStore(folder) as store, open_session(store, LIVE):
        said = [row(user("Count the words.")), row(assistant("I begin."))]
        store.append(Batch(LIVE, start=start(), rows=said))
        yield


def grow_live(folder: Path, session: str = LIVE) -> None:
    """A row more of it, or of another that begins."""
    begun = start() if session != LIVE else None
    with SqliteStore(folder) as store:
        store.append(Batch(session, start=begun, rows=[row(user("Go on."))]))


PAGES: Final = (
    "list", "list-none", "search", "search-none",
    "session-long", "session-wasteful", "session-hooked", "session-imported", "session-hostile",
    "session-failed", "session-running",
    "matrix-long", "matrix-hooked", "matrix-hostile", "matrix-none",
    "call-first", "call-middle", "call-hooked", "call-hostile",
    "message-long", "message-hooked", "message-picture", "message-hostile",
    "costs", "costs-hostile", "soundings", "soundings-whole", "forks", "forks-none",
    "replay", "replay-problem", "trouble-session", "trouble-address",
)  # fmt: skip
"""What pages are called whose addresses `pages_of` gives."""


def pages_of(folder: Path, hooked: str) -> Mapping[str, str]:
    """The address of each page of `PAGES`."""
    with SqliteStore.open_existing(folder, reading=True) as store:
        others = store.sessions(SessionFilter(under=()))
        names = [info.session_id for info in others if info.session_id.startswith("claude-code-")]
        (imported,) = set(names) - {hooked}

        def said(session: str, role: str) -> str:
            """The longest message of a role."""
            messages = [
                (len(each.row.message.text), each.id)
                for each in store.rows(session)
                if each.id and each.row.message is not None and each.row.message.role == role
            ]
            return address("session", session, "message", max(messages)[1])

        pictured = next(
            each.id
            for each in store.rows("long")
            if each.id and each.row.message is not None and each.row.message.pictures
        )
        middle = len(InspectedSession(store, "long", PRICES).view.calls) // 2
        return {
            "list": "/",
            "list-none": "/?name=nobody",
            "search": "/?q=report+id_north",
            "search-none": "/?q=nothing+of+the+kind",
            "session-long": address("session", "long"),
            "session-wasteful": address("session", "whole"),
            "session-hooked": address("session", hooked),
            "session-imported": address("session", imported),
            "session-hostile": address("session", ODD),
            "session-failed": address("session", "failing"),
            "session-running": address("session", LIVE),
            "matrix-long": address("session", "long", "matrix"),
            "matrix-hooked": address("session", hooked, "matrix"),
            "matrix-hostile": address("session", ODD, "matrix"),
            "matrix-none": address("session", LIVE, "matrix"),
            "call-first": address("session", "long", "call", 1),
            "call-middle": address("session", "long", "call", middle),
            "call-hooked": address("session", hooked, "call", 2),
            "call-hostile": address("session", ODD, "call", 1),
            "message-long": said("long", "user"),
            "message-hooked": said(hooked, "tool"),
            "message-picture": address("session", "long", "message", str(pictured)),
            "message-hostile": said(ODD, "assistant"),
            "costs": address("session", "long", "costs"),
            "costs-hostile": address("session", ODD, "costs"),
            "soundings": address("session", "sounded", "soundings"),
            "soundings-whole": address("session", "sounded-whole", "soundings"),
            "forks": address("session", "first", "forks"),
            "forks-none": address("session", "whole", "forks"),
            "replay": address("session", "whole", "replay"),
            "replay-problem": address("session", "whole", "replay", policies=f"mask:x {HOSTILE}"),
            "trouble-session": address("session", "nobody"),
            "trouble-address": "/nowhere",
        }
