"""What a loop of 25 turns is billed with a wrapped client, beside the same client as it is.

    python -m bench.bench_wrap [--turns N]

The loops are those of `tests/context/loops.py`: an agent reads logs of 1,200 to 60,000 characters,
one a turn. They ask servers on loopback that refuse what the vendors refuse and cache as they do
(`tests/providers/model_server.py`): Anthropic's up to a mark, OpenAI's and Gemini's the longest
common beginning. Sending everything has Anthropic's mark at its end, as most agents set it. Bills
are of the input, in US dollars.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from tests.context import loops
from tests.providers.model_server import ModelServer, model_server, reads_logs

import windlass


@dataclass(frozen=True, slots=True)
class Case:
    """A client, and its loop; `everything` is the loop as it is without Windlass."""

    name: str
    client: Callable[[], Any]
    loop: Callable[[Any], list[Any]]
    everything: Callable[[Any], list[Any]]


def _claude(model: str, *, marked: bool) -> Callable[[Any], list[Any]]:
    return lambda client: loops.claude(client, model=model, marked=marked)


CASES: Final = (
    *(
        Case(
            f"anthropic, {model}",
            anthropic.Anthropic,
            _claude(model, marked=False),
            _claude(model, marked=True),
        )
        for model in ("claude-sonnet-5", "claude-sonnet-5-5")
    ),
    Case("openai, chat", openai.OpenAI, loops.chat, loops.chat),
    Case("openai, responses", openai.OpenAI, loops.responses, loops.responses),
    Case("google-genai", genai.Client, loops.gemini, loops.gemini),
)


def measured(case: Case, turns: int, *, wrapped: bool) -> ModelServer:
    """The server after a loop of so many turns."""
    with pytest.MonkeyPatch.context() as patch, model_server(reads_logs(turns)) as server:
        server.lead(patch)
        client = case.client()
        (case.loop if wrapped else case.everything)(windlass.wrap(client) if wrapped else client)
        client.close()
    return server


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=25)
    turns = parser.parse_args().turns
    print(f"{'client':28}{'calls':>6}{'everything':>12}{'wrapped':>9}{'share':>7}{'refused':>9}")
    for case in CASES:
        before, after = (measured(case, turns, wrapped=wrapped) for wrapped in (False, True))
        assert len(before.billed) == len(after.billed) == turns + 1
        bills = f"{before.bill:>12.4f}{after.bill:>9.4f}"
        share = f"{after.bill / before.bill:>7.0%}{len(before.refused + after.refused):>9}"
        print(f"{case.name:28}{len(after.billed):>6}{bills}{share}")


if __name__ == "__main__":
    main()
