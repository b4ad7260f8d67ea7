"""The options of windows: what they may be, how they lie over one another, what they switch on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.declared import meanings_in
from windlass.errors import UsageError
from windlass.messages import Message
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.options import (
    BLOCKS,
    Policy,
    options_of,
    over,
)
from windlass.window.policies.compress import CompressOptions
from windlass.window.policies.rare.decay import DecayOptions
from windlass.window.profiles import PROFILES
from windlass.window.steps import steps
from windlass.wire.openai import check_sequence

DEFAULT = Policy()


def changed(**options: Any) -> Policy:
    return Policy.of({**DEFAULT.settings(), **options})


class TestProfiles:
    @pytest.mark.req("CE-38")
    def test_default_sees_results_once_and_cuts_only_what_is_large(self) -> None:
        assert (DEFAULT.see_results, DEFAULT.images_after) == (1, 2)
        assert DEFAULT.lossless == 400
        assert DEFAULT.mask_observations_after is None
        assert DEFAULT.compress == CompressOptions(above_chars=32_000, max_result_tokens=8_000)
        assert DEFAULT.decay is None
        assert not any([DEFAULT.shorten_arguments, DEFAULT.fold_subtasks])


class TestMaking:
    def test_what_is_written_goes_before_the_profile(self) -> None:
        made = Policy(profile="spec", window=9)
        assert (made.window, made.mask_observations_after) == (9, 3)
        assert Policy.of({"profile": "spec", "window": 9}) == made
        assert Policy.of(made) is made
        assert Policy.of(None) == Policy.of({}) == Policy.of("default") == DEFAULT

    @pytest.mark.req("CE-35")
    def test_blocks_are_merged_key_by_key(self) -> None:
        assert Policy.of({"decay": True}).decay == DecayOptions(full=4, fold=6)
        assert Policy.of({"decay": {"full": 2}}).decay == DecayOptions(full=2, fold=6)
        made = Policy.of({"profile": "spec", "compress": {"file_lines": 3}}).compress
        assert made == CompressOptions(
            above_chars=1_500, max_result_tokens=3_000, by_kind=True, file_lines=3
        )
        kept = Policy.of({"profile": "spec", "compress": True}).compress
        assert kept == Policy.of("spec").compress

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            ("leen", "profile 'leen' is not known; did you mean 'lean'? known: careful, "),
            ({"windw": 3}, "unknown option 'windw'; did you mean 'window'? known: "),
            ({"compress": {"above": 3}}, "unknown option 'compress.above'; did you mean 'above_c"),
            ({"window": 0}, "window must be a whole number of at least 1, not 0"),
            ({"window": True}, "window must be a whole number of at least 1, not True"),
            ({"window": None}, "window must be a whole number of at least 1, not None"),
            ({"images_after": 0}, "must be a whole number of at least 1, or null for off, not 0"),
            ({"keep_recent_turns": -1}, "must be a whole number of at least 0, not -1"),
            ({"free_moments": {"keep": {"share": 1.5}}}, "a number above 0 and at most 1, not 1.5"),
            ({"expand": True}, "there is no option 'expand': originals do not come back by th"),
            ({"share_text": 0.2}, "no option 'share_text': how long digests are is fixed; write s"),
            ({"compress": {"other_chars": 9}}, "'compress.other_chars': write max_result_tokens"),
            ({"enabled": "yes"}, "enabled must be true or false, not 'yes'"),
            ({"commit": "now"}, "commit 'now' is not known; known: at_once, priced"),
            ({"decay": 4}, "decay must be true, false or an object, not 4"),
            ({"decay": {"full": "4"}}, "decay.full must be a whole number of at least 1, not '4'"),
            ({"profile": ["lean"]}, "profile ['lean'] is not known"),
            (5, "the name of a profile, an object of options or a Policy, not 5; profiles: def"),
        ],
    )
    def test_mistakes_are_one_sentence(self, value: Any, says: str) -> None:
        with pytest.raises(UsageError) as refused:
            Policy.of(value)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_every_option_says_what_it_means(self) -> None:
        for block in (Policy, *BLOCKS):
            meanings = meanings_in(block)
            assert list(meanings) == list(options_of(block))
            assert all(meaning.endswith(".") for meaning in meanings.values())

    @given(st.dictionaries(st.sampled_from("abc"), st.integers() | st.none()))
    def test_nothing_over_something_is_that(self, said: Mapping[str, Any]) -> None:
        assert over(said, {}) == said
        assert over({}, said) == said
        assert over(said, said) == said


class TestSteps:
    @given(conversations(), st.sampled_from(sorted(PROFILES)))
    def test_windows_of_every_profile_are_valid(
        self, messages: list[Message], profile: str
    ) -> None:
        conversation = Conversation(steps(Policy.of(profile), window_tokens=1_000))
        for at, message in enumerate(messages):
            conversation.append(Item(str(at), message, "x"))
            if message.role != "assistant":
                continue
            assert conversation.window() == conversation.window()
        assert Policy.of(Policy.of(profile).settings()) == Policy.of(profile)
        if messages and messages[-1].role != "assistant":
            check_sequence(conversation.window().messages, None)
