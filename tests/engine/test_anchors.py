"""Anchors that are too long: their digests, and how much room these have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from windlass.engine.choosing.anchors import Ground, Piece, short, shortened
from windlass.messages import Message, tool
from windlass.window.entries import Item
from windlass.window.size import size


class Counting:
    """A ground of which only the counting is asked."""

    count = staticmethod(size)


GROUND = cast("Ground", cast("Any", Counting()))


def piece(rows: int, number: int = 1) -> Piece:
    """The result of a call: so many records, each with an id of its own."""
    text = "\n".join(
        f"prop_{number}{at:05d} is a place of which {at % 7} are told, and of no other"
        for at in range(rows)
    )
    message = tool(f"c{number}", text, name="look")
    item = Item(str(number), message, "tool_result", "before", 1)
    return Piece(number, message, "window", "anchor", item)


def ids(message: Message) -> int:
    return message.text.count("prop_")


@pytest.mark.req("AC-73")
def test_the_digest_of_a_long_anchor_grows_with_it() -> None:
    long, longer = piece(800), piece(3_200)
    tight = [short(one, can_recall=True).message for one in (long, longer)]
    roomy = [short(one, can_recall=True, roomy=True).message for one in (long, longer)]
    assert all(len(one.text) < 2_200 for one in tight)
    assert len(roomy[0].text) > 2 * len(tight[0].text)
    assert 1.8 < len(roomy[1].text) / len(roomy[0].text) < 2.2
    assert ids(roomy[1]) > 1.8 * ids(roomy[0])
    few = piece(60)
    assert short(few, can_recall=True) == short(few, can_recall=True, roomy=True)


@pytest.mark.req("AC-73")
def test_where_longer_digests_do_not_fit_all_have_the_short_form() -> None:
    pieces = [piece(800, number) for number in (1, 2, 3)]
    roomy = [short(one, can_recall=False, roomy=True) for one in pieces]
    tight = [short(one, can_recall=False) for one in pieces]
    room = sum(size(one.message) for one in roomy)
    assert shortened(GROUND, pieces, room, can_recall=False) == roomy
    assert shortened(GROUND, pieces, room - 1, can_recall=False) == tight
