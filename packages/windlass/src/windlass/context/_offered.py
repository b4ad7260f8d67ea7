"""The tools of a conversation: the caller's, in their form, and `recall` where it is offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.context.lists import Chat
from windlass.messages import Message
from windlass.window.assemble import tools_needed
from windlass.window.originals import RECALL
from windlass.wire.forms import FormName
from windlass.wire.tools import read_tools, tools_form, with_tool


class OfferedTools:
    """The caller's tools, and `recall` beside them where the loop offers it and has none.

    Args:
        given: The caller's, in OpenAI's, Anthropic's or Gemini's form.
        recall: Whether the loop offers `recall`.
    """

    def __init__(self, given: Sequence[Chat], *, recall: bool) -> None:
        self._given, specs = read_tools(given)
        own = next((one for one in specs if one.name == RECALL.name), None)
        self.adds_recall = recall and own is None
        """Whether `recall` is offered beside the caller's tools."""
        taken = own.parameters.get("properties") if own else None
        self.recalls = recall or "ref" in (taken or ())
        """Whether the loop offers `recall`, added or among the caller's tools."""
        self.specs = (*specs, RECALL) if self.adds_recall else specs
        """Their definitions."""
        self.needed = self.specs
        """The same, and those that messages call, without which they are not sent."""

    def note_calls(self, answer: Message) -> None:
        """Define what an answer called, too."""
        if self.needed:
            self.needed = tools_needed(self.needed, [answer], {})

    def in_form(self, form: FormName) -> list[dict[str, Any]]:
        """The caller's tools, in `form` where none were given, and `recall` if it is offered."""
        tools = list(self._given)
        return with_tool(tools, RECALL, tools_form(tools) or form) if self.adds_recall else tools
