"""What a session's journal adds to its bill: calls that never came back, and inherited ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from windlass.history.base import StoredRow
from windlass.history.row_details import (
    CallAnswered,
    CallFailed,
    CallSent,
    Inherited,
    ReplyDetails,
    details_of,
)
from windlass.history.step import Step
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
    open_steps: Counter[Step] = Counter()
    calls, tokens, origin = 0, 0, ""
    for stored in rows:
        match details_of(stored.row):
            case CallSent(step=step):
                open_steps[step] += 1
            case CallAnswered(step=step) | CallFailed(step=step):
                open_steps[step] -= 1
            case ReplyDetails(step=Step() as step, inherited=None):
                open_steps[step] -= 1
            case ReplyDetails(inherited=Inherited() as inherited):
                calls, tokens = calls + 1, tokens + inherited.usage[0]
                origin = inherited.session
            case _:
                pass
    return Unbilled(sum(open_steps.values()), calls, tokens, origin)
