"""Sessions to choose from, and an embedding model whose vectors a test can foresee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from windlass.messages import Message
from windlass.selection.index import Index, Query
from windlass.selection.options import Selection
from windlass.selection.scoring import Picked, SelectionRequest, score
from windlass.selection.vectors import Vectors
from windlass.text.tokens import size_up
from windlass.window.entries import Item

OTHERS = 16


class Meanings:
    """Vectors by matters: one dimension for each list of words that mean the same.

    Other words weigh little, each in one of a few dimensions.
    """

    def __init__(self, *matters: str, name: str = "meanings-1") -> None:
        self.name = name
        self.matters = [matter.split() for matter in matters]
        self.dimensions = len(matters) + OTHERS
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for place, text in enumerate(texts):
            words = [word.strip(".,?!:") for word in text.casefold().split()]
            row = rows[place]
            for word in words:
                known = [at for at, matter in enumerate(self.matters) if word in matter]
                other = len(self.matters) + crc32(word.encode("utf-8", "replace")) % OTHERS
                row[known or other] += 1 if known else 0.2
            row /= float(np.linalg.norm(row)) or 1
        return rows


def index_of(messages: Sequence[Message]) -> Index:
    """An index whose messages are called m0, m1 and so on."""
    index = Index()
    for at, message in enumerate(messages):
        index.append(Item(f"m{at}", message, message.role), size_up(message))
    return index


def picked(messages: Sequence[Message], task: str, **options: Any) -> Picked:
    """What a strategy picks where nobody is asked."""
    embedder = options.pop("embedder", None)
    among = options.pop("among", None)
    wanted = SelectionRequest(
        index_of(messages), Query.of(task), Selection(**options), embedder, among=among
    )
    return score(wanted).pick()


def chats(*texts: str) -> list[dict[str, Any]]:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


def paired(number: int, result: str, tool: str = "read_file") -> list[dict[str, Any]]:
    """A call and its result."""
    function = {"name": tool, "arguments": f'{{"path": "src/file_{number}.py"}}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


_MATTERS = (
    "gardens rivers bicycles candles mountains violins kitchens planets bridges carpets lanterns "
    "forests markets valleys windows pencils saddles orchards tunnels clocks mirrors baskets "
    "ladders feathers"
)
FILLER = tuple(
    f"Remark {number} about {matter}, which nobody came back to later on."
    for number, matter in enumerate(_MATTERS.split())
)
