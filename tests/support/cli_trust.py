"""What tests of cli trust build their cases of; others use it, too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.cli.conftest import CommandLine

CODE = "from pathlib import Path\nPath({marker!r}).touch()\n"


TOOL = "def look() -> str:\n    '''Look.'''\n    return 'it looked'\n"


INJECTOR = """
from windlass.injectors.base import Injector, Tier
class Own(Injector):
    name, tier, cap, priority = "own", Tier.STABLE, 100, 9
    def items(self, situation):
        return ()
"""


def code(line: CommandLine, name: str) -> Path:
    """A module of that name that says when it was run: the file is there then."""
    marker = line.folder / f"{name}.ran"
    line.write(f"{name}.py", CODE.format(marker=str(marker)) + TOOL + INJECTOR)
    return marker


def server(marker: Path) -> dict[str, Any]:
    return {"command": [sys.executable, "-c", CODE.format(marker=str(marker))]}
