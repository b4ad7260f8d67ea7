"""Modules of the user's own: loaded from where their file lies, and kept from being rewritten.

Python's own way, a folder on `sys.path`, would let everything in that folder stand in for a
library that is imported later, and a model may write files there. So nothing is added to
`sys.path`: a module that a cascade names is looked for in given folders, loaded from its file, and
registered under its name like any other. What Python might run later is not open to tools.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from importlib.util import module_from_spec
from pathlib import Path, PurePath
from threading import RLock
from types import ModuleType
from typing import Any, Final

from windlass.errors import UsageError, did_you_mean
from windlass.settings.trust import user_folder

_LOCK: Final = RLock()
_LOADED: Final[dict[str, str]] = {}
"""The file of each module that was loaded here, by its name: one a process, as `sys.modules` is."""

SETTINGS: Final = "windlass.toml"
"""The name of a file of settings, which may name code, commands and where keys go."""


class UntrustedError(UsageError):
    """A module was not loaded because nobody trusts the folder that names it."""


class Modules:
    """The modules that a cascade, a task or a caller names, and where they are looked for.

    Args:
        folders: Where a module is looked for, in order, before Python's own path.
        files: Files that are in use beside modules, such as the cascade.
        trusts: Whether code in a folder may be loaded; for an installed module the first
            folder is asked for, because what lies there names it. None: it may.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        files: Sequence[Path] = (),
        trusts: Callable[[Path], bool] | None = None,
    ) -> None:
        self._folders = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        self._files = tuple(file.resolve() for file in files)
        self._trusts = trusts
        self._names: set[str] = set()
        self.unchecked: list[str] = []
        """Modules that were not loaded because nobody trusts them, as they were named."""
        self.untrusted: list[Path] = []
        """The folders that would have to be trusted for it."""
        self._given: frozenset[str] = frozenset()

    def ask(self, trusts: Callable[[Path], bool]) -> None:
        """From now on load only what `trusts` allows, and what has been named already."""
        self._trusts, self._given = trusts, frozenset(self._names)

    def protect(self, *files: Path) -> None:
        """Count other files among those in use, which tools must not write."""
        self._files = tuple(dict.fromkeys([*self._files, *(file.resolve() for file in files)]))

    def load(self, dotted: str) -> ModuleType:
        """Return the module `package.module`, loaded once.

        Raises UntrustedError where it may not be loaded, UsageError where there is none, where
        it fails, or where its name is that of an installed one.
        """
        if "" in dotted.split("."):
            raise UsageError(f"{dotted!r} is no module: expected a name such as 'package.module'")
        top = dotted.partition(".")[0]
        self._names.add(_folded(top))
        try:
            with _LOCK:
                folder, spec = self._find(dotted)
                self._check_trust(dotted, folder)
                if folder is not None and spec is not None:
                    _load(top, spec)
                return importlib.import_module(dotted)
        except UsageError:
            raise
        except ModuleNotFoundError as problem:
            raise UsageError(self._missing(dotted, problem)) from problem
        except Exception as problem:  # the user's own code runs here and may raise anything
            raise UsageError(
                f"module {dotted!r} fails while it is imported: {type(problem).__name__}: {problem}"
            ) from problem

    def member(self, dotted: str) -> Any:
        """Load what `package.module:name` names. Raises UsageError, as `load` does."""
        name, _, path = dotted.partition(":")
        target: Any = self.load(name)
        for step in path.split("."):
            if not hasattr(target, step):
                kinds = inspect.getmembers_static(
                    target, lambda each: inspect.isfunction(each) or inspect.isclass(each)
                )
                near = did_you_mean(step, [each for each, _ in kinds if not each.startswith("_")])
                raise UsageError(f"module {name!r} has no function or class {path!r}; {near}")
            target = getattr(target, step)
        return target

    def _find(self, dotted: str) -> tuple[Path | None, ModuleSpec | None]:
        top, _, rest = dotted.partition(".")
        importlib.invalidate_caches()  # a file may be younger than Python's list of its folder
        for folder in self._folders:
            spec = PathFinder.find_spec(top, [str(folder)])
            if spec is None:
                continue
            if spec.origin is None:  # a folder without __init__.py: any folder is one
                inside = folder / top / rest.partition(".")[0]
                if not (rest and (inside.is_dir() or inside.with_suffix(".py").is_file())):
                    continue
            return folder, spec
        return None, None

    def _check_trust(self, dotted: str, folder: Path | None) -> None:
        naming = folder or next(iter(self._folders), None)
        if self._trusts is None or (naming is not None and self._trusts(naming)):
            return
        if _folded(dotted.partition(".")[0]) in self._given:
            return
        if naming is not None:
            self.untrusted.append(naming)
        if dotted not in self.unchecked:
            self.unchecked.append(dotted)
        raise UntrustedError(f"module {dotted!r} was not loaded: its folder is not trusted")

    def _missing(self, dotted: str, problem: ModuleNotFoundError) -> str:
        lacking = (problem.name or dotted).partition(".")[0]
        if lacking == dotted.partition(".")[0]:
            places = " or ".join(repr(str(folder)) for folder in self._folders)
            where = f"in {places} or on Python's path" if places else "on Python's path"
            return f"cannot import {dotted!r}: there is no module {problem.name!r} {where}"
        beside = [folder for folder in self._folders if (folder / f"{lacking}.py").is_file()]
        hint = ""
        if beside:
            file = str(beside[0] / f"{lacking}.py")
            hint = (
                f"; {file!r} is not on Python's path: put both into a package (a folder with"
                f" __init__.py), write `from . import {lacking}`, or set PYTHONPATH"
            )
        return f"cannot import {dotted!r}: it needs a module {lacking!r} that is not there{hint}"

    def in_use(self, path: Path) -> str | None:
        """Return why tools must not write to the real path `path`; None if they may.

        That is what Python could run or Windlass reads to know what to do: files on Python's path,
        modules that are loaded or named, the environment, settings, cascades in use.
        """
        parts = _parts(path)
        if parts[-1] == SETTINGS:
            return "a settings file"
        if any(parts == _parts(file) for file in self._files):
            return "in use by this run"
        if _is_inside(parts, _parts(user_folder().resolve())):
            return "in the folder of the user's settings"
        for folder in self._folders:
            rest = _below(parts, _parts(folder))
            if rest and rest[0].partition(".")[0] in self._names and _is_code(rest):
                return "part of a module that this run uses"
        if _is_loaded(path):
            return "a module that is in use"
        if sys.prefix != sys.base_prefix and _is_inside(parts, _parts(Path(sys.prefix).resolve())):
            return "in Python's environment"
        for place in _import_places():
            rest = _below(parts, _parts(place))
            if rest == ():
                return "a place on Python's path"
            if rest and _is_code(rest):
                return f"what Python could import, because {str(place)!r} is on its path"
        return None


