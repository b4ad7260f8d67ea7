"""Who gets an answer, and what a browser may do with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.web_sessions import ODD

from tests_inspector.conftest import PORT, TOKEN, Elements, Pages, client_of
from windlass.history.sqlite import SqliteStore
from windlass_inspector._rendering import address

COOKIE = f"windlass-{PORT}"
EVERY = (
    "/",
    "/?q=report",
    "/session/long",
    "/session/long/costs",
    "/session/long/call/3",
    "/session/long/forks",
    "/session/long/replay",
    "/session/sounded/soundings",
    "/session/nothing",
    "/no/such/page",
    "/static/inspector.css",
)


class TestTheHost:
    @pytest.mark.parametrize("host", [f"localhost:{PORT}", f"[::1]:{PORT}", f"LOCALHOST:{PORT}"])
    def test_may_be_any_name_of_this_machine(self, pages: Pages, host: str) -> None:
        assert pages.get("/", host=host).status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1", f"127.0.0.1.evil.example:{PORT}", "127.0.0.1:80", ""]
    )
    def test_may_be_no_other(self, pages: Pages, host: str) -> None:
        answer = pages.get("/", host=host)
        assert answer.status_code == 403
        assert "long" not in answer.text

    def test_is_looked_at_before_the_token(self, pages: Pages) -> None:
        answer = pages.get(f"/?token={TOKEN}", host="evil.example")
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


class TestTheToken:
    def test_is_asked_for(self, pages: Pages) -> None:
        stranger = client_of(pages.store)
        for root in ("", pages.root):
            for path in EVERY[:-1]:
                answer = stranger.get(root + path)
                assert answer.status_code == 403
                assert "windlass serve printed" in answer.text
                assert pages.root not in answer.text
            assert stranger.get(f"{root}/session/long/events").status_code == 403

    @pytest.mark.parametrize("token", ["", "other", TOKEN[:-1], TOKEN + "x", "tök\udc80en"])
    def test_must_be_the_right_one(self, pages: Pages, token: str) -> None:
        stranger = client_of(pages.store)
        for name in ("token", "code"):
            answer = stranger.get("/", params={name: token.encode("utf-8", "replace")})
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
        stranger.cookies.set(COOKIE, token.encode("ascii", "replace").decode())
        assert stranger.get(f"{pages.root}/").status_code == 403

    def test_becomes_a_cookie_and_leaves_the_address(self, pages: Pages) -> None:
        stranger = client_of(pages.store)
        path = address("session", ODD) + f"?from=5&token={TOKEN}"
        for asked in (path, pages.root + path):
            answer = stranger.get(asked, follow_redirects=False)
            assert answer.status_code == 303
            assert answer.headers["location"] == pages.root + address("session", ODD) + "?from=5"
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert stranger.get(f"{pages.root}/").status_code == 200

    def test_is_not_the_cookie_which_other_ports_never_see(self, pages: Pages) -> None:
        """A browser sends a cookie to every port of its host, to paths that it was set for."""
        stranger = client_of(pages.store)
        cookie = stranger.get(f"/?token={TOKEN}", follow_redirects=False).headers["set-cookie"]
        assert TOKEN not in cookie
        assert TOKEN not in pages.root
        assert f"Path={pages.root};" in f"{cookie};"
        assert len(pages.root) > 30
        for path in ("/", "/session/long", "/static/inspector.css", f"{pages.root}x/"):
            for port in (PORT, PORT + 1):
                asked = f"http://127.0.0.1:{port}{path}"
                assert "cookie" not in stranger.get(asked, follow_redirects=False).request.headers

    def test_is_found_among_cookies_of_other_programs(self, pages: Pages) -> None:
        stranger = client_of(pages.store)
        given = f'other="a, [b]; x=@{{"; ; {COOKIE}={pages.client.cookies[COOKIE]}; last'
        answer = stranger.get(f"{pages.root}/", headers={"cookie": given})
        assert answer.status_code == 200
        assert stranger.get("/", headers={"cookie": given}).status_code == 403

    def test_never_sends_to_another_server(self, pages: Pages) -> None:
        stranger = client_of(pages.store)
        for path in ("//evil.example/", "/\\evil.example/", "/@evil.example/"):
            answer = stranger.request(
                "GET",
                f"http://127.0.0.1:{PORT}{path}?token={TOKEN}",
                follow_redirects=False,
            )
            assert answer.headers["location"].startswith(f"{pages.root}/")

    def test_leads_on_from_pages_of_others(self, pages: Pages) -> None:
        """Behind their link, no redirect carries a strict cookie: a page of ours leads on."""
        answer = client_of(pages.store).get(
            f"/session/long?token={TOKEN}", headers={"sec-fetch-site": "cross-site"}
        )
        assert answer.status_code == 200
        (meta,) = [each for each in Elements(answer.text).all("meta") if each.get("http-equiv")]
        assert meta["content"] == f"0;url={pages.root}/session/long"
        assert "set-cookie" in answer.headers


class TestEveryAnswer:
    @pytest.mark.parametrize("path", EVERY)
    def test_lets_the_browser_run_and_load_only_what_is_ours(self, pages: Pages, path: str) -> None:
        headers = pages.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        if not path.startswith("/static"):
            assert headers["cache-control"] == "no-store"

    @pytest.mark.parametrize("path", EVERY[:-1])
    def test_has_no_style_and_no_script_of_its_own(self, pages: Pages, path: str) -> None:
        page = pages.elements(pages.get(path))
        assert page.all("style") == []
        scripts = [str(each.get("src")) for each in page.all("script")]
        assert all(script.startswith("/static/") for script in scripts)
        for _, attributes in page.tags:
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
            for name in ("href", "src", "action"):
                assert not (attributes.get(name) or "/").startswith(("http", "//", "javascript"))

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    def test_is_to_a_question(self, pages: Pages, method: str) -> None:
        answer = pages.client.request(method, f"{pages.root}/session/long")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"

    def test_to_head_has_no_body(self, pages: Pages) -> None:
        answer = pages.client.head(pages.root + "/session/long")
        assert answer.status_code == 200
        assert answer.content == b""
        assert pages.client.head(pages.root + "/session/long/events").status_code == 200

    def test_leaves_the_store_as_it_is(self, folder: Path, pages: Pages) -> None:
        def contents() -> dict[str, bytes]:
            kept = (path for path in folder.rglob("*") if path.is_file())
            return {path.name: path.read_bytes() for path in kept if path.suffix != ".sqlite-shm"}

        before = contents()
        for path in EVERY:
            pages.get(path)
        assert contents() == before
        with SqliteStore.open_existing(folder) as store:
            assert store.find_session("long") == "long"
