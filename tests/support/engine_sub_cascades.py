"""What tests of engine sub cascades build their cases of; others use it, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.engine.harness import House, cascade


def write(house: House, name: str, *phases: Any, **keys: Any) -> Path:
    """A file of a cascade that is called like it."""
    file = house.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    made = {**cascade(*phases, **keys), "cascade_id": Path(name).stem}
    file.write_text(json.dumps(made, indent=1))
    return file
