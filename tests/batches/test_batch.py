"""Many inputs side by side: what becomes of each, what is run again, and where it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import call, calls, cascade, phase
from tests.providers.exchanges import openai_stream
from tests.providers.server import serving, streamed
from tests.support.engine_budget import PRICES, SMALL, Priced
from tests.tools.mcp_running import PLAIN, ROOT
from windlass.api.batches.workers import BatchEvent, BatchResult, BatchStarted, RowEnded
from windlass.engine.events import Noted, Waiting
from windlass.errors import StoreError, UsageError
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request

OUT = Path("r.jsonl")
ASK = cascade(phase("a", instructions="Say {{ input.n }}."))
LINE = {
    "row": 1,
    "input_hash": "",
    "cascade_hash": "",
    "status": "completed",
    "again": False,
    "cost": 0,
    "tokens": {"in": 1, "out": 1},
}
ROWS = [{"n": n} for n in range(1, 11)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def number(request: Request) -> int:
    """The row that a request belongs to."""
    found = re.search(r"Say (\d+)", request.messages[0].text)
    assert found, request.messages
    return int(found[1])


def answers(bad: Iterable[int] = ()) -> Scripted:
    """A model that says the number it is asked for, and breaks at others."""

    async def script(request: Request) -> str:
        row = number(request)
        await asyncio.sleep(0.002 * (row % 3))
        if row in bad:
            raise ValueError(f"broke at {row}")
        return f"said {row}"

    return Scripted(script)


def work(script: Any, inputs: Any = ROWS, of: Any = ASK, **options: Any) -> BatchResult:
    options = {"out": OUT, "workers": 4, "model": "s/x", "providers": {"s": script}, **options}
    return windlass.batch_sync(of, inputs, **options)


def asked(model: Scripted) -> list[int]:
    return sorted(map(number, model.requests))


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUT.read_text().splitlines()]


class TestRows:
    def test_each_has_its_own_answer_session_and_line(self) -> None:
        events: list[BatchEvent] = []
        done = work(answers(), on_event=events.append)
        assert (done.rows, done.completed, done.failed, done.incomplete) == (10, 10, 0, 0)
        assert (done.again, done.reason, done.troubles) == (0, None, ())
        read = list(done.read())
        assert [line["row"] for line in read] == list(range(1, 11))
        assert [line["output"] for line in read] == [f"said {n}" for n in range(1, 11)]
        assert len({line["session_id"] for line in read}) == 10
        assert len({line["input_hash"] for line in read}) == 10
        assert all(line["tokens"]["in"] > 0 and line["outputs"]["a"] for line in read)
        assert done.tokens_in == sum(line["tokens"]["in"] for line in read)
        with SqliteStore.open_existing(Path(".windlass")) as store:
            for line in read:
                assert store.start(line["session_id"]).input == {"n": line["row"]}
        begun, *ended = events
        assert begun == BatchStarted("test", ("s/x",), 10, 0)
        assert sorted(each.row for each in ended if isinstance(each, RowEnded)) == [*range(1, 11)]
        assert [each.done for each in ended if isinstance(each, RowEnded)] == [*range(1, 11)]

    def test_what_is_noted_of_a_run_names_its_row(self) -> None:
        events: list[BatchEvent] = []
        two = {"factor": 2, "evaluator_instructions": "best"}
        Path("in.jsonl").write_text("\n".join(map(json.dumps, ROWS[:2])))
        of = cascade(phase("a", instructions="Say {{ input.n }}.", soundings=two))
        picks = Scripted(lambda _: '{"winner": 1}')
        work(picks, "in.jsonl", of, on_event=events.append)
        told = {event.text for event in events if isinstance(event, Noted)}
        assert "in.jsonl:2: sounding 1 of 2 is taken" in told
        assert all(text.startswith("in.jsonl:") for text in told)

    def test_many_at_once_are_not_mixed(self) -> None:
        done = work(answers(), [{"n": n} for n in range(1, 81)], workers=80)
        assert [line["output"] for line in done.read()] == [f"said {n}" for n in range(1, 81)]
        assert len({line["session_id"] for line in done.read()}) == 80

    def test_a_failure_stops_nothing_and_says_where_it_was(self) -> None:
        Path("in.jsonl").write_text("\n\n".join(map(json.dumps, ROWS)))
        done = work(answers({3, 7}), "in.jsonl")
        assert (done.completed, done.failed, done.again) == (8, 2, 2)
        first, second = done.troubles
        assert (first.row, first.place, first.status) == (3, "in.jsonl:5", "failed")
        assert "broke at 3" in str(first.error)
        assert second.session_id is not None
        assert [line["again"] for line in done.read()].count(True) == 2

    def test_what_no_error_of_ours_is_stops_nothing_either(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass.engine.phase._attempts.take_turn", None)
        done = work(answers(), ROWS[:2])
        assert done.failed == 2
        assert "TypeError" in str(done.troubles[0].error)

    def test_a_store_that_cannot_be_written_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        full = StoreError("the disk is full")
        appends = iter(range(100))
        append = SqliteStore.append

        def failing(store: SqliteStore, *args: Any) -> Any:
            if next(appends) > 20:
                raise full
            return append(store, *args)

        monkeypatch.setattr(SqliteStore, "append", failing)
        model = answers()
        with pytest.raises(StoreError, match="the disk is full"):
            work(model, workers=1)
        assert len(lines()) < 10

    def test_so_does_what_its_watcher_raises(self) -> None:
        def watch(event: BatchEvent) -> None:
            if isinstance(event, RowEnded):
                raise KeyError(event.row)

        with pytest.raises(KeyError):
            work(answers(), on_event=watch)
        assert len(lines()) == 1

    def test_at_most_so_many_runs_go_on_at_once(self) -> None:
        for workers in (1, 3):
            model = Priced(lambda _: "x", SMALL, "s/x")
            work(model, workers=workers, out=f"{workers}.jsonl", max_cost=None)
            assert model.most_running == workers

    @pytest.mark.parametrize("workers", [0, -1])
    def test_it_needs_a_worker(self, workers: int) -> None:
        with pytest.raises(UsageError, match="workers"):
            work(answers(), workers=workers)

    def test_state_and_tools_are_not_mixed(self) -> None:
        def script(request: Request) -> Message | str:
            if request.messages[-1].role == "tool":
                return "done"
            row = number(request)
            return calls(
                call("set_state", json.dumps({"key": "n", "value": row})),
                call("demo__echo", json.dumps({"text": str(row)})),
            )

        of = cascade(
            phase("a", instructions="Say {{ input.n }}.", tackle=["set_state", "demo.echo"]),
            phase("b", instructions="And {{ state.n }}.", context={"from": []}),
            mcp_servers={"demo": {"command": PLAIN, "env": {"PYTHONPATH": str(ROOT)}}},
        )

        def both(request: Request) -> Message | str:
            last = request.messages[-1].text
            return last if last.startswith("And") else script(request)

        done = work(Scripted(both), ROWS[:2], of)
        assert done.troubles == ()
        assert [line["output"] for line in done.read()] == [f"And {n}." for n in (1, 2)]
        assert [line["state"] for line in done.read()] == [{"n": n} for n in (1, 2)]

    def test_no_tool_writes_its_results(self) -> None:
        said: list[str] = []

        def script(request: Request) -> Message | str:
            if request.messages[-1].role == "tool":
                said.append(request.messages[-1].text)
                return "done"
            return calls(call("write_file", '{"path": "r.jsonl", "text": "x"}'))

        work(Scripted(script), ROWS[:1], cascade(phase("a", tackle=["write_file"])))
        assert "in use by this run" in said[0]

    async def test_runs_share_the_limits_of_their_provider(self) -> None:
        waits: list[float] = []

        def watch(event: BatchEvent) -> None:
            if isinstance(event, Waiting):
                waits.append(event.seconds)
                raise InterruptedError

        async with serving(streamed(openai_stream([{"content": "fine"}], "stop"))) as server:
            Path("windlass.toml").write_text(
                f'[providers.mine]\nwire = "openai"\nbase_url = "{server.url}/v1"\n'
                "requests_per_minute = 3\n"
            )
            with pytest.raises(InterruptedError):
                await windlass.batch(
                    ASK, ROWS, out=OUT, model="mine/m", on_event=watch, workers=8, trust=True
                )
        assert len(server.asked) <= 3
        assert waits[0] > 50


class TestResume:
    def test_what_is_answered_is_not_run_again_and_what_failed_is(self) -> None:
        work(answers({3, 7}))
        model = answers({7})
        done = work(model, resume=True)
        assert asked(model) == [3, 7]
        assert (done.completed, done.failed, done.troubles[0].row) == (9, 1, 7)
        assert len(lines()) == 12
        assert [line["output"] for line in done.read()][2] == "said 3"
        model = answers()
        done = work(model, resume=True)
        assert (asked(model), done.completed, done.failed) == ([7], 10, 0)
        assert (asked(model), work(model, resume=True).completed) == ([7], 10)

    def test_an_incomplete_row_is_answered(self) -> None:
        def script(request: Request) -> Any:
            return ("cut", "refusal") if number(request) == 2 else "fine"

        done = work(Scripted(script))
        assert (done.incomplete, done.again) == (1, 0)
        (trouble,) = done.troubles
        assert (trouble.row, trouble.status, trouble.reason) == (2, "incomplete", "refusal")
        model = answers()
        again = work(model, resume=True)
        assert asked(model) == []
        assert again.troubles == done.troubles

    @pytest.mark.parametrize("kept", [1, 9, 40, -2, -1])
    def test_the_line_that_a_kill_broke_off_is_cut(self, kept: int) -> None:
        work(answers(), workers=1)
        whole = OUT.read_bytes()
        before, last = whole[:-1].rsplit(b"\n", 1)
        OUT.write_bytes(before + b"\n" + (last + b"\n")[:kept])
        model = answers()
        assert work(model, resume=True).completed == 10
        assert asked(model) == [], "what is answered is in its session"
        assert json.loads(OUT.read_bytes().splitlines()[-1]) == json.loads(last)
        assert [line["row"] for line in lines()] == [*range(1, 11)]

    def test_more_inputs_may_follow(self) -> None:
        work(answers(), ROWS[:4])
        model = answers()
        assert work(model, ROWS, resume=True).completed == 10
        assert asked(model) == [5, 6, 7, 8, 9, 10]

    def test_it_may_begin_one(self) -> None:
        assert work(answers(), resume=True).completed == 10

    def test_results_of_another_batch_are_left_alone(self) -> None:
        work(answers())
        before, model = OUT.read_bytes(), answers()
        other = cascade(phase("a", instructions="Say {{ input.n }}!"))
        wrong = [{"n": 1}, {"n": 5}, *ROWS[2:]]
        for inputs, of, resume, told in (
            (ROWS, ASK, False, "exists already; go on with it with --resume"),
            (ROWS, other, True, "belongs to another cascade, or one that was changed since"),
            (wrong, ASK, True, "belongs to other inputs: row 2 differs"),
            (ROWS[:3], ASK, True, "belongs to other inputs"),
        ):
            with pytest.raises(UsageError) as raised:
                work(model, inputs, of, resume=resume)
            assert told in str(raised.value)
            assert "\n" not in str(raised.value)
        assert OUT.read_bytes() == before
        assert model.requests == []

    @pytest.mark.parametrize(
        "text",
        [
            "notes",
            "my notes\nof today\n",
            '{"row": 1, "mine": 2}',
            json.dumps({**LINE, "row": 0}) + "\n",
            json.dumps({**LINE, "tokens": {"in": 1}}) + "\n",
            "[" * 100_000,
        ],
    )
    def test_a_file_that_holds_no_results_is_left_alone(self, text: str) -> None:
        OUT.write_text(text)
        with pytest.raises(UsageError, match=r"r\.jsonl:1: this is not the result of a batch"):
            work(answers(), resume=True)
        assert OUT.read_text() == text

    def test_a_place_where_nothing_can_be_written(self) -> None:
        with pytest.raises(UsageError, match="the results cannot be written there"):
            work(answers(), out="no/such/folder/r.jsonl")
        assert not Path(".windlass").exists()

    async def test_two_at_once_do_not_write_one_file(self) -> None:
        options: Any = {"out": OUT, "model": "s/x", "resume": True}
        several = [
            windlass.batch(ASK, ROWS, providers={"s": answers()}, **options) for _ in range(2)
        ]
        ended = await asyncio.gather(*several, return_exceptions=True)
        refused = [each for each in ended if isinstance(each, UsageError)]
        assert len(refused) == 1
        assert "another process writes its results there" in str(refused[0])
        assert [line["row"] for line in lines()].sort() == [*range(1, 11)].sort()
        assert len(lines()) == 10


class TestLimits:
    def priced(self) -> Priced:
        Path("windlass.toml").write_text(PRICES)
        return Priced(lambda request: f"said {number(request)}", SMALL)

    def test_the_money_of_the_whole_batch(self) -> None:
        model = self.priced()
        of = cascade(phase("a", instructions="Say {{ input.n }}."), max_output_tokens=1)
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        done = work(model, of=of, max_cost=1.1, workers=3, **options)
        assert done.reason == "money"
        assert done.cost is not None
        assert done.cost <= 1.1
        assert done.completed == 5
        assert done.again == 5
        # It is the whole batch's: resumed without more of it nothing is sent.
        sent = len(model.requests)
        done = work(model, of=of, max_cost=1.1, resume=True, **options)
        assert (len(model.requests), done.reason, done.again) == (sent, "money", 5)
        done = work(model, of=of, max_cost=9.0, resume=True, **options)
        assert (done.completed, done.reason, len(model.requests)) == (10, None, 10)

    def test_a_run_that_the_money_of_the_batch_ends_is_run_again(self) -> None:
        model = self.priced()
        of = cascade(phase("a", instructions="Say {{ input.n }}."), phase("b"), max_output_tokens=1)
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        done = work(model, ROWS[:1], of, max_cost=0.21, **options)
        (trouble,) = done.troubles
        assert (trouble.status, trouble.reason, done.reason) == ("incomplete", "money", "money")
        assert (done.incomplete, done.again) == (1, 1)
        done = work(model, ROWS[:1], of, max_cost=3.0, resume=True, **options)
        assert (done.completed, done.troubles, done.reason) == (1, (), None)
        assert done.cost == pytest.approx(0.6)  # the first try was paid for, too

    def test_a_run_that_its_own_money_ends_is_answered(self) -> None:
        model = self.priced()
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        of = cascade(phase("a", instructions="Say {{ input.n }}."), phase("b"), max_output_tokens=1)
        done = work(model, of=of, budget=0.21, max_cost=100.0, **options)
        assert (done.incomplete, done.again, done.reason) == (10, 0, None)

    def test_tokens(self) -> None:
        model = self.priced()
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        done = work(model, max_tokens=350, workers=1, **options)  # a run uses 110
        assert (done.completed, done.again, done.reason) == (3, 7, "tokens")
        done = work(model, max_tokens=350, resume=True, **options)
        assert (len(model.requests), done.reason) == (3, "tokens")
        done = work(model, max_tokens=1_100, resume=True, **options)
        assert (done.completed, done.again, done.reason) == (10, 0, None)

    def test_a_limit_is_told_only_where_it_left_something(self) -> None:
        model = self.priced()
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        of = cascade(phase("a", instructions="Say {{ input.n }}."), max_output_tokens=1)
        done = work(model, of=of, max_cost=2.0001, workers=4, **options)
        assert (done.completed, done.again, done.reason) == (10, 0, None)

    def test_runs(self) -> None:
        model = answers()
        done = work(model, max_runs=4)
        assert (done.completed, done.again, done.reason) == (4, 6, "runs")
        done = work(model, max_runs=6, resume=True)
        assert (done.completed, done.again, done.reason) == (10, 0, None)

    def test_seconds(self) -> None:
        async def slow(_: Request) -> str:
            await asyncio.sleep(0.4)
            return "fine"

        done = work(Scripted(slow), max_seconds=0.5, workers=2)
        assert done.reason == "time"
        assert 1 <= done.completed < 10
        assert done.completed + done.again == 10

    @pytest.mark.parametrize(
        "limit", [{"max_cost": 0}, {"max_tokens": 0}, {"max_seconds": -1}, {"max_runs": 0}]
    )
    def test_a_limit_is_a_number_above_0(self, limit: dict[str, Any]) -> None:
        (name,) = limit
        with pytest.raises(UsageError, match=name):
            work(answers(), **limit)
        assert not OUT.exists()

    def test_one_run_without_a_price_leaves_the_others_their_sum(self) -> None:
        model = self.priced()
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        done = work(model, ROWS[:3], **options)
        assert done.cost == pytest.approx(0.6)
        assert done.unpriced == 0
        for unpriced in (1, 3):
            told = [
                {**line, "cost": None if at < unpriced else 0.2} for at, line in enumerate(lines())
            ]
            OUT.write_text("".join(f"{json.dumps(line)}\n" for line in told))
            done = work(model, ROWS[:3], resume=True, **options)
            known = pytest.approx(0.2 * (3 - unpriced)) if unpriced < 3 else None
            assert done.unpriced == unpriced
            assert done.cost == known

    def test_money_needs_a_price(self) -> None:
        model = Priced(lambda _: "x", SMALL)
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        with pytest.raises(UsageError, match="no known price"):
            work(model, max_cost=1, **options)


KILLED = """
import asyncio, sys
import windlass
from windlass.providers.scripted import Scripted

