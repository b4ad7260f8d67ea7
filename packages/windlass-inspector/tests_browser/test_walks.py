"""Ways through the pages: with the keyboard alone, without scripts, into a session that grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests_browser.chromium import WIDTHS, Watched
from tests_browser.served import PAGES, TOKEN, Served, grow_live

_MOST = 80
"""Times that Tab is pressed at most."""


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until what is asked for has the focus."""
    for _ in range(_MOST):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"Tab does not come to {selector}")


def test_with_the_keyboard_alone(watched: Watched, inspector: Served) -> None:
    page, press = watched.page, watched.page.keyboard.press
    page.goto(inspector.start)
    tab_to(page, "a.big[href$='/session/long']")
    press("Enter")
    page.wait_for_url("**/session/long")
    tab_to(page, ".tabs a[href$='/matrix']")
    press("Enter")
    page.wait_for_url("**/matrix")
    tab_to(page, "[role=grid]")
    grid, status = page.locator("#matrix-grid"), page.locator("#matrix-cell")
    rows = int(grid.get_attribute("aria-rowcount") or 0)
    columns = int(grid.get_attribute("aria-colcount") or 0)
    assert rows > 20 < rows + columns

    def is_at(row: int, column: int) -> None:
        expect(status).to_contain_text(f"essage {row}")
        expect(status).to_contain_text(f"all {column}")
        expect(page.get_by_role("gridcell")).to_have_text(f"message {row}, call {column}")

    is_at(1, columns)
    for key, row, column in (
        ("ArrowDown", 2, columns),
        ("ArrowLeft", 2, columns - 1),
        ("Home", 2, 1),
        ("ArrowLeft", 2, 1),
        ("PageDown", 22, 1),
        ("End", 22, columns),
        ("ArrowRight", 22, columns),
        ("ArrowUp", 21, columns),
        ("PageUp", 1, columns),
        ("Control+End", rows, columns),
        ("Control+Home", 1, 1),
        ("ArrowRight", 1, 2),
    ):
        press(key)
        is_at(row, column)
    box = page.locator(".matrix-cursor .box").bounding_box()
    whole = grid.bounding_box()
    assert box is not None
    assert whole is not None
    assert whole["x"] <= box["x"] < whole["x"] + whole["width"]
    press("Enter")
    page.wait_for_url("**/session/long/call/2")
    tab_to(page, ".window a.role")
    press("Enter")
    page.wait_for_url("**/message/*")
    assert "Its life" in page.inner_text("main")
    page.go_back()
    page.wait_for_url("**/session/long/call/2")
    tab_to(page, ".window summary")
    press("Enter")
    expect(page.locator(".window details[open] pre").first).to_be_visible()


def test_the_first_link_leads_to_the_content(watched: Watched, pages: Mapping[str, str]) -> None:
    page = watched.open(pages["session-long"])
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.closest('main') !== null")


def test_a_click_moves_the_cursor(watched: Watched, pages: Mapping[str, str]) -> None:
    page = watched.open(pages["matrix-long"])
    watched.resize(WIDTHS[0])
    page.locator("#matrix-grid").click(position={"x": 3, "y": 3})
    expect(page.get_by_role("gridcell")).to_have_text("message 1, call 1")
    expect(page.locator("#matrix-cell")).to_contain_text("all 1")


@pytest.fixture(scope="module")
def scriptless(browser: Browser, inspector: Served) -> Iterator[Page]:
    """A page of a browser that runs no script."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(inspector.start)
    yield page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_pages_read_without_scripts(
    scriptless: Page, inspector: Served, pages: Mapping[str, str], name: str
) -> None:
    page = scriptless
    page.goto(inspector.root + pages[name])
    expect(page.locator("h1")).to_be_visible()
    assert len(page.inner_text("main")) > 60
    if page.locator("#matrix-grid").count():
        expect(page.locator("#matrix-grid img")).to_be_visible()
        expect(page.locator("#matrix-keys")).to_be_hidden()
        page.locator("summary").click()
        expect(page.locator("details table")).to_be_visible()


def test_a_session_that_grows_says_so(
    watched: Watched, pages: Mapping[str, str], stored: tuple[Path, str]
) -> None:
    page = watched.open(pages["session-running"])
    notice = page.locator(".notice.live")
    expect(notice).to_contain_text("this is how far it got")
    grow_live(stored[0])
    expect(notice).to_contain_text("It is being written: 1 new row since this page was made.")
    tab_to(page, ".notice a")
    page.keyboard.press("Enter")
    expect(notice).to_contain_text("this is how far it got")


def test_the_list_says_that_sessions_began(
    watched: Watched, pages: Mapping[str, str], stored: tuple[Path, str]
) -> None:
    page = watched.open(pages["list"])
    notice = page.locator(".notice.live")
    expect(notice).to_be_hidden()
    page.wait_for_timeout(1_500)  # the server has to have looked once
    grow_live(stored[0], "began-later")
    expect(notice).to_contain_text("Sessions began, went on or ended")
    expect(notice).to_be_visible()


@pytest.fixture
def stranger(browser: Browser) -> BrowserContext:
    """A browser that was never here."""
    return browser.new_context()


def test_the_token_lets_in(stranger: BrowserContext, inspector: Served) -> None:
    watched = Watched(stranger, inspector.root)
    for address in (inspector.host, f"{inspector.root}/"):
        answer = watched.page.goto(address)
        assert answer is not None
        assert answer.status == 403
        assert "with its token" in watched.page.inner_text("main")
    answer = watched.page.goto(inspector.start)
    assert answer is not None
    assert answer.status == 200
    assert TOKEN not in watched.page.url
    (cookie,) = stranger.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["path"] == inspector.root.removeprefix(inspector.host)
    assert TOKEN not in cookie["value"]
    assert watched.page.evaluate("() => document.cookie") == ""
    again = watched.page.goto(f"{inspector.root}/")
    assert again is not None
    assert again.status == 200
    assert watched.troubles == []
    stranger.close()
