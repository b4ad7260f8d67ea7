"""What a provider does to the context of a call: asked for, recorded, and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from tests.engine.test_bound_thinking import MODEL, log, look, replies, thinking_of
from tests.providers.thinking_server import Refuse, ThinkingServer, thinking_server
from tests.validators.thinking import CONTROLS

DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture(params=["true", "false"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThinkingServer]:
    said = replies()
    with thinking_server(lambda _: next(said)) as server:
        server.settle(tmp_path, monkeypatch, more=f"stream = {request.param}")
        yield server


def run(auto: dict[str, Any], model: str = MODEL, **more: Any) -> Any:
    phases = (phase(name, tackle=["look", "log"]) for name in ("one", "two", "three"))
    made = cascade(*phases, auto_context=auto, **more)
    return windlass.run_sync(made, model=model, tools=[look, log], trust=True)


def betas(server: ThinkingServer) -> list[bool]:
    """Of each request whether it names the control of thinking."""
    return [CONTROLS in asked.headers.get("anthropic-beta", "") for asked in server.asked]


class TestThinkingThatTheProviderDrops:
    def test_it_is_asked_for_recorded_and_told(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        ran = run({"thinking": "drop_block", "commit": "at_once"})
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == []
        assert all(betas(server))
        assert [body["thinking"] for body in server.bodies] == [DROP] * len(server.bodies)
        # Nothing is taken away here: the provider does it.
        assert len(thinking_of(server.bodies[-1])) == len(thinking_of(server.bodies[-2])) + 1
        shown = cli("show", ran.session_id, "--call", "9", "--json").json
        dropped = shown["details"]["provider_edits"]["input_transformations"]
        assert {one["type"] for one in dropped} == {"thinking_dropped"}
        told = "the provider dropped the thinking of"
        said = cli("explain", ran.session_id, "9").out
        assert f"note: {told}" in said
        assert "one:2" in said
        assert told in cli("show", ran.session_id, "--call", "9").out
        assert "the provider dropped thinking in" in cli("report", ran.session_id).out

    def test_without_edits_nothing_is_dropped_and_nothing_told(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        ran = run({"thinking": "drop_block", "intra_phase": False, "inter_phase": False})
        assert server.refused == []
        assert "the provider" not in cli("report", ran.session_id).out

    @pytest.mark.parametrize(
        ("model", "more"),
        [
            ("anthropic/claude-opus-5", {}),
            ("anthropic/claude-haiku-5-5", {"tool_choice": "look"}),
        ],
    )
    def test_header_and_field_are_left_out_together(
        self, server: ThinkingServer, model: str, more: dict[str, Any]
    ) -> None:
        ran = run({"thinking": "drop_block", "commit": "at_once"}, model, **more)
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == []
        assert not any(betas(server))
        assert not any("block_binding" in body.get("thinking", {}) for body in server.bodies)

    @pytest.mark.parametrize("thinking", ["keep", "drop_block"])
    def test_a_platform_that_refuses_all_the_same_gets_no_thinking_from_then_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine, thinking: str
    ) -> None:
        said = replies()
        text = "messages.1.content.0: Invalid `signature` in `thinking` block."
        script = [lambda _: next(said)] * 4 + [Refuse(text), lambda _: next(said)]
        with thinking_server(*script) as server:
            server.settle(tmp_path, monkeypatch)
            ran = run({"thinking": thinking, "commit": "at_once"})
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == [text]
        assert betas(server) == [*[thinking == "drop_block"] * 5, *[False] * 5]
        assert thinking_of(server.bodies[5]) == []
        assert not any("block_binding" in one.get("thinking", {}) for one in server.bodies[5:])
        assert "sent again without any" in cli("explain", ran.session_id, "5").out
