"""HTML pages: each one self-contained file, for light and dark, without a script.

The templates are those of `pages/`. A page extends `base.html`; `figures.html` has macros for bars
and lines, whose labels are text of the page, so that they are as large on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jinja2

from windlass.caching.rates import money
from windlass.safety.escaping import escaped
from windlass.safety.outputs import MARK


def page(template: str, **values: Any) -> Iterator[str]:
    """Yield the pieces of a page, made by a template of `pages/` such as `export.html`.

    Every value is escaped, as HTML and as on a terminal. Those that are iterators are asked for
    one by one, so that a page may be larger than memory.
    """
    yield from map(escaped, _environment().get_template(template).generate(**values))


def _moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, to the minute in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("windlass.report", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["mark"] = MARK
    environment.filters["money"] = money
    environment.filters["number"] = "{:,}".format
    environment.filters["moment"] = _moment
    return environment
