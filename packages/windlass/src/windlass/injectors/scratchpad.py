"""The scratchpad: the session's pictures and files in words, and how to see them again.

A picture decays to a line and a file's text to a digest; here every picture and file that is out of
sight keeps its reference and description. The tool `look_again` shows one, `describe_picture` says
what is on it, for later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from windlass.errors import ToolError
from windlass.injectors.base import (
    LOOK,
    Artifact,
    BlockItem,
    Injector,
    Rendered,
    Situation,
    Tier,
    option,
)
from windlass.tools.base import ToolContext, ToolOutput

_HEAD: Final = "[Out of sight; look_again(reference) shows it]"


@dataclass
class Scratchpad(Injector):
    """Pictures and files that the request no longer shows, newest first."""

    top: int = option(8, "The most pictures and files that are listed.")

    name: ClassVar[str] = "scratchpad"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 30
    cap: ClassVar[int] = 300

    def guard(self, seen: Situation) -> bool:
        """Return whether the phase can look at what is listed."""
        return LOOK in seen.tools

    def render(self, seen: Situation) -> Rendered:
        """Return one line for each: its reference, its kind and its description."""
        hidden = [artifact for artifact in seen.artifacts if not artifact.in_sight][: self.top]
        lines = seen.style.listed([_line(artifact) for artifact in hidden])
        keys = [artifact.reference for artifact in hidden]
        return Rendered(_HEAD, tuple(map(BlockItem, lines, keys)))


def _line(artifact: Artifact) -> str:
    return f"{artifact.reference} ({artifact.what}){': ' if artifact.says else ''}{artifact.says}"


def look_again(context: ToolContext, ref: str) -> ToolOutput:
    """See a picture or a file of this session again.

    Args:
        context: What the run provides; not shown to the model.
        ref: Its reference or its name, as it is listed, or its beginning.
    """
    if context.look is None:
        raise ToolError("look_again works only inside a run")
    return context.look(ref)


def describe_picture(context: ToolContext, ref: str, text: str) -> str:
    """Keep in words what a picture or a file shows, for when it is out of sight.

    Args:
        context: What the run provides; not shown to the model.
        ref: Its reference or its name.
        text: What it shows, in a sentence or two, with the numbers that matter.
    """
    if context.describe is None:
        raise ToolError("describe_picture works only inside a run")
    return context.describe(ref, text)
