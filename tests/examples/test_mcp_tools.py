"""The example that is its own MCP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples.mcp_tools import CASCADE

import windlass
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request


def test_it_converts_with_the_servers_tool(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        last = request.messages[-1]
        if last.text.startswith("Call"):
            assert request.tool_choice == "sea__to_metres"
            wanted = '{"amount": 12, "unit": "fathom"}'
            return assistant("", calls=[ToolCall("c", "sea__to_metres", wanted)])
        return f"It is: {last.text}" if last.role == "tool" else "done"

    scripted = Scripted(script)
    result = windlass.run_sync(
        CASCADE,
        {"amount": 12},
        model="scripted/x",
        providers={"scripted": scripted},
        store=tmp_path,
    )
    assert result.error is None
    assert result.outputs["convert"] == "It is: 12 fathom = 21.9456 metres"
    seen = [message.text for message in scripted.requests[-1].messages]
    assert "12 fathom = 21.9456 metres" in seen


@pytest.mark.local
def test_it_runs_with_the_model_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    result = windlass.run_sync(CASCADE, {"amount": 12}, model="local/smollm2", store=tmp_path)
    assert result.error is None
    rows = windlass.query_unified("node_type = 'tool_result'", store=tmp_path)
    assert [row["metadata_json"] for row in rows]
    assert "metres" in rows[0]["content_json"]
