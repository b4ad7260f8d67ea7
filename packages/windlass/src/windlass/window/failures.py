"""Whether a tool result tells of a failure: by its flag, or by its words where nobody set one.

Results of our own tools and of providers whose format has a flag carry `Message.failed`. Lists that
come from elsewhere, and rows that older versions recorded, do not: there the beginning decides. A
failed result that is shortened keeps the lines that tell of errors.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from windlass.messages import Message
from windlass.window.digests import failure_lines
from windlass.window.encode.command_output import clean
from windlass.window.names import looked_at

_CHARS: Final = 200
"""Characters of a result in which its failure stands."""
_BEGINS: Final = re.compile(
    r"""[\s\[{(<'"]*(?:(?i:error|exception|fatal|failed)\b"""
    r"""(?!["']?\s*:\s*(?:null|false|none|""|\[\]|\{\}|0\b))"""
    r"""|Traceback\b|tool_use_error>|(?:bash|sh|cat|sed|head|nl|tee|cp|mv): )""",
)
"""A document's heading (`# Error handling`) is none, nor is a field that says `"error": null`."""
_EXITED: Final = re.compile(r"(?:returncode>|[Ee]xit code:?|EXIT CODE:)\s*(?:[1-9]|-)")


def has_failed(message: Message) -> bool:
    """Return whether this tool result tells of a failure."""
    return message.failed or looks_failed(message.text)


def looks_failed(text: str) -> bool:
    """Whether a result begins as those of failed calls do, or names an exit code that is not 0."""
    return bool(_BEGINS.match(text, 0, _CHARS) or _EXITED.search(text, 0, _CHARS))


def lines_of_failure(message: Message, room: int, there: Container[str] = ()) -> str:
    """The lines of a failed result that tell of an error, within `room` characters; else empty.

    Of the result as it was said, whatever of it is shown; but for those that are `there` already.
    """
    if not room or not has_failed(message):
        return ""
    return failure_lines(clean(looked_at(message.text)), room, there)


def with_failure(text: str, message: Message, room: int, *there: str) -> str:
    """A shorter form of a result, and behind it the lines of its failure that the form lacks."""
    shown = {line.strip() for line in text.split("\n")}.union(there)
    return "\n".join(filter(None, (text, lines_of_failure(message, room, shown))))
