"""Texts chosen by the words they share with the task: memories, passages, a playbook."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from windlass.errors import UsageError
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier, option
from windlass.injectors.markdown import MarkdownFile, folder_in, read_page, shown_path
from windlass.memory.matching import best_matches
from windlass.memory.passages import Files, Passage

if TYPE_CHECKING:
    from windlass.memory.banks import Memory


@dataclass
class UserMemory(Injector):
    """The memories that match the task best, then the newest, since preferences share few words."""

    banks: tuple[str, ...] = option((), "The memory banks; by default those the phase reads.")
    top: int = option(3, "The most memories that are shown.")

    name: ClassVar[str] = "user_memory"
    tier: ClassVar[Tier] = Tier.SESSION
    priority: ClassVar[int] = 10
    cap: ClassVar[int] = 500
    refreshes: ClassVar[bool] = True

    def guard(self, seen: Situation) -> bool:
        """Return whether there is a bank to look into."""
        return bool(self.banks or seen.banks.names)

    def render(self, seen: Situation) -> Rendered:
        """Return the best memories, each with its key and version."""
        held = list(seen.banks.memories(self.banks or seen.banks.names))
        newest = sorted(held, key=lambda memory: memory.remembered)[::-1]
        matched = best_matches(seen.task, held, lambda memory: memory.searched)
        shown = [*dict.fromkeys([*matched, *newest])][: self.top]
        return Rendered("[User memory]", tuple(map(_item, shown)))


def _item(memory: Memory) -> BlockItem:
    return BlockItem(f"- {memory.key} (version {memory.version}): {memory.text}", memory.reference)


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
        """Return whether there is such a folder."""
        return folder_in(seen.root, self.folder, hidden=False).is_dir()

    def render(self, seen: Situation) -> Rendered | None:
        """Return the passages that contain enough of the task's words, the best first."""
        held, root = self._passages(seen), seen.root.resolve().as_posix() + "/"
        best = best_matches(seen.task, held, lambda each: each.searched, self.threshold)
        items = []
        for passage in best[: self.top]:
            where = passage.reference.removeprefix(root)
            items.append(BlockItem(f"{where}\n{passage.text}", where))
        return Rendered("[Knowledge]", tuple(items))

    def _passages(self, seen: Situation) -> list[Passage]:
        """Return the passages of the current files, by path and line."""
        if self._files is None:
            closed = () if seen.closed is None else (seen.closed,)
            folder = folder_in(seen.root.resolve(), self.folder, hidden=False)
            self._files = Files((folder,), closed)
        came, gone = self._files.look()
        for old in gone:
            self._held.pop(old, None)
        self._held.update(dict.fromkeys(came))
        return sorted(self._held, key=lambda passage: (passage.path, passage.line))


@dataclass
class Playbooks(Injector):
    """The playbook whose `when` matches the task best, paragraph by paragraph."""

    folder: str = option("playbooks", "The folder of playbooks: Markdown files with `when:`.")
    threshold: float | None = option(
        None,
        "The share of the task's words, weighed by rarity, that `when` must hold; by default it"
        " falls with the length of the task.",
    )
    _read: tuple[MarkdownFile, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "playbooks"
    tier: ClassVar[Tier] = Tier.SESSION
    priority: ClassVar[int] = 30
    cap: ClassVar[int] = 300

    def guard(self, seen: Situation) -> bool:
        """Return whether there is a folder of playbooks."""
        return folder_in(seen.root, self.folder).is_dir()

    def best(self, seen: Situation) -> MarkdownFile | None:
        """Return the best match, or None if none reaches the threshold."""
        pages = self._pages(seen.root)
        best = best_matches(seen.task, pages, lambda page: page.key("when"), self.threshold)
        return best[0] if best else None

    def render(self, seen: Situation) -> Rendered | None:
        """Return the first paragraphs of the best match, as many as fit the cap."""
        page = self.best(seen)
        if page is None:
            return None
        paragraphs = [text.strip("\n") for text in page.body.split("\n\n") if text.strip()]
        items = [BlockItem(text, f"paragraph {at}") for at, text in enumerate(paragraphs, 1)]
        return Rendered(f"[Playbook] {shown_path(page.path, seen.root)}", tuple(items))

    def _pages(self, root: Path) -> tuple[MarkdownFile, ...]:
        if self._read is None:
            files = sorted(folder_in(root, self.folder).glob("*.md"))
            pages = [read_page(file, root) for file in files]
            for page in pages:
                if not page.key("when"):
                    raise UsageError(
                        f"{shown_path(page.path, root)}: a playbook says in its front matter when"
                        " it applies: `when: the task is to ...`"
                    )
            self._read = tuple(pages)
        return self._read
