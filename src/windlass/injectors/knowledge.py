"""Knowledge: the passages of a folder that belong to the task, each with its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier, option
from windlass.memory.matching import best_matches
from windlass.memory.passages import Files, Passage

_HEAD: Final = "[Knowledge]"


@dataclass
class Knowledge(Injector):
    """The best passages of a folder of texts, with path and line."""

    folder: str = option("knowledge", "The folder of texts that is looked into.")
    top: int = option(3, "The most passages that are shown.")
    threshold: float | None = option(
        None,
        "The share of the task's words, weighed by rarity, that a passage must hold; by default it"
        " falls with the length of the task.",
    )
    _files: Files | None = field(default=None, init=False, repr=False)
    _held: dict[Passage, None] = field(default_factory=dict, init=False, repr=False)

    name: ClassVar[str] = "knowledge"
    tier: ClassVar[Tier] = Tier.SESSION
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 800

    def guard(self, seen: Situation) -> bool:
        """Whether there is such a folder."""
        return (seen.root / self.folder).is_dir()

    def render(self, seen: Situation) -> Rendered | None:
        """The passages that hold enough of the task's words, the best first."""
        held = self._passages(seen)
        texts = {at: passage.searched for at, passage in enumerate(held)}
        root = seen.root.resolve().as_posix() + "/"
        items = []
        for at in best_matches(seen.task, texts, self.threshold)[: self.top]:
            where = held[at].reference.removeprefix(root)
            items.append(BlockItem(f"{where}\n{held[at].text}", where))
        return Rendered(_HEAD, tuple(items))

    def _passages(self, seen: Situation) -> list[Passage]:
        """The passages of the files as they are now, by path and line."""
        if self._files is None:
            closed = () if seen.closed is None else (seen.closed,)
            self._files = Files((seen.root.resolve() / self.folder,), closed)
        came, gone = self._files.look()
        for old in gone:
            self._held.pop(old, None)
        self._held.update(dict.fromkeys(came))
        return sorted(self._held, key=lambda passage: (passage.path, passage.line))
