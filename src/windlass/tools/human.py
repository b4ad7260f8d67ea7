"""`ask_human`: the model asks the person who runs it."""

from __future__ import annotations

from windlass.errors import ToolError
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool


@tool
def ask_human(context: ToolContext, question: str, options: list[str] | None = None) -> str:
    """Ask the person you work for a question, and wait for the answer.

    Args:
        context: What the run provides.
        question: The question, which must be clear without the conversation.
        options: The answers to choose from; leave out for a free answer.
    """
    if context.ask is None:
        raise ToolError("ask_human works only inside a run")
    if not question.strip():
        raise ToolError("the question is empty: write what you want to know")
    return context.ask(question, tuple(options or ()))
