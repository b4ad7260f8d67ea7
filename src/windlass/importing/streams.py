"""Files and folders of recordings as a stream of them; a format is recognised by what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.errors import UsageError, did_you_mean
from windlass.importing._formats import BODIES, FORMATS, FileFormat, recognised
from windlass.importing.base import Answers
from windlass.importing.claude_bodies import BodyFolder, is_folder_of_bodies
from windlass.importing.claude_code import SIDE_CHAINS
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording


def recordings(
    path: str | Path, form: str | None = None, on_skip: Callable[[str], None] | None = None
) -> Iterator[Recording]:
    """The recordings of a file, or of all files in a folder and its folders.

    One file is held at a time, so that a folder may be large. An answer that stands in several
    records or files is counted once.

    Args:
        path: A file, with the side chains that Claude Code keeps beside it, or a folder.
        form: The name of the format; default: it is recognised by content.
        on_skip: Told in one sentence of each file of a folder that is not read.

    Raises UsageError where there is nothing, an unknown format, or a file that cannot be read; of a
    folder, where none of its files can.
    """
    place = Path(path)
    if form is not None and form not in FORMATS:
        raise UsageError(f"unknown format {form!r}: {did_you_mean(form, FORMATS)}")
    if not place.is_dir():
        if not place.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
        # The side chains of a session stand in a folder that is named as its file is.
        beside = place.with_suffix("") / SIDE_CHAINS
        more = sorted(beside.glob("*.jsonl"), key=str) if beside.is_dir() else []
        yield from _read([place, *more], form, on_skip)
        return
    found = [place, *place.rglob("*")]
    bodies = {one for one in found if one.is_dir() and is_folder_of_bodies(one)}
    files = (
        one
        for one in found
        if one.is_file() and not one.name.startswith(".") and one.parent not in bodies
    )
    # As text, so that a session stands before the folder of its side chains.
    paths = sorted((*bodies, *files), key=str)
    readable: list[Path] = []
    for one in paths:
        try:
            _format_of(_opened(one), form)
        except UsageError as error:
            if on_skip is not None:
                on_skip(str(error))
        else:
            readable.append(one)
    if not readable:
        raise UsageError(f"no file in {str(path)!r} is a recording that can be read")
    yield from _read(readable, form, on_skip)


def _opened(path: Path) -> RecordedFile:
    return BodyFolder(path) if path.is_dir() else RecordedFile(path)


def _format_of(file: RecordedFile, form: str | None) -> FileFormat:
    """The format of a file. Raises UsageError where it is none that is known."""
    if isinstance(file, BodyFolder):
        return BODIES
    found = recognised(file.head) if form is None else FORMATS[form]
    if found is not None:
        return found
    keys = ", ".join(map(str, list(file.head[0])[:6])) or "nothing"
    raise UsageError(
        f"{str(file.path)!r} is not a recording of a known format: its first object has {keys};"
        f" known formats: {', '.join(FORMATS)}"
    )


def _read(
    paths: list[Path], form: str | None, on_skip: Callable[[str], None] | None = None
) -> Iterator[Recording]:
    answers = Answers()
    for path in paths:  # answers first: the best record of one may stand in a later file
        file = _opened(path)
        _format_of(file, form).scan(file, answers)
    for path in paths:
        file = _opened(path)
        try:
            yield from _some(_format_of(file, form).read(file, answers), file)
        except UsageError as error:
            if on_skip is None:
                raise
            on_skip(str(error))


def _some(found: Iterator[Recording], file: RecordedFile) -> Iterator[Recording]:
    """What was found in a file. Raises UsageError where that is nothing."""
    is_empty = True
    for recording in found:
        is_empty = False
        yield recording
    if is_empty:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in file.skipped.most_common(3))
        told = f"; left out: {skipped}" if skipped else ""
        raise UsageError(f"{str(file.path)!r} holds no call of a model{told}")
