"""Skills: folders with a SKILL.md, of which a phase sees only the active ones.

A skill is active if the phase names it, if its description matches the task, or if the model asked
for it with the tool `use_skill`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from windlass.errors import ToolError, UsageError, did_you_mean
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier, option
from windlass.injectors.markdown import folder_in, read_page
from windlass.memory.matching import best_matches, fitting
from windlass.tools.base import ToolContext

FILE: Final = "SKILL.md"
FOLDER: Final = "skills"
ASK: Final = "use_skill"
_HEAD: Final = "[Skills]"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: its name, purpose, text and folder."""

    name: str
    description: str
    body: str
    folder: Path


def read_skills(root: Path, within: str) -> tuple[Skill, ...]:
    """The skills in the folders inside the one `within` the root; none if there is no such folder.

    Raises UsageError for a folder and for a SKILL.md that lead out of the root or cannot be read,
    and for two skills of one name.
    """
    folder = folder_in(root, within)
    if not folder.is_dir():
        return ()
    skills: dict[str, Skill] = {}
    for inner in sorted(path for path in folder.iterdir() if (path / FILE).is_file()):
        page = read_page(inner / FILE, root)
        name = page.key("name") or inner.name
        if name in skills:
            raise UsageError(
                f"{str(inner / FILE)!r}: there already is a skill {name!r},"
                f" in {str(skills[name].folder)!r}"
            )
        skills[name] = Skill(name, page.key("description"), page.body, inner)
    return tuple(skills[name] for name in sorted(skills))


def skill_named(skills: Sequence[Skill], name: str) -> Skill:
    """Return the skill of that name. Raises UsageError naming the known ones."""
    by_name = {skill.name: skill for skill in skills}
    if name not in by_name:
        raise UsageError(f"there is no skill {name!r}; {did_you_mean(name, by_name)}")
    return by_name[name]


def skill_text(skill: Skill) -> str:
    """Return a skill as the model sees it."""
    about = f": {skill.description}" if skill.description else ""
    return f"## {skill.name}{about}\n{skill.body}"


@dataclass
class Skills(Injector):
    """The instructions of active skills; matched ones only as far as they fit the cap."""

    folder: str = option(FOLDER, "The folder of skills: in it a folder with a SKILL.md for each.")
    active: tuple[str, ...] = option((), "Skills that are active whatever the task is.")
    threshold: float | None = option(
        None,
        "The share of the task's words, weighed by rarity, that a description must hold to be"
        " active; by default it falls with the length of the task.",
    )
    _read: tuple[Skill, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "skills"
    tier: ClassVar[Tier] = Tier.STABLE
    priority: ClassVar[int] = 30
    cap: ClassVar[int] = 1_000

    def skills(self, root: Path) -> tuple[Skill, ...]:
        """Return all skills, read once per run."""
        if self._read is None:
            self._read = read_skills(root, self.folder)
        return self._read

    def matching(self, seen: Situation) -> list[Skill]:
        """Return the skills whose description matches the task, the best first."""
        return best_matches(
            seen.task,
            self.skills(seen.root),
            lambda skill: f"{skill.name}\n{skill.description}",
            self.threshold,
        )

    def render(self, seen: Situation) -> Rendered:
        """Named and requested skills, then matched ones as far as they fit, then the others' names.

        Skills that the phase names are shown whatever their length, because STABLE blocks are not
        cut.
        """
        skills = self.skills(seen.root)
        sure = [skill_named(skills, name) for name in self.active]
        sure += [skill for skill in skills if skill.name in seen.skills and skill not in sure]
        # Characters over three are a bound from above for the tokens of prose.
        room = self.cap * 3 - sum(len(skill_text(skill)) for skill in sure)
        matched, left_out = fitting(
            [skill for skill in self.matching(seen) if skill not in sure],
            lambda some: sum(len(skill_text(skill)) for skill in some) <= room,
        )
        chosen = [*sure, *matched]
        items = [BlockItem(skill_text(skill), skill.name) for skill in chosen]
        others = [skill for skill in skills if skill not in chosen]
        if ASK in seen.tools and others:
            listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in others)
            items.append(BlockItem(f"Others, to be had with {ASK}:\n{listed}", "others"))
        return Rendered(_HEAD, tuple(items), tuple(skill.name for skill in left_out))


def ask_for_skill(skills: Sequence[Skill], name: str) -> str:
    """Return the answer of `use_skill`. Raises ToolError naming the known skills."""
    try:
        return skill_text(skill_named(skills, name.strip()))
    except UsageError as error:
        raise ToolError(str(error)) from error


def use_skill(context: ToolContext, name: str) -> str:
    """Get the instructions of a skill.

    Args:
        context: What the run provides; not shown to the model.
        name: The skill.
    """
    if context.skill is None:
        raise ToolError("this phase has no skills: say where they are in the cascade's 'injectors'")
    return context.skill(name)
