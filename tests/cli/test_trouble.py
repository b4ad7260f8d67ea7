"""What a person gets wrong, and what fails: one sentence, the right exit code, no traceback."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase, without_steps
from windlass.errors import ProviderError, StoreError
from windlass.history.base import NodeType
from windlass.history.sqlite import SqliteStore
from windlass.wire.openai import check_sequence
from windlass_local import LocalProvider

GOOD = cascade(phase("a"))


class TestTheUsersMistakes:
    """Exit code 2."""

    @pytest.mark.parametrize(
        ("name", "text", "told"),
        [
            ("c.json", '{"cascade_id": "c", "phases": [', "c.json:1"),
            ("c.json", "", "the file is empty"),
            ("c.json", "[1]", "expected an object at the top"),
            ("c.yaml", "cascade_id: c\nphases: [unclosed\n", "c.yaml:"),
            ("c.yaml", "cascade_id: {{ x }}\n", "c.yaml:"),
            ("c.txt", "{}", "must end in .json or .yaml"),
        ],
    )
    @pytest.mark.parametrize("command", ["run", "check"])
    def test_files_that_are_no_cascade(
        self, windlass: CommandLine, command: str, name: str, text: str, told: str
    ) -> None:
        said = windlass(command, windlass.write(name, text))
        assert said.code == 2
        assert told in said.complaint
        assert not Path(".windlass").exists()

    def test_bytes_that_are_no_utf8(self, windlass: CommandLine) -> None:
        Path("c.json").write_bytes(b'{"cascade_id": "\xff"}')
        said = windlass("run", "c.json")
        assert said.code == 2
        assert "not UTF-8" in said.complaint

    def test_a_missing_file_with_the_nearest(self, windlass: CommandLine) -> None:
        windlass.write("cascade.json", GOOD)
        said = windlass("run", "cascad.json")
        assert said.code == 2
        assert "did you mean 'cascade.json'?" in said.complaint

    @pytest.mark.parametrize(
        ("model", "told"),
        [
            ("smollm2", "names no provider"),
            ("lokal/smollm2", "did you mean 'local'?"),
            ("google/gemini", "is a vendor, not a provider here"),
        ],
    )
    def test_unknown_models(self, windlass: CommandLine, model: str, told: str) -> None:
        windlass.write("c.json", GOOD)
        said = windlass("run", "c.json", "--model", model)
        assert said.code == 2
        assert told in said.complaint
        assert not Path(".windlass").exists()

    def test_an_unknown_local_model(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass_local.LocalProvider", LocalProvider)
        windlass.write("c.json", GOOD)
        said = windlass("run", "c.json", "--model", "local/smolm2")
        assert said.code == 2
        assert "did you mean 'smollm2'?" in said.complaint

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ('{"a": ', "--input: not JSON"),
            ("nowhere.json", "neither JSON, key=value nor a file"),
            ("list.json", "must be an object, not list"),
            ("bad.json", "bad.json: not JSON"),
            ("bad.yaml", "bad.yaml:2: not valid YAML"),
            ("latin.json", "is not UTF-8"),
            ("x=@nowhere", "'nowhere' is neither"),
            (".", "neither JSON, key=value nor a file"),
            ("a\0b", "neither JSON, key=value nor a file"),
            ("{" + '"a":[' * 100_000, "--input: not JSON"),
            ('{"a":' * 50_000, "--input: the values are nested more than 100 levels deep"),
            ('{"a":' + "[" * 150 + "]" * 150 + "}", "are nested more than 100 levels deep"),
            ("a=" + "[" * 150 + "]" * 150, "are nested more than 100 levels deep"),
            ("bomb.yaml", "bomb.yaml:1: the file holds more than 100,000 values"),
            ("merged.yaml", "merged.yaml:1: the file holds more than 100,000 values"),
            ("deep.yaml", "the values are nested more than 100 levels deep"),
        ],
        ids=lambda text: text[:20].replace("\0", "0"),
    )
    def test_input_of_no_use(self, windlass: CommandLine, given: str, told: str) -> None:
        windlass.write("c.json", GOOD)
        windlass.write("list.json", "[1]")
        windlass.write("bad.json", "{'a': 1}")
        windlass.write("bad.yaml", "a: [1\nb: 2\n")
        bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
        windlass.write("bomb.yaml", "\n".join(bomb))
        merged = ["a0: &a0 {x: 1}"]
        merged += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
        windlass.write("merged.yaml", "\n".join(merged))
        windlass.write("deep.yaml", "a: " + "[" * 300 + "]" * 300)
        Path("latin.json").write_bytes('{"a": "Größe"}'.encode("latin-1"))
        said = windlass("run", "c.json", "--input", given)
        assert said.code == 2
        assert told in said.complaint

    def test_a_session_that_is_there_already(self, ran: CommandLine) -> None:
        said = ran("run", "two.json", "--session", "s1")
        assert said.code == 2
        assert "session 's1' is in the store already" in said.complaint
        assert len(ran("sessions", "--json").json) == 1

    @pytest.mark.parametrize(
        ("sql", "told"),
        [
            ("DELETE FROM log", "only one SELECT"),
            ("SELECT 1; SELECT 2", "only one SELECT can be run at a time"),
            ("SELECT * FROM unified_log", "did you mean 'unified_logs'"),
            ("SELECT tokens_inn FROM unified_logs", "did you mean 'tokens_in'"),
            ("SELEC 1", "only one SELECT"),
            ("SELECT (", "SQLite refuses"),
            ("PRAGMA user_version = 9", "only one SELECT"),
            ("", "only one SELECT"),
        ],
    )
    def test_queries_that_are_none(self, ran: CommandLine, sql: str, told: str) -> None:
        said = ran("query", sql)
        assert said.code == 2
        assert told in said.complaint

    @pytest.mark.parametrize(
        "command",
        [
            ["sessions"],
            ["show", "s"],
            ["query", "SELECT 1"],
            ["verify"],
            ["prune", "--older-than", "1d"],
        ],
    )
    def test_a_missing_store(self, windlass: CommandLine, command: list[str]) -> None:
        said = windlass(*command, "--store", "nowhere")
        assert said.code == 2
        assert "there is no store in" in said.complaint
        assert not Path("nowhere").exists()

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["run"], "give a cascade to run, or a session with --resume"),
            (["run", "c.json", "--modell", "x"], "No such option: --modell"),
            (["sail"], "No such command 'sail'"),
            (["sessions", "--limit", "many"], "Invalid value for '--limit'"),
            (["prune"], "either --older-than AGE or --session"),
            (["prune", "--older-than", "1d", "--session", "s"], "either --older-than AGE or"),
            (["prune", "--older-than", "soon"], "must be a number with a unit"),
            (["run", "c.json", "--root", "nowhere"], "is not a folder"),
        ],
    )
    def test_flags_and_commands(
        self, windlass: CommandLine, arguments: list[str], told: str
    ) -> None:
        windlass.write("c.json", GOOD)
        said = windlass(*arguments)
        assert said.code == 2
        assert told in said.complaint

    def test_settings(self, windlass: CommandLine) -> None:
        windlass.write("windlass.toml", "modell = 'x'\n")
        said = windlass("config")
        assert said.code == 2
        assert "windlass.toml:1" in said.complaint
        assert "did you mean 'model'" in said.complaint


class TestFailures:
    """Exit code 1, and the command that shows what was recorded."""

    def test_a_provider(self, windlass: CommandLine) -> None:
        replies = iter(["fine"])

        def script(_: Any) -> str:
            for reply in replies:
                return reply
            raise ProviderError("the model is down")

        windlass.script = script
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        said = windlass("run", "c.json", "--session", "s1")
        assert said.code == 1
        assert said.complaint == "windlass: the model is down"
        assert said.err.endswith("what was recorded: windlass show s1\n")
        shown = windlass("show", "s1")
        assert "session s1: test, failed" in shown.out
        assert "error: the model is down" in shown.out
        assert windlass("verify").code == 0

    def test_a_limit(self, windlass: CommandLine) -> None:
        budget = {"limit": 2, "on_exceed": "fail"}
        windlass.write("c.json", cascade(phase("a", max_input_tokens=budget)))
        said = windlass("run", "c.json", "--json")
        assert said.code == 1
        assert "max_input_tokens is 2" in said.complaint
        assert said.json["status"] == "failed"
        assert said.json["error"] in said.err

    def test_a_template(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade({"name": "a", "instructions": "{{ state.x }}"}))
        said = windlass("run", "c.json")
        assert said.code == 1
        assert "c.json:6, phases[0].instructions: there is no 'x' here" in said.complaint

    def test_the_store_in_the_middle(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append = SqliteStore.append

        def fails(store: SqliteStore, batch: Any) -> Any:
            if any(row.node_type == NodeType.AGENT for row in batch.rows):
                raise StoreError("no space is left for the store")
            return append(store, batch)

        monkeypatch.setattr(SqliteStore, "append", fails)
        windlass.write("c.json", GOOD)
        said = windlass("run", "c.json", "--session", "s1")
        assert said.code == 1
        assert said.complaint == "windlass: no space is left for the store"
        assert "windlass show s1" in said.err

    def test_a_locked_store(self, ran: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "busy_s", 0.05)
        holding = sqlite3.connect(".windlass/windlass.sqlite")
        holding.execute("BEGIN EXCLUSIVE")
        try:
            said = ran("run", "two.json", "--session", "s2")
        finally:
            holding.close()
        assert said.code == 1
        assert "is locked by another program" in said.complaint
        assert len(ran("sessions", "--json").json) == 1

    @pytest.mark.parametrize("command", [["sessions"], ["show", "s1"], ["query", "SELECT 1"]])
    def test_a_damaged_store(self, ran: CommandLine, command: list[str]) -> None:
        file = Path(".windlass/windlass.sqlite")
        file.write_bytes(b"this is no database at all" * 400)
        said = ran(*command)
        assert said.code == 1
        assert "damaged" in said.complaint
        assert "windlass verify" in said.complaint

    def test_verify_names_what_is_damaged(self, ran: CommandLine) -> None:
        with sqlite3.connect(".windlass/windlass.sqlite") as db:
            db.execute("UPDATE bodies SET body = replace(body, 'Do a', 'Do z')")
        db.close()
        said = ran("verify")
        assert said.code == 1
        assert "is damaged in" in said.complaint
        assert "damage: " in said.out
        assert any(f["severity"] == "damage" for f in ran("verify", "--json").json)
        Path(".windlass/windlass.sqlite").write_bytes(b"this is no database at all" * 400)
        said = ran("verify")
        assert said.code == 1
        assert "damaged" in said.complaint


DRIVER = """
import asyncio, sys
from pathlib import Path
import windlass_local
from windlass.cli import main
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted

