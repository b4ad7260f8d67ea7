"""Which folders the user trusts.

A folder may hold code, settings and commands that somebody else wrote. Nothing in it is imported
or started, and nothing in it says where a key goes, unless the user names what is to run or
trusts the folder. The marks stand in one file in the user's own folder of settings: a list of
folders in JSON. A mark covers the folders below it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from windlass.errors import StoreError
from windlass.safety.own_files import PRIVATE_FILE, replace

FILE: Final = "trusted.json"
"""The name of the file of marks in the user's folder of settings."""


def user_folder() -> Path:
    """Return the user's own folder of settings, where the platform keeps such folders."""
    import platformdirs  # 20 ms that only a command needs

    return platformdirs.user_config_path("windlass", appauthor=False)


def trusted_folders(within: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that carry a mark; `within` is the user's folder of settings."""
    try:
        marks = json.loads(((within or user_folder()) / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()  # what cannot be read trusts nobody
    return tuple(Path(mark) for mark in marks if isinstance(mark, str) and Path(mark).is_absolute())


def is_trusted(folder: Path, within: Path | None = None) -> bool:
    """Return whether the folder, or one above it, carries a mark."""
    real = folder.resolve()
    return any(real.is_relative_to(mark) for mark in trusted_folders(within))


def trust(folder: Path) -> None:
    """Mark a folder. Raises StoreError where the mark cannot be written."""
    real = folder.resolve()
    if real not in (marks := trusted_folders()):
        _write([*marks, real])


def distrust(folder: Path) -> bool:
    """Take the mark from a folder; answers whether it had one of its own."""
    real = folder.resolve()
    marks = trusted_folders()
    if real not in marks:
        return False
    _write([mark for mark in marks if mark != real])
    return True


def _write(folders: list[Path]) -> None:
    file = user_folder() / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([str(folder) for folder in folders], indent=2)
        replace(file, [text.encode()], PRIVATE_FILE)
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror}") from error
