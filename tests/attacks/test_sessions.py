"""The doors that open a session of a store: resume, fork, chat, and those that only read.

The attacker writes to the store as he likes: with SQL alone (`edited`), or with all hashes made
anew (`forged`), so that nothing shows.
"""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import windlass as library
from tests.cli.conftest import CommandLine, Said
from tests.cli.terminal import read_terminal
from tests.engine.harness import call, calls, cascade, phase
from tests.support.cli_trust import TOOL, code, server
from tests.tasks.making import atomic, sequential
from windlass.api.engine import Engine
from windlass.errors import StoreError, TrustNeeded
from windlass.history.base import RAN
from windlass.history.packing import (
    DIGESTED,
    CallRow,
    EditRow,
    LogRow,
    OutcomeRow,
    StateRow,
    batch_digest,
)
from windlass.history.sqlite._session_rows import SqliteSession
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.settings.trust import trust
from windlass.wire.base import Request

MODEL = ("-m", "local/m")
STORE = ".windlass"
TABLES = {
    LogRow: "log", CallRow: "calls", EditRow: "edits", StateRow: "state", OutcomeRow: "outcomes",
}  # fmt: skip


def edited(folder: Path, sql: str, *values: Any) -> None:
    """Somebody changes the database and knows nothing of hashes."""
    with closing(sqlite3.connect(folder / "windlass.sqlite")) as db, db:
        assert db.execute(sql, values).rowcount > 0


def forged(folder: Path, session: str, **changes: Any) -> None:
    """Somebody changes what the session ran, with all of its hashes."""
    with closing(sqlite3.connect(folder / "windlass.sqlite")) as db, db:
        (number,) = db.execute(
            "SELECT session_no FROM sessions WHERE session_id = ?", (session,)
        ).fetchone()
        reader = SqliteSession(db, number)
        said = json.loads(reader.start().cascade_json)
        if "ran" in changes:
            said[RAN] |= changes.pop("ran")
        db.execute(
            "UPDATE sessions SET cascade_json = ? WHERE session_no = ?",
            (json.dumps(said | changes), number),
        )
        rows = [reader.log(), *(reader.table(kind) for kind in DIGESTED[1:])]
        before = reader.start().digest
        for batch in sorted(reader.digests()):
            own = [[row for row in table if row.batch == batch] for table in rows]
            before = batch_digest(before, *own)
            db.execute(
                "UPDATE batches SET digest = ? WHERE session_no = ? AND number = ?",
                (before, number, batch),
            )


def forged_phase(folder: Path, **keys: Any) -> None:
    """The second phase of the session `s1` has these keys, says its record."""
    own = {key: keys.pop(key) for key in ("mcp_servers", "http_allow", "tools") if key in keys}
    forged(folder, "s1", phases=[phase("a"), phase("b", **keys)], **own)


@pytest.fixture
def begun(windlass: CommandLine) -> CommandLine:
    """A stranger's folder: the first of two phases of `s1` is answered, its cascade is gone."""
    windlass.write("c.json", cascade(phase("a"), phase("b")))
    assert windlass("run", "c.json", *MODEL, "--session", "s1", "--max-turns", "1").code == 3
    (windlass.folder / "c.json").unlink()
    return windlass


def through(line: CommandLine, door: str, *more: str) -> Said:
    """A door that goes on with the session `s1`."""
    line.patch.setattr(sys, "stdin", io.StringIO("Well?\n"))
    ways = {
        "resume": ("run", "--resume", "latest"),
        "fork": ("fork", "s1", "--at", "1"),
        "chat": ("chat", "--session", "s1", *MODEL),
    }
    return line(*ways[door], *more)


DOORS = ("resume", "fork", "chat")