async def script(request):
    if WHERE == "call":
        Path("asked").touch()
        await asyncio.sleep(60)
    if request.messages[-1].role == "tool":
        return "done"
    return assistant(calls=[ToolCall("c1", "sleep_long", "{}"), ToolCall("c2", "set_state",
        '{"key": "k", "value": 1}')])

WHERE = sys.argv.pop(1)
windlass_local.LocalProvider = lambda: Scripted(script)
main()
"""

SLEEPER = '''
import time
from pathlib import Path
from windlass.tools.registry import tool

@tool
def sleep_long() -> str:
    """Sleep long."""
    Path("asked").touch()
    time.sleep(60)
    return "late"
'''


class TestInterruption:
    """Ctrl-C, for real: exit code 130, one sentence, and a record that is whole."""

    @pytest.mark.parametrize(
        ("where", "kinds"),
        [("call", ["user"]), ("tool", ["user", "agent", "tool_result", "tool_result"])],
    )
    def test_in_the_middle(self, tmp_path: Path, where: str, kinds: list[str]) -> None:
        line = CommandLine(tmp_path, pytest.MonkeyPatch(), None)  # type: ignore[arg-type]
        line.write("driver.py", DRIVER)
        line.write("sleeper.py", SLEEPER)
        tackle = ["sleep_long", "set_state"]
        line.write("c.json", cascade(phase("a", tackle=tackle), tools=["sleeper"]))
        command = [sys.executable, "driver.py", where, "run", "c.json", "--session", "s1"]
        running = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        guard = threading.Timer(60, running.kill)
        guard.start()
        while not (tmp_path / "asked").exists() and running.poll() is None:
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
        guard.cancel()
        assert running.returncode == 130, err
        assert "Traceback" not in err + out
        told = [text for text in err.splitlines() if text.startswith("windlass: ")]
        kept = "what was answered is kept: windlass run c.json --resume s1"
        assert told == [f"windlass: interrupted; {kept}"]
        assert err.endswith("what was recorded: windlass show s1\n")
        with SqliteStore.open_existing(tmp_path / ".windlass") as store:
            rows = list(store.rows("s1"))
            assert [str(stored.row.node_type) for stored in without_steps(rows)] == kinds
            check_sequence([stored.row.message for stored in rows if stored.row.message])
            assert [o.status for o in store.outcomes("s1")] == ["interrupted"]
            assert not [f for f in store.verify() if f.severity == "damage"]
