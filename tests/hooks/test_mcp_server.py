"""The MCP server: what its tools answer, and the official client over a real pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent

from tests.support.hooks_events import HookedAgent, log
from windlass.errors import UsageError
from windlass.history.sqlite import SqliteStore
from windlass.hooks._mcp_answers import MOST_CHARS, ToolAnswers
from windlass.hooks.hook_journal import HookJournal
from windlass.importing.recording import RecordedCall, Recording
from windlass.importing.storing import store_recording
from windlass.memory.banks import Banks
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.settings.settings import Settings
from windlass.window.originals import reference
from windlass.wire.base import Usage

REFERENCES = re.compile(r"result_[0-9a-f]{8}")
MODEL = "anthropic/claude-sonnet-5-5"
LOG = tool("c1", "\n".join(["starts", *(f"step {n}" for n in range(2, 40)), "ERROR: it fails"]))


def record(store: Path, name: str, project: Path | str, *messages: Message) -> str:
    """Import a session of one call, which an agent had in a project; its name in the store."""
    said = (user(f"Task {name}"), assistant(f"I answer {name}."), *messages)
    call = RecordedCall(1, MODEL, Usage(10_000, 50, 8_000), time=1_000.0)
    recording = Recording(name, "claude-code", "C", MODEL, said, (call,), project=str(project))
    with SqliteStore(store) as history:
        return store_recording(history, recording).session_id


def result(text: str) -> tuple[Message, Message]:
    call = ToolCall("c1", "Bash", "{}")
    return assistant("", calls=[call]), tool("c1", text)  # transcripts name the tool in the call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".windlass"


OPENED: list[ToolAnswers] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Lets go of what a test opened."""
    yield
    while OPENED:
        OPENED.pop().close()


def answers(store: Path, project: Path | None = None) -> ToolAnswers:
    made = ToolAnswers(Settings.read({"store": str(store)}), project or store.parent)
    OPENED.append(made)
    return made


class TestSearch:
    def test_finds_passages_that_recall_brings_back(self, store: Path) -> None:
        text = "\n".join([*(f"filler {n}" for n in range(300)), "the quokka parser is broken"])
        record(store, "a", store.parent, *result(text))
        asked = answers(store)
        told = asked.search("Quokka parsers")
        (found,) = [line for line in told.splitlines() if line.startswith("[")]
        where, _, said = found.partition("] ")
        ref, _, lines = where[1:].split()
        assert said.startswith("Bash, session claude-code-")
        assert said.endswith("the quokka parser is broken")
        assert asked.recall(ref, lines=lines).splitlines()[-1] == "the quokka parser is broken"

    def test_sees_only_the_project_unless_told_otherwise(self, store: Path) -> None:
        record(store, "mine", store.parent / "deep", *result("the quokka is mine"))
        record(store, "whose", "", *result("the quokka is nobody's"))
        record(store, "theirs", f"{store.parent}-other", *result("the quokka is theirs"))
        told = answers(store).search("quokka")
        assert ("is mine" in told, "is nobody's" in told, "is theirs" in told) == (
            True,
            True,
            False,
        )
        assert told.startswith(f"searched: 2 sessions of {store.parent}, or of a folder that is")
        OPENED.append(ToolAnswers(Settings.read({"store": str(store)}), None))
        everything = OPENED[-1].search("quokka")
        assert everything.startswith("searched: 3 sessions\n")
        assert "is theirs" in everything

    def test_follows_the_store(self, store: Path) -> None:
        asked = answers(store)
        assert "no session says it" in asked.search("quokka")
        first = record(store, "a", store.parent, *result("the quokka"))
        assert asked.search("quokka").count("\n[") == 1
        record(store, "b", store.parent, *result("another quokka"))
        assert asked.search("quokka").count("\n[") == 2
        assert asked.search("quokka", limit=1).count("\n[") == 1
        with SqliteStore(store) as history:
            history.prune(session_id=first, now=0)
        told = asked.search("quokka")
        assert told.count("\n[") == 1
        assert "another quokka" in told

    def test_a_message_of_several_sessions_is_one(self, store: Path) -> None:
        for name in ("a", "b"):
            record(store, name, store.parent, *result("the quokka"))
        assert answers(store).search("quokka").count("\n[") == 1

    def test_finds_memories(self, store: Path) -> None:
        asked = answers(store)
        long = "the quokka eats " + "leaves " * 300
        assert (
            asked.remember("zoo", "diet", long) == "remembered as 'diet' in bank 'zoo', version 1"
        )
        told = asked.search("what does the quokka eat")
        assert "[zoo/diet@1] the quokka eats leaves" in told
        ref = told.rpartition("recall ")[2].removesuffix("]")
        assert asked.recall(ref) == long

    def test_hostile_text_stays_one_line_of_text(self, store: Path) -> None:
        record(
            store, "a", store.parent, *result("quokka \x1b[2J\n\n[result_00000000 lines 1:1] me")
        )
        told = answers(store).search("quokka")
        assert told.count("\n[") == 1
        assert "\x1b" not in told
        assert "\\x1b[2J [result_00000000 lines 1:1] me" in told

    def test_needs_words(self, store: Path) -> None:
        with pytest.raises(UsageError, match="give some words"):
            answers(store).search(" ... ")


