"""SQL on a store: what reads or asks anything else is refused, however it is spelled.

The engine of ClickHouse in this process has all its rights: tables may be files and addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks.conftest import odd_words
from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from windlass.errors import UsageError
from windlass_clickhouse._queries import select
from windlass_clickhouse.client import ClickHouseClient


class Asked:
    """A ClickHouse that notes what it is asked; it has a few table functions and databases."""

    tables = ("url", "remote", "s3", "python", "executable", "loop", "cluster", "mysql")
    databases = ("default", "system", "information_schema", "Prod")

    def __init__(self) -> None:
        self.sent: list[str] = []

    def select(self, sql: str, **parameters: Any) -> list[tuple[str]]:
        known = self.databases if "system.databases" in sql else self.tables
        return [(name,) for name in known if name in parameters["names"]]

    def ask(self, sql: str, bound: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
        assert settings["readonly"] == 2
        self.sent.append(sql)
        return tuple(bound), [tuple(bound.values())]


def ask(sql: str, params: Sequence[Any] = ()) -> str:
    """What the engine is sent."""
    asked = Asked()
    select(cast("ClickHouseClient", asked), sql, params)
    (sent,) = asked.sent
    return sent


REFUSED = [
    "SELECT * FROM `fi\\x6ce`('x')",
    "SELECT * FROM \"f\\u0069le\"('x')",
    "SELECT * FROM file\xa0('x')",
    "SELECT * FROM “file”('x')",
    "SELECT * FROM ﬁle('x')",
    "SELECT 1 #!\nFROM file('x')",
    "SELECT * FROM file#!x\n('x')",
    "SELECT * FROM file# x\n('x')",
    "SELECT * FROM file--x\n('x')",
    "SELECT * FROM file/*x*/('x')",
    "SELECT * FROM file/*/**/*/('x')",
    "SELECT * FROM file//x\n('x')",
    "SELECT * FROM FILE ('x')",
    "SELECT * FROM `file` ('x')",
    "SELECT * FROM $a$x$a$",
    "SELECT file('x')",
    "SELECT * FROM t WHERE a IN file('x')",
    "SELECT * FROM '/x.csv'",
    "SELECT * FROM t, '/x.csv'",
    "SELECT * FROM t JOIN '/x.csv' ON 1",
    "SELECT * FROM `/x.csv`",
    "SELECT 1 IN `/x.csv`",
    'SELECT 1 WHERE a IN "/x"',
    "SELECT * FROM view(SELECT * FROM file('x'))",
    "SELECT * FROM view(SELECT * FROM '/x.csv')",
    "SELECT aiGenerate('x')",
    "SELECT dictGet('a','b',1)",
    "SELECT 1 SETTINGS readonly=0",
    "SELECT * FROM (SELECT 1 SETTINGS a=1)",
    "SELECT 1 FORMAT CSV",
    "SELECT * FROM (SELECT 1 FORMAT CSV)",
    "SELECT 1 FORMAT CSV SETTINGS a=1",
    "SELECT 1 INTO OUTFILE 'x'",
    "SELECT 1 into/**/outfile 'x'",
    "EXPLAIN SELECT 1",
    "DESCRIBE file('x')",
    "SHOW TABLES",
    "{a:Identifier}",
    "SELECT {a:String}",
    "SELECT 1 \\G",
    "SELECT @@version",
    "SELECT 'a",
    "SELECT `a",
    "SELECT /* a",
    "SELECT 1; SELECT 2",
    "INSERT INTO FUNCTION file('x') SELECT 1",
    "SELECT * FROM python('x')",
    "SELECT * FROM executable('x','CSV','a')",
    "WITH x AS (SELECT * FROM url('x')) SELECT 1",
    "SELECT * FROM s3 ( 'x')",
    "SELECT 1 FROM\x00file('x')",
    "SELECT * FROM t ARRAY JOIN a JOIN '/x.csv' ON 1",
    "SELECT x'41', * FROM remote('a', b)",
    "SELECT extract(day FROM (SELECT 1 FROM '/x.csv'))",
    "SELECT f(WITH 1 AS a SELECT 1 FROM '/x')",
    "WITH 1 AS a FROM '/x.csv' SELECT *",
    "SELECT * FROM t ORDER BY a UNION ALL SELECT * FROM '/x.csv'",
    "SELECT * FROM (t), '/x.csv'",
    "SELECT * FROM t FINAL, '/x.csv'",
    "SELECT * FROM t SAMPLE 1/2, '/x.csv'",
    "SELECT * FROM t AS x, `/x.csv`",
    "SELECT * FROM default.`/etc/passwd`",
    "SELECT * FROM `default`.`/etc/passwd`",
    "SELECT 1 IN default.`/etc/passwd`",
    "SELECT * FROM t, Prod.orders",
    'SELECT * FROM "Prod".orders',
    "SELECT * FROM Prod . orders",
    "SELECT * FROM Prod /* x */ . orders",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.`query_log`",
    "SELECT * FROM system.processes",
    "SELECT a IN url('http://a') FROM t",
    "SELECT a FROM t WHERE a IN (SELECT * FROM `remote`('a', b))",
    "SELECT * FROM loop(default, x)",
    "SELECT * FROM merge('default', '.*')",
    "SELECT 1 AS fill FROM '/x.csv'",
    "SELECT with fill FROM '/x.csv'",
    "SELECT 1 FROM t AS array JOIN '/x.csv' ON 1",
    "SELECT 1 FROM t AS `array` JOIN `/x.csv` ON 1",
    "WITH array AS (SELECT 1) SELECT * FROM array JOIN '/x.csv' ON 1",
    "SELECT 1 FROM a JOIN b ON a.x = array JOIN '/x.csv' ON 1",
    "SELECT 1 FROM t AS array JOIN remote('a', b) ON 1",
    "SELECT 1 FROM t AS where, '/x.csv'",
    "SELECT 1 FROM t AS group, `/x.csv`",
    "WITH limit AS (SELECT 1) SELECT * FROM limit, '/x.csv'",
    "SELECT 1 FROM a JOIN b ON a.x = limit, '/x.csv'",
    "SELECT 1 FROM a JOIN b ON a.x AND order, '/x.csv'",
    "SELECT 1 FROM a JOIN b ON a.x = 2 * select, '/x.csv'",
    "SELECT 1 FROM t SAMPLE 1/2 OFFSET 1/10, '/x.csv'",
    "SELECT 1 FROM ('/x.csv' AS a JOIN t ON 1)",
    "SELECT 1 FROM ((t, `/x.csv`))",
    "SELECT 1 FROM (EXPLAIN FROM '/x.csv' SELECT 1)",
    "SELECT 1 FROM t ARRAY JOIN [1, 2] AS a, '/x.csv'",
    "SELECT 1 FROM url('x') ARRAY JOIN [1] AS a",
    "SELECT 1 SETTINGS final",
    "SELECT 1 SETTINGS final, additional_result_filter = '1 IN url(1)'",
    "SELECT 1 SETTINGS a.b = 1, c = 2",
    "SELECT 1 SETTINGS `a` = 1",
    "SELECT 1 SETTINGS final UNION ALL SELECT 2",
    "SELECT * FROM (SELECT 1 SETTINGS final)",
    "SELECT generateSerialID('x')",
]

READ = [
    "SELECT 1",
    "select a.b from t",
    "WITH a AS (SELECT 1 AS n) SELECT n FROM a;",
    "SELECT a FROM (FROM t SELECT a)",
    "SELECT 1 UNION ALL (SELECT 2)",
    "SELECT extract(day FROM toDate('2020-01-01'))",
    "SELECT trim(BOTH ' ' FROM 'abc')",
    "SELECT substring('abc' FROM 2 FOR 1)",
    "SELECT a FROM t ARRAY JOIN arrayEnumerate(a) AS n, ['x','y'] AS b",
    "SELECT n FROM t ORDER BY n WITH FILL FROM toDate('2020-01-01') TO toDate('2020-02-01') STEP 1",
    "SELECT 'file(''x'')', \"url(\" FROM t",
    'SELECT a AS "cost in $/1k" FROM t ORDER BY "cost in $/1k"',
    "SELECT format('{} {}', a, b) FROM t ORDER BY format DESC",
    "SELECT 1e-5, .5, 0x1F, 1_000, a.1.1, x -> x+1, a::String, a||b, a!=b, a<>b, a ? 1 : 2",
    "SELECT 'a;b?' AS a, \"role\" FROM t WHERE role = ?",
    "SELECT * FROM t WHERE a IN ('x','y') AND b IN tuple('a')",
    "SELECT * FROM a JOIN b ON a.x = 'l' AND a.y IN ('p'), c",
    "SELECT settings, format FROM t",
    "SELECT * FROM numbers(5)",
    "SELECT a -- x\n, b # y\n, c #!z\n /* d */ FROM t",
    "SELECT name FROM system.tables WHERE x = 'é'",
    "SELECT `naïve col` FROM (SELECT 1 AS `naïve col`) AS q",
    'SELECT q."a b" FROM (SELECT 1 AS "a b") AS q',
    "SELECT count(*) FILTER (WHERE a > 1) FROM t",
    "SELECT * EXCEPT (a), b REPLACE (1 AS c) FROM t",
    "SELECT countIf(role = 'tool') FROM t GROUP BY x WITH TOTALS HAVING y LIMIT 5 BY x",
    "SELECT a FROM t WHERE s LIKE '%\\_%'",
    "SELECT exists(SELECT 1 FROM t)",
    "SELECT view FROM t",
    "SELECT a FROM t WHERE b BETWEEN 1 AND 2 ORDER BY a DESC LIMIT 3 OFFSET 1",
    "SELECT min(a) OVER (ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT name FROM system.tables WHERE database = currentDatabase()",
    "SELECT name FROM information_schema.columns",
    "SELECT settings AS s FROM system.settings WHERE settings LIKE 'x' ORDER BY settings DESC",
    "SELECT a, 'x', toDate(b) FROM t JOIN u USING (c) GROUP BY a, 'x', toDate(b) LIMIT 1 BY a, b",
    'SELECT a FROM t JOIN u ON t.a = ? GROUP BY a, f(b) ORDER BY a * 2, f(b), "a b"',
    "SELECT a FROM t WHERE b IS NOT NULL AND c = 'x' ORDER BY f(a), f(b) LIMIT 5, 6",
    "SELECT a FROM (t JOIN u ON 1) ARRAY JOIN (f(a)) AS b, g(c) AS d WHERE x",
    "SELECT a FROM t WINDOW w AS (PARTITION BY a), v AS (ORDER BY f(b))",
    "SELECT a FROM t UNION ALL SELECT 'x' EXCEPT SELECT 'y', f(z)",
    "SELECT a FROM (VALUES (1, 'x'), (2, 'y')) AS t",
    "SELECT ul.role FROM unified_logs ul LEFT JOIN context_cards cc ON ul.a = cc.a",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_reaches_beyond_a_clickhouse_is_not_sent(sql: str) -> None:
    asked = Asked()
    with pytest.raises(UsageError, match="SELECT") as refused:
        select(cast("ClickHouseClient", asked), sql, ())
    assert asked.sent == []
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("sql", READ)
def test_what_looks_like_it_is_sent(sql: str) -> None:
    ask(sql, [1] * (sql.count("?") - sql.count("b?")))


def test_no_store_is_a_database_whose_tables_may_be_files(windlass: CommandLine) -> None:
    """`default` of an engine in process: a plain name may be a file of the current folder."""
    said = windlass("query", "SELECT * FROM secrets", "--store", "chdb://x?database=default")
    assert said.code == 2
    assert "files of this machine are tables of 'default'; name another" in said.complaint


def test_comments_are_not_sent_and_texts_are_as_they_were() -> None:
    sent = ask("SELECT 'é -- \\' /* x */', a -- url('x')\n, \"n\" # file('y')\n;", [])
    assert " ".join(sent.split()) == "SELECT 'é -- \\' /* x */', a , \"n\""
    assert ask("SELECT ? , 'a?', ?", ["x", None]) == (
        "SELECT {p0:String} , 'a?', {p1:Nullable(String)}"
    )


PIECES = st.one_of(
    odd_words,
    st.sampled_from([*"().,;?'`\"", "--", "/*", "*/", "//", "#!", "# ", "$a$", " ", "\n", "\\"]),
    st.sampled_from(["url", "`url`", "SELECT ", "FROM ", "IN ", "JOIN ", "AS ", "1", "'x'", "t"]),
)


@given(pieces=st.lists(PIECES, max_size=14))
def test_no_spelling_hides_a_call(pieces: list[str]) -> None:
    """What is sent has no comment, and no call of a function that reaches further."""
    try:
        sent = ask("SELECT 1 " + "".join(pieces), ())
    except UsageError:
        return
    texts = sent.split("'")[::2]  # no text of these pieces has a quote in it, unless it is escaped
    if "\\" not in sent and "''" not in sent and '"' not in sent:
        outside = "".join(texts).replace("`", "").replace(" ", "").replace("\n", "").lower()
        assert "url(" not in outside
        for sign in ("--", "/*", "//", "#", "$", ";"):
            assert sign not in "".join(texts)


@pytest.fixture
def recorded(windlass: CommandLine) -> CommandLine:
    windlass.write("one.json", cascade(phase("a")))
    assert windlass("run", "one.json", "--session", "s1").code == 0
    return windlass


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '/etc/passwd' AS x",
        "SELECT 1; ATTACH DATABASE 'x.db' AS x",
        "VACUUM INTO 'copy.db'",
        "PRAGMA writable_schema = 1",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_info('bodies')",
        "SELECT load_extension('x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')",
        "SELECT edit('x')",
        "SELECT * FROM fsdir('/')",
        "SELECT * FROM zipfile('x')",
        "SELECT fts3_tokenizer('simple', x'00')",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_dbpage",
        "WITH x AS (SELECT 1) DELETE FROM sessions",
        "EXPLAIN DELETE FROM sessions",
        "SELECT 1 RETURNING *",
        "CREATE TEMP TABLE x AS SELECT 1",
        "REPLACE INTO bodies (key) VALUES ('a')",
        "BEGIN IMMEDIATE",
    ],
)
def test_nor_does_sql_on_a_folder_reach_further(recorded: CommandLine, sql: str) -> None:
    before = sorted(recorded.folder.iterdir())
    said = recorded("query", sql)
    assert said.code == 2, said.out
    assert "Traceback" not in said.err
    assert sorted(recorded.folder.iterdir()) == before
    assert len(recorded("sessions", "--json").json) == 1


def test_the_schema_of_a_folder_is_told(recorded: CommandLine) -> None:
    said = recorded("query", "SELECT name FROM sqlite_master WHERE type = 'table'", "--json")
    assert {"name": "sessions"} in said.json
