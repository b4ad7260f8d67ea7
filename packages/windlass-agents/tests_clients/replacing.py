"""A hook that notes each event and says something else in the place of each result.

    python replacing.py FILE right    in the shape that Windlass knows
    python replacing.py FILE wrong    as a bare text

What it says is `SAID`; a result whose shape Windlass does not know it leaves alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from windlass_agents.shapes import CLAUDE_CODE, shape_of

SAID = "only this"

if __name__ == "__main__":
    event = json.load(sys.stdin)
    with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")
    found = shape_of(CLAUDE_CODE, event["tool_name"], event.get("tool_response"))
    if event["hook_event_name"] == "PostToolUse" and found is not None:
        right = found[0].with_text(event["tool_response"], SAID)
        told = right if sys.argv[2] == "right" else SAID
        output = {"hookEventName": "PostToolUse", "updatedToolOutput": told}
        print(json.dumps({"hookSpecificOutput": output}))  # noqa: T201 - for the agent
