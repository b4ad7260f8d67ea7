"""Files that a stranger's cascade or task names: what lies elsewhere is read by nobody.

Their texts go into prompts, and a prompt goes to whoever the cascade says.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.tasks.making import atomic, reduce
from windlass.history.sqlite import SqliteStore
from windlass.wire.base import Request

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.name == "nt", reason="links and pipes are POSIX's here"),
]

SECRET = "API_TOKEN=abc-very-secret"
TOLD = {**phase("below"), "instructions": SECRET}


def by_query(name: str) -> dict[str, Any]:
    return cascade({"name": "a", "tool": f"sql:{name}"}, phase("b"))


def by_text(name: str) -> dict[str, Any]:
    return cascade({"name": "a", "instructions": f"@{name}"})


def by_ref(name: str) -> dict[str, Any]:
    return cascade(phase("a", sub_cascades=[{"ref": name}]))


def by_tool(name: str) -> dict[str, Any]:
    return cascade(phase("a", tackle=["below"]), tools=[name if "/" in name else f"./{name}"])


WAYS: dict[str, tuple[Callable[[str], dict[str, Any]], str]] = {
    "a query": (by_query, "x.sql"),
    "a text": (by_text, "x.md"),
    "a sub-cascade": (by_ref, "x.json"),
    "a tool": (by_tool, "x.json"),
}
"""How a cascade names a file, and what such a file is called."""


def content(name: str) -> str:
    if not name.endswith("json"):
        return f"SELECT '{SECRET}' AS said"
    return json.dumps(cascade(TOLD, cascade_id="below", inputs_schema={"x": "any"}))


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's, with such files."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for _, name in WAYS.values():
        (folder / name).write_text(content(name))
    return folder


Lead: TypeAlias = Callable[[Path, Path, str], str]
PLACES: dict[str, tuple[Lead, str]] = {}
"""How a name leads elsewhere or to what is no text, and what is said of it."""


def place(told: str) -> Callable[[Lead], None]:
    def keep(make: Lead) -> None:
        PLACES[make.__name__] = make, told

    return keep


OUTSIDE = "lies outside the folder of the cascade and the root"


@place(OUTSIDE)
def upward(folder: Path, elsewhere: Path, name: str) -> str:
    return os.path.relpath(elsewhere / name, folder)


@place(OUTSIDE)
def absolute(folder: Path, elsewhere: Path, name: str) -> str:
    return str(elsewhere / name)


@place(OUTSIDE)
def linked(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / name).symlink_to(elsewhere / name)
    return name


@place(OUTSIDE)
def in_a_linked_folder(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / "d").symlink_to(elsewhere)
    return f"d/{name}"


@place(OUTSIDE)
def by_two_links(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / "d").symlink_to("e")
    (folder / "e").symlink_to(elsewhere)
    return f"./d/../d/{name}"


@place("is hidden")
def hidden(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / f".{name}").write_text(content(name))
    return f".{name}"


@place("is hidden")
def in_a_hidden_folder(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / name).write_text(content(name))
    return f".ssh/{name}"


@place("lies in a store of Windlass")
def in_a_store(folder: Path, elsewhere: Path, name: str) -> str:
    with SqliteStore(folder / "hist"):
        pass
    (folder / "hist" / "storage").mkdir(exist_ok=True)
    (folder / "hist" / "storage" / name).write_text(content(name))
    return f"hist/storage/{name}"


@place("is not a regular file")
def a_pipe(folder: Path, elsewhere: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return name


@place(OUTSIDE)
def a_device(folder: Path, elsewhere: Path, name: str) -> str:
    (folder / name).symlink_to("/dev/zero")
    return name


@place("has more than")
def a_large_file(folder: Path, elsewhere: Path, name: str) -> str:
    with (folder / name).open("wb") as file:
        file.truncate(1 << 40)
    return name


def line_of(file: Path, written: str) -> int:
    """The line of a text in a file."""
    lines = file.read_text().splitlines()
    return next(at for at, each in enumerate(lines, 1) if json.dumps(written)[1:-1] in each)


def refused(line: CommandLine, file: str, named: str, told: str) -> None:
    """It is told with file and line by each command, and nothing of it is shown or sent."""
    at = f"{file}:{line_of(line.folder / file, named)}: "
    began = time.monotonic()
    for words in (["check", file], ["run", file, "--dry-run"], ["run", file]):
        said = line(*words)
        assert said.code == 2, said.out
        (sentence,) = [each for each in said.err.splitlines() if at in each]
        assert told in sentence
        assert "Traceback" not in said.err
        assert SECRET not in said.out + said.err
    assert time.monotonic() - began < 20
    assert line.requests == []


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("way", WAYS)
def test_nobody_reads_it(windlass: CommandLine, elsewhere: Path, way: str, where: str) -> None:
    make, name = WAYS[way]
    lead, told = PLACES[where]
    named = lead(windlass.folder, elsewhere, name)
    windlass.write("c.json", make(named))
    refused(windlass, "c.json", named, told)


@pytest.mark.parametrize("way", WAYS)
def test_a_cascade_below_names_nothing_elsewhere_either(
    windlass: CommandLine, elsewhere: Path, way: str
) -> None:
    make, name = WAYS[way]
    (windlass.folder / "d").mkdir()
    named = str(elsewhere / name)
    windlass.write("d/below.json", {**make(named), "cascade_id": "inner"})
    windlass.write("c.json", by_ref("d/below.json"))
    said = windlass("run", "c.json")
    assert said.code == 2
    assert f"d/below.json:{line_of(windlass.folder / 'd' / 'below.json', named)}: " in said.err
    assert OUTSIDE in said.err
    assert windlass.requests == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["root", "link", "named root", "trusted", "folder above"])
def test_it_may_lie_in_the_folder_the_root_and_the_trusted_folder(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch, way: str, where: str
) -> None:
    make, name = WAYS[way]
    for folder in ("own", "shared", "here"):
        (windlass.folder / folder).mkdir()
    windlass.write(f"shared/{name}", content(name))
    named, more = f"../shared/{name}", list[str]()
    if where == "link":
        (windlass.folder / "own" / name).symlink_to(windlass.folder / "shared" / name)
        named = name
    windlass.write("own/c.json", make(named))
    file = "own/c.json"
    if where == "folder above":  # a sub-cascade names what lies beside the one that runs
        windlass.write("top.json", by_ref("own/c.json") | {"cascade_id": "top"})
        file = "top.json"
    if where in ("named root", "trusted", "folder above"):
        monkeypatch.chdir(windlass.folder / "here")
        file = f"../{file}"
    if where == "named root":
        more = ["--root", ".."]
    if where == "trusted":
        assert windlass("run", file).code == 2
        assert windlass("trust", "..").code == 0
    said = windlass("run", file, "-i", "x=1", *more)
    assert said.code == 0, said.err


def test_a_query_that_is_exchanged_while_the_run_goes_is_not_read(
    windlass: CommandLine, elsewhere: Path
) -> None:
    windlass.write("q.sql", "SELECT 1 AS one")
    first = phase("one", tackle=["write_file"])
    windlass.write("c.json", cascade(first, {"name": "a", "tool": "sql:q.sql"}, phase("b")))

    def script(request: Request) -> Any:
        if not any(message.role == "tool" for message in request.messages):
            (windlass.folder / "q.sql").unlink()
            (windlass.folder / "q.sql").symlink_to(elsewhere / "x.sql")
            return calls(call("write_file", '{"path": "n", "text": "n"}'))
        return "done"

    windlass.script = script
    said = windlass("run", "c.json")
    assert said.code == 2
    assert f"phase 'a': 'q.sql' {OUTSIDE}" in said.complaint
    assert SECRET not in str(windlass.requests)


# ---- folders of injectors, and what lies in them ------------------------------------


FOLDERS = {"knowledge": "x.md", "playbooks": "x.md", "skills": "s/SKILL.md"}


def page(line: Path, injector: str) -> None:
    file = line / FOLDERS[injector]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"---\nwhen: mend the bridge\ndescription: mend the bridge\n---\nDo a. {SECRET}\n"
    )


@pytest.mark.parametrize("injector", FOLDERS)
@pytest.mark.parametrize("how", ["upward", "absolute", "linked", "of the cascade"])
def test_folders_of_injectors_lie_in_the_root(
    windlass: CommandLine, elsewhere: Path, injector: str, how: str
) -> None:
    page(elsewhere / "k", injector)
    (windlass.folder / "link").symlink_to(elsewhere / "k")
    upward = os.path.relpath(elsewhere / "k", windlass.folder)
    named = {"upward": upward, "absolute": str(elsewhere / "k")}.get(how, "link")
    own = {"injectors": {injector: {"folder": named}}}
    if how == "of the cascade":
        windlass.write("c.json", {**cascade(phase("a")), **own})
    else:
        windlass.write("c.json", cascade(phase("a", **own)))
    refused(windlass, "c.json", named, "leads out of the folder")


@pytest.mark.parametrize("injector", FOLDERS)
def test_links_in_them_that_lead_out_are_not_followed(
    windlass: CommandLine, elsewhere: Path, injector: str
) -> None:
    page(elsewhere / "k", injector)
    target = windlass.folder / "mine" / FOLDERS[injector]
    target.parent.mkdir(parents=True)
    target.symlink_to(elsewhere / "k" / FOLDERS[injector])
    own = {"folder": "mine", **({"active": ["s"]} if injector == "skills" else {})}
    windlass.write("c.json", cascade(phase("a", injectors={injector: own})))
    said = windlass("run", "c.json")
    assert said.code == (0 if injector == "knowledge" else 2), said.err
    assert SECRET not in str(windlass.requests) + said.out + said.err


@pytest.mark.parametrize("injector", ["playbooks", "skills"])
def test_pages_may_lie_in_a_hidden_folder(windlass: CommandLine, injector: str) -> None:
    page(windlass.folder / ".agent" / "pages", injector)
    own = {"folder": ".agent/pages", **({"active": ["s"]} if injector == "skills" else {})}
    asks = {**phase("a", injectors={injector: own}), "instructions": "Mend the bridge."}
    windlass.write("c.json", cascade(asks))
    assert windlass("run", "c.json").code == 0
    assert SECRET in str(windlass.requests)


# ---- tasks --------------------------------------------------------------------------


TASKS: dict[str, tuple[str, str]] = {
    "up": ("<file>../up.md</file>", "leads out of the folder"),
    "linked": ("<file>link.md</file>", "leads out of the folder"),
    "lines": ('<file split="lines">link.md</file>', "leads out of the folder"),
    "hidden": ("<file>.env</file>", "is hidden"),
    "pipe": ("<file>pipe</file>", "is not a regular file"),
    "device": ("<file>zero</file>", "leads out of the folder"),
    "pattern": ("<glob>../*.md</glob>", "leads out of the folder"),
}


def write_task(line: CommandLine, elsewhere: Path, declared: str) -> None:
    (line.folder / "link.md").symlink_to(elsewhere / "x.md")
    (line.folder / ".env").write_text(SECRET)
    (line.folder / "zero").symlink_to("/dev/zero")
    os.mkfifo(line.folder / "pipe")
    line.write("t.xml", reduce(declared))


@pytest.mark.parametrize("kind", TASKS)
def test_inputs_of_tasks_lie_in_the_root(windlass: CommandLine, elsewhere: Path, kind: str) -> None:
    declared, told = TASKS[kind]
    write_task(windlass, elsewhere, declared)
    said = windlass("check", "t.xml")
    assert said.code == 2
    assert said.complaint.startswith("windlass: t.xml:2: ")
    assert told in said.complaint
    said = windlass("evaluate", "t.xml")
    assert said.code == 2
    assert "t.xml:2: " in said.err
    assert told in said.err
    assert windlass.requests == []


@pytest.mark.parametrize("pattern", ["*", "*.md", ".*", "**/*"])
def test_patterns_of_tasks_take_what_is_open(
    windlass: CommandLine, elsewhere: Path, pattern: str
) -> None:
    write_task(windlass, elsewhere, f"<glob>{pattern}</glob>")
    windlass.write("own.md", "my own text")
    said = windlass("evaluate", "t.xml")
    assert SECRET not in str(windlass.requests)
    assert said.code == (2 if pattern == ".*" else 0), said.err


def test_folders_of_tasks_lie_in_the_root(windlass: CommandLine, elsewhere: Path) -> None:
    inside = (
        "<context_management><inherit_context>none</inherit_context>"
        "<fresh_context>enabled</fresh_context></context_management>"
        f"<memory><folder>{elsewhere}</folder></memory>"
    )
    windlass.write("t.xml", atomic("a", inside))
    for words in (["check", "t.xml"], ["evaluate", "t.xml"]):
        said = windlass(*words)
        assert said.code == 2
        assert said.complaint.startswith("windlass: t.xml:1: <folder>: ")
        assert "leads out of the folder" in said.complaint
    assert windlass.requests == []


def test_a_description_names_a_text_beside_the_task_only(
    windlass: CommandLine, elsewhere: Path
) -> None:
    windlass.write("t.xml", atomic("a", asks=f"@{elsewhere / 'x.md'}"))
    for words in (["check", "t.xml"], ["evaluate", "t.xml"]):
        said = windlass(*words)
        assert (said.code, OUTSIDE in said.complaint) == (2, True)
    assert windlass.requests == []


# ---- tools --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("read_file", {"path": "p"}), ("search_files", {"query": "x", "path": "p"})],
)
def test_a_pipe_holds_no_tool_up(windlass: CommandLine, tool: str, arguments: Any) -> None:
    os.mkfifo(windlass.folder / "p")
    windlass.write("c.json", cascade(phase("a", tackle=[tool])))
    asked = calls(call(tool, json.dumps(arguments)))
    windlass.script = by_phase({"a": [asked, "done"]})  # type: ignore[assignment]
    began = time.monotonic()
    assert windlass("run", "c.json").code == 0
    assert time.monotonic() - began < 10
