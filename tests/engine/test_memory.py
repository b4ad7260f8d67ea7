"""Memory in a run: the tools `remember` and `search_memory`, and the banks a phase may use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from tests.engine.logs import shown
from windlass.cascade.memory_banks import MemoryBanks
from windlass.cascade.model import Cascade
from windlass.cascade.tools_named import memory_of
from windlass.errors import CascadeError, UsageError
from windlass.history.base import BANK
from windlass.history.row_details import json_of
from windlass.messages import Message

BOTH = ["remember", "search_memory"]


def remembers(text: str, bank: str = "notes", **more: str) -> Message:
    return calls(call("remember", json.dumps({"text": text, "bank": bank, **more})))


def searches(query: str, **more: str) -> Message:
    return calls(call("search_memory", json.dumps({"query": query, **more})))


async def ran(house: House, *replies: Message | str, memory: Any = "notes", **keys: Any) -> Ran:
    one = phase("a", tackle=BOTH, **keys)
    return await house.run(cascade(one, memory=memory), {"a": replies})


class TestAcrossSessions:
    @pytest.mark.req("AC-28", "AC-27")
    async def test_what_one_session_remembers_another_finds(self, house: House) -> None:
        first = await ran(
            house, remembers("Deployments go out on Tuesdays.", key="deploy days"), "ok"
        )
        assert shown(first, 2) == ["remembered as 'deploy days' in bank 'notes', version 1"]
        second = await ran(house, searches("when do we deploy?"), "ok")
        (found,) = shown(second, 2)
        head, memory = found.split("\n\n")
        assert head == "memory 'notes': 1 found."
        name, text = memory.split("\n")
        assert name.startswith("[notes/deploy days@1, remembered 20")
        assert text == "Deployments go out on Tuesdays."
        (stored,) = second.store.rows(BANK + "notes")
        assert json_of(stored.row)["by"] == f"session {first.session}, phase a"
        assert second.has_no_damage()

    async def test_a_new_version_takes_the_place_of_the_old(self, house: House) -> None:
        await ran(house, remembers("Deploy on Mondays.", key="deploy"), "ok")
        again = await ran(
            house,
            remembers("Deploy on Tuesdays.", key="deploy", expires="30d"),
            searches("deploy"),
            "ok",
        )
        told, found = shown(again, 3)
        assert told.startswith("remembered as 'deploy' in bank 'notes', version 2, until 20")
        assert "1 found" in found
        assert "Tuesdays" in found
        assert "Mondays" not in found

    async def test_where_nothing_belongs_to_a_query_it_says_what_there_is(
        self, house: House
    ) -> None:
        run = await ran(
            house,
            searches("invoices"),
            remembers("Deploy on Mondays.", key="deploy"),
            searches("invoices"),
            searches(" "),
            "ok",
        )
        nothing, _, keys, empty = shown(run, 5)
        assert nothing == "memory 'notes': nothing belongs to 'invoices'; it holds nothing"
        assert keys == "memory 'notes': nothing belongs to 'invoices'; it holds: deploy"
        assert empty == "there is nothing to look for: give some words"

    async def test_mistakes_are_results_that_say_what_to_do(self, house: House) -> None:
        run = await ran(
            house,
            remembers(" "),
            remembers("x", expires="soon"),
            remembers("x", expires="2001-01-01"),
            remembers("x", bank="nots"),
            "ok",
        )
        empty, soon, past, bank = shown(run, 5)
        assert empty == "there is nothing to remember: the text is empty"
        assert soon.startswith("expires 'soon' must be an age such as '30d'")
        assert past.startswith("it would have expired already")
        assert bank == (
            "bank 'nots' may not be written in this phase; did you mean 'notes'? known: notes"
        )


class TestWhichBanks:
    async def test_what_is_read_only_is_not_written_and_the_other_way_round(
        self, house: House
    ) -> None:
        await ran(house, remembers("Oaks live long.", bank="team"), "ok", memory="team")
        run = await ran(
            house,
            remembers("x", bank="team"),
            searches("oaks", bank="own"),
            searches("oaks", bank="team"),
            remembers("y", bank="own"),
            "ok",
            memory={"read": ["team"], "write": ["own"]},
        )
        written, read, found, kept = shown(run, 5)
        assert written.startswith("bank 'team' may not be written in this phase; known: own")
        assert read.startswith("bank 'own' may not be read in this phase; known: team")
        assert "Oaks live long." in found
        assert kept.endswith("in bank 'own', version 1")

    def test_a_phase_goes_before_its_cascade_as_a_whole(self) -> None:
        made = Cascade.model_validate(
            cascade(
                phase("a"),
                phase("b", memory=["x", "y"]),
                phase("c", memory={"read": ["z"]}),
                memory="team",
            )
        )
        a, b, c = (memory_of(made, one) for one in made.phases)
        assert a == MemoryBanks(bank="team", keep="all")
        assert b == MemoryBanks(read=("x", "y"), write=("x", "y"))
        assert c == MemoryBanks(read=("z",), write=())
        bare = Cascade.model_validate(cascade(phase("a")))
        assert memory_of(bare, bare.phases[0]) is None

    @pytest.mark.parametrize(
        ("keys", "told"),
        [
            ({"tackle": ["remember"]}, "'remember' needs a bank to write; say which: 'memory'"),
            ({"tackle": BOTH, "memory": {"write": ["x"]}}, "'search_memory' needs a bank to read"),
            ({"memory": {}}, "name a bank to 'read' or to 'write'"),
            ({"memory": "a/b"}, "'a/b' cannot be used as a name"),
            ({"memory": ["x", "x"]}, "'x' is listed twice"),
            ({"memory": {"reads": ["x"]}}, "unknown key 'reads'; did you mean 'read'"),
            ({"memory": 3}, "memory: expected the name of a bank, a list of them, or an object"),
        ],
    )
    async def test_a_phase_without_its_bank_is_a_mistake_of_the_file(
        self, house: House, keys: dict[str, Any], told: str
    ) -> None:
        with pytest.raises(CascadeError) as error:
            await house.run(cascade(phase("a", **keys)))
        assert told in str(error.value)

    async def test_a_session_cannot_take_the_name_of_a_bank(self, house: House) -> None:
        with pytest.raises(UsageError, match="are memory banks"):
            await house.run(cascade(phase("a")), session_id=BANK + "notes")

    async def test_a_manifest_offers_memory_only_where_there_is_a_bank(self, house: House) -> None:
        run = await house.run(
            cascade(
                phase("a", tackle="manifest"),
                phase("b", tackle="manifest", memory={"read": ["notes"]}),
            )
        )
        asked = [row["asked"][1] for row in run.decisions("manifest")]
        assert [[name for name in BOTH if f"- {name}:" in question] for question in asked] == [
            [],
            ["search_memory"],
        ]
