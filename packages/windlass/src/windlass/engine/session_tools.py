"""Tools that a run answers: what a model is told of them. The run does their work.

They are known before anything runs, so this module imports nothing of what a run takes.
"""

from __future__ import annotations

from typing import Final

from windlass.errors import ToolError, UsageError
from windlass.tools.base import MemoryCallbacks, ToolContext

SEARCH: Final = "search_context"
"""The tool's name."""
MOST_RESULTS: Final = 20


async def callout(context: ToolContext, ref: str, name: str) -> str:
    """Mark a message as important: it is kept whole in view, and later phases find it by its name.

    Args:
        context: What the run provides; not shown to the model.
        ref: The message: a reference such as result_1a2b3c4d5e6f7a8b, the name of a tool for its
            newest result, "last" for the newest message, "this" for what you say with this call.
        name: What it is to be called, in a word or a few.
    """
    if context.callout is None:
        raise ToolError("callout works only inside a run")
    try:
        return context.callout(ref, name)
    except UsageError as error:
        raise ToolError(str(error)) from error


def search_context(query: str, context: ToolContext, max_results: int = 5) -> str:
    """Find what was said earlier in this session, also what is not shown any more.

    Args:
        query: What to look for, in a few words: names, paths and numbers count most.
        context: What the run provides; not shown to the model.
        max_results: How many messages to name, 20 at most.
    """
    if context.search_session is None:
        raise ToolError("search_context works only inside a run")
    if not query.strip():
        raise ToolError("there is nothing to look for: give some words")
    if not 1 <= max_results <= MOST_RESULTS:
        raise ToolError(f"max_results must be from 1 to {MOST_RESULTS}, not {max_results}")
    return context.search_session(query, max_results)


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
    return _callbacks(context).search(query, bank, 0)


def _callbacks(context: ToolContext) -> MemoryCallbacks:
    if context.memory is None:
        raise ToolError("this phase has no memory banks: name some in the cascade's 'memory'")
    return context.memory
