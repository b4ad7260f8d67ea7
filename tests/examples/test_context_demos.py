"""The three demo cascades of the document: selective, messages, inject."""

from __future__ import annotations

import pytest

from tests.examples.conftest import (
    Play,
    Played,
    data_url,
    images_from,
    is_call,
    original_input,
    output_with_result,
    said,
    user,
)
from windlass.engine.events import Noted, Validated

SELECTIVE = "context_selective_demo.json"
MESSAGES = "context_messages_demo.json"
WORDS = "Houston has 23875."


@pytest.fixture(scope="module")
def selective(play: Play) -> Played:
    return play(SELECTIVE)


@pytest.mark.req("CI-8", "CI-20", "CI-55")
def test_a_bare_name_brings_pictures_and_output(selective: Played) -> None:
    assert (selective.result.status, selective.result.error) == ("completed", None)
    assert selective.saw("describe") == [
        original_input(SELECTIVE),
        images_from("draw", selective.picture("draw")),
        output_with_result(selective, "draw", "Said in draw."),
        selective.asked("describe"),
    ]


@pytest.mark.req("CI-20", "CI-22", "CI-55")
def test_a_clean_slate_without_the_input_sees_its_instructions_only(selective: Played) -> None:
    assert selective.saw("define") == [selective.asked("define")]


@pytest.mark.req("CI-13", "CI-18", "CI-19", "CI-47", "CI-55")
def test_parts_state_role_and_condition(selective: Played) -> None:
    assert selective.saw("conclude") == [
        original_input(SELECTIVE),
        images_from("draw", selective.picture("draw")),
        user('[State from describe]:\n{\n  "headline": "Said in describe"\n}'),
        {"role": "system", "content": "[Output from define]:\nSaid in define."},
        selective.asked("conclude"),
    ]
    (note,) = [event.text for event in selective.events if isinstance(event, Noted)]
    assert note.startswith("source 'draw' skipped: its condition")


@pytest.fixture(scope="module")
def replayed(play: Play) -> Played:
    return play(MESSAGES, {"explore": [WORDS]})


@pytest.mark.req("CI-12", "CI-56", "CI-60")
def test_replay_of_all_messages(replayed: Played) -> None:
    assert (replayed.result.status, replayed.result.error) == ("completed", None)
    conversation = replayed.saw("explore", 2)
    instructions, call, result = conversation
    assert instructions == replayed.asked("explore")
    assert is_call(call, "run_sql")
    assert result["content"].splitlines()[:2] == ["city | listings", "Houston | 23875"]
    assert replayed.saw("replay_all") == [
        original_input(MESSAGES),
        user("[Conversation from explore]:"),
        *conversation,
        said(WORDS),
        replayed.asked("replay_all"),
    ]


@pytest.mark.req("CI-16", "CI-56")
def test_replay_of_the_assistant_only(replayed: Played) -> None:
    header, folded, words, _ = replayed.saw("replay_assistant_only")[1:]
    assert header == user("[Conversation from explore]:")
    assert folded["role"] == "assistant"
    assert folded["content"].startswith('[Called run_sql(query="SELECT city, listings FROM')
    assert "tool_calls" not in folded
    assert words == said(WORDS)


@pytest.mark.req("CI-16", "CI-20", "CI-56")
def test_replay_of_the_last_turn(replayed: Played) -> None:
    assert replayed.saw("replay_last_turn") == [
        user("[Conversation from explore]:"),
        *replayed.saw("explore", 2)[1:],
        said(WORDS),
        replayed.asked("replay_last_turn"),
    ]


def test_an_answer_without_a_number_is_asked_for_again(play: Play) -> None:
    run = play(MESSAGES, {"explore": ["Houston.", WORDS]})
    assert run.result.status == "completed"
    verdicts = [event for event in run.events if isinstance(event, Validated)]
    assert [each.valid for each in verdicts] == [False, True]
    retry = run.saw("explore", 3)[-1]
    assert retry["content"].startswith("[Validation Failed]\nThe answer must name a number.")
    assert run.result.outputs["explore"] == WORDS


@pytest.mark.req("CI-23", "CI-24", "CI-45", "CI-57")
def test_the_picture_is_reached_back_for_at_either_end(play: Play) -> None:
    run = play("context_inject_demo.json")
    assert (run.result.status, run.result.error) == ("completed", None)
    # The phase that drew left its words only: no picture rides along.
    explained = run.saw("explain")
    assert explained == [said("Said in draw."), run.asked("explain")]
    snowball = [*explained, said("Said in explain."), run.asked("look_again")]
    picture = images_from("draw", run.picture("draw"))
    assert picture["content"][1] == data_url(run.picture("draw"))
    assert run.saw("look_again") == [picture, *snowball]
    assert run.saw("look_at_the_end") == [
        *snowball,
        said("Said in look_again."),
        picture,
        run.asked("look_at_the_end"),
    ]
