"""The search for any pattern whatever in a text, within a limited time.

RE2 searches where it can. Python's own engine, which may run for ever, does the rest in a
process of its own, which is killed when its time is up.
"""

from __future__ import annotations

import json
import sys
from subprocess import PIPE, CalledProcessError, TimeoutExpired, run
from typing import Final

from windlass.safety.patterns import Unsupported, compile_pattern

SECONDS: Final = 5.0
"""How long Python's own engine may take over one text."""

_SHOWN: Final = 80

_CHILD: Final = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
pattern, flags, text = json.load(sys.stdin)
found = re.search(pattern, text, flags)
json.dump(None if found is None else [found[0], *found.groups()], sys.stdout)
"""


def search(pattern: str, text: str, flags: int = 0) -> tuple[str | None, ...] | None:
    """Return what the pattern and each of its groups match first in a text; None: nothing.

    Blocks the thread. Raises BadPattern for what is no pattern, TimeoutError with a sentence
    where the search was stopped.
    """
    try:
        match = compile_pattern(pattern, flags).search(text)
    except Unsupported:
        return _in_child(pattern, text, flags)
    return None if match is None else (match[0], *match.groups())


def _in_child(pattern: str, text: str, flags: int) -> tuple[str | None, ...] | None:
    question = json.dumps([pattern, flags, text]).encode()
    try:
        # Isolated: nothing of the working folder or of the environment is imported.
        child = run(  # noqa: S603  # our own interpreter, and a program that stands above
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input=question,
            stdout=PIPE,
            timeout=SECONDS,
            check=True,
        )
    except TimeoutExpired as error:
        raise TimeoutError(
            f"the pattern {_short(pattern)} searched {len(text):,} characters for more than"
            f" {SECONDS:g} s and was stopped; write it without lookaround and backreferences, then"
            " it is searched for in linear time"
        ) from error
    except CalledProcessError as error:
        raise TimeoutError(
            f"the search for the pattern {_short(pattern)} ended without an answer (exit code"
            f" {error.returncode})"
        ) from error
    match = json.loads(child.stdout)
    return None if match is None else tuple(match)


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN else f"{pattern[: _SHOWN - 1]}…")
