"""The results of a reduce in groups, each of which fits one request of the reduction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from windlass.engine.tasks._atomic import described
from windlass.engine.tasks.frame import FRESH_TOKENS, Frame
from windlass.engine.tasks.job import Job
from windlass.tasks.model import Task
from windlass.text.tokens import request_tokens

PIECE_TOKENS: Final = 24
"""The most tokens that the heading of a result takes."""


MARGIN_TOKENS: Final = 64
"""The most tokens that the headings of a request's sections take."""


def grouped(sizes: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Neighbours in as few groups as fit `room` each, as (first, behind the last).

    Groups are of about the same size, so that no result is weighed against many alone. What is
    larger than the room makes a group by itself.

    >>> list(grouped([5, 5, 5, 5], 12))
    [(0, 2), (2, 4)]
    """
    total = sum(sizes)
    fair = total / max(1, -(-total // max(1, room)))
    first = held = 0
    for index, size in enumerate(sizes):
        if index > first and (held + size > room or held + size / 2 > fair):
            yield first, index
            first, held = index, 0
        held += size
    yield first, len(sizes)


def room_for_results(job: Job, reduction: Task, frame: Frame) -> int:
    """Return the tokens of results that one request of the reduction has room for."""
    info, reply = job.info(reduction)
    leaf = reduction.first_leaf.leaf
    assert leaf is not None
    phase = job.program.cascade.phases[leaf]
    budget = job.program.rule(reduction.first_leaf, job.run.settings).budget.limit
    room = info.input_room(reply)
    limit = min(room, budget or room)
    specs = () if isinstance(phase.tackle, str) else phase.tackle
    tools = [tool.spec for tool in job.run.registry.of_tackle(specs)]
    texts = [described(job, reduction), phase.system or "", *(i.value for i in reduction.inputs)]
    if reduction.context.inherit_context != "none":
        texts += [piece.text for piece in frame.whole]
    fixed = request_tokens(info.counter, (), tools) + sum(map(info.counter.text, texts))
    looked = reduction.context.fresh_context and (reduction.banks or reduction.folders)
    fresh = min(FRESH_TOKENS, room // 4) if looked else 0
    return max(1, limit - fixed - fresh - MARGIN_TOKENS - PIECE_TOKENS * len(frame.whole))
