"""How long the definitions of Claude Code's own tools are, as its requests have them.

A mod is told the description of a tool alone, and a transcript tells neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LISTED: Final[Mapping[tuple[int, ...], Mapping[str, int]]] = {
    (2, 1, 121): {
        "Agent": 2_470, "AskUserQuestion": 1_408, "CronCreate": 1_410, "CronDelete": 142,
        "CronList": 92, "EnterPlanMode": 1_205, "EnterWorktree": 894, "ExitPlanMode": 718,
        "ExitWorktree": 772, "NotebookEdit": 468, "ScheduleWakeup": 1_013, "Skill": 497,
        "TaskCreate": 794, "TaskGet": 324, "TaskList": 362, "TaskOutput": 480, "TaskStop": 175,
        "TaskUpdate": 1_164, "WebFetch": 553, "WebSearch": 553,
    },
    (2, 1, 331): {
        "Agent": 1_397, "AskUserQuestion": 1_489, "CronCreate": 1_652, "CronDelete": 142,
        "CronList": 92, "EnterPlanMode": 1_210, "EnterWorktree": 1_215, "ExitPlanMode": 702,
        "ExitWorktree": 885, "ListAgents": 604, "Monitor": 2_500, "NotebookEdit": 547,
        "ReportFindings": 790, "ScheduleWakeup": 1_508, "SendMessage": 1_910, "Skill": 538,
        "TaskStop": 243, "WebFetch": 352, "WebSearch": 279, "Workflow": 1_757,
    },
}  # fmt: skip
"""Tokens of the definitions that a session in the terminal gets, by version and tool.

The seven that never wait are left out.
"""


def tokens_of_definition(tool: str, described: int) -> int:
    """Return the tokens of a definition whose description has so many: at least these."""
    newest = LISTED[max(LISTED)]
    return max(described, newest.get(tool, 0))
