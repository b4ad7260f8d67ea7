"""Anthropic's API on loopback, as strict as the vendor's newest models are with signed thinking.

Every reply begins with a signed thinking block, which goes on being checked in every later request
(`tests/validators/thinking.py`). What a model refuses is answered with status 400 and the
vendor's words. Prompt caching is that of `tests/window/cache.py`, one token for four characters; it
is billed by `tariffs.py`, and lives by a clock that moves when it is told to. Old tool uses are
cleared where a request asks for it.

    with thinking_server(Say("Look.", [("look", {})]), "Done.") as server:
        server.settle(tmp_path, monkeypatch)
        windlass.run_sync(cascade, model="anthropic/claude-opus-5-5", trust=True)
    assert server.refused == []
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

from tests.providers.exchanges import anthropic_error, anthropic_event
from tests.providers.server import Answer, Asked, Server, streamed, whole
from tests.providers.tariffs import Counts, bill, tariff
from tests.validators import anthropic
from tests.validators.thinking import CONTROLS, Read, Thinking
from tests.window.cache import Cache, blocks_of, in_blocks

Body: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""A tool's name and its input."""


@dataclass(frozen=True)
class Say:
    """One reply: thinking, then text, then calls. `thinking` is its shown text.

    `text` that is empty makes no block; `stop` is what ended it, as the API has it. `compaction` is
    a block that the API made before it, of 900 tokens to 100. `searches` are calls of the API's own
    tools, behind which it pauses.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: Sequence[str] = ("",)
    redacted: bool = False
    stop: str = ""
    compaction: Mapping[str, Any] | None = None
    searches: Sequence[Call] = ()


@dataclass(frozen=True)
class Refuse:
    """A refusal in place of a reply."""

    message: str
    status: int = 400


Script: TypeAlias = Callable[[Body], Say | Refuse | str]
"""Says what a request is answered with."""


@dataclass(frozen=True)
class ModelRules:
    """What a model takes: `bound`: thinking is checked; the rest as the vendor's pages say."""

    bound: bool = True
    forces: bool = False
    disables: bool = False
    schemas: bool = True


_BOUND = re.compile(r"claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet|haiku)-(?:5-[5-9]|[6-9]))")
_NO_FORCE = re.compile(r"claude-(?:(?:fable|mythos)-5-[1-9]|(?:opus|sonnet)-(?:5-[5-9]|[6-9]))")
_ALWAYS = re.compile(r"claude-(?:fable|mythos|(?:opus|sonnet)-(?:5-[5-9]|[6-9]))")
_ALIASES = {"team-sonnet": "claude-sonnet-5"}
"""What a gateway calls some models."""
_NEWEST = "2026-10-21"
"""The version of the API whose rules are those of `_newest`."""


def rules_of(model: str) -> ModelRules:
    """What a model takes, by its name."""
    return ModelRules(
        bound=bool(_BOUND.match(model)),
        forces=not _NO_FORCE.match(model),
        disables=not _ALWAYS.match(model),
    )


@dataclass
class Clock:
    """The time by which caches live, in seconds. It stands in for the module `time`, too."""

    now: float = 0.0

    def wait(self, seconds: float) -> None:
        """Let so many seconds go by."""
        self.now += seconds

    def monotonic(self) -> float:
        """The time."""
        return self.now

    time = perf_counter = monotonic


@dataclass(frozen=True)
class Billed:
    """What one call was billed: its model, and the tokens of its input."""

    model: str
    counts: Counts

    @property
    def tokens(self) -> int:
        return self.counts.tokens

    @property
    def read(self) -> int:
        return self.counts.read

    @property
    def dollars(self) -> float:
        return bill(self.model, self.counts)


