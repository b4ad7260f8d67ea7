"""The templates of `pages/`, and how values are written in them: addresses, money, times."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2

from windlass.public import escaped, many, money

ROOT: Final = ContextVar("windlass-root", default="")
"""What the paths of pages begin with while a request is answered (empty: nothing)."""
_CENT: Final = 0.01
_LEAST: Final = 0.00001
"""US dollars below which an amount is told to be less than that."""


def page(template: str, values: Mapping[str, Any]) -> str:
    """Return a page, made by a template of `pages/`.

    Every value is escaped, as HTML and against what turns the order of characters.
    """
    return escaped(_environment().get_template(template).render(values))


def address(*parts: str | int, **query: str | int | None) -> str:
    """Return the address of a page, such as `/session/NAME/call/3?from=100`.

    A name may hold anything. What would be read as a part of the path is written `~1` (a slash) and
    `~2` (a dot, in a name of dots alone), and a tilde `~0`. Parameters that are empty are left out.
    """
    path = ROOT.get() + ("".join(f"/{_segment(str(part))}" for part in parts) or "/")
    given = {name.rstrip("_"): value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def _segment(name: str) -> str:
    written = name.replace("~", "~0").replace("/", "~1")
    if not written.strip("."):
        written = written.replace(".", "~2")
    return quote(written, safe="~")


def name_in(segment: str) -> str:
    """Return the name that a part of a path stands for, decoded already.

    >>> name_in("a~1b~0"), address("session", "a/b~")
    ('a/b~', '/session/a~1b~0')
    """
    return segment.replace("~2", ".").replace("~1", "/").replace("~0", "~")


def percent(share: float | None) -> str:
    """Return a share for people: `71 %`, or a dash where it is not known."""
    return "-" if share is None else f"{100 * share:.0f} %"


def small_money(dollars: float | None) -> str:
    """Return US dollars for people, with the digits that parts of a call's price need."""
    if dollars is not None and 0 < dollars < _LEAST:
        return f"<{money(_LEAST, 5)}"
    return money(dollars, 5 if dollars and abs(dollars) < _CENT else None)


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, to the minute in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def load_all() -> None:
    """Compile every template, which the first page of each would wait for."""
    environment = _environment()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("windlass_inspector", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(address=address, many=many)
    filters: Mapping[str, Any] = {
        "money": money,
        "small_money": small_money,
        "number": "{:,.0f}".format,
        "moment": moment,
        "percent": percent,
    }
    environment.filters.update(filters)
    return environment
