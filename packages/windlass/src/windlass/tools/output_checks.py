"""Validators that come with Windlass and ask no model.

What they look for is named in the state or in the input of the cascade; the state goes first.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

from windlass.safety.foreign import parse_json

LEAST_LENGTH: Final = 50
"""Characters that `length_check` asks for where nothing names a limit."""

_LIMITS: Final = ("min_length", "max_length", "min_words", "max_words")
_KEYWORDS: Final = ("keywords", "required_keywords", "keyword", "topic")
_LONGEST_CODE: Final = 200_000
"""Characters of a block of code that is read; what is longer is not checked."""
_BLOCK: Final = re.compile(r"^```([\w+-]*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def length_check(output: str, state: dict[str, Any], input: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    """It has the length that min_length, max_length, min_words and max_words ask for.

    Where neither the state nor the input names one of them, it has at least 50 characters.
    """
    named = {name: _number(_first((state, input), name)) for name in _LIMITS}
    limits = {name: limit for name, limit in named.items() if limit is not None}
    limits = limits or {"min_length": LEAST_LENGTH}
    sizes = {"length": len(output.strip()), "words": len(output.split())}
    units = {"length": "characters", "words": "words"}
    for name, limit in limits.items():
        bound, _, unit = name.partition("_")
        size = sizes[unit]
        if (size < limit) if bound == "min" else (size > limit):
            bound_words = "at least" if bound == "min" else "at most"
            reason = f"It has {size:,} {units[unit]}; {bound_words} {limit:,} are asked for."
            return {"valid": False, "reason": reason}
    return {"valid": True, "reason": ""}


def keyword_validator(output: str, state: dict[str, Any], input: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    """It mentions each of the keywords, in upper or lower case.

    They are the list, or the text with commas between them, that the state or the input names as
    keywords, required_keywords or keyword, else as topic.
    """
    values = (_first((state, input), name) for name in _KEYWORDS)
    named = next((value for value in values if value), ())
    words = named.split(",") if isinstance(named, str) else named
    words = words if isinstance(words, list | tuple) else [words]
    keywords = [str(word).strip() for word in words if str(word).strip()]
    if not keywords:
        reason = "Nothing names keywords in the state or in the input."
        return {"valid": True, "reason": reason}
    text = output.casefold()
    missing = [word for word in keywords if word.casefold() not in text]
    reason = f"It does not mention {', '.join(map(repr, missing))}." if missing else ""
    return {"valid": not missing, "reason": reason}


def code_execution_validator(output: str) -> dict[str, Any]:
    """Each block of code in it can be read: Python, JSON and TOML are parsed, nothing is run.

    Blocks in other languages are not checked; without any block the whole text is read as Python.
    """
    blocks = [(values[1].lower(), values[2]) for values in _BLOCK.finditer(output)]
    if not blocks:
        problem = _problem(_PARSERS["python"], output)
        reason = f"It holds no block of code, and is no Python as a whole: {problem}."
        return {"valid": problem is None, "reason": "" if problem is None else reason}
    unread: list[str] = []
    for number, (language, code) in enumerate(blocks, start=1):
        parse = _PARSERS.get(language or "python")
        if parse is None or len(code) > _LONGEST_CODE:
            unread.append(language or "python")
        elif (problem := _problem(parse, code)) is not None:
            what = language or "python"
            return {"valid": False, "reason": f"Block {number} is no valid {what}: {problem}."}
    reason = f"Not checked: {', '.join(dict.fromkeys(unread))}." if unread else ""
    return {"valid": True, "reason": reason}


CHECKS: Final[Mapping[str, Callable[..., Any]]] = {
    each.__name__: each for each in (code_execution_validator, keyword_validator, length_check)
}
"""The validators by name."""

_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "json": parse_json,
    "py": ast.parse,
    "python": ast.parse,
    "python3": ast.parse,
    "toml": tomllib.loads,
}


def _problem(parse: Callable[[str], object], code: str) -> str | None:
    """Return why a text is none of its language, in one line; None: it is."""
    try:
        parse(code)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _first(places: tuple[Mapping[str, Any], ...], name: str) -> Any:
    return next((place[name] for place in places if place.get(name) is not None), None)


def _number(value: Any) -> int | None:
    """Return a limit; inputs of the command line are text."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
