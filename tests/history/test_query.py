"""SQL by users on SQLite: the views for people, and nothing but one SELECT."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.history.builders import LONG, a_session, png, row, seen, start
from tests.support.history_sql import NODE_TYPES
from windlass.errors import UsageError
from windlass.history.base import Batch
from windlass.history.sqlite import SqliteStore
from windlass.messages import Text, ToolCall, assistant, user


@pytest.fixture
def filled(store: SqliteStore) -> SqliteStore:
    for batch in a_session():
        store.append(batch)
    return store


@pytest.mark.req("CA-22")
def test_the_schema_knows_the_list_of_node_types(store: SqliteStore) -> None:
    (table,) = store.query("SELECT sql FROM sqlite_master WHERE name = 'log'")
    listed = re.search(r"node_type IN \((.*?)\)", table["sql"], re.DOTALL)
    assert listed is not None
    assert re.findall(r"'(\w+)'", listed[1]) == NODE_TYPES


class TestViewsForPeople:
    @pytest.fixture
    def foreign(self, filled: SqliteStore) -> sqlite3.Connection:
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

    def test_unified_logs_reads_in_any_client(self, filled: SqliteStore) -> None:
        odd = 'é "quoted"\n\0 behind it \\u0000'
        short = [
            user(odd),
            assistant("", calls=[ToolCall("c1", "f", '{"é":"\0"}')]),
            user(Text("see"), seen(png())),
        ]
        call = ToolCall("c2", "g", json.dumps({"text": LONG}))
        rows = [row(message) for message in (*short, assistant("Long.", calls=[call]))]
        filled.append(Batch("s2", start=start(), rows=[*rows, row()]))
        with closing(sqlite3.connect(filled.file)) as plain:
            plain.row_factory = sqlite3.Row
            found = [dict(one) for one in plain.execute("SELECT * FROM unified_logs")]
        whole = filled.query("SELECT * FROM unified_logs")
        fields = "content_json", "tool_calls_json"
        for theirs, ours in zip(found, whole, strict=True):
            assert {k: theirs[k] for k in theirs if k not in fields} == {
                k: ours[k] for k in ours if k not in fields
            }
            if (theirs["content_chars"] or 0) < len(LONG):
                assert [theirs[name] and json.loads(theirs[name]) for name in fields] == [
                    ours[name] and json.loads(ours[name]) for name in fields
                ]
        assert odd in [json.loads(one["content_json"] or "0") for one in found]
        in_files = [one for one in found if (one["content_chars"] or 0) >= len(LONG)]
        beginnings = [json.loads(one["content_json"]) for one in in_files]
        assert beginnings[0].startswith("0123456789 abcdef 0123")
        assert beginnings[1].startswith("Long. calls g(")
        assert all(
            one.endswith("[the beginning; `windlass query` shows all]") for one in beginnings
        )
        assert [one["tool_calls_json"] for one in in_files] == [
            None,
            '"[1 calls; `windlass query` shows them]"',
        ]

    def test_calls_and_sessions_read_in_any_client(self, foreign: sqlite3.Connection) -> None:
        calls = foreign.execute("SELECT * FROM call_list").fetchall()
        sessions = foreign.execute("SELECT * FROM session_list").fetchall()
        foreign.close()
        assert calls == [
            ("s1", 1, "explore", 1, "scripted", 100, None, 9, 0.01, 24, 36),
            ("s1", 2, "explore", 2, "scripted", 200, 90, 5, None, 24, 36),
        ]
        ended = ("1970-01-01T00:16:40.000000Z", "1970-01-01T00:16:43.000000Z", "completed")
        assert sessions == [("s1", "sales", "scripted", *ended, 2, 300, 14, 90, 0.01, *[None] * 5)]

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
    def test_anything_else_is_refused_in_one_sentence(self, filled: SqliteStore, sql: str) -> None:
        with pytest.raises(UsageError, match="SELECT") as caught:
            filled.query(sql)
        assert "\n" not in str(caught.value)
        assert len(list(filled.rows("s1"))) == 6

    def test_comments_common_tables_and_json_are_fine(self, filled: SqliteStore) -> None:
        assert filled.query("-- why\n /* not */ WITH a AS (SELECT 1 AS n) SELECT n FROM a") == [
            {"n": 1}
        ]
        assert filled.query("SELECT value FROM json_each('[1, 2]')") == [{"value": 1}, {"value": 2}]
        assert filled.query(
            "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 3) "
            "SELECT max(n) AS n FROM c;"
        ) == [{"n": 3}]

    @pytest.mark.req("CA-20")
    def test_parameters_are_bound_and_counted(self, filled: SqliteStore) -> None:
        hostile = "x' OR '1'='1"
        asked = "SELECT session_id FROM unified_logs WHERE session_id = ?"
        assert filled.query(asked, (hostile,)) == []
        with pytest.raises(UsageError, match="bindings"):
            filled.query(asked)
        with pytest.raises(UsageError, match="SQLite refuses"):
            filled.query(asked, (object(),))
        with pytest.raises(UsageError, match="SQLite refuses"):
            filled.query(asked, (2**70,))

    def test_an_unknown_column_or_table_names_the_known_ones(self, filled: SqliteStore) -> None:
        with pytest.raises(UsageError, match=r"did you mean 'phase_name'.*tokens_cached"):
            filled.query("SELECT phase_nam FROM unified_logs")
        with pytest.raises(UsageError, match="did you mean 'unified_logs'"):
            filled.query("SELECT * FROM unified_log")
        with pytest.raises(UsageError, match="no such function"):
            filled.query("SELECT shout(role) FROM unified_logs")

    def test_sees_what_others_commit_and_waits_for_no_writer(
        self, filled: SqliteStore, open_store: Callable[[], SqliteStore]
    ) -> None:
        count = "SELECT count(*) AS n FROM unified_logs"
        assert filled.query(count) == [{"n": 6}]
        with open_store() as other:
            other.append(Batch("t", start=start(), rows=[row(user("new"))]))
            assert filled.query(count) == [{"n": 7}]
            holder = sqlite3.connect(other.file, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            assert filled.query(count) == [{"n": 7}]
            holder.close()

    def test_a_missing_file_of_a_body_hides_its_own_row_and_no_other(
        self, filled: SqliteStore, tmp_path: Path
    ) -> None:
        for path in (tmp_path / "store/blobs").rglob("*"):
            if path.is_file():
                path.unlink()
        rows = filled.query("SELECT content_json FROM unified_logs WHERE content_json IS NOT NULL")
        hidden = [row for row in rows if "cannot be read: its file" in str(row["content_json"])]
        assert 0 < len(hidden) < len(rows)
