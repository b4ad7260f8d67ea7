"""What holds for every window of a conversation, whoever decides on its edits."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from windlass.messages import Message
from windlass.text.tokens import size
from windlass.window.kinds import Facts
from windlass.window.originals import reference
from windlass.window.reruns import Reruns
from windlass.window.thoughts import Thinking


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRules:
    """How messages are counted, what is known of their tools, and what must stay.

    Args:
        count: Tokens of a message; default the neutral count.
        facts: What is declared of tools, by name.
        recall_hint: How the original of a message is got back, in words for a placeholder.
        reruns: What calling a tool again gives, where nothing else gets an original back: only
            that is shortened then (None: something does).
        uses_names: Whether any policy asks which names are still in view.
        settles: Whether the list may be a window that is handed back. What stands before the last
            mark of one stays then as it is, but for what settings ask for.
        bound: What becomes of edits in front of signed thinking that is bound to what stood before
            it: see `Thinking` (None: none is).
        kept: Ids of messages that stay as they come, in every window.
    """

    count: Callable[[Message], int] = size
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    recall_hint: Callable[[Message], str] = reference
    reruns: Reruns | None = None
    uses_names: bool = True
    settles: bool = False
    bound: Thinking | None = None
    kept: Container[str] = ()
