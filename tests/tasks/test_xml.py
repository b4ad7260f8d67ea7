"""Reading XML from anybody: nothing is fetched or expanded, and a mistake names its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import TaskFileError
from windlass.tasks._xml import DEPTH, MOST_BYTES, read_xml
from windlass.tasks.parse import load_task, read_task

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


def test_an_undeclared_entity_is_no_xml() -> None:
    assert "t.xml:2: not well-formed XML" in complaint(b"<a>\n&x;</a>")


def test_what_is_not_well_formed_names_line_and_column() -> None:
    assert complaint(b"<task>\n  <a></b>\n</task>").startswith("t.xml:2: not well-formed XML at")


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff\xfe\x00", b'<?xml encoding="foo"?><a/>'])
def test_what_is_no_xml_at_all_is_said_in_one_sentence(data: bytes) -> None:
    assert complaint(data).startswith("t.xml")


def test_files_and_nesting_are_bounded() -> None:
    assert "1,000,000" in complaint(b"<a>" + b" " * MOST_BYTES + b"</a>")
    assert f"more than {DEPTH} deep" in complaint(b"<a>" * (DEPTH + 1) + b"</a>" * (DEPTH + 1))
    assert "more than 20,000 elements" in complaint(b"<a>" + b"<b/>" * 20_001 + b"</a>")


def test_elements_know_the_line_they_begin_in() -> None:
    root = read_xml(b"<!-- told\n -->\n<task>\n<a\n x='1'/>\n\n<b>text</b></task>", "t.xml")
    assert [(child.tag, child.line) for child in root.children] == [("a", 4), ("b", 7)]
    assert root.children[0].attributes == {"x": "1"}
    assert root.line == 3


@given(st.binary(max_size=300))
def test_whatever_it_is_handed_it_reads_or_refuses(data: bytes) -> None:
    with suppress(TaskFileError):
        read_task(data, "t.xml")


def test_a_missing_file_is_a_sentence(tmp_path: object) -> None:
    with pytest.raises(Exception, match="no such task file"):
        load_task(f"{tmp_path}/nothing.xml")
