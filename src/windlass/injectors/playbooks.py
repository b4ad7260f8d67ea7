"""Playbooks: Markdown files that say how a kind of task is best done, and when they apply."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from windlass.errors import UsageError
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier, option
from windlass.injectors.markdown import MarkdownFile, read_page, shown_path
from windlass.memory.matching import best_matches

_HEAD: Final = "[Playbook]"


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
        """Whether there is a folder of playbooks."""
        return (seen.root / self.folder).is_dir()

    def best(self, seen: Situation) -> MarkdownFile | None:
        """The best match; None: none reaches the threshold."""
        pages = self._pages(seen.root)
        when = {at: page.key("when") for at, page in enumerate(pages)}
        best = best_matches(seen.task, when, self.threshold)
        return pages[best[0]] if best else None

    def render(self, seen: Situation) -> Rendered | None:
        """Its first paragraphs, as many as fit the cap."""
        page = self.best(seen)
        if page is None:
            return None
        paragraphs = [text.strip("\n") for text in page.body.split("\n\n") if text.strip()]
        items = [BlockItem(text, f"paragraph {at}") for at, text in enumerate(paragraphs, 1)]
        return Rendered(f"{_HEAD} {shown_path(page.path, seen.root)}", tuple(items))

    def _pages(self, root: Path) -> tuple[MarkdownFile, ...]:
        if self._read is None:
            files = sorted((root / self.folder).glob("*.md"))
            pages = [read_page(file) for file in files]
            for page in pages:
                if not page.key("when"):
                    raise UsageError(
                        f"{shown_path(page.path, root)}: a playbook says in its front matter when"
                        " it applies: `when: the task is to ...`"
                    )
            self._read = tuple(pages)
        return self._read