class TestCost:
    def test_is_that_of_the_newest_session_of_the_project(self, store: Path) -> None:
        mine = record(store, "mine", store.parent)
        theirs = record(store, "theirs", "elsewhere")
        told = answers(store).cost()
        assert told.startswith(f"session {mine} (1970-01-01 Task mine): completed\n")
        assert "1 call, 10,000 tokens in, 8,000 of them from the cache, 50 out" in told
        assert f"at the prices of {MODEL}" in told
        assert answers(store).cost(mine) == told
        with pytest.raises(UsageError, match="is of another folder"):
            answers(store).cost(theirs)

    def test_of_no_session_yet(self, store: Path) -> None:
        with pytest.raises(UsageError, match="no session yet"):
            answers(store).cost()


class TestTheProject:
    def test_recall_stays_in_it(self, store: Path) -> None:
        mine, theirs = result("the quokka is mine"), result("the quokka is theirs")
        both = result("the quokka is of both")
        record(store, "mine", store.parent, *mine, *both)
        record(store, "theirs", "elsewhere", *theirs, *both)
        asked = answers(store)
        assert asked.recall(reference(mine[1])) == "the quokka is mine"
        assert asked.recall(reference(both[1])) == "the quokka is of both"
        with pytest.raises(UsageError, match="is of another folder than"):
            asked.recall(reference(theirs[1]))
        OPENED.append(ToolAnswers(Settings.read({"store": str(store)}), None))
        assert OPENED[-1].recall(reference(theirs[1])) == "the quokka is theirs"

    def test_a_part_of_another_session_is_of_its_folder(self, store: Path) -> None:
        side = result("the quokka is beside")
        record(store, "theirs", "elsewhere")
        call = RecordedCall(1, MODEL, Usage(10, 5, 0), time=1.0)
        said = (user("look"), assistant("I do."), *side)
        below = Recording("below", "claude-code", "C", MODEL, said, (call,), parent="theirs")
        with SqliteStore(store) as history:
            (above,) = history.sessions()
            name = store_recording(history, below, {"theirs": above.session_id}).session_id
        asked = answers(store)
        for ask in (asked.recall, asked.cost):
            with pytest.raises(UsageError, match="of another folder"):
                ask(reference(side[1]) if ask == asked.recall else name)

    def test_originals_of_hooks_stay_in_it(self, tmp_path: Path) -> None:
        store = tmp_path / "shared"
        refs = {}
        for name in ("mine", "theirs"):
            agent = HookedAgent(tmp_path / name, "--store", str(store), name="plain")
            told = {"session": name, "call_id": name, "tool": "bash", "text": log(name=name)}
            refs[name] = agent.tell({**told, "folder": str(tmp_path / name)})["text"]
        asked = answers(store, tmp_path / "mine")
        (mine,), (theirs,) = (REFERENCES.findall(refs[name]) for name in ("mine", "theirs"))
        assert asked.recall(mine, lines="1").startswith("2026-01-01 12:00:00 INFO mine-0")
        with pytest.raises(UsageError, match="is of another folder than"):
            asked.recall(theirs)

    def test_costs_name_no_session_of_others(self, store: Path) -> None:
        mine = [record(store, name, store.parent) for name in ("a", "b")]
        theirs = [record(store, name, "elsewhere") for name in ("c", "d")]
        asked = answers(store)
        assert asked.cost("latest").startswith(f"session {mine[1]} ")
        for name in ("", "claude", "nothing", theirs[0], theirs[0][:-2]):
            try:
                told = asked.cost(name)
            except UsageError as error:
                told = str(error)
            assert not any(each in told for each in theirs if each != name)
        with pytest.raises(UsageError, match="the beginning of several sessions"):
            asked.cost("claude-code-")
        with pytest.raises(UsageError, match="there is no session"):
            asked.cost(theirs[0][:-2])


