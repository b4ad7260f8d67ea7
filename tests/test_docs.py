"""What the documents say is so: cascades in them are sound, names in them exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

from windlass.api import make_registry
from windlass.cascade.check import check
from windlass.cascade.load import parse
from windlass.cascade.model import (
    Cascade,
    ContextSource,
    ContextTtl,
    OutputExtraction,
    Phase,
    PhaseContext,
    Rules,
)
from windlass.cli.app import app
from windlass.history.base import NodeType
from windlass.modules import Modules
from windlass.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\)")


def blocks() -> list[tuple[str, str]]:
    return [(page.name, block) for page in PAGES for block in BLOCK.findall(page.read_text())]


class TestCascadesInTheDocuments:
    def test_there_are_some(self) -> None:
        assert len(blocks()) >= 2

    @pytest.mark.parametrize(("page", "block"), blocks())
    def test_have_no_mistakes(self, page: str, block: str) -> None:
        registry = make_registry(Settings.read({}, {}, ROOT), (), Modules())
        loaded = parse(json.dumps(json.loads(block)), name=page, format="json")
        assert check(loaded, tools=registry) == ()


class TestNames:
    def test_every_command_stands_in_the_readme(self) -> None:
        readme = (ROOT / "README.md").read_text()
        commands = getattr(get_command(app), "commands", {})
        assert len(commands) >= 9
        missing = [name for name in commands if f"windlass {name}" not in readme]
        assert missing == []

    def test_every_key_of_a_cascade_is_documented(self) -> None:
        page = (ROOT / "docs" / "cascades.md").read_text()
        models: list[type[BaseModel]] = [
            Cascade,
            Phase,
            ContextSource,
            PhaseContext,
            ContextTtl,
            Rules,
            OutputExtraction,
        ]
        names = {
            str(field.serialization_alias or name)
            for model in models
            for name, field in model.model_fields.items()
        }
        missing = [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)]
        assert missing == []

    def test_every_builtin_tool_is_documented(self) -> None:
        page = (ROOT / "docs" / "tools.md").read_text()
        names = make_registry(Settings.read({}, {}, ROOT), (), Modules()).names()
        assert [name for name in names if f"`{name}`" not in page] == []

    def test_every_node_type_is_documented(self) -> None:
        page = (ROOT / "docs" / "history.md").read_text()
        assert [node for node in NodeType if f"`{node}`" not in page] == []

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_links_lead_somewhere(self, page: Path) -> None:
        links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
        assert [link for link in links if not (page.parent / link).exists()] == []
