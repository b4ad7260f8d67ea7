"""What recordings of other programs say that their calls cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.importing.making import Session, write_lines
from windlass.importing.recording import Recording
from windlass.importing.streams import recordings


def session(model: str, **usage: Any) -> list[dict[str, Any]]:
    """A session of Claude Code with one call of 100,000 tokens in and 1,000 out."""
    made = Session(model=model)
    made.user("begin")
    counts = {"input_tokens": 100_000, "output_tokens": 1_000}
    made.answer("msg_1", {"type": "text", "text": "done"}, usage=counts | usage)
    return made.records


def bill(path: Path) -> tuple[int, int, int, float | None]:
    """Calls, tokens in, tokens out and US dollars of the recordings of a file or folder."""
    read = list(recordings(path))
    dollars = [call.dollars for one in read for call in one.calls]
    total = None if None in dollars else sum(each or 0.0 for each in dollars)
    tokens = [one.usage for one in read]
    calls = sum(len(one.calls) for one in read)
    return calls, sum(u.tokens_in for u in tokens), sum(u.tokens_out for u in tokens), total


LIST = 100_000 * 5 / 1e6 + 1_000 * 25 / 1e6
"""The list price of that call: 5 and 25 dollars a million."""


class TestTiers:
    @pytest.mark.parametrize(
        ("usage", "dollars"),
        [
            ({"service_tier": "standard", "speed": "standard", "inference_geo": "global"}, LIST),
            ({"service_tier": "batch"}, LIST / 2),
            ({"speed": "fast"}, 2 * LIST),
            ({"inference_geo": "us"}, 1.1 * LIST),
            ({"service_tier": "batch", "inference_geo": "us"}, 0.55 * LIST),
            ({"service_tier": "priority"}, None),
            ({"server_tool_use": {"web_search_requests": 4, "web_fetch_requests": 2}}, LIST + 0.04),
            ({"speed": "fast", "server_tool_use": {"web_search_requests": 1}}, 2 * LIST + 0.01),
        ],
    )  # fmt: skip
    def test_are_billed_at_their_prices(
        self, tmp_path: Path, usage: dict[str, Any], dollars: float | None
    ) -> None:
        path = write_lines(tmp_path / "a.jsonl", session("claude-opus-4-8", **usage))
        expected = None if dollars is None else pytest.approx(dollars)
        assert bill(path) == (1, 100_000, 1_000, expected)
        (stored,) = windlass.import_sessions(path, store=tmp_path / "store").sessions
        assert stored.cost == expected

    def test_a_replay_of_the_session_costs_what_the_recording_does(self, tmp_path: Path) -> None:
        usage = {"service_tier": "batch", "server_tool_use": {"web_search_requests": 3}}
        path = write_lines(tmp_path / "a.jsonl", session("claude-opus-4-8", **usage))
        store = tmp_path / "store"
        (stored,) = windlass.import_sessions(path, store=store).sessions
        for asked in (path, stored.session_id):
            replay = windlass.replay(asked, store=store, policies=["everything"])
            (row,) = replay.recordings
            assert row.recorded == pytest.approx(LIST / 2 + 0.03)
            assert row.outlays[0].dollars == pytest.approx((LIST / 2 + 0.03,) * 2)

    @pytest.mark.parametrize(("tier", "times"), [("flex", 0.5), ("default", 1.0), ("auto", 1.0)])
    def test_openais_stand_beside_the_usage(self, tmp_path: Path, tier: str, times: float) -> None:
        answer = {
            "choices": [{"message": {"role": "assistant", "content": "yo"}}],
            "usage": {"prompt_tokens": 10_000, "completion_tokens": 100},
            "service_tier": tier,
        }
        request = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
        path = write_lines(tmp_path / "a.jsonl", [{"request": request, "response": answer}])
        dollars = times * (10_000 * 1.25 + 100 * 10) / 1e6
        *counts, paid = bill(path)
        assert counts == [1, 10_000, 100]
        assert paid == pytest.approx(dollars)

    def test_what_geminis_own_tools_returned_is_input(self, tmp_path: Path) -> None:
        counts = {"promptTokenCount": 1_000, "toolUsePromptTokenCount": 500}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "yo"}]}}],
            "usageMetadata": counts | {"candidatesTokenCount": 10, "thoughtsTokenCount": 90},
        }
        request = {
            "model": "gemini-2.5-pro",
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        }
        path = write_lines(tmp_path / "a.jsonl", [{"request": request, "response": answer}])
        assert bill(path)[:3] == (1, 1_500, 100)


@pytest.mark.parametrize(
    "name",
    [
        "us.anthropic.claude-opus-4-8-20260301-v1:0",
        "global.anthropic.claude-opus-4-8-v1:0",
        "anthropic.claude-opus-4-8",
        "claude-opus-4-8@20260301",
        "claude-opus-4-8-20260301",
        "claude-opus-4.8",
        "anthropic/claude-opus-4-8",
        "claude-opus-4-8[1m]",
    ],
)
def test_names_of_other_hosts_have_the_price_of_their_model(tmp_path: Path, name: str) -> None:
    path = write_lines(tmp_path / "a.jsonl", session(name))
    assert bill(path)[3] == pytest.approx(LIST)


class Rollout:
    """Makes the records of a rollout of Codex."""

    def __init__(self, name: str, **meta: str) -> None:
        self.records: list[dict[str, Any]] = []
        self.tokens = (0, 0)
        self.add("session_meta", id=name, cwd="/srv", **meta)
        self.add("turn_context", cwd="/srv", model="gpt-5-codex")

    def add(self, kind: str, **payload: Any) -> None:
        time = f"2026-10-02T09:00:{len(self.records):02}.000Z"
        self.records.append({"timestamp": time, "type": kind, "payload": payload})

    def user(self, *content: Mapping[str, Any] | str) -> None:
        parts = [
            {"type": "input_text", "text": one} if isinstance(one, str) else one for one in content
        ]
        self.add("response_item", type="message", role="user", content=parts)

    def answer(self, text: str, tokens_in: int, tokens_out: int) -> None:
        content = [{"type": "output_text", "text": text}]
        self.add("response_item", type="message", role="assistant", content=content)
        before_in, before_out = self.tokens
        self.tokens = before_in + tokens_in, before_out + tokens_out
        last = {"input_tokens": tokens_in, "cached_input_tokens": 0, "output_tokens": tokens_out}
        total = dict(zip(("input_tokens", "output_tokens"), self.tokens, strict=True))
        info = {"last_token_usage": last, "total_token_usage": total}
        self.add("event_msg", type="token_count", info=info)


class TestCodex:
    def test_two_answers_without_words_between_are_two_calls(self, tmp_path: Path) -> None:
        rollout = Rollout("c1")
        rollout.user("look")
        rollout.answer("first", 1_000, 100)
        rollout.answer("second", 2_000, 50)
        path = write_lines(tmp_path / "rollout-c1.jsonl", rollout.records)
        assert bill(path)[:3] == (2, 3_000, 150)

    def test_a_picture_that_was_not_kept_costs_no_words(self, tmp_path: Path) -> None:
        rollout = Rollout("c1")
        rollout.user("look")
        rollout.answer("first", 1_000, 100)
        rollout.user("and this?", {"type": "input_image", "image_url": "[redacted 12 kB]"})
        rollout.answer("second", 2_000, 50)
        path = write_lines(tmp_path / "rollout-c1.jsonl", rollout.records)
        assert bill(path)[:3] == (2, 3_000, 150)
        (read,) = recordings(path)
        assert [message.text for message in read.messages] == [
            "look", "first", "and this?\n[a picture that was not recorded]", "second",
        ]  # fmt: skip

    def test_what_a_fork_copied_is_counted_once(self, tmp_path: Path) -> None:
        first = Rollout("c1")
        first.user("look")
        first.answer("first", 1_000, 100)
        before, tokens = list(first.records), first.tokens
        first.user("more")
        first.answer("second", 2_000, 50)
        folder = tmp_path / "sessions"
        write_lines(folder / "rollout-c1.jsonl", first.records)
        for name in ("c2", "c3"):  # a fork, and a fork of it
            fork = Rollout(name, forked_from_id="c1")
            fork.records[1:1] = before
            fork.tokens = tokens
            fork.user(f"in {name}")
            fork.answer(f"third of {name}", 3_000, 70)
            write_lines(folder / f"rollout-{name}.jsonl", fork.records)
            before, tokens = list(fork.records), fork.tokens
        assert bill(folder)[:3] == (4, 9_000, 290)
        assert all(_is_in_order(one) for one in recordings(folder))


def _is_in_order(recording: Recording) -> bool:
    places = [call.at for call in recording.calls]
    return places == sorted(set(places))
