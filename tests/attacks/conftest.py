"""The command line in a folder that nobody trusts, with a user's folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, windlass

__all__ = ["own_marks", "windlass"]


@pytest.fixture(autouse=True)
def own_marks(
    windlass: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The user's folder of settings, outside the current folder."""
    user = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user))
    del windlass
    (user / "windlass").mkdir()
    return user / "windlass"
