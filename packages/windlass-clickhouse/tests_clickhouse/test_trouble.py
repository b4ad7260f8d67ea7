"""Servers that fail: nothing acknowledged is lost, nothing is there twice, and words say why."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.history.builders import LONG, a_session, row, start

from tests_clickhouse.conftest import at_port
from tests_clickhouse.server import PASSWORD, USER
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch, Outcome
from windlass.history.blobs import Blobs
from windlass.messages import user
from windlass_clickhouse import _appending as appending
from windlass_clickhouse import client as of_client
from windlass_clickhouse.client import (
    ClickHouseClient,
    EngineError,
    LostConnectionError,
    Target,
)
from windlass_clickhouse.layout import TableOptions
from windlass_clickhouse.store import ClickHouseStore


@pytest.fixture
def client(port: int, database: str) -> Iterator[ClickHouseClient]:
    made = ClickHouseClient(at_port(port, database), PASSWORD)
    yield made
    made.close()


@pytest.fixture
def make(port: int, database: str, tmp_path: Path) -> Callable[..., ClickHouseStore]:
    def store(options: TableOptions | None = None) -> ClickHouseStore:
        made = ClickHouseClient(at_port(port, database), PASSWORD)
        folder = tmp_path / "store"
        return ClickHouseStore(made, Blobs(folder / "blobs"), folder, options=options, grace_s=0)

    return store


@pytest.fixture
def store(make: Callable[..., ClickHouseStore]) -> Iterator[ClickHouseStore]:
    with make() as made:
        made.append(Batch("s", start=start()))
        yield made


@pytest.fixture
def trouble(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes the server misbehave; it is well again afterwards."""
    monkeypatch.setattr(of_client, "_WAITS_S", (0.01, 0.01))

    def make(how: str) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/trouble?{how}").close()

    yield make
    make("kind=")


def texts(store: ClickHouseStore) -> list[str]:
    return [stored.row.message.text for stored in store.rows("s") if stored.row.message]


def damage(store: ClickHouseStore) -> list[str]:
    return [f"{one.where}: {one.what}" for one in store.verify() if one.severity == "damage"]


