"""The hook in Codex: its installation and trust, what the model is sent, and the bill."""

from __future__ import annotations

import json

import pytest

from tests_clients.coding_agents import CODEX, CODEX_BINARY, Desk, asked
from tests_clients.conftest import PAIRS, NewDesk
from tests_clients.model_server import LATEST, Call
from tests_clients.plans import build_log
from tests_clients.responses_model import SCRIPTING_MODEL, ResponsesServer
from tests_clients.sessions import Pair, broken_rules, codex_session
from windlass_agents.hook_journal import text_hash

pytestmark = pytest.mark.skipif(
    not CODEX_BINARY.exists(), reason="Codex is pinned for Linux on x86-64 alone"
)
TURNS = 15


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, new_desk: NewDesk) -> Pair:
    plain, hooked = (codex_session(new_desk(ResponsesServer), hooked=each) for each in (False, True))
    made = Pair(plain, hooked)
    request.config.stash.setdefault(PAIRS, []).append((f"Codex {CODEX}", made))
    return made


def test_no_provider_minds_any_request(pair: Pair) -> None:
    for session in (pair.without, pair.hooked):
        assert len(session.steps) == TURNS + 1
        assert list(broken_rules(session.steps)) == []


def test_the_model_is_sent_what_the_hook_noted(pair: Pair) -> None:
    sent = pair.hooked.steps[-1].results
    shortened = {name: one for name, one in pair.hooked.lines.items() if one.outcome == "shortened"}
    assert len(shortened) >= 8
    for name, line in shortened.items():
        assert text_hash(sent[name]) == line.shown
    print({line.tool + line.because: (line.tokens_before, line.tokens_after) for line in shortened.values()})
    print([(l.tool,l.outcome,l.because,l.tokens_before,l.tokens_after) for l in pair.hooked.lines.values()])


def test_the_bill(pair: Pair) -> None:
    print(pair.hooked.dollars / pair.without.dollars, pair.hooked.usage, pair.without.usage)
