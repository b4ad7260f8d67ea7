"""`remember` and `search_memory`: what a model is told of the memory across sessions."""

from __future__ import annotations

from windlass.errors import ToolError
from windlass.tools.base import MemoryCallbacks, ToolContext


async def remember(
    context: ToolContext, text: str, bank: str, key: str = "", expires: str = ""
) -> str:
    """Keep a text for later sessions, in a memory bank.

    Args:
        context: What the run provides; not shown to the model.
        text: What to remember, so that it is understood without this conversation.
        bank: The memory bank.
        key: A name for it; remembering the same name again makes a new version.
        expires: When it is no longer true: an age such as 30d, or a date such as 2027-01-31.
    """
    return _callbacks(context).remember(text, bank, key, expires)


async def search_memory(context: ToolContext, query: str, bank: str = "") -> str:
    """Find what earlier sessions remembered.

    Args:
        context: What the run provides; not shown to the model.
        query: What to look for, in a few words.
        bank: The memory bank; left out: all that may be read.
    """
    return _callbacks(context).search(query, bank)


def _callbacks(context: ToolContext) -> MemoryCallbacks:
    if context.memory is None:
        raise ToolError("this phase has no memory banks: name some in the cascade's 'memory'")
    return context.memory
