"""The vendors' servers of the main tests, with what frameworks need beside.

They read streamed responses from the events before the last one, which has them whole, and leave
it to Anthropic to mark the end of a request (`cache_control` of the request itself).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from tests.providers.exchanges import event
from tests.providers.model_server import ModelServer
from tests.providers.server import Answer, Asked, streamed
from tests.providers.thinking_server import Body, Say, in_thread


class Vendors(ModelServer):
    """Answers, checks, caches and bills as three vendors do."""

    def answer(self, asked: Asked) -> Answer:
        answer = super().answer(_marked(asked))
        if not asked.path.endswith("/responses") or answer.content_type == "application/json":
            return answer
        last = json.loads(answer.pieces[-1].decode().partition("data: ")[2])
        numbered = enumerate(_events(last["response"]))
        events = [event({**told, "sequence_number": at}, told["type"]) for at, told in numbered]
        return streamed(events)


def vendors(script: Callable[[Body], Say]) -> AbstractContextManager[Vendors]:
    """A server in a thread of its own."""
    return in_thread(Vendors([script]))


def _marked(asked: Asked) -> Asked:
    """A request whose last block has the mark of the request, where it has one."""
    body = asked.body
    if not isinstance(body, dict) or not body.get("cache_control"):
        return asked
    *before, last = body["messages"]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [*blocks[:-1], {**blocks[-1], "cache_control": body["cache_control"]}]
    return replace(asked, body={**body, "messages": [*before, {**last, "content": blocks}]})


def _events(response: Body) -> Iterator[Body]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(response["output"]):
        place = {"output_index": at}
        words = item["type"] == "message"
        bare = {
            **item,
            "status": "in_progress",
            **({"content": []} if words else {"arguments": ""}),
        }
        yield {"type": "response.output_item.added", **place, "item": bare}
        yield from _words(item, place) if words else _arguments(item, place)
        yield {"type": "response.output_item.done", **place, "item": item}
    yield {"type": "response.completed", "response": response}


def _words(item: Body, place: dict[str, Any]) -> Iterator[Body]:
    for at, part in enumerate(item["content"]):
        where = {"item_id": item["id"], **place, "content_index": at}
        text = {"logprobs": [], **where}
        yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **text, "delta": part["text"]}
        yield {"type": "response.output_text.done", **text, "text": part["text"]}
        yield {"type": "response.content_part.done", **where, "part": part}


def _arguments(item: Body, place: dict[str, Any]) -> Iterator[Body]:
    where = {"item_id": item["id"], **place}
    given, kind = item["arguments"], "response.function_call_arguments"
    yield {"type": f"{kind}.delta", **where, "delta": given}
    yield {"type": f"{kind}.done", **where, "arguments": given, "name": item["name"]}
