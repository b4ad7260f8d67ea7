"""Instructions that are a file's: `"@prompts/ask.md"` is the text of that file, beside the cascade.

The text is the template, and what is wrong in it is told with that file and its line.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from windlass.cascade.source import ParsedText, Path, path_text
from windlass.errors import Mistake, did_you_mean
from windlass.safety.files import PROMPT_BYTES, Folders, MissingFileError, UnreadableError
from windlass.settings.trust import is_trusted


def with_included_texts(data: Any, reading: ParsedText) -> tuple[Any, list[Mistake]]:
    """The data with the texts of the files that its phases name, and what is wrong with those.

    `reading.included` is told which place has the text of which file.
    """
    phases = data.get("phases") if isinstance(data, dict) else None
    if not isinstance(phases, list):
        return data, []
    mistakes: list[Mistake] = []

    def included(holder: Any, path: Path, name: str) -> Any:
        written = holder.get("instructions") if isinstance(holder, dict) else None
        if not isinstance(written, str) or not written.strip().startswith("@"):
            return holder
        named = written.strip().removeprefix("@").strip()
        file = reading.folders.at(named)
        if len(named.split()) != 1 and not _is_file(file):
            return holder  # somebody is spoken to
        text, problem = _text_of(named, reading.folders)
        here = FilePath.cwd()
        if problem and not _is_file(file) and _is_file(here / named):
            if is_trusted(here):
                file = here / named
                text, problem = _text_of(named, Folders((here,)))
            else:
                problem = (
                    f"'@{named}' is not beside the cascade; it is in the current folder, from which"
                    " it is taken where you trust that (windlass trust .)"
                )
        if problem:
            place = f"phase {name!r}, {path_text((*path[2:], 'instructions'))}: {problem}"
            line = reading.line((*path, "instructions"))
            mistakes.append(Mistake(reading.file, line, place))
            return holder
        reading.included[*path, "instructions"] = str(file)
        return {**holder, "instructions": text}

    changed: list[Any] = []
    for index, phase in enumerate(phases):
        name = phase.get("name", str(index + 1)) if isinstance(phase, dict) else ""
        made = included(phase, ("phases", index), name)
        if isinstance(made, dict) and isinstance(made.get("on_error"), dict):
            body = included(made["on_error"], ("phases", index, "on_error"), name)
            made = {**made, "on_error": body}
        changed.append(made)
    return {**data, "phases": changed}, mistakes


def _is_file(file: FilePath) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def _text_of(name: str, folders: Folders) -> tuple[str, str]:
    """Return the text of a file, and why there is none."""
    try:
        text = folders.read_text(name, PROMPT_BYTES)
    except MissingFileError:
        file = folders.at(name)
        there = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
        near = did_you_mean(file.name, there) if there else "there is no such folder"
        return "", f"'@{name}' names a file beside the cascade that is not there; {near}"
    except UnreadableError as error:
        return "", f"'@{name}' {error}"
    return text, "" if text.strip() else f"'@{name}' is empty"
