"""What a provider does to the context of a call: asked for, recorded, and told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from tests.providers.thinking_server import (
    Refuse,
    Say,
    ThinkingServer,
    cleared_of,
    thinking_server,
)
from tests.support.engine_bound_thinking import MODEL, log, look, replies, signatures, thinking_of
from tests.validators.thinking import CONTROLS
from windlass.text.prompts import CLEARED_HEADER

DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, monkeypatch, capsys)


LONG = "You look at things and read logs. " * 70
"""A system prompt that is long enough for the cache."""
BOTH = pytest.mark.parametrize("server", ["true", "false"], indirect=True)
"""With a reply that comes in pieces, and with one that comes whole."""


@pytest.fixture
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThinkingServer]:
    said = replies()
    with thinking_server(lambda _: next(said)) as server:
        server.settle(tmp_path, monkeypatch, more=f"stream = {getattr(request, 'param', 'true')}")
        yield server


def run(
    auto: dict[str, Any],
    model: str = MODEL,
    on_event: Callable[[Any], None] | None = None,
    **more: Any,
) -> Any:
    phases = (phase(name, tackle=["look", "log"]) for name in ("one", "two", "three"))
    made = cascade(*phases, auto_context=auto, **more)
    return windlass.run_sync(made, model=model, tools=[look, log], trust=True, on_event=on_event)


def betas(server: ThinkingServer) -> list[bool]:
    """Of each request whether it names the control of thinking."""
    return [CONTROLS in asked.headers.get("anthropic-beta", "") for asked in server.asked]


class TestThinkingThatTheProviderDrops:
    @BOTH
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

        def answer(_: Any) -> Say:
            return next(said)

        four = (answer, answer, answer, answer)
        with thinking_server(*four, Refuse(text), answer) as server:
            server.settle(tmp_path, monkeypatch)
            ran = run({"thinking": thinking, "commit": "at_once"})
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == [text]
        assert betas(server) == [*[thinking == "drop_block"] * 5, *[False] * 5]
        assert thinking_of(server.bodies[5]) == []
        assert not any("block_binding" in one.get("thinking", {}) for one in server.bodies[5:])
        assert "sent again without any" in cli("explain", ran.session_id, "5").out


CLEAR = {"trigger": 4_000, "keep": 2}
"""Everything is sent, and the provider clears from the second call of a phase on."""


def clearing(**more: Any) -> dict[str, Any]:
    off = {"cuts": None, "compress": False, "see_results": None, "lossless": None, "repeats": False}
    off["free_moments"] = False
    return {"intra_phase": {**off, "server_clear": {**CLEAR, **more}}, "inter_phase": False}


def results_of(body: dict[str, Any]) -> list[str]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [json.dumps(one["content"]) for one in blocks if one["type"] == "tool_result"]


class TestToolUsesThatTheProviderClears:
    @BOTH
    def test_they_are_asked_for_recorded_and_told(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        ran = run(clearing(clear_at_least=100, exclude_tools=["log"]))
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == []
        (edit,) = server.bodies[-1]["context_management"]["edits"]
        assert edit == {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": 4_000},
            "keep": {"type": "tool_uses", "value": 2},
            "clear_at_least": {"type": "input_tokens", "value": 100},
            "exclude_tools": ["log"],
        }
        # What is sent stays as it was said, with all its thinking.
        assert min(map(len, results_of(server.bodies[-1]))) > 2_000
        assert thinking_of(server.bodies[-1]) == signatures(server)
        details = cli("show", ran.session_id, "--call", "9", "--json").json["details"]
        (applied,) = details["provider_edits"]["applied_edits"]
        assert applied["cleared_tool_uses"] == 4
        told = f"the provider cleared 4 tool uses ({applied['cleared_input_tokens']:,} tokens)"
        assert told in cli("explain", ran.session_id, "9").out.replace("\n", " ")
        assert told in cli("show", ran.session_id, "--call", "9").out.replace("\n", " ")
        said = cli("report", ran.session_id).out
        assert "the provider cleared the context of 5 of 9 calls, 4 tool uses at most" in said

    def test_a_rewritten_cache_is_no_cold_one(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        events: list[str] = []
        ran = run(clearing(), on_event=lambda event: events.append(str(event)), system=LONG)
        assert ran.status == "completed"
        assert not any("cache" in event and "read" in event for event in events)
        calls = cli("show", ran.session_id, "--json").json["calls"]
        told = [call["details"] for call in calls]
        assert {one["cache"]["planned_as"] for one in told} == {"warm"}
        cleared = [one.get("provider_edits", {}).get("applied_edits", []) for one in told]
        moved = [now != before for before, now in pairwise([[], *cleared])]
        assert (any(moved), all(moved)) == (True, False)
        # What should be read ends where a result was cleared first, and else with what was sent.
        for call, details, has_moved in list(zip(calls, told, moved, strict=True))[2:]:
            expected = details["cache"]["expected"] / call["sent_tokens"]
            read = call["tokens_cached"] / call["tokens_in"]
            assert (expected < 0.06, expected > 0.3, read > 0.9) == (
                has_moved,
                *[not has_moved] * 2,
            )

    def test_a_session_that_is_resumed_goes_on_as_it_was(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        names = ("one", "two", "three")
        phases = [phase(name, tackle=["look", "log"]) for name in names]
        cli.write("three.json", cascade(*phases, auto_context=clearing(), system=LONG))
        ran = windlass.run_sync(
            "three.json", model=MODEL, tools=[look, log], trust=True, max_turns=5
        )
        assert ran.status == "incomplete"
        again = windlass.resume_sync(ran.session_id, tools=[look, log], trust=True)
        assert (again.status, server.refused) == ("completed", [])
        calls = cli("show", ran.session_id, "--json").json["calls"]
        assert {call["details"]["cache"]["planned_as"] for call in calls} == {"warm"}
        assert calls[4]["details"]["provider_edits"]["applied_edits"]

    @pytest.mark.parametrize(
        "auto", [{}, {"intra_phase": {"enabled": False, "server_clear": True}}]
    )
    def test_without_the_option_nothing_is_asked_for(
        self, server: ThinkingServer, auto: dict[str, Any]
    ) -> None:
        run(auto)
        assert not any("context_management" in body for body in server.bodies)

    def test_check_says_where_a_provider_clears_nothing(self, cli: CommandLine) -> None:
        made = cascade(phase("one"), auto_context=clearing(), model="openai/gpt-5")
        cli.write("a.json", made)
        said = cli("check", "a.json")
        assert said.code == 0
        assert "auto_context.intra_phase.server_clear" in said.out
        assert "the provider of openai/gpt-5 clears no tool uses" in said.out.replace("\n", " ")
        cli.write("a.json", {**made, "model": "anthropic/claude-opus-5-5"})
        assert "clears no tool uses" not in cli("check", "a.json").out
        own = {**cascade(phase("one", intra_context={"server_clear": True})), "model": "openai/x"}
        cli.write("a.json", own)
        assert "phases[0].intra_context.server_clear" in cli("check", "a.json").out


def notes_of(body: dict[str, Any], cleared: int = 0) -> list[str]:
    """The notes of cleared results in a request, but for those on its first `cleared` results."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    gone = [id(one) for one in results[:cleared]]
    inner = [
        part
        for block in blocks
        if id(block) not in gone
        for part in (block["content"] if block["type"] == "tool_result" else [block])
    ]
    return [one["text"] for one in inner if one.get("text", "").startswith(CLEARED_HEADER)]


