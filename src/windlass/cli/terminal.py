"""What leaves for a terminal: text on which a terminal does not act, whoever wrote it.

Everything that is printed goes through here: `main` puts `Escaping` around both standard streams,
and the consoles in `output.py` escape what they print and add colours of their own afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TextIO

_ACTING: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for newline and tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # marks that turn the order of characters
    "\u2028\u2029"  # ends of lines for some, not for others
    "\ufff9-\ufffb"  # hide what stands between them
    "\ud800-\udfff"  # halves of characters, as in names of files that are not UTF-8
    "]"
)


def escaped(text: str) -> str:
    r"""The text with what a terminal acts on written out: `\x1b`, `\u202e`."""
    return _ACTING.sub(_python, text)


def escaped_json(text: str) -> str:
    """JSON that says the same, with what a terminal acts on written out.

    Such characters stand in texts only, where JSON has its own way to write them.
    """
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _python(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


class Escaping:
    """A stream that writes to the one beneath it, escaped; all else is that one's."""

    buffer = None  # whoever writes bytes would get past it

    def __init__(self, beneath: TextIO) -> None:
        self.rich_proxied_file = beneath  # where consoles of rich write, colours and all

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        self.rich_proxied_file.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)
