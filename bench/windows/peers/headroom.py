"""Headroom's `compress`, with its own defaults.

Called as its documentation shows, with the whole list before each model call; with `frozen` as
it tells callers that manage their own loop: the list is what was sent and what is new, and
`frozen_message_count` is the message count of the request before. The model that shortens prose
is an extra of the package, and is not installed.
"""

from __future__ import annotations

from typing import Any

from bench.windows.peers.lines import Chat, ShownEntry, serve
from headroom import compress


class Compressed:
    """The messages of one run."""

    def __init__(self, *, frozen: bool = False, **options: Any) -> None:
        self._options = options
        self._frozen = frozen
        self._chats: list[Chat] = []
        self._sent: list[Chat] = []
        """What is handed over: the messages, or what was sent and what is new."""

    def window(self, new: list[Chat]) -> ShownEntry:
        """What `compress` makes of the list."""
        self._chats += new
        count = {"frozen_message_count": len(self._sent)} if self._frozen else {}
        handed = [*self._sent, *new] if self._frozen else list(self._chats)
        made = compress(list(handed), **count, **self._options).messages
        self._sent = made
        if len(made) != len(self._chats):
            return list(made)
        return [
            at if one == was else one
            for at, (one, was) in enumerate(zip(made, self._chats, strict=True))
        ]


if __name__ == "__main__":
    serve(Compressed)
