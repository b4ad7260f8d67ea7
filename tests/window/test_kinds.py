"""What a result is, and what its call read or wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from windlass.messages import ToolCall
from windlass.window.kinds import (
    END,
    KINDS,
    NOTHING,
    Facts,
    FileAccess,
    Lines,
    arguments_of,
    file_access,
    kind_of,
    look_of,
)


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("call_1", name, json.dumps(arguments))


def bash(command: str) -> ToolCall:
    return call("bash", command=command)


NUMBERED = "\n".join(f"{at}: line" for at in range(1, 20))
BUILT = "Collecting a\nDownloading a-1.0.tar.gz\nInstalling a\n" * 20
NODES = 'uid=1_0 RootWebArea "Harbour"\n  uid=1_1 link "Tides"\n  uid=1_2 button "Go"'


class TestKindOf:
    @pytest.mark.parametrize(
        ("made", "text", "kind"),
        [
            (call("read_file", path="a.py"), '{"a": 1}', "file"),
            (call("Read", file_path="/a.py"), "x", "file"),
            (call("mcp__files__read_text_file", path="a"), "x", "file"),
            (call("web_search", query="q"), "1. a\n2. b", "search"),
            (call("Grep", pattern="q"), "a.py:1: q", "search"),
            (call("Glob", pattern="*"), "a.py\nb.py", "listing"),
            (call("WebFetch", url="u"), "words", "api"),
            (call("run_sql", query="q"), "a | b\n1 | 2\n3 | 4", "table"),
            (call("get_order_details", order_id="#W1"), '{"order_id": "#W1"}', "json"),
            (bash("cat data.json"), '{"a": 1}', "file"),
            (bash("sed -n '1,5p' a.py"), "x", "file"),
            (bash("grep -rn foo . | head"), "a:1:foo", "search"),
            (bash("cd src && ls -la"), "total 3", "listing"),
            (bash("git diff HEAD~1"), "x", "diff"),
            (bash("git log --oneline"), "x", "log"),
            (bash("python run.py"), '{"a": 1}', "command"),
            (bash("python run.py"), "diff --git a b", "diff"),
            (call("submit", command="ls -F"), "a/\nb/", "listing"),
            (call("write_stdin", session_id=1, chars=""), NUMBERED, "command"),
            (call("TaskOutput", task_id="b1"), "<status>done</status>\n<a>\n<b>", "command"),
            (call("read_process_output", pid=7), "a\nb c\nd", "command"),
            (call("mcp__ide__getTerminalOutput", id=1), BUILT, "build"),
            (call("start_process", command="cat a.py"), "x", "file"),
            (call("execute_in_terminal", command="npm test"), "x", "test"),
            (call("list_console_messages"), "10:00:00 a\n10:00:01 b\n10:00:02 c", "log"),
            (call("process_refund", order="#1"), "Refunded.", "text"),
            (call("computer", action="screenshot"), "screen 1280 x 800", "page"),
            (call("mcp__playwright__browser_click", ref="e3"), NUMBERED, "page"),
            (call("mcp__chrome-devtools__take_snapshot"), NODES, "page"),
            (call("puppeteer_evaluate", script="cat(x)"), "x", "page"),
            (call("click", command="Click [33]"), "[0]: a", "page"),
            (call("browser_network_requests"), '[{"url": "/a"}]', "json"),
            (call("mcp__browser__read_file", path="a"), "x", "file"),
            (None, "diff --git a/x b/x\n", "diff"),
            (None, "words and more words", "text"),
        ],
    )
    def test_by_tool_command_and_look(self, made: ToolCall | None, text: str, kind: str) -> None:
        assert kind_of(made, text) == kind

    def test_what_is_declared_goes_first(self) -> None:
        assert kind_of(call("read_file", path="a"), "x", Facts(kind="table")) == "table"
        assert kind_of(call("read_file", path="a"), "x", Facts(kind="unheard-of")) == "file"

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ('{"a": 1}', "json"),
            ('[{"a": 1}]', "json"),
            ("[not json]", "text"),
            ("2024-05-01 10:00:00 INFO a\n" * 5, "log"),
            ("src/a.py\nsrc/b.py\nREADME.md\nsetup.cfg", "listing"),
            ("a.py:1:x = 1\nb.py:20:y\nc/d.py:3:z", "search"),
            ("     1→a\n     2→b\n     3→c", "file"),
            ("a,b,c\n1,2,3\n4,5,6", "table"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", "diff"),
            ("", "text"),
        ],
    )
    def test_look(self, text: str, kind: str) -> None:
        assert look_of(text) == kind

    @given(strategies.tool_calls(), strategies.rough_texts())
    def test_anything_has_a_kind(self, made: ToolCall, text: str) -> None:
        assert kind_of(made, text) in KINDS
        file_access(made)


class TestTouched:
    @pytest.mark.parametrize(
        ("made", "told"),
        [
            (call("read_file", path="a"), FileAccess(Lines("a"))),
            (call("read_file", path="a", start_line=3, end_line=9), FileAccess(Lines("a", 3, 9))),
            (call("Read", file_path="a", offset=10, limit=5), FileAccess(Lines("a", 10, 14))),
            (call("view", path="a", view_range=[2, -1]), FileAccess(Lines("a", 2))),
            (
                call("str_replace_editor", command="view", path="a", view_range=[2, 4]),
                FileAccess(Lines("a", 2, 4)),
            ),
            (
                call("str_replace_editor", command="create", path="a"),
                FileAccess(writes="a", whole=True),
            ),
            (call("Edit", file_path="a", old_string="x"), FileAccess(writes="a")),
            (call("write_file", path="a", text="x"), FileAccess(writes="a", whole=True)),
            (bash("cat a/b.py"), FileAccess(Lines("a/b.py"))),
            (bash("cd /x && cat b.py"), FileAccess(Lines("/x/b.py"))),
            (bash("nl -ba a.py | sed -n '600,650p'"), FileAccess(Lines("a.py", 600, 650))),
            (bash("sed -n '5,$p' a.py"), FileAccess(Lines("a.py", 5, END))),
            (bash("head -n 20 a.py"), FileAccess(Lines("a.py", 1, 20))),
            (bash("head -5 a.py"), FileAccess(Lines("a.py", 1, 5))),
            (bash("cat <<'EOF' > a.py\nx\nEOF"), FileAccess(writes="a.py", whole=True)),
            (bash("cat >> a.py <<EOF\nx\nEOF"), FileAccess(writes="a.py")),
            (bash("sed -i 's/a/b/' a.py"), FileAccess(writes="a.py")),
            (bash("echo x > a.py"), FileAccess(writes="a.py", whole=True)),
        ],
    )
    def test_plain_shapes(self, made: ToolCall, told: FileAccess) -> None:
        assert file_access(made) == told

    @pytest.mark.parametrize(
        "command",
        [
            "cat a b",
            "cat *.py",
            "tail -n 5 a.py",
            "cat a.py; cat b.py",
            "cat a.py | grep x",
            "sed 's/a/b/' a.py",
            "python -c 'open(\"a.py\")'",
            "cat 'open quote",
            "x" * 3_000,
        ],
    )
    def test_what_is_not_plain_reads_nothing_known(self, command: str) -> None:
        assert file_access(bash(command)) == NOTHING

    def test_as_declared(self) -> None:
        facts = Facts(reads="where")
        assert file_access(call("peek", where="k", limit=3), facts) == FileAccess(Lines("k", 1, 3))
        assert file_access(call("poke", where="k"), Facts(writes="where")) == FileAccess(writes="k")
        assert file_access(call("peek", where=3), facts) == NOTHING
        assert file_access(None) == NOTHING
        assert file_access(ToolCall("1", "read_file", "no json")) == NOTHING

    @given(st.text())
    def test_any_command_is_read(self, command: str) -> None:
        file_access(bash(command))
        kind_of(bash(command), "x")


@given(st.integers(3, 30), st.integers(0, 30))
def test_a_look_bears_three_strange_lines_of_ten(count: int, strange: int) -> None:
    lines = ["12:30:01 up"] * count + ["else"] * strange
    seen = lines[-20:]
    known = seen.count("12:30:01 up") >= 0.7 * len(seen)
    assert (look_of("\n".join(seen)) == "log") == known


def test_arguments_that_are_no_object_are_none() -> None:
    assert arguments_of(call("peek", path="a")) == {"path": "a"}
    assert [arguments_of(ToolCall("c", "peek", text)) for text in ("", "[1]", "{")] == [{}, {}, {}]


@pytest.mark.parametrize(
    "command",
    [
        "sed -n '1,80p' a.py && sed -n '10,20p' b.py && wc -l a.py",
        "cd src; ls; cat a.py || echo none",
        "for f in a b; do head -40 $f.py; done; date",
        "git log -3 && git show HEAD~2:src/a.py",
    ],
)
def test_a_chain_of_readers_is_a_read(command: str) -> None:
    call = ToolCall("c", "bash", json.dumps({"command": command}))
    assert kind_of(call, "import os\n" * 40) == "file"


def test_a_reader_in_a_call_of_code_is_a_read() -> None:
    code = 'const r = await exec_command({"cmd": "sed -n 1,80p a.py && nl b.py"}); text(r)'
    assert kind_of(ToolCall("c", "run_code", json.dumps({"code": code})), "x = 1\n" * 9) == "file"


@pytest.mark.parametrize("command", ["make | head -40", "./run.sh && ./cat_all", "cat <<E\nx\nE\n"])
def test_what_prints_other_things_is_no_read(command: str) -> None:
    call = ToolCall("c", "bash", json.dumps({"command": command}))
    assert kind_of(call, "all is well here\n" * 40) != "file"


def test_what_only_looks_like_a_file_is_one_if_its_numbers_rise() -> None:
    call = ToolCall("c", "bash", json.dumps({"command": "./lint.sh"}))
    rising = "\n".join(f"{at:4}: x = {at}" for at in range(30))
    places = "\n".join(f"{at * 37 % 91:4}:{at % 9} warning  no-any" for at in range(30))
    assert kind_of(call, rising) == "file"
    assert kind_of(call, places) != "file"
