"""Policies beside each other: known differences, judges, and going on after a kill."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench.compared_pair import CASCADE, MASKED, log, note, right, rows, script

import windlass
from tests.engine.harness import call, calls, cascade, phase
from tests.support.engine_budget import PRICES, SMALL, Priced
from tests.support.engine_injectors import DONE, PLAN, TACKLE
from windlass.api.comparing.comparison import Comparison
from windlass.cascade.layers import window_policy
from windlass.cascade.model import Cascade
from windlass.cascade.policies import policy_of
from windlass.cascade.ready import ReadyCascade
from windlass.errors import CascadeError, RateLimited, UsageError
from windlass.providers.scripted import Scripted
from windlass.replays.named_policies import policy_of as replayed
from windlass.tools.registry import Registry
from windlass.wire.base import Reply, Request, Usage

OUT = Path("r.jsonl")
ASK = cascade(phase("a", instructions="Say {{ input.n }}."))
BOTH = ["everything", "lean"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(
    inputs: Any, policies: Any = BOTH, of: Any = ASK, says: Any = None, **options: Any
) -> Comparison:
    says = says or Scripted(lambda _: "said")
    given = {"out": OUT, "model": "s/x", "providers": {"s": says}, **options}
    return windlass.compare_sync(of, inputs, policies, **given)


def pair(count: int, needing: int, policies: Any = None, **options: Any) -> Comparison:
    policies = policies or {"everything": False, "masked": MASKED}
    options = {"judge": right, "tools": [log, note], **options}
    return compare(rows(count, needing), policies, CASCADE, Scripted(script), **options)


def some(n: int) -> list[dict[str, Any]]:
    return [{"n": number} for number in range(1, n + 1)]


def number(request: Request) -> int:
    found = re.search(r"Say (\d+)", request.messages[0].text)
    assert found
    return int(found[1])


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUT.read_text().splitlines()]


class TestKnownDifference:
    def test_is_seen_with_the_exact_p_value(self) -> None:
        done = pair(12, 8)
        full, masked = done.policies
        assert (full.policy, full.runs, full.successes, full.rate) == ("everything", 12, 12, 1.0)
        assert (masked.policy, masked.runs, masked.successes) == ("masked", 12, 4)
        assert masked.tokens_in < 0.7 * full.tokens_in
        (difference,) = done.differences
        assert (difference.policy, difference.baseline) == ("masked", "everything")
        assert (difference.test, difference.better, difference.worse) == ("McNemar", 0, 8)
        assert difference.p == 2 * 0.5**8  # eight coins that all fall the same way
        assert difference.p_holm == difference.p
        assert difference.verdict == "worse"
        assert difference.inputs_needed is None
        assert difference.difference == pytest.approx(-8 / 12)
        assert difference.low < -8 / 12 < difference.high < 0

    def test_where_there_is_none_answers_are_no_worse(self) -> None:
        done = pair(10, 0, margin=0.2)
        (difference,) = done.differences
        assert (difference.better, difference.worse, difference.p) == (0, 0, 1.0)
        assert difference.verdict == "no worse"
        assert -0.2 < difference.low < 0 < difference.high < 0.2

    def test_too_few_are_told_with_the_number_that_would_do(self) -> None:
        done = pair(6, 2)
        (difference,) = done.differences
        assert difference.p == 0.5
        assert difference.verdict == "too few to tell"
        # By Connor: delta 2/6, psi (2 + 1) / (6 + 2); z 1.959964 and 0.841621.
        psi, delta = 3 / 8, 1 / 3
        root = 1.959964 * math.sqrt(psi) + 0.841621 * math.sqrt(psi - delta**2)
        assert difference.inputs_needed == math.ceil((root / delta) ** 2)

    def test_so_many_ties_as_are_asked_for_are_no_worse(self) -> None:
        (difference,) = pair(12, 0).differences
        assert difference.verdict == "too few to tell"
        assert difference.inputs_needed == 38
        OUT.unlink()
        assert pair(38, 0).differences[0].verdict == "no worse"

    def test_the_number_that_would_do_does(self) -> None:
        needed = pair(6, 2).differences[0].inputs_needed
        assert needed
        OUT.unlink()
        assert pair(needed, needed // 3).differences[0].verdict == "worse"

    def test_several_policies_share_the_chance_of_an_error(self) -> None:
        policies = {"everything": False, "masked": MASKED, "same": False}
        done = pair(8, 6, policies)
        masked, same = done.differences
        assert masked.p == 2 * 0.5**6
        assert masked.p_holm == 2 * masked.p  # Holm: the smallest of two
        assert (same.p, same.p_holm, same.verdict) == (1.0, 1.0, "too few to tell")


class TestMoney:
    @pytest.fixture(autouse=True)
    def prices(self) -> None:
        Path("windlass.toml").write_text(PRICES)

    def test_the_change_is_that_of_the_sums(self) -> None:
        class ByLength(Priced):
            async def send(self, request: Request, on_text: Any) -> Reply:
                reply = await super().send(request, on_text)
                tokens = sum(len(each.text) for each in request.messages)
                return dataclasses.replace(reply, usage=Usage(tokens, 10))

        model = ByLength(script, SMALL)
        policies = {"everything": False, "masked": MASKED}
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        done = compare(rows(6, 0), policies, CASCADE, judge=right, tools=[log, note], **options)
        costs = dict.fromkeys(policies, 0.0)
        for line in lines():
            costs[line["policy"]] += line["cost"]
        (difference,) = done.differences
        change = costs["masked"] / costs["everything"] - 1
        assert difference.cost_change == pytest.approx(change)
        assert change < -0.3
        assert difference.cost_low is not None
        assert difference.cost_high is not None
        assert difference.cost_low <= change <= difference.cost_high < 0
        assert done.policies[0].cost == pytest.approx(costs["everything"] / 6)
        assert done.cost == pytest.approx(sum(costs.values()))

    def test_a_limit_leaves_pairs_and_is_taken_up_again(self) -> None:
        model = Priced(lambda _: "x", SMALL)
        options: dict[str, Any] = {"model": "priced/m", "providers": {"priced": model}}
        of = cascade(phase("a", instructions="Say {{ input.n }}."), max_output_tokens=1)
        done = compare(some(5), of=of, max_cost=0.9, workers=1, **options)
        assert done.reason == "money"
        assert (done.runs, done.again) == (10, 6)
        assert done.differences[0].inputs == 2
        assert done.spent == pytest.approx(0.8)
        done = compare(some(5), of=of, resume=True, **options)
        assert (done.again, done.differences[0].inputs, len(model.requests)) == (0, 5, 10)

    def test_what_a_judge_costs_stands_apart_and_counts(self) -> None:
        judge = Priced(lambda _: '{"score": 0.5, "why": "so so"}', SMALL)
        options: dict[str, Any] = {"judge": "priced/m", "workers": 1}
        options["providers"] = {"s": Scripted(lambda _: "said"), "priced": judge}
        done = compare(some(3), **options)
        assert done.cost == 0
        assert done.judge_cost == pytest.approx(6 * 0.2)
        assert done.spent == pytest.approx(1.2)
        assert all(each.cost == 0 for each in done.policies)
        OUT.unlink()
        done = compare(some(3), **options, max_cost=3.5)
        # A reply can have 300 tokens, so two questions fit, and the third does not.
        assert (done.reason, done.again, done.unjudged) == ("money", 0, 4)
        assert done.spent == pytest.approx(0.4)
        done = compare(some(3), **options, resume=True)
        assert (done.reason, done.unjudged) == (None, 0)
        assert done.judge_cost == pytest.approx(1.2)


class TestJudges:
    def test_the_validator_is_the_cascades_own(self) -> None:
        Path("checks.py").write_text(
            "def long(output: str) -> dict:\n"
            '    """Look."""\n'
            '    return {"valid": len(output) > 3, "reason": "too short"}\n'
        )
        of = cascade(
            phase(
                "a",
                instructions="Say {{ input.n }}.",
                rules={"loop_until": "long", "max_attempts": 1},
            ),
            tools=["checks:long"],
        )
        model = Scripted(lambda request: "no" if number(request) > 2 else "a long word")
        done = compare(some(4), of=of, says=model)
        assert [each.successes for each in done.policies] == [2, 2]
        assert done.again == 0
        sent = len(model.requests)
        again = compare(some(4), of=of, says=model, resume=True)  # an answer is an answer
        assert (again.policies, len(model.requests)) == (done.policies, sent)

    def test_a_function_by_its_name(self) -> None:
        Path("marks.py").write_text(
            "def even(given, outputs):\n    return given['n'] % 2 == 0 and outputs['a'] == 'said'\n"
        )
        done = compare(some(4), judge="marks:even")
        assert [each.successes for each in done.policies] == [2, 2]
        assert done.judge == "marks:even"

    def test_one_that_waits_for_something(self) -> None:
        async def late(given: Mapping[str, Any], outputs: Mapping[str, str]) -> bool:
            await asyncio.sleep(0.001)
            return outputs["a"] == f"{given['n']}"

        done = compare(some(3), says=Scripted(lambda request: str(number(request))), judge=late)
        assert [each.successes for each in done.policies] == [3, 3]

    def test_numbers_are_scores(self) -> None:
        def length(given: Mapping[str, Any], outputs: Mapping[str, str]) -> float:
            return len(outputs["answer"]) + float(given["row"])

        done = pair(8, 6, judge=length)
        full, masked = done.policies
        assert (full.successes, masked.successes) == (None, None)
        (difference,) = done.differences
        # "I do not know" is 7 characters longer than "VALUE1".
        assert (difference.test, difference.better, difference.worse) == ("sign", 6, 0)
        assert difference.p == 2 * 0.5**6
        assert difference.difference == pytest.approx(6 * 7 / 8)
        assert difference.low <= difference.difference <= difference.high
        assert difference.verdict == "better"

    def test_few_equal_scores_show_nothing(self) -> None:
        done = compare(some(4), judge=lambda *_: 0.5)
        (difference,) = done.differences
        assert (difference.verdict, difference.test) == ("too few to tell", "sign")
        assert difference.inputs_needed is not None
        assert difference.inputs_needed >= 30

    @pytest.mark.parametrize("answer", ["yes", None, math.nan, [1]])
    def test_what_is_no_score_is_told_and_judged_again(self, answer: Any) -> None:
        model = Scripted(lambda _: "said")
        done = compare(some(2), says=model, judge=lambda *_: answer)
        assert (done.unjudged, done.again, done.policies, done.differences) == (4, 0, (), ())
        assert all("true, false or a number" in line["why"] for line in lines())
        done = compare(some(2), says=model, judge=lambda *_: True, resume=True)
        assert (done.unjudged, done.differences[0].inputs, len(model.requests)) == (0, 2, 4)

    def test_one_that_fails_stops_nothing(self) -> None:
        def fails(given: Mapping[str, Any], outputs: Mapping[str, str]) -> bool:
            return bool(outputs["b"])

        done = compare(some(2), judge=fails)
        assert done.unjudged == 4
        assert "KeyError" in lines()[0]["why"]

    def test_a_model_is_asked_once_for_each_run(self) -> None:
        def judges(request: Request) -> str:
            asked = request.messages[-1].text
            assert "Say {{ input.n }}." in asked
            assert "[Original Input " in asked
            assert '"n": ' in asked
            assert re.search(r"\[Answer (\w+)\]\nsaid\n\[End \1\]$", asked)
            return '{"score": 0.25, "why": "it is short"}'

        judge = Scripted(judges)
        providers = {"s": Scripted(lambda _: "said"), "j": judge}
        done = compare(some(2), judge="j/m", providers=providers)
        assert [each.rate for each in done.policies] == [0.25, 0.25]
        assert len(judge.requests) == 4
        assert lines()[0]["why"] == "it is short"

    @pytest.mark.parametrize("answer", ["no", '{"score": 7, "why": ""}', '{"score": "1"}', "[]"])
    def test_a_model_that_gives_no_score(self, answer: str) -> None:
        providers = {"s": Scripted(lambda _: "said"), "j": Scripted(lambda _: answer)}
        done = compare(some(1), judge="j/m", providers=providers)
        assert done.unjudged == 2
        assert "gave no score from 0 to 1" in lines()[0]["why"]

    def test_another_one_judges_what_is_there_and_nothing_runs(self) -> None:
        model = Scripted(lambda _: "said")
        first = compare(some(3), says=model)
        assert [each.rate for each in first.policies] == [1.0, 1.0]
        asked = len(model.requests)
        second = compare(some(3), says=model, judge=lambda *_: 0.75, resume=True)
        assert [each.rate for each in second.policies] == [0.75, 0.75]
        assert second.policies[0].tokens_in == first.policies[0].tokens_in
        assert second.tokens == first.tokens
        assert len(model.requests) == asked

    def test_a_run_that_did_not_complete_is_no_success_and_is_not_judged(self) -> None:
        def scripted(request: Request) -> Any:
            return ("", "refusal") if number(request) == 1 else "said"

        asked: list[int] = []

        def judge(given: Mapping[str, Any], _: Mapping[str, str]) -> bool:
            asked.append(given["n"])
            return True

        done = compare(some(3), says=Scripted(scripted), judge=judge)
        assert [each.successes for each in done.policies] == [2, 2]
        assert 1 not in asked


class TestRuns:
    def test_what_fails_on_the_models_side_is_no_outcome(self) -> None:
        def scripted(request: Request) -> str:
            if number(request) == 2:
                raise RateLimited("too many")
            return "said"

        done = compare(some(3), says=Scripted(scripted))
        assert (done.again, done.differences[0].inputs) == (2, 2)
        assert [each.successes for each in done.policies] == [2, 2]
        done = compare(some(3), resume=True)
        assert (done.again, done.differences[0].inputs) == (0, 3)

    def test_a_person_who_is_asked_is_waited_for(self) -> None:
        of = cascade(phase("a", instructions="Say {{ input.n }}.", tackle=["ask_human"]))
        model = Scripted(
            lambda request: (
                calls(call("ask_human", '{"question": "Which?"}'))
                if number(request) == 1
                else "said"
            )
        )
        done = compare(some(2), of=of, says=model)
        assert (done.waiting, done.again, done.differences[0].inputs) == (2, 0, 1)

    def test_takes_of_an_input_are_no_inputs(self) -> None:
        done = pair(4, 2, repeat=3)
        assert [each.runs for each in done.policies] == [12, 12]
        (difference,) = done.differences
        assert (difference.inputs, difference.worse, difference.test) == (4, 2, "sign")
        assert difference.p == 0.5

    def test_each_policy_is_first_as_often(self) -> None:
        compare(some(6), ["everything", "lean", "careful"], workers=1)
        firsts = Counter(line["policy"] for line in lines() if line["row"] % 3 == 1)
        assert firsts == {"everything": 2, "lean": 2, "careful": 2}

    def test_what_is_drawn_is_the_same_under_each_policy(self) -> None:
        of = cascade(
            phase("a", instructions="Say {{ input.n }}.", tackle=TACKLE), injectors={"vary": True}
        )

        def scripted(request: Request) -> Any:
            # Its calls have ids of their own, which would be seen.
            turn = sum(each.role == "assistant" for each in request.messages)
            if turn == 3:
                return "done"
            (one,) = (PLAN, DONE, DONE)[turn].tool_calls
            return calls(dataclasses.replace(one, id=f"c{turn}"))

        model = Scripted(scripted)
        both = ["everything", "default,repeats=false"]  # a reference is another text
        compare(some(6), both, of=of, says=model, workers=1, repeat=2)
        runs: dict[int, list[list[str]]] = {}
        row = 0
        for request in model.requests:
            texts = [each.text for each in request.messages]
            row += not any(each.role == "assistant" for each in request.messages)
            runs.setdefault(row, []).append(texts)
        assert len(runs) == 24
        pairs = [(runs[at], runs[at + 1]) for at in range(1, 25, 2)]
        assert all(one == other for one, other in pairs)
        takes = zip(pairs[::2], pairs[1::2], strict=True)
        assert any(one != other for (one, _), (other, _) in takes)


class TestPolicies:
    def test_full_sends_everything_whatever_phases_say(self) -> None:
        (of,) = [json.loads(json.dumps(CASCADE))]
        of["phases"][0]["intra_context"] = MASKED["intra_phase"]
        of["auto_context"] = {"commit": "at_once"}
        done = compare(
            rows(3, 3),
            ["everything", "default"],
            of,
            Scripted(script),
            judge=right,
            tools=[log, note],
        )
        assert [each.successes for each in done.policies] == [3, 0]

    def test_a_file_is_one_and_a_cascade_is_such_a_file(self) -> None:
        Path("masked.json").write_text(json.dumps({"auto_context": MASKED}))
        Path("own.json").write_text(json.dumps({**CASCADE, "auto_context": MASKED}))
        done = pair(3, 3, ["everything", "masked.json", "own.json"])
        assert [each.policy for each in done.policies] == ["everything", "masked.json", "own.json"]
        assert [each.successes for each in done.policies] == [3, 0, 0]

    @pytest.mark.parametrize(
        "name",
        [
            *("lean", "mask:3", "mask:5,min_masked_chars=9", "lean,window=3", "see_reads=2"),
            *("everything,keep_recent_turns=3", "spec,compress.above_chars=10"),
        ],
    )
    def test_a_name_means_what_it_means_in_a_replay(self, name: str) -> None:
        ready = ReadyCascade(Cascade.model_validate(ASK), Registry(), {})
        under = policy_of(name).over(ready).cascade
        assert window_policy(under, under.phases[0])[0] == replayed(name).policy

    def test_sub_cascades_are_under_it_too(self) -> None:
        Path("child.json").write_text(json.dumps(CASCADE))
        of = {
            "cascade_id": "parent",
            "phases": [
                {
                    "name": "say",
                    "instructions": "Row 1, needs False",
                    "sub_cascades": [{"ref": "child.json", "context_out": True}],
                },
            ],
        }

        def judge(_: Mapping[str, Any], outputs: Mapping[str, str]) -> bool:
            return outputs["answer"].startswith("VALUE")

        Path("parent.json").write_text(json.dumps(of))
        policies = {"everything": False, "masked": MASKED}
        done = compare(
            rows(2, 2), policies, "parent.json", Scripted(script), judge=judge, tools=[log, note]
        )
        assert [each.successes for each in done.policies] == [2, 0]

    @pytest.mark.parametrize(
        ("policies", "told"),
        [
            (["everything", "leen"], r"no policy 'leen': did you mean 'lean'"),
            (["everything"], "at least two policies"),
            (["everything", "everything"], "each of them once"),
            ("everything", "list of at least two policies"),
            (["everything", "none.json"], "'none.json': there is no such file"),
            (["everything", "full"], "each of them once"),
        ],
    )
    def test_what_is_none(self, policies: Any, told: str) -> None:
        with pytest.raises(UsageError, match=told):
            compare(some(1), policies)
        assert not OUT.exists()

    def test_a_mistake_in_a_file_has_its_line(self) -> None:
        Path("p.json").write_text('{"auto_context": {\n"profile": "leen"}}')
        with pytest.raises(CascadeError, match=r"p\.json:2: auto_context\.profile"):
            compare(some(1), ["everything", "p.json"])

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"judge": "foo"}, "no judge 'foo'"),
            ({"judge": "foo:bar"}, "no module 'foo'"),
            ({"judge": "json:laods"}, "did you mean 'loads'"),
            ({"judge": "json:__doc__"}, "is not a function"),
            ({"judge": "nowhere/m"}, "nowhere"),
            ({"repeat": 0}, "repeat"),
            ({"margin": 0}, "margin"),
        ],
    )
    def test_other_mistakes(self, options: Any, told: str) -> None:
        with pytest.raises(UsageError, match=told):
            compare(some(1), **options)
        assert not OUT.exists()

    def test_results_of_others_are_left_alone(self) -> None:
        compare(some(2))
        for policies, inputs in (
            (["everything", "careful"], some(2)),
            (BOTH, [{"n": 9}, {"n": 2}]),
        ):
            with pytest.raises(UsageError, match="other inputs, policies or repeats: row"):
                compare(inputs, policies, resume=True)
        with pytest.raises(UsageError, match="exists already"):
            compare(some(2))


KILLED = """
import asyncio
import windlass
from windlass.providers.scripted import Scripted

