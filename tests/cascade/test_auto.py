"""`auto_context` and `intra_context`: what they may say, how they merge, what they come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.cascade.making import cascade, cascades, loaded, window_options
from windlass.cascade.check import check
from windlass.cascade.compile import compile_rule, explain_defaults
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.options import INTRA, AutoContext
from windlass.cascade.published_schema import json_schema
from windlass.cascade.rules import Rule
from windlass.errors import CascadeError
from windlass.settings.settings import Settings
from windlass.window.options import OPTIONS, Policy
from windlass.window.policies.rare.decay import DecayOptions

A: dict[str, Any] = {"name": "a"}


def settings(**environ: str) -> Settings:
    variables = {f"WINDLASS_{name.upper()}": value for name, value in environ.items()}
    return Settings.read({}, variables, Path("/nowhere"), user_folder=Path("/nowhere"))


def rule(auto: Any = None, intra: Any = None, **environ: str) -> Rule:
    """The rule of a phase in a cascade that say these things of their windows."""
    top = {} if auto is None else {"auto_context": auto}
    own = {} if intra is None else {"intra_context": intra}
    made = Cascade.model_validate(cascade({**A, **own}, **top))
    return compile_rule(made, made.phases[0], settings(**environ))


def policy(auto: Any = None, intra: Any = None, **environ: str) -> Policy:
    found = rule(auto, intra, **environ).policy
    assert found is not None
    return found


def told(phase: dict[str, Any], **top: Any) -> list[str]:
    return [str(mistake) for mistake in check(loaded(cascade({**A, **phase}, **top)))]


class TestFreeMoments:
    def test_stand_beside_the_profile_or_among_the_options_of_a_phase(self) -> None:
        said = {"priced": 3, "keep": {"share": 0.5}}
        wanted = Policy.of({"free_moments": said})
        assert policy(auto={"free_moments": said}) == wanted
        assert policy(auto={"intra_phase": {"free_moments": said}}) == wanted
        assert policy(auto={}, intra={"free_moments": said}) == wanted
        both = {"free_moments": {"priced": 4}, "intra_phase": {"free_moments": said}}
        assert policy(auto=both) == wanted
        assert policy(auto={"profile": "spec", "free_moments": True}).free_moments is not None

    @pytest.mark.parametrize("off", [False, None])
    def test_false_and_null_turn_them_off_or_one_of_them(self, off: Any) -> None:
        assert policy(auto={"free_moments": off}).free_moments is None
        assert policy(auto={"intra_phase": {"free_moments": off}}).free_moments is None
        for said in (
            {"free_moments": {"priced": off}},
            {"intra_phase": {"free_moments": {"priced": off}}},
        ):
            moments = policy(auto=said).free_moments
            assert moments is not None
            assert (moments.cold, moments.priced) == (True, None)
        assert policy(auto={}, intra={"cuts": off, "images_after": off}).images_after is None


class TestMerging:
    @pytest.mark.req("AC-32", "AC-33", "AC-34", "AC-35", "AC-36", "AC-37", "AC-64")
    def test_each_documented_option_can_be_written(self) -> None:
        said = {
            "window": 6,
            "mask_observations_after": 4,
            "compress_loops": False,
            "loop_history_limit": 2,
            "preserve_reasoning": False,
            "preserve_errors": False,
        }
        for made in (policy({"intra_phase": said}), policy(intra=said)):
            assert {name: made.settings()[name] for name in said} == said

    @pytest.mark.req("AC-51", "AC-70")
    def test_the_phase_goes_before_the_cascade_before_the_profile(self) -> None:
        auto = {"profile": "spec", "intra_phase": {"window": 7, "loop_history_limit": 1}}
        made = policy(auto, {"window": 2})
        assert (made.profile, made.mask_observations_after) == ("spec", 3)
        assert (made.window, made.loop_history_limit) == (2, 1)

    @pytest.mark.req("AC-51")
    def test_what_is_written_anywhere_goes_before_the_phases_profile(self) -> None:
        made = policy({"intra_phase": {"window": 7}}, {"profile": "spec"})
        assert (made.profile, made.window, made.mask_observations_after) == ("spec", 7, 3)

    @pytest.mark.req("AC-51")
    def test_null_takes_back_what_the_cascade_says(self) -> None:
        auto = {"profile": "spec", "intra_phase": {"decay": True}}
        made = policy(auto, {"mask_observations_after": None, "decay": None})
        assert (made.mask_observations_after, made.decay) == (None, None)

    @pytest.mark.req("AC-51")
    def test_blocks_merge_key_by_key_too(self) -> None:
        made = policy({"intra_phase": {"decay": {"full": 2}}}, {"decay": {"fold": 3}})
        assert made.decay == DecayOptions(full=2, fold=3)

    def test_commit_is_the_cascades_or_the_phases(self) -> None:
        assert policy({}).commit == "priced"
        assert policy({"commit": "at_once"}).commit == "at_once"
        assert policy({"commit": "at_once"}, {"commit": "priced"}).commit == "priced"

    @given(window_options(), window_options())
    def test_a_phase_that_says_everything_needs_no_cascade(self, auto: Any, intra: Any) -> None:
        made = rule({"intra_phase": auto}, intra).policy
        if made is not None and made.enabled:
            assert policy({"intra_phase": auto}, made.settings()) == made
            assert policy(intra=made.settings()) == made


class TestExplained:
    def origins(self, made: Cascade, **environ: str) -> dict[str, tuple[Any, str]]:
        (phase,) = explain_defaults(made, settings(**environ))
        return {one.name: (one.value, one.origin) for one in phase.settings}

    def test_what_is_off_says_why(self) -> None:
        plain = Cascade.model_validate(cascade(A))
        assert self.origins(plain)["intra_context"] == (None, "default")
        own = Cascade.model_validate(cascade({**A, "intra_context": False}, auto_context={}))
        assert self.origins(own)["intra_context"] == (None, "written")
        asked = Cascade.model_validate(cascade(A, auto_context={}))
        found = self.origins(asked, auto_context_intra_phase_enabled="0")
        variable = "WINDLASS_AUTO_CONTEXT_INTRA_PHASE_ENABLED"
        reason = f"auto_context_intra_phase_enabled is False: {variable}"
        assert found["intra_context"] == (False, reason)


class TestMistakes:
    @pytest.mark.req("AC-64", "AC-70")
    @pytest.mark.parametrize(
        ("said", "says"),
        [
            ({"windw": 3}, "unknown key 'windw'; did you mean 'window'? known: "),
            ({"window": 0}, "window: must be at least 1, not 0"),
            ({"window": "5"}, "window: expected a whole number, not '5'"),
            ({"images_after": "no"}, "images_after: expected a whole number, not 'no'"),
            ({"free_moments": {"prized": 3}}, "unknown key 'prized'; did you mean 'priced'?"),
            ({"free_moments": {"priced": 0.5}}, "priced: must be at least 1, not 0.5"),
            ({"free_moments": {"keep": {"share": 2}}}, "share: must be at most 1, not 2"),
            ({"free_moments": 3}, "expected true, false, or an object such as {'priced': 3}"),
            ({"see_named": 1}, "unknown key 'see_named'"),
            ({"thinking": "strip"}, "thinking: expected one of keep, drop_block, not 'strip'"),
            ({"profile": "leen"}, "'leen' is not known here; did you mean 'lean'?"),
            ({"commit": "now"}, "commit: expected one of priced, at_once, not 'now'"),
            ({"enabled": "yes"}, "enabled: expected true or false, not 'yes'"),
            ({"guard": 0.5}, "guard: must be at least 1, not 0.5"),
            ({"share_text": 2}, "there is no option 'share_text' any more: how long digests"),
            ({"keep_recent_turns": -1}, "keep_recent_turns: must be at least 0, not -1"),
            ({"decay": 4}, "expected true, false, or an object such as {'full': 4, 'fold': 6}"),
            ({"decay": {"ful": 4}}, "decay: unknown key 'ful'; did you mean 'full'?"),
            ({"compress": {"file_lines": 0}}, "compress.file_lines: must be at least 1, not 0"),
            (5, "expected true, false, or an object such as {'window': 5}, not 5"),
            ("lean", "expected true, false, or an object such as {'window': 5}, not 'lean'"),
        ],
    )
    def test_are_one_sentence_with_its_line(self, said: Any, says: str) -> None:
        (own,) = told({"intra_context": said})
        (top,) = told({}, auto_context={"intra_phase": said})
        for mistake in (own, top):
            assert says in mistake
            assert mistake.startswith("c.json:")
            assert "\n" not in mistake
        assert "phase 'a', intra_context" in own
        assert "auto_context.intra_phase" in top

    def test_of_the_cascades_block(self) -> None:
        (mistake,) = told({}, auto_context={"profil": "lean"})
        assert "did you mean 'profile'? known: commit, free_moments, helper_model" in mistake
        (mistake,) = told({}, auto_context="lean")
        assert "expected true, false, or an object such as {'profile': 'lean'}" in mistake

    def test_an_option_in_the_wrong_place_is_told_where_it_belongs(self) -> None:
        (mistake,) = told({"mask_observations_after": 3})
        assert "does not belong here but in 'intra_context' or 'intra_phase'" in mistake
        (mistake,) = told({"auto_context": {}})
        assert "'auto_context' does not belong here but in the top of the file" in mistake

    @pytest.mark.req("CA-6")
    def test_turns_belong_to_recent(self) -> None:
        assert told({"context_strategy": "recent", "turns": 3}) == []
        (mistake,) = told({"context_strategy": "sliding", "turns": 3})
        assert "turns: applies only with context_strategy 'recent'" in mistake


class TestOneListOfOptions:
    def test_the_file_has_the_options_of_the_policy(self) -> None:
        assert list(INTRA.model_fields) == list(OPTIONS)

    @given(window_options())
    def test_what_a_file_may_say_a_policy_takes(self, said: Any) -> None:
        if isinstance(said, dict):
            assert Policy.of(said)

    @given(cascades(), st.data())
    def test_the_schema_refuses_what_the_models_refuse(
        self, data: dict[str, Any], draw: st.DataObject
    ) -> None:
        option = draw.draw(st.sampled_from(sorted(OPTIONS)))
        values: list[Any] = [None, True, -1, 0, 3, 0.5, "x", [], {}, {"zzz": 1}]
        value = draw.draw(st.sampled_from(values))
        data = {**data, "auto_context": {"intra_phase": {option: value}}}
        try:
            _ = loaded(data).cascade
            refused = False
        except CascadeError:
            refused = True
        assert refused is not Draft202012Validator(json_schema()).is_valid(data)

    def test_python_may_write_dicts_and_models(self) -> None:
        phase = Phase(name="a", instructions="Do a.", intra_context={"window": 3})
        made = Cascade(cascade_id="c", auto_context=AutoContext(profile="lean"), phases=[phase])
        found = compile_rule(made, made.phases[0]).policy
        assert found == Policy(profile="lean", window=3)
        again = json.loads(made.model_dump_json(by_alias=True, exclude_unset=True))
        assert compile_rule(Cascade.model_validate(again), phase) == compile_rule(made, phase)


@pytest.mark.parametrize("cuts", ["firm", None])
def test_cuts_can_be_firm_or_off(cuts: str | None) -> None:
    inner = {"intra_phase": {"cuts": cuts}}
    data = {"cascade_id": "c", "phases": [{"name": "a", "instructions": "x"}]}
    cascade = Cascade.model_validate({**data, "auto_context": inner})
    policy = compile_rule(cascade, cascade.phases[0]).policy
    assert policy is not None
    assert policy.cuts == cuts
