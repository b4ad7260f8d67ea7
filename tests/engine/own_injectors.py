"""An injector as a user writes it: one class in one file."""

from __future__ import annotations

from typing import ClassVar

from windlass.injectors import Injector, Situation, Tier


class Deadline(Injector):
    """Tells how many turns are left."""

    name: ClassVar[str] = "deadline"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 40
    cap: ClassVar[int] = 30

    def __init__(self, turns: int = 5) -> None:
        self.turns = turns

    def render(self, seen: Situation) -> str:
        return f"[Deadline] {self.turns - seen.turn} turns are left."


class Reminder(Injector):
    """Says at every call the same at length."""

    name: ClassVar[str] = "reminder"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 50
    cap: ClassVar[int] = 400

    def render(self, seen: Situation) -> str:
        del seen
        return "[Reminder] " + "Read what is asked, and say where it stands. " * 30
