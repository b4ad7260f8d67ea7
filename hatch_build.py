"""The build hook that compiles what decides windows to C, with mypyc: off unless asked for.

`HATCH_BUILD_HOOKS_ENABLE=1 pip install .` asks for it, and needs a C compiler. The same source
is compiled, in a folder of its own, so that nothing is left beside it; the wheel holds it, too,
and Python takes what is compiled where it is there. An editable install is never compiled: the
source would be edited without effect.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE: Final = Path("src")
_OUT: Final = "built"
_GROUPS: Final = 4
"""Libraries that the modules are divided among, so that they are compiled side by side."""

_SETUP: Final = """
import sys
from setuptools import setup
from mypyc.build import mypycify

groups = {groups!r}
paths = [path for group, _ in groups for path in group]
modules = mypycify(
    ["--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent", *paths],
    opt_level="1",
    debug_level="0",
    separate=groups,
)
setup(name="windlass-compiled", ext_modules=modules)
"""


def chosen(root: Path, config: dict[str, Any]) -> list[Path]:
    """The files to compile: what `compile` names, but for what `interpret` does; globs of src/."""
    source = root / SOURCE
    listed, left = (
        {path for glob in config[key] for path in source.glob(glob)}
        for key in ("compile", "interpret")
    )
    return sorted(path.relative_to(source) for path in listed - left)


def groups_of(root: Path, files: list[Path]) -> list[tuple[list[str], str]]:
    """The files in groups that are about as long as one another, each with its library's name."""
    groups: list[tuple[int, list[str]]] = [(0, []) for _ in range(_GROUPS)]
    for path in sorted(files, key=lambda path: (root / SOURCE / path).stat().st_size, reverse=True):
        at, (size, group) = min(enumerate(groups), key=lambda one: one[1][0])
        groups[at] = size + (root / SOURCE / path).stat().st_size, [*group, path.as_posix()]
    return [(sorted(group), f"windlass_{at}") for at, (_, group) in enumerate(groups) if group]


class Compiled(BuildHookInterface[Any]):
    """Compiles the modules and puts what came of them into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile. Raises RuntimeError with what mypyc or the C compiler said where they fail."""
        if version == "editable":
            return
        root = Path(self.root)
        files = chosen(root, self.config)
        self._made = tempfile.TemporaryDirectory(prefix="windlass-compile-")
        folder = Path(self._made.name)
        shutil.copytree(root / SOURCE, folder, dirs_exist_ok=True)
        (folder / "setup.py").write_text(_SETUP.format(groups=groups_of(root, files)))
        command = [sys.executable, "setup.py", "build_ext", "--build-lib", _OUT]
        command += ["--parallel", str(os.cpu_count() or 1)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Windlass was not compiled:\n{done.stdout}{done.stderr}")
        out = folder / _OUT
        for path in sorted(out.rglob("*.*")):
            if path.suffix in {".so", ".pyd"}:
                build_data["force_include"][str(path)] = path.relative_to(out).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(
        self,
        version: str,
        build_data: dict[str, Any],  # noqa: ARG002 - hatchling's signature
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """Remove the folder it was compiled in."""
        if version != "editable":
            self._made.cleanup()
