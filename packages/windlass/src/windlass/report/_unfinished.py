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
    """Return what the bill of a session does not tell."""
    accounts = [account for _, account in tree.walk()]
    replies = [call.reply_details for account in accounts for call in account.calls]
    inherited = [reply.inherited for reply in replies if reply.inherited is not None]
    return Unbilled(
        sum(_unanswered(account.record.rows) for account in accounts),
        len(inherited),
        sum(each.usage[0] for each in inherited),
        inherited[0].session if inherited else "",
    )


def _unanswered(rows: Iterable[StoredRow]) -> int:
    """Return the calls that were sent and never came back."""
    open_steps: Counter[Step] = Counter()
    for stored in rows:
        match details_of(stored.row):
            case CallSent(step=step):
                open_steps[step] += 1
            case CallAnswered(step=step) | CallFailed(step=step):
                open_steps[step] -= 1
            case ReplyDetails(step=Step() as step, inherited=None):
                open_steps[step] -= 1
            case _:
                pass
    return sum(open_steps.values())
