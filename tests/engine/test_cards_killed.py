"""A process that is killed while it makes cards loses none of them: the history is the queue."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import windlass
from windlass.engine.cards.card_queue import make_cards, queue_of
from windlass.engine.cards.maker import maker_of
from windlass.history.base import NodeType
from windlass.history.sqlite import SqliteStore
from windlass.settings.settings import Settings

PROGRAM = """
import asyncio, sys
import windlass
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted

count = 0


async def script(request):
    global count
    if request.model == "sum":
        await asyncio.sleep(0.05)
        return "A summary of it."
    count += 1
    await asyncio.sleep(0.01)
    call = ToolCall(f"c{count}", "set_state", '{"key": "k", "value": %d}' % count)
    return assistant(f"Step {count} of many: " + "the pump in hall 7 failed. " * 12, calls=[call])


cascade = {
    "cascade_id": "long",
    "auto_context": True,
    "phases": [{"name": "a", "instructions": "Go on and on.", "tackle": ["set_state"],
                "rules": {"max_turns": 10_000}}],
}
windlass.run_sync(cascade, {}, model="scripted/x", store=sys.argv[1], session_id="s",
                  providers={"scripted": Scripted(script)})
"""


@pytest.mark.req("AC-26", "AC-98")
def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    store_folder = tmp_path / "store"
    said = {"WINDLASS_CARDS_SUMMARISER": "scripted/sum", "WINDLASS_CARDS_EMBEDDER": "none"}
    # The child must import what is tested here, wherever it runs.
    environ = {**os.environ, **said, "PYTHONPATH": str(Path(windlass.__file__).parents[1])}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store_folder)], env=environ, cwd=tmp_path
    )
    try:
        until = time.monotonic() + 200
        made = 0
        while made < 5:
            assert time.monotonic() < until, "no card came"
            assert child.poll() is None
            time.sleep(0.1)
            if (store_folder / "windlass.sqlite").exists():
                with SqliteStore.open_existing(store_folder) as store:
                    made = len(store.cards("s"))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with SqliteStore.open_existing(store_folder) as store:
        before = {card.id: card for card in store.cards("s")}
        replies = [
            one.id
            for one in store.rows("s")
            if one.row.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP)
        ]
        assert len(before) < len(replies), "some wait"
        assert [one for one in store.verify() if one.severity == "damage"] == []
        settings = Settings.read({}, {}, tmp_path)
        maker = maker_of(settings, lambda name: pytest.fail(f"{name} was asked"), {})
        queue = queue_of(store, "s", maker, lambda row: replace(row, trace_id="t"))
        told = asyncio.run(make_cards(queue))
        after = {card.id: card for card in store.cards("s")}
        assert told.made == len(after) - len(before) > 0
        assert set(replies) <= after.keys()
        assert {id_: after[id_] for id_ in before} == before
