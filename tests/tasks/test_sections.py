"""What a task sees: its sections, by the three dimensions, each piece once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tasks_sections import FRESH, INHERITED, PREVIOUS
from tests.tasks.conftest import TaskHouse
from tests.tasks.making import atomic, block, reduce, sequential
from windlass.engine.events import SessionStarted
from windlass.engine.tasks.frame import ContextPiece, subset
from windlass.engine.tasks.job import NOTES_TOKENS, declared_notes, notes_of
from windlass.errors import MatchingFailed, ProviderError
from windlass.history.base import NodeType
from windlass.memory.matching import matches
from windlass.messages import assistant
from windlass.report.explanation import explain_call
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Request

PARENT = "The cat is grey.\n\n" + "Bridges of steel rust in salt air. " * 30 + "\n\nThe dog barks."


class TestInheritance:
    @pytest.mark.req("ADR-2", "ADR-24")
    async def test_full_is_the_parents_context_unchanged(self, house: TaskHouse) -> None:
        ran = await house.run(atomic("a", block("full", "disabled")), context=PARENT)
        assert ran.seen("a") == [f"{INHERITED}\n\n[the caller]\n{PARENT}", "## Task\n\nDo a."]

    @pytest.mark.req("ADR-2", "ADR-24", "ADR-36")
    async def test_full_is_all_that_the_parent_has_what_it_fetched_too(
        self, house: TaskHouse
    ) -> None:
        house.write(docs__bridge="Steel bridges are painted.")
        memory = "<memory><folder>docs</folder></memory>"
        inner = sequential(atomic("b"), name="inner", inside=memory)
        ran = await house.run(
            sequential(atomic("a"), inner.replace("Do all.", "Paint the steel bridges.")),
            context=PARENT,
        )
        told = ran.section("inner.b", INHERITED)
        head = f"{INHERITED}\n\n[the caller]\n{PARENT}\n\n[notes on a]\nanswer to Do a.\n"
        assert told.startswith(head)
        assert told.endswith("\n\n[docs/bridge.md:1]\nSteel bridges are painted.")

    @pytest.mark.req("ADR-3", "ADR-10", "ADR-49")
    async def test_none_is_nothing_of_it(self, house: TaskHouse) -> None:
        house.write(docs__a="The bridge is painted.")
        for fresh, wanted in (("disabled", []), ("enabled", [FRESH])):
            inside = f"<memory><folder>docs</folder></memory>{block('none', fresh)}"
            ran = await house.run(atomic("a", inside, asks="Paint the bridge."), context=PARENT)
            firsts = [text.partition("\n")[0] for text in ran.seen("a")]
            assert firsts == [*wanted, "## Task"]

    @pytest.mark.req("ADR-4", "ADR-5")
    @pytest.mark.parametrize("fresh", ["enabled", "disabled"])
    async def test_subset_is_what_of_it_belongs_to_the_task(
        self, house: TaskHouse, fresh: str
    ) -> None:
        task = atomic("a", block("subset", fresh), asks="Say why steel bridges rust.")
        ran = await house.run(task, context=PARENT)
        found = ran.section("a", INHERITED)
        assert "Bridges of steel rust" in found
        assert "cat" not in found
        assert "dog" not in found

    @pytest.mark.req("ADR-5")
    @pytest.mark.parametrize("fresh", ["enabled", "disabled"])
    async def test_a_subset_is_of_what_the_parent_inherits_accumulates_and_fetches(
        self, house: TaskHouse, fresh: str
    ) -> None:
        bridges, cats = "Steel bridges {}.", "Cats {}."
        house.write(
            docs__bridge=bridges.format("are painted"), docs__cat=cats.format("sleep there")
        )
        memory = "<memory><folder>docs</folder></memory>"
        asks = "Say what steel bridges do."
        inner = sequential(atomic("b", block("subset", fresh), asks=asks), inside=memory, name="in")
        wanted = "Gather steel bridges and cats."
        said = f"{bridges.format('were built')}\n\n{cats.format('came')}"
        whole = block("full", "disabled", "true", "full_output")
        ran = await house.run(
            sequential(atomic("a"), inner.replace("Do all.", wanted), inside=whole),
            {"Do a.": said},
            context=f"{bridges.format('rust')}\n\n{cats.format('rest')}",
        )
        told = ran.section("in.b", INHERITED)
        for verb in ("rust", "were built", "are painted"):
            assert told.count(bridges.format(verb)) == 1, told
        assert "Cats" not in told

    @pytest.mark.req("ADR-4")
    async def test_a_heading_goes_with_what_stands_under_it_in_the_parents_order(
        self, house: TaskHouse
    ) -> None:
        given = "# Bridges\n\nThey rust.\n\n# Cats\n\nThey sleep.\n\nSteel bridges are painted."
        task = atomic("a", block("subset", "disabled"), asks="Bridges.")
        ran = await house.run(task, context=given)
        told = "# Bridges\n\nThey rust.\n\nSteel bridges are painted."
        assert ran.section("a", INHERITED) == f"{INHERITED}\n\n[the caller]\n{told}"

    @pytest.mark.req("ADR-4")
    def test_a_failed_look_is_tried_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sqlite3

        from windlass.engine.tasks import frame

        tries: list[str] = []
        real = matches

        def failing(task: str, *given: Any) -> object:
            tries.append(task)
            if len(tries) < 2:
                raise sqlite3.OperationalError("disk I/O error")
            return real(task, *given)

        monkeypatch.setattr(frame, "matches", failing)
        assert subset("cat", [ContextPiece("x", "The cat.")]) == (ContextPiece("x", "The cat."),)

        def broken(task: str, *given: Any) -> object:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(frame, "matches", broken)
        with pytest.raises(MatchingFailed, match="not twice: disk I/O error"):
            subset("cat", [ContextPiece("x", "The cat.")])

    @given(st.lists(st.text(min_size=1, max_size=200), max_size=6), st.text(max_size=50))
    def test_a_subset_brings_nothing_that_was_not_there(self, texts: list[str], task: str) -> None:
        pieces = [ContextPiece(str(n), text) for n, text in enumerate(texts)]
        whole = {piece.source: piece.text.split() for piece in pieces}
        for piece in subset(task, pieces):
            words = iter(whole[piece.source])
            assert all(word in words for word in piece.text.split())

    async def test_the_input_is_inherited_unless_the_file_places_it(self, house: TaskHouse) -> None:
        ran = await house.run(atomic("a"), given={"city": "Ulm"})
        assert '"city": "Ulm"' in ran.section("a", INHERITED)
        ran = await house.run(atomic("a", asks="Go to {{ input.city }}."), given={"city": "Ulm"})
        assert ran.seen("a") == ["## Task\n\nGo to Ulm."]

    @pytest.mark.req("ADR-24", "ADR-34")
    async def test_tasks_below_extend_what_their_parent_has(self, house: TaskHouse) -> None:
        inner = sequential(atomic("x"), atomic("y", block("none", "disabled")), name="inner")
        ran = await house.run(sequential(atomic("a"), inner), context="Known before.")
        seen = ran.section("inner.x", INHERITED)
        assert "[the caller]\nKnown before." in seen
        assert "[notes on a]\nanswer to Do a." in seen
        assert ran.section("inner.x", PREVIOUS) == ""
        assert ran.section("inner.y", INHERITED) == ""
        assert "[notes on inner.x]" in ran.section("inner.y", PREVIOUS)
        assert "notes on a" not in ran.section("inner.y", PREVIOUS)


class TestAccumulation:
    LONG = "First sentence of it. " + "More and more is said here. " * 200

    @pytest.mark.req("ADR-6", "ADR-8", "ADR-32", "ADR-34", "ADR-47")
    async def test_full_output_carries_outputs_whole(self, house: TaskHouse) -> None:
        xml = sequential(
            *(atomic(name) for name in "abc"),
            inside=block("none", "enabled", "true", "full_output"),
        )
        two_lines = f"{self.LONG * 9}\nAnd more."
        ran = await house.run(xml, {"Do a.": two_lines}, context="Unseen.")
        told = f"{PREVIOUS}\n\n[output of a]\n{two_lines}"
        assert ran.section("b", PREVIOUS) == told
        assert ran.section("c", PREVIOUS) == f"{told}\n\n[output of b]\nanswer to Do b."
        assert ran.section("b", INHERITED) == ""

    @pytest.mark.req("ADR-7", "ADR-46")
    async def test_notes_only_carries_a_summary_with_a_reference(self, house: TaskHouse) -> None:
        xml = sequential(atomic("a"), atomic("b", "<tools><tool>recall</tool></tools>"))
        ran = await house.run(xml, {"Do a.": self.LONG})
        told = ran.section("b", PREVIOUS)
        assert "First sentence of it." in told
        assert FamilyCounter("gpt-4o").text(told) <= NOTES_TOKENS
        assert len(told) < len(self.LONG) / 4
        (reference,) = {word.strip("(,") for word in told.split() if "result_" in word}
        said = assistant(self.LONG).content_hash[:8]
        assert reference == f"result_{said}"

    @pytest.mark.req("ADR-7")
    async def test_notes_that_a_step_declares_go_before_a_summary(self, house: TaskHouse) -> None:
        xml = sequential(atomic("a"), atomic("b"), atomic("c"))
        said = {
            "Do a.": self.LONG + "<notes>Only this.</notes>",
            "Do b.": '{"rows": [1, 2], "notes": {"count": 2}}',
        }
        ran = await house.run(xml, {**said, "Do a.": f"<notes>{'many words ' * 2_000}</notes>"})
        told = ran.section("c", PREVIOUS).partition("[notes on b]")[0]
        assert 240 < FamilyCounter("gpt-4o").text(told) < 320
        told = (await house.run(xml, said)).section("c", PREVIOUS)
        assert "[notes on a]\nOnly this.\n" in told
        assert '[notes on b]\n{"count": 2}\n' in told
        assert "First sentence" not in told

    @pytest.mark.req("ADR-7")
    @pytest.mark.parametrize("answers", ["Short and good.", ProviderError("it is gone")])
    async def test_a_helper_model_writes_notes_where_the_user_names_one(
        self, house: TaskHouse, monkeypatch: pytest.MonkeyPatch, answers: str | Exception
    ) -> None:
        monkeypatch.setenv("WINDLASS_HELPER_MODEL", "scripted/helper")
        helped: list[str] = []

        def reply(request: Request) -> str:
            said = request.messages[-1].text
            if not said.startswith("Summarize this assistant message"):
                declared = "<notes>Mine.</notes>" if "Do b." in said else ""
                return self.LONG + declared if "Do c." not in said else "Done."
            helped.append(said)
            if isinstance(answers, Exception):
                raise answers
            return answers

        ran = await house.run(sequential(atomic("a"), atomic("b"), atomic("c")), reply)
        assert ran.result.status == "completed"
        assert len(helped) == 1, "what declares notes, or is handed to nobody, is not asked about"
        told = ran.section("c", PREVIOUS)
        wanted = "First sentence of it." if isinstance(answers, Exception) else answers
        assert f"[notes on a]\n{wanted}" in told
        assert "[notes on b]\nMine." in told
        (named,) = [one for one in ran.events if isinstance(one, SessionStarted)]
        assert named.models == ("scripted/x", "scripted/helper")

    def test_declared_notes_are_held_to_their_size(self) -> None:
        counter = FamilyCounter("gpt-4o")
        message = assistant(f"<notes>{'many words ' * 2_000}</notes>")
        assert counter.text(notes_of(message, counter)) <= NOTES_TOKENS
        assert declared_notes("[1, 2]") is None
        assert declared_notes('{"notes"') is None

    @pytest.mark.req("ADR-6")
    async def test_without_accumulation_steps_see_nothing_of_each_other(
        self, house: TaskHouse
    ) -> None:
        xml = sequential(atomic("a"), atomic("b"), inside=block("full", "enabled", "false"))
        assert (await house.run(xml)).seen("b") == ["## Task\n\nDo b."]

    @pytest.mark.req("ADR-32", "ADR-10")
    async def test_what_was_accumulated_is_carried_without_fresh_context(
        self, house: TaskHouse
    ) -> None:
        off = block("none", "disabled")
        xml = sequential(atomic("a"), atomic("b", off))
        assert "[notes on a]" in (await house.run(xml)).section("b", PREVIOUS)


class TestFresh:
    MEMORY = "<memory><bank>facts</bank><folder>docs</folder></memory>"

    @pytest.mark.req("ADR-9", "ADR-32")
    async def test_it_comes_from_banks_and_files(self, house: TaskHouse) -> None:
        house.remember("facts", rust="Steel bridges rust near the sea.", cats="Cats sleep.")
        house.write(docs__bridges="Paint keeps steel bridges from rust.", docs__dogs="Dogs bark.")
        asks = "Say how steel bridges are kept from rust."
        ran = await house.run(atomic("a", self.MEMORY, asks=asks))
        found = ran.section("a", FRESH)
        assert "Steel bridges rust near the sea." in found
        assert "[docs/bridges.md:1]\nPaint keeps" in found
        assert "Cats" not in found
        assert "Dogs" not in found
        off = await house.run(atomic("a", self.MEMORY + block("full", "disabled"), asks=asks))
        assert off.section("a", FRESH) == ""

    @pytest.mark.req("ADR-52")
    async def test_nothing_is_brought_that_the_task_has(self, house: TaskHouse) -> None:
        text = "Paint keeps steel bridges from rust."
        house.write(docs__bridges=text, docs__more="Rust eats steel bridges.")
        asks = "Say how steel bridges are kept from rust."
        both = atomic("a", asks=asks), atomic("b", asks=asks)
        ran = await house.run(
            sequential(*both, inside=self.MEMORY), {asks: text}, context="Rust eats steel bridges."
        )
        assert ran.section("a", FRESH) == f"{FRESH}\n\n[docs/bridges.md:1]\n{text}"
        whole = "\n".join(ran.seen("b"))
        assert whole.count("Rust eats steel bridges.") == 1
        assert whole.count(text) == 1  # as an output; the file would say it again
        given = "<inputs><file>docs/bridges.md</file></inputs>"
        ran = await house.run(atomic("a", self.MEMORY + given, asks=asks))
        assert "\n".join(ran.seen("a")).count(text) == 1

    async def test_what_matches_more_than_fits_is_ranked_and_told(self, house: TaskHouse) -> None:
        files = {f"docs__f{n}": f"Steel can rust, {n}. " + "so it is " * 100 for n in range(40)}
        house.write(**files, docs__best="Steel can rust as iron can: steel, steel, rust.")
        ran = await house.run(atomic("a", self.MEMORY, asks="Why can steel rust?"))
        assert "as iron can" in ran.section("a", FRESH)
        assert any("matches taken, those that share most" in note for note in ran.notes())
        assert ran.view("a").sent_tokens < 5_000


class TestHeadings:
    @pytest.mark.req("ADR-36")
    async def test_they_stand_in_the_settings(self, house: TaskHouse) -> None:
        (house.folder / "windlass.toml").write_text(
            '[headings]\ntask = "# Aufgabe"\ninherited = "# Erbe"\nprevious_outputs = "# Davor"\n'
            'fresh = "# Material"\n'
        )
        house.write(docs__b="Do b as it is done.")
        memory = "<memory><folder>docs</folder></memory>"
        ran = await house.run(sequential(atomic("a"), atomic("b", memory)), context="Known.")
        firsts = [text.partition("\n")[0] for text in ran.seen("b")]
        assert firsts == ["# Erbe", "# Davor", "# Material", "# Aufgabe"]


class TestInTheRecord:
    @pytest.mark.req("ADR-34", "ADR-51")
    async def test_explain_tells_each_section_as_it_tells_sources(self, house: TaskHouse) -> None:
        ran = await house.run(sequential(atomic("a"), atomic("b")), context="Known.")
        told = explain_call(ran.store, ran.result.session_id, 2)
        assert [(one.action, one.reason) for one in told.decisions if one.tokens] == [
            ("brought in", "inherited context (full): the caller"),
            ("brought in", "outputs of earlier tasks: notes on a"),
            ("shown", "said in this phase"),
        ]
        assert not [found for found in ran.store.verify() if found.severity == "damage"]

    async def test_of_ten_thousand_inner_tasks_none_is_listed_beside_another(
        self, house: TaskHouse
    ) -> None:
        ran = await house.run(reduce("".join(f"<input>{n}</input>" for n in range(5))))
        told = explain_call(ran.store, ran.result.session_id, 6)
        assert [one.phase for one in told.decisions] == ["reduction", "reduction"]
        assert any("not listed one by one" in note for note in told.notes)
        assert told.call.hidden == {"inner[]": 10}
        first = ran.view("inner[0]")
        assert "inner[]" not in first.hidden or first.hidden["inner[]"] <= 8

    async def test_tasks_that_inherit_the_same_share_one_message(self, house: TaskHouse) -> None:
        xml = reduce("".join(f"<input>{n}</input>" for n in range(6)))
        ran = await house.run(xml, context="Known to all.")
        rows = ran.store.rows(ran.result.session_id)
        kept = [one for one in rows if one.row.node_type == NodeType.CONTEXT_INJECTION]
        assert sum("Known to all." in str(one.row.message) for one in kept) == 1
        assert all("Known to all." in ran.section(f"inner[{n}]", INHERITED) for n in range(6))

    async def test_with_windows_calls_are_planned_as_in_cascades(self, house: TaskHouse) -> None:
        ran = await house.run(atomic("a"), context="Known.", auto=True)
        rows = ran.store.rows(ran.result.session_id)
        kinds = [stored.row.node_type for stored in rows]
        assert NodeType.CONTEXT_SELECTION in kinds
