"""`windlass replay` on the command line: tables, the page, the gate, and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

import windlass
from tests.cli.conftest import CommandLine, Transcript
from tests.cli.conftest import windlass as command_line
from tests.engine.harness import call, calls, cascade, phase
from tests.replays.making import listing, session_file
from windlass.errors import UsageError
from windlass.messages import Message
from windlass.replays.outcomes import PolicyCost
from windlass.wire.base import Request

__all__ = ["command_line"]


@pytest.fixture
def recorded(command_line: CommandLine) -> CommandLine:
    """A folder with a session file `s.jsonl`, and a store in which a cascade ran as `s1`."""
    session_file(command_line.folder / "s.jsonl")
    command_line.write("notes.txt", listing(1))
    command_line.write("c.json", cascade(phase("a", tackle=["read_file"]), phase("b")))
    asked = calls(call("read_file", json.dumps({"path": "notes.txt"})))
    replies: Iterator[Message | str] = iter([asked, "found", "the ticket is TICKET-11"])
    command_line.script = lambda _: next(replies)
    assert command_line("run", "c.json", "--session", "s1").code == 0
    return command_line


@pytest.mark.usefixtures("recorded")
def test_what_is_replayed(transcript: Transcript) -> None:
    transcript(
        "replay",
        *("replay s.jsonl", "replay s.jsonl --policy lean --prices none"),
        *("replay s.jsonl --fail-over 1.0 --min-recall 0.995", "replay s1"),
        *("replay nowhere.jsonl", "replay nobody", "replay s.jsonl --policy leen"),
        *("replay s.jsonl --prices nobody/knows", "replay s.jsonl --prices cheap"),
    )


def test_json_holds_each_call(recorded: CommandLine) -> None:
    replayed = recorded("replay", "s.jsonl", "--policy", "lean", "--prices", "none", "--json").json
    (recording,) = replayed["recordings"]
    (outlay,) = recording["outlays"]
    assert (outlay["policy"], outlay["prices"], len(outlay["calls"])) == ("lean", "none", 7)
    assert replayed["totals"] == [outlay]
    lean = replayed["policies"]["lean"]
    assert (lean["cuts"], lean["images_after"]) == ("firm", 1)


def test_a_session_of_the_store_is_replayed_as_it_was_said(recorded: CommandLine) -> None:
    replayed = recorded(
        "replay", "s1", "--policy", "everything", "--policy", "mask:1", "--json"
    ).json
    assert [one["call_count"] for one in replayed["recordings"]] == [3]
    everything, mask = replayed["totals"]
    assert everything["bill"] == everything["everything"]
    assert mask["calls"][2]["hidden"] > 1_000
    assert mask["calls"][1]["hidden"] == 0


def test_windows_that_were_shortened_are_replayed_whole(recorded: CommandLine) -> None:
    recorded.write(
        "short.json",
        cascade(
            phase("a", tackle=["read_file"]),
            phase("b"),
            auto_context={"commit": "at_once", "intra_phase": {"see_reads": 1}},
        ),
    )
    asked = calls(call("read_file", json.dumps({"path": "notes.txt"})))
    replies: Iterator[Message | str] = iter([asked, "found", "said"])
    recorded.script = lambda _: next(replies)
    assert recorded("run", "short.json", "--session", "s2").code == 0
    whole, short = (
        recorded("replay", session, "--policy", "everything", "--prices", "none", "--json").json
        for session in ("s1", "s2")
    )
    sizes = [one["totals"][0]["calls"][1]["tokens"] for one in (whole, short)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)


def test_a_page_is_one_file_that_runs_nothing(recorded: CommandLine) -> None:
    said = recorded("replay", "s.jsonl", "--html", "page.html")
    assert said.code == 0
    assert "the page: page.html" in said.out
    page = (recorded.folder / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<h1>What it cost" not in page, "it has the name of its session"
    assert re.search(r"cost of each call, in (US dollars|fresh input tokens)", page)
    assert "<span>0</span>" in page
    assert "<polyline" in page
    assert not re.search(r"<script|\bon\w+=|https?://|src=", page)
    assert recorded("replay", "s.jsonl", "--html", "none/page.html").code == 2


class TestTheGate:
    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            (("--fail-over", "0.1"), "default at prices 'own' costs"),
            (("--policy", "mask:1", "--min-recall", "0.9"), "in view, under 0.9"),
        ],
    )
    def test_what_does_not_ends_with_1(
        self, recorded: CommandLine, flags: tuple[str, ...], complaint: str
    ) -> None:
        recorded.patch.setattr(
            PolicyCost, "recall", 0.8
        )  # what the recording needs is always in view
        said = recorded("replay", "s.jsonl", *flags)
        assert said.code == 1
        assert complaint in said.complaint
        assert "**too" in said.out

    def test_sending_everything_never_fails(self, recorded: CommandLine) -> None:
        recorded.patch.setattr(PolicyCost, "recall", 0.8)
        flags = ("--policy", "everything", "--fail-over", "0.5", "--min-recall", "1")
        assert recorded("replay", "s.jsonl", *flags).code == 0


class TestWhatCannotBeReplayed:
    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            ("empty.jsonl", b"", "is empty"),
            ("junk.bin", bytes(range(256)) * 40, "is binary, not JSON"),
            (
                "foreign.json",
                b'{"name": "x", "dependencies": {}}',
                "is not a recording of a known format",
            ),
            ("cut.json", b'{"messages": [{"role": "us', "is cut off"),
            ("list.json", b"[1, 2]", "holds no JSON object"),
        ],
    )
    def test_a_file_is_refused_in_one_sentence(
        self, recorded: CommandLine, name: str, content: bytes, complaint: str
    ) -> None:
        (recorded.folder / name).write_bytes(content)
        said = recorded("replay", name)
        assert said.code == 2
        assert name in said.complaint
        assert complaint in said.complaint

    def test_a_cut_session_is_replayed_as_far_as_it_goes(self, recorded: CommandLine) -> None:
        whole = (recorded.folder / "s.jsonl").read_bytes()
        (recorded.folder / "cut.jsonl").write_bytes(whole[: len(whole) // 2])
        said = recorded("replay", "cut.jsonl")
        assert said.code == 0
        assert "skipped: 1 lines that are cut off or not JSON" in said.out

    def test_a_file_of_2_gb_is_refused_at_once(self, recorded: CommandLine) -> None:
        large = recorded.folder / "large.json"
        with large.open("wb") as file:
            file.write(b'{"messages": [\n')
            file.truncate(2 << 30)
        said = recorded("replay", "large.json")
        assert said.code == 2
        assert "large.json" in said.complaint

    def test_a_session_that_runs(self, recorded: CommandLine) -> None:
        told: list[str] = []

        def reply(_: Request) -> str:
            with pytest.raises(UsageError) as refused:
                windlass.replay("s3", store=recorded.folder / ".windlass")
            told.append(str(refused.value))
            return "said"

        recorded.script = reply
        recorded.write("one.json", cascade(phase("a")))
        assert recorded("run", "one.json", "--session", "s3").code == 0
        assert "session 's3' is running in process" in told[0]
        assert recorded("replay", "s3").code == 0

    def test_without_a_store_there_is_no_session(self, command_line: CommandLine) -> None:
        said = command_line("replay", "nobody")
        assert said.code == 2
        assert "there is no file or folder 'nobody', nor a session" in said.complaint
