"""Associative matching over declared folders and banks: what it returns, and when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.memory.making import Clock
from windlass.errors import UsageError
from windlass.memory import passages as files
from windlass.memory.association import Associations
from windlass.memory.banks import Banks
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
