"""A contestant from another package, run by the Python of its own environment.

The two speak JSON lines, told in `peers/lines.py`. `make peers` makes the environments.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.windows.recordings import Chat, Recording

_ROOT = Path(__file__).parents[2]


def python_of(name: str) -> Path:
    """The Python of a peer's environment, whether it is there or not."""
    return _ROOT / ".venv" / "peers" / name / "bin" / "python"


class Peer:
    """One process of a peer, fed call by call. Raises FileNotFoundError where it is not made.

    `seconds`: what the last window took there, without the lines.
    """

    by_price = False
    signed = True
    marks: Sequence[int] = ()

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        python = python_of(name)
        if not python.exists():
            raise FileNotFoundError(f"no environment in .venv/peers/{name}; run `make peers`")
        self._options = options
        self.seconds = 0.0
        self._process = subprocess.Popen(
            [python, "-m", f"bench.windows.peers.{name}"],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": str(_ROOT), "HEADROOM_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def _tell(self, line: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def begin(self, recording: Recording) -> None:  # noqa: ARG002 - the messages follow
        """Start a new list of messages there."""
        self._tell({"begin": self._options})

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        """Hand over what is new; the window. Raises RuntimeError with the peer's own words."""
        self._tell({"append": list(messages[new_from:])})
        assert self._process.stdout
        answer = json.loads(self._process.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise RuntimeError(f"{self._process.args!r}: {answer['error']}")
        self.seconds = answer["seconds"]
        return [messages[one] if isinstance(one, int) else one for one in answer["window"]]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=30)
