"""SQL by users on ClickHouse: one SELECT, bound parameters, nothing beyond the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.history.builders import a_session, row, start

from windlass.errors import UsageError
from windlass.history.base import Batch, Store
from windlass.messages import assistant, user


@pytest.fixture
def filled(store: Store) -> Store:
    for batch in a_session():
        store.append(batch)
    return store


@pytest.mark.req("CA-20")
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM record WHERE 1",
        "ALTER TABLE record DELETE WHERE 1",
        "INSERT INTO bodies (key) VALUES ('a')",
        "DROP TABLE record",
        "SYSTEM STOP MERGES",
        "SET readonly = 0",
        "/* SELECT */ DROP TABLE record",
        "SELECT 1; DROP TABLE record",
        "SELECT 1; SELECT 2",
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM `file`('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'CSV')",
        "SELECT * FROM remote('127.0.0.1', system.one)",
        "SELECT 1 SETTINGS readonly = 0",
        "SELECT 1 SETTINGS final",
        "SELECT 1 SETTINGS final, max_threads = 1",
        "SELECT 1 FROM system.one UNION ALL SELECT 2 SETTINGS final",
        "SELECT 1 PARALLEL WITH INSERT INTO FUNCTION null('a UInt8') SELECT 1",
        "WITH x AS (SELECT 1) INSERT INTO bodies (key) SELECT '1'",
        "",
        "-- nothing",
        "SELECT 1 +",
    ],
)
def test_anything_but_one_select_is_refused_in_one_sentence(filled: Store, sql: str) -> None:
    with pytest.raises(UsageError, match="SELECT") as caught:
        filled.query(sql)
    assert "\n" not in str(caught.value)
    assert len(list(filled.rows("s1"))) == 6
    assert list(filled.verify()) == []


def test_what_looks_like_more_is_fine(filled: Store) -> None:
    assert filled.query("-- why\n /* not */ WITH a AS (SELECT 1 AS n) SELECT n FROM a;") == [
        {"n": 1}
    ]
    assert filled.query(
        "SELECT 'a;b?' AS a, \"role\" FROM unified_logs WHERE role = ? LIMIT 1", ["tool"]
    ) == [{"a": "a;b?", "role": "tool"}]
    assert filled.query("SELECT sum(number) AS n FROM numbers(5)") == [{"n": 10}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('{}', 'LineAsString')",
        "SELECT * FROM `fi\\x6ce`('{}', 'LineAsString')",
        "SELECT * FROM \"fi\\x6ce\"('{}', 'LineAsString')",
        "SELECT * FROM file#!x\n('{}', 'LineAsString')",
        "SELECT * FROM file//x\n('{}', 'LineAsString')",
        "SELECT * FROM file/*/**/*/('{}', 'LineAsString')",
        "SELECT * FROM file\u00a0('{}', 'LineAsString')",
        "SELECT * FROM \u201cfile\u201d('{}', 'LineAsString')",
        "SELECT file('{}')",
        "SELECT * FROM '{}'",
        "SELECT * FROM `{}`",
        "SELECT 1, * FROM unified_logs, default.`{}`",
        "SELECT * FROM unified_logs, 'default'.`{}`",
        "SELECT 1 WHERE ('key', 1) IN default.`{}`",
        "SELECT * FROM view(SELECT * FROM default.`{}`)",
        "SELECT in(('key', 1), default.`{}`)",
        "SELECT * FROM (default.`{}` AS a JOIN unified_logs AS b ON 1)",
        "SELECT * FROM unified_logs AS array JOIN '{}' ON 1",
        "SELECT 1 AS fill FROM '{}'",
        "SELECT 1 FROM unified_logs AS where, '{}'",
    ],
)
def test_a_file_is_not_read_however_it_is_asked_for(
    filled: Store, tmp_path: Path, sql: str
) -> None:
    secret = tmp_path / "keys.csv"
    secret.write_text("name,value\nkey,1\n")
    with pytest.raises(UsageError, match="SELECT"):
        filled.query(sql.format(secret))


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT extract(day FROM toDate('2020-01-05')) AS a", 5),
        ("SELECT trim(BOTH ' ' FROM ' abc ') AS a", "abc"),
        ("SELECT n AS a FROM (SELECT 1 AS s) ARRAY JOIN arrayEnumerate([4]) AS n", 1),
        ("SELECT format('{} {}', 'x', 'y') AS a ORDER BY a DESC", "x y"),
        ("SELECT 1e-1 + .4 + 0x10 + (1, 2).2 AS a -- why\n # so\n #!x\n", 18.5),
        ("SELECT a FROM (FROM numbers(3) SELECT max(number) AS a)", 2),
        ('SELECT "a b" AS a FROM (SELECT 7 AS "a b") AS q ORDER BY q."a b"', 7),
        ("SELECT count() AS a FROM information_schema.tables WHERE 0", 0),
        ("SELECT max(y) AS a FROM (VALUES ('x', 1), ('z', 2)) AS t(x, y)", 2),
        ("SELECT a FROM numbers(2) AS n, numbers(1) AS m ARRAY JOIN [5] AS a LIMIT 1", 5),
        ("SELECT max(n) AS a FROM (SELECT 1 AS n ORDER BY n WITH FILL FROM toUInt8(0) TO 4)", 3),
        ("SELECT count() AS a FROM system.settings WHERE name = 'readonly' LIMIT 1", 1),
    ],
)
def test_what_looks_like_reaching_out_is_asked(filled: Store, sql: str, told: object) -> None:
    assert filled.query(sql) == [{"a": told}]


@pytest.mark.req("CA-20")
def test_parameters_are_bound_and_counted(filled: Store) -> None:
    asked = "SELECT session_id FROM unified_logs WHERE session_id = ?"
    assert filled.query(asked, ("x' OR '1'='1",)) == []
    assert filled.query("SELECT ? AS a, ? AS b, ? AS c, ? AS d", ["\\'\n\0", 2, 1.5, None]) == [
        {"a": "\\'\n\0", "b": 2, "c": 1.5, "d": None}
    ]
    with pytest.raises(UsageError, match=r"1 bindings .* and 0 values"):
        filled.query(asked)
    with pytest.raises(UsageError, match="cannot be bound"):
        filled.query(asked, (object(),))
    with pytest.raises(UsageError, match="cannot be bound"):
        filled.query(asked, (2**70,))


def test_an_unknown_column_or_table_names_the_known_ones(filled: Store) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'phase_name'.*tokens_cached"):
        filled.query("SELECT phase_nam FROM unified_logs")
    with pytest.raises(UsageError, match="did you mean 'unified_logs'"):
        filled.query("SELECT * FROM unified_log")
    with pytest.raises(UsageError, match="no such function"):
        filled.query("SELECT shout(role) FROM unified_logs")


def test_views_for_people_say_what_they_say_on_sqlite(filled: Store) -> None:
    found = filled.query("SELECT * FROM conversation")
    assert [one["seq"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[1]["preview"] == "What sold best?"
    assert found[4]["preview"] == "see [chart.png, 1x1]"
    assert found[1]["id"] == f"{user('What sold best?').content_hash}-1"
    assert [list(one.values()) for one in filled.query("SELECT * FROM call_list")] == [
        ["s1", 1, "explore", 1, "scripted", 100, None, 9, 0.01, 24, 36],
        ["s1", 2, "explore", 2, "scripted", 200, 90, 5, None, 24, 36],
    ]
    ended = ["1970-01-01T00:16:40.000000Z", "1970-01-01T00:16:43.000000Z", "completed"]
    (listed,) = filled.query("SELECT * FROM session_list")
    numbers = [2, 300, 14, 90, 0.01, *[None] * 5]
    assert list(listed.values()) == ["s1", "sales", "scripted", *ended, *numbers]
    output = assistant("Lamps.")
    assert [list(one.values()) for one in filled.query("SELECT * FROM lineage")] == [
        ["s1", "explore", "completed", "Lamps.", output.content_hash, None, None],
        ["s1", None, "completed", None, None, None, None],
    ]


@pytest.mark.req("AC-20", "AC-22", "AC-23", "AC-25")
def test_the_documents_selection_and_join_queries_run(filled: Store) -> None:
    said = user("What sold best?")
    card = (
        f"'s1', '{said.content_hash}', 'Asks what sold best.', ['sold', 'best'], [1, 2], 'm', 5, "
        "'user', 'explore', NULL, false, true, 'goal', now(), 'rules', toDateTime(1000)"
    )
    filled.client.command(  # type: ignore[attr-defined]
        f"INSERT INTO context_cards (* EXCEPT message_id) SELECT {card}"
    )
    filled.client.command(  # type: ignore[attr-defined]
        f"INSERT INTO context_cards (* EXCEPT message_id) SELECT {card.replace('Asks', 'Wants')}"
        " SETTINGS insert_deduplicate = 0"
    )
    assert filled.query(
        """
        SELECT content_hash, summary, keywords, estimated_tokens, is_anchor, is_callout
        FROM context_cards
        WHERE session_id = ?
          AND phase_name IN ('research', 'explore')  -- Filter by relevant phases
        ORDER BY message_timestamp DESC;
        """,
        ["s1"],
    ) == [
        {
            "content_hash": said.content_hash,
            "summary": "Wants what sold best.",
            "keywords": ["sold", "best"],
            "estimated_tokens": 5,
            "is_anchor": False,
            "is_callout": True,
        }
    ]
    found = filled.query(
        """
        SELECT
            ul.content_hash,
            ul.role,
            ul.content_json,
            cc.summary,
            cc.keywords,
            cc.estimated_tokens
        FROM unified_logs ul
        LEFT JOIN context_cards cc
            ON ul.session_id = cc.session_id
            AND ul.content_hash = cc.content_hash
        WHERE ul.session_id = 's1';
        """
    )
    assert len(found) == 6
    carded = [one for one in found if one["summary"] is not None]
    assert [one["content_hash"] for one in carded] == [said.content_hash]
    (engine,) = filled.query(
        "SELECT engine_full FROM system.tables "
        "WHERE database = currentDatabase() AND name = 'context_cards'"
    )
    assert "ReplacingMergeTree(generated_at)" in engine["engine_full"]
    assert "PARTITION BY toYYYYMM(message_timestamp)" in engine["engine_full"]
    indexes = filled.query(
        "SELECT name, type FROM system.data_skipping_indices "
        "WHERE database = currentDatabase() AND table = 'context_cards'"
    )
    assert indexes == [{"name": "keywords_idx", "type": "bloom_filter"}]


@pytest.mark.req("CA-22")
def test_the_schema_knows_the_list_of_node_types(store: Store, tmp_path: Path) -> None:
    store.append(Batch("s", start=start(), rows=[row(user("a"))]))
    (column,) = store.query(
        "SELECT type FROM system.columns WHERE database = currentDatabase() "
        "AND table = 'record' AND name = 'node_type'"
    )
    for name in ("context_selection", "follow_up", "tool_result"):
        assert f"'{name}'" in column["type"]
