"""What holds for every window of a conversation, whoever decides on its edits."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from windlass.messages import Message
from windlass.text.tokens import size
from windlass.window.kinds import Facts
from windlass.window.originals import reference
from windlass.window.reruns import Reruns


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRules:
    """How messages are counted, what is known of their tools, and what must stay.

    Args:
        count: Tokens of a message; default the neutral count.
        scale: Tokens of the model for one that is counted.
        facts: What is declared of tools, by name.
        recall_hint: How the original of a message is got back, in words for a placeholder.
        reruns: What calling a tool again gives, where nothing else gets an original back: only
            that is shortened then (None: something does).
        uses_names: Whether any policy asks which names are still in view.
        settles: Whether the list may be a window that is handed back. What stands before the last
            mark of one stays then as it is, but for what settings ask for.
        holds: Whether what was sent stays as it is in front of signed thinking that is bound to it,
            but for what settings ask for.
        kept: Ids of messages that stay as they come, in every window.
    """

    count: Callable[[Message], int] = size
    scale: float = 1.0
    facts: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    recall_hint: Callable[[Message], str] = reference
    reruns: Reruns | None = None
    uses_names: bool = True
    settles: bool = False
    holds: bool = False
    kept: Container[str] = ()
