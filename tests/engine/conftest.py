"""A house for each test: its own folder and store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.harness import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Runs cascades with scripted models in a store under the test's folder."""
    made = House(tmp_path)
    yield made
    made.close()
