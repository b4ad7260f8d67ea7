"""The recordings of files and folders, one by one; a format is recognised by its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from windlass.errors import UsageError
from windlass.importing.base import COUNTED, UNSENT, Answers
from windlass.importing.claude_bodies import BodyFolder, is_folder_of_bodies
from windlass.importing.claude_code import SIDE_CHAIN
from windlass.importing.formats import (
    BODIES,
    FileFormat,
    more_formats,
    named_format,
    readable_formats,
    recognise,
    unread,
)
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording


def recordings(
    path: str | Path,
    form: str | None = None,
    on_skip: Callable[[str], None] | None = None,
    only: Callable[[Path], bool] = lambda path: True,  # noqa: ARG005
) -> Iterator[Recording]:
    """Yield the recordings of a file, or of all files in a folder and its folders.

    Only one file is in memory at a time, so that a folder may be large. An answer that stands in
    several records or files is counted once.

    Args:
        path: A file, with the side chains that its program keeps beside it, or a folder.
        form: The name of the format; default: it is recognised by content.
        on_skip: Gets a sentence for each file of a folder that is not read.
        only: Whether a file of a folder is one of those that are meant.

    Raises UsageError where there is no such file or format, or the file cannot be read or holds no
    call; for a folder, where that is so of all its files.
    """
    place = Path(path)
    if form is not None:
        named_format(form)
    if not place.is_dir():
        if not place.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
        file = _open(place)
        more = _readable(_format_of(file, form).beside(file), form, on_skip)
        yield from _read(place, [place, *more], form, on_skip)
        return
    everything = [place, *place.rglob("*")]
    bodies = {one for one in everything if one.is_dir() and is_folder_of_bodies(one)}
    files = (
        one
        for one in everything
        if one.is_file() and not one.name.startswith(".") and one.parent not in bodies and only(one)
    )
    # A session comes before its side chains, which are beside it or in a folder below.
    paths = sorted(
        (*bodies, *files),
        key=lambda one: (len(one.parts), one.name.startswith(SIDE_CHAIN), str(one)),
    )
    readable = _readable(paths, form, on_skip)
    if not readable:
        raise UsageError(f"no file in {str(path)!r} is a recording that can be read")
    yield from _read(place, readable, form, on_skip)


def _readable(
    paths: Sequence[Path], form: str | None, on_skip: Callable[[str], None] | None
) -> list[Path]:
    """Return the files of known formats; the others are told."""
    readable: list[Path] = []
    for one in paths:
        try:
            _format_of(_open(one), form)
        except UsageError as error:
            if on_skip is not None:
                on_skip(str(error))
        else:
            readable.append(one)
    return readable


def _open(path: Path) -> RecordedFile:
    if path.is_dir():
        return BodyFolder(path)
    try:
        return RecordedFile(path)
    except UsageError as error:
        known = recognise(path)
        raise error if known is None else unread(path, known) from error


def _format_of(file: RecordedFile, form: str | None) -> FileFormat:
    """Return the format of a file. Raises UsageError where it is not a known one, or not read."""
    if isinstance(file, BodyFolder):
        return BODIES
    known = recognise(file.path, file.head) if form is None else named_format(form)
    if known is not None and known.reader is None:
        raise unread(file.path, known)
    if known is not None:
        return known
    keys = ", ".join(map(str, list(file.head[0])[:6])) or "nothing"
    raise UsageError(
        f"{str(file.path)!r} is not a recording of a known format: its first object has {keys};"
        f" known formats: {', '.join(readable_formats())}{more_formats()}"
    )


def _read(
    place: Path, paths: list[Path], form: str | None, on_skip: Callable[[str], None] | None
) -> Iterator[Recording]:
    answers, is_empty = Answers(), True
    for path in paths:  # answers first: the best record of an answer may be in a later file
        file = _open(path)
        _format_of(file, form).scan(file, answers)
    for path in paths:
        file = _open(path)
        try:
            for recording in _require_one(_format_of(file, form).read(file, answers), file):
                is_empty = False
                yield recording
        except UsageError as error:
            is_alone = path == place or len(paths) == 1
            is_told = on_skip is not None or not place.is_dir() or file.skipped[COUNTED] > 0
            if is_alone or not is_told:
                raise
            if on_skip is not None:
                on_skip(str(error))
    if is_empty:
        raise UsageError(f"no file of {str(place)!r} holds a call of a model")


def _require_one(recordings: Iterator[Recording], file: RecordedFile) -> Iterator[Recording]:
    """Yield the recordings of a file. Raises UsageError where there are none."""
    is_empty = True
    for recording in recordings:
        is_empty = False
        yield recording
    if is_empty:
        del file.skipped[UNSENT]  # that is what is said here
        most = (+file.skipped).most_common(3)
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in most)
        left_out = f"; left out: {skipped}" if skipped else ""
        raise UsageError(f"{str(file.path)!r} holds no call of a model{left_out}")
