"""What the imports of libraries do to logging: nothing, whatever they try."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from tests.support.architecture import MODULES, ROOT, imports_of, name_of, tree_of
from windlass.safety.imports import logging_unchanged

PROJECTS = [
    tomllib.loads(path.read_text())["project"]
    for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
]
OPTIONAL = {
    need.partition(">")[0].replace("-", "_").removesuffix("_core")
    for project in PROJECTS
    for needs in (
        *project.get("optional-dependencies", {}).values(),
        project["dependencies"] if project["name"] != "windlass" else (),
    )
    for need in needs
    if not need.startswith("windlass")
}

GREEDY = """
import logging, sys, warnings
warnings.warn("at import")
logging.basicConfig(level=logging.DEBUG, force=True)
logging.captureWarnings(True)
logging.disable(logging.INFO)
logging.raiseExceptions = False
logging.lastResort = None
warnings.simplefilter("always")
class Record(logging.LogRecord): pass
logging.setLogRecordFactory(Record)
class Logger(logging.Logger): pass
logging.setLoggerClass(Logger)
logging.getLogger("of_the_program").setLevel(logging.ERROR)
logging.getLogger("of_the_program").propagate = False
for name in ("Greedy", "Greedy.deep"):
    logger = logging.getLogger(name)
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
"""


def state() -> list[object]:
    own = logging.getLogger("of_the_program")
    root = logging.getLogger()
    return [
        *((one.level, one.handlers[:], one.filters[:], one.propagate) for one in (root, own)),
        (root.manager.disable, logging.raiseExceptions, logging.lastResort),
        (logging.getLogRecordFactory(), logging.getLoggerClass()),
        (warnings.filters[:], warnings.showwarning),
    ]


@pytest.fixture
def greedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "greedy.py").write_text(GREEDY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "greedy", raising=False)
    return "greedy"


def test_logging_of_a_program_is_as_it_was(
    greedy: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    own = logging.getLogger("of_the_program")
    own.setLevel(logging.INFO)
    before = state()
    with logging_unchanged(greedy):
        __import__(greedy)
    assert state() == before
    # What the library logs goes to the handlers of the program, and only to them.
    for name in ("Greedy", "Greedy.deep", "greedy.later"):
        logging.getLogger(name).warning("told by %s", name)
    told = capfd.readouterr()
    assert "told by" not in told.out + told.err
    assert [record.name for record in caplog.records] == ["Greedy", "Greedy.deep", "greedy.later"]


def test_also_where_the_import_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greedy_and_broken.py").write_text(f"{GREEDY}\nimport no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    before = state()
    with pytest.raises(ImportError), logging_unchanged("greedy_and_broken"):
        __import__("greedy_and_broken")
    assert state() == before


PROGRAM = """
import logging, sys
import windlass
from windlass.messages import Message, ToolCall
from windlass.providers.scripted import Scripted

def script(request):
    if any(message.role == "tool" for message in request.messages):
        return "done"
    return Message("assistant", tool_calls=(ToolCall("1", "run_sql", '{"query": "select 1"}'),))

def settings():
    root = logging.getLogger()
    return root.level, list(root.handlers)

before = settings()
cascade = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "x", "tackle": ["run_sql"]}]}
result = windlass.run_sync(cascade, model="s/x", store="store", providers={"s": Scripted(script)})
assert "duckdb" in sys.modules
assert result.status == "completed", result.error
assert settings() == before
logging.getLogger("duckdb").warning("LOUD")
logging.getLogger("Greedy").warning("LOUD")
logging.getLogger("program").warning("of the program")
"""


def test_a_program_that_runs_a_cascade_logs_as_before(tmp_path: Path) -> None:
    """A library that Windlass imports for a tool, in a program that has configured nothing."""
    (tmp_path / "duckdb.py").write_text(GREEDY)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == "of the program\n"


def test_wordllama_which_configures_logging(tmp_path: Path) -> None:
    program = (
        "import logging\nfrom windlass.selection.vectors import WordLlamaEmbedder\n"
        "WordLlamaEmbedder().embed(['text'])\nroot = logging.getLogger()\n"
        "assert (root.level, root.handlers) == (logging.WARNING, [])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_library_of_an_extra_is_imported_so() -> None:
    for path in MODULES:
        tree = tree_of(path)
        foreign = {name.partition(".")[0] for name in imports_of(tree)} & OPTIONAL
        if foreign and "logging_unchanged(" not in path.read_text(encoding="utf-8"):
            place = path.as_posix().rpartition("/src/")[2]
            assert place in TYPES_ONLY or place.startswith(PAGES), name_of(path)


TYPES_ONLY = {"windlass_data/sql.py"}
"""Modules that name a library's types, or use what another module has imported."""
PAGES = "windlass_inspector/"
"""The package whose one door, `serving.py`, imports the libraries before any of its pages."""


def test_the_door_of_the_pages_imports_their_libraries_first() -> None:
    imports = {
        name_of(path): imports_of(tree_of(path))
        for path in MODULES
        if f"/src/{PAGES}" not in path.as_posix() or path.name == "commands.py"
    }
    reached = {name for names in imports.values() for name in names if "windlass_inspector" in name}
    assert reached <= {"windlass_inspector.serving"}
