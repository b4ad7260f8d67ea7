"""Programs of the same machine that try to stop the inspector, or to be let in; odd addresses."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.attacks.conftest import odd_words
from tests.support.web_sessions import run_whole

from tests_inspector.conftest import Elements, Pages, signed_in
from windlass.history.sqlite import SqliteStore
from windlass_inspector.serving import CONNECTIONS, HEAD_S


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    run_whole(folder)
    return folder


@dataclass
class Served:
    """An inspector at work, as the command serves it. `printed` is the address that it printed."""

    printed: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        port = urlsplit(self.printed).port
        assert port is not None
        return port

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        made.sendall(sent)
        return made

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> str:
        """What it said besides the address."""
        self.process.send_signal(signal.SIGINT)
        streams = self.process.stdout, self.process.stderr
        # Not by `communicate`, which leaves out what was read together with the address.
        said = "".join(stream.read() for stream in streams if stream is not None)
        self.process.wait(30)
        return said


@contextmanager
def served(folder: Path, *words: str, **environment: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "windlass", "serve", "--store", str(folder), "--port", "0"]
    with subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        try:
            yield Served(process.stdout.readline().split()[-1], process)
        finally:
            process.kill()


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """So many files may this process have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ENDED = "Ctrl-C ends it\nwindlass: interrupted\n"


class TestOthersOfTheMachine:
    def test_do_not_stop_it_by_half_requests(self, folder: Path) -> None:
        half = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
        with served(folder, "--no-open") as inspector, open_files(1024), ExitStack() as held:
            resource.prlimit(inspector.process.pid, resource.RLIMIT_NOFILE, (256, 256))
            for _ in range(300):  # more than it may have files open
                held.enter_context(inspector.connect(half))
            begun = time.monotonic()
            with httpx.Client(timeout=20, follow_redirects=True) as browser:
                for _ in range(5):
                    answer = browser.get(inspector.printed)
                    assert "whole" in answer.text
            assert time.monotonic() - begun < HEAD_S
            assert inspector.open_files() < CONNECTIONS + 60
            assert inspector.end() == ENDED

    def test_are_left_when_their_request_does_not_come(self, folder: Path) -> None:
        """Also where a byte comes now and then, and behind an answer."""
        with served(folder, "--no-open") as inspector:
            silent, slow, behind = (inspector.connect() for _ in range(3))
            asked = f"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{inspector.port}\r\n\r\n"
            behind.sendall(asked.encode())
            assert behind.recv(15) == b"HTTP/1.1 200 OK"
            behind.sendall(b"GET / HTTP")
            begun, left = time.monotonic(), {silent, slow, behind}
            while left and time.monotonic() - begun < 3 * HEAD_S:
                for each in (slow, behind):
                    if each in left:
                        each.sendall(b"G")
                time.sleep(0.25)
                left -= {each for each in left if _is_closed(each)}
            assert not left
            assert time.monotonic() - begun > HEAD_S - 1
            for each in (silent, slow, behind):
                each.close()

    def test_do_not_fill_its_log(self, folder: Path, tmp_path: Path) -> None:
        """Also where the system allows few files, and each connection that fails is told."""
        environment = {"TMPDIR": str(tmp_path)}
        with served(folder, "--no-open", **environment) as inspector, ExitStack() as held:
            few = inspector.open_files() + 20
            resource.prlimit(inspector.process.pid, resource.RLIMIT_NOFILE, (few, few))
            for _ in range(100):
                held.enter_context(inspector.connect(b"GET / HTTP/1.1\r\n"))
            time.sleep(3)
            assert "what tools and libraries printed" in inspector.end()
        (log,) = tmp_path.glob("windlass-*.log")
        said = log.read_text()
        assert said.count("socket.accept() out of system resource") in range(1, 10)
        assert "more is left out for a minute" in said
        assert len(said) < 20_000

    def test_do_not_see_how_a_browser_is_let_in(self, folder: Path, tmp_path: Path) -> None:
        """The browser is called with a file of the user's, whose code lets in once."""
        called = tmp_path / "called"
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$@" > {called}.part; mv {called}.part {called}\n')
        browser.chmod(0o700)
        environment = {"BROWSER": f"{browser} %s", "DISPLAY": ":0", "TMPDIR": str(tmp_path)}
        with served(folder, "whole", **environment) as inspector:
            deadline = time.monotonic() + 20
            while not called.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            (address,) = called.read_text().split()
            file = Path(address.removeprefix("file://"))
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            token = inspector.printed.partition("token=")[2]
            text = file.read_text()
            assert token not in text + address
            assert "code" not in address
            leads = _refresh(text)
            with httpx.Client(timeout=20) as first:
                page = first.get(leads)
                assert page.status_code == 200
                assert (
                    f"Path={urlsplit(_refresh(page.text)).path.rpartition('/session')[0]}"
                    in (page.headers["set-cookie"])
                )
                shown = first.get(f"http://127.0.0.1:{inspector.port}{_refresh(page.text)}")
                assert "Do work." in shown.text
            with httpx.Client(timeout=20) as second:
                assert second.get(leads).status_code == 403
                assert "set-cookie" not in second.get(leads).headers
            inspector.process.send_signal(signal.SIGTERM)
            inspector.process.wait(30)
            assert not file.exists()


