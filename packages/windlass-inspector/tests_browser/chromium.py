"""A Chromium of the system, and a page in it that notes all that goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHECKS: Final = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")
WIDTHS: Final = (320, 768, 1280)
THEMES: Final = ("light", "dark")
HEIGHT: Final = 900
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_NOTES: Final = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  `the policy bars ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
_NAMED: Final = (
    "link button textbox searchbox combobox checkbox radio image img grid gridcell region"
    " navigation heading DisclosureTriangle columnheader rowheader tab progressbar"
)
"""Roles whose elements must have a name that is told to those who do not see them."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a window."""
    path = shutil.which("chromium")
    assert path, "these tests need chromium in the path"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=[*_FLAGS])
        yield browser
        browser.close()


class Watched:
    """A page, and what went wrong with it: scripts that fail, what was barred, who was asked."""

    def __init__(self, context: BrowserContext, root: str) -> None:
        self.root = root
        self.page: Page = context.new_page()
        self.page.add_init_script(_NOTES)
        self.troubles: list[str] = []
        """What went wrong so far."""
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script: {error}"))
        self.page.on("dialog", self._meet)
        self.page.on("request", self._see)
        self.page.on("requestfailed", self._miss)

    def _hear(self, said: Any) -> None:
        # The answer to a page that is not there is told as an error, and it is one on purpose.
        is_answer = said.text.startswith("Failed to load resource: the server responded")
        is_page = is_answer and said.location["url"] == self.page.url
        if said.type in ("error", "warning") and not is_page:
            self.troubles.append(f"{said.type}: {said.text}")

    def _meet(self, dialog: Any) -> None:
        self.troubles.append(f"a script of somebody else ran: {dialog.message}")
        dialog.dismiss()

    def _see(self, asked: Any) -> None:
        if asked.url.partition("//")[2].partition("/")[0] != urlsplit(self.root).netloc:
            self.troubles.append(f"asks another host: {asked.url}")

    def _miss(self, asked: Any) -> None:
        if asked.failure != "net::ERR_ABORTED":  # what a page waited for that was left
            self.troubles.append(f"failed: {asked.failure} {asked.url}")

    def resize(self, width: int) -> None:
        """Make the window as wide as that."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})

    def open(self, address: str, theme: str = "light") -> Page:
        """The page of an address in a wide window, once its bills are worked out."""
        self.resize(WIDTHS[-1])
        self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        self.page.goto(self.root + address)
        while self.page.locator("meta[http-equiv=refresh]").count():
            self.page.wait_for_timeout(300)
            self.page.goto(self.root + address)
        return self.page

    def check(self, name: str) -> list[str]:
        """What a check of `page_checks.js` finds."""
        found: list[str] = self.page.evaluate(f"(name) => ({CHECKS})()(name)", name)
        return [f"{name}: {each}" for each in found]

    def nameless(self) -> list[str]:
        """What the browser has no name for, as it tells those who do not see the page."""
        session = self.page.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        found = []
        for node in nodes:
            role = node.get("role", {}).get("value")
            if node["ignored"] or role not in _NAMED.split():
                continue
            if not str(node.get("name", {}).get("value", "")).strip():
                asked = {"backendNodeId": node["backendDOMNodeId"]}
                about = session.send("DOM.describeNode", asked)["node"]
                found.append(f"no name: {role} {about['localName']} {about.get('attributes')}")
        session.detach()
        return found