@dataclass
class ThinkingServer(Server):
    """What was asked, refused and billed, beside what `Server` keeps."""

    script: list[Any]
    rules: Callable[[str], ModelRules] = rules_of
    checker: Thinking = field(default_factory=Thinking)
    clock: Clock = field(default_factory=Clock)
    caches: dict[str, Cache] = field(default_factory=dict)
    """By model."""
    billed: list[Billed] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """The messages of the refusals, in order."""
    answered: list[tuple[Body, list[Body]]] = field(default_factory=list)
    """Each request that was answered, with the blocks of its answer."""
    usages: list[Body] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def bodies(self) -> list[Body]:
        """The bodies of all requests for an answer, refused ones too."""
        return [asked.body for asked in self.asked if asked.path.endswith("/messages")]

    @property
    def bill(self) -> float:
        """US dollars of all calls' input."""
        return sum(one.dollars for one in self.billed)

    def forget(self) -> None:
        """Have the caches lose what they hold."""
        self.caches.clear()

    def settle(self, folder: Path, patch: pytest.MonkeyPatch, more: str = "") -> None:
        """Make `folder` the current one, with settings and a key that lead here.

        `more` stands with the provider's in `windlass.toml`, which only a run that trusts the
        folder reads.
        """
        text = f'[providers.anthropic]\nbase_url = "{self.url}"\n{more}\n'
        (folder / "windlass.toml").write_text(text)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        patch.chdir(folder)

    def answer(self, asked: Asked) -> Answer:
        named = asked.body["model"]
        body = {**asked.body, "model": _ALIASES.get(named, named)}
        beta = asked.headers.get("anthropic-beta", "")
        rules = self.rules(body["model"])
        read = self.checker.read(body, beta) if rules.bound else Read()
        wrong = (
            _refused(body, rules)
            or _unnamed(body, beta)
            or read.error
            or next(_newest(body, asked.headers.get("anthropic-version", "")), None)
            or next(iter(anthropic.problems(_merged(body))), None)
        )
        if wrong is not None:
            self.refused.append(wrong)
            return whole(anthropic_error("invalid_request_error", wrong), 400)
        if asked.path.endswith("/count_tokens"):
            return whole({"input_tokens": _tokens(blocks_of(in_blocks(body))[0])})
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        said = said(body) if callable(said) else said
        if isinstance(said, Refuse):
            self.refused.append(said.message)
            return whole(anthropic_error("invalid_request_error", said.message), said.status)
        content, stop = self._reply(body, Say(said) if isinstance(said, str) else said)
        if rules.bound:
            self.checker.note(body, content, beta)
        self.answered.append((body, content))
        # What is cleared is no change to the thinking behind it.
        cleared, applied = cleared_of(body)
        usage = self._usage(cleared, content)
        if content[0]["type"] == "compaction":
            made = {"type": "compaction", "input_tokens": 900, "output_tokens": 100}
            usage["iterations"] = [made, {"type": "message", **usage}]
        self.usages.append(usage)
        message = {
            "id": f"msg_{next(self._numbers)}",
            "type": "message",
            "role": "assistant",
            "model": named,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        if "context_management" in body:
            message["context_management"] = {"applied_edits": applied}
        if CONTROLS in beta:
            message["input_transformations"] = read.transformations
        return streamed(list(_events(message))) if body.get("stream") else whole(message)

    def _reply(self, body: Body, say: Say) -> tuple[list[Body], str]:
        """The blocks of a reply, and what ended it."""
        content: list[Body] = [dict(say.compaction)] if say.compaction else []
        content += [_results(use) for use in anthropic.paused(body["messages"][-1])]
        for text in say.thinking if (body.get("thinking") or {}).get("type") != "disabled" else ():
            signed = f"sig_{next(self._numbers)}"
            if say.redacted:
                content.append({"type": "redacted_thinking", "data": signed})
            else:
                content.append({"type": "thinking", "thinking": text, "signature": signed})
        if say.text:
            content.append({"type": "text", "text": say.text})
        for name, given in say.calls:
            id_ = f"toolu_{next(self._numbers)}"
            content.append({"type": "tool_use", "id": id_, "name": name, "input": dict(given)})
        for name, given in say.searches:
            about = {"id": f"srvtoolu_{next(self._numbers)}", "name": name, "input": dict(given)}
            content.append({"type": "server_tool_use", **about})
        ended = "pause_turn" if say.searches else "tool_use" if say.calls else "end_turn"
        return content, say.stop or ended

    def _usage(self, body: Body, content: list[Body]) -> Body:
        model = body["model"]
        cache = self.caches.setdefault(model, Cache(tariff(model).minimum))
        sent = cache.send(in_blocks(body), self.clock.now)
        written, long = sent.tokens_written, sent.tokens_written_long
        counts = Counts(sent.tokens, sent.tokens_read, written, long)
        self.billed.append(Billed(model, counts))
        return {
            "input_tokens": sent.tokens - sent.tokens_read - written - long,
            "cache_creation_input_tokens": written + long,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written,
                "ephemeral_1h_input_tokens": long,
            },
            "cache_read_input_tokens": sent.tokens_read,
            "output_tokens": _tokens([json.dumps(block) for block in content]),
            "service_tier": "standard",
        }


