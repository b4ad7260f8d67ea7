"""A session that is being written: its pages read, and events tell that it grew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.history.builders import row, start

from tests_inspector.conftest import PORT, Pages, signed_in
from windlass.history.base import Batch, Outcome
from windlass.history.sqlite import SqliteStore
from windlass.messages import assistant, user
from windlass_inspector import _inspector, _live


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store") as store:
        store.append(Batch("now", start=start(), rows=[row(user("begin"))]))
        yield store


@pytest.fixture
def watching(writing: SqliteStore) -> Iterator[Pages]:
    with SqliteStore.open_existing(writing.folder, reading=True) as store:
        pages = signed_in(store)
        yield pages
        pages.client.close()


def test_its_page_reads_and_is_read_again(
    writing: SqliteStore, watching: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_inspector, "_YOUNG_S", 0.0)
    with writing.hold("now"):
        page = watching.read("/session/now")
        (notice,) = [each for each in page.all("p") if each.get("data-events")]
        assert notice["data-events"] == "/session/now/events?after=1"
        assert "running" in page.text
        writing.append(Batch("now", rows=[row(assistant("more")), row(user("and more"))]))
        page = watching.read("/session/now")
        (notice,) = [each for each in page.all("p") if each.get("data-events")]
        assert notice["data-events"] == "/session/now/events?after=3"
    page = watching.read("/session/now")
    assert not [each for each in page.all("p") if each.get("data-events")]
    assert "broken off" in page.text
    writing.append(Batch("now", outcomes=[Outcome("completed", 2_000.0)]))
    page = watching.read("/session/now")
    assert not [each for each in page.all("p") if each.get("data-events")]
    assert "completed" in page.text


async def events(
    pages: Pages,
    count: int,
    last: str | None,
    act: Any = None,
    path: str = "/session/now/events",
) -> list[dict[str, Any]]:
    """The first events, as a browser hears them; then it goes away."""
    app: Any = pages.client.app
    heard: list[str] = []
    done = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        text = message.get("body", b"").decode()
        heard.extend(part for part in text.split("\n\n") if part.startswith("id: "))
        if len(heard) >= count:
            done.set()

    headers = [
        (b"host", f"127.0.0.1:{PORT}".encode()),
        (b"cookie", f"windlass-{PORT}={pages.client.cookies[f'windlass-{PORT}']}".encode()),
    ]
    if last is not None:
        headers.append((b"last-event-id", last.encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": pages.root + path,
        "raw_path": (pages.root + path).encode(),
        "query_string": b"",
        "headers": headers,
    }
    answering = asyncio.create_task(app(scope, receive, send))
    if act is not None:
        await asyncio.sleep(0.2)
        await asyncio.to_thread(act)
    await asyncio.wait_for(answering, 10)
    told = []
    for each in heard:
        fields = dict(line.split(": ", 1) for line in each.splitlines())
        told.append({**fields, "data": json.loads(fields["data"])})
    return told


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "_EVERY_S", 0.02)


async def test_events_tell_that_it_grew(writing: SqliteStore, watching: Pages) -> None:
    def more() -> None:
        writing.append(Batch("now", rows=[row(assistant("more"))]))

    (told,) = await events(watching, 1, None, more)
    assert (told["id"], told["event"]) == ("2", "grew")
    assert (told["data"]["rows"], told["data"]["new"]) == (2, 1)
    assert "1 new row since" in told["data"]["said"]


async def test_events_go_on_behind_the_last_one(writing: SqliteStore, watching: Pages) -> None:
    writing.append(Batch("now", rows=[row(assistant(str(at))) for at in range(4)]))
    (told,) = await events(watching, 1, "2")
    assert (told["id"], told["data"]["rows"], told["data"]["new"]) == ("5", 5, 3)


async def test_events_tell_that_it_ended(writing: SqliteStore, watching: Pages) -> None:
    def end() -> None:
        writing.append(Batch("now", outcomes=[Outcome("completed", 2_000.0)]))

    (told,) = await events(watching, 1, "1", end)
    assert (told["data"]["rows"], told["data"]["new"]) == (1, 0)
    assert "ended" in told["data"]["said"]


async def test_events_of_the_list_tell_of_new_sessions(
    writing: SqliteStore, watching: Pages
) -> None:
    def begin() -> None:
        writing.append(Batch("later", start=start(2_000.0), rows=[row(user("begin"))]))

    (told,) = await events(watching, 1, None, begin, path="/events")
    assert "Sessions began" in told["data"]["said"]


def test_events_of_no_session_are_a_page_that_says_so(watching: Pages) -> None:
    assert "no session" in watching.read("/session/other/events", 404).text


def test_a_long_session_does_not_wait_for_its_bills(
    writing: SqliteStore, watching: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = row(assistant("said"), model="local/m", tokens_in=5, tokens_out=1, cost=0.0)
    writing.append(Batch("ended", start=start(), rows=[read]))

    def never(*_: Any) -> None:
        return None

    monkeypatch.setattr(_inspector.SessionShelf, "later", never)
    page = watching.read("/session/ended")
    assert [each["content"] for each in page.all("meta") if each.get("http-equiv")] == ["2"]
    assert "is being worked out" in page.text
    assert "The bills of so long a session" in watching.read("/session/ended/costs").text
