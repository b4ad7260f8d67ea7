"""Server-sent events: what is one event, however the bytes are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.providers._http import read_events


def parsed(*pieces: bytes) -> list[str]:
    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def read() -> list[str]:
        return [event async for event in read_events(stream())]

    return asyncio.run(read())


def test_lines_of_data_are_joined_and_comments_left_out() -> None:
    text = b": keep-alive\n\nevent: delta\nid: 7\nretry: 3\ndata: one\ndata:two\ndata\n\n"
    assert parsed(text) == ["one\ntwo\n"]


def test_one_space_after_the_colon_is_no_part_of_the_value() -> None:
    assert parsed(b"data:  two\n\ndata:none\n\n") == [" two", "none"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end(end: bytes) -> None:
    text = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert parsed(text) == ["1\n2", "3"]


def test_an_event_without_data_is_none() -> None:
    assert parsed(b"event: ping\n\ndata: x\n\n") == ["x"]


def test_a_byte_order_mark() -> None:
    assert parsed(b"\xef\xbb\xbfdata: x\n\n") == ["x"]


def test_the_last_empty_line_may_be_missing_and_a_cut_line_is_no_line() -> None:
    assert parsed(b"data: x\n") == ["x"]
    assert parsed(b"data: x\r") == ["x"]
    assert parsed(b'data: x\n\ndata: {"cut') == ["x"]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["", "delta", "message_stop"]),
        st.lists(st.text(alphabet="aé€😀 :{}", max_size=6), min_size=1, max_size=3),
    ),
    max_size=4,
)


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_where_the_bytes_are_cut_makes_no_difference(
    events: list[tuple[str, list[str]]], end: str, data: st.DataObject
) -> None:
    text = ""
    for name, lines in events:
        text += f"event: {name}{end}" if name else f": comment{end}"
        text += "".join(f"data: {line}{end}" for line in lines) + end
    told = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(told)), max_size=6)))
    pieces = [told[a:b] for a, b in zip([0, *cuts], [*cuts, len(told)], strict=True)]
    expected = ["\n".join(lines) for _, lines in events]
    assert parsed(*pieces) == expected
