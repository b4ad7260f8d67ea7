"""`windlass recall`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.output import out, printed_as_json


@command()
def recall(
    ref: Annotated[
        str, Argument(help="What stands in place of a shortened result, such as result_1a2b3c4d.")
    ],
    path: Annotated[
        str, Argument(help="What the reference names besides: a path such as content.")
    ] = "",
    *,
    grep: Annotated[
        str, Option(help="Only lines that match this regular expression, with their numbers.")
    ] = "",
    lines: Annotated[str, Option(help="Only these lines, counted from 1: 10:40, 10: or 12.")] = "",
    store: Annotated[
        str | None,
        Option(
            help="The history (default: WINDLASS_STORE, or the nearest .windlass here or above)."
        ),
    ] = None,
) -> None:
    """Print the original of a result that was shortened."""
    from windlass.cli.recalled import Recall, print_text, recalled

    asked = Recall(ref, grep, lines, store, path)
    text = recalled(asked)
    if not printed_as_json({"ref": ref, "text": text}):
        print_text(text, asked, out.file)
