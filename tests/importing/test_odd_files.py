"""Whatever stands in a record, reading ends in recordings or in one sentence."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.importing.making import write_lines
from tests.support.importing_odd_files import FILES
from windlass.errors import UsageError
from windlass.history.sqlite import SqliteStore
from windlass.importing.storing import import_into

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**400, "", "x", "\ud800", "\x00", [], {}, [None], [[]], ["x"]),
    *({"type": "x"}, {"role": "tool"}, [{"type": 1}], {"": None}, "9" * 30, 1e300),
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from _places(value[key])


def _sessions(store: SqliteStore, path: Path) -> int:
    """How many sessions there were; none where one sentence says why."""
    told = ""
    try:
        return len(import_into(store, path, None, None).sessions)
    except UsageError as error:
        told = str(error)
    assert told
    assert "\n" not in told
    return 0


@pytest.mark.parametrize("name", FILES)
def test_odd_values_are_never_fatal(tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    read = 0
    with SqliteStore(tmp_path / "store") as store:
        for number in range(60):
            records = json.loads(json.dumps(FILES[name]()))
            places = [place for record in records for place in _places(record)]
            for holder, key in chance.sample(places, 1 + number % 3):
                holder[key] = chance.choice(ODD)
            path = write_lines(tmp_path / "x.jsonl", records)
            read += _sessions(store, path)
        assert read
        assert not list(store.verify())


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_anywhere_is_read_up_to_there(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / "x.jsonl", FILES[name]())
    whole = path.read_bytes()
    with SqliteStore(tmp_path / "store") as store:
        for at in range(1, len(whole), max(1, len(whole) // 25)):
            path.write_bytes(whole[:at])
            _sessions(store, path)
