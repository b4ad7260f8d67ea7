"""Homes for the agents, and one process that answers the hooks of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests_clients.bill import table, work_table
from tests_clients.coding_agents import CLAUDE, Desk, answering
from tests_clients.model_server import ModelServer
from tests_clients.sessions import Pair, Work


class NewDesk(Protocol):
    """Makes a home, whose model speaks the wire that is named."""

    def __call__(self, server: type[ModelServer] = ModelServer) -> Desk: ...


PAIRS = pytest.StashKey[list[tuple[str, Pair]]]()
"""The sessions whose bills are printed in the end."""
WORK = pytest.StashKey[dict[str, Work]]()
"""And those with a subagent, by the door."""


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if pairs := config.stash.get(PAIRS, None):
        terminalreporter.section("bills")
        for line in table(pairs):
            terminalreporter.write_line(line)
    if work := config.stash.get(WORK, None):
        terminalreporter.section("bills of Claude Code with a subagent, beside plain")
        for line in work_table(work):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a process that answers hooks, one for all homes."""
    folder = tmp_path_factory.mktemp("state")
    with answering(folder):
        yield folder


@pytest.fixture(scope="module")
def new_desk(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Iterator[NewDesk]:
    """Makes homes, each with a model of its own."""
    with ExitStack() as running:

        def make(server: type[ModelServer] = ModelServer) -> Desk:
            model = running.enter_context(server({}).running())
            desk = Desk(tmp_path_factory.mktemp("home"), model, state)
            running.callback(desk.end)
            return desk

        yield make


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """A home."""
    return new_desk()


@pytest.fixture(scope="module", params=CLAUDE)
def version(request: pytest.FixtureRequest) -> str:
    """A version of Claude Code."""
    return str(request.param)
