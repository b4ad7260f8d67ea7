"""`windlass report`: a session, one call of it, the whole store; on the terminal and as pages."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.importing.making import Session, result, text, used, write_lines
from tests.importing.making import call as made_call
from tests.replays.making import session_file
from windlass.caching import rates
from windlass.caching.provider_rules import AS_OF
from windlass.history.sqlite import SqliteStore
from windlass.replays.measure import MeasuredRecording, NeededText
from windlass.report.session_costs import SessionReport, session_report
from windlass.wire.base import Request


@pytest.fixture
def snowball(windlass: CommandLine) -> CommandLine:
    """The session `s1`: a phase that reads a large file, and two that go on."""
    windlass.write("large.txt", "".join(f"line {n} of a long file\n" for n in range(9_000)))
    reads = calls(call("read_file", '{"path": "large.txt"}'))
    windlass.script = by_phase(  # type: ignore[assignment]
        {"a": [reads, "read"], "b": ["counted"], "c": ["reported"]}
    )
    windlass.write("three.json", cascade(phase("a", tackle=["read_file"]), phase("b"), phase("c")))
    said = windlass("run", "three.json", "--session", "s1")
    assert said.code == 0, said.err
    return windlass


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.req("CA-25", "CA-26", "CA-27", "CA-28", "CA-30")
def test_what_is_reported(snowball: CommandLine, transcript: Transcript) -> None:
    transcript(
        "report",
        *("report s1", "report s1 --call 3", "report s1 --calls"),
        *("show s1", "show s1 --call 2", "explain s1 2"),
    )
    snowball.write("small.json", cascade(phase("x"), cascade_id="small"))
    for name in ("t1", "t2"):
        assert snowball("run", "small.json", "--session", name).code == 0
    transcript("report_of_a_store", "report", "report --cascade small --limit 1")


@pytest.mark.parametrize(("days", "told"), [(90, False), (91, True)])
def test_prices_that_are_old_are_told(
    snowball: CommandLine, monkeypatch: pytest.MonkeyPatch, days: int, told: bool
) -> None:
    monkeypatch.setattr(rates, "_today", lambda: date.fromisoformat(AS_OF) + timedelta(days=days))
    for arguments in (("report", "s1"), ("report",)):
        said = words(snowball(*arguments).out)
        assert ("prices and cache rules are as of" in said) is told


def is_page(text: str) -> bool:
    alone = not re.search(r"""(?:src|href)=["'](?!data:)|@import|url\(""", text)
    return text.startswith("<!doctype html>") and "<script" not in text and alone


def test_a_session_and_a_store_are_pages_of_their_own(snowball: CommandLine) -> None:
    said = snowball("report", "s1", "--html", "one.html")
    assert (said.code, said.out) == (0, "written: one.html\n")
    page = (snowball.folder / "one.html").read_text(encoding="utf-8")
    assert is_page(page)
    assert "was sent in 3 later calls" in page
    assert page.count("<rect") >= 9
    assert "<polyline" in page
    today = datetime.now(UTC).date().isoformat()
    assert re.search(rf"<h1>({today}|\S+) Do \w+\.</h1>", page), "its day and its first words"
    assert page.count(f"<br>{today}") == 2, "the ends of the axis have their time"
    assert "<span>0</span>" in page
    assert page.count("<th>message</th>") == 1, "the dearest messages are one table"
    assert "<th>in the dearest call</th>" in page
    assert "nowball" not in page.partition("<h2>Phases")[0]
    assert snowball("report", "--html", "all.html").code == 0
    page = (snowball.folder / "all.html").read_text(encoding="utf-8")
    assert is_page(page)
    assert "The dearest sessions" in page
    assert snowball("report", "s1", "--html", "two.html", "--json").json["total"]["calls"] == 4


def test_a_page_tells_of_each_message_whether_the_dearest_call_was_sent_it(
    windlass: CommandLine,
) -> None:
    for at in range(12):
        windlass.write(f"{at}.txt", "word " * (9_000 if at == 11 else 100 + at))
    asked = [calls(call("read_file", json.dumps({"path": f"{at}.txt"}))) for at in range(12)]
    windlass.script = by_phase({"a": [*asked, "said"]})  # type: ignore[assignment]
    windlass.write("c.json", cascade(phase("a", tackle=["read_file"])))
    assert windlass("run", "c.json", "--session", "s1").code == 0
    assert windlass("report", "s1", "--html", "one.html").code == 0
    page = (windlass.folder / "one.html").read_text(encoding="utf-8")
    table = page.partition("<th>message</th>")[2].partition("</table>")[0]
    rows = [row for row in table.split("<tr>")[1:] if "<td" in row]
    assert len(rows) > 10
    assert all("<td>yes</td>" in row for row in rows), "all but the last reply was sent"


