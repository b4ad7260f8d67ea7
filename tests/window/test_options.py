"""The options of windows: what they may be, how they lie over one another, what they switch on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from windlass.declared import meanings_in
from windlass.errors import UsageError
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.options import (
    BLOCKS,
    OPTIONS,
    Policy,
    options_of,
    over,
)
from windlass.window.policies.compress import CompressOptions
from windlass.window.policies.digest import Digest
from windlass.window.policies.images import Images
from windlass.window.policies.rare.decay import DecayOptions
from windlass.window.policies.sliding import Sliding
from windlass.window.profiles import ABOUT, PROFILES, Profile
from windlass.window.steps import steps
from windlass.wire.openai import check_sequence

DEFAULT = Policy()


def changed(**options: Any) -> Policy:
    return Policy.of({**DEFAULT.settings(), **options})


def names(policy: Policy, **more: Any) -> list[str]:
    return [each.name for each in steps(policy, **more)]


class TestProfiles:
    def test_each_has_a_purpose(self) -> None:
        assert set(PROFILES) == set(ABOUT) == set(get_args(Profile))
        for name, options in PROFILES.items():
            assert set(options) <= set(OPTIONS)
            assert Policy.of(name).profile == name

    @pytest.mark.req("AC-32", "AC-33", "AC-34", "AC-35", "AC-36", "AC-37")
    def test_spec_has_the_documented_numbers(self) -> None:
        spec = Policy.of("spec")
        assert (spec.window, spec.mask_observations_after) == (5, 3)
        assert (spec.compress_loops, spec.loop_history_limit) == (True, 3)
        assert (spec.preserve_reasoning, spec.preserve_errors) == (True, True)
        assert (spec.reasoning_max_chars, spec.attempt_chars) == (2_000, 500)

    @pytest.mark.req("CA-7", "CE-23", "CE-26", "CE-27", "CE-28", "CE-29", "CE-30")
    def test_spec_compresses_with_the_documented_numbers(self) -> None:
        made = Policy.of("spec").compress
        assert made is not None
        assert (made.above_chars, made.max_result_tokens, made.by_kind) == (1_500, 3_000, True)
        assert (made.search_results, made.search_chars) == (5, 2_000)
        assert (made.file_lines, made.file_chars) == (10, 1_000)
        assert (made.code_head, made.code_tail, made.code_chars) == (50, 20, 1_500)
        assert made.api_chars == 1_000

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

    def test_a_copy_keeps_what_was_made(self) -> None:
        made = replace(Policy(profile="spec", images_after=None), window=2)
        assert (made.window, made.mask_observations_after, made.images_after) == (2, 3, None)

    @pytest.mark.parametrize("off", [None, False])
    def test_null_and_false_switch_off(self, off: Any) -> None:
        made = Policy.of({"images_after": off, "compress": off, "see_results": off, "decay": off})
        assert [made.images_after, made.see_results] == [None, None]
        assert [made.compress, made.decay] == [None, None]

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

    def test_settings_are_plain_and_make_the_same_policy(self) -> None:
        for name in PROFILES:
            made = Policy.of(name)
            again = json.loads(json.dumps(made.settings()))
            assert Policy.of(again) == made

    def test_the_key_tells_policies_apart_by_what_they_do(self) -> None:
        assert Policy(window=1).key == DEFAULT.key
        assert len({Policy.of(name).key for name in PROFILES}) == len(PROFILES)
        assert changed(window=6).key != DEFAULT.key
        same = {**Policy.of("lean").settings(), "profile": "default"}
        assert Policy.of(same).key == Policy.of("lean").key

    @given(st.dictionaries(st.sampled_from("abc"), st.integers() | st.none()))
    def test_nothing_over_something_is_that(self, said: Mapping[str, Any]) -> None:
        assert over(said, {}) == said
        assert over({}, said) == said
        assert over(said, said) == said


class TestSteps:
    @pytest.mark.req("AC-45")
    def test_not_enabled_there_are_none(self) -> None:
        assert names(Policy(enabled=False)) == []
        everything = Policy(enabled=False, decay=DecayOptions(), fold_after=1)
        assert names(everything) == []

    @pytest.mark.req("CA-2", "CA-3")
    def test_what_the_user_keeps_holds_all_the_same(self) -> None:
        kept = Policy(enabled=False, keep_recent_turns=3, keep_recent_images=2)
        images, sliding = steps(kept)
        assert (images.name, sliding.name) == ("images", "sliding")
        assert images == Images(images_after=None, keep_recent_images=2)
        assert sliding == Sliding(keep_recent_turns=3)

    def test_default(self) -> None:
        assert names(DEFAULT) == [
            "loops",
            "lossless",
            "repeats",
            "cuts",
            "compress",
            "rewrites",
            "digest",
            "reasoning",
            "images",
        ]

    def test_each_option_switches_its_policy(self) -> None:
        for option, off, name in (
            ("compress_loops", False, "loops"),
            ("lossless", None, "lossless"),
            ("repeats", False, "repeats"),
            ("supersede_writes", False, "rewrites"),
            ("cuts", None, "cuts"),
            ("compress", None, "compress"),
            ("see_results", None, "digest"),
            ("reasoning_max_chars", None, "reasoning"),
            ("images_after", None, "images"),
        ):
            assert set(names(DEFAULT)) - set(names(changed(**{option: off}))) == {name}
        for option, on, name in (
            ("mask_observations_after", 3, "masking"),
            ("fold_after", 4, "folding"),
            ("decay", DecayOptions(), "decay"),
            ("fold_subtasks", True, "subtasks"),
            ("shorten_arguments", True, "arguments"),
            ("keep_recent_turns", 9, "sliding"),
            ("max_input_tokens", 9, "budget"),
        ):
            assert set(names(changed(**{option: on}))) - set(names(DEFAULT)) == {name}

    def test_names_are_unique(self) -> None:
        every = names(
            changed(
                mask_observations_after=3,
                fold_after=4,
                decay=DecayOptions(),
                fold_subtasks=True,
                shorten_arguments=True,
                keep_recent_turns=9,
                max_input_tokens=9,
            )
        )
        assert len(every) == len(set(every)) == 16

    def test_numbers_reach_their_policies(self) -> None:
        by_name: dict[str, Any] = {each.name: each for each in steps(Policy.of("spec"))}
        assert (
            by_name["masking"].mask_observations_after,
            by_name["masking"].min_masked_chars,
        ) == (3, 200)
        assert (by_name["reasoning"].window, by_name["reasoning"].reasoning_max_chars) == (5, 2_000)
        loops = by_name["loops"]
        assert (loops.loop_history_limit, loops.attempt_chars) == (3, 500)
        made = Policy.of({"see_results": 2, "see_reads": 7, "most_text": 900})
        (digest,) = (each for each in steps(made) if isinstance(each, Digest))
        assert (digest.see_results, digest.see_reads, digest.most_text) == (2, 7, 900)

    @pytest.mark.req("CE-51")
    def test_thresholds_adapt_to_the_window_unless_they_may_not(self) -> None:
        def window_of(policy: Policy) -> int:
            (made,) = (each for each in steps(policy, window_tokens=9) if each.name == "compress")
            return int(made.window_tokens)  # type: ignore[attr-defined]

        assert window_of(DEFAULT) == 9
        assert window_of(Policy.of({"compress": {"adapt": False}})) == 0

    def test_a_limit_of_the_callers_goes_before_the_policys(self) -> None:
        (budget,) = steps(Policy(enabled=False, max_input_tokens=9), limit=7, on_exceed="summarise")
        assert (budget.limit, budget.on_exceed) == (7, "summarise")  # type: ignore[attr-defined]

    @pytest.mark.req("AC-33")
    def test_spec_masks_what_three_calls_have_seen(self) -> None:
        messages = [user("go")]
        for turn in range(5):
            call = ToolCall(f"c{turn}", "look", "{}")
            messages += [assistant(calls=[call]), tool(call, f"{turn} is here " * 60)]
        conversation = Conversation(steps(Policy.of("spec")))
        for at, message in enumerate(messages):
            conversation.append(Item(str(at), message, "x"))
        shown = [one for one in conversation.window().entries if one.message.role == "tool"]
        masked = [one.because == "mask" for one in shown]
        assert masked == [True, True, False, False, False]

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
