"""Knowledge: the passages of a folder that belong to the task, each with its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from windlass.injectors.base import Injector, Item, Rendered, Situation, Tier, option
from windlass.memory.files import Files, Passage
from windlass.memory.matching import WordIndex

_HEAD: Final = "[Knowledge]"


@dataclass
class Knowledge(Injector):
    """The best passages of a folder of texts, with path and line."""

    folder: str = option("knowledge", "The folder of texts that is looked into.")
    top: int = option(3, "The most passages that are shown.")
    _files: Files | None = field(default=None, init=False, repr=False)
    _index: WordIndex = field(default_factory=WordIndex, init=False, repr=False)
    _held: dict[int, Passage] = field(default_factory=dict, init=False, repr=False)
    _next: int = field(default=1, init=False, repr=False)

    name: ClassVar[str] = "knowledge"
    tier: ClassVar[Tier] = Tier.SESSION
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 800

    def guard(self, seen: Situation) -> bool:
        """Whether there is such a folder."""
        return (seen.root / self.folder).is_dir()

    def render(self, seen: Situation) -> Rendered | None:
        """The passages that hold enough of the task's words, the best first."""
        self._look(seen)
        shares, need = self._index.shares(seen.task)
        best = sorted(shares.items(), key=lambda one: (-one[1], self._held[one[0]].reference))
        found = [self._held[at] for at, share in best if share >= need][: self.top]
        root = seen.root.resolve().as_posix() + "/"
        items = []
        for one in found:
            where = one.reference.removeprefix(root)
            items.append(Item(f"{where}\n{one.text}", where))
        return Rendered(_HEAD, tuple(items))

    def _look(self, seen: Situation) -> None:
        """Bring the index up to date with the files."""
        if self._files is None:
            closed = () if seen.closed is None else (seen.closed,)
            self._files = Files((seen.root.resolve() / self.folder,), closed)
        came, gone = self._files.look()
        numbers = {passage: number for number, passage in self._held.items()}
        for old in gone:
            number = numbers[old]
            self._index.remove(number, old.searched)
            del self._held[number]
        for new in came:
            self._held[self._next] = new
            self._index.add(self._next, new.searched)
            self._next += 1
