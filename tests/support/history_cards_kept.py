"""What tests of history cards kept build their cases of; others use it, too."""

from __future__ import annotations

from array import array
from typing import Any

from tests.history.builders import LONG
from windlass.messages import assistant, tool, user
from windlass.selection.card import Card

CARD_COLUMNS: list[str] = (  # noqa: SIM905 - as the document lists them
    "session_id content_hash summary keywords embedding embedding_model estimated_tokens role "
    "phase_name turn_number is_anchor is_callout callout_name generated_at generator_model "
    "message_timestamp"
).split()


SAID = [
    user("Which lamp sold best in May?"),
    assistant("The green one: 41 of lamp_17."),
    tool("c1", LONG, name="run_sql"),
    user("Which lamp sold best in May?"),
]


def card(stored_id: str, at: int = 0, **told: Any) -> Card:
    """A card of the message `SAID[at]`."""
    message = SAID[at]
    return Card(
        **{
            "id": stored_id,
            "content_hash": message.content_hash,
            "summary": f"summary of {at} with ünïcode",
            "keywords": ("lamp_17", "lämp"),
            "tokens": 10 + at,
            "role": message.role,
            "phase": "ask" if at < 2 else "write",
            "turn": at or None,
            "embedding": array("f", [0.6, -0.8, at / 3]),
            "embedding_model": "two-1",
            "generator_model": "rule",
            "generated_at": 1_763_000_000,
            **told,
        }
    )
