"""SQL by users: the spec's statements, the views for people, and nothing but one SELECT."""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, png, row, seen, start
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch, NodeType
from windlass.history.sqlite import SqliteKeeper
from windlass.messages import ToolCall, assistant, tool, user

COLUMNS: list[str] = (  # noqa: SIM905 - as the document lists them
    "session_id cascade_id trace_id parent_id timestamp node_type phase_name turn_number "
    "attempt_number sounding_index role content_hash content_json content_chars "
    "tool_calls_json model tokens_in tokens_out tokens_cached cost duration_ms "
    "full_history_size context_size tokens_saved metadata_json"
).split()


@pytest.fixture
def filled(keeper: SqliteKeeper) -> SqliteKeeper:
    for batch in a_session():
        keeper.append(batch)
    return keeper


class TestUnifiedLogs:
    @pytest.mark.req("CA-21", "AC-106", "AC-8")
    def test_has_literally_the_settled_columns(self, filled: SqliteKeeper) -> None:
        found = filled.query("SELECT * FROM unified_logs")
        in_order = [stored.row.trace_id for stored in filled.rows("s1")]
        assert [one["trace_id"] for one in found] == in_order
        assert list(found[0]) == COLUMNS
        assert len(found) == 6
        assert {one["cascade_id"] for one in found} == {"sales"}

    @pytest.mark.req("CA-23", "AC-8")
    def test_content_is_whole_json_also_where_it_lies_in_a_file(self, filled: SqliteKeeper) -> None:
        found = filled.query("SELECT * FROM unified_logs WHERE session_id = 's1'")
        contents = [json.loads(one["content_json"]) for one in found]
        assert contents[1] == "What sold best?"
        assert contents[3] == LONG
        assert contents[4][1]["sha256"] == seen(png()).sha256
        assert [one["content_chars"] for one in found][3] == len(LONG)
        large = "SELECT * FROM unified_logs WHERE node_type = ? AND LENGTH(content_json) > ?"
        assert len(filled.query(large, ("tool_result", 20_000))) == 1
        assert filled.query(large, ("tool_result", 100_000)) == []

    def test_shows_tool_calls_and_leaves_empty_what_is_not_there(
        self, keeper: SqliteKeeper
    ) -> None:
        call = ToolCall("c1", "f", '{"é":1}')
        keeper.append(Batch("s", start=start(), rows=[row(assistant(calls=[call])), row()]))
        asked, empty = keeper.query("SELECT * FROM unified_logs")
        assert json.loads(asked["tool_calls_json"]) == [
            {"id": "c1", "name": "f", "arguments": '{"é":1}'}
        ]
        assert asked["content_json"] is None
        assert {empty[name] for name in ("role", "content_hash", "content_json")} == {None}
        assert empty["metadata_json"] == "{}"

    @pytest.mark.parametrize("at", [1_763_000_000.123456, 1_763_000_000.9999999, 0.0, 1.5])
    def test_times_are_iso_texts_in_utc_with_microseconds(
        self, keeper: SqliteKeeper, at: float
    ) -> None:
        keeper.append(Batch("s", start=start(), rows=[row(timestamp=at)]))
        (found,) = keeper.query("SELECT timestamp FROM unified_logs")
        read = dt.datetime.fromisoformat(found["timestamp"])
        assert abs(read.timestamp() - at) < 1e-6
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found["timestamp"])

    @pytest.mark.req("CA-22")
    def test_node_types_are_a_list_that_the_schema_knows(self, keeper: SqliteKeeper) -> None:
        rows = [row(user(kind.value), node_type=kind) for kind in NodeType]
        keeper.append(Batch("s", start=start(), rows=rows))
        found = keeper.query("SELECT node_type FROM unified_logs")
        settled = (
            "system user agent follow_up tool_result validation context_injection "
            "context_selection decision error"
        )
        assert [one["node_type"] for one in found] == settled.split()
        (table,) = keeper.query("SELECT sql FROM sqlite_master WHERE name = 'log'")
        listed = re.search(r"node_type IN \((.*?)\)", table["sql"], re.DOTALL)
        assert listed is not None
        assert re.findall(r"'(\w+)'", listed[1]) == settled.split()


