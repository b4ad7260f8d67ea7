"""What the tasks of a session sent and cost, inner tasks and groups of a reduction together.

It goes over the rows of the record once, so that a reduce of ten thousand inputs is told as fast
as it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.caching.rates import cost
from windlass.history.base import Keeper, NodeType

_NUMBER = re.compile(r"\[[\d-]+\]")


@dataclass(slots=True)
class TaskCost:
    """One task's line: how often it ran, its calls, tokens as the provider reported them.

    `dollars` is what was to pay in US dollars; of a model that costs nothing, what `priced_as`
    would have billed for as many tokens (None: no price is known).
    """

    task: str
    runs: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0


def task_costs(keeper: Keeper, session_id: str, price_as: str) -> tuple[list[TaskCost], TaskCost]:
    """Each task of a session in the order of its first call, and the sum of all."""
    lines: dict[str, TaskCost] = {}
    total = TaskCost("all tasks")
    begun: dict[str, str] = {}
    for stored in keeper.rows(session_id):
        row = stored.row
        if row.node_type not in (NodeType.AGENT, NodeType.FOLLOW_UP) or row.phase is None:
            continue
        name = _NUMBER.sub("[]", row.phase)
        line = lines.setdefault(name, TaskCost(name))
        new = begun.get(name) != row.phase
        begun[name] = row.phase
        given = (row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0)
        price = row.cost or cost(price_as, *given)
        for one in (line, total):
            one.runs += new
            one.calls += 1
            one.tokens_in += given[0]
            one.tokens_out += given[1]
            one.tokens_cached += given[2]
            one.dollars = None if one.dollars is None or price is None else one.dollars + price
    return list(lines.values()), total
