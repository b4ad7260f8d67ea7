"""How long the inspector's pages take: one long session, in a store with many messages.

    python -m bench.bench_pages [--calls 1000] [--messages 200000]

The session makes so many calls, with a tool call and its result each, so twice as many messages.
Pages are asked for in this process, without a network: first each by itself, then again. It takes
two minutes to make the store.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starlette.testclient import TestClient

import windlass
from windlass.history.base import Batch, NodeType, Outcome, Row, SessionStart
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, ToolCall, assistant, user
from windlass.providers.scripted import Scripted
from windlass_inspector._rendering import address, load_all
from windlass_inspector.site import make_app

PRICES: Final = "anthropic/claude-sonnet-4-5"
TOKEN: Final = "bench-token"
PORT: Final = 7410
WORDS: Final = [f"word{number}" for number in range(5_000)]
OF_ONE: Final = 500
"""Messages of each of the other sessions."""


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def make_long(folder: Path, calls: int) -> str:
    """A session of so many calls, shortened as it grows."""
    chance, made = random.Random(1), 0

    def look_at(path: str) -> str:
        """Look at a file."""
        lines = (text(chance, 8) for _ in range(chance.choice((10, 40, 120))))
        return "\n".join([path, *lines])

    def script(_: object) -> Message | str:
        nonlocal made
        made += 1
        if made >= calls:
            return "done"
        asked = json.dumps({"path": f"src/f{made % 40}.py"})
        return assistant(f"File {made}.", calls=[ToolCall(f"call_{made}", "look_at", asked)])

    phase = {
        "name": "work",
        "instructions": "Mend the parser.",
        "tackle": ["look_at"],
        "rules": {"max_turns": calls + 5},
    }
    result = windlass.run_sync(
        {"cascade_id": "long", "phases": [phase], "auto_context": {}},
        model="scripted/function",
        store=folder,
        tools=[look_at],
        providers={"scripted": Scripted(script, window=10**9)},
    )
    assert result.status == "completed", result.error
    return result.session_id


def make_others(folder: Path, messages: int) -> None:
    """Sessions with so many messages in all, older than the long one."""
    chance, began = random.Random(2), time.time() - 90 * 86_400
    with SqliteStore(folder, synchronous="NORMAL") as store:
        for number in range(messages // OF_ONE):
            at = began + number * 3_600
            start = SessionStart(f"cascade{number % 7}", PRICES, {}, {"cascade_id": "c"}, at)
            rows = list(rows_of(chance, number, at))
            ended = Outcome("completed", at + OF_ONE)
            store.append(Batch(f"other-{number}", rows=rows, outcomes=[ended], start=start))


def rows_of(chance: random.Random, session: int, at: float) -> Iterator[Row]:
    for turn in range(OF_ONE // 2):
        asked, said = user(text(chance, 60)), assistant(text(chance, 60))
        trace = f"{session}-{turn}"
        yield Row(NodeType.USER, f"{trace}-user", at + turn, asked, phase="a", turn=turn)
        yield Row(
            NodeType.AGENT,
            f"{trace}-agent",
            at + turn,
            said,
            phase="a",
            turn=turn,
            model=PRICES,
            tokens_in=100 * turn,
            tokens_out=80,
            tokens_cached=90 * turn,
            cost=0.001,
        )


def seconds(client: TestClient, path: str) -> float:
    before = time.perf_counter()
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = make_long(folder, given.calls)
        make_others(folder, given.messages)
        gc.collect()
        gc.set_threshold(100_000, 20, 100)
        load_all()
        with SqliteStore.open_existing(folder, reading=True) as store:
            app = make_app(store, token=TOKEN, port=PORT, price_as=PRICES, prices={})
            client = TestClient(app, base_url=f"http://127.0.0.1:{PORT}")
            root = client.get(f"/?token={TOKEN}").url.path.removesuffix("/")
            client.base_url = client.base_url.join(root)
            measure(client, store, session, given.calls)


def measure(client: TestClient, store: SqliteStore, session: str, calls: int) -> None:
    message = next(each.id for each in store.rows(session) if each.row.turn and each.id)
    base = address("session", session)
    pages = {
        "list of sessions": "/",
        "list, part 4": "/?page=4",
        "session": base,
        "session, its last calls": f"{base}?from={calls - 1}",
        "call in the middle": f"{base}/call/{calls // 2}",
        "last call": f"{base}/call/{calls}",
        "last call, its last messages": f"{base}/call/{calls}?from={2 * calls}",
        "message": address("session", session, "message", message or ""),
        "matrix": f"{base}/matrix",
        "matrix, its picture": f"{base}/matrix.png?first=1",
        "matrix, a cell": f"{base}/cell?first=1&message={calls}&call={calls // 2}",
        "costs": f"{base}/costs",
        "forks": f"{base}/forks",
        "search, nothing found": "/?q=nothing+of+the+kind",
    }
    print(f"{'page':32} {'first':>8} {'again':>8}   seconds")
    for what, path in pages.items():
        first = seconds(client, path)
        if what == "session":
            time.sleep(6)  # its bills are worked out beside the pages
        again = min(seconds(client, path) for _ in range(3))
        print(f"{what:32} {first:8.3f} {again:8.3f}")


if __name__ == "__main__":
    main()
