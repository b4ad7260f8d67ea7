"""Modules of the user's own: found by their file, loaded once, in no other module's way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.errors import UsageError
from windlass.settings.modules import Modules, UntrustedError

TOOL = '''def {name}() -> str:
    """Say where it comes from."""
    return {text!r}
'''


@pytest.fixture(autouse=True)
def _leaves_no_modules() -> Iterator[None]:
    before, path = dict(sys.modules), list(sys.path)
    yield
    assert sys.path == path  # nothing is ever added
    for name in sys.modules.keys() - before.keys():
        if "own_" in name:
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


class TestLoad:
    def test_a_file_a_package_and_a_folder_without_init(self, tmp_path: Path) -> None:
        write(tmp_path, "own_file.py", "value = 1")
        write(tmp_path, "own_pack/__init__.py", "from own_pack.inner import value")
        write(tmp_path, "own_pack/inner.py", "from . import deeper\nvalue = deeper.value")
        write(tmp_path, "own_pack/deeper.py", "value = 2")
        write(tmp_path, "own_plain/inner.py", "value = 3")
        modules = Modules([tmp_path])
        assert modules.load("own_file").value == 1
        assert modules.load("own_pack").value == 2
        assert modules.load("own_pack.deeper").value == 2
        assert modules.load("own_plain.inner").value == 3

    def test_it_is_loaded_once_and_the_first_folder_wins(self, tmp_path: Path) -> None:
        write(tmp_path, "a/own_count.py", "times = []\ntimes.append(1)")
        write(tmp_path, "b/own_count.py", "1 / 0")
        modules = Modules([tmp_path / "a", tmp_path / "b"])
        first = modules.load("own_count")
        assert modules.load("own_count") is first
        assert Modules([tmp_path / "a"]).load("own_count") is first

    def test_the_same_name_in_two_folders_is_two_modules(self, tmp_path: Path) -> None:
        for name in "ab":
            write(tmp_path, f"{name}/own_where.py", f"def where(): return {name!r}")
        first = Modules([tmp_path / "a"]).load("own_where")
        second = Modules([tmp_path / "b"]).load("own_where")
        assert (first.where(), second.where()) == ("a", "b")

    def test_an_installed_module_is_found_where_no_folder_has_it(self, tmp_path: Path) -> None:
        import json.decoder

        assert Modules([tmp_path]).load("json.decoder") is json.decoder
        (tmp_path / "json").mkdir()  # any folder could be a package without __init__.py
        assert Modules([tmp_path]).load("json.decoder") is json.decoder

    @pytest.mark.parametrize("name", ["json", "duckdb", "zipapp", "windlass"])
    def test_no_file_stands_in_for_an_installed_module(self, tmp_path: Path, name: str) -> None:
        write(tmp_path, f"{name}.py", "raise SystemExit('it ran')")
        with pytest.raises(UsageError, match="has the name of a module that is installed"):
            Modules([tmp_path]).load(name)

    def test_what_is_missing_is_told_with_its_places(self, tmp_path: Path) -> None:
        with pytest.raises(
            UsageError, match=r"there is no module 'own_none' in '.*' or on Python's"
        ):
            Modules([tmp_path]).load("own_none")
        write(tmp_path, "own_broken.py", "1 / 0")
        for _ in range(2):  # half a module is not kept
            with pytest.raises(UsageError, match=r"own_broken.* ZeroDivisionError"):
                Modules([tmp_path]).load("own_broken")

    def test_a_file_beside_it_is_no_module_and_the_way_out_is_told(self, tmp_path: Path) -> None:
        write(tmp_path, "own_helper.py", "raise SystemExit('it ran')")
        write(tmp_path, "own_needs.py", "import own_helper")
        with pytest.raises(UsageError, match=r"into a package .*`from \. import own_helper`"):
            Modules([tmp_path]).load("own_needs")

    def test_without_trust_nothing_is_loaded_and_it_is_kept_what(self, tmp_path: Path) -> None:
        write(tmp_path, "own_code.py", "raise SystemExit('it ran')")
        modules = Modules([tmp_path], trusts=lambda _: False)
        for name in ("own_code", "json", "own_code"):
            with pytest.raises(UntrustedError):
                modules.load(name)
        assert modules.unchecked == ["own_code", "json"]


class TestInUse:
    @pytest.mark.parametrize(
        "name", ["windlass.toml", "Windlass.TOML", "deep/folder/windlass.toml"]
    )
    def test_files_of_settings(self, tmp_path: Path, name: str) -> None:
        assert Modules().in_use(tmp_path / name) == "a settings file"

    def test_the_cascade(self, tmp_path: Path) -> None:
        modules = Modules([tmp_path], [tmp_path / "c.json"])
        assert modules.in_use((tmp_path / "c.json").resolve()) == "in use by this run"
        assert modules.in_use((tmp_path / "d.json").resolve()) is None

    def test_a_named_module_and_what_would_go_before_it(self, tmp_path: Path) -> None:
        write(tmp_path, "b/own_named.py", "")
        modules = Modules([tmp_path / "a", tmp_path / "b"])
        modules.load("own_named")
        for name in ("b/own_named.py", "a/own_named.py", "a/OWN_NAMED.py", "a/own_named/x.py"):
            assert modules.in_use((tmp_path / name).resolve()), name
        for name in ("a/own_named.csv", "a/own_named.csv.txt", "c/own_named.py", "a/other.py"):
            assert modules.in_use((tmp_path / name).resolve()) is None, name

    def test_python_environment_and_packages(self) -> None:
        import windlass

        for file in (Path(windlass.__file__), Path(windlass.__file__).with_name("new_one.py")):
            assert Modules().in_use(file.resolve())
        if sys.prefix != sys.base_prefix:
            script = Path(sys.prefix, "bin", "python9").resolve()
            assert Modules().in_use(script) == "in Python's environment"

    @pytest.mark.parametrize(
        "name",
        [
            *("x.py", "a/b/x.py", "x/__init__.py", "x.pyc", "__pycache__/x.cpython-311.pyc"),
            *("x.so", "x.pth", "x.dist-info/entry_points.txt", "x.egg", "dash-ed.py", "X.PY"),
        ],
    )
    def test_what_could_be_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        assert Modules().in_use(tmp_path.resolve() / name) is None
        monkeypatch.syspath_prepend(tmp_path)
        assert "on its path" in str(Modules().in_use(tmp_path.resolve() / name))
        assert Modules().in_use(tmp_path.resolve() / "x.txt") is None

    def test_the_current_folder_is_on_the_path_under_an_empty_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", ["", *sys.path])
        assert Modules().in_use(tmp_path.resolve() / "x.py")
        monkeypatch.undo()

    def test_an_archive_on_the_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        archive = tmp_path.resolve() / "lib"
        monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
        assert Modules().in_use(archive) == "a place on Python's path"
        monkeypatch.undo()
