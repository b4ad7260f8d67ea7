"""The orchestrator: order by tier, priority and name; caps on the rendered text, by whole items."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ContextError
from windlass.injectors import Injector, Item, Rendered, Situation, Tier
from windlass.injectors.orchestrate import (
    BUILTIN,
    InjectorSpec,
    Placed,
    make_injector,
    render_blocks,
    share_of_caps,
)
from windlass.settings.modules import Modules
from windlass.text.tokens import FamilyCounter

COUNT = FamilyCounter("gpt-4o").text
SEEN = Situation("s", "a", "Do it.")

CAPS = {
    "system_role": 2_000,
    "tools": 3_000,
    "skills": 1_000,
    "user_memory": 500,
    "knowledge": 800,
    "playbooks": 300,
    "plan": 300,
}
"""The document's."""


class Saying(Injector):
    """Says what it is given."""

    def __init__(self, *items: str, head: str = "") -> None:
        self.said = Rendered(head, tuple(Item(item, f"item {at}") for at, item in enumerate(items)))

    def render(self, seen: Situation) -> Rendered:
        return self.said


def made(tier: Tier, *items: str, name: str = "x", priority: int = 50, cap: int = 50) -> Placed:
    kind = type("Named", (Saying,), {"name": name, "tier": tier})
    return Placed(kind(*items), cap, priority)


@pytest.mark.req("CE-12", "CE-1")
def test_an_injector_declares_tier_priority_cap_and_version() -> None:
    tiers = {name: kind.tier for name, kind in BUILTIN.items()}
    assert tiers == {
        "system_role": "STABLE",
        "tools": "STABLE",
        "skills": "STABLE",
        "user_memory": "SESSION",
        "knowledge": "SESSION",
        "playbooks": "SESSION",
        "values": "DYNAMIC",
        "plan": "DYNAMIC",
        "errors": "DYNAMIC",
        "scratchpad": "DYNAMIC",
        "todo": "DYNAMIC",
    }
    assert all(kind.priority > 0 and kind.cap > 0 and kind.version for kind in BUILTIN.values())


@pytest.mark.req("CE-16", "CE-17", "CE-18", "CE-19", "CE-20", "CE-21", "CE-22")
@pytest.mark.parametrize(("name", "cap"), CAPS.items())
def test_the_documents_caps_are_the_defaults(name: str, cap: int) -> None:
    assert make_injector(InjectorSpec(name), Modules()).cap == cap


@pytest.mark.req("CE-48", "CE-24")
@given(
    st.lists(st.text(alphabet="ab cd\n{}0", max_size=60), max_size=12),
    st.integers(1, 60),
    st.sampled_from([Tier.SESSION, Tier.DYNAMIC]),
)
def test_a_block_never_passes_its_cap_and_holds_whole_items(
    items: list[str], cap: int, tier: Tier
) -> None:
    for block in render_blocks([made(tier, *items, cap=cap)], tier, SEEN, COUNT):
        assert block.details.tokens == (COUNT(block.text) if block.text else 0) <= cap
        shown = [item.text for item in block.items]
        assert block.text == "\n".join(shown)
        assert len(shown) + len(block.details.cut) == len(items)
        left = iter(items)
        assert all(text in left for text in shown)  # in their order, letter for letter


@pytest.mark.req("CE-51")
def test_caps_shrink_with_the_room_that_is_left() -> None:
    caps = (Tier.SESSION, 600), (Tier.DYNAMIC, 200), (Tier.STABLE, 9_000)
    placed = [made(tier, cap=cap) for tier, cap in caps]
    assert share_of_caps(placed, None) == 1.0
    assert share_of_caps(placed, 100_000) == 1.0
    assert share_of_caps(placed, 1_600) == 0.5  # a quarter of it, for caps of 800 together
    assert share_of_caps(placed, -5) == 0.0
    (block,) = render_blocks([made(Tier.SESSION, "a", "b " * 15)], Tier.SESSION, SEEN, COUNT, 0.1)
    assert (block.details.cap, block.details.full_cap, block.text) == (5, 50, "a")


@pytest.mark.req("CE-55")
def test_an_injector_that_breaks_is_named() -> None:
    class Broken(Injector):
        name: ClassVar[str] = "broken"

        def render(self, seen: Situation) -> str:
            return str(1 / 0)

    with pytest.raises(ContextError, match="injector 'broken' failed: ZeroDivisionError"):
        render_blocks([Placed(Broken(), 10, 1)], Tier.DYNAMIC, SEEN, COUNT)