def test_nothing_that_was_said_acts_on_a_page(windlass: CommandLine) -> None:
    windlass.write("bad.json", cascade(phase("a & 'b'"), cascade_id="c & d"))
    assert windlass("run", "bad.json", "--session", "s1").code == 0
    for arguments in (("s1",), ()):
        assert windlass("report", *arguments, "--html", "bad.html").code == 0
        page = (windlass.folder / "bad.html").read_text(encoding="utf-8")
        assert is_page(page)
        assert "a &amp; &#39;b&#39;" in page
        assert " & " not in page


@pytest.mark.req("CA-28", "CA-31")
def test_what_ran_below_counts_with_its_session(windlass: CommandLine) -> None:
    windlass.write("child.json", cascade(phase("find"), cascade_id="child"))
    windlass.write(
        "top.json",
        cascade(
            phase("a", sub_cascades=[{"ref": "child.json"}]),
            phase("b", soundings={"factor": 2, "evaluator_instructions": "best"}),
            cascade_id="top",
        ),
    )
    windlass.script = lambda request: (
        '{"winner": 0}' if "winner" in request.messages[-1].text else "said"
    )
    said = windlass("run", "top.json", "--session", "s1")
    assert said.code == 0, said.err
    whole = windlass("report", "s1", "--json").json
    told = windlass("report", "--json").json
    assert [each["name"] for each in told["sessions"]] == ["s1"]
    assert told["total"]["calls"] == whole["total"]["calls"] == 4
    assert told["total"]["tokens_in"] == whole["total"]["tokens_in"]
    assert {each["name"]: each["within"] for each in told["phases"]} == {
        "a": "top",
        "find": "child",
        "b": "top",
    }


@pytest.mark.usefixtures("snowball")
def test_what_is_said_of_mistakes(transcript: Transcript) -> None:
    transcript(
        "report_mistakes",
        *("report nobody", "report s1 --call 9", "report s1 --html no/where.html"),
        *("report s1 --html .", "report --calls", "report s1 --since 2d"),
        *("report s1 --call 1 --html x.html", "report --since soon"),
    )


def test_an_empty_store_and_one_in_which_nothing_fits(snowball: CommandLine) -> None:
    assert "no session fits" in snowball("report", "--cascade", "other").out
    assert snowball("report", "--cascade", "other", "--json").json["sessions"] == []
    assert snowball("report", "--cascade", "other", "--html", "x.html").code == 0
    assert snowball("prune", "--session", "s1").code == 0
    assert "no sessions yet" in snowball("report").out


def test_what_a_transcript_lacks_is_in_what_was_billed(windlass: CommandLine) -> None:
    session = Session()
    session.user("Look at it.")
    given = made_call("t1", "ls", path="a.py")
    session.answer("m1", text("Looking."), given, usage=used(15_000, 7))
    session.user([result("t1", "fine " * 900)])
    session.answer("m2", text("done"), usage=used(1_000, 9, read=15_000))
    write_lines(windlass.folder / "s.jsonl", session.records)
    assert windlass("import", "s.jsonl").code == 0
    told = windlass("report", "latest", "--json").json
    assert 14_900 < told["missing"] < 15_000
    total = told["total"]
    assert total["simulated_dollars"] == pytest.approx(total["dollars"], rel=0.3)
    assert total["snowball_dollars"] == pytest.approx(total["dollars"])
    assert sum(each["dollars"] for each in told["messages"]) <= total["dollars"]
    printed = windlass("report", "latest").out
    assert f"about {told['missing']:,} tokens of each request" in words(printed)
    assert "what was not recorded" in told["messages"][0]["what"]
    # It was sent everything, so nothing stands beside the bill.
    assert "would send" not in printed


