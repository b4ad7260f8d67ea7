"""Commands of a shell that are Windlass's own: recognised by all of their words, not by a part.

Whoever writes a command may put our words into a comment, a text, or behind a command of theirs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Final

_QUOTED: Final = re.compile(r"'[^']*'|\"((?:\\.|[^\"\\])*)\"|\\.", re.DOTALL)
_ACTIVE: Final = re.compile(r"`|\$[\w({]|[<>]\(")
"""What a shell runs or fills in, outside single quotes."""
_HIDDEN: Final = re.compile(r"\n|(?:^|\s)#")
"""What ends a command, or hides the rest of it."""
_OPERATORS: Final = frozenset("();<>|&")
_SILENCED: Final = re.compile(r"\s2>\s?(?:&1|/dev/null)(?=\s|$)")
_PYTHON: Final = re.compile(r"(?:python[\d.]*|pypy[\d.]*|py)(?:\.exe)?")
_OURS: Final = re.compile(r"windlass(?:\.exe)?")
_MODULE: Final = re.compile(r"(?:.*[\\/])?windlass(?:_agents)?[\\/]__main__\.py", re.DOTALL)
_SET: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_FILTERS: Final = re.compile(r"awk|cat|cut|e?grep|fold|head|jq|less|nl|rg|sed|sort|tail|tr|uniq|wc")
"""Programs that pass on a part of what they read."""
_WITH_VALUE: Final = ("--grep", "--lines", "--store")


def plain_words(command: str) -> list[str] | None:
    """Return the words of a command that runs one program, and nothing else.

    None: it does more.
    """
    parts = _parts(command)
    return parts[0][1] if parts is not None and len(parts) == 1 and not parts[0][0] else None


def is_hook_run(command: str) -> bool:
    """Return whether a command runs our hook, and does nothing else."""
    return _after_program(plain_words(command) or ())[:2] in (["agent", "run"], ["hook", "run"])


def is_mcp(words: Sequence[str]) -> bool:
    """Return whether the words of a command start our MCP server."""
    return _after_program(words)[:1] == ["mcp"]


def is_recall(command: str) -> bool:
    """Return whether a command prints an original, or a part of it, and nothing else.

    It may change the folder before, and filter what is printed.
    """
    parts = _parts(_SILENCED.sub(" ", command)) or []
    if parts and parts[0][1][0] == "cd" and len(parts) > 1 and parts[1][0] in ("&&", ";"):
        parts = [("", parts[1][1]), *parts[2:]]
    if not parts or parts[0][0]:
        return False
    filters = parts[1:]
    return _asks_for_one(parts[0][1]) and all(
        operator == "|" and _FILTERS.fullmatch(words[0]) for operator, words in filters
    )


def _asks_for_one(words: Sequence[str]) -> bool:
    """Return whether the words are `windlass recall`, a reference, and options."""
    name, *rest = [*_after_program(words), ""][:-1] or [""]
    refs, left = 0, iter(rest)
    for word in left:
        if word in _WITH_VALUE:
            next(left, None)
        refs += not word.startswith("-")
    return name == "recall" and refs in (1, 2)  # a path may follow


def _after_program(words: Sequence[str]) -> list[str]:
    """Return the words behind our program (empty: another one is called)."""
    rest = list(words)
    while rest and _SET.fullmatch(rest[0]):
        del rest[0]
    name = re.split(r"[\\/]", rest[0])[-1] if rest else ""
    if _OURS.fullmatch(name):
        return rest[1:]
    if _PYTHON.fullmatch(name):
        rest = [word for word in rest[1:2] if word != "-P"] + rest[2:]
        if rest[:2] == ["-m", "windlass"]:
            return rest[2:]
        if rest and _MODULE.fullmatch(rest[0]):
            return rest[1:]
    return []


def _parts(command: str) -> list[tuple[str, list[str]]] | None:
    """Return the commands of a line, each with the operator before it.

    None: it is more than that.
    """
    command = command.strip()
    bare = _QUOTED.sub(lambda match: "x" if match[1] is None else f"x{_found(match[1])}", command)
    if _ACTIVE.search(bare) or _HIDDEN.search(bare):
        return None
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.commenters, reader.whitespace_split = "", True
    try:
        words = list(reader)
    except ValueError:  # quotes without an end
        return None
    parts: list[tuple[str, list[str]]] = []
    operator = ""
    for is_operator, group in groupby(words, _is_operator):
        listed = list(group)
        if is_operator:
            if len(listed) > 1 or not parts:
                return None
            (operator,) = listed
        else:
            parts.append((operator, listed))
            operator = ""
    return None if operator or not parts else parts


def _is_operator(word: str) -> bool:
    return bool(word) and _OPERATORS.issuperset(word)


def _found(text: str) -> str:
    """Return what a shell acts on within double quotes."""
    return "".join(_ACTIVE.findall(re.sub(r"\\.", "", text, flags=re.DOTALL)))
