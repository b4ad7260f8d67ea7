"""Addresses of stores: what they mean, and what is said of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from windlass.errors import UsageError
from windlass.history.places import open_place
from windlass.history.sqlite import SqliteStore
from windlass.settings.fields import StoreAddress, read_store
from windlass.settings.settings import Settings
from windlass_clickhouse.layout import TableOptions, script
from windlass_clickhouse.places import read_address

HERE = Path("/here")


def address(url: str) -> StoreAddress:
    read = read_store(url, HERE)
    assert isinstance(read, StoreAddress)
    return read


def test_a_folder_is_a_sqlite_store(tmp_path: Path) -> None:
    assert read_store("kept", tmp_path) == tmp_path / "kept"
    with open_place(tmp_path / "kept", {}) as store:
        assert isinstance(store, SqliteStore)
    with pytest.raises(UsageError, match="there is no store"):
        open_place(tmp_path / "other", {}, existing=True)


def test_every_part_of_a_server_s_address() -> None:
    place = read_address(
        address(
            "clickhouse://ann%40x@db.example:9123/team_log?blobs=s3://bucket/p&files=seen"
            "&secure=true&ttl_days=90&vectors=256"
        )
    )
    target = place.target
    assert (target.host, target.port, target.user) == ("db.example", 9123, "ann@x")
    assert (target.database, target.secure, target.path) == ("team_log", True, None)
    assert target.shown == "clickhouse://ann%40x@db.example:9123/team_log"
    assert place.blobs == "s3://bucket/p"
    assert place.files == HERE / "seen"
    assert place.tables == TableOptions(ttl_days=90, vectors=256)


def test_what_an_address_leaves_out() -> None:
    place = read_address(address("clickhouse://localhost/log?blobs=shared/blobs"))
    assert (place.target.port, place.target.user, place.target.secure) == (8123, "default", False)
    assert (place.blobs, place.files) == ("/here/shared/blobs", HERE / ".windlass")
    assert read_address(address("clickhouse://h/log?blobs=b&secure=1")).target.port == 8443
    inside = read_address(address("chdb://kept/here"))
    assert inside.target.path == "/here/kept/here/engine"
    assert (inside.target.database, inside.blobs) == ("windlass", "/here/kept/here/blobs")
    assert inside.files == HERE / "kept/here"
    assert read_address(address("chdb:///abs?database=d")).target.path == "/abs/engine"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("clickhouse://host?blobs=b", "must name a host and a database"),
        ("clickhouse:///log?blobs=b", "must name a host and a database"),
        ("clickhouse://host/log", "does not say where pictures and large bodies lie"),
        ("clickhouse://host/log?blob=b", "unknown option 'blob'; did you mean 'blobs'"),
        ("clickhouse://host/log?blobs=", "its option blobs is empty"),
        ("clickhouse://host:x/log?blobs=b", "its port is wrong"),
        ("clickhouse://host/log?blobs=b&ttl_days=0", "ttl_days must be a whole number from 1"),
        ("clickhouse://host/log?blobs=b&vectors=many", "vectors must be a whole number"),
        ("clickhouse://host/log?blobs=b&secure=maybe", "secure must be true or false"),
        ("chdb://", "it names no folder"),
        ("chdb://a?secure=true", "unknown option 'secure'"),
    ],
)
def test_a_wrong_address_is_told_in_one_sentence(url: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_address(address(url))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_schemes_and_passwords_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"'postgres' is not a kind of store.*clickhouse://, chdb://"
    ):
        read_store("postgres://host/db", HERE)
    secret = "clickhouse://ann:s3cret@host/log?blobs=b"
    for read in (
        lambda: read_store(secret, HERE),
        lambda: Settings.read({"store": secret}, {}, tmp_path, user_folder=tmp_path),
        lambda: Settings.read({}, {"WINDLASS_STORE": secret}, tmp_path, user_folder=tmp_path),
    ):
        with pytest.raises(UsageError, match="WINDLASS_CLICKHOUSE_PASSWORD") as caught:
            read()
        assert "s3cret" not in str(caught.value)


def test_an_address_in_settings_is_relative_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text('store = "chdb://kept"\n')
    settings = Settings.read({}, {}, tmp_path, user_folder=tmp_path / "none")
    assert isinstance(settings.store, StoreAddress)
    assert read_address(settings.store).files == tmp_path / "kept"
    assert str(settings["store"].value) == "chdb://kept"


@pytest.mark.parametrize(
    ("url", "extra", "module"),
    [
        ("clickhouse://host/log?blobs=b", "clickhouse", "clickhouse_connect"),
        ("chdb://kept", "chdb", "clickhouse_connect"),
    ],
)
def test_a_missing_library_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, extra: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"needs {module}: pip install 'windlass\[{extra}\]'"):
        open_place(StoreAddress(url, tmp_path), {})


def test_a_missing_object_library_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match=r"pip install 'windlass\[objects\]'"):
        open_place(StoreAddress("clickhouse://host/log?blobs=s3://bucket/x", tmp_path), {})


class TestTheStatements:
    @pytest.mark.req("AC-20", "AC-21", "AC-22")
    def test_have_the_documents_engine_order_and_indexes(self) -> None:
        text = script(TableOptions(vectors=384))
        cards = text[text.index("CREATE TABLE IF NOT EXISTS context_cards") :]
        cards = cards[: cards.index(";")]
        assert "ENGINE = ReplacingMergeTree(generated_at)" in cards
        assert "PARTITION BY toYYYYMM(message_timestamp)" in cards
        assert "ORDER BY (session_id, content_hash" in cards
        assert "vector_similarity('hnsw', 'cosineDistance', 384)" in cards
        assert "INDEX keywords_idx keywords TYPE bloom_filter" in cards
        assert "PARTITION BY toYYYYMM(day)" in text
        assert "TTL" not in text
        assert "TTL day + INTERVAL 30 DAY" in script(TableOptions(ttl_days=30))
