"""What tests of engine choosing build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.engine.harness import Ran, phase
from windlass.history.base import NodeType
from windlass.history.row_details import json_of

AT_ONCE: dict[str, Any] = {"commit": "at_once", "intra_phase": False}


TOPICS = ("rivers", "harbours", "orchards", "glaciers", "markets", "bridges", "lanterns")


def talk(topic: str) -> str:
    """A page about one matter, with a name in it that stands nowhere else."""
    lines = [f"The {topic} report, line {n}: {topic} were looked at again." for n in range(40)]
    return "\n".join([*lines, f"The key of {topic} is key_{topic}_4711."])


def selecting(**said: Any) -> dict[str, Any]:
    """`auto_context` that chooses whatever it costs."""
    return {**AT_ONCE, "inter_phase": said}


def pages(*names: str) -> dict[str, Sequence[Any]]:
    """The replies of phases that each write a page."""
    return {name: [talk(name)] for name in names}


def choices(ran: Ran) -> list[Mapping[str, Any]]:
    """The records of choosing, in order."""
    told = [json_of(stored.row) for stored in ran.rows(NodeType.CONTEXT_SELECTION)]
    return [one for one in told if one["selection_type"] == "inter_phase"]


def asks(name: str, about: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "instructions": f"Do {name}. Tell the key of {about}.", **keys}


SEVEN = [phase(name) for name in TOPICS]


CACHED = (
    '[prices."scripted/function"]\ninput = 1.0\noutput = 5.0\n'
    "cache_read = 0.1\ncache_write = 1.25\n"
)
