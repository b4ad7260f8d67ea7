"""opencode: its plugin (`opencode.js`) says what `tool.execute.after` gets, in the plain contract.

The plugin puts the text that comes back in the place of `output.output`.
"""

from __future__ import annotations

from typing import Final

from windlass.hooks.agents.plain import Plain


class OpenCode(Plain):
    """The adapter."""

    name = "opencode"


ADAPTER: Final = OpenCode()