def bare(body: dict[str, Any]) -> list[str]:
    """The blocks of a request as they are sent, without cache marks."""
    text = json.dumps(body["messages"]).replace(', "cache_control": {"type": "ephemeral"}', "")
    return [json.dumps(block) for turn in json.loads(text) for block in turn["content"]]


def told_in(note: str) -> list[str]:
    """The references that the lines of a note begin with."""
    return [line.split("result_")[1][:8] for line in note.split("\n")[1:]]


class TestTheNoteOfWhatWasCleared:
    @BOTH
    def test_the_next_call_says_it_once_and_for_good(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        ran = run(clearing())
        assert (ran.status, server.refused) == ("completed", [])
        bodies = server.bodies
        assert not any(map(notes_of, bodies[:3]))  # the first was cleared of the third call
        (first,) = notes_of(bodies[3])
        assert first.split("\n")[1].startswith("[look 1, result_")
        assert first in [one.get("text") for one in bodies[3]["messages"][-1]["content"]]
        assert "ERROR disk full at /var/data" in "".join(notes_of(bodies[5]))
        for before, body in pairwise(bodies):
            assert bare(body)[: len(bare(before))] == bare(before)
            cleared = cleared_of(before)[1]
            uses = cleared[0]["cleared_tool_uses"] if cleared else 0
            told = [ref for note in notes_of(body, uses) for ref in told_in(note)]
            assert len(told) == len(set(told)) == uses
        assert thinking_of(bodies[-1]) == signatures(server)

    def test_a_result_comes_back_by_the_reference_of_its_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = replies()

        def answer(body: dict[str, Any]) -> Say:
            asked = "recall" in json.dumps(body["messages"])
            if not asked and (notes := notes_of(body)):
                return Say("", [("recall", {"ref": f"result_{told_in(notes[0])[0]}"})])
            return next(said)

        with thinking_server(answer) as server:
            server.settle(tmp_path, monkeypatch)
            ran = run(clearing(exclude_tools=["recall"]))
        assert (ran.status, server.refused) == ("completed", [])
        assert any(look(1).split("\n")[-1] in text for text in results_of(server.bodies[4])[3:])

    def test_it_is_bounded_and_leaves_what_is_excluded_alone(self, server: ThinkingServer) -> None:
        ran = run(clearing(exclude_tools=["log"], keep=0, trigger=1))
        assert ran.status == "completed"
        notes = [note for body in server.bodies for note in notes_of(body)]
        assert notes
        assert not any("[log " in note for note in notes)
        for note in notes:
            shown = [text for text in results_of(server.bodies[-1]) if CLEARED_HEADER not in text]
            assert len(note) <= min(8_000, 0.3 * max(map(len, shown)) * len(told_in(note)))

    def test_the_record_says_that_it_was_added_and_why(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        ran = run(clearing())
        told = "the provider had cleared 1 result (one:1), so the last message ends in a note"
        for words in (["explain", ran.session_id, "4"], ["show", ran.session_id, "--call", "4"]):
            assert told in " ".join(cli(*words).out.split())
            other = [*words[:-1], "5"]
            assert "ends in a note" not in " ".join(cli(*other).out.split())
        call = cli("show", ran.session_id, "--call", "4", "--json").json
        assert len(call["details"]["cleared_note"]["results"]) == 1
        assert "injectors" not in call["details"]
        assert "blocks_bill" not in call["details"]

    def test_a_session_that_is_resumed_says_the_same(
        self, server: ThinkingServer, cli: CommandLine
    ) -> None:
        phases = [phase(name, tackle=["look", "log"]) for name in ("one", "two", "three")]
        cli.write("three.json", cascade(*phases, auto_context=clearing()))
        ran = windlass.run_sync(
            "three.json", model=MODEL, tools=[look, log], trust=True, max_turns=5
        )
        assert ran.status == "incomplete"
        again = windlass.resume_sync(ran.session_id, tools=[look, log], trust=True)
        assert (again.status, server.refused) == ("completed", [])
        for before, body in pairwise(server.bodies):
            assert bare(body)[: len(bare(before))] == bare(before)
        assert notes_of(server.bodies[-1])[: len(notes_of(server.bodies[4]))] == notes_of(
            server.bodies[4]
        )

    def test_ten_results_stay_by_default(self, server: ThinkingServer) -> None:
        run({"intra_phase": {"server_clear": True}, "inter_phase": False})
        (edit,) = server.bodies[0]["context_management"]["edits"]
        assert edit["keep"] == {"type": "tool_uses", "value": 10}


class TestWhatTheProviderCompacts:
    @pytest.mark.parametrize("stream", ["true", "false"])
    @pytest.mark.parametrize(
        ("block", "beta", "edits"),
        [
            ({"content": None, "signature": "s"}, "compact-2026-09-04", None),
            (
                {"content": "All of it."},
                "compact-2026-01-12",
                {"edits": [{"type": "compact_20260112"}]},
            ),
        ],
    )
    def test_it_goes_back_whole_and_is_billed(
        self,
        block: dict[str, Any],
        beta: str,
        edits: Any,
        stream: str,
        cli: CommandLine,
    ) -> None:
        made = {"type": "compaction", **block}
        said = (Say("One.", [("look", {})], compaction=made), "Two.", "Three.", "Four.")
        with thinking_server(*said) as server:
            server.settle(cli.folder, cli.patch, more=f"stream = {stream}")
            ran = run({})
        assert (ran.status, str(ran.error)) == ("completed", "None")
        assert server.refused == []
        for asked in server.asked[1:]:
            bare = dict(asked.body["messages"][1]["content"][0])
            bare.pop("cache_control", None)
            assert bare == made
            assert beta in asked.headers["anthropic-beta"]
            assert asked.body.get("context_management") == edits
        first = cli("show", ran.session_id, "--call", "1", "--json").json
        usage = server.usages[0]
        assert (
            first["tokens_in"] == usage["input_tokens"] + usage["cache_creation_input_tokens"] + 900
        )
        assert first["tokens_out"] == usage["output_tokens"] + 100
        told = (
            "the provider compacted what was said: 1 compaction, 900 tokens in and 100 out, billed"
        )
        assert told in " ".join(cli("explain", ran.session_id, "1").out.split())
        assert told in " ".join(cli("report", ran.session_id).out.split())
        exported = cli("export", ran.session_id, "--as", "anthropic").json
        assert exported["messages"][1]["content"][0] == made
