"""Associative matching over declared folders and banks: what it returns, and when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.memory.making import Clock
from windlass.errors import ContextError, MatchingFailed, StoreError, UsageError
from windlass.memory import passages as files
from windlass.memory.association import Associations, ContextGenerationInput, MemoryMatch
from windlass.memory.banks import Banks, Memory
from windlass.memory.passages import PASSAGE_CHARS, split_text

TASK = {"taskText": "How long does an entry of the prompt cache live?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    (made / "cache.md").write_text(
        "# Prompt caches\n\nAn entry of the prompt cache lives for five minutes.\n"
    )
    (made / "trees.md").write_text("# Trees\n\nOaks live for centuries.\n")
    return made


@pytest.fixture
def look() -> Iterator[type[Associations]]:
    """`Associations`, each of which is closed when the test is over."""
    with ExitStack() as closing:

        class Closed(Associations):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                closing.callback(self.close)

        yield Closed


@pytest.fixture
def both(folder: Path, banks: Banks) -> Iterator[Associations]:
    banks.remember("notes", "The prompt cache of our vendor keeps an entry one hour.", key="ttl")
    banks.remember("private", "The prompt cache entry of another team.", key="ttl")
    made = Associations(banks, ["notes"], [folder])
    yield made
    made.close()


class TestMatches:
    @pytest.mark.req("ADR-33", "ADR-35", "ADR-26")
    def test_are_a_set_of_source_reference_and_excerpt(
        self, both: Associations, folder: Path
    ) -> None:
        found = both.get_relevant_context_for(TASK)
        assert found.matches == {
            MemoryMatch(
                str(folder),
                f"{folder.as_posix()}/cache.md:1",
                "# Prompt caches\n\nAn entry of the prompt cache lives for five minutes.",
            ),
            MemoryMatch(
                "memory:notes",
                "notes/ttl@1",
                "The prompt cache of our vendor keeps an entry one hour.",
            ),
        }
        assert not hasattr(next(iter(found.matches)), "score")
        assert found.unread == ()

    @pytest.mark.req("ADR-26")
    def test_stand_in_the_same_order_whichever_says_most_of_the_task(
        self, folder: Path, banks: Banks
    ) -> None:
        for name in ("apples", "pears"):
            other = "pears" if name == "apples" else "apples"
            text = f"Of {name}: {name} keep in the cellar, {name} in boxes, and {other} beside."
            (folder / f"{name}.md").write_text(text)
            banks.remember("notes", text, key=name)
        with closing(Associations(banks, ["notes"], [folder])) as both:
            of_apples, of_pears = (
                both.get_relevant_context_for({"taskText": task}).context.partition(
                    "## Relevant material"
                )[2]
                for task in ("How do apples keep?", "How do pears keep?")
            )
        assert of_apples.count("\nOf ") == 4
        assert of_apples == of_pears

    @pytest.mark.req("ADR-36", "ADR-33")
    def test_the_context_stands_in_the_standard_sections(self, both: Associations) -> None:
        given = {**TASK, "inheritedContext": "We use vendor X.", "previousOutputs": "Step 1: done."}
        text = both.get_relevant_context_for(given).context
        sections = [line for line in text.splitlines() if line.startswith("## ")]
        assert sections == [
            "## Task",
            "## Inherited context",
            "## Previous outputs",
            "## Relevant material",
        ]
        assert "## Previous outputs\nStep 1: done.\n\n## Relevant material\n[" in text
        assert "[notes/ttl@1]\nThe prompt cache of our vendor keeps" in text
        assert both.get_relevant_context_for(given).context == text

    @pytest.mark.req("ADR-36")
    def test_headings_are_settings(self, look: type[Associations], folder: Path) -> None:
        made = look(folders=[folder], headings={"fresh": "# Found"})
        text = made.get_relevant_context_for(ContextGenerationInput("prompt cache")).context
        assert text.startswith("## Task\nprompt cache\n\n# Found\n[")

    def test_unrelated_tasks_match_nothing(self, both: Associations) -> None:
        found = both.get_relevant_context_for({"taskText": "Translate the contract into Greek"})
        assert found.matches == frozenset()
        assert found.context == "## Task\nTranslate the contract into Greek"

    @pytest.mark.req("ADR-52")
    def test_what_the_task_has_already_is_not_brought_again(self, both: Associations) -> None:
        has = "It is said: the prompt  cache of our vendor\nkeeps an entry one hour. So be it."
        found = both.get_relevant_context_for({**TASK, "inheritedContext": has})
        assert {one.source.startswith("memory:") for one in found.matches} == {False}
        again = both.get_relevant_context_for({**TASK, "previousOutputs": has})
        assert again.matches == found.matches

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"taskText": " "}, "taskText is empty"),
            ({"task": "x"}, "unknown key 'task'; did you mean 'taskText'"),
            ({"taskText": 3}, "must be text, not 3"),
        ],
    )
    def test_a_wrong_input_is_told(
        self, both: Associations, given: dict[str, object], told: str
    ) -> None:
        with pytest.raises(UsageError, match=told):
            both.get_relevant_context_for(given)


class TestWhatChanges:
    def test_is_seen_at_the_next_look(
        self, both: Associations, folder: Path, banks: Banks, clock: Clock
    ) -> None:
        def excerpts() -> set[str]:
            return {one.excerpt for one in both.get_relevant_context_for(TASK).matches}

        assert len(excerpts()) == 2
        (folder / "cache.md").write_text("The prompt cache forgets an entry after ten minutes.")
        banks.remember(
            "notes", "Now the prompt cache keeps an entry a day.", key="ttl", expires=2e3
        )
        assert excerpts() == {
            "The prompt cache forgets an entry after ten minutes.",
            "Now the prompt cache keeps an entry a day.",
        }
        (folder / "cache.md").unlink()
        clock.now = 2_000.0
        assert excerpts() == set()


class TestFolders:
    def test_only_what_lies_in_declared_ones_is_read(
        self, look: type[Associations], folder: Path
    ) -> None:
        outside = folder.parent / "secret.md"
        outside.write_text("The prompt cache entry that nobody may see lives for ever.")
        (folder / "link.md").symlink_to(outside)
        (folder / ".hidden.md").write_text(outside.read_text())
        (folder / "store").mkdir()
        (folder / "store" / "log.md").write_text(outside.read_text())
        made = look(folders=[folder], closed=[folder / "store"])
        found = made.get_relevant_context_for(TASK)
        assert [one.reference for one in found.matches] == [f"{folder.as_posix()}/cache.md:1"]

    def test_what_is_too_large_or_no_text_is_left_out_and_told(
        self, look: type[Associations], folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "large.md").write_text("prompt cache entry " * 100)
        (folder / "picture.png").write_bytes(bytes(range(256)))
        monkeypatch.setattr(files, "MOST_BYTES", 1_000)
        made = look(folders=[folder])
        found = made.get_relevant_context_for(TASK)
        assert len(found.matches) == 1
        assert [told.rpartition("/")[2] for told in found.unread] == [
            "large.md: 1,900 bytes, more than the 1,000 of a file",
            "picture.png: is not text",
        ]
        monkeypatch.setattr(files, "ALL_BYTES", 20)
        monkeypatch.setattr(files, "MOST_FILES", 3)
        left = look(folders=[folder]).get_relevant_context_for(TASK).unread
        assert any("beyond the 20 bytes of all files together" in told for told in left)
        assert any("more than 3 files; the rest is left out" in told for told in left)

    def test_one_that_is_not_there_is_a_mistake(
        self, look: type[Associations], tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="there is no folder"):
            look(folders=[tmp_path / "no"]).get_relevant_context_for(TASK)

    def test_long_files_are_matched_by_passages_with_their_lines(
        self, look: type[Associations], folder: Path
    ) -> None:
        lines = [f"Line {number} tells of oaks and beeches." for number in range(400)]
        lines[300] = "## Prompt cache\n\nEach entry of the prompt cache lives for an hour.\n"
        (folder / "long.md").write_text("\n".join(lines))
        found = look(folders=[folder]).get_relevant_context_for(TASK)
        (long,) = [one for one in found.matches if "long.md" in one.reference]
        assert long.reference.endswith("long.md:301")
        assert len(long.excerpt) <= PASSAGE_CHARS

    def test_passages_hold_all_of_a_text_but_blank_lines(self) -> None:
        text = "\n\n".join(f"# H{n}\n\nword{n} " + "x" * (n * 97 % 3_000) for n in range(40))
        parts = split_text(text)
        assert "".join("".join(part.split()) for _, part in parts) == "".join(text.split())
        assert all(len(part) <= PASSAGE_CHARS for _, part in parts)
        said = text.splitlines()
        assert all(
            said[line - 1].startswith(part.splitlines()[0][:9])
            for line, part in parts
            if part[0] == "#"
        )


class _Failing(Banks):
    """Banks that fail so many times before they answer."""

    def __init__(self, times: int) -> None:  # it has no store
        self.times = times
        self.asked = 0

    def memories(self, bank: str) -> tuple[Memory, ...]:
        self.asked += 1
        if self.asked <= self.times:
            raise StoreError("the store is locked by another program")
        return (Memory(bank, "k", 1, "The prompt cache keeps an entry an hour.", 1.0),)


class TestFailure:
    @pytest.mark.req("ADR-37")
    def test_one_failure_is_tried_again(self, look: type[Associations], folder: Path) -> None:
        banks = _Failing(1)
        found = look(banks, ["notes"], [folder]).get_relevant_context_for(TASK)
        assert len(found.matches) == 2
        assert banks.asked == 2

    @pytest.mark.req("ADR-37", "ADR-38", "ADR-39")
    def test_two_are_an_error_of_its_own_that_says_why(
        self, look: type[Associations], folder: Path
    ) -> None:
        banks = _Failing(2)
        made = look(banks, ["notes"], [folder])
        with pytest.raises(MatchingFailed, match="not at a second try: the store is locked"):
            made.get_relevant_context_for(TASK)
        assert banks.asked == 2
        assert issubclass(MatchingFailed, ContextError)
        assert len(made.get_relevant_context_for(TASK).matches) == 2, "it can be asked again"

    def test_a_file_that_cannot_be_read_is_such_a_failure(
        self, look: type[Associations], folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(self: Path) -> bytes:
            raise OSError(5, "Input/output error", str(self))

        monkeypatch.setattr(Path, "read_bytes", broken)
        with pytest.raises(MatchingFailed, match="Input/output error"):
            look(folders=[folder]).get_relevant_context_for(TASK)