def _load(top: str, spec: ModuleSpec) -> None:
    """Load the module `top` from its file, unless it is loaded already. Raises UsageError."""
    where = spec.origin or str(next(iter(spec.submodule_search_locations or ()), ""))
    loaded = sys.modules.get(top)
    if loaded is not None and _LOADED.get(top) == where:
        return
    elsewhere = PathFinder.find_spec(top)
    if elsewhere is not None and elsewhere.origin == spec.origin:
        return  # the folder is on Python's path: it is loaded as ever
    installed = elsewhere is not None and elsewhere.origin is not None
    if installed or top in sys.stdlib_module_names or (loaded is not None and top not in _LOADED):
        if spec.origin is None:
            return  # a folder without __init__.py gives way to a module, as on Python's path
        raise UsageError(
            f"{where!r} has the name of a module that is installed, {top!r}; give it another name"
        )
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]  # of another folder; who has it keeps it
    module = module_from_spec(spec)
    sys.modules[top] = module
    _LOADED[top] = where
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(top, None)
        del _LOADED[top]
        raise


def _import_places() -> Iterator[Path]:
    """Yield the folders and archives that Python imports from: its path, and those of packages."""
    paths = dict.fromkeys(sys.path)
    for module in list(sys.modules.values()):
        # Looked up without getattr: a lazy module would load itself to answer.
        search_path = inspect.getattr_static(module, "__path__", ())
        if isinstance(search_path, Iterable):
            paths.update(dict.fromkeys(search_path))
    for place in paths:
        if isinstance(place, str):
            yield Path(place or os.curdir).resolve()


def _is_loaded(path: Path) -> bool:
    """Return whether a loaded module came from this file, under any of its names."""
    try:
        status = path.stat()
    except OSError:
        return False
    for module in list(sys.modules.values()):
        file = inspect.getattr_static(module, "__file__", None)
        with suppress(OSError, ValueError):
            if isinstance(file, str) and os.path.samestat(Path(file).stat(), status):
                return True
    return False


_SUFFIXES: Final = (*all_suffixes(), ".pth", ".egg-link", ".egg", ".zip")
_METADATA: Final = (".dist-info", ".egg-info")


def _is_code(rest: Sequence[str]) -> bool:
    """Return whether Python could run a file that lies so below a place it imports from."""
    return rest[-1].endswith(_SUFFIXES) or any(part.endswith(_METADATA) for part in rest)


def _folded(name: str) -> str:
    # Some file systems take names that differ in case or in their Unicode form for one.
    return unicodedata.normalize("NFC", name).casefold()


def _parts(path: PurePath) -> tuple[str, ...]:
    return tuple(map(_folded, path.parts))


def _below(parts: tuple[str, ...], place: tuple[str, ...]) -> tuple[str, ...] | None:
    return parts[len(place) :] if parts[: len(place)] == place else None


def _is_inside(parts: tuple[str, ...], place: tuple[str, ...]) -> bool:
    return _below(parts, place) is not None
