"""An injector of one's own, named in `injected_prompt.json` as `deadline:Deadline`."""

from __future__ import annotations

from windlass.injectors import Injector, Situation, Tier


class Deadline(Injector):
    """Tells how many calls of the session are left."""

    name = "deadline"
    tier = Tier.DYNAMIC
    priority = 40
    cap = 30

    def __init__(self, calls: int = 9) -> None:
        self.calls = calls

    def render(self, seen: Situation) -> str:
        """What is left after this call."""
        return f"[Deadline] {max(0, self.calls - seen.call)} calls are left."
