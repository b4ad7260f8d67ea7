"""Examples 3 and 4: reaching back, and starting afresh."""

from __future__ import annotations

import pytest

from tests.examples.conftest import (
    Play,
    Played,
    data_url,
    images_from,
    is_call,
    original_input,
    said,
    user,
)


@pytest.fixture(scope="module")
def refined(play: Play) -> Played:
    return play("iterative_refinement.json")


@pytest.mark.req("CI-1", "CI-54")
def test_each_phase_sees_all_that_was_said_before(refined: Played) -> None:
    assert (refined.result.status, refined.result.error) == ("completed", None)
    drawn = [*refined.saw("generate_v1", 2), said("Said in generate_v1.")]
    assert is_call(drawn[1], "create_chart")
    assert drawn[2]["content"][1] == data_url(refined.picture("generate_v1"))
    critique = refined.saw("critique")
    assert critique == [*drawn, refined.asked("critique")]
    improved = refined.saw("generate_v2")
    assert improved == [*critique, said("Said in critique."), refined.asked("generate_v2")]
    assert (
        refined.picture("generate_v1").read_bytes() != refined.picture("generate_v2").read_bytes()
    )


@pytest.mark.req("CI-23", "CI-24", "CI-30", "CI-34", "CI-54")
def test_compare_has_the_first_picture_before_its_snowball(refined: Played) -> None:
    first, *snowball = refined.saw("compare")
    assert first == images_from("generate_v1", refined.picture("generate_v1"))
    flowed = [
        *refined.saw("generate_v2", 2),
        said("Said in generate_v2."),
        refined.asked("compare"),
    ]
    result = flowed[2]
    words, picture = result["content"]
    assert picture["type"] == "image_url"
    # The snowball would show the same picture again: there it is only mentioned.
    mention = "[Image shown before: homes-on-offer.png, 800x500]"
    flowed[2] = {**result, "content": [words, {"type": "text", "text": mention}]}
    assert snowball == flowed
    assert snowball[8]["content"][1] == data_url(refined.picture("generate_v2"))


@pytest.mark.req("CI-22", "CI-54")
def test_fresh_perspective_sees_only_the_input(play: Play) -> None:
    run = play("fresh_perspective.yaml")
    assert (run.result.status, run.result.error) == ("completed", None)
    assert run.saw("second_thought") == [
        run.asked("first_idea"),
        said("Said in first_idea."),
        run.asked("second_thought"),
    ]
    assert run.saw("fresh_perspective") == [
        original_input("fresh_perspective.yaml"),
        user("Approach the monthly report takes ten minutes to load from scratch."),
    ]