async def script(request):
    said = request.messages[-1].text
    with open("asked.txt", "a") as file:
        file.write(said + "\\n")
    await asyncio.sleep(0.02)
    with open("answered.txt", "a") as file:
        file.write(said + "\\n")
    return said

steps = ["Say", "Spell", "Sing"]
of = {"cascade_id": "k", "phases": [
    {"name": step, "instructions": step + " {{ input.n }}."} for step in steps
]}
windlass.batch_sync(of, [{"n": n} for n in range(36)], out="r.jsonl", workers=3, resume=True,
                    model="s/x", providers={"s": Scripted(script)})
"""


def test_a_batch_that_is_killed_at_half_repeats_nothing_that_was_answered(folder: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(windlass.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED]

    def at_end(child: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
        until = time.monotonic() + 100
        while not done():
            assert child.poll() is None, "it ended by itself"
            assert time.monotonic() < until
            time.sleep(0.005)

    for at in (9, 18):  # killed twice
        child = subprocess.Popen(command, cwd=folder, env=environ)
        try:
            at_end(child, lambda at=at: OUT.exists() and OUT.read_bytes().count(b"\n") >= at)  # type: ignore[misc]
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
    before = {line["row"] for line in map(json.loads, OUT.read_bytes().split(b"\n")[:-1])}
    assert len(before) < 36
    subprocess.run(command, cwd=folder, env=environ, check=True, timeout=100)
    assert Counter(line["row"] for line in lines()) == Counter(range(1, 37))
    assert [line["output"] for line in sorted(lines(), key=lambda line: line["row"])] == [
        f"Sing {n}." for n in range(36)
    ]
    asked, answered = (
        Counter((folder / name).read_text().splitlines()) for name in ("asked.txt", "answered.txt")
    )
    each = {f"{step} {n}." for step in ("Say", "Spell", "Sing") for n in range(36)}
    assert asked.keys() == answered.keys() == each
    # Twice were asked only the calls that were in flight when it was killed, one for each worker.
    assert asked.total() - len(each) <= 2 * 3
    assert len({line["session_id"] for line in lines()}) == 36
    with SqliteStore.open_existing(folder / ".windlass") as store:
        assert {info.status for info in store.sessions()} == {"completed"}
    assert len({line["tokens"]["out"] for line in lines()}) == 1, "a resumed run is counted whole"


def test_a_row_that_asks_a_person_waits_and_says_so() -> None:
    asks = cascade(phase("a", instructions="Say {{ input.n }}.", tackle=["ask_human"]))

    def script(request: Request) -> Any:
        last = request.messages[-1]
        if last.role == "tool" or number(request) == 1:
            return "said"
        return calls(call("ask_human", '{"question": "Which?"}'))

    model = Scripted(script)
    done = work(model, ROWS[:2], asks)
    assert (done.completed, done.incomplete, done.again) == (1, 1, 0)
    (trouble,) = done.troubles
    assert (trouble.row, trouble.status, trouble.error) == (2, "waiting", "phase 'a' asks: Which?")
    assert trouble.session_id
    options: dict[str, Any] = {"model": "s/x", "providers": {"s": model}}
    result = windlass.resume_sync(trouble.session_id, answers=["this"], **options)
    assert (result.status, len(model.requests)) == ("completed", 3)
