"""A browser, and inspectors at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests_browser.chromium import Watched, chromium
from tests_browser.served import Served, live, pages_of, served, store_all
from windlass.history.sqlite import SqliteStore


@pytest.fixture(scope="session")
def browser(stored: object) -> Iterator[Browser]:
    """A browser. What drives it keeps an event loop running, in which no session could run."""
    del stored
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A store with sessions of all kinds, and the session of an agent with a hook."""
    store, hooked = store_all(tmp_path_factory.mktemp("inspected"))
    with live(store):
        yield store, hooked


@pytest.fixture(scope="session")
def pages(stored: tuple[Path, str]) -> Mapping[str, str]:
    """The address of each page."""
    return pages_of(*stored)


@pytest.fixture(scope="session")
def inspector(stored: tuple[Path, str]) -> Iterator[Served]:
    with served(stored[0]) as inspector:
        yield inspector


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The inspector of a store without a session."""
    folder = tmp_path_factory.mktemp("empty")
    SqliteStore(folder).close()
    with served(folder) as inspector:
        yield inspector


@pytest.fixture(scope="session")
def signed_in(browser: Browser, inspector: Served, empty: Served) -> Iterator[BrowserContext]:
    """A browser that has opened the addresses which were printed."""
    context = browser.new_context(reduced_motion="reduce")
    for each in (inspector, empty):
        assert context.request.get(each.start).ok
    yield context
    context.close()


@pytest.fixture
def watched(signed_in: BrowserContext, inspector: Served) -> Iterator[Watched]:
    """A page of the browser; what went wrong with it fails the test."""
    watched = Watched(signed_in, inspector.root)
    yield watched
    watched.page.close()
    assert watched.troubles == []
