"""What looking into a session asks of its store: as much of a long one as of a short one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.engine.harness import House, Ran, cascade, phase
from tests.engine.logs import logs, lookup, reading
from windlass.history import base_store as store_reading
from windlass.history.base import Store
from windlass.history.base_session import decode
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message
from windlass.report.call_views import view_session
from windlass.report.calls import SessionRecord
from windlass.report.costs import session_cost
from windlass.report.explanation import explain_call
from windlass.report.prefix import prefix_of

LOOKS: dict[str, Callable[[Store, str], object]] = {
    "show": lambda store, session: [len(call.shown) for call in view_session(store, session).calls],
    "show --call": lambda store, session: SessionRecord(store, session).call(5).seen,
    "explain": lambda store, session: explain_call(store, session, 5),
    "report": lambda store, session: session_cost(store, session, "openai/gpt-4o"),
    "report --prefix": prefix_of,
}


async def read_logs(house: House, count: int) -> Ran:
    """A run of a phase that reads so many logs and shortens them, and of one after it."""
    builds = [str(number) for number in range(count)]
    return await house.run(
        cascade(lookup(intra_context={"profile": "lean"}), phase("b")),
        reading(*builds),
        tools=[logs()],
    )


@pytest.mark.parametrize("look", LOOKS)
async def test_queries_and_contents_do_not_grow_with_calls(
    house: House, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def counted(key: str, *rest: object) -> Message:
        decoded.append(key)
        return decode(key, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store_reading, "decode", counted)
    queries: dict[int, int] = {}
    for count in (5, 25):
        ran = await read_logs(house, count)
        statements: list[str] = []
        decoded.clear()
        with closing(SqliteStore.open_existing(house.store)) as store:
            store._db.set_trace_callback(statements.append)
            LOOKS[look](store, ran.session)
        queries[count] = len(statements)
        # Once as a row's message, and once as what a call was shown.
        assert max(map(decoded.count, decoded)) <= 2
    assert queries[5] == queries[25]
