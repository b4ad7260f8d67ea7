"""Example 2: replayed conversations, with the tool calls in them."""

from __future__ import annotations

import pytest

from tests.examples.conftest import Play, Played, is_call, original_input, said, user

NAME = "deep_research.json"


@pytest.fixture(scope="module")
def run(play: Play) -> Played:
    return play(NAME)


@pytest.mark.req("CI-53")
def test_it_searches_the_corpus_and_says_so(run: Played) -> None:
    assert (run.result.status, run.result.error) == ("completed", None)
    found = run.saw("initial_research", 2)[-1]
    assert found["role"] == "tool"
    assert found["content"].startswith("Search of the local folder 'corpus' (11 documents)")
    assert "1. Prompt caching with" in found["content"]
    checked = run.saw("fact_check", 2)[-1]
    assert "corpus/price-tables.md" in checked["content"]


@pytest.mark.req("CI-12", "CI-60")
def test_fact_check_sees_the_research_as_it_went(run: Played) -> None:
    header, *replayed, instructions = run.saw("fact_check")[1:]
    assert run.saw("fact_check")[0] == original_input(NAME)
    assert header == user("[Conversation from initial_research]:")
    assert replayed == [*run.saw("initial_research", 2), said("Said in initial_research.")]
    assert instructions["content"].startswith("Verify the claims from the research.")


@pytest.mark.req("CI-4", "CI-12", "CI-60", "CI-61")
def test_synthesize_sees_both_conversations_with_their_calls(run: Played) -> None:
    own = run.saw("fact_check", 2)[-3:]  # instructions, call, result
    research = [*run.saw("initial_research", 2), said("Said in initial_research.")]
    check = [*own, said("Said in fact_check.")]
    assert run.saw("synthesize") == [
        original_input(NAME),
        user("[Conversation from initial_research]:"),
        *research,
        user("[Conversation from fact_check]:"),
        *check,
        run.asked("synthesize"),
    ]
    for conversation in (research, check):
        instructions, call, result, words = conversation
        assert instructions["role"] == "user"
        assert is_call(call, "web_search")
        assert result["tool_call_id"] == call["tool_calls"][0]["id"]
        assert words["role"] == "assistant"
    # A phase without tools defines the ones that the replay calls, and may call none.
    (request,) = run.requests["synthesize"]
    assert ([tool.name for tool in request.tools], request.tool_choice) == (["web_search"], "none")
