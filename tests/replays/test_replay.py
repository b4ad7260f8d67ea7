"""`windlass.replay`: what other policies would have cost on recorded calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.importing.making import Session, text, used, write_lines
from tests.replays.making import MODEL, RESULT_TOKENS, listing, session_file, talk
from windlass.errors import UsageError
from windlass.importing.streams import recordings
from windlass.replays import running
from windlass.replays.named_policies import Head, ReplayPolicy
from windlass.replays.outcomes import PolicyCost, Replay, Span
from windlass.replays.pricing import OWN, find_prices
from windlass.window.options import Policy


def outlays(replayed: Replay) -> dict[str, PolicyCost]:
    return {outlay.policy: outlay for outlay in replayed.totals}


def _chars(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls") or ()
    functions = (one["function"] for one in calls)
    return len(message["content"] or "") + sum(
        len(one["name"]) + len(one["arguments"]) for one in functions
    )


class TestAListOfMessages:
    def test_says_what_other_policies_would_have_cost(self) -> None:
        found = outlays(windlass.replay(talk(), ["everything", "default", "mask:3"], model=MODEL))
        everything, default = found["everything"], found["default"]
        assert everything.ratio == (1.0, 1.0)
        assert everything.first_difference is None
        assert default.ratio.high < 0.7
        assert everything.dollars is not None
        assert default.dollars is not None
        assert default.dollars.high < everything.dollars.low
        assert default.first_difference == 2  # a long result is cut before its first call
        assert default.calls[-1].hidden > 10_000
        assert default.hidden[0].tool == "search"
        assert default.hidden[0].tokens_after < default.hidden[0].tokens_before

    def test_its_windows_are_those_of_a_context(self) -> None:
        messages = talk()
        replayed = windlass.replay(messages, ["everything", "lean"], ["anthropic"], model=MODEL)
        prices = windlass.Prices(0.1, 1.25, 1_024, 1, 300)
        context = windlass.Context(MODEL, "lean", prices=prices, way_back="")
        sent: list[int] = []
        for message in messages:
            if message["role"] == "assistant":
                sent.append(sum(map(_chars, context.window().messages)))
            context.append(message)
        said = [sum(map(_chars, messages[:at])) for at in range(1, len(messages), 2)]
        found = outlays(replayed)
        whole = [call.tokens for call in found["everything"].calls]
        scale = whole[-1] / said[-1]
        hidden = [scale * (all_of_it - some) for all_of_it, some in zip(said, sent, strict=True)]
        assert [call.hidden for call in found["lean"].calls] == pytest.approx(hidden, rel=0.01)

    def test_what_is_needed_and_hidden_is_paid_for_again(self) -> None:
        found = outlays(windlass.replay(talk(needs=True), ["mask:2", "default"], model=MODEL))
        assert (found["mask:2"].values, found["mask:2"].values_seen) == (1, 0)
        assert (found["mask:2"].misses, found["mask:2"].recall) == (1, 0.0)
        assert found["mask:2"].again.low > 0
        assert (found["default"].values_seen, found["default"].misses) == (1, 0)

    def test_a_mask_hides_old_results_and_nothing_else(self) -> None:
        messages = talk()
        for message in messages[1::2]:
            message["content"] = "I think about it. " * 500
        (mask,) = windlass.replay(messages, ["mask:3"], model=MODEL).totals
        assert {(one.role, one.tool) for one in mask.hidden} == {("tool", "search")}
        assert len(mask.hidden) == 8 - 3
        assert mask.first_difference == 5

    def test_prices_are_vectors_models_and_numbers(self) -> None:
        half_price = windlass.Prices(0.5, 1.0, 0, 1, None)
        prices: list[str | windlass.Prices] = ["none", "openai/gpt-5", half_price]
        replayed = windlass.replay(talk(), ["everything"], prices, model=MODEL)
        none, gpt, half = replayed.totals
        assert none.bill == none.tokens
        assert none.dollars is None
        assert gpt.dollars is not None
        assert none.bill.low > half.bill.low > gpt.bill.low
        assert [one.prices for one in replayed.totals][:2] == ["none", "openai/gpt-5"]

    def test_of_an_unknown_model_it_says_what_is_assumed(self) -> None:
        replayed = windlass.replay(talk())
        assert replayed.assumed == (
            "model 'unknown' has no price: prices like Anthropic's are taken",
        )
        assert replayed.totals[0].dollars is None

    @pytest.mark.parametrize(
        "form",
        [
            [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            [{"type": "message", "role": "user", "content": "hi"}],
        ],
    )
    def test_without_an_answer_there_is_no_call(self, form: list[dict[str, Any]]) -> None:
        with pytest.raises(UsageError, match="holds no answer of a model"):
            windlass.replay(form)

    def test_it_may_be_in_anthropics_form(self) -> None:
        use = {"type": "tool_use", "id": "t", "name": "search", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 9_000}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "done"},
        ]
        (recording,) = windlass.replay(messages, model=MODEL).recordings
        assert (recording.call_count, recording.results) == (2, 1)

    @given(st.integers(1, 8))
    def test_everything_is_what_a_context_sends_that_shortens_nothing(self, turns: int) -> None:
        """So that the windows of `everything` need not be made."""
        policies: list[str | dict[str, Any]] = ["everything", {"enabled": False, "window": 7}]
        everything, switched_off = windlass.replay(talk(turns), policies, ["none"]).totals
        assert switched_off.first_difference is None
        assert switched_off.bill == everything.bill


class TestFiles:
    def test_everything_costs_what_was_billed_and_the_rest_has_a_range(
        self, tmp_path: Path
    ) -> None:
        (recording,) = windlass.replay(session_file(tmp_path / "s.jsonl")).recordings
        assert recording.grade == "C"
        assert 18_000 < recording.unseen.low < recording.unseen.high < 22_000
        everything, default = recording.outlays
        assert everything.dollars is not None
        assert everything.dollars == pytest.approx([recording.recorded] * 2)
        assert everything.tokens == (recording.recorded_in,) * 2
        assert everything.cached == (recording.recorded_cached,) * 2
        assert default.ratio.low < default.ratio.high < 1
        assert default.dollars is not None
        shares = [one / (recording.recorded or 1.0) for one in default.dollars]
        assert shares == pytest.approx(list(default.ratio))

    def test_a_cache_that_failed_fails_for_all_policies(self, tmp_path: Path) -> None:
        held, lost = Session("held"), Session("lost")
        for session, share in ((held, 1.0), (lost, 0.5)):
            session.user("look for the tickets")
            sent = 20_000
            for number in range(6):
                block = {"type": "tool_use", "id": f"t{number}", "name": "s", "input": {}}
                read = round(share * (sent - RESULT_TOKENS)) if number else 0
                usage = used(sent - read, read=read)
                session.answer(f"{session.name}-{number}", text("next"), block, usage=usage)
                told = {"type": "tool_result", "tool_use_id": f"t{number}", "content": listing(9)}
                session.user([told])
                sent += RESULT_TOKENS
        costs = []
        for session in (held, lost):
            path = write_lines(tmp_path / f"{session.name}.jsonl", session.records)
            replayed = windlass.replay(path)
            everything, default = replayed.totals
            assert everything.dollars == pytest.approx([replayed.recorded] * 2)
            costs.append((everything.dollars or Span(0, 0), default.dollars or Span(0, 0)))
        assert costs[1][0].low > 1.2 * costs[0][0].low
        assert costs[1][1].low > 1.2 * costs[0][1].low

    def test_a_call_of_another_model_costs_what_it_cost(self, tmp_path: Path) -> None:
        session = Session("two")
        session.user("Go.")
        session.answer("m1", text("a"), usage=used(5_000, 400))
        session.model = "claude-haiku-4-5-20251001"
        session.answer("m2", text("b"), usage=used(5_000, 400))
        replayed = windlass.replay(write_lines(tmp_path / "two.jsonl", session.records))
        assert replayed.totals[0].dollars == pytest.approx([replayed.recorded] * 2)

    def test_a_folder_says_what_was_left_out_and_which_was_worst(self, tmp_path: Path) -> None:
        session_file(tmp_path / "a.jsonl", 3, "s-a")
        session_file(tmp_path / "b.jsonl", 9, "s-b")
        (tmp_path / "notes.txt").write_text("no recording")
        told: list[str] = []
        replayed = windlass.replay(tmp_path, on_skip=told.append)
        assert [one.name for one in replayed.recordings] == ["s-a", "s-b"]
        assert len(told) == len(replayed.skipped) == 1
        everything, default = replayed.totals
        assert (everything.recordings, everything.call_count) == (2, 14)
        assert default.worst_recording == "s-a"
        assert default.worst > default.ratio.high

    # Commands that other tests run here end all that was started, and so this helper of Python's.
    @pytest.mark.filterwarnings("ignore:resource_tracker")
    def test_several_processes_find_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running, "_FEW", 0)
        for number in range(3):
            session_file(tmp_path / f"{number}.jsonl", 2 + number, f"s-{number}")
        assert windlass.replay(tmp_path, workers=2) == windlass.replay(tmp_path)

    def test_what_stands_in_front_otherwise_is_paid_for(self, tmp_path: Path) -> None:
        """Definitions that wait are neither written nor read, until a call needs one of them."""
        [recording] = recordings(session_file(tmp_path / "s.jsonl"))
        whole = Policy(enabled=False)
        heads = {
            "as it was": None,
            "waits": lambda _: [Head({("other",): 2_000}, 100)],
            "is needed": lambda _: [Head({("search", "other"): 2_000}, 100)],
            "costs once": lambda _: [Head(once=5_000)],
            "range": lambda _: [Head(), Head({("other",): 2_000})],
        }
        policies = tuple(ReplayPolicy(name, whole, heads=head) for name, head in heads.items())
        replayed = running.replay_all([recording], policies, (OWN,)).recordings[0]
        units = {one.policy: one.bill for one in replayed.outlays}
        everything = units["as it was"].low
        assert everything == replayed.outlays[0].everything.low
        calls, model = len(recording.calls), find_prices(OWN, recording.model).vector
        saved = 2_000 * (model.write + model.read * (calls - 1))
        assert units["waits"] == pytest.approx((everything - saved,) * 2, rel=0.001)
        # The first answer needs it: one more request, and it is written and read behind the head.
        first = recording.calls[0].usage
        assert first is not None
        again = model.read * (first.tokens_in - 2_000) + 5 * 100
        again += 2_100 * (model.write + model.read * (calls - 2))
        assert units["is needed"].low == pytest.approx(everything - saved + again, rel=0.002)
        assert units["costs once"].low == pytest.approx(everything + 5_000)
        assert units["range"] == pytest.approx((units["waits"].low, everything), rel=0.002)

    def test_a_pause_lets_a_cache_forget_that_is_not_known(self, tmp_path: Path) -> None:
        near = session_file(tmp_path / "near.jsonl")
        late = re.sub("T15:30:(09|1.)", r"T16:30:\1", near.read_text())
        (tmp_path / "far.jsonl").write_text(late)
        near_own, near_other, far_own, far_other = (
            outlay.bill.low
            for name in ("near.jsonl", "far.jsonl")
            for outlay in windlass.replay(
                tmp_path / name, ["everything"], ["own", "anthropic/claude-haiku-4-5"]
            ).totals
        )
        assert far_other > 1.3 * near_other
        assert far_own == near_own  # the provider told what its cache held


class TestSettings:
    def test_a_file_with_an_auto_context_is_a_policy(self, tmp_path: Path) -> None:
        cascade = tmp_path / "mine.yaml"
        cascade.write_text(
            "auto_context:\n  profile: lean\n  intra_phase: {window: 3}\nphases: []\n"
        )
        replayed = windlass.replay(talk(), [cascade], model=MODEL)
        settings = replayed.policies[str(cascade)]
        assert (settings["profile"], settings["window"]) == ("lean", 3)

    def test_files_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        files = [tmp_path / "a" / "mine.json", tmp_path / "b" / "mine.json"]
        for profile, file in zip(("lean", "careful"), files, strict=True):
            file.parent.mkdir()
            file.write_text(f'{{"auto_context": {{"profile": "{profile}"}}}}')
        replayed = windlass.replay(talk(), files, model=MODEL)
        assert list(replayed.policies) == [*map(str, files)]
        profiles = [settings["profile"] for settings in replayed.policies.values()]
        assert profiles == ["lean", "careful"]

    @pytest.mark.parametrize(
        ("policy", "complaint"),
        [
            ("defualt", "did you mean 'default'"),
            ("mask:x", "a whole number from 1"),
            ("mask:²", "a whole number from 1"),
            (f"mask:{'9' * 5_000}", "a whole number from 1"),
            (f"lean,window{'.a' * 5_000}=1", "there is no option 'window.a"),
            ("lean,window", "OPTION=VALUE"),
            ("lean,windw=3", "unknown key 'windw'"),
            ("none.json", "no such file"),
            (3, "a policy is"),
        ],
    )
    def test_a_policy_that_there_is_not_is_named(self, policy: Any, complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            windlass.replay(talk(), [policy])

    @pytest.mark.parametrize(
        ("prices", "complaint"),
        [
            ("anthropc", "did you mean 'anthropic'"),
            ("openai/none-such", "has no price"),
            ("0.1", "READ,WRITE"),
            (3, "prices are"),
        ],
    )
    def test_so_are_prices(self, prices: Any, complaint: str) -> None:
        with pytest.raises(UsageError, match=complaint):
            windlass.replay(talk(), prices=[prices])


@given(st.integers(1, 12), st.sampled_from(["default", "lean", "careful", "mask:1", "mask:4"]))
def test_a_bill_is_the_sum_of_its_calls(turns: int, policy: str) -> None:
    (outlay,) = windlass.replay(talk(turns), [policy], model=MODEL).totals
    assert outlay.dollars is not None
    assert sum(call.cost for call in outlay.calls) == pytest.approx(outlay.dollars.middle)
    assert all(call.cost > 0 for call in outlay.calls)
    assert outlay.recall <= 1
