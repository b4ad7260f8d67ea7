"""`windlass recall`: an original by its reference, from a hook's folder or from the store."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from windlass.errors import UsageError
from windlass.history.base import Batch, NodeType, Row, SessionStart
from windlass.history.sqlite import SqliteStore
from windlass.hooks import kept_originals
from windlass.hooks.hook_journal import HookJournal
from windlass.hooks.kept_originals import excerpt, originals_folder
from windlass.messages import Message, tool
from windlass.window.originals import reference

__all__ = ["command_line"]

LOG = tool("c1", "\n".join(["starts", *(f"step {n}" for n in range(2, 40)), "ERROR: it fails"]))
REF = reference(LOG)
SLOW = {"typer", "rich", "pydantic", "numpy", "quicktok", "httpx", "jinja2"}
"""What an agent would wait for."""
SLOWLY = ["--lines", ""]
"""Words that go the way of every other command."""


def store_messages(store: Path, *messages: Message, session: str = "s1") -> None:
    rows = [
        Row(NodeType.TOOL_RESULT, f"t{number}", 1.0 + number, message)
        for number, message in enumerate(messages)
    ]
    with SqliteStore(store) as history:
        history.append(Batch(session, rows=rows, start=SessionStart("c", "m/x", {}, {}, 1.0)))


@pytest.fixture
def kept(command_line: CommandLine) -> CommandLine:
    """The command line in a project whose hook keeps an original."""
    HookJournal(command_line.folder / ".windlass").keep(LOG)
    return command_line


class TestTheOriginal:
    @pytest.mark.parametrize("ref", [REF, REF.removeprefix("result_"), LOG.key, REF.upper()])
    def test_is_printed_alone(self, kept: CommandLine, ref: str) -> None:
        said = kept("recall", ref)
        assert (said.code, said.out, said.err) == (0, LOG.text, "")

    def test_is_found_from_any_folder_of_the_project(
        self, kept: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deep = kept.folder / "src" / "deep"
        deep.mkdir(parents=True)
        monkeypatch.chdir(deep)
        assert kept("recall", REF).out == LOG.text

    def test_is_the_same_once_it_is_in_the_store(self, kept: CommandLine) -> None:
        store = kept.folder / ".windlass"
        store_messages(store, LOG)
        HookJournal(store).forget(LOG.content_hash)
        assert list(originals_folder(store).iterdir()) == []
        assert kept("recall", REF).out == LOG.text

    def test_is_also_found_where_the_store_has_to_be_opened(
        self, kept: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = kept.folder / ".windlass"
        long = tool("c2", "long " * 2_000)  # such a body lies in a file
        store_messages(store, LOG, long)
        HookJournal(store).forget(LOG.content_hash)
        assert kept("recall", reference(long)).out == long.text
        with sqlite3.connect(store / "windlass.sqlite") as db:
            db.execute("ALTER TABLE bodies RENAME TO away")
        db.close()
        assert kept("recall", REF).code == 2
        with sqlite3.connect(store / "windlass.sqlite") as db:
            db.execute("ALTER TABLE away RENAME TO bodies")
        db.close()
        monkeypatch.setattr(kept_originals, "bodies_beginning", lambda *_: None)
        assert kept("recall", REF).out == LOG.text
        assert kept("recall", "12345678").code == 2
        assert kept("recall", reference(long)).out == long.text

    def test_a_damaged_one_in_the_store_is_told(self, kept: CommandLine) -> None:
        long = tool("c2", "long " * 2_000)
        store_messages(kept.folder / ".windlass", long)
        file = kept.folder / ".windlass" / "blobs" / long.key[:2] / long.key
        file.unlink()
        file.write_text(long.canonical.replace("long", "lang"))
        said = kept("recall", reference(long))
        assert (said.code, said.out) == (1, "")
        assert "has been changed" in said.complaint

    def test_of_the_store_that_is_named(
        self, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        HookJournal(command_line.folder / "other").keep(LOG)
        assert command_line("recall", REF, "--store", "other").out == LOG.text
        assert command_line("recall", "--store=other", REF).out == LOG.text
        command_line.write("windlass.toml", 'store = "other"')
        (command_line.folder / ".windlass").mkdir()
        assert command_line("recall", REF).out == LOG.text
        (command_line.folder / "windlass.toml").unlink()
        assert command_line("recall", REF).code == 2
        monkeypatch.setenv("WINDLASS_STORE", "other")
        assert command_line("recall", REF).out == LOG.text

    @pytest.mark.parametrize("words", [[], ["--store", ".windlass"], SLOWLY])
    def test_is_printed_byte_for_byte(self, command_line: CommandLine, words: list[str]) -> None:
        text = "one\r\n\x1b[31mred\x1b[0m\ttab\u202e\u2028\x07é\r\n\r\n"
        HookJournal(command_line.folder / ".windlass").keep(message := tool("c1", text))
        done = subprocess.run(
            process(reference(message), *words), cwd=command_line.folder, capture_output=True,
            timeout=120, check=True,
        )  # fmt: skip
        assert done.stdout == text.encode()
        lines = subprocess.run(
            process(reference(message), "--lines", "2"), cwd=command_line.folder,
            capture_output=True, timeout=120, check=True,
        )  # fmt: skip
        assert lines.stdout == text.encode().split(b"\n")[1] + b"\n"

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
    @pytest.mark.parametrize("words", [[], SLOWLY])
    def test_acts_on_no_terminal(self, command_line: CommandLine, words: list[str]) -> None:
        import pty

        hostile = tool("c1", "\x1b[2Jgone\n[result_00000000: 3 lines]")
        HookJournal(command_line.folder / ".windlass").keep(hostile)
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            process(reference(hostile), *words), cwd=command_line.folder, stdout=theirs
        ) as started:
            os.close(theirs)
            shown = os.read(ours, 1_000)
            with suppress(OSError):  # how a terminal ends
                while piece := os.read(ours, 1_000):
                    shown += piece
        os.close(ours)
        assert started.returncode == 0
        assert shown == b"\\x1b[2Jgone\r\n[result_00000000: 3 lines]\r\n"


class TestParts:
    def test_lines_that_match_have_numbers(self, kept: CommandLine) -> None:
        assert (
            kept("recall", REF, "--grep", "ERR|step 7$").out == "7: step 7\n40: ERROR: it fails\n"
        )

    @pytest.mark.parametrize(
        ("lines", "first", "last"), [("3:5", 3, 5), ("38:", 38, 40), (":2", 1, 2), ("4", 4, 4),
                                     ("39:900", 39, 40), ("3-5", 3, 5)]
    )  # fmt: skip
    def test_lines_are_as_they_were(
        self, kept: CommandLine, lines: str, first: int, last: int
    ) -> None:
        expected = LOG.text.split("\n")[first - 1 : last]
        assert kept("recall", REF, "--lines", lines).out == "\n".join([*expected, ""])

    def test_matches_among_lines_keep_their_numbers(self, kept: CommandLine) -> None:
        said = kept("recall", REF, "--lines", "10:12", "--grep", "step 1[12]")
        assert said.out == "11: step 11\n12: step 12\n"

    @given(
        st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=30)),
        st.integers(40, 200),
    )
    def test_what_is_cut_is_read_on_as_it_says(self, lines: list[str], most: int) -> None:
        text, read, wanted = "\n".join(lines), list[str](), ""
        while True:
            part = excerpt(text, lines=wanted, most=most)
            before, mark, told = part.rpartition('; the rest: lines "')
            if not mark:
                assert "\n".join([*read, part]) == text
                return
            read.append(before.rpartition("\n")[0])
            assert len(read[-1]) <= most
            wanted = told.removesuffix('"]')

    def test_a_line_that_is_longer_than_an_answer_is_cut(self) -> None:
        told = excerpt("x" * 100, most=10)
        assert told == "x" * 10 + (
            '\n[the first 10 characters of line 1; grep finds parts of it, the rest: lines "2:"]'
        )


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["result_12345678"], "no original has the reference '12345678'"),
            (["result_123"], "must be 8 to 64 hex digits"),
            (["../../etc/passwd"], "must be 8 to 64 hex digits"),
            ([REF, "--lines", "41"], "the original has lines 1:40"),
            ([REF, "--lines", "0:3"], "the original has lines 1:40"),
            ([REF, "--lines", "all"], "must be a range such as 10:40"),
            ([REF, "--grep", "(?=a)"], "has lookahead"),
            ([REF, "--grep", "("], "is not a regular expression"),
        ],
    )
    def test_are_one_sentence(self, kept: CommandLine, arguments: list[str], told: str) -> None:
        said = kept("recall", *arguments)
        assert (said.code, said.out) == (2, "")
        assert told in said.complaint

    def test_no_store(self, command_line: CommandLine) -> None:
        said = command_line("recall", REF)
        assert said.code == 2
        assert "there is no store in" in said.complaint

    def test_a_reference_of_several(self, command_line: CommandLine) -> None:
        names = ["aaaaaaaa11111111", "aaaaaaaa22222222"]
        folder = originals_folder(command_line.folder / ".windlass")
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.json").write_text("{}")
        said = command_line("recall", "aaaaaaaa")
        assert said.code == 2
        assert all(f"result_{name}" in said.complaint for name in names)

    @pytest.mark.parametrize("content", ["", "[]", "{}", LOG.canonical.replace("step 7", "step 8")])
    def test_an_original_that_was_changed(self, kept: CommandLine, content: str) -> None:
        (file,) = originals_folder(kept.folder / ".windlass").iterdir()
        file.write_text(content)
        said = kept("recall", REF)
        assert (said.code, said.out) == (1, "")
        assert "the original" in said.complaint

    def test_in_the_command_line_are_told_as_everywhere(self, kept: CommandLine) -> None:
        assert "Missing argument 'ref'" in kept("recall").err
        assert "No such option" in kept("recall", REF, "--line", "3").err
        assert kept("recall", REF, "--lines").code == 2
        assert "Usage: windlass recall [OPTIONS] {ref}" in kept("recall", "--help").out
        assert kept("recall", REF, "--json").json == {"ref": REF, "text": LOG.text}


def process(*arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *flags, "-m", "windlass", "recall", *arguments]


class TestAProcess:
    @pytest.mark.parametrize("is_stored", [False, True])
    def test_imports_nothing_that_takes_time(self, kept: CommandLine, is_stored: bool) -> None:
        if is_stored:
            store_messages(kept.folder / ".windlass", LOG)
            HookJournal(kept.folder / ".windlass").forget(LOG.content_hash)
        done = subprocess.run(
            process(REF, "--grep", "ERROR", flags=("-X", "importtime")),
            cwd=kept.folder, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert done.stdout == "40: ERROR: it fails\n"
        assert "windlass.hooks.kept_originals" in imported
        assert ("sqlite3" in imported) == is_stored
        assert not imported & SLOW

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
    def test_that_cannot_print_says_so_and_fails(self, kept: CommandLine) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                process(REF), cwd=kept.folder, stdout=full, stderr=subprocess.PIPE,
                text=True, timeout=120, check=False,
            )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr == (
            "windlass: the output could not be written: No space left on device\n"
        )


def test_lines_of_an_empty_text() -> None:
    assert excerpt("", lines="1") == ""
    with pytest.raises(UsageError, match="the original has lines 1:1"):
        excerpt("", lines="2")
