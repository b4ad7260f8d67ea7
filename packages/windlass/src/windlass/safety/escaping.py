r"""Texts by anybody, made so that nothing acts on them: what people look at passes through here.

Terminals obey control characters, and terminals, browsers and editors turn the order of what they
show where a text says so. In what is made for eyes such characters are written out: `\x1b`,
`\u202e`.
"""

from __future__ import annotations

import re
from typing import Final

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
    r"""Return the text with what a terminal acts on written out: `\x1b`, `\u202e`."""
    return _ACTING.sub(_python, text)


def escaped_json(text: str) -> str:
    """Return JSON that says the same, with what a terminal acts on written out.

    Such characters stand in texts only, where JSON has its own way to write them.
    """
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _python(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte
