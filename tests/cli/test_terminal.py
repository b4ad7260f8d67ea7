"""Nothing that a model, a tool or a file says acts on the terminal, in any command."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import CommandLine
from tests.engine.harness import call, calls, cascade, phase
from tests.replays.making import call as searched
from tests.replays.making import request_log
from tests.support.cli_terminal import ACTS, BAD, COMMANDS, NAME, WAYS
from tests.tasks.making import atomic
from windlass.cli.output import Screen, print_json
from windlass.cli.standard_streams import Escaping
from windlass.engine.cards import card_queue
from windlass.messages import Message
from windlass.safety.escaping import escaped, escaped_json

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def acting(text: str) -> set[str]:
    """The characters of a text on which a terminal acts, by what Unicode says of them."""
    return {
        char
        for char in text
        if (unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} and char not in "\n\t")
        or unicodedata.bidirectional(char) in _TURNS
        or char in "\u061c\u200e\u200f"
    }


KEY = "k\x7f\x9b\u202e[bold]"


@pytest.fixture
def hostile(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder and a store in which every text acts on a terminal."""
    monkeypatch.setattr(card_queue, "DRAIN_S", 60.0)
    windlass.write(
        "bad.json",
        cascade(
            phase(NAME, tackle=["set_state", "read_file", "remember"], memory="notes"),
            phase(f"{NAME}2", callouts={KEY: "mine"}, context={"from": [NAME]}),
            auto_context=True,
            cascade_id=NAME,
            system=BAD,
        ),
    )
    windlass.write("wrong.json", json.dumps({BAD: 1, "phases": [{"name": BAD}]}))
    windlass.write("rows.csv", f"{NAME}\n{NAME}\n")
    windlass.write(f"{NAME}.csv", f"{NAME}\n{NAME}\n{NAME}\n")
    windlass.write(f"{NAME}.jsonl", f"{BAD}\n")
    windlass.write("bad.xml", atomic("a", asks=f"Do {NAME}"))
    windlass.write("windlass.toml", f"price_as = {json.dumps('openai/gpt-4o')}\n")
    for folder in ("texts", "damaged", NAME):
        (windlass.folder / folder).mkdir()
    (windlass.folder / "texts" / f"{NAME}.txt").write_text(f"deploy {BAD}")
    (windlass.folder / "damaged" / "windlass.sqlite").write_bytes(b"no database " + ACTS.encode())
    said = {
        "id": BAD,
        "role": "assistant",
        "model": BAD,
        "content": [{"type": BAD}, {"type": "text", "text": BAD}],
    }
    log = [{"type": BAD}, {"type": "assistant", "sessionId": BAD, "message": said}]
    windlass.write("log.jsonl", "\n".join(map(json.dumps, log)))
    asked = calls(
        call("set_state", json.dumps({"key": KEY, "value": BAD})),
        call("read_file", json.dumps({"path": BAD})),
        call("remember", json.dumps({"text": f"deploy {BAD}", "bank": "notes", "key": KEY})),
        call(f"tool{ACTS}", json.dumps({"x": BAD})),
        call("set_state", BAD),
        text=BAD,
    )
    result = {"role": "tool", "tool_call_id": "call_0", "content": BAD * 50}
    talk = [{"role": "user", "content": BAD}, searched(0, query=BAD), result]
    for number in range(10):
        talks = windlass.folder / "talks" / f"{number}{NAME}.jsonl"
        request_log(talks, [*talk, {"role": "assistant", "content": f"{BAD}{number}"}])
    replies: Iterator[Message | str] = cycle([asked, f"said {BAD}", f"done {BAD} " * 100])
    windlass.script = lambda _: next(replies)
    return windlass


@pytest.fixture
def spoken(hostile: CommandLine) -> CommandLine:
    ran = hostile("run", "bad.json", "--session", f"s{BAD}")
    assert ran.code == 0, ran.err
    _check(ran.out, ran.err)
    assert "\\x1b" in ran.err
    assert "[bold]b[/bold]" in ran.out
    return hostile


def _check(out: str, err: str) -> None:
    assert acting(out) == set()
    assert acting(err) == set()
    assert "Traceback" not in err
    assert "😄" not in out + err


def test_every_command_has_its_ways() -> None:
    assert COMMANDS.keys() == WAYS.keys()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_command_lets_contents_act_on_the_terminal(
    spoken: CommandLine, path: tuple[str, ...]
) -> None:
    sql = "SELECT key FROM bodies WHERE body LIKE '%link=http%' LIMIT 1"
    (body,) = spoken("query", sql, "--json").json
    names = {"S": f"s{BAD}", "K": " ".join(KEY.split()), "R": body["key"]}
    takes_json = any("--json" in one.opts for one in COMMANDS[path].params)
    if path == ("recall",):  # elsewhere it prints an original byte for byte
        spoken.patch.setattr("sys.stdout.isatty", lambda: True)
    for number, way in enumerate(WAYS[path]):
        spoken.patch.setattr("sys.stdin", io.StringIO(f"say {BAD}\n/cost\n/show 1\n/{BAD}\n"))
        arguments = [names.get(word, word) for word in way]
        said = spoken(*path, *arguments)
        _check(said.out, said.err)
        assert said.code in ((0, 1, 2, 3) if number else (0,)), said.err  # the first is a right one
        assert not said.code or "windlass: " in said.err, (arguments, said.out)
        if not takes_json:
            continue
        said = spoken(*path, *arguments, "--json")
        _check(said.out, said.err)
        if said.out:
            json.loads(said.out)


