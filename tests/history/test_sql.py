"""SQL on every store: the settled columns, and every statement of the documents."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

from tests.history.builders import LONG, a_session, png, row, seen, start
from tests.support.history_sql import COLUMNS, NODE_TYPES
from windlass.history.base import Batch, NodeType, Store
from windlass.messages import ToolCall, assistant, tool, user


@pytest.fixture
def filled(store: Store) -> Store:
    for batch in a_session():
        store.append(batch)
    return store


class TestUnifiedLogs:
    @pytest.mark.req("CA-21", "AC-106", "AC-8")
    def test_has_literally_the_settled_columns(self, filled: Store) -> None:
        found = filled.query("SELECT * FROM unified_logs")
        in_order = [stored.row.trace_id for stored in filled.rows("s1")]
        assert [one["trace_id"] for one in found] == in_order
        assert list(found[0]) == COLUMNS
        assert len(found) == 6
        assert {one["cascade_id"] for one in found} == {"sales"}

    @pytest.mark.req("CA-23", "AC-8")
    def test_content_is_whole_json_also_where_it_lies_in_a_file(self, filled: Store) -> None:
        found = filled.query("SELECT * FROM unified_logs WHERE session_id = 's1'")
        contents = [json.loads(one["content_json"]) for one in found]
        assert contents[1] == "What sold best?"
        assert contents[3] == LONG
        assert contents[4][1]["sha256"] == seen(png()).sha256
        assert [one["content_chars"] for one in found][3] == len(LONG)
        large = "SELECT * FROM unified_logs WHERE node_type = ? AND LENGTH(content_json) > ?"
        assert len(filled.query(large, ("tool_result", 20_000))) == 1
        assert filled.query(large, ("tool_result", 100_000)) == []

    def test_shows_tool_calls_and_leaves_empty_what_is_not_there(self, store: Store) -> None:
        call = ToolCall("c1", "f", '{"é":1}')
        store.append(Batch("s", start=start(), rows=[row(assistant(calls=[call])), row()]))
        asked, empty = store.query("SELECT * FROM unified_logs")
        assert json.loads(asked["tool_calls_json"]) == [
            {"id": "c1", "name": "f", "arguments": '{"é":1}'}
        ]
        assert asked["content_json"] is None
        assert {empty[name] for name in ("role", "content_hash", "content_json")} == {None}
        assert empty["metadata_json"] == "{}"

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


class TestStatementsOfTheDocuments:
    @pytest.mark.req("AC-24")
    def test_injection_query_gives_contents_by_hash(self, filled: Store) -> None:
        said = user("What sold best?")
        found = filled.query(
            """
            SELECT content_hash, role, content_json, tool_calls_json
            FROM unified_logs
            WHERE session_id = ?
              AND content_hash IN (?, 'def456', 'ghi789');
            """,
            ("s1", said.content_hash),
        )
        assert found == [
            {
                "content_hash": said.content_hash,
                "role": "user",
                "content_json": '"What sold best?"',
                "tool_calls_json": None,
            }
        ]

    @pytest.mark.req("AC-106")
    def test_context_efficiency_by_cascade(self, store: Store) -> None:
        chosen = row(
            node_type=NodeType.CONTEXT_SELECTION,
            full_history_size=10,
            context_size=4,
            tokens_saved=2_000,
        )
        store.append(Batch("s", start=start(), rows=[chosen, row(tokens_saved=9)]))
        assert store.query(
            """
            SELECT
                cascade_id,
                AVG(full_history_size) as avg_full_size,
                AVG(context_size) as avg_context_size,
                AVG(tokens_saved) as avg_tokens_saved,
                SUM(tokens_saved) * 0.000015 as estimated_savings_usd
            FROM unified_logs
            WHERE node_type = 'context_selection'
            GROUP BY cascade_id;
            """
        ) == [
            {
                "cascade_id": "sales",
                "avg_full_size": 10.0,
                "avg_context_size": 4.0,
                "avg_tokens_saved": 2_000.0,
                "estimated_savings_usd": pytest.approx(0.03),
            }
        ]

    @pytest.mark.req("CA-21", "CA-24")
    def test_expensive_follow_ups_over_all_sessions(self, store: Store) -> None:
        for name, tokens in (("a", 50_000), ("b", 50_001)):
            reply = row(assistant("x"), node_type=NodeType.FOLLOW_UP, tokens_in=tokens)
            agent = row(assistant("y"), node_type=NodeType.AGENT, tokens_in=90_000)
            store.append(Batch(name, start=start(), rows=[reply, agent]))
        found = store.query(
            "SELECT * FROM unified_logs WHERE node_type = 'follow_up' AND tokens_in > 50000"
        )
        assert [one["session_id"] for one in found] == ["b"]

    @pytest.mark.req("CA-21")
    def test_calls_of_a_session_by_phase(self, filled: Store) -> None:
        found = filled.query(
            "SELECT * FROM unified_logs WHERE node_type = 'agent' AND session_id = 's1'"
        )
        columns = ("phase_name", "tokens_in", "tokens_out", "cost")
        assert [[one[name] for name in columns] for one in found] == [
            ["explore", 100, 9, 0.01],
            ["explore", 200, 5, None],
        ]

    @pytest.mark.req("CA-23")
    def test_sessions_with_large_tool_results(self, store: Store) -> None:
        results = [tool("c1", "x" * size) for size in (99_998, 99_999)]
        store.append(Batch("s", start=start(), rows=[row(one) for one in results]))
        found = store.query(
            "SELECT * FROM unified_logs "
            "WHERE node_type = 'tool_result' AND LENGTH(content_json) > 100000"
        )
        assert [one["content_hash"] for one in found] == [results[1].content_hash]
