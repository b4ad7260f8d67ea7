"""A hundred runs at once in a process that may open 128 files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from windlass.history.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]

RUNS = """
import asyncio, json, os, resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
import windlass
from tests.providers.exchanges import openai_stream
from tests.providers.server import serving, streamed
from windlass.messages import ToolCall, assistant
from windlass.providers.scripted import Scripted

def look() -> str:
    '''Look.'''
    return json.dumps([{"id": n, "name": f"name {n}"} for n in range(100)])

def script(request):
    if request.messages[-1].role == "tool":
        return "done"
    return assistant(calls=[ToolCall("c1", "look", "{}")])

silences = [0.0]

async def beat():
    '''Processor time of this thread between two beats: on a busy machine the clock tells little.'''
    before = time.thread_time()
    while True:
        await asyncio.sleep(0.01)
        now = time.thread_time()
        silences.append(now - before)
        before = now

async def main(store):
    phases = [{"name": "a", "instructions": "Do a.", "tackle": ["look"]}]
    cascade = {"cascade_id": "c", "auto_context": True, "phases": phases}
    beating = asyncio.create_task(beat())
    async def one(number):
        given = {"scripted": Scripted(script)}
        return await windlass.run(
            cascade, model="scripted/x", store=store, tools=[look], providers=given,
            session_id=f"s{number}",
        )
    results = await asyncio.gather(*(one(number) for number in range(100)), return_exceptions=True)
    beating.cancel()
    told = [repr(r) if isinstance(r, BaseException) else r.status for r in results]
    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    print(json.dumps([sorted(set(told)), max(silences), open_files]))

asyncio.run(main(sys.argv[1]))
"""


def test_all_complete_and_leave_the_event_loop_to_others(tmp_path: Path) -> None:
    store_folder = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", RUNS, str(store_folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    statuses, silence, files = json.loads(done.stdout)
    assert statuses == ["completed"]
    assert silence < 1
    assert files < 64
    with SqliteStore.open_existing(store_folder) as store:
        assert {info.status for info in store.sessions()} == {"completed"}
        assert len(store.sessions()) == 100