def _refused(body: Body, rules: ModelRules) -> str | None:
    """What the model refuses beside thinking that is out of place."""
    kind = (body.get("tool_choice") or {}).get("type")
    if kind in ("any", "tool") and not rules.forces:
        return f'tool_choice: type "{kind}" is not supported by this model. Use "auto" or "none".'
    if (body.get("thinking") or {}).get("type") == "disabled" and not rules.disables:
        return 'thinking.type: "disabled" is not supported by this model.'
    if (body.get("output_config") or {}).get("format") and not rules.schemas:
        return "output_config.format: structured outputs are not supported by this model."
    return None


def _newest(body: Body, version: str) -> Iterator[str]:
    """What the API refuses since its newest version, of a request that asks for that one."""
    if version < _NEWEST:
        return
    for key in ("temperature", "top_p", "top_k"):
        if key in body:
            yield f"{key}: Extra inputs are not permitted"
    for at, turn in enumerate(in_blocks(body)["messages"]):
        for block in turn["content"]:
            if turn["role"] == "assistant" and block["type"] == "document":
                yield f"messages.{at}: document blocks are not permitted in assistant messages"
            if turn["role"] == "user" and block["type"] == "text" and block.get("citations"):
                yield f"messages.{at}: citations are not permitted in user messages"


def _merged(body: Body) -> Body:
    """The body with messages of one role in a row as one, as the API takes them."""
    turns: list[Body] = []
    for turn in in_blocks(body)["messages"]:
        if turns and turns[-1]["role"] == turn["role"] != "system":
            turns[-1] = {**turn, "content": [*turns[-1]["content"], *turn["content"]]}
        else:
            turns.append(turn)
    return {**body, "messages": turns}


def _results(use: Mapping[str, Any]) -> Body:
    """What a search found on which the API had paused."""
    about = {"type": "web_search_result", "url": "https://example.com/", "title": "An example"}
    found = [{**about, "encrypted_content": "abcd" * 20, "page_age": None}]
    return {"type": f"{use['name']}_tool_result", "tool_use_id": use["id"], "content": found}


MANAGEMENT = "context-management-2025-06-27"
"""The value of `anthropic-beta` that makes `context_management` a field of the API."""


_BETAS = {
    "clear_tool_uses_20250919": MANAGEMENT,
    "compact_20260112": "compact-2026-01-12",
    "signed": "compact-2026-09-04",
}


def _unnamed(body: Body, beta: str) -> str | None:
    needs = {edit["type"] for edit in (body.get("context_management") or {}).get("edits", [])}
    blocks = [one for turn in body["messages"] for one in turn["content"]]
    needs |= {
        "signed" if one.get("signature") else "compact_20260112"
        for one in blocks
        if isinstance(one, dict) and one["type"] == "compaction"
    }
    lacks = [need for need in needs if _BETAS[need] not in beta]
    return f"{lacks[0]}: Extra inputs are not permitted" if lacks else None


