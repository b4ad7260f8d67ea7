"""The inspector over a store of real sessions, asked as a browser asks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.report_costs import PRICED
from tests.support.web_sessions import store_sessions

from windlass.history.base import Store
from windlass.history.sqlite import SqliteStore

TOKEN = "a-token-for-tests"
PORT = 7410


class Elements(HTMLParser):
    """What a page is made of, as a browser would read it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


@dataclass
class Pages:
    """The pages of a store, for who has the token. `root` is what their paths begin with."""

    store: Store
    client: TestClient
    root: str

    def get(self, address: str, **headers: str) -> Any:
        """The answer to an address below the root, or to that of a static file."""
        path = address if address.startswith("/static/") else self.root + address
        return self.client.get(path, headers=headers, follow_redirects=False)

    def elements(self, answer: Any) -> Elements:
        """What a page is made of, with the addresses below the root."""
        return Elements(answer.text.replace(self.root, ""))

    def read(self, address: str, status: int = 200) -> Elements:
        answer = self.get(address)
        assert answer.status_code == status, answer.text
        return self.elements(answer)


def client_of(store: Store) -> TestClient:
    """A browser that was never here."""
    from windlass_inspector.site import make_app

    app = make_app(store, token=TOKEN, port=PORT, price_as=PRICED, prices={})
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}")


def signed_in(store: Store) -> Pages:
    client = client_of(store)
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    return Pages(store, client, answer.url.path.removesuffix("/"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with sessions of all kinds."""
    folder = tmp_path_factory.mktemp("inspected")
    store_sessions(folder)
    return folder


@pytest.fixture(scope="session")
def pages(folder: Path) -> Iterator[Pages]:
    with SqliteStore.open_existing(folder, reading=True) as store:
        made = signed_in(store)
        yield made
        made.client.close()
