"""What is printed as the next command runs as it stands: in the store that this one was given."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from tests.tasks.making import atomic, sequential
from windlass.cli.app import NAMES, _Commands
from windlass.cli.next_commands import remember_store, with_store

STORE = "a store"
MODEL = ("-m", "local/m")
COMMAND = re.compile(r"windlass ((?:memory )?[a-z]+)((?: (?!$)[^\n;,)]*)?)")


@pytest.fixture
def elsewhere(windlass: CommandLine) -> CommandLine:
    """Sessions that wait to be gone on with, in a store that only a flag names."""
    windlass.write("c.json", cascade(phase("a"), phase("b")))
    windlass.write("t.xml", sequential(atomic("one"), atomic("two")))
    windlass.write("rows.csv", "n\n1\n2\n")
    return windlass


def every_command() -> dict[str, bool]:
    """Whether a command has `--store`."""

    def walk(name: str, found: object) -> dict[str, bool]:
        if below := getattr(found, "commands", None):
            return {k: v for n, each in below.items() for k, v in walk(f"{name} {n}", each).items()}
        return {name: any("--store" in each.opts for each in getattr(found, "params", ()))}

    listed = _Commands()
    return {k: v for name in NAMES for k, v in walk(name, listed[name]).items()}


def test_all_commands_with_a_store_are_known() -> None:
    remember_store("other")
    try:
        for name, has_store in every_command().items():
            if not name.startswith("hook "):
                wanted = f"windlass {name}" + " --store other" * has_store
                assert with_store(f"windlass {name}") == wanted
        assert with_store("windlass show --store x s1") == "windlass show --store x s1"
    finally:
        remember_store(None)
    assert with_store("windlass show s1") == "windlass show s1"


@pytest.mark.parametrize(
    "line",
    [
        ("run", "c.json", *MODEL, "--session", "s1", "--max-turns", "1"),
        ("run", "c.json", *MODEL, "--session", "s2"),
        ("evaluate", "t.xml", *MODEL, "--session", "t1", "--max-turns", "1"),
        ("batch", "c.json", "rows.csv", "--out", "r.jsonl", *MODEL, "--max-runs", "1"),
        ("chat", *MODEL, "--session", "s1"),
        ("fork", "s2", "--at", "2"),
        ("sessions",),
        ("show", "s1"),
        ("show", "s1", "--json"),
        ("show", "s2", "--call", "1"),
        ("explain", "s2", "1"),
        ("report",),
        ("report", "s1"),
        ("report", "s2", "--call", "1"),
        ("run", "--resume", "s2"),
        ("run", "--resume", "t1"),
        ("evaluate", "--resume", "s1"),
        ("run", "c.json", *MODEL, "--session", "s1"),
    ],
)
def test_they_carry_the_store(elsewhere: CommandLine, line: tuple[str, ...]) -> None:
    for before in ("s1", "s2"):
        limit = ("--max-turns", "1") if before == "s1" else ()
        run = ("run", "c.json", *MODEL, "--session", before, *limit, "--store", STORE)
        if before not in line or line[0] != "run" or "--resume" in line:
            elsewhere(*run)
    if "t1" in line and "--resume" in line:
        elsewhere(
            *("evaluate", "t.xml", *MODEL, "--session", "t1", "--max-turns", "1"), "--store", STORE
        )
    if line == ("run", "c.json", *MODEL, "--session", "s1"):
        elsewhere(*line, "--store", STORE)
    elsewhere.patch.setattr(sys, "stdin", io.StringIO("Well?\n"))
    said = elsewhere(*line, "--store", STORE)
    told = [each for each in COMMAND.findall(said.out + said.err) if each[0] in every_command()]
    assert told, said
    for name, rest in told:
        if every_command()[name]:
            assert f"--store {shlex.quote(STORE)}" in rest, (name, rest)
    assert not Path(".windlass").exists()


def test_without_the_flag_none_is_named(elsewhere: CommandLine) -> None:
    said = elsewhere("run", "c.json", *MODEL, "--session", "s1", "--max-turns", "1")
    assert "windlass run c.json --resume s1" in said.out + said.err
    assert "--store" not in said.out + said.err


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("/dev/null/x", "lies under '/dev/null', which is no folder; name a folder with --store"),
        pytest.param(
            "/proc/x",
            "cannot be made (No such file or directory); name another folder",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="it has no such folder"),
        ),
        ("dangling", "is a link that leads nowhere; name a folder with --store"),
        ("dangling/x", "which is a link that leads nowhere; name a folder with --store"),
        ("x" * 300, "can be no folder (File name too long)"),
        (f"x/{'y' * 300}/z", "cannot be made (File name too long); name another folder"),
    ],
)
@pytest.mark.parametrize("command", ["run", "sessions", "verify"])
def test_a_store_that_cannot_be_made_advises_nothing_that_cannot_help(
    elsewhere: CommandLine, store: str, told: str, command: str
) -> None:
    Path("dangling").symlink_to("nowhere/at/all")
    said = elsewhere(
        *(("run", "c.json", *MODEL) if command == "run" else (command,)), "--store", store
    )
    assert said.code == 2
    assert "run `windlass verify" not in said.complaint
    if command == "run":
        assert told in said.complaint
    assert elsewhere.requests == []
