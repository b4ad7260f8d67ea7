"""What every store promises: what goes in comes out, once, whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.history.builders import (
    LONG,
    a_session,
    call,
    picture_row,
    png,
    row,
    seen,
    start,
)
from windlass.caching.meter import PrefixDetails
from windlass.caching.pauses import Lifetime
from windlass.errors import StoreError, UsageError
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Outcome,
    Reason,
    Row,
    SessionFilter,
    SessionStart,
    StateChange,
    Store,
    request_hash,
)
from windlass.history.details import (
    BlockDetails,
    BlocksBill,
    BudgetDetails,
    CacheDetails,
    CallDetails,
    ClearedNote,
    InjectorDetails,
    MarkDetails,
    OldBlocks,
    OutcomeDetails,
    PlaceCost,
    PlainRequest,
    PlannerDetails,
    PositionDetails,
    PostponedEdit,
    RefusedTokens,
    TierDetails,
)
from windlass.history.row_details import Inherited, ReplyDetails, json_of
from windlass.history.step import Step
from windlass.messages import Message, Opaque, Picture, Text, ToolCall, assistant, tool, user
from windlass.text.pictures import picture


def without_bytes(given: Row) -> Row:
    return dataclasses.replace(given, pictures={})


class TestRoundTrip:
    def test_the_class_is_a_store(self, store: Store) -> None:
        checked: Store = store
        assert checked is store

    @pytest.mark.req("AC-8", "CI-39")
    def test_every_field_of_a_row_comes_back(self, store: Store) -> None:
        data = png()
        told = Row(
            node_type=NodeType.FOLLOW_UP,
            trace_id="t2",
            timestamp=1_763_000_000.123456,
            message=assistant("here", seen(data)),
            parent_id="t1",
            phase="write",
            turn=3,
            attempt=2,
            sounding_index=1,
            model="anthropic/claude",
            tokens_in=10,
            tokens_out=20,
            tokens_cached=5,
            cost=0.25,
            duration_ms=12.5,
            full_history_size=9,
            context_size=4,
            tokens_saved=-7,
            text="ü",
            details=ReplyDetails("stop", Step("write", 1, 2, 3), inherited=Inherited("z", [1, 2])),
            pictures={seen(data).sha256: data},
            keep_pictures=True,
        )
        store.append(Batch("s", start=start(), rows=[row(), told]))
        first, second = store.rows("s")
        assert second.row == without_bytes(told)
        assert json_of(second.row) == json_of(told)
        assert (first.seq, second.seq, second.session_id) == (1, 2, "s")
        assert (first.id, first.key, first.row.message) == (None, None, None)
        assert told.message is not None
        assert second.key == told.message.key
        assert store.picture(seen(data).sha256) == data

    @pytest.mark.parametrize("text", ["", "short", LONG, "ünïcode ✓", "nul \0 inside", "\ud800"])
    def test_every_kind_of_message_comes_back(self, store: Store, text: str) -> None:
        said = Message(
            "assistant",
            (
                Text(text),
                Opaque("anthropic", "thinking", '{"signature":"x"}', "claude"),
                Picture("", "image/png", url="https://example.org/a.png", detail="low"),
            ),
            (ToolCall("c1", "run_sql", '{"sql": "ü"}'),),
            name="lamp",
        )
        answers = [tool("c1", text, name="run_sql", failed=failed) for failed in (False, True)]
        store.append(Batch("s", start=start(), rows=[row(said), *map(row, answers)]))
        assert [stored.row.message for stored in store.rows("s")] == [said, *answers]
        assert store.message(said.key) == said

    def test_a_picture_that_brings_its_own_bytes_is_kept(self, store: Store) -> None:
        shown = picture(png(3), name="a.png")
        store.append(Batch("s", start=start(), rows=[row(user(shown))]))
        assert store.picture(shown.sha256) == png(3)

    def test_every_detail_of_a_call_comes_back_and_what_it_says_nothing_of_has_no_key(
        self, store: Store
    ) -> None:
        told = CallDetails(
            tool_choice="auto",
            prefix=PrefixDetails(7, new_prefix=True, broken_by="message 2"),
            position=PositionDetails("end", PlaceCost(9, 1), PlaceCost(9, 8, 0.5)),
            budget=BudgetDetails(100, 120, exceeded=True),
            planner=PlannerDetails(
                "defer", 2, calls=2.5, waits=(PostponedEdit(3, "cut"),), message_id="m-1"
            ),
            cleared_note=ClearedNote(("m-2",), 12),
            injectors=InjectorDetails(
                (
                    BlockDetails("values", "1", "DYNAMIC", 5, 200, 300, 9, ("b",), "m-3", 1, 0),
                    BlockDetails("tools", "1", "STABLE"),
                ),
                OldBlocks(1, 2, "nothing is cached"),
            ),
            replanned=RefusedTokens(None, 90, 80),
            assumed=("a price",),
            cache=CacheDetails(5, 4, "cold"),
            provider_edits={"applied_edits": [{"type": "x", "of a later day": None}]},
            marks=MarkDetails(
                ((-1, 0), (2, 1)), ((-1, 0),), Lifetime(long=True), {"STABLE": TierDetails((0, 0))}
            ),
            blocks_bill=BlocksBill(2.5, 3.0),
            edits=0,
            as_it_came="why",
            plain=PlainRequest(10),
        )
        assert None not in [getattr(told, each.name) for each in dataclasses.fields(told)]
        for name, details in {"s": told, "t": CallDetails(cache=CacheDetails(1, 2))}.items():
            said = row(assistant("Lamps."))
            sent = call([], trace_id=said.trace_id, details=details)
            store.append(Batch(name, start=start(), rows=[said], calls=[sent]))
        (stored,), (sparse,) = store.calls("s"), store.calls("t")
        assert stored.details == told
        assert sparse.stored_json == '{"cache":{"expected":1,"reported":2}}'
        written = json.loads(stored.stored_json)
        assert written["injectors"]["blocks"][1] == {
            "injector": "tools",
            "version": "1",
            "tier": "STABLE",
            "priority": 0,
            "cap": 0,
            "full_cap": 0,
            "tokens": 0,
            "cut": [],
            "id": None,
        }
        assert written["plain"] == {"tokens_in": 10, "dollars": None}
        assert written["replanned"] == {"counted": None, "limit": 90, "room": 80}
        assert written["provider_edits"] == told.provider_edits

    def test_how_the_last_sessions_ended_comes_newest_first(self, store: Store) -> None:
        assert store.endings(5) == []
        told = [
            Outcome("completed", 1.0, details=OutcomeDetails(tokens=1)),
            None,
            Outcome("failed", 3.0, error="e"),
        ]
        for number, ended in enumerate(told):
            name = f"s{number}"
            store.append(Batch(name, start=start(), rows=[row(user("Go."))]))
            store.append(Batch(name, outcomes=[Outcome("completed", 0.5, "a")]))
            if ended is not None:
                store.append(Batch(name, outcomes=[ended]))
        store.append(Batch("memory:notes", start=start(), outcomes=[Outcome("completed", 9.0)]))
        assert store.endings(9) == told[::-1], "a bank is no run"
        assert store.endings(2) == told[:0:-1]

    def test_every_reason_and_waiting_come_back(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("Go."))]))
        told = [Outcome("incomplete", 1.0, reason, reason=reason) for reason in get_args(Reason)]
        told += [Outcome("incomplete", 2.0, "old"), Outcome("waiting", 3.0, "approval")]
        told.append(Outcome("incomplete", 4.0, reason="turns"))
        store.append(Batch("s", outcomes=told))
        assert store.outcomes("s") == told
        (listed,) = store.sessions()
        assert (listed.status, listed.reason) == ("incomplete", "turns")
        asked = store.query("SELECT status, reason FROM session_list")
        assert asked == [{"status": "incomplete", "reason": "turns"}]
        assert list(store.verify()) == []

    def test_calls_edits_state_and_outcomes_come_back_in_order(self, store: Store) -> None:
        batches = a_session()
        for batch in batches:
            store.append(batch)
        assert store.calls("s1") == [call for batch in batches for call in batch.calls]
        assert store.edits("s1") == [edit for batch in batches for edit in batch.edits]
        assert store.state("s1") == [change for batch in batches for change in batch.state]
        assert store.outcomes("s1") == [one for batch in batches for one in batch.outcomes]
        assert [stored.row for stored in store.rows("s1")] == [
            without_bytes(one) for batch in batches for one in batch.rows
        ]
        assert store.start("s1") == start()
        assert store.changed("s1") == []

    def test_a_store_that_is_opened_again_says_the_same(
        self, open_store: Callable[[], Store]
    ) -> None:
        batches = a_session()
        with open_store() as store:
            for batch in batches[:2]:
                store.append(batch)
        with open_store() as store:
            for batch in batches[2:]:
                store.append(batch)
            assert store.calls("s1") == [call for batch in batches for call in batch.calls]
            assert list(store.verify()) == []

    def test_rows_of_one_phase_only(self, store: Store) -> None:
        rows = [row(user(str(at)), phase=f"p{at % 2}") for at in range(500)]
        store.append(Batch("s", start=start(), rows=rows))
        assert [one.seq for one in store.rows("s", phase="p1")] == list(range(2, 501, 2))
        assert len(list(store.rows("s"))) == 500

    def test_reading_may_go_on_while_others_append(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("one"))]))
        reading = store.rows("s")
        next(reading)
        store.append(Batch("s", rows=[row(user("two"))]))
        assert len(list(store.rows("s"))) == 2


class TestIdentity:
    @pytest.mark.req("AC-9")
    def test_each_occurrence_has_its_own_id_and_the_body_is_stored_once(self, store: Store) -> None:
        said = user("yes")
        first = store.append(Batch("s", start=start(), rows=[row(said), row(said)]))
        again = store.append(Batch("s", rows=[row(), row(said)]))
        short = said.content_hash
        assert first == (f"{short}-1", f"{short}-2")
        assert again == (None, f"{short}-3")
        assert store.append(Batch("t", start=start(), rows=[row(said)])) == (f"{short}-1",)
        found = store.query("SELECT count(*) AS n FROM bodies")
        assert found == [{"n": 1}]
        assert len(short) == 16
        assert said.key.startswith(short)
        assert len(said.key) == 64

    def test_messages_that_differ_in_anything_are_stored_apart(self, store: Store) -> None:
        said = [
            user("a"),
            assistant("a"),
            tool("c1", "a"),
            tool("c2", "a"),
            tool("c1", "a", name="n"),
            tool("c1", "a", failed=True),
        ]
        ids = store.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        assert len(set(ids)) == len(said)

    def test_an_edit_names_an_occurrence_that_is_there(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("a"))]))
        wrong = EditRecord(f"{user('a').content_hash}-2", "drop", "mask", "old")
        with pytest.raises(StoreError, match="there is no message"):
            store.append(Batch("s", edits=[wrong], rows=[row(user("b"))]))
        assert len(list(store.rows("s"))) == 1

    def test_the_request_hash_depends_on_keys_their_order_and_the_tools(self) -> None:
        tools = [{"type": "function", "function": {"name": "a"}}]
        hashes = {
            request_hash(["k1", "k2"], tools),
            request_hash(["k2", "k1"], tools),
            request_hash(["k1"], tools),
            request_hash(["k1", "k2"], []),
        }
        assert len(hashes) == 4
        assert request_hash(["k1"], []) == request_hash(("k1",), ())


class TestWindows:
    def grow(self, store: Store, calls: int) -> list[CallRecord]:
        store.append(Batch("s", start=start()))
        shown: list[tuple[str, Message]] = []
        given = []
        for at in range(calls):
            said = user(f"message {at}")
            (name,) = store.append(Batch("s", rows=[row(said)]))
            assert name is not None
            shown.append((name, said))
            if at % 10 == 9:  # an edit in the middle, as a planner commits it
                shown[at // 2] = shown[at // 2][0], user(f"[masked at {at}]")
            edited = {key: said for key, said in shown if said.text.startswith("[")}
            given.append(call(shown, edited=edited))
            store.append(Batch("s", calls=[given[-1]]))
        return given

    def test_each_call_has_its_whole_window(self, store: Store) -> None:
        given = self.grow(store, 35)
        assert store.calls("s") == given
        assert [one for one in store.verify() if one.severity == "damage"] == []

    def test_windows_do_not_grow_with_the_square_of_the_calls(self, store: Store) -> None:
        self.grow(store, 60)
        found = store.query(
            "SELECT max(length(window_json)) AS longest FROM calls WHERE number > 30"
        )
        assert found[0]["longest"] < 250

    def test_another_writer_in_between_is_noticed(
        self, open_store: Callable[[], Store], store: Store
    ) -> None:
        self.grow(store, 3)
        with open_store() as other:
            (name,) = other.append(Batch("s", rows=[row(user("message 0"))]))
            assert name is not None
            assert name.endswith("-2")
            other.append(Batch("s", calls=[call([(name, user("message 0"))])]))
        (third,) = store.append(Batch("s", rows=[row(user("message 0"))]))
        assert third is not None
        assert third.endswith("-3")
        last = call([(name, user("message 0")), (third, user("message 0"))])
        store.append(Batch("s", calls=[last]))
        assert store.calls("s")[-1] == last
        assert [one for one in store.verify() if one.severity == "damage"] == []

    def test_a_window_of_unknown_messages_is_refused(self, store: Store) -> None:
        store.append(Batch("s", start=start()))
        with pytest.raises(StoreError, match="there is no message"):
            store.append(Batch("s", calls=[call([("0123456789abcdef-1", user("a"))])]))
        (name,) = store.append(Batch("s", rows=[row(user("a"))]))
        assert name is not None
        never = call([(name, user("a"))], edited={name: user("b")}, bodies=())
        with pytest.raises(StoreError, match="was never given"):
            store.append(Batch("s", calls=[never]))
        assert store.calls("s") == []


class TestSessions:
    def test_are_listed_newest_first_with_their_sums(self, store: Store) -> None:
        for batch in a_session("old"):
            store.append(batch)
        store.append(Batch("new", start=start(2_000.0)))
        new, old = store.sessions()
        assert (new.session_id, new.status, new.cost, new.ended) == (
            "new",
            "broken off",
            None,
            None,
        )
        assert (old.session_id, old.status, old.calls) == ("old", "completed", 2)
        assert (old.tokens_in, old.tokens_out, old.tokens_cached) == (300, 14, 90)
        assert (old.cost, old.started, old.ended) == (0.01, 1_000.0, 1_003.0)
        assert store.sessions(limit=1) == [new]

    def test_are_listed_by_what_they_fit(self, store: Store) -> None:
        for batch in a_session("old"):
            store.append(batch)
        store.append(Batch("new", start=start(2_000.0)))
        store.append(Batch("memory:notes", start=start(3_000.0)))

        def listed(limit: int | None = None, **which: Any) -> list[str]:
            return [info.session_id for info in store.sessions(SessionFilter(**which), limit=limit)]

        cascade_id = store.start("old").cascade_id
        assert listed() == ["memory:notes", "new", "old"]
        assert listed(banks=False) == ["new", "old"]
        assert listed(1, status="completed") == ["old"]
        assert listed(status="broken off", banks=False) == ["new"]
        assert listed(since=2_000.0, until=3_000.0) == ["new"]
        assert listed(until=2_000.0) == ["old"]
        assert listed(cascade=cascade_id, banks=False) == ["new", "old"]
        assert listed(cascade=f"{cascade_id}2") == listed(prefix="%") == []
        assert listed(prefix="ne") == ["new"]
        assert listed(name="EW") == ["new"]
        assert listed(name=cascade_id.upper(), banks=False) == ["new", "old"]
        assert listed(model="SCRIPT", banks=False) == ["new", "old"]
        assert listed(model="other") == listed(name="%") == []
        assert listed(with_key="cascade_id", banks=False) == ["new", "old"]
        assert listed(with_key="operators") == listed(without_keys=("cascade_id", "x")) == []
        assert listed(without_keys=("operators",), banks=False) == ["new", "old"]
        assert [info.session_id for info in store.sessions(limit=1, offset=1)] == ["new"]
        assert [info.session_id for info in store.sessions(limit=5, offset=2)] == ["old"]

    def test_sub_cascades_name_their_parent_and_go_with_it(self, store: Store) -> None:
        def child_of(parent: str, at: float) -> SessionStart:
            if parent == "child":
                return dataclasses.replace(start(at), parent_id=parent, sounding_index=2)
            return dataclasses.replace(start(at), parent_id=parent, parent_phase="a")

        for batch in a_session("top"):
            store.append(batch)
        store.append(Batch("child", start=child_of("top", 2_000.0)))
        store.append(Batch("grandchild", start=child_of("child", 3_000.0)))
        store.append(Batch("other", start=start(500.0)))

        def listed(under: tuple[str, ...] | None) -> list[str]:
            return [info.session_id for info in store.sessions(SessionFilter(under=under))]

        assert listed(None) == ["grandchild", "child", "top", "other"]
        assert listed(()) == ["top", "other"]
        assert listed(("top",)) == ["child"]
        assert listed(("top", "child")) == ["grandchild", "child"]
        assert store.find_session("latest") == "top", "the newest run, not what ran within it"
        child = store.sessions(SessionFilter(under=("top",)))[0]
        assert (child.parent_id, child.parent_phase) == ("top", "a")
        assert store.start("child") == child_of("top", 2_000.0)
        tried = store.sessions(SessionFilter(under=("child",)))[0]
        assert (tried.parent_id, tried.parent_phase, tried.sounding_index) == ("child", None, 2)
        assert store.start("grandchild") == child_of("child", 3_000.0)
        assert list(store.verify()) == []
        pruned = store.prune(session_id="top", now=9_000.0)
        assert sorted(pruned.sessions) == ["child", "grandchild", "top"]
        assert listed(None) == ["other"]

    def test_are_found_by_their_beginning(self, store: Store) -> None:
        with pytest.raises(UsageError, match="no session is in this store"):
            store.find_session("latest")
        for number, name in enumerate(["sale", "sales-1", "sales-2", "other", "memory:sa"]):
            store.append(Batch(name, start=start(1_000.0 + number)))
        found = {name: store.find_session(name) for name in ("sale", "o", "memory:sa", "latest")}
        assert found == {"sale": "sale", "o": "other", "memory:sa": "memory:sa", "latest": "other"}
        with pytest.raises(UsageError, match=r"'sales-' is the beginning of .*: sales-2, sales-1$"):
            store.find_session("sales-")
        for unknown in ("", "SALE", "memory:", "sal%", "latest2"):
            with pytest.raises(UsageError, match=r"no session .* in this store"):
                store.find_session(unknown)

    def test_an_unknown_one_is_refused_with_recent_names(self, store: Store) -> None:
        store.append(Batch("sales-1", start=start()))
        with pytest.raises(UsageError, match="did you mean 'sales-1'"):
            store.start("sales-2")
        assert list(store.rows("sales-2")) == []

    def test_begin_once_and_only_with_a_start(self, store: Store) -> None:
        with pytest.raises(StoreError, match="must carry its start"):
            store.append(Batch("s", rows=[row(user("a"))]))
        store.append(Batch("s", start=start()))
        with pytest.raises(StoreError, match="in the store already"):
            store.append(Batch("s", start=start()))

    def test_nothing_to_write_writes_nothing(self, store: Store) -> None:
        assert store.append(Batch("s")) == ()
        assert store.sessions() == []

    def test_odd_names_are_taken_as_they_are(self, store: Store, tmp_path: Path) -> None:
        for name in ("../../etc", "a/b", "a_b", "", "é", "x" * 400):
            store.append(Batch(name, start=start(), rows=[picture_row(png(), phase="../up")]))
            ((_, path),) = store.picture_names(name, "../up")
            assert path.read_bytes() == png()
            assert path.resolve().is_relative_to((tmp_path / "store/images").resolve())
        files = {path for path in (tmp_path / "store/images").rglob("*") if path.is_file()}
        assert len(files) == 6


class TestWholeOrNotAtAll:
    def failing(self) -> Iterator[tuple[str, Batch]]:
        said = row(user("kept?"), trace_id="new")
        yield "a trace twice", Batch("s", rows=[said, row(user("b"), trace_id="new")])
        yield "a trace of before", Batch("s", rows=[said, row(user("b"), trace_id="first")])
        yield (
            "an output without a row",
            Batch("s", rows=[said], outcomes=[Outcome("failed", 1.0, "p", "no")]),
        )
        yield "a wrong status", Batch("s", rows=[said], outcomes=[Outcome("lost", 1.0)])  # type: ignore[arg-type]
        for ended in (
            Outcome("incomplete", 1.0, reason="bored"),  # type: ignore[arg-type]
            Outcome("completed", 1.0, reason="turns"),
        ):
            yield "a wrong reason", Batch("s", rows=[said], outcomes=[ended])
        yield "a picture of nowhere", Batch("s", rows=[said, row(user("c", seen(b"gone")))])
        yield (
            "false bytes",
            Batch("s", rows=[said, row(user(seen(b"x")), pictures={seen(b"x").sha256: b"y"})]),
        )
        yield (
            "bytes of no message",
            Batch("s", rows=[said, row(user("d"), pictures={seen(b"x").sha256: b"x"})]),
        )

    def test_a_batch_that_cannot_be_written_leaves_nothing(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("a"), trace_id="first")]))
        before = store.query("SELECT * FROM unified_logs")
        for why, batch in self.failing():
            whole = dataclasses.replace(batch, state=[StateChange("p", "k", 1)])
            with pytest.raises(StoreError, match="nothing was recorded"):
                store.append(whole)
            assert store.query("SELECT * FROM unified_logs") == before, why
            assert store.state("s") == [], why
        assert [one.what for one in store.verify() if one.severity == "damage"] == []

    def test_after_a_refusal_the_next_batch_is_counted_right(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("a"), trace_id="first")]))
        with pytest.raises(StoreError):
            store.append(Batch("s", rows=[row(user("a")), row(trace_id="first")]))
        (name,) = store.append(Batch("s", rows=[row(user("a"))]))
        assert name == f"{user('a').content_hash}-2"


class TestPictures:
    @pytest.mark.req("CI-36")
    def test_of_a_phase_get_visible_names_in_order_and_one_blob_each(
        self, store: Store, tmp_path: Path
    ) -> None:
        folder = tmp_path / "store"
        store.append(Batch("s", start=start(), rows=[picture_row(png(1)), picture_row(png(2))]))
        store.append(Batch("s", rows=[picture_row(png(1)), picture_row(png(3), phase="other")]))
        names = store.picture_names("s", "chart")
        assert [path.relative_to(folder).as_posix() for _, path in names] == [
            "images/s/chart/image_0.png",
            "images/s/chart/image_1.png",
            "images/s/chart/image_2.png",
        ]
        assert [path.read_bytes() for _, path in names] == [png(1), png(2), png(1)]
        assert [sha for sha, _ in names] == [seen(png(at)).sha256 for at in (1, 2, 1)]
        blobs = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
        assert len(blobs) == 3
        assert blobs[0].parent.name == blobs[0].name[:2]
        sha, path = names[0]
        assert path.samefile(folder / "blobs" / sha[:2] / sha)

    def test_that_are_only_shown_get_no_visible_name(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[picture_row(png(), keep_pictures=False)]))
        assert store.picture_names("s", "chart") == []
        assert store.picture(seen(png()).sha256) == png()

    def test_once_stored_need_no_bytes_again(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[picture_row(png())]))
        store.append(Batch("t", start=start(), rows=[row(user("again", seen(png())))]))
        assert [one for one in store.verify() if one.severity == "damage"] == []


class TestToolResults:
    @pytest.mark.req("CI-36", "CE-31")
    @pytest.mark.parametrize("text", ["short", LONG])
    def test_become_a_file_with_the_full_bytes(
        self, store: Store, tmp_path: Path, text: str
    ) -> None:
        said = tool("c1", text)
        store.append(Batch("s", start=start(), rows=[row(said)]))
        path = store.store_tool_result("s", "r1", said.key)
        assert path == tmp_path / "store/storage/tool_results/r1.json"
        assert path.read_text() == said.canonical
        assert store.store_tool_result("s", "r1", said.key) == path
        assert list(store.verify()) == []

    def test_a_reference_stands_for_one_result_only(self, store: Store) -> None:
        said = [tool("c1", "a"), tool("c1", "b")]
        store.append(Batch("s", start=start(), rows=[row(one) for one in said]))
        store.store_tool_result("s", "r1", said[0].key)
        with pytest.raises(StoreError, match="must not be given twice"):
            store.store_tool_result("s", "r1", said[1].key)

    def test_an_unknown_message_or_session_is_refused(self, store: Store) -> None:
        store.append(Batch("s", start=start(), rows=[row(user("a"))]))
        with pytest.raises(StoreError, match="there is no message"):
            store.store_tool_result("s", "r1", "0" * 64)
        with pytest.raises(UsageError, match="no session 'other'"):
            store.store_tool_result("other", "r1", user("a").key)
