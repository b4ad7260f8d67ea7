"""The APIs of three vendors on loopback, strict, with their prompt caches, which bill every call.

Anthropic's is `thinking_server.py`'s; the caches of OpenAI (chat and Responses) and Gemini are
those of `prefix_caches.py`. One token is four characters, prices are those of `tariffs.py`.

    with model_server(reads_logs(25)) as server:
        server.lead(monkeypatch)          # the clients' variables lead here
        loop(anthropic.Anthropic())
        server.clock.wait(301)            # entries of five minutes are gone
    server.bill                           # in US dollars, of the input alone
    server.billed                         # the tokens of each call, those read and those written
    server.refused                        # what was refused, in the vendor's words
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pytest

from tests.providers.exchanges import event
from tests.providers.prefix_caches import MarkedCache, PrefixCache
from tests.providers.server import Answer, Asked, streamed, whole
from tests.providers.tariffs import Counts, tariff
from tests.providers.thinking_server import (
    Billed,
    Body,
    Clock,
    Refuse,
    Say,
    ThinkingServer,
    in_thread,
)
from tests.validators import gemini, openai, responses

_GEMINI = re.compile(r".*/models/([^:]+):(stream)?[gG]enerateContent")


def lead_clients(patch: pytest.MonkeyPatch, url: str) -> None:
    """Have the official clients ask at an address."""
    for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
        patch.setenv(f"{name}_API_KEY", "sk-test-0123456789")
    patch.setenv("ANTHROPIC_BASE_URL", url)
    patch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    patch.setenv("GOOGLE_GEMINI_BASE_URL", url)


@dataclass
class ModelServer(ThinkingServer):
    """What was asked, refused and billed."""

    prefixes: dict[str, PrefixCache | MarkedCache] = field(default_factory=dict)
    """By model."""

    def forget(self) -> None:
        super().forget()
        self.prefixes.clear()

    def lead(self, patch: pytest.MonkeyPatch) -> None:
        """Have the official clients ask here, and Windlass read the clock of the caches."""
        reads = [
            module
            for name, module in sys.modules.items()
            if name.startswith("windlass.context")
            and isinstance(getattr(module, "time", None), type(time) | Clock)
        ]
        assert reads or "windlass.context.wrap" not in sys.modules, "a wrapped client has no clock"
        for module in reads:
            patch.setattr(module, "time", self.clock)
        lead_clients(patch, self.url)

    def answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            return whole({"input_tokens": len(json.dumps(asked.body)) // 4})
        if path.endswith("/messages"):
            return super().answer(asked)
        if path.endswith("/chat/completions"):
            wrong = [*_unknown(asked.body), *openai.problems(asked.body)]
            return self._answer(asked.body, wrong, _chat)
        if path.endswith("/responses"):
            given = asked.body["input"]
            wrong = list(_unknown(asked.body))
            wrong += [] if isinstance(given, str) else responses.problems(given)
            return self._answer(asked.body, wrong, _responses)
        if found := _GEMINI.fullmatch(path):
            body = {**asked.body, "stream": bool(found[2])}
            wrong = gemini.problems(asked.body, model=found[1])
            return self._answer({**body, "model": found[1]}, wrong, _gemini)
        return whole({"data": [{"id": "a-model", "object": "model"}], "object": "list"})

    def _answer(
        self,
        body: Body,
        wrong: list[str],
        written: Callable[[Body, Say, Counts, int], tuple[Body, list[Body]]],
    ) -> Answer:
        if wrong:
            self.refused.append(wrong[0])
            return whole({"error": {"message": wrong[0], "code": 400}}, 400)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        said = said(body) if callable(said) else said
        assert not isinstance(said, Refuse)
        say = Say(said) if isinstance(said, str) else said
        counts = self._counts(body)
        self.billed.append(Billed(body["model"], counts))
        answer, events = written(body, say, counts, len(self.billed))
        if not body.get("stream"):
            return whole(answer)
        return streamed([event(one, str(one.get("type") or "")) for one in events])

    def _counts(self, body: Body) -> Counts:
        model, asks = body["model"], tariff(body["model"])
        kept = MarkedCache(asks) if asks.write > 1 else PrefixCache(asks)
        return self.prefixes.setdefault(model, kept).send(body, self.clock.now)


def _unknown(body: Body) -> Iterator[str]:
    """Marks that a model of OpenAI does not know; a gateway may know them of others."""
    if not body["model"].startswith("gpt"):
        return
    told = json.dumps(body.get("messages") or body.get("input"))
    if '"cache_control":' in told:
        yield "Unknown parameter: 'cache_control'."
    if tariff(body["model"]).write == 1:
        if "prompt_cache_options" in body:
            yield "Unknown parameter: 'prompt_cache_options'."
        if '"prompt_cache_breakpoint":' in told:
            yield "Unknown parameter: 'prompt_cache_breakpoint'."


def _chat(body: Body, say: Say, counts: Counts, number: int) -> tuple[Body, list[Body]]:
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
        "prompt_tokens": counts.tokens,
        "completion_tokens": 9,
        "total_tokens": counts.tokens + 9,
        "prompt_tokens_details": _details(counts),
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


def _details(counts: Counts) -> Body:
    written = {"cache_write_tokens": counts.written} if counts.written else {}
    return {"cached_tokens": counts.read, **written}


def _responses(body: Body, say: Say, counts: Counts, number: int) -> tuple[Body, list[Body]]:
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
        "input_tokens": counts.tokens,
        "input_tokens_details": _details(counts),
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts.tokens + 9,
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


def _gemini(body: Body, say: Say, counts: Counts, number: int) -> tuple[Body, list[Body]]:
    assert body
    parts: list[Body] = [{"text": say.text}] if say.text else []
    parts += [
        {"functionCall": {"name": name, "args": dict(given), "id": f"call_{number}_{at}"}}
        for at, (name, given) in enumerate(say.calls)
    ]
    usage = {
        "promptTokenCount": counts.tokens,
        "cachedContentTokenCount": counts.read,
        "candidatesTokenCount": 9,
        "totalTokenCount": counts.tokens + 9,
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
