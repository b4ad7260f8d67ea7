"""Cards on a ClickHouse server that fails, and cards that a race left behind."""

# ruff: noqa: F401, F811 - fixtures are found by their names
from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable

import pytest
from tests.history.builders import row, start
from tests.support.history_cards_kept import SAID, card

from tests_clickhouse.test_trouble import client, make, store, trouble
from windlass.engine.cards.card_queue import CardQueue
from windlass.engine.cards.maker import CardMaker
from windlass.history.base import Batch
from windlass.history.card_rows import CardMarks
from windlass.messages import user
from windlass.selection.options import CardOptions
from windlass.text.tokens import size_up
from windlass_clickhouse.client import ClickHouseClient, LostConnectionError
from windlass_clickhouse.layout import CARDS
from windlass_clickhouse.store import ClickHouseStore


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_connection_that_breaks_in_a_batch_of_cards(
    store: ClickHouseStore, trouble: Callable[[str], None], kind: str
) -> None:
    ids = [one for one in store.append(Batch("s", rows=[row(said) for said in SAID])) if one]
    cards = [card(id_, at, phase=None, turn=None) for at, id_ in enumerate(ids)]
    trouble(f"kind={kind}&table=context_cards")
    store.put_cards("s", cards)
    assert list(store.cards("s")) == cards
    assert store.query("SELECT count(*) AS n FROM context_cards") == [{"n": 4}]
    trouble(f"kind={kind}&table=context_cards&times=0")
    newer = [card(ids[0], phase=None, turn=None, generated_at=1_763_000_100)]
    with pytest.raises(LostConnectionError):
        store.put_cards("s", newer)
    trouble("kind=")
    store.put_cards("s", newer)
    assert list(store.cards("s")) == [*newer, *cards[1:]]
    assert list(store.verify()) == []


def test_what_a_worker_could_not_keep_waits_and_is_made_again(
    store: ClickHouseStore, trouble: Callable[[str], None]
) -> None:
    rows = [row(user(f"message number {at} of many")) for at in range(25)]
    store.append(Batch("s", rows=rows))
    maker = CardMaker(CardOptions(), summariser=None, embedder=None)

    async def work() -> int:
        marks = CardMarks({}, {})
        queue = CardQueue(store, maker, "s", size_up, lambda: marks, lambda _: None)
        trouble("kind=before&table=context_cards&skip=1&times=0")
        with pytest.raises(LostConnectionError):
            await queue.make_waiting()
        trouble("kind=")
        assert len(store.cards("s")) == 10
        return (await queue.make_waiting()).made

    assert asyncio.run(work()) == 25
    assert len(store.cards("s")) == 25
    assert not store.without_cards("s")


@pytest.mark.req("AC-20", "AC-22")
def test_a_card_of_no_message_is_a_note_and_the_table_is_the_documents(
    store: ClickHouseStore, client: ClickHouseClient
) -> None:
    (id_,) = store.append(Batch("s", rows=[row(SAID[0])]))
    assert id_ is not None
    store.put_cards("s", [card(id_, phase=None)])
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    lost = ["gone", "0" * 16, "", [], [], "", 1, "user", "", None, False, False, None, at, "", at,
            "0" * 16 + "-1"]  # fmt: skip
    client.insert("context_cards", CARDS, [lost], "lost")
    assert [(one.what, one.severity) for one in store.verify()] == [("is of no message", "note")]
    assert [one.id for one in store.cards("s")] == [id_]
    ((engine, order, partition),) = client.select(
        "SELECT engine_full, sorting_key, partition_key FROM system.tables "
        "WHERE database = currentDatabase() AND name = 'context_cards'"
    )
    assert engine.startswith("ReplacingMergeTree(generated_at)")
    assert order == "session_id, content_hash, message_id"
    assert partition == "toYYYYMM(message_timestamp)"
    indexes = client.select(
        "SELECT name, type FROM system.data_skipping_indices "
        "WHERE database = currentDatabase() AND table = 'context_cards'"
    )
    assert ("keywords_idx", "bloom_filter") in indexes
