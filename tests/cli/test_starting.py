"""Commands start at once: what only a run takes is not loaded by one that runs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from windlass.settings.fields import SettingFields
from windlass.settings.settings import Settings

CHECK = """
import sys
from windlass.cli import main
try:
    main()
finally:
    loaded = {"numpy", "httpx", "mcp", "quicktok", "windlass.engine.turn.turn"} & sys.modules.keys()
    open("loaded", "w").write(" ".join(sorted(loaded)))
"""


def test_a_check_loads_nothing_that_only_a_run_takes(tmp_path: Path) -> None:
    phase = {"name": "a", "instructions": "Go.", "tackle": ["read_file", "search_context"]}
    made = {"cascade_id": "c", "auto_context": {}, "phases": [phase]}
    (tmp_path / "c.json").write_text(json.dumps(made))
    done = subprocess.run(
        [sys.executable, "-c", CHECK, "check", "c.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "c, no mistakes" in done.stdout
    assert (tmp_path / "loaded").read_text() == ""


def test_a_setting_still_says_what_it_means(tmp_path: Path) -> None:
    settings = Settings.read({}, {}, tmp_path)
    assert all(settings[name].help for name in SettingFields.model_fields)
