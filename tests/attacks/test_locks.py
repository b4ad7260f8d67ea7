"""Two at one session: a batch and who resumes beside it, a prune under a run, another's cascade.

Each door to a session is tried while another process holds it, and while this one does.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.bench_beside import kill_beside

import windlass as library
from tests.cli.conftest import CommandLine, Said
from tests.engine.harness import call, calls, cascade, phase
from tests.support.architecture import MODULES, name_of, tree_of
from tests.tasks.making import atomic, sequential
from windlass.api.engine import Engine
from windlass.engine.events import Event, PhaseStarted
from windlass.errors import SessionHeld, StepDiffers, StoreError, UsageError
from windlass.history.base import SessionFilter
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

MODEL = ("-m", "local/m")
STORE = ".windlass"
ROWS = [{"n": 1}, {"n": 2}]
PAY = cascade(
    phase("pay", instructions="Pay {{ input.n }}.", tackle=["transfer"]), phase("tell"), phase("b")
)

HOLD = """
import sys
from pathlib import Path
from windlass.history.sqlite import SqliteStore

with SqliteStore.open_existing(Path(sys.argv[1])) as store, store.hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(store: Path, session: str) -> Iterator[subprocess.Popen[bytes]]:
    """Meanwhile another process holds a session."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLD, str(store), session]
    other = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ())
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"held\n"
        yield other
    finally:
        other.kill()
        other.communicate()


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(library.__file__).parents[1])}


def sessions(store: Path = Path(STORE), **which: Any) -> dict[str, str]:
    """How the sessions of a store stand."""
    with SqliteStore.open_existing(store) as history:
        infos = history.sessions(SessionFilter(banks=False, **which))
        return {info.session_id: info.status for info in infos}


# ---- a batch, and who goes on with its sessions beside it ------------------------------


class Bank:
    """A model that has one payment made for each row, and waits where it is told to."""

    def __init__(self, wait_at: str = "") -> None:
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.wait_at = wait_at
        self.waiting = asyncio.Event()
        self.go_on = asyncio.Event()

    def transfer(self, number: str) -> str:
        """Pay.

        Args:
            number: Which row.
        """
        self.paid.append(number)
        return "paid"

    async def script(self, request: Request) -> Message | str:
        first, last = request.messages[0].text, request.messages[-1]
        number = first.removeprefix("Pay ").rstrip(".")
        self.asked.append(f"{number}: {last.text if last.role == 'user' else last.role}")
        if last.text == self.wait_at:
            self.waiting.set()
            await self.go_on.wait()
        if last.role == "user" and last.text.startswith("Pay "):
            return calls(call("transfer", json.dumps({"number": number})))
        return "done"

    @property
    def options(self) -> dict[str, Any]:
        return {"model": "s/x", "providers": {"s": Scripted(self.script)}, "tools": [self.transfer]}

    async def batch(self, **options: Any) -> Any:
        given = {"out": "r.jsonl", "resume": True, "workers": 1, **options}
        return await Engine(**self.options).batch(PAY, ROWS, **given)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestABatchAndAResumeBeside:
    @pytest.mark.usefixtures("folder")
    async def test_a_session_that_a_batch_runs_is_not_resumed(self) -> None:
        bank = Bank("Do tell.")
        batch = asyncio.create_task(bank.batch())
        await bank.waiting.wait()
        (running,) = sessions(status="running")
        for door in (library.resume(running, **bank.options), chat(running, bank)):
            with pytest.raises(SessionHeld, match="is running in process"):
                await door
        bank.go_on.set()
        assert (await batch).completed == 2
        assert bank.paid == ["1", "2"]
        assert len(bank.asked) == len(set(bank.asked)) == 8

    @pytest.mark.usefixtures("folder")
    async def test_nor_does_a_batch_run_what_somebody_goes_on_with(self) -> None:
        stopped = Bank("Do tell.")
        batch = asyncio.create_task(stopped.batch())
        await stopped.waiting.wait()
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)
        (left,) = sessions(status="interrupted")

        bank = Bank("Do tell.")
        beside = asyncio.create_task(library.resume(left, **bank.options))
        await bank.waiting.wait()
        bank.wait_at = ""
        result = await bank.batch()
        assert (result.completed, result.failed, result.again) == (1, 1, 1)
        assert "is running in process" in (result.troubles[0].error or "")
        bank.go_on.set()
        assert (await beside).status == "completed"
        asked = list(bank.asked)

        result = await bank.batch()
        assert (result.completed, bank.asked) == (2, asked), "its answer is in its session"
        assert stopped.paid + bank.paid == ["1", "2"]
        assert sorted(sessions().values()) == ["completed"] * 2
        with SqliteStore.open_existing(Path(STORE)) as store:
            ended = [each.status for each in store.outcomes(left) if each.phase is None]
        assert ended == ["interrupted", "completed"]
        lines = map(json.loads, Path("r.jsonl").read_text().splitlines())
        assert {line["row"]: line["session_id"] for line in lines}[1] == left

    @pytest.mark.usefixtures("folder")
    async def test_what_ended_before_its_line_was_written_is_not_run_again(self) -> None:
        bank = Bank()
        assert (await bank.batch()).completed == 2
        whole = Path("r.jsonl").read_bytes()
        Path("r.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
        asked = list(bank.asked)
        assert (await bank.batch()).completed == 2
        assert (bank.paid, bank.asked) == (["1", "2"], asked)
        told = [json.loads(each) for each in whole.splitlines()]
        assert [json.loads(each) for each in Path("r.jsonl").read_text().splitlines()] == told

    @pytest.mark.usefixtures("folder")
    async def test_a_row_that_failed_is_still_run_anew(self) -> None:
        failing = Bank()
        failing.wait_at = "never"

        async def breaks(request: Request) -> Message | str:
            if request.messages[-1].text == "Do tell.":
                raise ValueError("no")
            return await failing.script(request)

        options = {**failing.options, "providers": {"s": Scripted(breaks)}}
        done = await Engine(**options).batch(PAY, ROWS[:1], out="r.jsonl")
        assert (done.failed, failing.paid) == (1, ["1"])
        bank = Bank()
        done = await Engine(**bank.options).batch(PAY, ROWS[:1], out="r.jsonl", resume=True)
        assert (done.completed, bank.paid) == (1, ["1"])
        assert len(sessions()) == 2


async def chat(session: str, bank: Bank) -> None:
    await Engine(**bank.options).session(resume=session).send("Well?")


def test_kills_of_a_batch_with_a_resume_beside_it(tmp_path: Path) -> None:
    """`python -m bench.bench_beside` does it sixty times."""
    done = kill_beside(tmp_path, kills=4, seed=3, rows=12)
    assert done.sound, done
    assert done.kills == 4


# ---- every door -----------------------------------------------------------------------


@pytest.fixture
def begun(windlass: CommandLine) -> CommandLine:
    """Sessions of all kinds whose first step is answered: `s1` of a cascade, `t1` of a task."""
    windlass.write("c.json", cascade(phase("a"), phase("b")))
    windlass.write("t.xml", sequential(atomic("one"), atomic("two")))
    limited = (*MODEL, "--max-turns", "1")
    assert windlass("run", "c.json", "--session", "s1", *limited).code == 3
    assert windlass("evaluate", "t.xml", "--session", "t1", *limited).code == 3
    return windlass


DOORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "resume": ("s1", ("run", "--resume", "s1")),
    "resume by its file": ("s1", ("run", "c.json", "--resume", "s1")),
    "a new one of that name": ("s1", ("run", "c.json", *MODEL, "--session", "s1")),
    "chat": ("s1", ("chat", "--session", "s1", *MODEL)),
    "evaluate": ("t1", ("evaluate", "--resume", "t1")),
    "prune": ("s1", ("prune", "--session", "s1")),
    "replay": ("s1", ("replay", "s1")),
}


def through(line: CommandLine, door: str) -> Said:
    line.patch.setattr(sys, "stdin", io.StringIO("Well?\n"))
    return line(*DOORS[door][1])


@pytest.mark.parametrize("door", DOORS)
class TestEveryDoor:
    def test_is_shut_while_another_process_has_the_session(
        self, begun: CommandLine, door: str
    ) -> None:
        session, asked = DOORS[door][0], len(begun.requests)
        before = record_of(session)
        with held_elsewhere(begun.folder / STORE, session) as other:
            said = through(begun, door)
            assert said.code == 2
            told = f"session '{session}' is running in process {other.pid}; wait for it, or stop it"
            assert told in said.complaint
        assert len(begun.requests) == asked
        assert record_of(session) == before

    def test_is_open_again_once_that_was_killed(self, begun: CommandLine, door: str) -> None:
        with held_elsewhere(begun.folder / STORE, DOORS[door][0]):
            pass
        said = through(begun, door)
        assert "is running" not in said.err
        assert said.code == (2 if door == "a new one of that name" else 0), said.err

    def test_locks_first_and_reads_then(
        self, begun: CommandLine, door: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        watch(monkeypatch, DOORS[door][0], done)
        through(begun, door)
        assert done[:1] == ["hold"] or door in ("prune", "replay")
        assert done.count("hold") <= 1


def record_of(session: str) -> tuple[Any, ...]:
    with SqliteStore.open_existing(Path(STORE)) as store:
        return list(store.rows(session)), store.outcomes(session)


def watch(patch: pytest.MonkeyPatch, session: str, done: list[str]) -> None:
    """Note in what order a session is held, and what it came to is read."""

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(store: SqliteStore, session_id: str, *more: Any, **named: Any) -> Any:
            if session_id == session:
                done.append(name)
            return real(store, session_id, *more, **named)

        return noted

    for name in ("hold", "rows", "outcomes", "changed", "calls", "edits", "state", "append"):
        patch.setattr(SqliteStore, name, noting(name, getattr(SqliteStore, name)))


def test_a_recorder_is_opened_by_one_function() -> None:
    """Who writes rows of a run has an `OpenSession`, and that comes of a lock."""
    made = {"Recorder": set[str](), "OpenSession": set[str](), "hold": set[str]()}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.id if isinstance(function, ast.Name) else ""
                name = function.attr if isinstance(function, ast.Attribute) else name
                if name in made:
                    made[name].add(name_of(path).removeprefix("packages/windlass/src/windlass/"))
    outside = {each for each in made["hold"] if each.partition("/")[0] in ("api", "cli", "engine")}
    assert outside == {"engine/opening.py"}
    # A worker of a cluster works in a session that whoever gave the order holds.
    assert made["OpenSession"] == {
        "engine/opening.py",
        "packages/windlass-ray/src/windlass_ray/cluster.py",
    }
    assert made["Recorder"] == {"engine/setup.py", "engine/turn/record.py"}


class TestTwoTasksOfOneProcess:
    @pytest.mark.usefixtures("folder")
    async def test_a_name_is_taken_once(self) -> None:
        bank = Bank("Do tell.")
        first = asyncio.create_task(library.run(PAY, {"n": 1}, session_id="s", **bank.options))
        await bank.waiting.wait()
        with pytest.raises(SessionHeld):
            await library.run(PAY, {"n": 1}, session_id="s", **bank.options)
        bank.go_on.set()
        assert (await first).status == "completed"
        with pytest.raises(UsageError, match="in the store already"):
            await library.run(PAY, {"n": 1}, session_id="s", **bank.options)
        assert bank.paid == ["1"]

    @pytest.mark.usefixtures("folder")
    async def test_a_sub_cascade_belongs_to_who_runs_its_parent(self) -> None:
        Path("child.json").write_text(json.dumps(cascade(phase("in"))))
        Path("top.json").write_text(
            json.dumps(cascade(phase("a", sub_cascades=[{"ref": "child.json"}])))
        )
        bank = Bank("Do a.")
        run = asyncio.create_task(library.run("top.json", session_id="s", **bank.options))
        await bank.waiting.wait()
        with pytest.raises(SessionHeld, match="session 's' is running"):
            await chat("s.1.1", bank)
        bank.go_on.set()
        assert (await run).status == "completed"

    @pytest.mark.usefixtures("folder")
    async def test_a_fork_of_a_running_session_is_its_own(self) -> None:
        bank = Bank("Do b.")
        run = asyncio.create_task(library.run(PAY, {"n": 1}, session_id="s", **bank.options))
        await bank.waiting.wait()
        bank.wait_at = ""
        forked = await library.fork("s", 3, session_id="f", **bank.options)
        assert forked.status == "completed"
        bank.go_on.set()
        assert (await run).status == "completed"
        assert bank.paid == ["1"]

    @pytest.mark.usefixtures("folder")
    async def test_who_talks_in_turns_hears_what_the_other_said(self) -> None:
        heard: list[list[str]] = []

        def script(request: Request) -> str:
            heard.append([each.text for each in request.messages if each.role == "user"])
            return "said"

        options: dict[str, Any] = {"model": "s/x", "providers": {"s": Scripted(script)}}
        engine = Engine(**options)
        one = engine.session()
        session_id = (await one.send("One.")).session_id
        other = engine.session(resume=session_id)
        for who, text in ((other, "Two."), (one, "Three."), (other, "Four."), (other, "Five.")):
            assert (await who.send(text)).status == "completed"
        assert heard[-1] == ["One.", "Two.", "Three.", "Four.", "Five."]
        assert heard[2] == ["One.", "Two.", "Three."]


def test_a_process_that_a_tool_forked_holds_nothing(tmp_path: Path) -> None:
    """It outlives the run, and would keep its lock."""
    program = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from windlass.history.sqlite import SqliteStore\n"
        "with SqliteStore(Path(sys.argv[1])) as store, store.hold('s'):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "store")]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ(), start_new_session=True)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == b"held\n"
        with SqliteStore(tmp_path / "store") as store:
            with pytest.raises(SessionHeld):
                store.hold("s").__enter__()
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            with store.hold("s"):
                pass
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        assert run.stdout is not None
        run.stdout.close()


# ---- a session belongs to its cascade --------------------------------------------------


@pytest.fixture
def two(begun: CommandLine) -> CommandLine:
    """Beside `c.json`, whose session `s1` is, there is another cascade."""
    begun.write("two.json", {**cascade(phase("x"), phase("y")), "cascade_id": "two"})
    return begun


class TestAnothersCascade:
    def test_is_refused_before_anything_is_sent(self, two: CommandLine) -> None:
        before, asked = record_of("s1"), len(two.requests)
        said = two("run", "two.json", "--resume", "s1", *MODEL)
        assert said.code == 2
        told = "session 's1' is of cascade 'test' (c.json), not of 'two'; name that one or none"
        assert told in said.complaint
        assert "or run it on that input in a new session with --accept" in said.complaint
        assert (record_of("s1"), len(two.requests)) == (before, asked)

    def test_is_run_in_a_new_session_where_that_is_accepted(self, two: CommandLine) -> None:
        before, asked = record_of("s1"), len(two.requests)
        said = two("run", "two.json", "--resume", "s1", "--accept", *MODEL, "--json")
        assert said.code == 0, said.err
        assert said.json["session_id"] != "s1"
        assert said.json["outputs"] == {"x": "said", "y": "said"}
        assert [each.messages[0].text for each in two.requests[asked:]] == ["Do x."] * 2
        assert record_of("s1") == before
        shown = two("show", said.json["session_id"]).out
        assert "forked from session s1" in shown

    def test_so_is_a_file_that_holds_another_one_now(self, two: CommandLine) -> None:
        Path("two.json").replace("c.json")
        said = two("run", "--resume", "s1")
        assert (said.code, "not of 'two'" in said.complaint) == (2, True)

    def test_a_cascade_that_was_changed_is_still_the_same(self, two: CommandLine) -> None:
        two.write("c.json", cascade(phase("a"), phase("b", instructions="Do b well.")))
        assert two("run", "c.json", "--resume", "s1", *MODEL).code == 0
        assert [each.text for each in two.requests[-1].messages][-1] == "Do b well."

    def test_a_task_and_a_cascade_are_told_apart(self, two: CommandLine) -> None:
        two.write("other.xml", sequential(atomic("three"), atomic("four")))
        asked = len(two.requests)
        for wrong, way in (
            (("run", "two.json", "--resume", "t1"), "windlass evaluate --resume t1"),
            (("evaluate", "other.xml", "--resume", "t1"), "leave out --resume to run it anew"),
            (("evaluate", "t.xml", "--resume", "s1"), "windlass run --resume s1"),
        ):
            said = two(*wrong, *MODEL)
            assert (said.code, way in said.complaint) == (2, True), said.err
        assert len(two.requests) == asked

    async def test_in_python(self, two: CommandLine) -> None:
        bank = Bank()
        with pytest.raises(StepDiffers, match="is of cascade 'test'"):
            await library.resume("s1", "two.json", **bank.options)
        with pytest.raises(StepDiffers, match="is of cascade 'test'"):
            await Engine(**bank.options).session("two.json", resume="s1").send("Well?")
        assert bank.asked == []
        result = await library.resume("s1", "two.json", accept=True, **bank.options)
        assert (result.status, [*result.outputs]) == ("completed", ["x", "y"])


# ---- prune, and what is shown ----------------------------------------------------------


class TestPrune:
    def test_leaves_a_running_session_alone_and_says_so(self, begun: CommandLine) -> None:
        time.sleep(1.1)
        with held_elsewhere(begun.folder / STORE, "s1"):
            said = begun("prune", "--older-than", "1s")
            assert said.code == 0
            assert "left alone, as they are running: s1" in said.out
            assert set(sessions()) == {"s1"}
        assert begun("prune", "--older-than", "1s").code == 0
        assert sessions() == {}

    def test_who_comes_while_it_prunes_waits_and_reads_then(self, begun: CommandLine) -> None:
        """He would else go on with what is removed under his hands."""
        with SqliteStore.open_existing(begun.folder / STORE) as store:
            with store._locks.closed():
                program = (
                    "import windlass, sys\nfrom windlass.providers.scripted import Scripted\n"
                    "print('comes', flush=True)\n"
                    "windlass.resume_sync('s1', model='s/x', providers={'s': Scripted(print)})\n"
                )
                comes = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environ(),
                )
                assert comes.stdout is not None
                assert comes.stdout.readline() == b"comes\n"
                until = time.monotonic() + 60
                while not (begun.folder / STORE / "running" / "s1").exists():
                    assert time.monotonic() < until
                    time.sleep(0.01)
                with store._transaction() as db:
                    number = store._known("s1").number
                    db.execute("PRAGMA defer_foreign_keys = 1")
                    store._forget([number], dry_run=False)
            told, errors = comes.communicate(timeout=60)
        assert told == b""
        assert b"no session 's1' in this store" in errors


KILLED = """
import asyncio, sys
import windlass
from windlass.providers.scripted import Scripted

