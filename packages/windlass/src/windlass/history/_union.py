"""What a row says in its JSON, read: the union of all kinds of details."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, Union

from pydantic import ValidationError

from windlass.history import decisions, marks, row_details
from windlass.history.base import NodeType
from windlass.history.details import adapter_of
from windlass.history.row_details import INTERRUPTED_TEXT, RowDetails
from windlass.messages import Message

_KINDS: Final = defaultdict[tuple[NodeType, str], list[type[RowDetails]]](list)
"""The types of details that rows of a type and a kind may have."""

for _module in (row_details, decisions, marks):
    for _one in vars(_module).values():
        if isinstance(_one, type) and issubclass(_one, RowDetails) and _one.kinds:
            for _node in _one.nodes if _one.__module__ == _module.__name__ else ():
                for _kind in _one.kinds:
                    _KINDS[_node, _kind].append(_one)


def read_details(
    node: NodeType, data: Mapping[str, Any], phase: str | None, message: Message | None
) -> RowDetails | None:
    """Return what a row says in its JSON; None: nothing, or what this version does not know."""
    kinds = _KINDS.get((node, str(data.get("kind", "")))) if data else None
    if not kinds:
        return None
    if node == NodeType.TOOL_RESULT and message is not None and "interrupted" not in data:
        by_text = message.failed and message.text == INTERRUPTED_TEXT  # an earlier version
        data = {**data, "interrupted": by_text}
    union = kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - made when it runs
    try:
        details: RowDetails = adapter_of(union).validate_python(data, context=phase or "")
    except ValidationError:
        return None
    return details
