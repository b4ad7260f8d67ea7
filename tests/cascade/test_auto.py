"""`auto_context` and `intra_context`: what they may say, how they merge, what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.cascade.making import cascade, cascades, loaded, window_options
from windlass.cascade.check import check
from windlass.cascade.compile import compile_rule, explain_defaults
from windlass.cascade.model import Cascade
from windlass.cascade.options import INTRA
from windlass.cascade.published_schema import json_schema
from windlass.cascade.rules import Rule
from windlass.errors import CascadeError
from windlass.settings.settings import Settings
from windlass.window.options import OPTIONS, Policy
from windlass.window.policies.rare import DecayOptions

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


class TestMerging:
    @pytest.mark.req("AC-51")
    def test_blocks_merge_key_by_key_too(self) -> None:
        made = policy({"intra_phase": {"decay": {"full": 2}}}, {"decay": {"fold": 3}})
        assert made.decay == DecayOptions(full=2, fold=3)

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
