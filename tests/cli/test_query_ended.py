"""Ctrl-C during a question to the history that would take for ever."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.history.builders import a_session
from windlass.history.sqlite import SqliteStore

COUNTS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000000)"
    " SELECT count(*) FROM n"
)
JOINS = (
    "WITH d(i) AS (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) SELECT count(*) FROM "
    + ", ".join(f"d AS d{n}" for n in range(11))
)
LIKE = "SELECT hex(zeroblob(200000000)) LIKE '%1%2%'"
"""One instruction of SQLite's, which it does not interrupt."""

COMMAND = """
import sys, threading
sys.argv = ["windlass", "query", sys.argv[1]]
from windlass.cli import main
{started}
main()
"""
LIBRARY = """
import sys, windlass
{started}
try:
    windlass.query_unified("(" + sys.argv[1] + ") > 0")
except KeyboardInterrupt:
    sys.exit(130)
"""
# Tells when the question is asked, which no output does.
STARTED = """
from pathlib import Path
from windlass.history.sqlite import _store as query
asked = query.select
def select(*arguments):
    Path("asked").touch()
    return asked(*arguments)
query.select = select
"""


@pytest.mark.parametrize("door", [COMMAND, LIBRARY], ids=["command", "library"])
@pytest.mark.parametrize("sql", [COUNTS, JOINS, LIKE], ids=["counts", "joins", "like"])
def test_ends_it_at_once(tmp_path: Path, door: str, sql: str) -> None:
    with SqliteStore(tmp_path / ".windlass") as store:
        for batch in a_session():
            store.append(batch)
    running = subprocess.Popen(
        [sys.executable, "-c", door.format(started=STARTED), sql],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while running.poll() is None and not (tmp_path / "asked").exists():
            time.sleep(0.05)
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        before = time.monotonic()
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, err
    assert "Traceback" not in err + out
    assert time.monotonic() - before < 5  # about a second on a quiet machine; it would take hours
