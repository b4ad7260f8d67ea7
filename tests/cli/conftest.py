"""The command line, run in this process with a scripted model in place of the local one."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import windlass_local
from tests.support.snapshots import Snapshots
from windlass.cli import main
from windlass.cli.output import progress
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

Transcript = Callable[..., None]
"""Runs commands and compares all that they print with a file: `transcript(NAME, COMMAND, ...)`."""


@dataclass(frozen=True)
class Said:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one sentence on standard error that tells what is wrong."""
        assert "Traceback" not in self.err + self.out
        told = [line for line in self.err.splitlines() if line.startswith(("windlass: ", "Error"))]
        assert len(told) == 1, self.err
        return told[0]


@dataclass
class CommandLine:
    """Runs commands in a folder of their own; `script` answers for the local model."""

    folder: Path
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    script: Callable[[Request], Message | str] = field(default=lambda _: "said")
    models: list[Scripted] = field(default_factory=list)

    def __call__(self, *arguments: str) -> Said:
        self.patch.setattr(sys, "argv", ["windlass", *arguments])
        self.patch.setattr(progress, "quiet", False)
        with pytest.raises(SystemExit) as left:
            main()
        captured = self.capture.readouterr()
        code = left.value.code
        return Said(code if isinstance(code, int) else 0, captured.out, captured.err)

    def model(self) -> Scripted:
        """What `local/...` resolves to."""
        self.models.append(Scripted(lambda request: self.script(request)))  # noqa: PLW0108 - the script of then
        return self.models[-1]

    @property
    def requests(self) -> list[Request]:
        return [request for model in self.models for request in model.requests]

    def write(self, name: str, content: str | dict[str, Any]) -> str:
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


@pytest.fixture
def windlass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    line = CommandLine(tmp_path, monkeypatch, capsys)
    monkeypatch.setattr(windlass_local, "LocalProvider", line.model)
    # Ids of calls are part of hashes, which snapshots hold.
    monkeypatch.setattr("tests.engine.harness._numbers", count())
    return line


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Snapshots:
    """The files of what is printed."""
    return Snapshots(write=request.config.getoption("snapshots"))


@pytest.fixture
def transcript(windlass: CommandLine, snapshots: Snapshots) -> Transcript:
    """Runs commands and compares all that they print with `snapshots/NAME.txt`."""

    def check(name: str, *commands: str) -> None:
        told = []
        for command in commands:
            said = windlass(*shlex.split(command))
            ended = f"(exit code {said.code})\n" if said.code else ""
            told.append(f"$ windlass {command}\n{said.out}{said.err}{ended}")
        snapshots.check(name, "\n".join(told).replace(str(windlass.folder), "<folder>"))

    return check


@pytest.fixture
def ran(windlass: CommandLine) -> CommandLine:
    """The command line in a folder where the session `s1` ran: two phases, one with a tool."""
    from tests.engine.harness import by_phase, call, calls, cascade, phase

    windlass.write(
        "two.json",
        cascade(
            phase("a", tackle=["set_state"]),
            phase("b", context={"from": ["a"]}, context_retention="output_only"),
            system="Be.",
        ),
    )
    kept = calls(call("set_state", '{"key": "k", "value": "v"}'))
    windlass.script = by_phase({"a": [kept, "done " * 300]})  # type: ignore[assignment]
    said = windlass("run", "two.json", "--session", "s1", "-i", "x=1")
    assert said.code == 0, said.err
    return windlass
