"""What a hook is installed with is what it reads again, and mistakes are told in a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import UsageError
from windlass_agents.agents import AGENTS, adapter_of
from windlass_agents.options import HookOptions, read_options, read_share

WORDS = st.text(min_size=1, max_size=20).filter(lambda word: not word.startswith("-"))
OPTIONS = st.builds(
    HookOptions,
    st.sampled_from([*AGENTS]),
    st.none() | WORDS,
    st.none() | WORDS,
    st.integers(0, 999).map(lambda tenths: float(f"{tenths / 10:g}") / 100),
    st.booleans(),
)


@given(OPTIONS)
def test_what_is_written_is_read_again(options: HookOptions) -> None:
    assert read_options(options.arguments()) == options


def test_an_option_may_be_one_word() -> None:
    read = read_options(["plain", "--store=/a=b", "--holdout=5%", "--redact"])
    assert read == HookOptions("plain", "/a=b", None, 0.05, redact=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "'' is no agent"),
        (["claude"], "claude-code"),
        (["plain", "--polcy", "x"], "--policy"),
        (["plain", "redact"], "unknown option 'redact'"),
        (["plain", "--holdout", "many"], "such as 10%"),
        (["plain", "--holdout", "100%"], "such as 10%"),
        (["plain", "--holdout", "-1%"], "such as 10%"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "share"), [("10%", 0.1), ("10", 0.1), (" 2.5% ", 0.025), ("0", 0)]
)
def test_a_share_is_written_in_percent(text: str, share: float) -> None:
    assert read_share(text) == share


def test_the_share_that_is_held_out_is_about_right_and_always_the_same() -> None:
    sessions = [f"session-{at}" for at in range(10_000)]
    for share in (0.0, 0.1, 0.5):
        options = HookOptions("plain", holdout=share)
        held = [one for one in sessions if options.holds_out(one)]
        assert abs(len(held) - share * 10_000) < 200  # four standard deviations
        again = HookOptions("claude-code", "/elsewhere", "default", share, redact=True)
        assert [one for one in sessions if again.holds_out(one)] == held
    # Who is held out at 10 % is so at 50 %, too.
    assert set(filter(HookOptions("plain", holdout=0.1).holds_out, sessions)) <= set(held)


def test_each_agent_has_an_adapter_of_its_name() -> None:
    assert [adapter_of(agent).name for agent in AGENTS] == list(AGENTS)
    with pytest.raises(UsageError, match="opencode"):
        adapter_of("opncode")