async def script(request):
    with open("asked.txt", "a") as file:
        file.write(request.messages[0].text + "\\n")
    await asyncio.sleep(0.02)
    return "said"

of = {"cascade_id": "k", "phases": [{"name": "a", "instructions": "Say {{ input.n }}."}]}
done = windlass.compare_sync(of, [{"n": n} for n in range(20)], ["everything", "lean"],
                             out="r.jsonl", workers=3, resume=True, model="s/x",
                             judge=lambda i, _: i["n"] > 4, providers={"s": Scripted(script)})
print([each.successes for each in done.policies], done.differences[0].inputs)
"""


def test_one_that_is_killed_repeats_nothing_that_was_answered(folder: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(windlass.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED]
    child = subprocess.Popen(command, cwd=folder, env=environ)
    try:
        until = time.monotonic() + 100
        while not (OUT.exists() and OUT.read_bytes().count(b"\n") >= 12):
            assert child.poll() is None, "it ended by itself"
            assert time.monotonic() < until
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    done = subprocess.run(
        command, cwd=folder, env=environ, check=True, timeout=100, capture_output=True, text=True
    )
    assert done.stdout == "[15, 15] 20\n"
    assert Counter(line["row"] for line in lines()) == Counter(range(1, 41))
    times = Counter(Path("asked.txt").read_text().splitlines())
    assert set(times.values()) <= {2, 3, 4}
    assert sum(times.values()) - 40 <= 3  # those in flight, one for each worker


@pytest.mark.local
def test_with_the_model_on_this_machine(folder: Path) -> None:
    of = cascade(
        phase("a", instructions="Say the number {{ input.n }} and nothing else."),
        max_output_tokens=16,
    )
    done = windlass.compare_sync(
        of,
        some(3),
        ["everything", "default"],
        out=OUT,
        model="local/smollm2",
        workers=2,
        judge=lambda given, outputs: str(given["n"]) in outputs["a"],
    )
    full, default = done.policies
    assert (full.runs, full.successes) == (default.runs, default.successes)
    assert done.differences[0].p == 1.0
    assert done.differences[0].verdict == "too few to tell"
    assert full.tokens_in > 0
