"""The APIs of three vendors on loopback, strict, with their prompt caches, which bill every call.

Anthropic's is `thinking_server.py`'s. OpenAI's (chat and Responses) and Gemini's cache the longest
beginning that a request shares with an earlier one, without marks, in steps and from a minimum, as
their documents say. One token is four characters.

    with model_server(reads_logs(25)) as server:
        server.lead(monkeypatch)          # the clients' variables lead here
        loop(anthropic.Anthropic())
    server.bill                           # in tokens at the price of fresh input
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq

import pytest

from tests.providers.exchanges import event
from tests.providers.server import Answer, Asked, streamed, whole
from tests.providers.thinking_server import Body, Refuse, Say, ThinkingServer, in_thread
from tests.validators import gemini, openai, responses

READ, WRITE = 0.1, 1.25
"""A token read from a cache, and one written to Anthropic's, in fresh tokens."""
CACHED_FROM, STEP = 1_024, 128
_GEMINI = re.compile(r".*/models/([^:]+):(stream)?[gG]enerateContent")
_FOR_GEMINI = 2_048


@dataclass(frozen=True)
class Billed:
    """What one call was billed: tokens of its input, those read from a cache, those written."""

    tokens: int
    read: int
    written: int

    @property
    def units(self) -> float:
        return self.tokens - self.read - self.written + READ * self.read + WRITE * self.written