class TestStatementsOfTheDocuments:
    @pytest.mark.req("AC-24")
    def test_injection_query_gives_contents_by_hash(self, filled: SqliteKeeper) -> None:
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
    def test_context_efficiency_by_cascade(self, keeper: SqliteKeeper) -> None:
        chosen = row(
            node_type=NodeType.CONTEXT_SELECTION,
            full_history_size=10,
            context_size=4,
            tokens_saved=2_000,
        )
        keeper.append(Batch("s", start=start(), rows=[chosen, row(tokens_saved=9)]))
        assert keeper.query(
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
    def test_expensive_follow_ups_over_all_sessions(self, keeper: SqliteKeeper) -> None:
        for name, tokens in (("a", 50_000), ("b", 50_001)):
            reply = row(assistant("x"), node_type=NodeType.FOLLOW_UP, tokens_in=tokens)
            agent = row(assistant("y"), node_type=NodeType.AGENT, tokens_in=90_000)
            keeper.append(Batch(name, start=start(), rows=[reply, agent]))
        found = keeper.query(
            "SELECT * FROM unified_logs WHERE node_type = 'follow_up' AND tokens_in > 50000"
        )
        assert [one["session_id"] for one in found] == ["b"]

    @pytest.mark.req("CA-21")
    def test_calls_of_a_session_by_phase(self, filled: SqliteKeeper) -> None:
        found = filled.query(
            "SELECT * FROM unified_logs WHERE node_type = 'agent' AND session_id = 's1'"
        )
        columns = ("phase_name", "tokens_in", "tokens_out", "cost")
        assert [[one[name] for name in columns] for one in found] == [
            ["explore", 100, 9, 0.01],
            ["explore", 200, 5, None],
        ]

    @pytest.mark.req("CA-23")
    def test_sessions_with_large_tool_results(self, keeper: SqliteKeeper) -> None:
        results = [tool("c1", "x" * size) for size in (99_998, 99_999)]
        keeper.append(Batch("s", start=start(), rows=[row(one) for one in results]))
        found = keeper.query(
            "SELECT * FROM unified_logs "
            "WHERE node_type = 'tool_result' AND LENGTH(content_json) > 100000"
        )
        assert [one["content_hash"] for one in found] == [results[1].content_hash]


class TestViewsForPeople:
    @pytest.fixture
    def foreign(self, filled: SqliteKeeper) -> sqlite3.Connection:
        """A connection that knows nothing of Windlass."""
        return sqlite3.connect(filled.file)

    def test_conversation_reads_in_any_client(self, foreign: sqlite3.Connection) -> None:
        found = foreign.execute(
            "SELECT session_id, seq, phase, turn, attempt, node_type, role, id, chars, preview "
            "FROM conversation"
        ).fetchall()
        foreign.close()
        assert [one[1] for one in found] == [1, 2, 3, 4, 5, 6]
        previews = [one[-1] for one in found]
        assert previews[1] == "What sold best?"
        assert previews[2] == "Let me look."
        assert previews[3].startswith("0123456789 abcdef 0123")
        assert len(previews[3]) == 200
        assert previews[4] == "see [chart.png, 1x1]"
        assert found[1][7] == f"{user('What sold best?').content_hash}-1"

    def test_calls_and_sessions_read_in_any_client(self, foreign: sqlite3.Connection) -> None:
        calls = foreign.execute("SELECT * FROM call_list").fetchall()
        sessions = foreign.execute("SELECT * FROM session_list").fetchall()
        foreign.close()
        assert calls == [
            ("s1", 1, "explore", 1, "scripted", 100, None, 9, 0.01, 24, 36),
            ("s1", 2, "explore", 2, "scripted", 200, 90, 5, None, 24, 36),
        ]
        ended = ("1970-01-01T00:16:40.000000Z", "1970-01-01T00:16:43.000000Z", "completed")
        assert sessions == [("s1", "sales", "scripted", *ended, 2, 300, 14, 90, 0.01, None)]

    @pytest.mark.req("CI-38")
    def test_lineage_has_each_phases_output(self, foreign: sqlite3.Connection) -> None:
        found = foreign.execute(
            "SELECT session_id, phase, status, output, content_hash, error FROM lineage"
        ).fetchall()
        foreign.close()
        output = assistant("Lamps.")
        assert found == [
            ("s1", "explore", "completed", "Lamps.", output.content_hash, None),
            ("s1", None, "completed", None, None, None),
        ]


class TestOnlyOneSelect:
    @pytest.mark.req("CA-20")
    @pytest.mark.parametrize(
        "sql",
        [
            "DELETE FROM log",
            "UPDATE log SET cost = 0",
            "INSERT INTO tool_lists VALUES ('a', 'b')",
            "DROP VIEW unified_logs",
            "PRAGMA user_version = 9",
            "PRAGMA journal_mode",
            "ATTACH DATABASE '/tmp/other.sqlite' AS other",
            "VACUUM",
            "BEGIN IMMEDIATE",
            "CREATE TEMP TABLE t (a)",
            "WITH a AS (SELECT 1) DELETE FROM log",
            "/* SELECT */ DELETE FROM log",
            "SELECT 1; DELETE FROM log",
            "SELECT 1; SELECT 2",
            "EXPLAIN SELECT 1",
            "",
            "-- nothing",
            "SELECT load_extension('x')",
            "SELECT 1 +",
        ],
    )
    def test_anything_else_is_refused_in_one_sentence(self, filled: SqliteKeeper, sql: str) -> None:
        with pytest.raises(UsageError, match="SELECT") as caught:
            filled.query(sql)
        assert "\n" not in str(caught.value)
        assert len(list(filled.rows("s1"))) == 6

    def test_comments_common_tables_and_json_are_fine(self, filled: SqliteKeeper) -> None:
        assert filled.query("-- why\n /* not */ WITH a AS (SELECT 1 AS n) SELECT n FROM a") == [
            {"n": 1}
        ]
        assert filled.query("SELECT value FROM json_each('[1, 2]')") == [{"value": 1}, {"value": 2}]
        assert filled.query(
            "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 3) "
            "SELECT max(n) AS n FROM c;"
        ) == [{"n": 3}]

    @pytest.mark.req("CA-20")
    def test_parameters_are_bound_and_counted(self, filled: SqliteKeeper) -> None:
        hostile = "x' OR '1'='1"
        asked = "SELECT session_id FROM unified_logs WHERE session_id = ?"
        assert filled.query(asked, (hostile,)) == []
        with pytest.raises(UsageError, match="bindings"):
            filled.query(asked)
        with pytest.raises(UsageError, match="SQLite refuses"):
            filled.query(asked, (object(),))
        with pytest.raises(UsageError, match="SQLite refuses"):
            filled.query(asked, (2**70,))

    def test_an_unknown_column_or_table_names_the_known_ones(self, filled: SqliteKeeper) -> None:
        with pytest.raises(UsageError, match=r"did you mean 'phase_name'.*tokens_cached"):
            filled.query("SELECT phase_nam FROM unified_logs")
        with pytest.raises(UsageError, match="did you mean 'unified_logs'"):
            filled.query("SELECT * FROM unified_log")
        with pytest.raises(UsageError, match="no such function"):
            filled.query("SELECT shout(role) FROM unified_logs")

    def test_sees_what_others_commit_and_waits_for_no_writer(
        self, filled: SqliteKeeper, open_keeper: Callable[[], SqliteKeeper]
    ) -> None:
        count = "SELECT count(*) AS n FROM unified_logs"
        assert filled.query(count) == [{"n": 6}]
        with open_keeper() as other:
            other.append(Batch("t", start=start(), rows=[row(user("new"))]))
            assert filled.query(count) == [{"n": 7}]
            holder = sqlite3.connect(other.file, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            assert filled.query(count) == [{"n": 7}]
            holder.close()

    def test_a_missing_file_of_a_body_is_the_stores_fault(
        self, filled: SqliteKeeper, tmp_path: Path
    ) -> None:
        for path in (tmp_path / "store/blobs").rglob("*"):
            if path.is_file():
                path.unlink()
        with pytest.raises(StoreError, match="windlass verify"):
            filled.query("SELECT content_json FROM unified_logs")
