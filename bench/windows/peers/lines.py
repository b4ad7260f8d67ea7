"""The JSON lines that a peer speaks; needs nothing but the standard library.

In: `{"begin": {options}}` starts a new list of messages; `{"append": [chat, ...]}`
adds to it and asks for the window. Out, for each append: `{"window": [...],
"seconds": s}`, where a message as it was handed over is its position in the list and
another one is a chat dict; or `{"error": text}`. `s` is the time without the lines.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

Chat = dict[str, Any]
ShownEntry = list["int | Chat"]


class Peer(Protocol):
    """One recording's messages at a peer."""

    def window(self, new: list[Chat]) -> ShownEntry:
        """Add `new` messages; what the next call sees."""
        ...


def serve(begin: Callable[..., Peer]) -> None:
    """Answer standard input until it ends; `begin` is called with the options."""
    # What a package prints must not stand between the lines.
    out, sys.stdout = sys.stdout, sys.stderr
    peer: Peer | None = None
    for line in sys.stdin:
        told = json.loads(line)
        if "begin" in told:
            peer = begin(**told["begin"])
            continue
        assert peer
        began = time.perf_counter()
        try:
            window = peer.window(told["append"])
        except Exception as error:  # noqa: BLE001 - told to the other side, whatever it is
            answer: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"}
        else:
            answer = {"window": window, "seconds": time.perf_counter() - began}
        out.write(json.dumps(answer) + "\n")
        out.flush()
