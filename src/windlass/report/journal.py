"""What a session's journal adds to its bill: calls that never came back, and inherited ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from windlass.history.base import ANSWERED, FAILED, INHERITED, SENT, STEP, SessionFilter, Store


@dataclass(frozen=True, slots=True)
class Unbilled:
    """What a session's bill does not tell, with the sessions under it.

    `unanswered` calls were sent and never answered: they may have been billed. `inherited` calls
    of so many input tokens were paid for in the session `origin` that it was forked from.
    """

    unanswered: int = 0
    inherited: int = 0
    inherited_tokens: int = 0
    origin: str = ""


def unbilled(store: Store, session_id: str) -> Unbilled:
    """What the bill of a session does not tell."""
    open_steps: Counter[str] = Counter()
    calls, tokens, origin = 0, 0, ""
    for stored in store.rows(session_id):
        told = stored.row.metadata
        if STEP not in told:
            continue
        kind = told.get("kind")
        if kind == SENT:
            open_steps[told[STEP]] += 1
        elif kind in (None, ANSWERED, FAILED) and INHERITED not in told:
            open_steps[told[STEP]] -= 1
        if INHERITED in told:
            calls, tokens = calls + 1, tokens + told[INHERITED]["usage"][0]
            origin = told[INHERITED]["session"]
    unanswered = sum(open_steps.values())
    for info in store.sessions(SessionFilter(under=(session_id,))):
        below = unbilled(store, info.session_id)
        unanswered += below.unanswered
        calls, tokens = calls + below.inherited, tokens + below.inherited_tokens
    return Unbilled(unanswered, calls, tokens, origin)
