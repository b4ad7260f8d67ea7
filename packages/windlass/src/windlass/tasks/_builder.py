"""What reading a task file gathers: mistakes, phases, and the line of each of their values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from windlass.cascade.source import Path as Place
from windlass.errors import perhaps_newer
from windlass.safety.foreign import parse_json
from windlass.tasks._xml import Element
from windlass.tasks.model import TaskFinding


@dataclass(slots=True)
class TaskBuilder:
    """The work in hand: what was found, the phases so far, and the line of each of their values."""

    file: str
    findings: list[TaskFinding] = field(default_factory=list[TaskFinding])
    phases: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    uses_input: bool = False

    def wrong(self, line: int, text: str, *, error: bool = True, lacking: bool = False) -> None:
        """Tell a mistake, or with `error` false what is odd."""
        self.findings.append(TaskFinding(line, text, error, lacking))

    def unknown(self, holder: Element, child: Element, tags: Collection[str]) -> None:
        """Tell that an element cannot hold what it holds."""
        text = f"<{holder.tag}> has no <{child.tag}>; {perhaps_newer(child.tag, tags)}"
        self.wrong(child.line, text)

    def json_of(self, element: Element) -> Any:
        """Return the JSON value in an element; None where it is none, which is told."""
        try:
            return parse_json(element.text)
        except ValueError as error:
            self.wrong(element.line, f"<{element.tag}> must hold JSON: {error}")
            return None
