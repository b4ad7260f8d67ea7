"""Packages that a stranger wrote beside Windlass, found by their entry points."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts.house import lines_of_code

import windlass
from tests.support.architecture import ROOT, imports_of, tree_of
from windlass import public
from windlass.errors import UsageError
from windlass.importing import formats
from windlass.importing.streams import recordings
from windlass.messages import Message
from windlass.settings import plugins

SCREEN = 45

PLUGIN = '''
"""What a stranger adds to Windlass."""

import json

from windlass.public import FamilyCounter, ModelInfo, Reply, Usage, assistant, command, out, tool


@tool
def shout(text: str) -> str:
    """Say it loudly.

    Args:
        text: What is said.
    """
    return text.upper()


class Parrot:
    """A provider that says what it was told last."""

    def model(self, name):
        return ModelInfo(f"acme/{name}", 8_000, FamilyCounter("openai"), False, True, free=True)

    async def send(self, request, on_text):
        text = request.messages[-1].text
        return Reply(assistant(text), Usage(len(text), 1), "stop", request.model)

    async def close(self) -> None:
        pass


@command(has_json=False)
def greet() -> None:
    """Greet whoever asks."""
    out.print("good day")


def export_words(session):
    """Write out how many words each message has."""
    for _, message in session.said():
        yield json.dumps(len(message.text.split())) + "\\n"
'''
ENTRIES = """
[windlass.tools]
shout = acme_windlass:shout
[windlass.providers]
acme = acme_windlass:Parrot
[windlass.commands]
greet = acme_windlass:greet
[windlass.exporters]
words = acme_windlass:export_words
"""
CASCADE = {
    "cascade_id": "c",
    "phases": [{"name": "a", "instructions": "Say no more.", "tackle": ["shout"]}],
}


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """A folder as an installer leaves it: a module, and what its package announces."""
    folder = tmp_path / "installed"
    about = folder / "acme_windlass-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "acme_windlass.py").write_text(PLUGIN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-windlass\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "c.json").write_text(json.dumps(CASCADE))
    return folder


def run(acme: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where that package is installed."""
    return subprocess.run(
        [sys.executable, "-m", "windlass", *words],
        cwd=acme.parent,
        env={**os.environ, "PYTHONPATH": str(acme)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_stranger_adds_a_tool_a_provider_a_command_and_a_form(acme: Path) -> None:
    done = run(acme, "run", "c.json", "--model", "acme/parrot", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["output"] == "Say no more."
    assert run(acme, "greet").stdout == "good day\n"
    assert "greet" in run(acme, "--help").stdout
    assert run(acme, "export", "latest", "--as", "words").stdout == "3\n3\n"
    shown = json.loads(run(acme, "show", "latest", "--call", "1", "--json").stdout)
    assert "shout" in json.dumps(shown)


@pytest.mark.parametrize("group", sorted(plugins.EXTRAS))
def test_what_is_not_installed_is_told_with_the_command_that_installs_it(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "announced", lambda group: ())
    for name, extra in plugins.EXTRAS[group].items():
        with pytest.raises(UsageError) as caught:
            plugins.load_plugin(group, name)
        assert f"{name!r}" in str(caught.value)
        assert f"pip install 'windlass[{extra}]'" in str(caught.value)


def test_a_name_that_nobody_announces_is_told_with_the_nearest() -> None:
    with pytest.raises(
        UsageError, match="there is no store 'clickhose'; did you mean 'clickhouse'"
    ):
        plugins.load_plugin(plugins.STORES, "clickhose")


def test_of_an_unknown_file_more_formats_are_told_where_they_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.json").write_text('{"odd": 1}')
    monkeypatch.setattr(formats, "announced", lambda group: ())
    formats.formats.cache_clear()
    with pytest.raises(
        UsageError, match=r"chat; for more: pip install 'windlass\[otel,importers\]'"
    ):
        list(recordings(tmp_path / "odd.json"))
    monkeypatch.undo()
    formats.formats.cache_clear()
    with pytest.raises(UsageError, match=r"chat$"):
        list(recordings(tmp_path / "odd.json"))


def test_what_this_workspace_adds_is_what_the_core_knows() -> None:
    for group, names in plugins.EXTRAS.items():
        here = {
            name
            for entry in plugins.announced(group)
            for name in (
                [entry.name]
                if group != plugins.IMPORTERS or entry.name == "otel"
                else [one.name for one in plugins.load_announced(entry, "format") if one.reader]
            )
        }
        assert here <= set(names), group
        assert set(names) - here <= {"smart_sql_run", "sql_query"}, group


def test_plugins_use_public_names_only() -> None:
    for path in sorted(ROOT.glob("packages/windlass-*/src/**/*.py")):
        used = {name for name in imports_of(tree_of(path)) if name.split(".")[0] == "windlass"}
        assert used <= {"windlass", "windlass.public"}, path


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    lines = Path(public.__file__).read_text().split("\n")
    silent = [
        line
        for before, line in itertools.pairwise(lines)
        if line.startswith("    from ")
        and " as " in line
        and not re.match(r"    # .*[.)]$", before)
    ]
    assert silent == []
    for name in public.homes():
        assert getattr(public, name) is not None
    assert public.Message is Message
    with pytest.raises(AttributeError, match="'Massage' is no public name of Windlass"):
        getattr(public, "Massage")  # noqa: B009 - mypy would see it


@pytest.mark.parametrize(
    "package", sorted(ROOT.glob("packages/windlass-*")), ids=lambda path: str(path.name)
)
def test_a_package_beside_the_core_is_small_and_says_what_it_is(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    core = tomllib.loads((ROOT / "packages/windlass/pyproject.toml").read_text())["project"]
    assert project["name"] == package.name
    assert project["version"] == core["version"] == windlass.__version__
    assert f"windlass=={project['version']}" in project["dependencies"]
    assert len((package / "README.md").read_text().splitlines()) <= SCREEN
    most = 6_500 if package.name == "windlass-agents" else 2_500
    assert sum(map(lines_of_code, package.glob("src/**/*.py"))) <= most
    extras = [need for needs in core["optional-dependencies"].values() for need in needs]
    assert any(need.startswith(package.name) for need in extras)
