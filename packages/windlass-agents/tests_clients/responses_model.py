"""The model that plays plans behind OpenAI's `/responses`, as Codex asks it.

It refuses what the provider refuses: calls without outputs and the reverse, reasoning without what
followed it, and items that it never said. Its usage is that of a cache of prefixes, which is read
and written by itself: what a request shares with an earlier one, in steps of 128 tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tests.validators.responses import broken_pairs, problems

from tests_clients.model_server import Exchange, ModelServer, Usage, tokens
from windlass.text.tokens import FamilyCounter

MODEL = "gpt-5.5"
"""A model that calls tools itself."""
SCRIPTING_MODEL = "gpt-6.2-sol"
"""A model that calls tools from scripts, as the newer ones do."""
_COUNTER = FamilyCounter(f"openai/{MODEL}")
_PLAN = re.compile(r"\bplan:(\w+)")
_STEP, _LEAST = 128, 1_024
_NOT_READ = ("id", "status", "internal_chat_message_metadata_passthrough")
"""Of an item: what the model does not read."""


@dataclass(frozen=True)
class ResponsesExchange(Exchange):
    """A request to `/responses`, and what it was answered with."""

    number: int = 0
    """Which answer of the server it is: the ids of its items hold it."""

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items of the answer."""
        return [_item(block, f"{self.number:04}{at}") for at, block in enumerate(self.answer)]

    @property
    def thread(self) -> tuple[str, str]:
        session, thread = (self.headers.get(name, "") for name in ("session-id", "thread-id"))
        return session, "" if thread == session else thread

    @property
    def plans(self) -> list[str]:
        users = [one for one in self.said if one.get("role") == "user"]
        return [name for one in users for name in _PLAN.findall(_text(one["content"]))]

    @property
    def calls_tools(self) -> bool:
        return bool(self.body.get("tools") or self.said[0].get("type") == "additional_tools")

    @property
    def said(self) -> list[Any]:
        return list(self.body["input"])

    @property
    def signatures(self) -> list[str]:
        return [one["encrypted_content"] for one in self.said if one["type"] == "reasoning"]

    @property
    def results(self) -> dict[str, str]:
        return {
            one["call_id"]: _text(one["output"])
            for one in self.said
            if one["type"].endswith("_call_output")
        }


def _text(content: Any) -> str:
    return (
        content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content)
    )


@dataclass
class ResponsesServer(ModelServer):
    """What one account sees of the provider."""

    path: ClassVar[str] = "/v1/responses"
    _said: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The items that were answered, by their ids, in order."""
    _prefixes: dict[str, int] = field(default_factory=dict)
    """The tokens of each prefix that came, by its digest."""

    def events(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The answer, event by event."""
        whole = self.whole(exchange)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for at, item in enumerate(whole["output"]):
            for kind in ("added", "done"):
                event = {"type": f"response.output_item.{kind}", "output_index": at, "item": item}
                events.append(event)
        events.append({"type": "response.completed", "response": whole})
        yield from ({**event, "sequence_number": at} for at, event in enumerate(events))

    def whole(self, exchange: Exchange) -> dict[str, Any]:
        """The answer in one piece."""
        assert isinstance(exchange, ResponsesExchange)
        usage = exchange.usage
        read, output = usage.cache_read_input_tokens, usage.output_tokens
        return {
            "id": f"resp_{exchange.number:04}",
            "object": "response",
            "status": "completed",
            "model": exchange.body["model"],
            "output": exchange.items,
            "usage": {
                "input_tokens": read + usage.input_tokens,
                "input_tokens_details": {"cached_tokens": read},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + usage.input_tokens + output,
            },
        }

    def _take(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Exchange:
        items = body["input"]
        wrong = [*problems(items), *broken_pairs(items, list(self._said.values()))]
        wrong += self._dead(items)
        if body.get("store") is not False or not body.get("stream"):
            wrong.append("an agent streams, and stores nothing there")
        number = len(self.exchanges)
        exchange = ResponsesExchange(headers, body, "; ".join(wrong), number=number)
        if wrong:
            return exchange
        answer = self.next_answer(exchange)
        exchange = replace(exchange, answer=answer, usage=self._count(body, answer))
        self._said |= {item["id"]: item for item in exchange.items}
        return exchange

    def _dead(self, items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Items of the model's own that it did not say so."""
        for at, item in enumerate(items):
            is_own = item["type"].endswith("_call") or item["type"] == "reasoning"
            if not is_own and item.get("role") != "assistant":
                continue
            said = self._said.get(str(item.get("id")), {})
            keys = [key for key in item if key not in _NOT_READ]
            if not said or any(item[key] != said.get(key, item[key]) for key in keys):
                yield f"input[{at}]: no item {item.get('id')} that says this"

    def _count(self, body: Mapping[str, Any], answer: Sequence[Mapping[str, Any]]) -> Usage:
        digest, sent, shared = hashlib.sha256(str(body["model"]).encode()), 0, 0
        for part in (*(body.get("tools") or ()), *body["input"]):
            read = {key: each for key, each in part.items() if key not in _NOT_READ}
            digest.update(json.dumps(read, sort_keys=True).encode())
            sent += tokens(read, _COUNTER)
            if digest.hexdigest() in self._prefixes:
                shared = sent
            self._prefixes[digest.hexdigest()] = sent
        cached = shared // _STEP * _STEP if shared >= _LEAST else 0
        said = sum(tokens(block, _COUNTER) for block in answer)
        return Usage(cached, 0, sent - cached, said)


def _item(block: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """An item of the answer, from a block of the plan's."""
    kind: dict[str, Any]
    match block:
        case {"type": "thinking", "thinking": words, "signature": signature}:
            summary = [{"type": "summary_text", "text": words}]
            kind = {"type": "reasoning", "summary": summary, "encrypted_content": signature}
        case {"type": "text", "text": words}:
            content = [{"type": "output_text", "text": words, "annotations": []}]
            kind = {"type": "message", "role": "assistant", "content": content}
        case {"id": ident, "name": name, "input": {"input": str(given)}}:
            kind = {"type": "custom_tool_call", "call_id": ident, "name": name, "input": given}
        case _:
            *space, name = block["name"].split("/")
            given = json.dumps(block["input"])
            kind = {"type": "function_call", "call_id": block["id"], "name": name}
            kind |= {"arguments": given, **({"namespace": space[0]} if space else {})}
    status = {} if kind["type"] == "reasoning" else {"status": "completed"}
    return {"id": f"{_PREFIXES[str(kind['type'])]}_{suffix}", **kind, **status}


_PREFIXES = {
    "reasoning": "rs",
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
