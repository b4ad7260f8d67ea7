"""What goes wrong: nothing recorded is lost, and what is sent on is whole."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase, without_steps
from tests.engine.pairing import anthropic_refuses, gemini_refuses
from tests.strategies import png
from windlass.errors import (
    BadRequest,
    ContextTooLong,
    ProviderError,
    StoreError,
    UsageError,
)
from windlass.history.base import Batch, NodeType
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.tools.base import ToolContext
from windlass.tools.registry import tool
from windlass.wire.base import Reply, Request
from windlass.wire.openai import check_sequence, to_openai

RELEASE = threading.Event()


def breaks(word: str = "") -> str:
    """Raise."""
    raise RuntimeError(f"no {word or 'luck'}")


@tool(timeout_s=0.2)
def hangs() -> str:
    """Never come back."""
    RELEASE.wait(60)
    return "late"


def paints() -> bytes:
    """Return a picture."""
    return png()


def garbles() -> bytes:
    """Return text in another encoding."""
    return "Die Länge des Tauwerks ist zu messen".encode("latin-1")


def binary() -> bytes:
    """Return bytes that are nothing."""
    return bytes(range(128, 256))


def plain() -> str:
    """Return text."""
    return "fine"


TOOLS = (breaks, hangs, paints, garbles, binary, plain)
NAMES = [function.__name__ for function in TOOLS]


@pytest.fixture(autouse=True)
def _let_go() -> Any:
    RELEASE.clear()
    yield
    RELEASE.set()


def record_is_whole(store: SqliteStore, session: str) -> bool:
    """Whether the store is sound and no call in the session is left without its result."""
    said = [
        stored.row.message
        for stored in store.rows(session)
        if stored.row.message and stored.row.node_type != NodeType.CONTEXT_INJECTION
    ]
    check_sequence(said)
    return not [found for found in store.verify() if found.severity == "damage"]


class TestTools:
    @pytest.mark.parametrize(
        ("name", "arguments", "told"),
        [
            ("breaks", '{"word": "wind"}', "RuntimeError: no wind"),
            ("hangs", "{}", "'hangs' did not finish within its time limit of 0.2 s"),
            ("plane", "{}", "unknown tool 'plane': did you mean 'plain'?"),
            ("set_state", '{"key": "k", "value": 1}', "unknown tool 'set_state'"),
            ("breaks", '{"word": ', "the arguments of 'breaks' are no JSON"),
            ("breaks", '{"wurd": "x"}', "wurd"),
            ("breaks", "[1]", "are not a JSON object"),
        ],
    )
    async def test_a_failure_is_a_result_that_the_model_sees(
        self, house: House, name: str, arguments: str, told: str
    ) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=NAMES), phase("b")),
            {"a": [calls(call(name, arguments), call("plain")), "I see."]},
            tools=TOOLS,
        )
        bad, good = [m for m in ran.request("a", 2).messages if m.role == "tool"]
        assert told in bad.text
        assert good.text == "fine"
        assert ran.result.status == "completed"
        assert ran.result.state == {}
        errors = [json_of(s.row)["error"] for s in ran.rows(NodeType.TOOL_RESULT)]
        assert errors == [True, False]
        chat = [to_openai(message) for message in ran.request("b").messages]
        defined = {spec.name for spec in ran.request("b").tools}
        assert name in defined  # also a tool that never was
        assert anthropic_refuses(chat, defined) + gemini_refuses(chat, defined) == []
        assert record_is_whole(ran.store, ran.session)

    async def test_a_tool_that_hangs_holds_up_neither_its_neighbours_nor_the_run(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def waits() -> str:
            """Wait."""
            RELEASE.wait(60)
            return "late"

        monkeypatch.setenv("WINDLASS_TOOL_TIMEOUT_S", "0.2")
        ran = await house.run(
            cascade(phase("a", tackle=["waits", "plain"])),
            {"a": [calls(call("waits"), call("plain")), "ok"]},
            tools=(waits, plain),
        )
        bad, good = [m for m in ran.request("a", 2).messages if m.role == "tool"]
        assert "time limit of 0.2 s" in bad.text
        assert good.text == "fine"

    async def test_a_picture_and_bytes_that_are_no_text(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=NAMES)),
            {"a": [calls(call("paints"), call("garbles"), call("binary")), "ok"]},
            tools=TOOLS,
        )
        painted, garbled, nothing = [m for m in ran.request("a", 2).messages if m.role == "tool"]
        assert [picture.describe() for picture in painted.pictures] == ["paints.png, 2x3"]
        assert "Die L\ufffdnge des Tauwerks" in garbled.text
        assert "1 of 36 bytes were not valid UTF-8" in garbled.text
        assert "neither text nor a picture" in nothing.text
        assert record_is_whole(ran.store, ran.session)

    async def test_a_state_value_that_is_no_json_is_the_tools_failure(self, house: House) -> None:
        def keeps(context: ToolContext) -> str:
            """Keep what cannot be kept."""
            context.state["thing"] = object()
            return "kept"

        ran = await house.run(
            cascade(phase("a", tackle=["keeps"])),
            {"a": [calls(call("keeps")), "ok"]},
            tools=[keeps],
        )
        assert "state 'thing' must be a JSON value" in ran.seen("a", 2)[-1][1]
        assert ran.result.status == "completed"
        assert ran.result.state == {}


class TestProviders:
    @pytest.mark.req("ADR-45")
    @pytest.mark.parametrize("error", [ProviderError("it is down"), BadRequest("it refused")])
    async def test_a_failure_is_recorded_and_nothing_is_sent_again(
        self, house: House, error: ProviderError
    ) -> None:
        ran = await house.run(
            cascade(phase("a"), phase("b", tackle=["plain"]), phase("c")),
            _failing_after(2, error),
            tools=TOOLS,
        )
        assert len(ran.model.requests) == 3  # the one that failed was the last
        assert ran.result.status == "failed"
        assert ran.result.error is error
        assert error.session_id == ran.session
        assert ran.result.outputs == {"a": "plain words"}
        (row,) = ran.rows(NodeType.ERROR)
        assert row.row.phase == "b"
        assert json_of(row.row) == {"error": type(error).__name__, "text": str(error)}
        outcomes = {o.phase: (o.status, o.error) for o in ran.store.outcomes(ran.session)}
        assert outcomes["b"] == outcomes[None] == ("failed", str(error))
        assert len(ran.calls()) == 2
        assert record_is_whole(ran.store, ran.session)
        with pytest.raises(type(error)):
            ran.result.check()

    async def test_a_bug_of_a_provider_becomes_our_error_with_its_cause(self, house: House) -> None:
        bug = KeyError("choices")
        ran = await house.run(
            cascade(phase("a"), phase("b", tackle=["plain"])), _failing_after(2, bug), tools=TOOLS
        )
        assert isinstance(ran.result.error, ProviderError)
        assert ran.result.error.__cause__ is bug
        told = "the provider of 'scripted/function' failed: KeyError: 'choices'"
        assert str(ran.result.error) == told
        assert len(ran.model.requests) == 3
        assert record_is_whole(ran.store, ran.session)

    async def test_a_failure_while_tools_are_chosen_is_one_of_the_phase(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle="manifest")), _failing_after(0, ValueError("odd"))
        )
        assert isinstance(ran.result.error, ProviderError)
        assert [o.phase for o in ran.store.outcomes(ran.session)] == ["a", None]

    async def test_what_the_run_was_told_by_a_failed_phase_is_not_lost(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a", tackle=["plain"])),
            _failing_after(1, ProviderError("down")),
            tools=TOOLS,
        )
        kinds = [str(stored.row.node_type) for stored in ran.rows()]
        assert kinds == ["user", "agent", "tool_result", "error"]


def _failing_after(replies: int, error: Exception) -> Callable[[Request], Any]:
    """Words first, then a call, then the error."""
    given = iter(
        ["plain words", calls(call("plain"))] if replies > 1 else [calls(call("plain"))] * replies
    )

    def script(_: Request) -> Any:
        for reply in given:
            return reply
        raise error

    return script


class TestBugs:
    async def test_one_that_nobody_foresaw_is_recorded_and_goes_on_up(self, house: House) -> None:
        def stumble() -> None:
            raise ZeroDivisionError("a watcher's bug")

        with pytest.raises(ZeroDivisionError):
            await house.run(cascade(phase("a"), phase("b")), before={"b": stumble}, session_id="s1")
        store = house.open_store()
        (outcome,) = [o for o in store.outcomes("s1") if o.phase is None]
        assert (outcome.status, outcome.error) == ("failed", "ZeroDivisionError: a watcher's bug")
        assert [o.phase for o in store.outcomes("s1")] == ["a", None]
        assert record_is_whole(store, "s1")


class TestStores:
    async def test_one_that_fails_in_the_middle_stops_the_run(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append = SqliteStore.append
        full = StoreError("no space is left")

        def fails(store: SqliteStore, batch: Batch) -> Any:
            if any(row.phase == "b" for row in batch.rows):
                raise full
            return append(store, batch)

        monkeypatch.setattr(SqliteStore, "append", fails)
        with pytest.raises(StoreError) as caught:
            await house.run(cascade(phase("a"), phase("b")), session_id="s1")
        assert caught.value is full
        assert caught.value.session_id == "s1"
        assert caught.value.exit_code == 1
        store = house.open_store()
        assert [o.status for o in store.outcomes("s1")] == ["completed", "failed"]
        assert record_is_whole(store, "s1")

    async def test_one_that_is_locked_by_another_loses_nothing_acknowledged(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "busy_s", 0.05)
        locks: list[sqlite3.Connection] = []

        def script(request: Request) -> str:
            if request.messages[-1].text == "Do b.":
                locks.append(sqlite3.connect(house.store / "windlass.sqlite"))
                locks[0].execute("BEGIN IMMEDIATE")
            return "said"

        with pytest.raises(StoreError, match="locked by another program"):
            await house.run(cascade(phase("a"), phase("b")), script, session_id="s1")
        locks[0].close()
        store = house.open_store()
        said = [s.row.message.text for s in store.rows("s1") if s.row.message]
        assert said == ["Do a.", "said", "Do b."]
        assert record_is_whole(store, "s1")

    async def test_a_session_of_that_name_is_the_users_mistake(self, house: House) -> None:
        ran = await house.run(cascade(phase("a")), session_id="mine")
        with pytest.raises(UsageError, match="'mine' is in the store already"):
            await house.run(cascade(phase("a")), session_id="mine")
        assert len(ran.store.sessions()) == 1
        assert len(ran.rows()) == 2

    async def test_an_input_that_is_no_json_is_the_users_mistake(self, house: House) -> None:
        with pytest.raises(UsageError, match="JSON values"):
            await house.run(cascade(phase("a")), None, {"x": object()})

    async def test_a_cascade_with_mistakes_leaves_no_store_behind(self, house: House) -> None:
        with pytest.raises(UsageError):
            await house.run(cascade(phase("a", tackle=["nothing_like_it"])))
        assert not house.store.exists()

    def test_two_processes_run_into_one_store(self, tmp_path: Path) -> None:
        driver = tmp_path / "driver.py"
        driver.write_text(
            "import sys, windlass\n"
            "from windlass.providers.scripted import Scripted\n"
            "phases = [{'name': n, 'instructions': 'Do ' + n} for n in 'abc']\n"
            "for number in range(5):\n"
            "    windlass.run_sync({'cascade_id': sys.argv[1], 'phases': phases},\n"
            "        model='scripted/x', store='store', session_id=f'{sys.argv[1]}-{number}',\n"
            "        providers={'scripted': Scripted(lambda r: 'ok ' * 2000)}).check()\n",
            encoding="utf-8",
        )
        running = [
            subprocess.Popen([sys.executable, str(driver), name], cwd=tmp_path) for name in "xy"
        ]
        assert [process.wait(timeout=120) for process in running] == [0, 0]
        with SqliteStore.open_existing(tmp_path / "store") as store:
            found = store.sessions()
            assert len(found) == 10
            assert {info.status for info in found} == {"completed"}
            assert {info.calls for info in found} == {3}
            assert all(record_is_whole(store, info.session_id) for info in found)


class _Sleeper(Scripted):
    """A model that says it was asked and then takes very long."""

    def __init__(self, asked: asyncio.Event) -> None:
        super().__init__(lambda _: "never")
        self.asked = asked

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        self.asked.set()
        await asyncio.sleep(60)
        return await super().send(request, on_text)


class TestCancelling:
    async def test_in_the_middle_of_a_call(self, house: House) -> None:
        asked = asyncio.Event()
        task = asyncio.ensure_future(
            windlass.run(
                cascade(phase("a")),
                model="slow/x",
                store=house.store,
                providers={"slow": _Sleeper(asked)},
                session_id="s1",
            )
        )
        await asyncio.wait_for(asked.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self._check(house, ["user"])

    @pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
    def test_by_whoever_ends_the_process(self, house: House, how: type[BaseException]) -> None:
        def script(request: Request) -> str:
            raise how

        with pytest.raises(how):
            asyncio.run(house.run(cascade(phase("a")), script, session_id="s1"))
        self._check(house, ["user"])

    async def test_while_its_last_cards_are_made(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draining = asyncio.Event()

        async def drain(cards: object) -> None:
            draining.set()
            await asyncio.sleep(60)

        monkeypatch.setattr("windlass.engine.cards.card_queue.CardIndexer.drain", drain)
        given = cascade(phase("a"), auto_context={})
        running = asyncio.ensure_future(house.run(given, session_id="s1"))
        await asyncio.wait_for(draining.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [one.status for one in house.open_store().outcomes("s1")] == [
            "completed",
            "interrupted",
        ]

    async def test_takes_no_signal_from_its_host(self, house: House) -> None:
        def handlers() -> list[object]:
            return [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

        before = handlers()
        during: list[object] = []

        def script(request: Request) -> str:
            during.extend(handlers())
            return "said"

        await house.run(cascade(phase("a")), script)
        assert during == before == handlers()

    @pytest.mark.parametrize("kind", ["async", "thread"])
    async def test_in_the_middle_of_tools(self, house: House, kind: str) -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def sleeps() -> str:
            """Sleep."""
            started.set()
            await asyncio.sleep(60)
            return "late"

        def blocks() -> str:
            """Block a thread."""
            loop.call_soon_threadsafe(started.set)
            RELEASE.wait(60)
            return "late"

        name = "sleeps" if kind == "async" else "blocks"
        task = asyncio.ensure_future(
            house.run(
                cascade(phase("a", tackle=["sleeps", "blocks", "plain"])),
                {"a": [calls(call("plain"), call(name))]},
                tools=(sleeps, blocks, plain),
                session_id="s1",
            )
        )
        await asyncio.wait_for(started.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store = self._check(house, ["user", "agent", "tool_result", "tool_result"])
        said = [s.row.message.text for s in store.rows("s1") if s.row.message]
        assert said[2:] == ["[no result: the run was interrupted]"] * 2

    @staticmethod
    def _check(house: House, kinds: list[str]) -> SqliteStore:
        store = house.open_store()
        (outcome,) = store.outcomes("s1")
        assert (outcome.phase, outcome.status) == (None, "interrupted")
        assert [str(s.row.node_type) for s in without_steps(store.rows("s1"))] == kinds
        assert record_is_whole(store, "s1")
        return store


class TestWindows:
    async def test_a_snowball_larger_than_the_window_names_what_is_large_and_what_helps(
        self, house: House
    ) -> None:
        sizes = [300, 100, 500, 200, 400, 50, 600]
        names = [f"p{size}" for size in sizes]
        ran = await house.run(
            cascade(*(phase(name) for name in names), phase("z"), max_output_tokens=16),
            {name: ["word " * size] for name, size in zip(names, sizes, strict=True)},
            model={"window": 2_000},
        )
        error = ran.result.error
        assert isinstance(error, ContextTooLong)
        assert ran.requests("z") == []
        text = str(error)
        assert text.startswith("phase 'z' would send 2,")
        assert "takes 1,984 (window 2,000, 16 kept for the reply)" in text
        listed = [line.split() for line in text.splitlines() if " tokens  " in line]
        assert [line[3] for line in listed] == ["p600", "p500", "p400", "p300", "p200"]
        occurrences = {s.id for s in ran.rows() if s.id}
        assert all(line[4] in occurrences for line in listed)
        for setting in ("`context`", "context_strategy", "context_retention"):
            assert setting in text
        assert ran.result.outputs.keys() == set(names)
        assert record_is_whole(ran.store, ran.session)

    async def test_families_counted_inexactly_get_a_margin(self, house: House) -> None:
        words = "word " * 850
        model = {"window": 1_000, "counts_as": "unknown-model"}
        ran = await house.run(
            cascade({"name": "a", "instructions": words}, max_output_tokens=16), model=model
        )
        assert isinstance(ran.result.error, ContextTooLong)
        assert "takes 894" in str(ran.result.error)
        assert "10 % margin" in str(ran.result.error)


async def test_the_scripted_model_is_closed_even_when_the_run_fails(house: House) -> None:
    closed: list[bool] = []

    class Watched(Scripted):
        async def close(self) -> None:
            closed.append(True)

    model = Watched(lambda _: Message("assistant"))
    for session in ("s", "s"):  # the second is refused before it begins
        try:
            await windlass.run(
                cascade(phase("a")),
                model="watched/x",
                store=house.store,
                providers={"watched": model},
                session_id=session,
            )
        except UsageError:
            continue
    assert closed == [True, True]