async def script(request):
    if request.messages[-1].text == "Do b.":
        print("asked", flush=True)
        await asyncio.sleep(60)
    return "said"

phases = [{"name": name, "instructions": f"Do {name}."} for name in "ab"]
windlass.run_sync({"cascade_id": "k", "phases": phases}, session_id="k", model="local/smollm2",
                  providers={"local": Scripted(script)})
"""


class TestBrokenOff:
    def shown(self, line: CommandLine, status: str) -> None:
        assert sessions()["k"] == status
        assert f"k, {status}" in line("show", "k").out.splitlines()[0]
        listed = line("sessions", "--status", status, "--json").json
        assert [each["session_id"] for each in listed] == ["k"]
        other = "running" if status == "broken off" else "broken off"
        assert line("sessions", "--status", other, "--json").json == []
        assert line("show", "k", "--json").json["status"] == status
        assert line("report", "k", "--json").json["status"] == status
        line("export", "k", "--as", "otel", "--out", "spans.json", "--force")
        assert f'"stringValue": "{status}"' in Path("spans.json").read_text()

    def test_by_a_kill(self, windlass: CommandLine) -> None:
        run = subprocess.Popen(
            [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env=environ()
        )
        assert run.stdout is not None
        assert run.stdout.readline() == b"asked\n"
        self.shown(windlass, "running")
        assert f"it runs in process {run.pid}" in windlass("show", "k").out
        assert "go on with it" not in windlass("show", "k").out
        assert "the session is running: this is its bill so far" in windlass("report", "k").out
        run.kill()
        run.communicate()
        self.shown(windlass, "broken off")
        assert "go on with it: windlass run --resume k" in windlass("show", "k").out
        told = "the session was broken off: this is its bill so far; go on with it: windlass run"
        assert told in windlass("report", "k").out
        assert windlass("run", "--resume", "k").code == 0
        assert sessions() == {"k": "completed"}

    def test_where_it_had_ended_before(self, begun: CommandLine) -> None:
        """It was taken up again, and then killed: how it ended then is not how it stands."""
        assert sessions()["s1"] == "incomplete"
        with held_elsewhere(begun.folder / STORE, "s1"):
            assert sessions()["s1"] == "running"
        assert sessions()["s1"] == "broken off"
        assert "go on with it: windlass run --resume s1" in begun("show", "s1").out
        assert begun("run", "--resume", "s1").code == 0
        assert sessions()["s1"] == "completed"

    def test_by_a_full_disk(self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        append, left = SqliteStore.append, iter(range(6))

        def full(store: SqliteStore, batch: Any) -> Any:
            if next(left, None) is None:
                raise StoreError("no space is left for the store")
            return append(store, batch)

        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "append", full)
            assert windlass("run", "c.json", *MODEL, "--session", "s1").code == 1
        assert sessions() == {"s1": "broken off"}
        assert "go on with it: windlass run --resume s1" in windlass("show", "s1").out

    def test_a_copy_of_a_store_runs_nothing(self, begun: CommandLine) -> None:
        import shutil

        with held_elsewhere(begun.folder / STORE, "s1"):
            shutil.copytree(STORE, "copy")
            assert sessions(Path("copy"))["s1"] == "broken off"
            assert begun("run", "--resume", "s1", "--store", "copy").code == 0


def test_a_chat_shows_as_running_while_it_lasts(windlass: CommandLine) -> None:
    del windlass
    seen: list[str] = []

    def watch_events(event: Event) -> None:
        if isinstance(event, PhaseStarted):
            seen.append(sessions()["s"])

    options: dict[str, Any] = {"model": "s/x", "providers": {"s": Scripted(lambda _: "said")}}
    library.run_sync(cascade(phase("a")), session_id="s", on_event=watch_events, **options)
    assert seen == ["running"]
    assert sessions() == {"s": "completed"}
