"""What a choice does not show whole: the names that only it holds stay in view, by the outline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.engine.harness import House, Ran, call, calls, cascade, phase
from windlass.history.row_details import json_of
from windlass.messages import user
from windlass.providers.scripted import Scripted
from windlass.window.names import names_in, names_said

AT_ONCE: dict[str, Any] = {"commit": "at_once", "intra_phase": False}


def page(number: int, names: int = 280) -> str:
    """A page of code with names that no other page has: more than a digest holds."""
    return "\n".join(
        "// Goes on along the plan as it went before and says what it has seen there.\n"
        f"fn step_{number}_{at}(&self) -> Result {{ self.plan.part_{number}_{at}() }}"
        for at in range(names)
    )


def reader() -> Any:
    def read_page(number: int, names: int) -> str:
        """Read a page.

        Args:
            number: Which.
            names: How many pairs of names it has.
        """
        return page(number, names)

    return read_page


def reads(number: int, names: int = 280) -> Any:
    return calls(call("read_page", json.dumps({"number": number, "names": names})))


def told(ran: Ran) -> dict[str, Any]:
    """The last record of choosing."""
    rows = [json_of(stored.row) for stored in ran.rows()]
    return dict([one for one in rows if one.get("selection_type") == "inter_phase"][-1])


def tokens(text: str) -> int:
    return Scripted(lambda _: "").model("x").counter.message(user(text))


def lost(ran: Ran, name: str, text: str) -> list[str]:
    """The names of a text that the phase's first request does not hold."""
    seen = "\n".join(text for _, text in ran.seen(name))
    return [one for one in names_said(text) if one not in seen]


async def test_what_a_chosen_digest_leaves_out_is_told_by_its_names(house: House) -> None:
    inter = {"anchors": {"window": 0, "include": []}, "selection": {"outline": 1.0}}
    auto = {**AT_ONCE, "inter_phase": inter}
    ran = await house.run(
        cascade(phase("a", tackle=["read_page"]), phase("b"), auto_context=auto),
        {"a": [reads(7), "read it"]},
        tools=[reader()],
    )
    choice = told(ran)
    assert [one["tokens"] for one in choice["selected"]]  # its digest is among what is chosen
    assert page(7) not in [text for _, text in ran.seen("b")]
    (digest,) = [text for _, text in ran.seen("b") if " chars: result_" in text[:200]]
    assert "part_7_279" not in digest
    assert not lost(ran, "b", page(7))
    assert ran.has_no_damage()


@pytest.mark.parametrize(("names", "all_told"), [(400, True), (1_200, False)])
async def test_all_names_of_a_message_are_told_or_of_a_huge_one_few(
    house: House, names: int, *, all_told: bool
) -> None:
    selection = {"outline": 1.0, "max_tokens": 30_000}
    inter = {"anchors": {"window": 0, "include": []}, "selection": selection}
    ran = await house.run(
        cascade(
            phase("a", tackle=["read_page"]),
            phase("b"),
            auto_context={**AT_ONCE, "inter_phase": inter},
        ),
        {"a": [reads(7, names), "read it"]},
        tools=[reader()],
    )
    (outline,) = [text for _, text in ran.seen("b") if "Also said in this session" in text]
    assert (not lost(ran, "b", page(7, names))) is all_told
    assert (len(outline) > 10_000) is all_told


@pytest.mark.req("AC-73")
async def test_what_a_shortened_anchor_leaves_out_is_told_where_nothing_is_to_choose_from(
    house: House,
) -> None:
    inter = {"selection": {"outline": 1.0, "max_tokens": 10_000}}
    auto = {**AT_ONCE, "inter_phase": inter}
    ran = await house.run(
        cascade(phase("a", tackle=["read_page"]), phase("b"), auto_context=auto),
        {"a": [reads(7), "read it"]},
        tools=[reader()],
    )
    choice = told(ran)
    assert choice["candidates"] == 0
    assert "shortened to digests" in choice["warning"]
    assert choice["outline"]
    assert not lost(ran, "b", page(7))
    off = {**auto, "inter_phase": {"selection": {"outline": 0.0, "max_tokens": 10_000}}}
    ran = await house.run(
        cascade(phase("a", tackle=["read_page"]), phase("b"), auto_context=off),
        {"a": [reads(7), "read it"]},
        tools=[reader()],
    )
    assert lost(ran, "b", page(7))


@pytest.mark.req("AC-73")
async def test_where_the_cap_holds_less_than_both_shares_each_has_its_part(house: House) -> None:
    names = [f"p{number}" for number in range(8)]
    selection = {"share": 0.5, "outline": 0.5, "max_tokens": 8_000}
    inter = {"anchors": {"window": 0, "include": []}, "selection": selection}
    ran = await house.run(
        cascade(
            *(phase(name, tackle=["read_page"]) for name in names),
            auto_context={**AT_ONCE, "inter_phase": inter},
        ),
        {name: [reads(at, names=60), "read it"] for at, name in enumerate(names)},
        tools=[reader()],
    )
    choice = told(ran)
    assert choice["candidate_tokens"] > 2 * choice["budget"]["cap"]
    assert 0 < choice["budget"]["selected"] <= choice["budget"]["cap"] / 2
    assert choice["outline"]["tokens"] > choice["budget"]["cap"] / 3


async def test_a_choice_that_would_save_next_to_nothing_is_not_made(house: House) -> None:
    names = [f"p{number}" for number in range(30)]
    texts = {name: [page(at, 20)] for at, name in enumerate(names)}
    whole = sum(tokens(text) for (text,) in texts.values())
    # One page of thirty would have to be shortened.
    room = whole - tokens(texts["p0"][0])
    selection = {"share": 1.0, "outline": 0.0, "max_tokens": room, "max_messages": 100}
    inter = {"anchors": {"window": 0, "include": []}, "selection": selection}
    auto = {"intra_phase": False, "inter_phase": inter}
    ran = await house.run(cascade(*map(phase, names), auto_context=auto), texts)
    assert "would save less than 5% of what going on costs" in told(ran)["kept"]
    seen = [text for _, text in ran.seen(names[-1])]
    assert all(texts[name][0] in seen for name in names[:-1])


@hypothesis_settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_no_name_of_a_session_is_out_of_view_where_there_is_room(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any reads in any phases: what is chosen, shortened or left out is named in each phase."""
    house = House(tmp_path_factory.mktemp("outline"))
    try:
        count = data.draw(st.integers(2, 4))
        replies: dict[str, list[Any]] = {}
        pages = iter(range(1, 99))
        for number in range(count):
            sizes = data.draw(st.integers(0, 3))
            replies[f"p{number}"] = [*(reads(next(pages)) for _ in range(sizes)), f"did_{number}"]
        selection = {
            "outline": 1.0,
            "max_tokens": 100_000,
            "share": data.draw(st.sampled_from([0.01, 0.1, 0.5])),
        }
        inter = {"anchors": {"window": data.draw(st.integers(0, 3))}, "selection": selection}
        ran = await house.run(
            cascade(
                *(phase(name, tackle=["read_page"]) for name in replies),
                auto_context={**AT_ONCE, "inter_phase": inter},
            ),
            replies,
            tools=[reader()],
        )
        for number in range(1, count):
            request = ran.request(f"p{number}")
            in_view = frozenset().union(*(names_in(message) for message in request.messages))
            before = [f"p{at}" for at in range(number)]
            for stored in ran.rows():
                message = stored.row.message
                if message is not None and stored.row.phase in before and message.role == "tool":
                    assert names_in(message) <= in_view
        assert ran.has_no_damage()
    finally:
        house.close()
