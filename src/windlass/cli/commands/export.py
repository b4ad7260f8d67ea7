"""`windlass export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import Force, Session, StoreOption
from windlass.cli.output import out, print_json, printed_as_json


@command()
def export(
    session: Session,
    *,
    form: Annotated[
        str,
        Option(
            "--as", help="openai, anthropic, markdown, jsonl, html, otel (spans) or otel-content."
        ),
    ] = "markdown",
    redact: Annotated[
        bool, Option("--redact", help="Take out what looks like a credential.")
    ] = False,
    file: Annotated[
        Path | None, Option("--out", help="Write to this file, whole or not at all.")
    ] = None,
    force: Force = False,
    store: StoreOption = None,
) -> None:
    """Write out a session: for another program, or to read."""
    from windlass.cli.named_store import open_existing
    from windlass.report import exporting
    from windlass.safety.escaping import escaped, escaped_json
    from windlass.safety.outputs import check_output, write_output

    if file is not None:
        check_output(file, force=force)
    with open_existing(store) as history:
        found = history.find_session(session)
        pieces = exporting.export(history, found, form, redact=redact)
        shown = map(escaped_json if form in exporting.JSON_FORMS else escaped, pieces)
        if file is not None:
            write_output(file, shown, force=force)
            if not printed_as_json({"as": form, "file": file}):
                out.print(f"written: {file}")
        elif out.as_json:
            print_json({"as": form, "text": "".join(pieces)})
        else:
            for piece in shown:
                print(piece, end="", file=out.file)