class TestWhatOnlyTheRecordNames:
    @pytest.mark.parametrize("door", DOORS)
    def test_its_module_is_not_imported_without_trust(self, begun: CommandLine, door: str) -> None:
        name = f"evil_{door}"
        marker = code(begun, name)
        forged_phase(begun.folder / STORE, tackle=[f"{name}:look"])
        asked = len(begun.requests)
        said = through(begun, door)
        assert said.code == 2
        assert f"session 's1' wants the module {name}" in said.complaint
        assert f"windlass trust {begun.folder}" in said.complaint
        assert "--trust" in said.complaint
        assert not marker.exists()
        assert len(begun.requests) == asked
        assert through(begun, door, "--trust").code == 0
        assert marker.exists()

    @pytest.mark.parametrize(
        ("keys", "wanted"),
        [
            ({"tools": ["evil_key"]}, "the module evil_key"),
            ({"rules": {"loop_until": "evil_key:look"}}, "the module evil_key"),
            ({"injectors": {"own": ["evil_key:Own"]}}, "the module evil_key"),
            ({"tackle": ["os:system"]}, "the module os"),
            (
                {"tackle": ["http_get"], "http_allow": ["evil.example"]},
                "http_get of 'evil.example'",
            ),
            ({"injectors": {"knowledge": {"folder": "/etc"}}}, "the folder '/etc'"),
            ({"injectors": {"skills": {"folder": "../.."}}}, "the folder '../..'"),
        ],
    )
    @pytest.mark.parametrize("door", DOORS)
    def test_nor_is_anything_else_that_reaches_out(
        self, begun: CommandLine, door: str, keys: dict[str, Any], wanted: str
    ) -> None:
        marker = code(begun, "evil_key")
        forged_phase(begun.folder / STORE, **keys)
        asked = len(begun.requests)
        said = through(begun, door)
        assert (said.code, wanted in said.complaint) == (2, True), said.err
        assert not marker.exists()
        assert len(begun.requests) == asked

    @pytest.mark.parametrize("door", DOORS)
    def test_its_server_is_not_started(self, begun: CommandLine, door: str) -> None:
        marker = begun.folder / "server.ran"
        forged_phase(
            begun.folder / STORE, tackle=["excel.*"], mcp_servers={"excel": server(marker)}
        )
        said = through(begun, door)
        assert (said.code, "the MCP server excel" in said.complaint) == (2, True)
        assert not marker.exists()
        through(begun, door, "--trust")
        assert marker.exists()

    @pytest.mark.parametrize("door", DOORS)
    def test_nor_one_of_the_users_own_settings(
        self, begun: CommandLine, own_marks: Path, door: str
    ) -> None:
        marker = begun.folder / "server.ran"
        command = json.dumps(server(marker)["command"])
        (own_marks / "windlass.toml").write_text(f"[mcp_servers.mine]\ncommand = {command}\n")
        forged_phase(begun.folder / STORE, tackle=["mine.*"])
        said = through(begun, door)
        assert (said.code, "the MCP server mine" in said.complaint) == (2, True)
        assert not marker.exists()

    @pytest.mark.parametrize("tackle", [["look"], "manifest"])
    def test_nor_is_a_tool_of_the_users_own_settings_called(
        self, begun: CommandLine, own_marks: Path, tackle: Any
    ) -> None:
        code(begun, "own_settings")
        (own_marks / "windlass.toml").write_text('tools = ["own_settings:look"]')
        forged_phase(begun.folder / STORE, tackle=tackle)
        said = through(begun, "resume")
        assert (said.code, "the tool look" in said.complaint) == (2, True), said.err

    def test_a_mark_of_the_folder_trusts_its_records(self, begun: CommandLine) -> None:
        marker = code(begun, "evil_marked")
        forged_phase(begun.folder / STORE, tackle=["evil_marked:look"])
        assert begun("trust", ".").code == 0
        assert through(begun, "resume").code == 0
        assert marker.exists()

    def test_a_strangers_store_loads_nothing_of_a_folder_that_is_trusted(
        self, begun: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = begun.folder / "own"
        own.mkdir()
        marker = code(begun, "evil_own")
        shutil.move(begun.folder / "evil_own.py", own / "evil_own.py")
        forged_phase(begun.folder / STORE, tackle=["evil_own:look"])
        assert begun("trust", "own").code == 0
        monkeypatch.chdir(own)
        theirs = str(begun.folder / STORE)
        said = through(begun, "resume", "--store", theirs)
        assert (said.code, f"windlass trust {theirs}" in said.complaint) == (2, True), said.err
        assert not marker.exists()

    def test_a_store_that_is_trusted_loads_nothing_of_a_strangers_folder(
        self, begun: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, theirs = begun.folder / "own", begun.folder / "theirs"
        own.mkdir()
        theirs.mkdir()
        marker = code(begun, "evil_here")
        shutil.move(begun.folder / "evil_here.py", theirs / "evil_here.py")
        forged_phase(begun.folder / STORE, tackle=["evil_here:look"])
        shutil.move(begun.folder / STORE, own / STORE)
        assert begun("trust", "own").code == 0
        monkeypatch.chdir(theirs)
        said = through(begun, "resume", "--store", str(own / STORE))
        assert (said.code, f"windlass trust {theirs}" in said.complaint) == (2, True), said.err
        assert not marker.exists()

    def test_a_cascade_that_the_user_names_is_his_word(self, begun: CommandLine) -> None:
        marker = code(begun, "evil_named")
        forged_phase(begun.folder / STORE, tackle=["evil_named:look"])
        assert "(windlass run CASCADE --resume s1)" in through(begun, "resume").complaint
        begun.write("c.json", cascade(phase("a"), phase("b", tackle=["evil_named:look"])))
        assert "(windlass run c.json --resume s1)" in through(begun, "resume").complaint
        assert not marker.exists()
        said = begun("run", "c.json", "--resume", "s1")
        assert said.code == 0, said.err
        assert marker.exists()

    def test_what_reaches_nothing_needs_no_trust(self, begun: CommandLine) -> None:
        forged_phase(begun.folder / STORE, tackle=["read_file", "write_file", "set_state"])
        assert through(begun, "resume").code == 0

    def test_a_task_file_of_a_record_needs_the_same(self, windlass: CommandLine) -> None:
        marker = code(windlass, "evil_task")
        windlass.write("t.xml", sequential(atomic("one"), atomic("two")))
        ran = windlass("evaluate", "t.xml", *MODEL, "--session", "s1", "--max-turns", "1")
        assert ran.code == 3
        tools = "<tools><tool>evil_task:look</tool></tools>"
        text = sequential(atomic("one"), atomic("two", tools))
        forged(windlass.folder / STORE, "s1", xml=text)
        said = windlass("evaluate", "--resume", "s1")
        assert (said.code, "the module evil_task" in said.complaint) == (2, True), said.err
        assert not marker.exists()
        windlass("evaluate", "--resume", "s1", "--trust", "--accept")
        assert marker.exists()

    def test_looking_at_a_session_runs_nothing(self, begun: CommandLine) -> None:
        marker, started = code(begun, "evil_look"), begun.folder / "server.ran"
        forged_phase(
            begun.folder / STORE,
            tackle=["evil_look:look", "excel.*"],
            mcp_servers={"excel": server(started)},
        )
        for looking in (
            ("show", "s1"),
            ("show", "s1", "--call", "1"),
            ("explain", "s1", "1"),
            ("report", "s1"),
            ("replay", "s1"),
            ("export", "s1", "--as", "openai"),
            ("query", "SELECT 1"),
            ("sessions",),
            ("cards", "s1"),
            ("verify",),
            ("prune", "--session", "s1"),
        ):
            said = begun(*looking)
            assert said.code == 0, said.err
        assert not marker.exists()
        assert not started.exists()


async def test_in_python_tools_that_are_handed_in_are_the_users_word(begun: CommandLine) -> None:
    code(begun, "evil_api")

    def own() -> str:
        """Do."""
        return "done"

    forged_phase(begun.folder / STORE, tackle=["own"])
    given: dict[str, Any] = {
        "model": "s/x",
        "providers": {"s": Scripted(lambda _: "said")},
        "store": begun.folder / STORE,
    }
    assert (await library.fork("s1", 1, tools=[own], **given)).status == "completed"
    forged_phase(begun.folder / STORE, tackle=["own", "evil_api:look"])
    for going_on in (
        library.resume("s1", tools=[own], **given),
        library.fork("s1", 1, tools=[own], **given),
        Engine(tools=[own], **given).session(resume="s1").send("Well?"),
    ):
        with pytest.raises(TrustNeeded, match="wants the module evil_api; only its record"):
            await going_on
    # What the user names by a module is his word for that module, and no other.
    named: dict[str, Any] = {**given, "tools": [own, "evil_api:look"]}
    assert (await library.resume("s1", **named)).status == "completed"


async def test_the_session_behind_a_resumed_one_asks_again(begun: CommandLine) -> None:
    given: dict[str, Any] = {
        "model": "s/x",
        "providers": {"s": Scripted(lambda _: "said")},
        "store": begun.folder / STORE,
    }
    code(begun, "evil_behind")
    forged_phase(begun.folder / STORE, tackle=["evil_behind:look"])
    trust(begun.folder)
    result = await library.resume("s1", **given)
    assert result.session is not None
    begun("trust", ".", "--remove")
    with pytest.raises(TrustNeeded, match="the module evil_behind"):
        await result.session.send("Well?")


def test_at_a_terminal_the_user_is_asked(begun: CommandLine) -> None:
    (begun.folder / "asked_record.py").write_text(TOOL)
    forged_phase(begun.folder / STORE, tackle=["asked_record:look", "read_file"])
    ways = [
        (["run", "--resume", "s1"], "n\n"),
        (["fork", "s1", "--at", "1"], "n\n"),
        (["chat", "--session", "s1"], "y\n"),
        (["run", "--resume", "s1"], ""),
    ]
    # The model is none that is there, which is told once all else is right.
    *refused, allowed, trusted = (
        at_terminal(begun.folder, [*command, "-m", "nobody/m"], typed) for command, typed in ways
    )
    for drawn in (*refused, allowed):
        assert "Trust this folder from now on?" in drawn
        assert "the module asked_record" in drawn
    assert not [drawn for drawn in refused if "no provider 'nobody'" in drawn]
    assert "no provider 'nobody'" in allowed
    assert "Trust this folder" not in trusted
    assert "no provider 'nobody'" in trusted


def at_terminal(folder: Path, command: list[str], typed: str) -> str:
    """What a command prints at a terminal where the user types."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", "from windlass.cli import main; main()", *command],
        cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "COLUMNS": "400"},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed.encode())
    drawn = read_terminal(ours)
    running.wait(30)
    os.close(ours)
    return drawn


class TestTheRoot:
    @pytest.mark.parametrize("door", DOORS)
    def test_it_is_that_of_now_and_what_the_record_says_is_told(
        self, begun: CommandLine, door: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        other = tmp_path_factory.mktemp("secret")
        (other / "key.txt").write_text("the secret")
        forged(
            begun.folder / STORE,
            "s1",
            ran={"root": str(other)},
            phases=[phase("a"), phase("b", tackle=["read_file", "write_file"])],
        )
        path = str(other / "key.txt")
        begun.script = reading_and_writing(path)
        said = through(begun, door)
        assert said.code == 0, said.err
        told = said.err.replace("\n", " ")
        assert f"worked in '{other}'" in told
        assert f"from now on its tools work in '{begun.folder.resolve()}'" in told
        assert f"--root {other}" in told
        shown = [message.text for message in begun.requests[-1].messages]
        assert not any("the secret" in text for text in shown)
        assert (other / "key.txt").read_text() == "the secret"

    def test_a_flag_names_another_one(
        self, begun: CommandLine, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        other = tmp_path_factory.mktemp("mine")
        (other / "key.txt").write_text("what is mine")
        forged_phase(begun.folder / STORE, tackle=["read_file"])
        begun.script = reading_and_writing("key.txt")
        said = through(begun, "resume", "--root", str(other))
        assert said.code == 0, said.err
        shown = [message.text for message in begun.requests[-1].messages]
        assert any("what is mine" in text for text in shown)

    def test_of_a_task_likewise(
        self, windlass: CommandLine, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        other = tmp_path_factory.mktemp("secret")
        (other / "key.txt").write_text("the secret")
        windlass.write("key.txt", "no secret")
        inputs = "<inputs><file>key.txt</file></inputs>"
        windlass.write("t.xml", sequential(atomic("one"), atomic("two", inputs)))
        ran = windlass("evaluate", "t.xml", *MODEL, "--session", "s1", "--max-turns", "1")
        assert ran.code == 3, ran.err
        forged(windlass.folder / STORE, "s1", root=str(other))
        said = windlass("evaluate", "--resume", "s1", "--accept")
        assert said.code == 0, said.err
        assert f"--root {other}" in said.err.replace("\n", " ")
        sent = [each.text for request in windlass.requests for each in request.messages]
        assert not any("the secret" in text for text in sent)


def reading_and_writing(path: str) -> Any:
    """A model that reads and writes a file, then is done."""

    def script(request: Request) -> Message | str:
        if request.messages[-1].role == "tool" or not request.tools:
            return "done"
        wanted = [call("read_file", json.dumps({"path": path}), id_="r")]
        if any(spec.name == "write_file" for spec in request.tools):
            wanted.append(call("write_file", json.dumps({"path": path, "text": "x"}), id_="w"))
        return calls(*wanted)

    return script


class TestAnEditedRecord:
    EDITS = (
        ("UPDATE sessions SET input_json = '{\"x\": 1}'", ()),
        ("UPDATE sessions SET cascade_json = replace(cascade_json, ?, ?)", ("Do b", "Do evil")),
        ("UPDATE log SET metadata_json = replace(metadata_json, ?, ?)", ("kind", "sort")),
        ("UPDATE log SET phase = 'b' WHERE phase = 'a'", ()),
        ("DELETE FROM log WHERE node_type = 'agent'", ()),
        ("UPDATE outcomes SET status = 'completed', reason = NULL", ()),
        ("DELETE FROM outcomes", ()),
        ("DELETE FROM batches WHERE number = 1", ()),
        ("UPDATE batches SET digest = 'x'", ()),
        ("UPDATE log SET metadata_json = x'00ff'", ()),
    )

    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize(("sql", "values"), EDITS)
    def test_is_not_gone_on_with(
        self, begun: CommandLine, door: str, sql: str, values: tuple[str, ...]
    ) -> None:
        edited(begun.folder / STORE, sql, *values)
        asked = len(begun.requests)
        said = through(begun, door)
        assert said.code == 1, said.err
        assert "session 's1'" in said.complaint
        assert "record that was edited" in said.complaint
        assert "windlass verify" in said.complaint
        assert len(begun.requests) == asked

    def test_with_trust_neither(self, begun: CommandLine) -> None:
        edited(begun.folder / STORE, "UPDATE sessions SET input_json = '{\"x\": 1}'")
        assert through(begun, "resume", "--trust").code == 1

    def test_nor_is_one_whose_sub_cascade_was_edited(self, windlass: CommandLine) -> None:
        windlass.write("child.json", cascade(phase("in")))
        windlass.write("c.json", cascade(phase("a", sub_cascades=[{"ref": "child.json"}])))
        limited = ("--session", "s1", "--max-turns", "1")
        assert windlass("run", "c.json", *MODEL, *limited).code == 3
        sql = "UPDATE sessions SET input_json = '{\"x\": 1}' WHERE parent_id = 's1'"
        edited(windlass.folder / STORE, sql)
        said = windlass("run", "--resume", "s1")
        assert (said.code, "record that was edited" in said.complaint) == (1, True)

    def test_nor_is_a_task(self, windlass: CommandLine) -> None:
        windlass.write("t.xml", sequential(atomic("one"), atomic("two")))
        limited = ("--session", "s1", "--max-turns", "1")
        assert windlass("evaluate", "t.xml", *MODEL, *limited).code == 3
        edited(windlass.folder / STORE, "UPDATE outcomes SET status = 'failed', reason = NULL")
        said = windlass("evaluate", "--resume", "s1")
        assert (said.code, "record that was edited" in said.complaint) == (1, True)

    def test_an_edited_text_is_refused_where_it_is_read(self, begun: CommandLine) -> None:
        edited(
            begun.folder / STORE,
            "UPDATE bodies SET body = replace(body, 'said', 'evil') WHERE body LIKE '%said%'",
        )
        said = through(begun, "resume")
        assert (said.code, "has been changed" in said.complaint) == (1, True), said.err

    def test_another_session_of_the_store_is_gone_on_with(self, begun: CommandLine) -> None:
        begun.write("c.json", cascade(phase("a"), phase("b")))
        assert begun("run", "c.json", *MODEL, "--session", "s2", "--max-turns", "1").code == 3
        edited(
            begun.folder / STORE,
            "UPDATE sessions SET input_json = '{\"x\": 1}' WHERE session_id = 's2'",
        )
        assert begun("run", "--resume", "s1").code == 0
        assert begun("run", "--resume", "s2").code == 1

    def test_nor_is_a_row_of_a_batch(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        windlass.write("rows.jsonl", '{"n": 1}\n')
        again = ("batch", "c.json", "rows.jsonl", "--out", "out.jsonl", *MODEL, "--resume")
        assert windlass(*again).code == 0
        # As if it had been killed before the row was answered.
        (windlass.folder / "out.jsonl").unlink()
        edited(windlass.folder / STORE, "DELETE FROM outcomes")
        asked = len(windlass.requests)
        said = windlass(*again)
        assert (said.code, "record that was edited" in said.complaint) == (1, True), said.err
        assert len(windlass.requests) == asked

    async def test_in_python_it_is_a_store_error(self, begun: CommandLine) -> None:
        edited(begun.folder / STORE, "UPDATE sessions SET input_json = '{\"x\": 1}'")
        with pytest.raises(StoreError, match="record that was edited"):
            await library.resume("s1", store=begun.folder / STORE)


def test_a_task_that_the_user_names_again_needs_no_trust_and_is_the_same(
    windlass: CommandLine,
) -> None:
    windlass.write("api.py", "def look() -> str:\n    '''Look.'''\n    return 'seen'\n")
    inside = "<tools><tool>api:look</tool></tools>"
    windlass.write("t.xml", atomic("a", inside, "Do a."))
    said = windlass("evaluate", "t.xml", "-m", "local/m", "--session", "t1", "--max-tokens", "3")
    assert said.code == 3
    assert "windlass evaluate t.xml --resume t1" in said.complaint
    said = windlass("evaluate", "--resume", "t1")
    assert (said.code, "only its record says so" in said.complaint) == (2, True)
    Path("other.xml").write_bytes(Path("t.xml").read_bytes() + b"<!-- -->")
    said = windlass("evaluate", "other.xml", "--resume", "t1")
    assert (said.code, "is not the task that session 't1' ran" in said.complaint) == (2, True)
    assert windlass("evaluate", "t.xml", "--resume", "t1").code == 0
