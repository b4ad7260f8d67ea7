"""Reports written as a page, and the garbage collector, which is no help to them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass.cli.output import out
from windlass.safety.outputs import write_output


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
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
