"""A model writes files under the names of libraries: none of them is ever run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCES = sorted(Path(__file__).parent.parent.glob("packages/*/src"))

ATTACK = """
import importlib.util, json, sys
from pathlib import Path
names, given = json.loads(sys.argv[1]), sys.argv[2]
import windlass
from windlass.messages import Message, Text, ToolCall
from windlass.providers.scripted import Scripted

EVIL = "from pathlib import Path; Path('RAN').touch(); raise SystemExit('a model ran this')"
paths = [path for name in names for path in (f"{name}.py", f"{name}/__init__.py")]
paths += ["own_tool.py", "own_tool/__init__.py", "windlass.toml", "attack.json", "LINK/duckdb.py"]
uses = [("run_sql", {"sql": "SELECT 1"}), ("list_files", {}), ("own", {})]

def calls(asked):
    made = (ToolCall(f"c{n}", tool, json.dumps(args)) for n, (tool, args) in enumerate(asked))
    return Message("assistant", (), tuple(made))

replies = iter([
    calls([("write_file", {"path": path, "text": EVIL}) for path in paths]),
    calls(uses),
    Message("assistant", (Text("done"),)),
])
model = Scripted(lambda request: next(replies))
made = {
    "cascade_id": "attack",
    "auto_context": {},
    "phases": [{"name": "a", "instructions": "Go.",
                "tackle": ["write_file", "run_sql", "list_files", "own_tool:own"]}],
}
Path("attack.json").write_text(json.dumps(made))
result = windlass.run_sync("attack.json", model="s/x", providers={"s": model}, store=given)
print(json.dumps([result.status, str(result.error)]))
for message in model.requests[1].messages:
    if message.role == "tool":
        print(json.dumps(message.text))
for name in names:
    # Importing each takes long, and only what stands in this folder is a model's.
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin and Path(spec.origin).is_relative_to(Path.cwd()):
        importlib.import_module(name)
"""


def imported() -> list[str]:
    """Every package outside the standard library that some module of Windlass imports."""
    found: set[str] = set()
    for file in (file for source in SOURCES for file in source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    outside = found - sys.stdlib_module_names
    return sorted(name for name in outside if not name.startswith("windlass"))


@pytest.mark.parametrize(
    "flags", [("-P",), ()], ids=["as the command line", "with the folder on Python's path"]
)
def test_no_file_of_a_model_stands_in_for_a_library(tmp_path: Path, flags: tuple[str]) -> None:
    names = imported()
    assert {"duckdb", "Stemmer", "matplotlib", "litellm", "ray", "mcp"} <= {*names}
    work = tmp_path / "work"
    work.mkdir()
    (work / "own_tool.py").write_text("def own() -> str:\n    '''Own.'''\n    return 'own ran'\n")
    (work / "LINK").symlink_to(work)
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(ATTACK), json.dumps(names), "../store"],
        cwd=work, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == ["completed", "None"]
    assert not (work / "RAN").exists()
    refused = [said for said in lines[1:] if "not open to tools" in said]
    in_use = ("own_tool.py", "own_tool/__init__.py", "windlass.toml", "attack.json")
    for name in in_use:
        assert any(f"{name!r} is" in said for said in refused), (name, lines)
    # Where the folder is on Python's path, all of it is refused; elsewhere it is mere text.
    every = 2 * len(names) + len(in_use) + 1
    assert len(refused) == (len(in_use) if flags else every)


def test_a_second_name_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    """A hard link to what Python runs is replaced, and the file itself stays as it is."""
    (tmp_path / "code.py").write_text("print('safe')")
    (tmp_path / "notes.txt").hardlink_to(tmp_path / "code.py")
    (tmp_path / "notes.txt").chmod(0o640)
    from windlass.tools.base import ToolContext
    from windlass.tools.files import write_file

    context = ToolContext("s", "p", tmp_path, {})
    assert "replaced notes.txt" in write_file(context, "notes.txt", "evil()")
    assert (tmp_path / "code.py").read_text() == "print('safe')"
    assert (tmp_path / "notes.txt").read_text() == "evil()"
    assert (tmp_path / "notes.txt").stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["code.py", "notes.txt"]
