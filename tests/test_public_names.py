"""The library as a user sees it: its names, its start, its answers."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.typing_api
import windlass
from windlass.api.engine import Rows
from windlass.errors import UsageError
from windlass.providers.scripted import Scripted

CASCADE = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "Do a."}]}
HEAVY = {
    "pydantic",
    "jinja2",
    "jsonschema",
    "numpy",
    "quicktok",
    "duckdb",
    "matplotlib",
    "xllamacpp",
    "genai_prices",
    "rich",
    "sqlite3",
    "yaml",
}
"""What takes long to import; `import windlass` may not bring it along."""


def said(*_: Any) -> Scripted:
    return Scripted(lambda request: "said")


def imported_by(*command: str) -> set[str]:
    """The modules that a fresh interpreter imports for a command."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s*(\S+)$", done.stderr, re.MULTILINE)
    assert found
    return set(found)


class TestNames:
    def test_are_sorted_and_each_can_be_imported(self) -> None:
        assert windlass.__all__ == sorted(windlass.__all__)
        for name in windlass.__all__:
            assert getattr(windlass, name) is not None
            assert name in dir(windlass)
        star: dict[str, Any] = {}
        exec("from windlass import *", star)
        assert set(star) - {"__builtins__"} == set(windlass.__all__)

    def test_all_that_can_be_fetched_is_told_and_comes_from_its_home(self) -> None:
        assert sorted(windlass._HOMES) == windlass.__all__
        for name, home in windlass._HOMES.items():
            assert getattr(windlass, name) is getattr(importlib.import_module(home), name)

    def test_types_name_the_same(self) -> None:
        source = Path(windlass.__file__).read_text(encoding="utf-8")
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        names = [name.name for node in imports for name in node.names]
        assert sorted(name for name in names if name != "import_module") == windlass.__all__

    def test_an_unknown_one_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'runn'"):
            _ = windlass.runn

    def test_each_says_what_it_is(self) -> None:
        assert all(inspect.getdoc(getattr(windlass, name)) for name in windlass.__all__)


class TestStart:
    def test_importing_brings_nothing_heavy_along(self) -> None:
        assert imported_by("-c", "import windlass").isdisjoint(HEAVY | {"asyncio"})

    def test_the_help_page_needs_none_of_the_rooms(self) -> None:
        command = str(Path(sys.executable).with_name("windlass"))
        assert imported_by(command, "--help").isdisjoint(HEAVY - {"rich"})

    @pytest.mark.parametrize("command", ["run", "evaluate", "cards", "memory list"])
    def test_nor_does_the_page_of_a_command(self, command: str) -> None:
        program = str(Path(sys.executable).with_name("windlass"))
        modules = imported_by(program, *command.split(), "--help")
        rooms = {name.split(".")[1] for name in modules if name.startswith("windlass.")}
        assert rooms == {"cli", "errors", "messages", "safety", "settings"}
        of_settings = {name for name in modules if name.startswith("windlass.settings.")}
        assert of_settings == {"windlass.settings.plugins"}


