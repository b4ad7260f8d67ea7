"""Who in view holds a name, against looking into every message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import Message, user
from windlass.window._standing import IdentifierIndex, ShownNames
from windlass.window.names import names_in

POOL = ("abc_1", "src/def_2.py", "def_2.py", "ghi_3.py:44", "ghi_3.py", "d@e.org")

said = st.one_of(st.none(), st.sets(st.sampled_from(POOL)).map(" ".join).map(user))


@given(
    st.lists(st.dictionaries(st.integers(0, 30), said, max_size=6), max_size=12),
    st.dictionaries(st.integers(0, 30), said, max_size=4),
    st.integers(0, 30),
)
def test_holders_are_those_that_show_a_name(
    steps: list[dict[int, Message | None]], instead: dict[int, Message | None], but: int
) -> None:
    holders, shown = IdentifierIndex(), dict[int, Message | None]()
    for step in steps:
        holders.put({at: ShownNames(message) for at, message in step.items()})
        shown |= step
    shown |= instead
    over = {at: ShownNames(message) for at, message in instead.items()}
    names = {at: names_in(message) if message else frozenset() for at, message in shown.items()}
    others = [held for at, held in names.items() if at != but]
    counts = holders.holders(POOL, over, (but,))
    assert all(counts[name] == sum(name in held for held in others) for name in POOL)
