"""What every store promises, on ClickHouse: the same tests as over SQLite."""

# ruff: noqa: F403 - collected here by their names
from __future__ import annotations

from tests.history.test_cards_kept import *
from tests.history.test_contract import *
from tests.history.test_locks import *
from tests.history.test_migrating import *
from tests.history.test_prune import *
from tests.history.test_sql import *
