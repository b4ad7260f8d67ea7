"""Reports written as a page, and the garbage collector, which is no help to them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from windlass.caching.rates import override
from windlass.cli.named_store import open_reporting_losses, read_settings
from windlass.cli.output import out
from windlass.history.base import Store
from windlass.safety.outputs import check_output, write_output


class OpenReport(NamedTuple):
    """A store that is open, and the model at whose prices calls are told that cost nothing."""

    store: Store
    price_as: str


@contextmanager
def open_for_report(
    store: str | None, html: Path | None = None, *, force: bool = False
) -> Iterator[OpenReport]:
    """Open a store for a report at the user's prices. Raises UsageError: no page can be written."""
    if html is not None:
        check_output(html, force=force)
    settings = read_settings(store)
    with (
        open_reporting_losses(settings) as history,
        override(settings.prices),
        _pause_garbage_collection(),
    ):
        yield OpenReport(history, settings.price_as)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Switch the search for reference cycles off: it takes a third of the time, and finds nothing.

    A long session is hundreds of thousands of objects, and the report needs them all.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def write_page(file: Path, template: str, *, force: bool, **values: object) -> None:
    """Write a page. Raises UsageError where the file cannot be written."""
    from windlass.report.page import page

    write_output(file, page(template, **values), force=force)
    if not out.as_json:
        out.print(f"written: {file}")
