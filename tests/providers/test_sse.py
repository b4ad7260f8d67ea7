"""Server-sent events: what is one event, however the bytes are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
