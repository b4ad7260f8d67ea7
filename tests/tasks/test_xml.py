"""Reading XML from anybody: nothing is fetched or expanded, and a mistake names its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import TaskFileError
from windlass.tasks._xml import DEPTH, MOST_BYTES, read_xml
from windlass.tasks.parse import read_task

LAUGHS = """<!DOCTYPE t [
<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<task type="atomic"><description>&c;</description></task>"""
OUTSIDE = """<?xml version="1.0"?>
<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<task type="atomic"><description>&x;</description></task>"""
REMOTE = '<!DOCTYPE t SYSTEM "http://127.0.0.1:1/t.dtd"><task/>'


def complaint(data: bytes) -> str:
    with pytest.raises(TaskFileError) as refused:
        read_xml(data, "t.xml")
    return str(refused.value)


@pytest.mark.parametrize("text", [LAUGHS, OUTSIDE, REMOTE])
def test_document_types_and_so_entities_and_references_are_refused(text: str) -> None:
    assert "a document type" in complaint(text.encode())


def test_files_and_nesting_are_bounded() -> None:
    assert "1,000,000" in complaint(b"<a>" + b" " * MOST_BYTES + b"</a>")
    assert f"more than {DEPTH} deep" in complaint(b"<a>" * (DEPTH + 1) + b"</a>" * (DEPTH + 1))
    assert "more than 20,000 elements" in complaint(b"<a>" + b"<b/>" * 20_001 + b"</a>")


@given(st.binary(max_size=300))
def test_whatever_it_is_handed_it_reads_or_refuses(data: bytes) -> None:
    with suppress(TaskFileError):
        read_task(data, "t.xml")