def cleared_of(body: Body) -> tuple[Body, list[Body]]:
    """The body with old results cleared as it asks for, and what is told of it."""
    for edit in (body.get("context_management") or {}).get("edits", []):
        if edit["type"] != "clear_tool_uses_20250919":
            continue
        excluded = edit.get("exclude_tools", [])
        blocks = [one for turn in body["messages"] for one in turn["content"]]
        spared = {one["id"] for one in blocks if one.get("name") in excluded}
        results = [one for one in blocks if one["type"] == "tool_result"]
        old = [one for one in results if one["tool_use_id"] not in spared]
        old = old[: max(0, len(old) - edit["keep"]["value"])]
        size = _tokens(blocks_of(in_blocks(body))[0])
        gone = _tokens([json.dumps(one.get("content")) for one in old])
        least = edit.get("clear_at_least", {"value": 1})["value"]
        if size <= edit["trigger"]["value"] or gone < least:
            continue
        ids = {one["tool_use_id"] for one in old}
        kept = [
            {
                **turn,
                "content": [
                    {**one, "content": "[cleared]"} if one.get("tool_use_id") in ids else one
                    for one in turn["content"]
                ],
            }
            for turn in body["messages"]
        ]
        told = {"cleared_tool_uses": len(old), "cleared_input_tokens": gone}
        return {**body, "messages": kept}, [{"type": edit["type"], **told}]
    return body, []


def _tokens(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) // 4


def _events(message: Body) -> Iterator[bytes]:
    """The answer as server-sent events, each text in two pieces."""
    late = {key: message[key] for key in message if key == "context_management"}
    begun = {key: message[key] for key in message if key not in late}
    begun |= {"content": [], "stop_reason": None}
    yield anthropic_event("message_start", message=begun)
    for at, block in enumerate(message["content"]):
        bare, deltas = _deltas(block)
        yield anthropic_event("content_block_start", index=at, content_block=bare)
        for delta in deltas:
            yield anthropic_event("content_block_delta", index=at, delta=delta)
        yield anthropic_event("content_block_stop", index=at)
    yield anthropic_event(
        "message_delta",
        delta={"stop_reason": message["stop_reason"], "stop_sequence": None},
        usage={
            key: message["usage"][key]
            for key in ("output_tokens", "iterations")
            if key in message["usage"]
        },
        **late,
    )
    yield anthropic_event("message_stop")


def _deltas(block: Body) -> tuple[Body, list[Body]]:
    """A block as it begins, and what is added to it."""

    def halves(text: str) -> list[str]:
        return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]

    match block["type"]:
        case "thinking":
            shown = [
                {"type": "thinking_delta", "thinking": half} for half in halves(block["thinking"])
            ]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*shown, signed]
        case "text":
            said = [{"type": "text_delta", "text": half} for half in halves(block["text"])]
            return {"type": "text", "text": ""}, said
        case "tool_use":
            given = halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in given]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def thinking_server(
    *script: Say | Refuse | str | Script, rules: Callable[[str], ModelRules] | ModelRules = rules_of
) -> AbstractContextManager[ThinkingServer]:
    """A server in a thread of its own.

    Each request is answered with the next of `script`, then with the last one for ever; a
    function among them is handed the body. `rules` says what which model takes.
    """
    by_name = (lambda _: rules) if isinstance(rules, ModelRules) else rules
    return in_thread(ThinkingServer(list(script), rules=by_name))


Serves = TypeVar("Serves", bound=Server)


@contextmanager
def in_thread(server: Serves) -> Iterator[Serves]:
    """The server in a thread of its own, so that code with and without a loop can ask it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> asyncio.Server:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        return listening

    async def end(listening: asyncio.Server) -> None:
        listening.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        listening = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(end(listening), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