@pytest.mark.parametrize("flags", [["--no-such-flag" + ACTS], [f"no-such{ACTS}"]])
def test_nor_does_what_was_typed(windlass: CommandLine, flags: list[str]) -> None:
    said = windlass(*flags)
    assert said.code == 2
    _check(said.out, said.err)
    assert "\\x1b" in said.err


def test_json_parses_back_to_what_was_said(spoken: CommandLine) -> None:
    said = spoken("show", f"s{BAD}", "--json")
    view = said.json
    assert view["session_id"] == f"s{BAD}"
    assert view["calls"][0]["reply"]["content"] == BAD
    assert "\\u001b" in said.out
    (row,) = spoken("query", f"SELECT '{BAD}' AS x", "--json").json
    assert row == {"x": BAD}


def test_tables_stay_in_line(spoken: CommandLine) -> None:
    said = spoken("query", f"SELECT '{NAME}' AS one, 'X1' AS two UNION ALL SELECT 'y', 'X2'")
    head, *rows = said.out.splitlines()[:3]
    assert [row.index(cell) for row, cell in zip(rows, ("X1", "X2"), strict=True)] == [
        head.index("two")
    ] * 2


class TestEscaping:
    @given(st.text())
    def test_leaves_nothing_that_acts_and_all_else(self, text: str) -> None:
        assert acting(escaped(text)) == set()
        if not acting(text):
            assert escaped(text) == text

    @given(st.text(st.characters(exclude_categories=[])) | st.dictionaries(st.text(), st.text()))
    def test_json_says_the_same(self, value: Any) -> None:
        told = escaped_json(json.dumps(value, ensure_ascii=False))
        assert acting(told) == set()
        assert json.loads(told) == value

    def test_is_written_as_python_writes_it(self) -> None:
        assert escaped("a\x1b[0m\u202e\tb\n") == "a\\x1b[0m\\u202e\tb\n"

    def test_names_and_emoji_stay(self) -> None:
        for text in ("Łódź", "שלום", "می‌خواهم", "👨‍👩‍👧"):
            assert escaped(text) == text

    def test_a_stream_is_one(self) -> None:
        beneath = io.StringIO()
        stream = Escaping(beneath)
        print(ACTS, file=stream)
        stream.writelines([ACTS, "\n"])
        click.echo(ACTS, file=stream)  # type: ignore[arg-type]
        assert acting(beneath.getvalue()) == set()
        assert beneath.getvalue().count("mine") == 3

    def test_also_one_that_takes_ascii_only(self) -> None:
        beneath = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
        click.echo(ACTS, file=Escaping(beneath))  # type: ignore[arg-type]
        beneath.seek(0)
        assert "\\x9b2J" in beneath.read()


class TestOnATerminal:
    @pytest.fixture
    def screen(self) -> Screen:
        return Screen(file=io.StringIO(), force_terminal=True, color_system="standard", width=400)

    def _shown(self, screen: Screen) -> str:
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue()

    @pytest.mark.parametrize("style", ["", "bold red"])
    def test_only_our_own_styles_act(self, screen: Screen, style: str) -> None:
        screen.print(f"a {BAD} b", style=style)
        shown = self._shown(screen)
        before, after = ("\x1b[1;31m", "\x1b[0m") if style else ("", "")
        assert shown == f"{before}a {escaped(BAD)} b{after}\n"

    def test_also_where_rich_is_handed_more_than_text(self, screen: Screen) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=BAD)
        table.add_column(BAD)
        table.add_row(BAD)
        table.add_row(Text(BAD))
        screen.print(table)
        screen.print(Text(BAD), [BAD])
        screen.rule(BAD)
        shown = self._shown(screen)
        for code in ("\x1b[3m", "\x1b[1m", "\x1b[0m", "\x1b[1;3m", "\x1b[92m"):
            shown = shown.replace(code, "")
        assert acting(shown) == set()

    def test_cursor_codes_of_our_own_go_through(self, screen: Screen) -> None:
        from rich.control import Control

        screen.control(Control.home())
        assert self._shown(screen) == "\x1b[H"

    def test_the_cursor_is_never_hidden(self, screen: Screen) -> None:
        screen.show_cursor(show=False)  # a process that is killed could not show it again
        assert not self._shown(screen)


def test_print_json_needs_no_stream_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({BAD: BAD})
    out = capsys.readouterr().out
    assert acting(out) == set()
    assert json.loads(out) == {BAD: BAD}
