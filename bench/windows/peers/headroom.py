"""Headroom's `compress`, rules only: the model that shortens prose is disabled.

Called as its documentation shows, with the whole list before each model call.
"""

from __future__ import annotations

from typing import Any

from bench.windows.peers.lines import Chat, Shown, serve
from headroom import compress


class Compressed:
    """The messages of one run."""

    def __init__(self, **options: Any) -> None:
        self._options = {"kompress_model": "disabled", **options}
        self._chats: list[Chat] = []

    def window(self, new: list[Chat]) -> Shown:
        """What `compress` makes of the list."""
        self._chats += new
        made = compress(list(self._chats), **self._options).messages
        if len(made) != len(self._chats):
            return list(made)
        return [
            at if one == was else one
            for at, (one, was) in enumerate(zip(made, self._chats, strict=True))
        ]


if __name__ == "__main__":
    serve(Compressed)
