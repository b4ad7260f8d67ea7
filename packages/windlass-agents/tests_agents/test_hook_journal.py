"""The journal of a hook: lines as they were written, originals under their own hash."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import ALL_CHARACTERS
from tests.support.hooks_events import kept

from windlass.errors import StoreError, UsageError
from windlass.messages import Message, ToolCall, tool
from windlass_agents.hook_journal import HookJournal, HookLine

LINE = HookLine(1_000.0, "plain", "s1", "c1", "bash", "whole")
TEXT = st.text(ALL_CHARACTERS, max_size=20)
LINES = st.builds(
    HookLine,
    st.floats(0, 4e9),
    st.just("plain"),
    st.just("s1"),
    *[TEXT] * 2,
    st.sampled_from(["shortened", "whole", "held out", "error"]),
    *[TEXT] * 3,
    st.booleans(),
    original=TEXT,
    shown=TEXT,
    tokens_before=st.integers(0),
    tokens_after=st.integers(0),
)


def result(text: str) -> Message:
    return tool(ToolCall("c1", "bash", "{}"), text)


@given(st.lists(LINES, max_size=4))
def test_lines_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[HookLine]
) -> None:
    journal = HookJournal(tmp_path_factory.mktemp("store"))
    for line in lines:
        journal.write(line)
    last = {
        (line.thread, line.call_id) if line.call_id else at: line for at, line in enumerate(lines)
    }
    assert list(journal.lines("plain", "s1")) == list(last.values())


def test_a_line_of_nothing_special_is_read_again(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    journal.write(LINE)
    assert list(journal.lines("plain", "s1")) == [LINE]
    assert list(journal.lines("plain", "another")) == []


def test_what_is_written_is_the_owners_alone(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path / "store")
    journal.keep(result("one"))
    journal.write(LINE)
    for path in (tmp_path / "store").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_damaged_line_is_left_out_and_unknown_fields_are_too(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    journal.write(LINE)
    path = journal.folder / "plain" / "s1.jsonl"
    whole = path.read_bytes()
    later = whole.replace(b"{", b'{"invented": 1, ')
    path.write_bytes(b"".join([b"[]\n", b"\xff\n", b"{}\n", b"3\n", whole[:30], b"\n", later]))
    assert list(journal.lines("plain", "s1")) == [LINE]


@pytest.mark.parametrize("name", ["../../escape", "a/b", "", ".", "x" * 400, "é\0", "CON"])
def test_a_session_of_any_name_lies_in_the_folder(tmp_path: Path, name: str) -> None:
    journal = HookJournal(tmp_path / "store")
    line = replace(LINE, session=name)
    journal.write(line)
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.parent == journal.folder / "plain"
    assert list(journal.lines("plain", name)) == [line]
    assert list(journal.sessions()) == [("plain", name)]


def test_sessions_are_told_the_last_first(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    for at, (agent, session) in enumerate([("plain", "a"), ("opencode", "b"), ("plain", "c")]):
        journal.write(replace(LINE, agent=agent, session=session))
        os.utime(journal.folder / agent / f"{session}.jsonl", (at, at))
    (journal.folder / "plain" / "link.jsonl").symlink_to(journal.folder / "plain" / "a.jsonl")
    (journal.folder / "plain" / "empty.jsonl").touch()
    assert list(journal.sessions()) == [("plain", "c"), ("opencode", "b"), ("plain", "a")]


@given(st.text(ALL_CHARACTERS))
def test_an_original_is_what_came_in(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    journal = HookJournal(tmp_path_factory.mktemp("store"))
    original = result(text)
    journal.keep(original)
    assert kept(journal, original.content_hash) == original
    assert kept(journal, f"result_{original.content_hash[:8]}") == original


def test_a_file_that_holds_something_else_is_no_original(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    original, other = result("one"), result("another")
    journal.keep(original)
    path = journal.folder / "originals" / f"{original.content_hash}.json"
    for content in (other.canonical, "{", "[]", '{"role": "tool"}', "\ud800"):
        path.write_bytes(content.encode(errors="surrogatepass"))
        with pytest.raises(StoreError):
            kept(journal, original.content_hash)
        journal.keep(original)
        assert kept(journal, original.content_hash) == original


def test_an_original_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path / "store")
    original = result("one")
    journal.keep(original)
    path = journal.folder / "originals" / f"{original.content_hash}.json"
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    journal.keep(original)
    assert not path.is_symlink()
    assert kept(journal, original.content_hash) == original


def test_what_is_kept_is_kept_once_until_it_is_forgotten(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    original = result("one")
    journal.keep(original)
    (path,) = journal.folder.rglob("*.json")
    before = path.stat().st_mtime_ns
    journal.keep(original)
    assert path.stat().st_mtime_ns == before
    journal.forget(original.content_hash)
    journal.forget(original.content_hash)
    with pytest.raises(UsageError):
        kept(journal, original.content_hash)


def test_half_a_line_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        HookJournal(tmp_path).write(LINE)


def test_a_line_is_not_written_through_a_link(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path / "store")
    journal.write(LINE)
    path = journal.folder / "plain" / "s1.jsonl"
    path.unlink()
    path.symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="link"):
        journal.write(LINE)
    assert not (tmp_path / "target").exists()


def test_every_field_of_a_line_is_said_where_it_is_not_usual(tmp_path: Path) -> None:
    journal = HookJournal(tmp_path)
    full = HookLine(
        *(1.0, "plain", "s1", "c", "b", "error", "t", "x", "d"),
        cut=True,
        folder="f",
        redacted=True,
        original="y",
        shown="z",
        tokens_before=1,
        tokens_after=2,
        refers="r",
    )
    assert all(getattr(full, one.name) != one.default for one in fields(HookLine))
    journal.write(full)
    assert list(journal.lines("plain", "s1")) == [full]
