"""Every page, in light and dark, narrow and wide: nothing is barred, cut off, unnamed or faint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tests_browser.chromium import THEMES, WIDTHS, Watched
from tests_browser.served import PAGES, Served

_FOLD = "(open) => document.querySelectorAll('details').forEach((each) => { each.open = open })"
_PAPER = 768


def examined(watched: Watched, theme: str, widths: Iterable[int] = WIDTHS) -> str:
    """What is wrong with the page that is shown, at each width, its details closed and open."""
    page, found = watched.page, list[str]()
    for width in widths:
        watched.resize(width)
        page.evaluate(_FOLD, False)  # noqa: FBT003 - what the page's function takes
        wrong = watched.check("fit")
        page.evaluate(_FOLD, True)  # noqa: FBT003
        for check in ("structure", "fit", "contrasts", "targets"):
            wrong += watched.check(check)
        if theme == "light":  # names are the same in the dark
            wrong += watched.nameless()
        page.keyboard.press("Tab")
        wrong += watched.check("focus")
        if width == _PAPER:  # what is folded is printed, too
            page.evaluate(_FOLD, False)  # noqa: FBT003
            page.emulate_media(media="print")
            wrong += watched.check("printed")
            page.emulate_media(media="screen")
        found += [f"at {width} pixels, {each}" for each in wrong]
    return "\n".join(found)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PAGES)
def test_page(watched: Watched, pages: Mapping[str, str], name: str, theme: str) -> None:
    watched.open(pages[name], theme)
    assert not (found := examined(watched, theme)), found


@pytest.mark.parametrize("theme", THEMES)
def test_page_of_an_empty_store(watched: Watched, empty: Served, theme: str) -> None:
    watched.root = empty.root
    page = watched.open("/", theme)
    assert "No session is in the store yet." in page.inner_text("main")
    assert not (found := examined(watched, theme)), found


_BROKEN = {
    "the title is": "document.title = ''",
    "no language": "document.documentElement.lang = ''",
    "of levels": "document.querySelector('h1').outerHTML = '<h2>No first</h2>'",
    "skips a level": "main.insertAdjacentHTML('beforeend', '<h4>Too deep</h4>')",
    "outside of the landmarks": "document.body.insertAdjacentHTML('beforeend', '<p>Lost</p>')",
    "without scope": "main.querySelector('th').removeAttribute('scope')",
    "neither described": "main.insertAdjacentHTML('beforeend', '<img src=/static/icon.svg>')",
    "names nothing": "main.querySelector('nav').setAttribute('aria-describedby', 'nobody')",
    "leads nowhere": "main.insertAdjacentHTML('beforeend', '<a href=#nobody>There</a>')",
    "pixels wide": "main.insertAdjacentHTML('beforeend', `<pre>${'<input>'.repeat(9)}</pre>`);"
    "main.lastChild.style.width = '2000px'",
    "cuts off": "main.querySelector('h1').style.cssText = 'overflow: hidden; height: 5px'",
    "not with the keyboard": "main.querySelector('pre, .wide').removeAttribute('tabindex');"
    "main.querySelector('pre, .wide').innerHTML = `<p>${'x'.repeat(999)}</p>`;"
    "main.querySelector('pre, .wide').style.whiteSpace = 'nowrap'",
    "has contrast": "main.querySelector('p').style.color = '#888'",
    "an edge of": "main.insertAdjacentHTML('beforeend', '<button>Do</button>');"
    "main.lastChild.style.cssText = 'background: #fff; border-color: #eee'",
    "drawn with": "main.querySelector('.bar').style.fill = '#eee'",
    "with another": "main.insertAdjacentHTML('beforeend', '<a href=/>a</a><a href=/>b</a>')",
    "no name: link": "main.insertAdjacentHTML('beforeend', '<a href=/><br></a>')",
    "does not show": "main.querySelector('a').style.outline = 'none'",
    "too faintly": "main.querySelector('a').style.outlineColor = '#eee'",
    "is not printed": "main.querySelector('p').style.display = 'none'",
    "cut off in print": "main.querySelector('p').style.cssText = 'height: 3px; overflow: auto'",
}
"""What a check says, and what makes it say so."""


@pytest.mark.parametrize("said", _BROKEN)
def test_checks_find_what_is_wrong(watched: Watched, pages: Mapping[str, str], said: str) -> None:
    page = watched.open(pages["session-long"])
    page.evaluate(f"() => {{ const main = document.querySelector('main'); {_BROKEN[said]} }}")
    assert said in examined(watched, "light", [_PAPER])


def test_what_is_barred_is_noticed(watched: Watched, pages: Mapping[str, str]) -> None:
    page = watched.open(pages["list"])
    page.evaluate("() => { document.querySelector('h1').outerHTML = '<h1 style=color:red>A</h1>' }")
    page.evaluate("() => fetch('http://example.com/').catch(() => null)")
    page.wait_for_timeout(100)
    told = "\n".join(watched.troubles)
    assert "the policy bars style-src-attr" in told
    assert "the policy bars connect-src http://example.com" in told
    watched.troubles.clear()
