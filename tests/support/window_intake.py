"""What tests of window intake build their cases of; others use it, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from windlass.errors import SequenceError
from windlass.wire.openai import check_sequence, from_openai

_OF_PARTS = re.compile("takes text only|in an assistant message|an image has|empty list of parts")


def problems(window: Any) -> list[str]:
    """What any of the three providers would refuse of a window."""
    check_sequence([from_openai(chat) for chat in window.messages])
    top = {"model": "m", "max_completion_tokens": 1}
    found = openai_rules.problems({**top, **window.wire("openai")})
    told = openai_rules.problems({**top, "messages": window.messages})
    found += [one for one in told if _OF_PARTS.search(one)]
    with without_places():
        body = {"model": "m", "max_tokens": 1, **window.wire("anthropic")}
        found += anthropic_rules.problems(body)
    with without_places():
        found += gemini_rules.problems(window.wire("gemini"), model="gemini-3-pro")
    return found


@contextmanager
def without_places() -> Iterator[None]:
    """Audio, files and parts of vendors have no place in other forms, and the error says so."""
    try:
        yield
    except SequenceError as error:
        place = r"message \d+, part \d+: '.*' of OpenAI's chat form has no place in \w+'s form"
        assert re.fullmatch(place, str(error), re.DOTALL)  # noqa: PT017
