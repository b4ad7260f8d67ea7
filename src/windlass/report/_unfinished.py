"""What a session's journal adds to its bill: calls that never came back, and inherited ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from windlass.history.base import ANSWERED, FAILED, INHERITED, SENT, STEP, StoredRow
from windlass.report.account import AccountTree


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


def unbilled(tree: AccountTree) -> Unbilled:
    """What the bill of a session does not tell."""
    told = [_own(account.record.rows) for _, account in tree.walk()]
    origins = [each.origin for each in told if each.origin]
    return Unbilled(
        sum(each.unanswered for each in told),
        sum(each.inherited for each in told),
        sum(each.inherited_tokens for each in told),
        origins[0] if origins else "",
    )


def _own(rows: Iterable[StoredRow]) -> Unbilled:
    open_steps: Counter[str] = Counter()
    calls, tokens, origin = 0, 0, ""
    for stored in rows:
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
    return Unbilled(sum(open_steps.values()), calls, tokens, origin)
