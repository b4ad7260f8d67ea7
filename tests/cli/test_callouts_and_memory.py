"""`windlass callout` and `windlass memory`: what they print, and what they say of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase


class TestCallout:
    @pytest.mark.req("AC-18")
    def test_marks_a_message_and_show_lists_it(self, ran: CommandLine) -> None:
        view = ran("show", "s1", "--json").json
        seen = view["calls"][1]["seen"][-1]
        said = ran("callout", "s1", seen["message_id"], "what was set")
        assert said.code == 0, said.err
        assert f"called out as 'what was set': {seen['message_id']}, tool, a:1" in said.out
        table = ran("show", "s1").out
        assert "callouts" in table
        assert "what was set" in table
        assert "called out: what was set" in ran("show", "s1", "--call", "2").out
        # The mark was made after all calls, so that none of them is explained by it.
        assert "called out" not in ran("explain", "s1", "2").out
        told = ran("show", "s1", "--json").json["callouts"]
        assert [(one["name"], one["by"]) for one in told] == [("what was set", "user")]
        assert ran("verify").code == 0

    def test_takes_a_tool_the_beginning_of_a_hash_and_json(self, ran: CommandLine) -> None:
        first = ran("callout", "s1", "set_state", "by tool", "--json").json
        assert first["message"]["role"] == "tool"
        again = ran("callout", "s1", first["message_id"][:8], "by hash", "--json").json
        assert (again["message_id"], again["name"]) == (first["message_id"], "by hash")

    @pytest.mark.usefixtures("ran")
    def test_what_is_said_of_mistakes(self, transcript: Transcript) -> None:
        transcript(
            "callout_mistakes",
            *("callout s2 set_state x", "callout s1 set_stat x", "callout s1 set_state ' '"),
        )


@pytest.fixture
def remembered(windlass: CommandLine) -> CommandLine:
    """A folder where a session remembered two versions of one thing, and another thing."""
    texts = [("deploy", "On Mondays."), ("deploy", "On Tuesdays."), ("style", "British English.")]
    replies = [
        calls(call("remember", json.dumps({"text": text, "bank": "notes", "key": key})))
        for key, text in texts
    ]
    windlass.write(
        "one.json", cascade(phase("a", tackle=["remember"], memory="notes", tool_choice="auto"))
    )
    windlass.script = by_phase({"a": [*replies, "done"]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1")
    assert said.code == 0, said.err
    return windlass


@pytest.mark.req("AC-28")
@pytest.mark.usefixtures("remembered")
def test_what_memory_prints(transcript: Transcript) -> None:
    transcript(
        "memory",
        *("memory list", "memory list notes", "memory show notes deploy"),
        *("memory forget notes deploy", "memory show notes deploy", "memory list notes"),
        *("memory list nots", "memory show notes deplo", "memory forget notes x"),
        *("memory match x", "memory match x --folder no", "memory match x --bank no"),
    )


class TestMemory:
    @pytest.mark.req("ADR-33", "ADR-36")
    def test_matches_banks_and_folders(self, remembered: CommandLine) -> None:
        Path("docs").mkdir()
        Path("docs/plan.md").write_text("We deploy from the main branch.\n")
        Path("windlass.toml").write_text('[headings]\nfresh = "# Found"\n')
        said = remembered("memory", "match", "deploy", "--bank", "notes", "--folder", "docs")
        assert said.code == 0, said.err
        assert "# Found\n[docs/plan.md:1]\nWe deploy from the main branch." in said.out
        assert "[notes/deploy@2]\nOn Tuesdays." in said.out
        assert "2 matches, in no order" in said.out
        found = remembered("memory", "match", "deploy", "--folder", "docs", "--json").json
        assert [one["source"] for one in found["matches"]] == ["docs"]

    def test_banks_are_no_sessions_in_the_list_of_sessions(self, remembered: CommandLine) -> None:
        listed = remembered("sessions", "--json").json
        assert [one["session_id"] for one in listed] == ["s1"]
        assert len(remembered("sessions", "--limit", "1", "--json").json) == 1

    def test_without_banks_it_says_how_there_come_to_be_some(self, ran: CommandLine) -> None:
        assert "no memory banks yet" in ran("memory", "list").out
