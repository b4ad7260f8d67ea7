"""Every snippet of the documents works, and every name in them exists.

A `json` snippet is a cascade, `xml` a task, `toml` a `windlass.toml`: each is loaded and checked.
`sql` runs on a store, `sh` names commands and flags that exist, `python` runs. The Python
snippets of a page share their names; `program` has what they take from the reader's program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import anthropic
import pytest
from pydantic import BaseModel
from typer.main import get_command

import windlass
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.context import loops
from tests.providers.model_server import ModelServer, log, model_server, reads_logs
from windlass.api.loading import make_registry
from windlass.cascade.model import Cascade, ContextTtl, OutputExtraction, Phase, PhaseContext, Rules
from windlass.cascade.rules import ContextSource
from windlass.cli.app import app
from windlass.engine import events
from windlass.engine.result import Result
from windlass.history.base import NodeType, Reason, Status
from windlass.settings import plugins
from windlass.settings.modules import Modules
from windlass.settings.settings import Settings

__all__ = ["command_line"]

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "design").glob("*.md")),
]
APART = ("docs/frameworks.md",)
"""Pages whose Python runs in environments of its own, by tests that are there."""
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
GROUPS = set(plugins.GROUPS)
"""Groups of entry points, which look like modules."""
DOTTED = re.compile(r"`(windlass(?:\.\w+)+)(?=[(`])")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
KEYS: list[type[BaseModel]] = [
    Cascade,
    Phase,
    PhaseContext,
    ContextSource,
    ContextTtl,
    Rules,
    OutputExtraction,
]


class Snippet(NamedTuple):
    """A block of code, and the page and line where it begins."""

    place: str
    page: str
    text: str


def snippets(language: str) -> list[Snippet]:
    found: list[Snippet] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in SNIPPET.finditer(text):
            name = str(page.relative_to(ROOT))
            if match[1] == language and (language != "python" or name not in APART):
                line = text.count("\n", 0, match.start()) + 1
                found.append(Snippet(f"{name}:{line}", name, match[2]))
    return found


def each(language: str) -> pytest.MarkDecorator:
    blocks = snippets(language)
    return pytest.mark.parametrize("block", blocks, ids=[block.place for block in blocks])


class Client:
    """The reader's client of a provider: it answers every call in one word."""

    def send(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(
            message={"role": "assistant", "content": "Done."},
            usage={"prompt_tokens": 900, "completion_tokens": 2},
        )

    def complete(self, _: str) -> str:
        return "[]"


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Where the official clients ask; those that a reader's program makes are closed."""
    made: list[anthropic.Anthropic] = []

    class Closed(anthropic.Anthropic):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr(anthropic, "Anthropic", Closed)
    with model_server(reads_logs(3)) as server:
        server.lead(monkeypatch)
        yield server
        for client in made:
            client.close()


def reads(task: str) -> dict[str, Any]:
    """What the program of a reader with an agent's loop has by then."""
    return {
        "__name__": "snippet",
        "windlass": windlass,
        "anthropic": anthropic,
        "task": task,
        "tools": loops.CLAUDE_TOOLS,
        "run_tool": loops.claude_result,
    }


@pytest.fixture
def program(command_line: CommandLine, vendors: ModelServer) -> dict[str, Any]:
    """What a reader's program has by then: messages, a client, files, a session in the store."""
    cascade = {"cascade_id": "small", "phases": [{"name": "a", "instructions": "Say it."}]}
    for name in ("cascade.json", "notes.json"):
        command_line.write(name, cascade)
    command_line.write("late.xml", "<task type='atomic'><description>Say it.</description></task>")
    (command_line.folder / "docs").mkdir()
    assert command_line("run", "cascade.json", "--session", "s1").code == 0
    messages = [{"role": "user", "content": "Fix the date parser."}]
    assert vendors.url
    return {
        **reads("Fix the date parser"),
        "messages": messages,
        "conversation": messages,
        "send": Client().send,
        "my_client": Client(),
    }


class TestSnippets:
    def test_there_are_some_of_each_kind(self) -> None:
        kinds = ("json", "xml", "toml", "sql", "sh", "python")
        assert [kind for kind in kinds if len(snippets(kind)) < 2] == []

    @each("json")
    def test_cascades_have_no_mistakes(self, block: Snippet, command_line: CommandLine) -> None:
        checked = command_line("check", command_line.write("cascade.json", block.text))
        assert checked.code == 0, checked.err

    @each("xml")
    def test_tasks_have_no_mistakes(self, block: Snippet, command_line: CommandLine) -> None:
        checked = command_line("check", command_line.write("task.xml", block.text))
        assert checked.code == 0, checked.err

    @each("toml")
    def test_settings_are_settings(self, block: Snippet, command_line: CommandLine) -> None:
        command_line.write("windlass.toml", block.text)
        settings = command_line("config", "--json")
        assert "windlass.toml" in settings.out, settings.err

    @each("sql")
    def test_queries_run(
        self, block: Snippet, command_line: CommandLine, program: dict[str, Any]
    ) -> None:
        assert program
        for statement in filter(str.strip, block.text.split(";")):
            answer = command_line("query", "--", statement)
            assert answer.code == 0, answer.err

    @each("python")
    def test_python_runs(self, block: Snippet, program: dict[str, Any]) -> None:
        for earlier in snippets("python"):
            if earlier.page == block.page:
                exec(compile(earlier.text, earlier.place, "exec"), program)
            if earlier == block:
                break

    @each("sh")
    def test_commands_and_flags_exist(self, block: Snippet) -> None:
        for line in block.text.splitlines():
            for words in commands(line):
                wrong_words = unknown(words)
                assert not wrong_words, f"{line!r}: {wrong_words}"


IN_LOOPS = [block for block in snippets("python") if "while True" in block.text]


class TestLoops:
    def test_there_are_some(self) -> None:
        assert {block.page for block in IN_LOOPS} >= {"docs/loop.md"}

    @pytest.mark.parametrize("block", IN_LOOPS, ids=[block.place for block in IN_LOOPS])
    def test_is_billed_less_than_sending_everything(
        self, block: Snippet, vendors: ModelServer
    ) -> None:
        """As it stands: beside a loop that sends everything, with a mark at its end.

        Its model asks for an original once, by the note that names it, and gets all of it.
        """
        vendors.script[:] = [reads_logs(12)]
        loops.claude(anthropic.Anthropic(), marked=True)
        everything, calls = vendors.bill, len(vendors.billed)
        vendors.script[:] = [reads_logs(12, recalls=True)]
        exec(compile(block.text, block.place, "exec"), reads(loops.TASK))
        assert vendors.refused == []
        assert len(vendors.billed) == 2 * calls + 1
        assert vendors.bill - everything < 0.95 * everything
        original = recalled(vendors.bodies[-1]["messages"])
        assert original in map(log, range(12))
        assert f"[Cut from {len(original):,} characters: recall result_" in str(vendors.bodies)


def recalled(messages: list[Any]) -> str:
    """What the one call of `recall` in some messages was answered."""
    blocks = [one for turn in messages for one in turn["content"] if isinstance(one, dict)]
    (call,) = [one for one in blocks if one.get("name") == "recall"]
    (result,) = [one for one in blocks if one.get("tool_use_id") == call["id"]]
    content = result["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of shell, without variables before them and what they print to."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if words:
        yield words


def unknown(words: list[str]) -> list[str]:
    """Words of a command of ours that name nothing there is."""
    name = words[0].removeprefix(".venv/bin/")
    if name == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = [word for word in words[1:] if "=" not in word]
        return [
            word
            for word in targets
            if not re.search(rf"^{word}:|[ ]{word}\b", makefile, re.MULTILINE)
        ]
    if name.startswith("python") and "-m" in words:
        module = words[words.index("-m") + 1]
        return [] if find_spec(module) else [module]
    if name != "windlass":
        return []
    command: Any = get_command(app)
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        return rest
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    known = options | {"-h", "--help", "--version"}
    return [word for word in rest if word.startswith("-") and word not in known]


class TestNames:
    def test_every_key_of_a_cascade_is_documented(self) -> None:
        page = (DOCS / "cascades.md").read_text(encoding="utf-8")
        names = {
            str(field.serialization_alias or name)
            for model in KEYS
            for name, field in model.model_fields.items()
        }
        missing = [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)]
        assert missing == []

    def test_every_builtin_tool_is_documented(self) -> None:
        page = (DOCS / "tools.md").read_text(encoding="utf-8")
        names = make_registry(Settings.read({}, {}, ROOT), (), Modules()).names()
        assert [name for name in names if f"`{name}`" not in page] == []

    def test_every_node_type_is_documented(self) -> None:
        page = (DOCS / "history.md").read_text(encoding="utf-8")
        assert [node for node in NodeType if f"`{node}`" not in page] == []

    def test_every_event_and_result_field_is_documented(self) -> None:
        page = (DOCS / "python.md").read_text(encoding="utf-8")
        for event in get_args(events.Event):
            (line,) = [row for row in page.splitlines() if row.startswith(f"| `{event.__name__}`")]
            listed = re.findall(r"`(\w+)`", line.rpartition(" | ")[2])
            assert listed == [field.name for field in fields(event)]
        names = [*(field.name for field in fields(Result)), *get_args(Status), *get_args(Reason)]
        assert [name for name in names if f"`{name}`" not in page] == []

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_modules_and_functions_are_there(self, page: Path) -> None:
        names = set(DOTTED.findall(page.read_text(encoding="utf-8"))) - {"windlass.toml", *GROUPS}
        assert [name for name in sorted(names) if not is_there(name)] == []


class TestPages:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_links_lead_somewhere(self, page: Path) -> None:
        text = CODE.sub("", page.read_text(encoding="utf-8"))
        wrong = [
            f"{name}#{heading}"
            for name, heading in LINK.findall(text)
            if "://" not in name and not leads(page.parent / name if name else page, heading)
        ]
        assert wrong == []

    def test_every_page_is_in_the_index(self) -> None:
        index = (DOCS / "README.md").read_text(encoding="utf-8")
        pages = [page.name for page in DOCS.glob("*.md") if page.name != "README.md"]
        assert [name for name in pages if f"({name})" not in index] == []

    def test_the_readme_is_short(self) -> None:
        assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def is_there(name: str) -> bool:
    """Whether a dotted name of the package is a module, or stands in one."""
    module, _, last = name.rpartition(".")
    try:
        return hasattr(import_module(module), last) or find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def leads(page: Path, heading: str) -> bool:
    """Whether the page is there, and has the heading."""
    if not page.exists() or not heading:
        return page.exists()
    titles = HEADING.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return heading in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in titles}
