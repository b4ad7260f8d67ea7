"""What a command draws on a terminal."""

from __future__ import annotations

import os


def read_terminal(ours: int, until: str = "") -> str:
    """What is drawn on a terminal, to its end or to `until`."""
    drawn = b""
    while not until or until not in drawn.decode(errors="replace"):
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how a closed terminal ends on Linux
            break
        if not piece:
            break
        drawn += piece
    return drawn.decode(errors="replace")
