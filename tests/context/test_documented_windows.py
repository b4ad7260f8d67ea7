"""What the documents say of windows, seen by a loop: lists of messages in, messages out."""

from __future__ import annotations

import base64
import json
import re
import sys
from typing import Any

import pytest

import windlass
from tests.strategies import png
from tests.support.context_documented_windows import asked, idle, result, user

PLAIN = "word and " * 1_000
SENTENCE = "This is what I think of it. "
CUT = "\n[... truncated for context efficiency ...]\n"


LONG = {"role": "user", "content": "Go on with the work. " * 1_200}
"""A task that fills any cache's least prefix."""


def shown(
    messages: list[dict[str, Any]], profile: str = "spec", **options: Any
) -> list[dict[str, Any]]:
    """The window of the next call: what a policy wants is done at once, or where it must pay.

    There it stands behind a long task that is cached, as in a session that is under way.
    """
    if CACHED is None:
        policy = {"profile": profile, "commit": "at_once", **options}
        return windlass.bound(messages, policy=policy, way_back="").messages
    policy = {"profile": profile, "commit": "priced", **options}
    window = windlass.bound([LONG, *messages], policy=policy, prices=CACHED, way_back="")
    return window.messages[1:]


def told(text: str, name: str = "peek", **arguments: Any) -> str:
    """What is first sent of the text of a result."""
    messages = [user("Go."), asked(1, name, **arguments), result(1, text)]
    # The documented numbers are those of a window that is half used.
    said = str(shown(messages, compress={"adapt": False})[-1]["content"])
    policy = {"profile": "spec", "compress": {"adapt": False}}
    for prices in (None, charged(0.1, 1_024), charged(0.025, 4_096)):  # where it must pay, too
        window = windlass.bound([LONG, *messages[1:]], policy=policy, prices=prices)
        assert window.messages[-1]["content"] == said
    return said


def charged(read: float, minimum: int) -> windlass.Prices:
    return windlass.Prices(read=read, write=1.25, minimum=minimum, step=1, ttl_s=300)


CACHED: windlass.Prices | None = None
"""The prices at which windows must pay (None: they are changed at once)."""