class TestReportAndReplay:
    """Two commands, one account."""

    @pytest.fixture
    def imported(self, windlass: CommandLine) -> CommandLine:
        session_file(windlass.folder / "s.jsonl")
        assert windlass("import", "s.jsonl").code == 0
        return windlass

    def test_both_tell_one_bill_and_one_saving(self, imported: CommandLine) -> None:
        report = imported("report", "latest", "--json").json
        for source in ("s.jsonl", "latest"):
            replayed = imported("replay", source, "--json").json
            everything, default = (each["dollars"] for each in replayed["totals"])
            assert report["total"]["dollars"] == pytest.approx(replayed["recorded"])
            assert everything == pytest.approx([replayed["recorded"]] * 2)
            (finding,) = [each for each in report["findings"] if each["most"] is not None]
            assert finding["dollars"] == pytest.approx(replayed["recorded"])
            assert [finding["would_be"], finding["most"]] == pytest.approx(default)
        printed = imported("report", "latest").out
        low, high = (f"${one:.4f}" for one in default)
        assert f"it would be {low} - {high}" in words(printed)

    def test_what_replay_finds_dearer_is_not_advised(
        self, imported: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.caching.prices.FETCH_OUTPUT_TOKENS", 0)
        monkeypatch.setattr(MeasuredRecording, "missed", all_missed)
        (ratio,) = [
            outlay["worst"]
            for outlay in imported("replay", "latest", "--json").json["totals"]
            if outlay["policy"] == "default"
        ]
        assert ratio > 1
        findings = imported("report", "latest", "--json").json["findings"]
        assert not [each for each in findings if "windows" in each["setting"]]

    def test_nothing_below_a_cent_is_told(self, windlass: CommandLine) -> None:
        session_file(windlass.folder / "s.jsonl", 2, model="claude-3-haiku-20240307")
        assert windlass("import", "s.jsonl").code == 0
        (default,) = windlass("replay", "latest", "--policy", "default", "--json").json["totals"]
        assert default["ratio" if "ratio" in default else "worst"] < 0.99
        assert windlass("report", "latest", "--json").json["findings"] == []


def all_missed(
    measured: MeasuredRecording,
    windows: Sequence[Sequence[int]],
    needs: Mapping[int, Sequence[NeededText]],
) -> list[list[NeededText]]:
    """As if each call that is not sent everything needed all results that there are."""
    results = tuple(at for at, chat in enumerate(measured.shown.chats) if chat["role"] == "tool")
    del needs
    return [
        [NeededText("value", "x", (at,), (at,)) for at in results if at < place]
        if list(window) != everything
        else []
        for place, window, everything in zip(
            measured.calls, windows, measured.everything, strict=True
        )
    ]


def test_calls_whose_usage_was_not_recorded_are_counted_and_named(windlass: CommandLine) -> None:
    session = Session()
    session.user("Look at it.")
    del session.answer("m1", text("It is fine."))["message"]["usage"]
    write_lines(windlass.folder / "s.jsonl", session.records)
    assert windlass("import", "s.jsonl").code == 0
    total = windlass("report", "--json").json["total"]
    assert (total["calls"], total["unpriced"], total["dollars"]) == (1, 1, None)
    assert "no price" in windlass("report").out


def test_a_session_that_runs_is_told_so_far(windlass: CommandLine) -> None:
    told: list[SessionReport] = []

    def answer(_: Request) -> str:
        with SqliteStore.open_existing(windlass.folder / ".windlass", busy_s=5.0) as store:
            told.append(session_report(store, "s1", "openai/gpt-4o"))
        return "said"

    windlass.script = answer
    windlass.write("two.json", cascade(phase("a"), phase("b")))
    assert windlass("run", "two.json", "--session", "s1").code == 0
    assert [report.costs.total.calls for report in told] == [0, 1]
    assert {report.costs.status for report in told} == {"running"}
    assert told[0].dearest is None
    assert told[0].findings == ()


def test_a_run_that_was_killed_is_named(windlass: CommandLine) -> None:
    windlass.write("two.json", cascade(phase("a"), phase("b")))
    assert windlass("run", "two.json", "--session", "s1").code == 0
    with sqlite3.connect(windlass.folder / ".windlass" / "windlass.sqlite") as db:
        db.execute("DELETE FROM outcomes WHERE phase IS NULL")
    db.close()
    printed = windlass("report", "s1").out
    told = "the session was broken off: this is its bill so far; go on with it: "
    assert f"{told}windlass run --resume s1" in printed


def test_of_many_phases_the_dearest_are_printed(
    windlass: CommandLine, transcript: Transcript
) -> None:
    windlass.write("many.json", cascade(*(phase(f"p{number}") for number in range(20))))
    assert windlass("run", "many.json", "--session", "s1").code == 0
    transcript("report_of_many_phases", "report s1")
