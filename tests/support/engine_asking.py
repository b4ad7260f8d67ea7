"""What tests of engine asking build their cases of; others use it, too."""

from __future__ import annotations

from tests.engine.harness import cascade, phase

WHICH = {"question": "Which city?", "options": ["Bern", "Basel"]}


ASKS = cascade(phase("a", tackle=["ask_human", "set_state"]), phase("b"))
