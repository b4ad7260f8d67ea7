"""The small cascades that show keys of the flow do what their first line says."""

from __future__ import annotations

from pathlib import Path

from tests.engine.harness import House, call, calls
from windlass.messages import Message
from windlass.wire.base import Request

KEYS = Path(__file__).parents[2] / "examples" / "keys"


async def test_handoffs(tmp_path: Path) -> None:
    house = House(tmp_path)

    def script(request: Request) -> Message | str:
        if request.messages[-1].text.startswith("Is this"):
            return calls(call("route_to", '{"target": "wish"}'), text="It asks for more.")
        return "A darker theme."

    ran = await house.run(KEYS / "handoffs.yaml", script, {"mail": "Please add a dark theme."})
    assert list(ran.result.outputs) == ["triage", "wish", "answer"]
    assert ran.model.requests[-1].messages[-1].text == "Answer the mail. A darker theme."
    house.close()