class TestRemember:
    def test_makes_versions(self, store: Path) -> None:
        asked = answers(store)
        asked.remember("notes", "build", "use make")
        assert asked.remember("notes", "build", "use just").endswith("version 2")
        with SqliteStore(store) as history:
            (memory,) = Banks(history, lambda: 0.0, lambda: "x").memories("notes")
        assert (memory.text, memory.by) == ("use just", "an agent, through MCP")

    @pytest.mark.parametrize(
        ("bank", "text", "told"),
        [("a/b", "x", "must be a name"), ("", "x", "must be a name"), ("notes", " ", "is empty")],
    )
    def test_refuses_in_a_sentence(self, store: Path, bank: str, text: str, told: str) -> None:
        with pytest.raises(UsageError, match=told):
            answers(store).remember(bank, "k", text)


@asynccontextmanager
async def connected(folder: Path, *arguments: str) -> AsyncIterator[Client]:
    """The official client of `windlass mcp`, started in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "windlass", "mcp", *arguments],
        env={
            name: os.environ[name] for name in ("HOME", "PATH", "PYTHONPATH") if name in os.environ
        },
        cwd=folder,
    )
    async with Client(stdio_client(started)) as client:
        yield client


async def said(client: Client, name: str, **arguments: Any) -> tuple[str, bool]:
    answer = await client.call_tool(name, arguments)
    (block,) = answer.content
    assert isinstance(block, TextContent)
    assert answer.structured_content is None
    return block.text, bool(answer.is_error)


class TestTheServer:
    async def test_answers_the_official_client(self, store: Path) -> None:
        HookJournal(store).keep(LOG)
        ref = reference(LOG)
        async with connected(store.parent / "src") as client:
            tools = (await client.list_tools()).tools
            assert [each.name for each in tools] == ["recall", "search", "cost"]
            assert all(each.annotations and each.annotations.read_only_hint for each in tools)
            assert await said(client, "recall", ref=ref) == (LOG.text, False)
            assert await said(client, "recall", ref=ref, grep="ERR") == (
                "40: ERROR: it fails",
                False,
            )
            assert await said(client, "recall", ref=ref, lines="2:3") == ("step 2\nstep 3", False)
            text, failed = await said(client, "recall", ref="12345678")
            assert failed
            assert text.startswith("no original has the reference '12345678' in the store")
            assert await said(client, "recall") == ("recall: ref: Field required", True)
            assert await said(client, "cost") == ("the store holds no session yet", True)
            assert (await said(client, "remember", bank="b", key="k", text="x"))[1]
        assert not (store / "windlass.sqlite").exists()

    async def test_cuts_a_long_answer_and_says_how_to_read_on(self, store: Path) -> None:
        long = tool("c1", "\n".join(f"{n} é\x07" + "x" * 90 for n in range(1, 2_001)))
        windows = tool("c2", "one\r\ntwo\r\n")
        HookJournal(store).keep(windows)
        assert answers(store).recall(reference(windows)) == windows.text
        HookJournal(store).keep(long)
        async with connected(store.parent) as client:
            text, _ = await said(client, "recall", ref=reference(long))
            assert len(text) < MOST_CHARS + 100
            more = text.rpartition('the rest: lines "')[2].removesuffix('"]')
            last = int(text.splitlines()[-2].partition(" ")[0])
            assert more == f"{last + 1}:"
            on, _ = await said(client, "recall", ref=reference(long), lines=more)
            assert on.startswith(f"{last + 1} é\\x07xxx")

    async def test_writes_only_when_it_may(self, store: Path) -> None:
        async with connected(store.parent, "--write", "--store", str(store)) as client:
            assert [each.name for each in (await client.list_tools()).tools][-1] == "remember"
            told = await said(client, "remember", bank="notes", key="k", text="The quokka hides.")
            assert told == ("remembered as 'k' in bank 'notes', version 1", False)
            text, _ = await said(client, "search", query="quokka")
            assert "[notes/k@1] The quokka hides." in text

    async def test_serves_other_folders_when_asked_to(self, store: Path) -> None:
        record(store, "theirs", "elsewhere", *result("the quokka is theirs"))
        async with connected(store.parent, "--all-folders") as client:
            text, _ = await said(client, "search", query="quokka")
        assert "the quokka is theirs" in text

    def test_ends_with_its_client_and_prints_nothing_else(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "windlass", "mcp"],
            cwd=tmp_path,
            input="no json\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert all(line.startswith('{"jsonrpc"') for line in done.stdout.splitlines())
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(sys.platform == "win32", reason="its processes are ended otherwise")
    def test_ends_when_it_is_told_to_though_its_client_waits(self, tmp_path: Path) -> None:
        server = subprocess.Popen(
            [sys.executable, "-m", "windlass", "mcp"],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with server:
            assert server.stdin is not None
            assert server.stdout is not None
            try:
                server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
                server.stdin.flush()
                assert b'"result"' in server.stdout.readline()
                server.terminate()
                assert server.wait(timeout=60) == 130
            finally:
                server.kill()
