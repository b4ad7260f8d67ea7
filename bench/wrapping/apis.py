"""A user's requests to each API, as a set-up has them, and what is made of the answers."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import anthropic
import openai
from bench.wrapping.setups import Setup
from google import genai

Json: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, int]
"""The id of a call of `read_log`, and the log's number."""

_ABOUT: Final = {"name": "read_log", "description": "Read a log."}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}
_SEARCH: Final = {"type": "web_search_20250305", "name": "web_search"}
_RULES: Final = "Rule {0}: an order of kind {0} is late when it left after day {1}. "


@cache
def rules(tokens: int) -> str:
    """A text of so many tokens, of four characters each."""
    count = tokens * 4 // len(_RULES) + 1
    return "".join(_RULES.format(at, at % 28 + 1) for at in range(count))[: tokens * 4]


def system_parts(setup: Setup, number: int) -> list[str]:
    """The parts of the system prompt of call `number`: what stays, and what changes."""
    text = rules(setup.tokens)
    time = f"It is {number // 60:02}:{number % 60:02} o'clock."
    match setup.changes:
        case "end":
            return [text, time]
        case "start":
            return [time, text]
        case "middle":
            return [text[: len(text) // 2], time, text[len(text) // 2 :]]
        case "notes":
            notes = "".join(f"Note {at} of call {number}: see day {at}.\n" for at in range(60))
            return [text, notes, "Answer in a sentence."]
        case _:
            return [text]


def steady_part(setup: Setup) -> int:
    """The part of the system prompt behind which a mark of `system` stands."""
    return {"start": 1, "middle": 0}.get(setup.changes, 0)


class Api(ABC):
    """A user's side of one API.

    `ask` sends a request through a client and gives the answer, as the set-up sends it.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._loop = asyncio.Runner()

    def close(self, client: Any) -> None:
        """Close a client."""
        self.wait_for(client.close()) if self.setup.transport == "async" else client.close()
        self._loop.close()

    def wait_for(self, coroutine: Any) -> Any:
        """What a coroutine gives."""
        return self._loop.run(coroutine)

    @abstractmethod
    def client(self) -> Any:
        """A client, as its vendor makes it."""

    @abstractmethod
    def request(self, messages: list[Any], number: int) -> Json:
        """The arguments of call `number`."""

    @abstractmethod
    def ask(self, client: Any, request: Json) -> Any:
        """The answer of a client."""

    @abstractmethod
    def messages_of(self, answer: Any) -> list[Any]:
        """What an answer adds to the list."""

    @abstractmethod
    def calls_of(self, answer: Any) -> list[Call]:
        """The calls of an answer."""

    @abstractmethod
    def results(self, results: Mapping[Call, str]) -> list[Any]:
        """The messages of results."""

    @abstractmethod
    def clear(self, messages: list[Any]) -> None:
        """Clear the results among messages, in place."""

    def user(self, text: str) -> Any:
        """A message of the user."""
        return {"role": "user", "content": text}

    def names(self, number: int) -> list[Json]:
        """Names and descriptions of the tools of call `number`."""
        if self.setup.tools == "none":
            return []
        changing = self.setup.tools == "changing"
        more = {"name": f"see_part_{number}", "description": f"See part {number} of the plan."}
        return [dict(_ABOUT), *([more] if changing else [])]


class Claude(Api):
    """Anthropic's messages."""

    def client(self) -> Any:
        kind = anthropic.AsyncAnthropic if self.setup.transport == "async" else anthropic.Anthropic
        return kind(max_retries=0)

    def request(self, messages: list[Any], number: int) -> Json:
        setup, items = self.setup, list(messages)
        parts = system_parts(setup, number)
        request: Json = {"model": setup.model, "max_tokens": 1_000}
        tools: list[Json] = [{**one, "input_schema": _SCHEMA} for one in self.names(number)]
        tools += [_SEARCH] if setup.shape == "searches" else []
        if "tools" in setup.places:
            tools[-1] = {**tools[-1], "cache_control": self._mark("tools")}
        if tools:
            request["tools"] = tools
        if setup.form == "text":
            request["system"] = "\n".join(parts)
        elif setup.form == "blocks":
            blocks: list[Json] = [{"type": "text", "text": part} for part in parts]
            for place, at in (("system", steady_part(setup)), ("end", len(blocks) - 1)):
                if place in setup.places:
                    blocks[at]["cache_control"] = self._mark(place)
            request["system"] = blocks
        elif setup.form == "listed":
            items.insert(1, {"role": "system", "content": "\n".join(parts)})
        if "last" in setup.places:
            at = max(at for at, one in enumerate(items) if one["role"] == "user")
            content = items[at]["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            marked = {**blocks[-1], "cache_control": self._mark("last")}
            items[at] = {**items[at], "content": [*blocks[:-1], marked]}
        if "top" in setup.places:
            request["cache_control"] = self._mark("top")
        return {**request, "messages": items}

    def _mark(self, place: str) -> Json:
        ttl = self.setup.ttl
        long = ttl == "1h" or (ttl == "both" and place != "last")
        return {"type": "ephemeral", **({"ttl": "1h"} if long else {})}

    def ask(self, client: Any, request: Json) -> Any:
        match self.setup.transport:
            case "streamed":
                with client.messages.stream(**request) as stream:
                    return stream.get_final_message()
            case "raw":
                return client.messages.with_raw_response.create(**request).parse()
            case "async":
                return self.wait_for(client.messages.create(**request))
            case _:
                return client.messages.create(**request)

    def messages_of(self, answer: Any) -> list[Any]:
        return [{"role": "assistant", "content": answer.content}]

    def calls_of(self, answer: Any) -> list[Call]:
        uses = [block for block in answer.content if block.type == "tool_use"]
        return [(use.id, use.input["number"]) for use in uses]

    def results(self, results: Mapping[Call, str]) -> list[Any]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call[0], "content": text}
            for call, text in results.items()
        ]
        return [{"role": "user", "content": blocks}]

    def clear(self, messages: list[Any]) -> None:
        for message in messages:
            if message["role"] == "user" and isinstance(message["content"], list):
                for block in message["content"]:
                    block["content"] = "[cleared]"


class Gpt(Api):
    """What both APIs of OpenAI share."""

    def client(self) -> Any:
        return (openai.AsyncOpenAI if self.setup.transport == "async" else openai.OpenAI)(
            max_retries=0
        )

    @abstractmethod
    def resource(self, client: Any) -> Any:
        """What makes the requests."""

    @abstractmethod
    def collect(self, events: Any) -> Any:
        """The answer of a stream."""

    def ask(self, client: Any, request: Json) -> Any:
        asked = self.resource(client)
        match self.setup.transport:
            case "streamed":
                return self.collect(asked.create(**request, stream=True))
            case "raw":
                return asked.with_raw_response.create(**request).parse()
            case "async":
                return self.wait_for(asked.create(**request))
            case _:
                return asked.create(**request)

    def keys(self) -> Json:
        """The model, and what is said of its cache."""
        places = self.setup.places
        keys: Json = {"model": self.setup.model}
        if "key" in places:
            keys["prompt_cache_key"] = "agent-7"
        if places & {"system", "last"}:
            keys["prompt_cache_options"] = {"mode": "explicit"}
        return keys

    def system(self, number: int, kind: str) -> list[Json]:
        """The messages of the system prompt, in the list."""
        parts = system_parts(self.setup, number)
        if self.setup.form != "blocks":
            return [{"role": "system", "content": part} for part in ["\n".join(parts)]]
        blocks: list[Json] = [{"type": kind, "text": part} for part in parts]
        if "system" in self.setup.places:
            blocks[steady_part(self.setup)] |= _BREAKPOINT
        return [{"role": "system", "content": blocks}]

    def mark_last(self, items: list[Any], kind: str) -> list[Any]:
        """The list with a mark on the newest message of the user or of a tool."""
        if "last" not in self.setup.places:
            return items
        key, at = max(
            ((key, at) for at, one in enumerate(items) for key in _taking(one)),
            key=lambda one: one[1],
        )
        part = {"type": kind, "text": items[at][key], **_BREAKPOINT}
        return [*items[:at], {**items[at], key: [part]}, *items[at + 1 :]]


_BREAKPOINT: Final[Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def _taking(message: Any) -> list[str]:
    """The key of a message's text, where it can be marked."""
    if not isinstance(message, dict):
        return []
    if message.get("type") == "function_call_output":
        return ["output"]
    return ["content"] if message.get("role") in ("user", "tool") else []


class Chat(Gpt):
    """OpenAI's chat completions."""

    def resource(self, client: Any) -> Any:
        return client.chat.completions

    def request(self, messages: list[Any], number: int) -> Json:
        form, items = self.setup.form, list(messages)
        if form == "listed":
            items[1:1] = self.system(number, "text")
        elif form != "none":
            items[:0] = self.system(number, "text")
        tools = [
            {"type": "function", "function": {**one, "parameters": _SCHEMA}}
            for one in self.names(number)
        ]
        keys = {**self.keys(), **({"tools": tools} if tools else {})}
        if self.setup.transport == "streamed":
            keys["stream_options"] = {"include_usage": True}
        return {**keys, "messages": self.mark_last(items, "text")}

    def collect(self, events: Any) -> Any:
        chunks = [chunk for chunk in events if chunk.choices]
        return chunks[0]

    def messages_of(self, answer: Any) -> list[Any]:
        message = _message(answer).model_dump(exclude_none=True)
        for call in message.get("tool_calls", []):
            call.pop("index", None)
        return [message]

    def calls_of(self, answer: Any) -> list[Call]:
        calls = _message(answer).tool_calls or []
        return [(call.id, json.loads(call.function.arguments)["number"]) for call in calls]

    def results(self, results: Mapping[Call, str]) -> list[Any]:
        return [
            {"role": "tool", "tool_call_id": call[0], "content": text}
            for call, text in results.items()
        ]

    def clear(self, messages: list[Any]) -> None:
        for message in messages:
            if message["role"] == "tool":
                message["content"] = "[cleared]"


def _message(answer: Any) -> Any:
    """The message of an answer, or of the first piece of a streamed one, which is whole."""
    choice = answer.choices[0]
    return getattr(choice, "message", None) or choice.delta


class Responses(Gpt):
    """OpenAI's responses."""

    def resource(self, client: Any) -> Any:
        return client.responses

    def request(self, messages: list[Any], number: int) -> Json:
        form, items = self.setup.form, list(messages)
        keys = self.keys()
        if form == "text":
            keys["instructions"] = "\n".join(system_parts(self.setup, number))
        elif form == "listed":
            items[1:1] = self.system(number, "input_text")
        elif form == "blocks":
            items[:0] = self.system(number, "input_text")
        tools = [
            {"type": "function", **one, "parameters": _SCHEMA, "strict": False}
            for one in self.names(number)
        ]
        keys |= {"tools": tools} if tools else {}
        return {**keys, "input": self.mark_last(items, "input_text")}

    def collect(self, events: Any) -> Any:
        (last,) = [event.response for event in events if event.type == "response.completed"]
        return last

    def messages_of(self, answer: Any) -> list[Any]:
        return list(answer.output)

    def calls_of(self, answer: Any) -> list[Call]:
        calls = [item for item in answer.output if item.type == "function_call"]
        return [(call.call_id, json.loads(call.arguments)["number"]) for call in calls]

    def results(self, results: Mapping[Call, str]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": call[0], "output": text}
            for call, text in results.items()
        ]

    def clear(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, dict) and "output" in message:
                message["output"] = "[cleared]"


class Gemini(Api):
    """Gemini's contents."""

    def client(self) -> Any:
        return genai.Client()

    def close(self, client: Any) -> None:
        if self.setup.transport == "async":
            self.wait_for(client.aio.aclose())
        client.close()
        self._loop.close()

    def user(self, text: str) -> Any:
        return {"role": "user", "parts": [{"text": text}]}

    def request(self, messages: list[Any], number: int) -> Json:
        parts, config = system_parts(self.setup, number), dict[str, Any]()
        if self.setup.form == "text":
            config["system_instruction"] = "\n".join(parts)
        elif self.setup.form == "blocks":
            config["system_instruction"] = {"parts": [{"text": part} for part in parts]}
        declared = [{**one, "parameters_json_schema": _SCHEMA} for one in self.names(number)]
        if declared:
            config["tools"] = [{"function_declarations": declared}]
        return {"model": self.setup.model, "contents": list(messages), "config": config}

    def ask(self, client: Any, request: Json) -> Any:
        match self.setup.transport:
            case "streamed":
                (answer,) = client.models.generate_content_stream(**request)
                return answer
            case "async":
                return self.wait_for(client.aio.models.generate_content(**request))
            case _:
                return client.models.generate_content(**request)

    def messages_of(self, answer: Any) -> list[Any]:
        return [answer.candidates[0].content]

    def calls_of(self, answer: Any) -> list[Call]:
        return [(str(call.id), call.args["number"]) for call in answer.function_calls or []]

    def results(self, results: Mapping[Call, str]) -> list[Any]:
        parts = [
            {"function_response": {"id": id_, "name": "read_log", "response": {"output": text}}}
            for (id_, _), text in results.items()
        ]
        return [{"role": "user", "parts": parts}]

    def clear(self, messages: list[Any]) -> None:
        for message in messages:
            for part in message["parts"] if isinstance(message, dict) else ():
                if "function_response" in part:
                    part["function_response"]["response"]["output"] = "[cleared]"


APIS: Final[Mapping[str, Callable[[Setup], Api]]] = {
    "anthropic": Claude,
    "chat": Chat,
    "responses": Responses,
    "gemini": Gemini,
}
