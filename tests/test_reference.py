"""The reference pages say what the code says; `python scripts/reference.py` writes them."""

from __future__ import annotations

import pytest
from scripts.reference import FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_what_the_code_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run `python scripts/reference.py`"


def test_there_is_no_other_page() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PAGES)