class TestLostConnections:
    @pytest.mark.parametrize("kind", ["before", "after"])
    @pytest.mark.parametrize("table", ["bodies", "record"])
    def test_once_is_mended_unseen(
        self, store: ClickHouseStore, trouble: Callable[[str], None], kind: str, table: str
    ) -> None:
        trouble(f"kind={kind}&table={table}")
        (name,) = store.append(Batch("s", rows=[row(user("a"))]))
        assert name == f"{user('a').content_hash}-1"
        store.append(Batch("s", rows=[row(user("b"))]))
        assert texts(store) == ["a", "b"]
        assert damage(store) == []

    @pytest.mark.parametrize("kind", ["before", "after"])
    def test_for_good_is_told_and_the_append_may_be_repeated(
        self, store: ClickHouseStore, trouble: Callable[[str], None], kind: str
    ) -> None:
        batch = Batch("s", rows=[row(user("a"), tokens_in=5)])
        trouble(f"kind={kind}&times=0")
        with pytest.raises(LostConnectionError, match=r"was lost before.*may be done again"):
            store.append(batch)
        trouble("kind=")
        assert store.append(batch) == (f"{user('a').content_hash}-1",)
        assert texts(store) == ["a"]
        assert store.query("SELECT sum(tokens_in) AS n FROM unified_logs") == [{"n": 5}]
        store.append(Batch("s", rows=[row(user("b"))]))
        assert texts(store) == ["a", "b"]
        assert damage(store) == []

    def test_a_session_whose_beginning_was_lost_may_begin_again(
        self, store: ClickHouseStore, trouble: Callable[[str], None]
    ) -> None:
        batch = Batch("t", start=start(), rows=[row(user("a"))])
        trouble("kind=after&times=0")
        with pytest.raises(LostConnectionError):
            store.append(batch)
        trouble("kind=")
        assert store.append(batch) == (f"{user('a').content_hash}-1",)
        assert len(list(store.rows("t"))) == 1
        with pytest.raises(StoreError, match="in the store already"):
            store.append(batch)

    def test_another_batch_after_a_lost_answer_counts_on(
        self, store: ClickHouseStore, trouble: Callable[[str], None]
    ) -> None:
        trouble("kind=after&times=0")
        with pytest.raises(LostConnectionError):
            store.append(Batch("s", rows=[row(user("a"))]))
        trouble("kind=")
        assert store.append(Batch("s", rows=[row(user("a"))])) == (f"{user('a').content_hash}-2",)
        assert damage(store) == []

    def test_a_batch_dropped_in_the_middle_is_never_seen(
        self,
        store: ClickHouseStore,
        trouble: Callable[[str], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(appending, "INSERT_ROWS", 10)
        batch = Batch("s", rows=[row(user(f"m{at}")) for at in range(35)])
        trouble("kind=before&skip=2&times=0")  # two of four inserts arrive
        with pytest.raises(LostConnectionError):
            store.append(batch)
        trouble("kind=")
        assert store.client.select("SELECT count() FROM record WHERE early") == [(20,)]
        assert store.query("SELECT count(*) AS n FROM unified_logs") == [{"n": 0}]
        assert texts(store) == []
        assert damage(store) == []
        store.append(batch)
        assert len(texts(store)) == 35
        assert store.query("SELECT count(*) AS n FROM unified_logs") == [{"n": 35}]
        store.append(Batch("s", rows=[row(user(f"n{at}")) for at in range(25)]))
        assert damage(store) == []
        store.prune(older_than_s=1e9, now=0.0)
        early = store.client.select("SELECT uniq(write), count() FROM record WHERE early")
        assert early == [(2, 30 + 20 + 2)], "what never came to its commit is gone"
        assert len(texts(store)) == 60

    def test_a_server_that_writes_repeated_inserts_twice_is_found_out(
        self, store: ClickHouseStore, client: ClickHouseClient, trouble: Callable[[str], None]
    ) -> None:
        client.command("ALTER TABLE record MODIFY SETTING non_replicated_deduplication_window = 0")
        trouble("kind=after")
        with pytest.raises(StoreError, match=r"twice.*non_replicated_deduplication_window"):
            store.append(Batch("s", rows=[row(user("a"))]))
        assert any("more than once" in what for what in damage(store))


class TestSeveralWriters:
    def test_of_one_session_count_on_from_each_other(
        self, store: ClickHouseStore, make: Callable[..., ClickHouseStore]
    ) -> None:
        failures: list[BaseException] = []

        def write(name: str) -> None:
            try:
                with make() as other:
                    for _ in range(6):
                        other.append(Batch("s", rows=[row(user("same")), row(user(name))]))
            except BaseException as error:  # noqa: BLE001 - told below
                failures.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        ids = [stored.id for stored in store.rows("s")]
        assert len(set(ids)) == 36
        assert f"{user('same').content_hash}-18" in ids
        assert damage(store) == []

    def test_only_one_of_them_begins_a_session(
        self, make: Callable[..., ClickHouseStore], store: ClickHouseStore
    ) -> None:
        begun: list[str] = []

        def begin(name: str) -> None:
            with make() as other:
                try:
                    other.append(Batch("t", start=start(), rows=[row(user(name))]))
                except StoreError:
                    return
                begun.append(name)

        threads = [threading.Thread(target=begin, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [stored.row.message for stored in store.rows("t")] == [user(one) for one in begun]
        assert len(begun) == 1

    def test_a_pruned_name_may_come_again_and_again(self, store: ClickHouseStore) -> None:
        for turn in range(4):
            store.prune(session_id="s", now=0.0)
            store.append(Batch("s", start=start(), rows=[row(user(f"turn {turn}"))]))
            assert texts(store) == [f"turn {turn}"]
        assert damage(store) == []


class TestWrongAddresses:
    def opened(self, target: Target, password: str | None, tmp_path: Path) -> None:
        ClickHouseStore(ClickHouseClient(target, password), Blobs(tmp_path), tmp_path)

    @pytest.mark.parametrize("password", ["wr0ng-s3cret", None])
    def test_a_wrong_password(
        self, port: int, database: str, tmp_path: Path, password: str | None
    ) -> None:
        with pytest.raises(UsageError, match=r"refuses.*WINDLASS_CLICKHOUSE_PASSWORD") as caught:
            self.opened(at_port(port, database), password, tmp_path)
        assert USER in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert ("not set" in str(caught.value)) is (password is None)

    def test_an_unknown_database(self, port: int, database: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=f"CREATE DATABASE.*did you mean '{database}'"):
            self.opened(at_port(port, database + "x"), PASSWORD, tmp_path)

    def test_no_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(of_client, "_WAITS_S", (0.01,))
        target = Target("clickhouse://x@127.0.0.1:1/d", "d", host="127.0.0.1", port=1, user="x")
        with pytest.raises(StoreError, match=r"no ClickHouse answers at .*127.0.0.1:1"):
            self.opened(target, None, tmp_path)

    def test_a_database_of_something_else(
        self, client: ClickHouseClient, make: Callable[..., ClickHouseStore]
    ) -> None:
        client.command("CREATE TABLE record (a Int32) ENGINE = MergeTree ORDER BY a")
        with pytest.raises(StoreError, match="of something else"):
            make()

    def test_a_newer_store(
        self, client: ClickHouseClient, make: Callable[..., ClickHouseStore]
    ) -> None:
        make().close()
        client.command("ALTER TABLE record MODIFY COMMENT 'windlass history, version 99'")
        with pytest.raises(StoreError, match=r"newer Windlass \(its version 99"):
            make()

    def test_a_store_of_the_first_version_is_brought_up(
        self, client: ClickHouseClient, make: Callable[..., ClickHouseStore]
    ) -> None:
        """It has views without a reason, and outcomes without a place for one."""
        with make() as store:
            for batch in a_session():
                store.append(batch)
        client.command("ALTER TABLE record MODIFY COMMENT 'windlass history, version 1'")
        client.command(
            "ALTER TABLE record UPDATE json = replaceRegexpOne(json, ',null\\]$', ']') "
            "WHERE kind = 'outcome' SETTINGS mutations_sync = 2"
        )
        client.command("CREATE OR REPLACE VIEW lineage AS SELECT 1 AS one")
        with make() as store:
            asked = "SELECT phase, status, reason FROM lineage WHERE session_id = 's1'"
            ended = [tuple(found.values()) for found in store.query(asked)]
            assert ended == [("explore", "completed", None), (None, "completed", None)]
            assert [one.status for one in store.outcomes("s1")] == ["completed", "completed"]
            store.append(Batch("s1", outcomes=[Outcome("incomplete", 9.0, reason="turns")]))
            assert store.sessions()[0].reason == "turns"
            assert list(store.verify()) == []
        ((comment,),) = client.select(
            "SELECT comment FROM system.tables "
            "WHERE name = 'record' AND database = currentDatabase()"
        )
        assert comment == "windlass history, version 3"

    def test_a_second_process_at_one_engine(self, tmp_path: Path) -> None:
        code = """if True:
            import sys
            from windlass.errors import StoreError
            from windlass_clickhouse.client import ClickHouseClient, Target
            client = ClickHouseClient(Target("chdb://kept", "d", path=sys.argv[1]), None)
            try:
                client.open()
            except StoreError as error:
                print(error)
            else:
                print("open", flush=True)
                sys.stdin.read()
                client.close()
        """
        command = [sys.executable, "-c", code, str(tmp_path / "engine")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "open\n"
            second = subprocess.run(command, check=True, capture_output=True, text=True)
            first.communicate()
        assert "is open in another process" in second.stdout
        assert "use a ClickHouse server or a folder" in second.stdout
        assert first.returncode == 0

    def test_a_second_engine_in_one_process(self, engine: str, tmp_path: Path) -> None:
        here = ClickHouseClient(Target("chdb://here", "d", path=engine), None)
        here.open()
        with pytest.raises(StoreError, match="one folder open in a process"):
            ClickHouseClient(Target("chdb://there", "d", path=str(tmp_path / "e")), None).open()
        here.close()


class TestFeatures:
    def test_a_missing_one_is_named(self, client: ClickHouseClient) -> None:
        with pytest.raises(EngineError, match=r"lacks a setting .*no_such_thing"):
            client.command(
                "CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a SETTINGS no_such_thing = 1"
            )
        with pytest.raises(EngineError, match=r"lacks a function .*no_such_function"):
            client.select("SELECT no_such_function(1)")

    def test_inserts_join_others_only_where_repeats_are_told_apart(
        self, store: ClickHouseStore
    ) -> None:
        assert store.client._insert_settings["async_insert"] == 1
        assert store.client._insert_settings["wait_for_async_insert"] == 1

    def test_an_index_that_lies_behind_loses_nothing(
        self, store: ClickHouseStore, client: ClickHouseClient
    ) -> None:
        client.command("ALTER TABLE record DROP INDEX content_hash_idx")
        store.append(Batch("s", rows=[row(user("old"))]))
        client.command(
            "ALTER TABLE record ADD INDEX content_hash_idx content_hash TYPE bloom_filter(0.01)"
        )
        store.append(Batch("s", rows=[row(user("new"))]))
        for said in (user("old"), user("new")):
            found = store.query(
                "SELECT content_json FROM unified_logs WHERE content_hash = ?",
                [said.content_hash],
            )
            assert found == [{"content_json": f'"{said.text}"'}]

    def test_sessions_expire_whole(
        self, make: Callable[..., ClickHouseStore], client: ClickHouseClient
    ) -> None:
        with make() as store:
            for batch in a_session("old"):
                store.append(batch)
            young = Batch("young", start=start(4e9), rows=[row(user("a"))])
            store.append(young)
            with pytest.raises(UsageError, match="do not expire after 30 days") as found:
                make(TableOptions(ttl_days=30))
            bank = Batch("memory:notes", start=start(), rows=[row(user("kept"))])
            store.append(bank)
            command = re.search("run (ALTER .*), or", str(found.value))
            assert command is not None
            client.command(command[1])
            client.command("OPTIMIZE TABLE record FINAL")
            left = {one.session_id for one in store.sessions()}
            assert left == {"young", "memory:notes"}
            (kept,) = store.rows("memory:notes")
            assert kept.row.message == user("kept")
            assert list(store.rows("old")) == []
            assert damage(store) == []
        make(TableOptions(ttl_days=30)).close()

    def test_tables_are_made_to_expire(
        self, make: Callable[..., ClickHouseStore], client: ClickHouseClient
    ) -> None:
        make(TableOptions(ttl_days=30)).close()
        make(TableOptions(ttl_days=30)).close()
        found = client.select("SELECT name FROM system.tables WHERE engine_full LIKE '%TTL%30%'")
        assert {name for (name,) in found} == {"record", "context_cards"}


class TestDamage:
    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            ("UPDATE cost = 0.02 WHERE kind = 'row' AND number = 3", "is not what was appended"),
            ("DELETE WHERE kind = 'row' AND number = 2", "row 2 is missing"),
            ("DELETE WHERE kind = 'commit' AND batch = 2", "is missing from batches"),
            (
                "UPDATE content_json = '\"else\"' WHERE kind = 'row' AND number = 2",
                "shows other words than its message has",
            ),
            ("DELETE WHERE kind = 'tools'", "which are missing"),
            ("DELETE WHERE kind = 'image'", "its pictures are not those listed in images"),
            ("DELETE WHERE kind = 'made'", "which made_bodies does not list"),
            ("DELETE WHERE kind = 'start'", "has rows, and no beginning"),
        ],
    )
    def test_by_other_hands_is_named(
        self,
        make: Callable[..., ClickHouseStore],
        client: ClickHouseClient,
        statement: str,
        expected: str,
    ) -> None:
        with make() as store:
            for batch in a_session():
                store.append(batch)
            assert list(store.verify()) == []
            client.command(f"ALTER TABLE record {statement} SETTINGS mutations_sync = 2")
            assert expected in "\n".join(damage(store))

    def test_of_bodies_and_blobs_is_named(
        self, make: Callable[..., ClickHouseStore], client: ClickHouseClient, tmp_path: Path
    ) -> None:
        with make() as store:
            for batch in a_session():
                store.append(batch)
            client.command(
                "ALTER TABLE bodies UPDATE body = replace(body, 'sold', 'sank') "
                "WHERE body LIKE '%sold%' SETTINGS mutations_sync = 2"
            )
            assert "its text is not what its key is the hash of" in "\n".join(damage(store))
            (blob,) = (
                path
                for path in (tmp_path / "store/blobs").rglob("*")
                if path.is_file() and path.stat().st_size > len(LONG)
            )
            blob.unlink()
            assert f"blob {blob.name}: is missing" in damage(store)
            with pytest.raises(StoreError, match="windlass verify"):
                list(store.rows("s1"))