class TestRunning:
    @pytest.mark.parametrize("given", ["text", ["a"], 5, {1: "x"}])
    @pytest.mark.parametrize("of", [windlass.run_sync, windlass.evaluate_sync])
    def test_an_input_that_is_none_is_a_mistake(self, of: Any, given: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"^the input('s names)? must be [^\n]*$"):
            of("c.json", given, store=tmp_path / "store")
        assert not (tmp_path / "store").exists()

    def test_run_sync_answers_a_result(self, tmp_path: Path) -> None:
        result = windlass.run_sync(CASCADE, model="s/x", store=tmp_path, providers={"s": said()})
        assert (result.status, result.output) == ("completed", "said")
        assert result.check() is result

    async def test_inside_a_running_loop_it_says_to_await(self) -> None:
        with pytest.raises(UsageError, match=r"await windlass\.run"):
            windlass.run_sync(CASCADE)

    def test_run_takes_a_cascade_a_dict_and_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("{cascade_id: c, phases: [{name: a, instructions: Do a.}]}")
        made = windlass.Cascade(
            cascade_id="c", phases=[windlass.Phase(name="a", instructions="Do a.")]
        )
        for given in (CASCADE, made, file, str(file)):
            result = windlass.run_sync(
                given, model="s/x", store=tmp_path / "store", providers={"s": said()}
            )
            assert result.outputs == {"a": "said"}

    def test_both_take_the_same_arguments(self) -> None:
        names = list(inspect.signature(windlass.run).parameters)
        assert list(inspect.signature(windlass.run_sync).parameters)[:2] == names[:2]

    def test_mistakes_are_raised_and_failures_are_answered(self, tmp_path: Path) -> None:
        with pytest.raises(windlass.WindlassError, match="unknown key"):
            windlass.run_sync({**CASCADE, "unknown": 1}, store=tmp_path)

        def fails(_: object) -> str:
            raise RuntimeError("down")

        providers = {"s": Scripted(fails)}
        result = windlass.run_sync(CASCADE, model="s/x", store=tmp_path, providers=providers)
        assert result.status == "failed"
        with pytest.raises(windlass.WindlassError, match="down"):
            result.check()

    def test_many_runs_at_once_share_a_loop_and_a_store(self, tmp_path: Path) -> None:
        async def all_of_them() -> list[Any]:
            runs = [
                windlass.run(CASCADE, model="s/x", store=tmp_path, providers={"s": said()})
                for _ in range(5)
            ]
            results: list[Any] = await asyncio.gather(*runs)
            return results

        results = asyncio.run(all_of_them())
        assert len({result.session_id for result in results}) == 5
        assert len(windlass.query_unified("node_type = 'agent'", store=tmp_path)) == 5


class TestQueryUnified:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        windlass.run_sync(CASCADE, model="s/x", store=tmp_path, providers={"s": said()})
        return tmp_path

    @pytest.mark.req("CA-20")
    def test_answers_dicts_by_column(self, store: Path) -> None:
        (row,) = windlass.query_unified("node_type = 'agent'", store=store)
        assert type(row) is dict
        assert (row["cascade_id"], row["phase_name"]) == ("c", "a")
        assert row["content_json"] == '"said"'

    @pytest.mark.req("CA-20")
    def test_binds_parameters(self, store: Path) -> None:
        where = "node_type = ? AND tokens_in > ?"
        assert len(windlass.query_unified(where, ["agent", 0], store=store)) == 1
        assert windlass.query_unified(where, ("agent", 10**6), store=store) == []
        assert windlass.query_unified("role = ?", ["x' OR 1=1 --"], store=store) == []

    @pytest.mark.req("CA-20")
    @pytest.mark.parametrize(
        "where",
        [
            "1=1; DELETE FROM log",
            "1=1); DELETE FROM log; SELECT (1",
            "1=1) UNION SELECT * FROM unified_logs; DROP TABLE log --",
            "node_typ = 'agent'",
            "",
        ],
    )
    def test_refuses_anything_but_one_condition(self, store: Path, where: str) -> None:
        before = windlass.query_unified("1=1", store=store)
        with pytest.raises(UsageError):
            windlass.query_unified(where, store=store)
        assert windlass.query_unified("1=1 -- all", store=store) == before

    def test_without_a_store_it_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no store"):
            windlass.query_unified("1=1", store=tmp_path / "nothing")

    @pytest.mark.req("CA-20")
    def test_a_frame_needs_pandas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(UsageError, match="pip install pandas"):
            Rows([{"a": 1}]).to_frame()

    def test_a_frame_is_made_of_the_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Pandas:
            DataFrame = list

        monkeypatch.setitem(sys.modules, "pandas", Pandas)
        assert Rows([{"a": 1}]).to_frame() == [{"a": 1}]


def test_typical_uses_run_as_they_are_type_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tests.typing_api.typical(tmp_path)
