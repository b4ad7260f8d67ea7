"""SQL on every store: the settled columns, and every statement of the documents."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from tests.history.builders import row, start
from tests.support.history_sql import NODE_TYPES
from windlass.history.base import Batch, NodeType, Store
from windlass.messages import user


class TestUnifiedLogs:
    @pytest.mark.parametrize("at", [1_763_000_000.123456, 1_763_000_000.9999999, 0.0, 1.5])
    def test_times_are_iso_texts_in_utc_with_microseconds(self, store: Store, at: float) -> None:
        store.append(Batch("s", start=start(), rows=[row(timestamp=at)]))
        (found,) = store.query("SELECT timestamp FROM unified_logs")
        read = dt.datetime.fromisoformat(found["timestamp"])
        assert abs(read.timestamp() - at) < 1e-6
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found["timestamp"])

    @pytest.mark.req("CA-22")
    def test_node_types_are_the_settled_list(self, store: Store) -> None:
        rows = [row(user(kind.value), node_type=kind) for kind in NodeType]
        store.append(Batch("s", start=start(), rows=rows))
        found = store.query("SELECT node_type FROM unified_logs")
        assert [one["node_type"] for one in found] == NODE_TYPES
