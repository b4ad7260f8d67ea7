"""Sessions on the command line: which one a command means, and which are listed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.test_terminal import COMMANDS
from tests.engine.harness import cascade, phase
from tests.operators.making import atomic

TAKING = {
    path: [param.name for param in command.params if param.name in ("session", "resume")]
    for path, command in COMMANDS.items()
    if path != ("run",)  # its --session names a new one
}
WAYS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("show",): ("S", "--call", "1"),
    ("explain",): ("S", "1"),
    ("report",): ("S",),
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


def test_a_session_is_not_pruned_by_an_empty_name(ran: CommandLine) -> None:
    said = ran("prune", "--session", "")
    assert said.code == 2
    assert "no session '' in this store" in said.complaint
    assert ran("show", "s1").code == 0