def _refresh(page: str) -> str:
    """Where a page leads by itself."""
    (meta,) = [each for each in Elements(page).all("meta") if each.get("http-equiv")]
    return str(meta["content"]).removeprefix("0;url=")


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0)
    try:
        while received := connection.recv(4096):
            del received
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.settimeout(20)
    return True


@pytest.fixture(scope="module")
def pages(folder: Path) -> Iterator[Pages]:
    with SqliteStore.open_existing(folder, reading=True) as store:
        made = signed_in(store)
        yield made
        made.client.close()


MANY = "9" * 5_000
"""More digits than Python makes a number of."""
LONG = "ab" * 30_000
"""As much as the head of a request holds."""


class TestAnAddress:
    @pytest.mark.parametrize(
        "path",
        [
            f"/session/whole/call/{MANY}",
            f"/session/whole/call/{MANY[:9]}",
            f"/session/whole/call/-{MANY}",
            f"/session/whole/matrix?first={MANY}",
            f"/session/whole/matrix.png?first={MANY}",
            f"/session/whole/cell?first=1&message={MANY}&call={MANY}",
            f"/session/whole/message/{MANY}",
            f"/session/whole/picture/{MANY}",
            f"/session/{MANY}",
            "/session/whole/call/",
        ],
    )
    def test_of_nothing_is_no_mistake_of_ours(self, pages: Pages, path: str) -> None:
        assert pages.get(path).status_code == 404

    @pytest.mark.parametrize("name", ["from", "page", "at"])
    def test_with_a_number_too_long_shows_the_beginning(self, pages: Pages, name: str) -> None:
        for path in ("/", "/session/whole", "/session/whole/call/1"):
            assert pages.read(f"{path}?{name}={MANY}").text == pages.read(path).text


PARTS = ("session", "whole", "call", "message", "matrix", "matrix.png", "cell", "costs")
MORE = ("picture", "soundings", "forks", "replay", "text", "1", "static", "")
NAMES = ("from", "only", "first", "message", "call", "dark", "policies", "name", "model", "kind")
ASKED = ("state", "q", "page", "at", "token", "code")
values = st.one_of(
    odd_words,
    st.integers().map(str),
    st.text(st.characters(categories=["Nd"]), max_size=12),
    st.sampled_from([MANY, LONG, "\x00", "sent", "hidden", "mask:2", "mask:" + MANY, "run"]),
    st.sampled_from(["completed", "٣", "1" * 8, "1" * 9, "0", "-1", "1.5", "1e9", "~", "~3"]),
)
pages_of_a_session = st.tuples(
    st.just("session"), st.just("whole") | values, st.sampled_from(PARTS[2:] + MORE), values
)
paths = st.one_of(
    st.just(()), pages_of_a_session, st.lists(st.sampled_from(PARTS + MORE) | values, max_size=6)
)
queries = st.dictionaries(st.sampled_from(NAMES + ASKED) | odd_words, values, max_size=4)


@settings(
    max_examples=max(250, settings.default.max_examples if settings.default else 0),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(path=paths, query=queries)
@example(path=(), query={"name": LONG})
@example(path=(), query={"model": LONG})
@example(path=(), query={"q": LONG})
@example(path=("session", LONG), query={})
@example(path=("session", "whole", "replay"), query={"policies": f"mask:{MANY}"})
@example(path=("session", "whole", "replay"), query={"policies": LONG})
@example(path=("session", "whole", "replay"), query={"policies": "mask:²"})
@example(path=("session", "whole", "replay"), query={"policies": "lean,window=x"})
@example(path=("session", "whole", "message", "\x00"), query={})
def test_no_address_is_a_mistake_of_ours(
    pages: Pages, path: tuple[str, ...] | list[str], query: Mapping[str, str]
) -> None:
    asked = "/" + "/".join(quote(_encoded(part), safe="") for part in path)
    given_query = urlencode({_encoded(name): _encoded(value) for name, value in query.items()})
    assume(len(asked + given_query) < 65_000)  # what the head of a request holds
    answer = pages.get(f"{asked}?{given_query}")  # raises what a page raises
    assert answer.status_code in (200, 303, 307, 400, 404), (answer.status_code, answer.text[:900])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