@dataclass
class ModelServer(ThinkingServer):
    """What was asked, refused and billed."""

    billed: list[Billed] = field(default_factory=list)
    _prompts: list[str] = field(default_factory=list)

    @property
    def bill(self) -> float:
        """All calls' input, in fresh tokens."""
        return sum(one.units for one in self.billed)

    def lead(self, patch: pytest.MonkeyPatch) -> None:
        """Have the official clients ask here."""
        for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
            patch.setenv(f"{name}_API_KEY", "sk-test-0123456789")
        patch.setenv("ANTHROPIC_BASE_URL", self.url)
        patch.setenv("OPENAI_BASE_URL", f"{self.url}/v1")
        patch.setenv("GOOGLE_GEMINI_BASE_URL", self.url)

    def answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            return whole({"input_tokens": len(json.dumps(asked.body)) // 4})
        if path.endswith("/messages"):
            before = len(self.usages)
            answer = super().answer(asked)
            for usage in self.usages[before:]:
                kinds = [usage[f"cache_{kind}_input_tokens"] for kind in ("read", "creation")]
                self.billed.append(Billed(usage["input_tokens"] + sum(kinds), *kinds))
            return answer
        if path.endswith("/chat/completions"):
            return self._answer(asked.body, openai.problems(asked.body), _chat, CACHED_FROM)
        if path.endswith("/responses"):
            wrong = responses.problems(asked.body["input"])
            return self._answer(asked.body, wrong, _responses, CACHED_FROM)
        if found := _GEMINI.fullmatch(path):
            body = {**asked.body, "stream": bool(found[2])}
            wrong = gemini.problems(asked.body, model=found[1])
            return self._answer(body, wrong, _gemini, _FOR_GEMINI)
        return whole({"data": [{"id": "a-model", "object": "model"}], "object": "list"})

    def _answer(
        self,
        body: Body,
        wrong: list[str],
        written: Callable[[Body, Say, Billed, int], tuple[Body, list[Body]]],
        least: int,
    ) -> Answer:
        if wrong:
            self.refused.append(wrong[0])
            return whole({"error": {"message": wrong[0], "code": 400}}, 400)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        said = said(body) if callable(said) else said
        assert not isinstance(said, Refuse)
        say = Say(said) if isinstance(said, str) else said
        billed = self._bill(body, least)
        self.billed.append(billed)
        answer, events = written(body, say, billed, len(self.billed))
        if not body.get("stream"):
            return whole(answer)
        return streamed([event(one, str(one.get("type") or "")) for one in events])

    def _bill(self, body: Body, least: int) -> Billed:
        keys = ("tools", "systemInstruction", "instructions", "messages", "input", "contents")
        prompt = "".join(json.dumps(body[key])[:-1] for key in keys if body.get(key))
        shared = max((_common(prompt, one) for one in self._prompts), default=0) // 4
        self._prompts.append(prompt)
        return Billed(len(prompt) // 4, shared // STEP * STEP if shared >= least else 0, 0)


def _common(one: str, other: str) -> int:
    """Characters that two texts begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _chat(body: Body, say: Say, billed: Billed, number: int) -> tuple[Body, list[Body]]:
    calls = [
        {
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (name, given) in enumerate(say.calls)
    ]
    message: Body = {"role": "assistant", "content": say.text or None}
    message |= {"tool_calls": calls} if calls else {}
    reason = "tool_calls" if calls else "stop"
    usage = {
        "prompt_tokens": billed.tokens,
        "completion_tokens": 9,
        "total_tokens": billed.tokens + 9,
        "prompt_tokens_details": {"cached_tokens": billed.read},
    }
    about = {"id": f"chatcmpl-{number}", "created": 1_741_569_952, "model": body["model"]}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    answer = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
    numbered = [{**call, "index": at} for at, call in enumerate(calls)]
    delta = {**message, **({"tool_calls": numbered} if calls else {})}
    chunk = {**about, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**chunk, "choices": [], "usage": usage})
    return answer, events


def _responses(body: Body, say: Say, billed: Billed, number: int) -> tuple[Body, list[Body]]:
    output: list[Body] = []
    if say.text:
        part = {"type": "output_text", "text": say.text, "annotations": []}
        about = {"type": "message", "role": "assistant", "status": "completed"}
        output.append({"id": f"msg_{number}", **about, "content": [part]})
    output += [
        {
            "id": f"fc_{number}_{at}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{number}_{at}",
            "name": name,
            "arguments": json.dumps(given),
        }
        for at, (name, given) in enumerate(say.calls)
    ]
    usage = {
        "input_tokens": billed.tokens,
        "input_tokens_details": {"cached_tokens": billed.read},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": billed.tokens + 9,
    }
    answer = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_741_569_952,
        "model": body["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "usage": usage,
    }
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "response.completed", "sequence_number": 1, "response": answer},
    ]
    return answer, events


def _gemini(body: Body, say: Say, billed: Billed, number: int) -> tuple[Body, list[Body]]:
    assert body
    parts: list[Body] = [{"text": say.text}] if say.text else []
    parts += [
        {"functionCall": {"name": name, "args": dict(given), "id": f"call_{number}_{at}"}}
        for at, (name, given) in enumerate(say.calls)
    ]
    usage = {
        "promptTokenCount": billed.tokens,
        "cachedContentTokenCount": billed.read,
        "candidatesTokenCount": 9,
        "totalTokenCount": billed.tokens + 9,
    }
    content = {"role": "model", "parts": parts}
    ended = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
    return {**ended, "usageMetadata": usage}, [{**ended, "usageMetadata": usage}]


_NOTE = re.compile(r"Cut from [\d,]+ characters: recall (result_[0-9a-f]{8})")


def reads_logs(turns: int, *, recalls: bool = False) -> Callable[[Body], Say]:
    """A model that reads so many logs, one a call, and then says that it is done.

    `recalls`: where a note first names the tool `recall` and an original, it asks for that.
    """

    def script(body: Body) -> Say:
        listed = body.get("messages") or body.get("contents") or body.get("input")
        said = listed if isinstance(listed, list) else []
        made = sum(
            one.get("role") in ("assistant", "model") and one.get("type", "message") == "message"
            for one in said
        )
        if recalls:
            told = json.dumps(said)
            if '"recall"' in told:
                made -= 1
            elif found := _NOTE.search(told):
                return Say("All of it, please.", [("recall", {"ref": found[1]})])
        if made >= turns:
            return Say("All logs are read: order 7 is late.")
        return Say(f"Next is log {made}.", [("read_log", {"number": made})])

    return script


_LINES = (30, 120, 500, 1_500)


def log(number: int) -> str:
    """A log, as the tool `read_log` gives it: 1,200 to 60,000 characters, every fourth as long."""
    lines = _LINES[number % len(_LINES)]
    told = [
        f"2026-11-{line % 28 + 1:02} log {number}: order {number * 97 + line * 13} left {line}"
        for line in range(lines)
    ]
    return "\n".join(told)


def model_server(script: Callable[[Body], Say]) -> AbstractContextManager[ModelServer]:
    """A server in a thread of its own."""
    return in_thread(ModelServer([script]))