@pytest.fixture(autouse=True, params=["at_once", "priced"])
def _each_commit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented numbers hold where an edit must pay for what it loses of the cache, too."""
    prices = charged(0.1, 1_024) if request.param == "priced" else None
    monkeypatch.setattr(sys.modules[__name__], "CACHED", prices)


class TestOnAndOff:
    @pytest.mark.req("AC-45")
    def test_not_enabled_everything_comes_back(self) -> None:
        picture = base64.b64encode(png(640, 480)).decode()
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
        messages = [user([{"type": "text", "text": "Look."}, part]), asked(1, text=SENTENCE * 200)]
        messages += [result(1, PLAIN), *idle(30)]
        assert shown(messages, enabled=False) == messages
        assert shown(messages) != messages


class TestLargeResults:
    @pytest.mark.req("CE-30")
    def test_1500_characters_stay_and_one_more_is_cut(self) -> None:
        lines = "".join(f"line {number:03} of a file\n" for number in range(100))
        for name, arguments in (("read_file", {"path": "a.py"}), ("http_get", {"url": "x.org"})):
            whole = lines[:1_499] + "."
            assert told(whole, name, **arguments) == whole  # above what a file that is cut keeps
            cut = told(whole + ".", name, **arguments)
            assert len(cut) <= 1_000
            assert "Full data: result_" in cut or "[Truncated " in cut
        assert told(PLAIN[:1_500]) == PLAIN[:1_500]
        assert told(PLAIN[:1_501]) != PLAIN[:1_501]

    @pytest.mark.req("CE-23", "CA-13")
    def test_above_3000_tokens_it_is_stored_apart(self) -> None:
        for chars, apart in ((11_900, False), (12_100, True), (221_143, True)):
            text = ("some words here\n" * 13_900)[:chars]
            cut = told(text, "bash", command="make")
            head = re.match(r"\[Stored as result_[0-9a-f]{8} - (\d+)k chars\]\n", cut)
            assert bool(head) is apart
            assert not head or abs(int(head[1]) * 1_000 - chars) <= 500
            assert len(cut) <= 1_600

    @pytest.mark.req("CE-30")
    @pytest.mark.parametrize(("read", "minimum"), [(0.1, 1_024), (0.05, 512), (0.025, 4_096)])
    def test_behind_a_short_prompt_it_is_cut_where_prices_are_cached_too(
        self, read: float, minimum: int
    ) -> None:
        text = PLAIN * 4
        said: list[dict[str, Any]] = [user("Go."), asked(1), result(1, text)]
        for turns in range(4):
            window = windlass.bound(
                [*said, *idle(turns)], policy="spec", prices=charged(read, minimum)
            )
            assert len(window.messages[2]["content"]) <= 1_500

    def test_it_stays_where_the_bill_would_be_higher(self) -> None:
        # Whole, the window is just long enough to be cached; cut, it is not.
        said = [user("Go. " * 500), asked(1), result(1, PLAIN[:2_600])]
        for read, minimum, whole in ((0.1, 1_024, True), (0.1, 512, False), (1.0, 0, False)):
            prices = charged(read, minimum)
            window = windlass.bound(said, policy="spec", prices=prices)
            assert (window.messages == said) is whole

    @pytest.mark.req("CA-7")
    def test_the_threshold_alone_says_what_a_cut_result_keeps(self) -> None:
        for above in (2_000, 10_000):
            said = [user("Go."), asked(1), result(1, (PLAIN * 2)[: above + 500])]
            compress = {"above_chars": above, "adapt": False}
            cut = shown(said, "default", cuts=None, compress=compress)[-1]["content"]
            assert above * 0.9 < len(cut) <= above
            said[-1] = result(1, (PLAIN * 2)[:above])
            assert shown(said, "default", cuts=None, compress=compress) == said

    @pytest.mark.req("CE-51")
    def test_thresholds_rise_and_fall_with_what_is_left_of_the_models_window(self) -> None:
        def kept(model: str | None, before: int, **compress: Any) -> int:
            said = [user("word " * before), asked(1), result(1, PLAIN + PLAIN[:3_000])]
            compress = {"above_chars": 10_000, **compress}
            policy = {"commit": "at_once", "cuts": None, "compress": compress}
            window = windlass.bound(said, model, policy, prices=charged(0.1, 1_024), way_back="")
            return len(window.messages[-1]["content"])

        whole = len(PLAIN) + 3_000
        for model in (None, "openai/nobody-knows-it"):  # 128,000 tokens
            assert kept(model, 1) == whole
            assert 7_000 < kept(model, 65_000) < 10_500
            assert kept(model, 130_000) <= 5_000
        assert kept("openai/gpt-4", 8_000) <= 5_000  # 8,192 tokens
        assert kept("anthropic/claude-sonnet-4-5", 40_000) == whole  # 200,000 tokens
        assert 9_000 < kept(None, 130_000, adapt=False) <= 10_000

    @pytest.mark.req("CA-7")
    def test_over_10000_characters_the_cut_says_how_many_are_gone(self) -> None:
        lines = "\n".join(f"{number:05} is a line of output" for number in range(4_000))
        cut = shown(
            [user("Go."), asked(1), result(1, lines)],
            "default",
            cuts=None,
            compress={"above_chars": 10_000, "max_result_tokens": 2_000, "adapt": False},
        )[-1]["content"]
        head, _, rest = cut.partition("\n[Truncated ")
        gone = int(rest.partition(" chars]")[0])
        assert lines.startswith(head)
        tail = rest.rpartition("\n")[2]
        assert lines.endswith(tail)
        assert gone > len(lines) / 2
        below = lines[:9_990]
        assert (
            shown(
                [user("Go."), asked(1), result(1, below)],
                "default",
                cuts=None,
                compress={"above_chars": 10_000, "max_result_tokens": 2_000, "adapt": False},
            )[-1]["content"]
            == below
        )

    @pytest.mark.req("CE-26")
    def test_a_search_keeps_five_titles_and_snippets(self) -> None:
        hits = [
            {
                "title": f"Title {at}",
                "url": f"https://x.org/{at}",
                "snippet": f"Snippet {at}. " * 30,
            }
            for at in range(8)
        ]
        cut = told(json.dumps({"results": hits}), "web_search", query="x")
        assert cut.startswith("Found 8 results. Top 5:\n1. Title 0")
        assert all(f"Title {at}" in cut and f"Snippet {at}." in cut for at in range(5))
        assert "Title 5" not in cut
        assert 1_000 < len(cut) <= 2_000

    @pytest.mark.req("CE-27")
    def test_a_file_keeps_ten_lines_its_size_and_its_path(self) -> None:
        lines = [f"line {at} of a long file" for at in range(200)]
        cut = told("\n".join(lines), "read_file", path="src/a.py")
        assert cut.startswith("[File src/a.py: 200 lines, 4689 characters; the first 10:]\n")
        assert all(f"\n{line}\n" in cut for line in lines[:10])
        assert lines[10] not in cut
        assert len(cut) <= 1_000

    @pytest.mark.req("CE-28")
    def test_a_command_keeps_50_lines_its_end_its_code_and_its_errors(self) -> None:
        lines = [f"step {at}" for at in range(900)]
        lines[400] = "TypeError: unsupported operand in total()"
        cut = told("<returncode>2</returncode>\n" + "\n".join(lines), "bash", command="make")
        assert "exit code 2" in cut.partition("\n")[0]
        assert "\nstep 45\n" in cut
        assert "\nstep 60\n" not in cut
        assert lines[400] in cut
        assert "\nstep 885\n" in cut
        assert len(cut) <= 1_500

    @pytest.mark.req("CE-29")
    def test_an_answer_of_an_api_keeps_its_key_fields(self) -> None:
        lines = [
            {"note": f"Blah {at}. " * 9, "id": f"item_{at}", "name": f"Part {at} of the order"}
            for at in range(60)
        ]
        answer = {"note": "blah " * 900, "id": "ord_17", "status": "open", "total": 12.5}
        cut = told(json.dumps({**answer, "items": lines}), "http_get", url="https://x.org")
        for kept in ('"id":"ord_17","status":"open","total":12.5', "item_4", "Part 4 of the order"):
            assert kept in cut
        assert "lah" not in cut
        assert "55 more" in cut
        assert len(cut) <= 1_000
        names = {f"name_{at}": f"The value of number {at} of them." for at in range(200)}
        assert 700 < len(told(json.dumps(names), "http_get", url="https://x.org")) <= 1_000


class TestGrowingOld:
    @pytest.mark.req("AC-33", "AC-40", "AC-44", "AC-39")
    def test_three_turns_see_a_result_and_then_its_type_size_and_hash(self) -> None:
        text = "rows of it\n" * 40
        said = [user("Go."), asked(1), result(1, text)]
        assert [shown(said + idle(turns))[2]["content"] == text for turns in range(5)] == [
            True,
            True,
            True,
            False,
            False,
        ]
        window = windlass.bound(said + idle(3), policy={"profile": "spec", "commit": "at_once"})
        line = window.messages[2]["content"]
        (entry,) = [one for one in window.entries if one.because == "mask"]
        short = entry.reference.removeprefix("result_")
        assert window.recall(entry.reference) == text
        assert line == f"[Tool text result, {len(text)} chars, hash={short}; result_{short}]"
        data = [user("Go."), asked(1), result(1, json.dumps([{"at": n} for n in range(60)]))]
        assert "structured result" in shown(data + idle(3))[2]["content"]

    @pytest.mark.req("AC-32")
    def test_five_turns_see_the_models_long_words_whole(self) -> None:
        words = SENTENCE * 400
        said = [user("Go."), asked(1, text=words), result(1, "ok")]
        whole = [shown(said + idle(turns))[1]["content"] == words for turns in range(8)]
        assert whole == [True] * 5 + [False] * 3
        whole = [shown(said + idle(turns), window=2)[1]["content"] == words for turns in range(4)]
        assert whole == [True, True, False, False]

    @pytest.mark.req("AC-42", "AC-36")
    @pytest.mark.parametrize("profile", ["spec", "default"])
    def test_old_words_over_2000_characters_end_at_a_sentence_with_the_marker(
        self, profile: str
    ) -> None:
        def old(words: str) -> str:
            said = [user("Go."), asked(1, text=words), result(1, "ok"), *idle(8)]
            return str(shown(said, profile)[1]["content"])

        within = (SENTENCE * 80)[:1_999] + "."
        assert old(within) == within  # 2,000
        long = SENTENCE * 200  # 5,600
        kept, marker, rest = old(long).partition(CUT)
        assert marker
        assert long.startswith(kept)
        assert kept.endswith("what I think of it.")
        assert 2_000 - len(SENTENCE) <= len(kept) <= 2_000
        assert rest.startswith(f"[{len(long) - len(kept)} more characters; result_")

    @pytest.mark.req("AC-36")
    def test_words_without_calls_go_where_they_are_not_to_be_kept(self) -> None:
        words = SENTENCE * 70
        said = [user("Go."), {"role": "assistant", "content": words}, user("On."), *idle(8)]
        assert shown(said)[1]["content"] == words
        off = shown(said, preserve_reasoning=False)[1]["content"]
        assert len(off.partition(CUT)[0]) <= 200

    @pytest.mark.req("AC-37")
    @pytest.mark.parametrize("line", ["ERROR: disk is full", "ValueError: no", "3 tests failed"])
    def test_of_a_failed_result_the_lines_that_say_why_stay(self, line: str) -> None:
        text = "Error: make failed\n" + "went as it goes\n" * 40 + line + "\n" + "and on\n" * 40
        said = [user("Go."), asked(1, "bash", command="make"), result(1, text), *idle(4)]
        old = shown(said, compress=False)[2]["content"]
        assert old.startswith("[Tool ")
        assert line in old
        assert "went as it goes" not in old
        off = shown(said, compress=False, preserve_errors=False)[2]["content"]
        assert line not in off

    @pytest.mark.req("AC-41")
    def test_old_arguments_are_shortened_where_asked_and_stay_json(self) -> None:
        arguments = {"path": "a.py", "body": "é" * 6_000}
        said = [user("Go."), asked(1, "write", **arguments), result(1, "ok"), *idle(8)]
        kept = shown(said)[1]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(kept) == arguments
        cut = shown(said, shorten_arguments=True)[1]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(cut)["path"] == "a.py"
        assert len(json.loads(cut)["body"]) < 3_000
        assert "characters; result_" in json.loads(cut)["body"]

    @pytest.mark.req("AC-43")
    def test_what_users_said_stays_word_for_word(self) -> None:
        pasted = "A long request. " * 120
        said = [user(pasted), *idle(2, 1), user("And hurry, please."), *idle(30)]
        for options in ({}, {"fold_after": 3}, {"decay": True}):
            texts = [m["content"] for m in shown(said, **options) if m["role"] == "user"]
            assert texts == [pasted, "And hurry, please."]

    @pytest.mark.req("CE-37")
    def test_a_pair_becomes_one_line(self) -> None:
        found = json.dumps({"results": [{"title": t, "text": "x" * 200} for t in ("a1", "b2")]})
        said = [user("Go."), asked(1, "web_search", "I search.", query="sorting")]
        said += [result(1, found), *idle(4)]
        after = shown(said, fold_after=2, compress=False)
        assert after[1]["role"] == "assistant"
        assert "tool_calls" not in after[1]
        assert after[1]["content"].startswith('I search.\n[Turn 1] web_search("sorting") -> 2 ')
        assert "result_" in after[1]["content"]


class TestPictures:
    @pytest.mark.req("CE-38", "CE-39", "CE-54", "CA-8")
    @pytest.mark.parametrize("profile", ["spec", "default"])
    def test_two_turns_see_one_and_then_a_line_that_says_turn_and_content(
        self, profile: str
    ) -> None:
        data = base64.b64encode(png(640, 480)).decode()
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        said = [user([{"type": "text", "text": "What is it?"}, part])]
        said += [asked(1, text="The chart shows sales by month. It is blue."), result(1, "ok")]
        windows = [json.dumps(shown(said + idle(turns), profile)) for turns in range(4)]
        assert [data in window for window in windows] == [True, False, False, False]
        assert data in json.dumps(shown(said[:1], profile))
        assert "[Image at turn 1: " in windows[1]
        assert "640x480, The chart shows sales by month., " in windows[1]


class TestDecay:
    def run(self, summary: str) -> tuple[list[str], list[str], set[int | None]]:
        """How 24 turns are shown, message by message, with their texts and the limits asked."""
        context = windlass.Context(
            policy={
                "profile": "spec",
                "commit": "at_once",
                "compress": False,
                "mask_observations_after": None,
                "decay": {"full": 4, "fold": 6},
            }
        )
        context.append(user("Go."))
        limits: set[int | None] = set()
        for number in range(1, 25):
            context.append(asked(number))
            context.append(result(number, f"The order #W{number:03} is open. " * 20))
            for want in context.window().wants:
                limits.add(want.max_tokens)
                context.supply(want.key, summary)
        texts = [str(message["content"]) for message in context.window().messages[1:]]
        zones = ["S" if "[Summary of turns 1-" in text else "." for text in texts]
        zones = ["f" if "[Turn " in text else zone for zone, text in zip(zones, texts, strict=True)]
        return zones, texts, limits

    @pytest.mark.req("CE-34", "CE-35", "CE-36", "CA-17")
    def test_old_turns_fold_and_the_oldest_become_a_summary_of_500_tokens(self) -> None:
        zones, texts, limits = self.run("All orders are open; nothing else was done.")
        assert limits == {500}
        told = "".join(zones)
        assert re.fullmatch(r"Sf{6,}(\.\.){4,}", told)
        assert "All orders are open" in texts[0]
        whole = told.count(".") // 2
        assert texts[-1] == "The order #W024 is open. " * 20
        assert texts[-2 * whole + 1] == f"The order #W{25 - whole:03} is open. " * 20

    @pytest.mark.req("CE-36")
    def test_a_longer_summary_is_not_taken(self) -> None:
        zones, texts, _ = self.run("word " * 600)
        assert "S" not in zones
        assert "f" in zones
        assert "word word" not in "".join(texts)
