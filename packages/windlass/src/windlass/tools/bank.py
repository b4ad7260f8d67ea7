"""A memory bank as a tool: it goes by the bank's name, and looks into that bank."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from windlass.errors import ToolError
from windlass.tools.base import Tool, ToolContext
from windlass.tools.registry import make_tool


@cache
def make_bank_tool(bank: str) -> Tool:
    """The tool that finds what a bank holds. Raises UsageError for a name that no tool may have."""

    async def look(context: ToolContext, query: str, limit: int = 5) -> str:
        """Find what is kept in this memory bank.

        Args:
            context: What the run provides; not shown to the model.
            query: What to look for, in a few words.
            limit: How many memories to show.
        """
        if context.memory is None:
            raise ToolError("this phase has no memory banks: name some in the cascade's 'memory'")
        return context.memory.search(query, bank, limit)

    return replace(make_tool(look, name=bank), effects="none")
