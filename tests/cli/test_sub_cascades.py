"""Sessions within sessions at the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Transcript


def made(name: str, *phases: tuple[str, str, list[str]]) -> str:
    """A cascade of phases: name, instructions, files of sub-cascades."""
    listed: list[dict[str, Any]] = [
        {"name": phase, "instructions": text, "sub_cascades": [{"ref": ref} for ref in refs]}
        for phase, text, refs in phases
    ]
    return json.dumps({"cascade_id": name, "phases": listed})


@pytest.fixture
def shell(windlass: CommandLine) -> CommandLine:
    """Three cascades: `top` runs `logs` in its second phase, which runs `disk`."""
    windlass.write("disk.json", made("disk", ("look", "Look at {{ input.disk }}.", [])))
    windlass.write("logs.json", made("logs", ("find", "{{ outputs.disk }}?", ["disk.json"])))
    phases = [("triage", "Which?", list[str]()), ("bug", "{{ outputs.logs }}!", ["logs.json"])]
    windlass.write("top.json", made("top", *phases))
    return windlass


def sessions(shell: CommandLine, *flags: str) -> list[dict[str, Any]]:
    return list(shell("sessions", "--json", *flags).json)


@pytest.mark.req("CI-50")
class TestSubCascades:
    def test_sessions_are_nested_with_all_that_ran_below(self, shell: CommandLine) -> None:
        assert shell("run", "top.json", "-i", "disk=sda").code == 0
        assert shell("run", "disk.json", "-i", "disk=sdb").code == 0
        listed = sessions(shell)
        assert [each["cascade_id"] for each in listed] == ["disk", "top", "logs", "disk"]
        alone, top, logs, disk = listed
        assert [each["calls"] for each in listed] == [1, 4, 2, 1]
        assert (alone["parent_id"], top["parent_id"]) == (None, None)
        assert (logs["parent_id"], logs["parent_phase"]) == (top["session_id"], "bug")
        assert disk["parent_id"] == logs["session_id"]
        lines = shell("sessions").out.splitlines()
        assert any(line.startswith(f"  {logs['session_id']}") for line in lines)
        assert any(line.startswith(f"    {disk['session_id']}") for line in lines)
        assert [each["calls"] for each in sessions(shell, "--limit", "1")] == [1]
        of_disk = sessions(shell, "--cascade", "disk")
        assert [each["calls"] for each in of_disk] == [1, 1]
        assert [each["calls"] for each in sessions(shell, "--cascade", "top")] == [4]

    def test_what_is_printed_of_them(self, shell: CommandLine, transcript: Transcript) -> None:
        assert shell("run", "top.json", "-i", "disk=sda").code == 0
        top, logs, disk = (each["session_id"] for each in sessions(shell))
        assert shell("show", disk, "--call", "1").code == 0
        assert shell("explain", logs, "1").code == 0
        transcript(
            "sub_cascades",
            *("sessions", f"show {top}", f"show {logs}", f"report {top}"),
            *("check top.json", "run top.json", "run top.json -i disk=sdb"),
        )

    def test_diff_counts_what_the_list_and_the_run_count(self, shell: CommandLine) -> None:
        runs = [shell("run", "top.json", "-i", f"disk={disk}", "--json").json for disk in "ab"]
        tops = [each for each in sessions(shell) if each["cascade_id"] == "top"][::-1]
        told = shell("diff", *(each["session_id"] for each in tops), "--json").json["sessions"]
        for run, top, beside in zip(runs, tops, told, strict=True):
            assert beside["calls"] == top["calls"] == 4
            report = shell("report", top["session_id"], "--json").json["total"]
            for key in ("calls", "tokens_in", "tokens_out"):
                assert beside[key] == top[key] == report[key]
            assert run["usage"]["tokens_in"] == beside["tokens_in"]

    def test_check_looks_into_all_and_tells_what_they_need(self, shell: CommandLine) -> None:
        said = shell("check", "top.json")
        assert said.code == 0
        assert "needs: -i disk=..." in said.out
        shell.write("disk.json", made("disk", ("look", "{{ outputs.nope }}", [])))
        wrong = shell("check", "top.json", "--json")
        assert wrong.code == 2
        (mistake,) = wrong.json["mistakes"]
        assert (mistake["file"], mistake["line"]) == ("disk.json", 1)

    def test_a_failed_child_names_itself(self, shell: CommandLine) -> None:
        shell.write("disk.json", made("disk", ("look", "{{ input.disk.size }}", [])))
        said = shell("run", "top.json", "-i", "disk=sda")
        assert said.code == 1
        top, logs, disk = sessions(shell)
        assert {each["status"] for each in (top, logs, disk)} == {"failed"}
        assert "phase 'bug': its sub-cascade 'logs'" in said.complaint

    def test_a_dry_run_shows_what_is_sent_first_and_bounds_all(self, shell: CommandLine) -> None:
        alone = shell("run", "disk.json", "-i", "disk=sda", "--dry-run", "--json").json
        of_logs = shell("run", "logs.json", "-i", "disk=sda", "--dry-run", "--json").json
        assert of_logs["phase"] == "look"
        assert of_logs["messages"] == alone["messages"]
        assert of_logs["most_calls"] == 2 * alone["most_calls"]
        assert not (shell.folder / ".windlass").exists()

    def test_pruning_takes_what_ran_below(self, shell: CommandLine) -> None:
        assert shell("run", "top.json", "-i", "disk=sda").code == 0
        top, *_ = sessions(shell)
        assert "removed 3 sessions" in shell("prune", "--session", top["session_id"]).out
        assert sessions(shell) == []
