"""`windlass export`: sessions for other programs, and to read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, ran, windlass
from tests.importing.making import Session, call, result, text, used, write_lines
from tests.validators import anthropic, openai
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings

__all__ = ["ran", "windlass"]

SECRET = "sk-" + "a1" * 12


@pytest.fixture
def held(windlass: CommandLine, tmp_path: Path) -> CommandLine:
    """A store with one imported session, which tells a key in three places."""
    session = Session()
    session.user(f"Go with {SECRET}. <b>```</b>")
    given = call("t1", "ls", path="a`.py", api_key="hunter2hunter2")
    session.answer("m1", text("Looking."), given, usage=used(100, 7, read=50, written=10))
    session.user([result("t1", "DB_PASSWORD=tr0ub4dor3\nfine " + "x" * 3000)])
    session.answer("m2", text("done"), usage=used(200))
    path = write_lines(tmp_path / "s.jsonl", session.records)
    assert windlass("import", str(path)).code == 0
    return windlass


def test_chat_and_anthropic_lists_are_valid(held: CommandLine) -> None:
    body = held("export", "latest", "--as", "openai").json
    assert [message["role"] for message in body["messages"]] == [
        *("user", "assistant", "tool", "assistant")
    ]
    schema = {"type": "object", "properties": {}}
    tools = [{"type": "function", "function": {"name": "ls", "parameters": schema}}]
    assert openai.problems({**body, "tools": tools}) == []
    body = held("export", "latest", "--as", "anthropic").json
    goes_on = {**body, "messages": [*body["messages"], {"role": "user", "content": "Go on."}]}
    tools = [{"name": "ls", "input_schema": schema}]
    assert anthropic.problems({**goes_on, "tools": tools, "max_tokens": 9}) == []
    assert body["messages"][1]["content"][1]["input"]["path"] == "a`.py"
    assert body["model"] == "claude-opus-4-5-20251101"


def test_the_log_of_calls_is_imported_again_with_the_same_bill(
    held: CommandLine, tmp_path: Path
) -> None:
    log = held("export", "latest", "--as", "jsonl").out
    assert len(log.splitlines()) == 2
    (tmp_path / "log.jsonl").write_text(log, encoding="utf-8")
    before = held("report", "latest", "--json").json["total"]
    assert held("import", "log.jsonl", "--store", "other").code == 0
    after = held("report", "latest", "--store", "other", "--json").json["total"]
    for key in ("calls", "tokens_in", "tokens_cached", "tokens_out"):
        assert before[key] == after[key]
    assert after["dollars"] == pytest.approx(before["dollars"])
    again = held("export", "latest", "--store", "other", "--as", "jsonl").out
    sent = [json.loads(line)["request"]["messages"] for line in log.splitlines()]
    assert [json.loads(line)["request"]["messages"] for line in again.splitlines()] == sent


def _imported(line: CommandLine, form: str) -> list[Recording]:
    """What is read of an export."""
    path = line.folder / f"again.{'jsonl' if form == 'jsonl' else 'json'}"
    path.write_text(line("export", "latest", "--as", form).out, encoding="utf-8")
    return list(recordings(path))


@pytest.mark.parametrize("form", ["jsonl", "openai", "anthropic", "otel-content"])
def test_what_is_imported_again_says_the_same(held: CommandLine, form: str) -> None:
    (before,) = recordings(held.folder / "s.jsonl")
    (after,) = _imported(held, form)
    assert after.messages == before.messages
    assert after.grade == before.grade == "C"
    assert len(after.calls) == 2


def test_a_result_that_failed_and_a_reply_to_nothing_known_stay(windlass: CommandLine) -> None:
    session = Session()
    session.answer("m1", call("t1", "ls"), usage=used(90, 5))
    session.user([result("t1", "no such file", is_error=True)])
    session.answer("m2", text("done"), usage=used(200))
    write_lines(windlass.folder / "s.jsonl", session.records)
    assert windlass("import", "s.jsonl").code == 0
    (before,) = recordings(windlass.folder / "s.jsonl")
    (after,) = _imported(windlass, "jsonl")
    assert before.messages[1].failed
    for then, now in zip(before.messages, after.messages, strict=True):
        assert (now.role, now.text, now.failed) == (then.role, then.text, then.failed)
        assert now.tool_calls == then.tool_calls
    assert after.usage == before.usage
    assert after.dollars == before.dollars


def test_a_run_of_windlass_is_exact_evidence(ran: CommandLine) -> None:
    assert {one.grade for one in _imported(ran, "jsonl")} == {"A"}


def test_markdown_is_readable_and_nothing_ends_a_fence(held: CommandLine) -> None:
    page = held("export", "latest").out
    assert page.startswith("# s-1\n")
    assert "imported from claude-code: a transcript" in page
    assert "### assistant · call 1 · 160 tokens in, 50 cached · 7 out · $0.00" in page
    assert "````text\nGo with" in page
    assert "`ls`" in page


def test_html_stands_alone_and_runs_nothing(held: CommandLine) -> None:
    page = held("export", "latest", "--as", "html").out
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;" in page
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    assert "<details><summary>3,028 characters" in page


@pytest.mark.parametrize(
    "form", ["openai", "anthropic", "markdown", "jsonl", "html", "otel-content"]
)
def test_credentials_are_taken_out(held: CommandLine, form: str) -> None:
    page = held("export", "latest", "--as", form, "--redact").out
    for secret in (SECRET, "hunter2", "tr0ub4dor3"):
        assert secret not in page
        assert secret in held("export", "latest", "--as", form).out
    assert "***" in page
    assert "fine x" in page


def test_a_run_of_a_cascade_is_exported_by_phase(ran: CommandLine) -> None:
    page = ran("export", "s1").out
    assert "## a\n" in page
    assert "## b\n" in page
    assert len(ran("export", "s1", "--as", "jsonl").out.splitlines()) == 3


def test_an_unknown_form_or_session_is_one_sentence(ran: CommandLine) -> None:
    said = ran("export", "s1", "--as", "htm")
    assert (said.code, "did you mean 'html'" in said.complaint) == (2, True)
    assert ran("export", "nobody").code == 2
