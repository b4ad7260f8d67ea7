"""The published RELAX NG schema of task files, for editors and for other programs."""

from __future__ import annotations

from importlib.resources import files


def relax_ng() -> str:
    """The schema's text.

    It is as strict as the reader on elements, attributes and values. What one part of a file says
    of another only `windlass check` knows.
    """
    return files("windlass.operators").joinpath("task.rng").read_text(encoding="utf-8")
