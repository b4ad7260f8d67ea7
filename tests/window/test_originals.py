"""References: short, and never taken for another message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import assistant, user
from windlass.window.originals import asked_for, file_name, meant, part_of, reference

HASHES = ["1a2b3c4d5e6f7081", "1a2b3c4d5e000000", "ffff000011112222"]


def test_a_reference_is_the_beginning_of_the_files_name() -> None:
    message = user("hello")
    assert file_name(message) == f"result_{message.content_hash}"
    assert file_name(message).startswith(reference(message))


@pytest.mark.parametrize(
    "ref", ["result_ffff00001111", "ffff", " result_ffff000011112222 ", "ffff000011112222"]
)
def test_a_beginning_will_do_where_only_one_has_it(ref: str) -> None:
    assert meant(ref, HASHES) == HASHES[2]


def test_two_that_begin_alike_are_both_named_and_told_apart_by_more() -> None:
    with pytest.raises(KeyError, match=f"several have it: result_{HASHES[0]}, result_{HASHES[1]}"):
        meant("result_1a2b3c4d5e", HASHES)
    assert meant("result_1a2b3c4d5e6", HASHES) == HASHES[0]
    assert meant(f"result_{HASHES[1]}", HASHES) == HASHES[1]


@pytest.mark.parametrize("ref", ["", "result_", "ff", "result_9999", "chart"])
def test_what_nothing_has_is_refused(ref: str) -> None:
    with pytest.raises(KeyError, match="none has it"):
        meant(ref, HASHES)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30))
def test_every_message_is_found_by_its_reference(texts: list[str]) -> None:
    messages = [assistant(text) for text in texts if text]
    hashes = [message.content_hash for message in messages]
    for message in messages:
        assert meant(reference(message), hashes) == message.content_hash


@pytest.mark.req("CE-33")
@pytest.mark.parametrize(
    ("part", "asked"),
    [
        ("", {}),
        ("7", {"lines": "7"}),
        (" 10 - 40 ", {"lines": "10 - 40"}),
        ("line 3", {"lines": "3"}),
        ("a[0].b", {"path": "a[0].b"}),
        ("$.rows[10]", {"path": "$.rows[10]"}),
        ("First Name", {"path": "First Name"}),
        ("paths./users/.get", {"path": "paths./users/.get"}),
        ("/src/a.py:1/", {"grep": "src/a.py:1"}),
        ("/two words/i", {"grep": "(?i)two words"}),
        (
            "logs[2] lines 1-9 /Error: \\d+/",
            {"path": "logs[2]", "lines": "1-9", "grep": "Error: \\d+"},
        ),
    ],
)
def test_a_part_is_said_in_one_text(part: str, asked: dict[str, str]) -> None:
    assert asked_for(part) == asked


@pytest.mark.req("CE-33")
def test_a_part_of_a_part() -> None:
    text = json.dumps({"logs": ["", "one\ntwo\nthree\nold two"]})
    assert part_of(text, "logs[1] 2-4 /two/") == "2: two\n4: old two"
    assert part_of(text, "logs[1]", lines="3") == "3: three"
