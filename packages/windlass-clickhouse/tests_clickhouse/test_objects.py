"""Blobs in an object store: the same promises as in a folder, over S3's own protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.history.builders import LONG, a_session, png, row, seen

from tests_clickhouse.conftest import at_port
from tests_clickhouse.s3 import Handler, serving
from tests_clickhouse.server import PASSWORD
from windlass.errors import StoreError, UsageError
from windlass.history.base import Batch
from windlass.history.blobs import BlobPlace, Blobs
from windlass.messages import user
from windlass_clickhouse.client import ClickHouseClient
from windlass_clickhouse.objects import open_blobs
from windlass_clickhouse.store import ClickHouseStore

ADDRESS = "s3://bucket/history"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    with serving() as (url, handler):
        for name, value in {
            "AWS_ENDPOINT": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "very-secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield handler


@pytest.fixture(params=["folder", "objects"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobPlace:
    if request.param == "folder":
        return Blobs(tmp_path / "blobs")
    request.getfixturevalue("s3")
    return open_blobs(ADDRESS, tmp_path)


@pytest.fixture
def store(port: int, database: str, tmp_path: Path, s3: type[Handler]) -> Iterator[ClickHouseStore]:
    client = ClickHouseClient(at_port(port, database), PASSWORD)
    folder = tmp_path / "store"
    with ClickHouseStore(client, open_blobs(ADDRESS, folder), folder, grace_s=0) as made:
        for batch in a_session():
            made.append(batch)
        yield made


def named(*data: bytes) -> dict[str, bytes]:
    return {hashlib.sha256(one).hexdigest(): one for one in data}


class TestThePlace:
    def test_what_goes_in_comes_out(self, blobs: BlobPlace, tmp_path: Path) -> None:
        given = named(*(b"%d" % at * 1000 for at in range(8)))
        blobs.write(given)
        blobs.write(given)
        for sha, data in given.items():
            assert blobs.has(sha)
            assert blobs.read(sha) == data
            assert blobs.digest(sha) == sha
            assert blobs.size(sha) == len(data)
        assert sorted(blobs.list()) == sorted(given)
        sha, data = next(iter(given.items()))
        blobs.link(sha, tmp_path, "visible/a.png")
        assert (tmp_path / "visible/a.png").read_bytes() == data
        blobs.remove(sha)
        blobs.remove(sha)
        blobs.remove_unfinished(1e12)
        assert not blobs.has(sha)
        assert sorted(blobs.list()) == sorted(given.keys() - {sha})

    def test_what_is_not_there_is_said(self, blobs: BlobPlace) -> None:
        sha = "ab" * 32
        assert not blobs.has(sha)
        for ask in (blobs.read, blobs.size, blobs.digest, blobs.renew, blobs.written):
            with pytest.raises(FileNotFoundError):
                ask(sha)

    def test_what_was_changed_is_noticed(self, s3: type[Handler], tmp_path: Path) -> None:
        blobs = open_blobs(ADDRESS, tmp_path)
        (sha,) = given = named(b"right")
        blobs.write(given)
        s3.objects[f"history/{sha[:2]}/{sha}"] = (b"wrong", 0.0)
        with pytest.raises(ValueError, match="not those it is named after"):
            blobs.read(sha)
        assert blobs.digest(sha) == hashlib.sha256(b"wrong").hexdigest()

    def test_renewing_makes_young(self, s3: type[Handler], tmp_path: Path) -> None:
        blobs = open_blobs(ADDRESS, tmp_path)
        (sha,) = given = named(b"x")
        blobs.write(given)
        s3.clock[0] = 2_000_000.0
        blobs.write(given)
        assert blobs.written(sha) == 1_000_000.0
        blobs.write(given, renew=True)
        assert blobs.written(sha) == 2_000_000.0
        s3.clock[0] = 3_000_000.0
        blobs.renew(sha)
        assert blobs.written(sha) == 3_000_000.0

    def test_a_failing_store_says_so_without_its_secret(
        self, s3: type[Handler], tmp_path: Path
    ) -> None:
        blobs = open_blobs(ADDRESS, tmp_path)
        s3.failing.append(403)
        with pytest.raises(StoreError, match=r"object store s3://bucket/history failed") as caught:
            blobs.write(named(b"x"))
        assert "very-secret" not in str(caught.value)
        with pytest.raises(UsageError, match=r"'ftp' is not a kind of object store"):
            open_blobs("ftp://host/x", tmp_path)


class TestAHistoryWithItsBlobsThere:
    def test_is_whole_and_proven(
        self, store: ClickHouseStore, s3: type[Handler], tmp_path: Path
    ) -> None:
        assert {len(name.split("/")) for name in s3.objects} == {3}
        assert len(s3.objects) == 2
        assert store.picture(seen(png()).sha256) == png()
        assert any(one.row.message.text == LONG for one in store.rows("s1") if one.row.message)
        assert list(store.verify()) == []
        ((_, path),) = store.picture_names("s1", "chart")
        path.unlink()  # as on another machine
        ((_, again),) = store.picture_names("s1", "chart")
        assert again.read_bytes() == png()
        assert not (tmp_path / "store/blobs").exists()

    def test_prune_removes_objects(self, store: ClickHouseStore, s3: type[Handler]) -> None:
        told = store.prune(session_id="s1", now=0.0)
        assert (told.blobs, told.bodies) == (2, 7)
        assert s3.objects == {}

    def test_young_ones_are_left_alone(
        self, port: int, database: str, store: ClickHouseStore, s3: type[Handler]
    ) -> None:
        careful = ClickHouseStore(
            ClickHouseClient(at_port(port, database), PASSWORD),
            open_blobs(ADDRESS, store.folder),
            store.folder,
            grace_s=600,
        )
        with careful:
            told = careful.prune(session_id="s1", now=s3.clock[0] + 5)
            assert (told.rows, told.bodies, told.blobs) == (6, 0, 0)
            assert len(s3.objects) == 2
            assert {one.severity for one in careful.verify()} == {"note"}

    def test_nothing_is_recorded_where_objects_cannot_be_written(
        self, store: ClickHouseStore, s3: type[Handler]
    ) -> None:
        s3.failing.append(403)
        with pytest.raises(StoreError, match="object store"):
            store.append(Batch("s1", rows=[row(user("new " + LONG))]))
        s3.failing.clear()
        assert len(list(store.rows("s1"))) == 6
        store.append(Batch("s1", rows=[row(user("new " + LONG))]))
        assert list(store.verify()) == []

    def test_a_missing_object_is_damage(self, store: ClickHouseStore, s3: type[Handler]) -> None:
        for name in list(s3.objects):
            del s3.objects[name]
        found = [finding.what for finding in store.verify()]
        assert found.count("is missing") == 2
        with pytest.raises(StoreError, match=r"is missing.*windlass verify"):
            store.picture(seen(png()).sha256)


def test_without_the_library_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(UsageError, match=r"pip install 'windlass\[objects\]'"):
        open_blobs(ADDRESS, tmp_path)
