"""Sessions on the command line: which one a command means, and which are listed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import cascade, phase
from tests.support.cli_terminal import COMMANDS
from tests.tasks.making import atomic
from windlass.errors import BadRequest
from windlass.wire.base import Request

OTHERS = {
    ("run",),
    ("batch",),
    ("compare",),
    ("fork",),
    ("chat",),
    ("serve",),
    ("agent", "try"),
    ("hook", "try"),
}
"""The session of `run` is a new one, batches resume none, `fork` makes one, `chat` waits, `serve`
goes on until it is interrupted, and a hook is tried on recordings of agents."""
TAKING = {
    path: [
        param.name for param in command.params if param.name in ("session", "resume", "recording")
    ]
    for path, command in COMMANDS.items()
    if path not in OTHERS
}
WAYS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("show",): ("S", "--call", "1"),
    ("explain",): ("S", "1"),
    ("report",): ("S",),
    ("diff",): ("S", "S"),
    ("replay",): ("S",),
    ("export",): ("S", "--as", "openai"),
    ("callout",): ("S", "set_state", "kept"),
    ("cards",): ("S",),
    ("prune",): ("--session", "S", "--dry-run"),
    ("evaluate",): ("--resume", "S"),
}
"""How each command that takes a session is called."""


def test_every_command_that_takes_a_session_is_tried() -> None:
    assert {path for path, names in TAKING.items() if names} == set(WAYS)


@pytest.mark.parametrize("path", WAYS, ids=" ".join)
@pytest.mark.parametrize("name", ["latest", "s"])
def test_a_session_goes_by_its_beginning_and_the_newest_by_latest(
    ran: CommandLine, path: tuple[str, ...], name: str
) -> None:
    if path == ("evaluate",):
        assert ran("prune", "--session", "s1").code == 0
        assert ran("evaluate", ran.write("t.xml", atomic("a")), "--session", "s1").code == 0
    whole, short = (
        ran(*path, *(session if word == "S" else word for word in WAYS[path]), "--json")
        for session in ("s1", name)
    )
    if path == ("evaluate",):
        assert "session 's1' completed" in whole.complaint
        assert short.complaint == whole.complaint
    else:
        assert (whole.code, short.code) == (0, 0), short.err
        assert short.json == whole.json


@pytest.mark.parametrize("path", WAYS, ids=" ".join)
def test_a_beginning_of_several_is_refused_and_names_them(
    ran: CommandLine, path: tuple[str, ...]
) -> None:
    for name in ("t-1", "t-2"):
        assert ran("run", "two.json", "--session", name).code == 0
    said = ran(*path, *("t-" if word == "S" else word for word in WAYS[path]))
    assert said.code == 2
    assert said.complaint == "windlass: 't-' is the beginning of several sessions: t-2, t-1"


def test_an_empty_store_has_no_latest(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a")))
    assert windlass("run", "c.json", "--session", "s1").code == 0
    assert windlass("prune", "--session", "s1").code == 0
    said = windlass("show", "latest")
    assert said.code == 2
    assert "no session is in this store" in said.complaint


@pytest.fixture
def three(ran: CommandLine) -> CommandLine:
    """Sessions of three days: `old` of another cascade failed, `s1` and `new` completed."""
    ran.write("other.json", cascade(phase("a"), cascade_id="other"))

    def fail(_: Request) -> str:
        raise BadRequest("no")

    ran.script = fail
    assert ran("run", "other.json", "--session", "old").code == 1
    ran.script = lambda _: "x"
    assert ran("run", "two.json", "--session", "new").code == 0
    with sqlite3.connect(ran.folder / ".windlass" / "windlass.sqlite") as db:
        for name, day in (("old", 10), ("s1", 11), ("new", 12)):
            began = datetime(2026, 1, day, 8, tzinfo=UTC).timestamp()
            db.execute("UPDATE sessions SET started = ? WHERE session_id = ?", (began, name))
    db.close()
    return ran


@pytest.mark.parametrize(
    ("flags", "listed"),
    [
        ((), ["new", "s1", "old"]),
        (("--cascade", "other"), ["old"]),
        (("--cascade", "none"), []),
        (("--status", "failed"), ["old"]),
        (("--status", "completed", "--limit", "1"), ["new"]),
        (("--status", "failed", "--limit", "1"), ["old"]),
        (("--since", "2026-01-11"), ["new", "s1"]),
        (("--since", "2026-01-11T08:00:01Z"), ["new"]),
        (("--since", "2026-01-11T09:00:00+01:00"), ["new", "s1"]),
        (("--until", "2026-01-11"), ["s1", "old"]),
        (("--until", "2026-01-11T08:00"), ["old"]),
        (("--since", "2h"), []),
        (("--until", "1 d"), ["new", "s1", "old"]),
        (("--since", "2026-01-10", "--until", "2026-01-11", "--cascade", "test"), ["s1"]),
    ],
)
def test_sessions_are_listed_by_cascade_status_and_time(
    three: CommandLine, flags: tuple[str, ...], listed: list[str]
) -> None:
    said = three("sessions", *flags, "--json")
    assert said.code == 0, said.err
    assert [each["session_id"] for each in said.json] == listed
    plain = three("sessions", *flags).out
    assert [line.split()[0] for line in plain.splitlines()[1 : 1 + len(listed)]] == listed
    assert ("no session fits" in plain) is (not listed)


@pytest.mark.usefixtures("ran")
def test_a_filter_that_is_none_is_a_mistake(transcript: Transcript) -> None:
    transcript(
        "sessions_mistakes",
        *(
            "sessions --status complete",
            "sessions --since yesterday",
            "sessions --until 99999-01-01",
        ),
        *("prune --session ''", "show s11", "show s1 --call 4", "prune --session s11"),
    )
