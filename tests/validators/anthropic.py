"""What Anthropic's `/v1/messages` refuses (API reference, error texts, anthropics/skills)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_IN_RESULTS = {"text", "image", "document", "search_result", "tool_reference"}
_MOST_MARKS = 4
_LEAST_BUDGET = 1_024
_NEW = re.compile(r"^claude-[a-z]+-(?:4-(?:[6-9]|[1-9]\d)(?!\d)|[5-9])")
"""Models from 4.6 on."""
_BARE = re.compile(r"^claude-[a-z]+-(?:4-(?:[7-9]|[1-9]\d)(?!\d)|[5-9])")
"""Models from 4.7 on."""


def problems(body: Mapping[str, Any]) -> list[str]:
    """What is wrong with `body`, as sentences."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages must be a list with at least one message"]
    for at, message in enumerate(messages):
        content = message.get("content")
        # Claude Code changes settings in the middle of a conversation by rows that say nothing.
        sets = message.get("role") == "system" and "output_config" in message
        if not isinstance(content, str | list) or not (content or sets):
            return [f"messages[{at}]: content must not be empty"]
    spoken = [one for one in messages if one.get("role") != "system"]
    return [
        *_settings(body),
        *_roles(messages),
        *_end(messages[-1], str(body.get("model"))),
        *_pairs(spoken, {tool.get("name") for tool in body.get("tools") or []}),
        *_server_tools(spoken),
        *_marks(body),
        *(
            wrong
            for at, one in enumerate(messages)
            for block in _blocks(one)
            for wrong in _block(block, str(one.get("role")), f"messages[{at}]")
        ),
    ]


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _settings(body: Mapping[str, Any]) -> Iterator[str]:
    model, limit = str(body.get("model") or ""), body.get("max_tokens")
    if not model:
        yield "model: field required"
    if not isinstance(limit, int) or limit < 0:
        yield "max_tokens: field required"
        limit = 0
    if "temperature" in body and _BARE.match(model):
        yield "temperature is not taken by models from 4.7 on"
    if not 0 <= (body.get("temperature") or 0) <= 1:
        yield "temperature must lie between 0 and 1"
    system = body.get("system")
    for block in system if isinstance(system, list) else []:
        if block.get("type") != "text" or not str(block.get("text") or "").strip():
            yield "system: text content blocks must be non-empty"
    if system is not None and not system:
        yield "system must not be empty"
    tools, choice = body.get("tools") or [], body.get("tool_choice") or {}
    names = [tool.get("name") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: tool names must be unique"
    for tool in tools:
        if not _TOOL_NAME.match(str(tool.get("name") or "")):
            yield f"tools: the name {tool.get('name')!r} must match {_TOOL_NAME.pattern}"
        own = tool.get("type", "custom") == "custom"  # others have the provider's schema
        if own and (tool.get("input_schema") or {}).get("type") != "object":
            yield "tools: input_schema.type must be object"
    if choice and not tools:
        yield "tool_choice may only be specified while providing tools"
    if choice and choice.get("type") not in ("auto", "any", "tool", "none"):
        yield f"tool_choice.type {choice.get('type')!r} is unknown"
    if choice.get("type") == "tool" and choice.get("name") not in names:
        yield "tool_choice names a tool that is not defined"
    thinking = body.get("thinking") or {}
    if thinking.get("type") in ("enabled", "adaptive"):
        if choice.get("type") in ("any", "tool"):
            yield "thinking may not be enabled when tool_choice forces tool use"
        if body.get("temperature", 1) != 1:
            yield "temperature may only be set to 1 when thinking is enabled"
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens") or 0
        if budget < _LEAST_BUDGET or budget >= limit:
            yield "thinking.budget_tokens must be at least 1024 and less than max_tokens"
    form = (body.get("output_config") or {}).get("format")
    if form and not _closed(form.get("schema")):
        yield "output_config.format: every object needs additionalProperties false"


def _closed(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_closed(one) for one in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    held = [*(schema.get("properties") or {}).values(), *(schema.get("$defs") or {}).values()]
    keys = ("items", "anyOf", "allOf", "oneOf", "prefixItems")
    return all(_closed(one) for one in (*held, *(schema.get(key) for key in keys)))


def _roles(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    blocks = _blocks(messages[0])
    compacted = blocks[0].get("type") == "compaction"
    if messages[0].get("role") != "user" and not compacted:
        yield "the first message must use the user role"
    before = ""
    for at, message in enumerate(messages):
        role = str(message.get("role"))
        if role not in ("user", "assistant", "system"):
            yield f"messages[{at}]: {role!r} is no role"
        if role == before:
            yield f"messages[{at}]: roles must alternate, {role} follows {before}"
        before = role


def _end(last: Mapping[str, Any], model: str) -> Iterator[str]:
    if last.get("role") != "assistant" or paused(last):
        return
    blocks = _blocks(last)
    results = {one.get("tool_use_id") for one in blocks}
    waits = [one for one in blocks if _is_server_use(one) and one.get("id") not in results]
    goes_on = bool(waits) or str(blocks[-1].get("type")).endswith("_tool_result")
    if _NEW.match(model) and not goes_on:
        yield "this model does not support assistant message prefill: the last must be the user's"
    block = blocks[-1]
    if block.get("type") == "text" and block["text"] != block["text"].rstrip():
        yield "final assistant content cannot end with trailing whitespace"


def _pairs(messages: Sequence[Mapping[str, Any]], defined: set[Any]) -> Iterator[str]:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        uses = [one for one in _blocks(message) if one.get("type") == "tool_use"]
        ids = [str(one.get("id")) for one in uses]
        following = _blocks(messages[at + 1]) if at + 1 < len(messages) else []
        answered = [one.get("tool_use_id") for one in following if _is_result(one)]
        for use in uses:
            if use.get("name") not in defined:
                yield f"messages[{at}]: tool {use.get('name')!r} is used and not defined"
        for id_ in ids:
            if id_ in seen:
                yield f"messages[{at}]: tool_use ids must be unique ({id_})"
            seen.add(id_)
            if answered.count(id_) != 1:
                yield (
                    f"messages[{at}]: tool_use ids were found without exactly one tool_result"
                    f" block immediately after: {id_}"
                )
        before = _blocks(messages[at - 1]) if at else []
        asked = {one.get("id") for one in before if one.get("type") == "tool_use"}
        kinds = [_is_result(one) for one in _blocks(message)]
        for block in _blocks(message):
            if _is_result(block) and block.get("tool_use_id") not in asked:
                yield (
                    f"messages[{at}]: unexpected tool_use_id {block.get('tool_use_id')} in a"
                    " tool_result: it has no tool_use in the previous message"
                )
        if kinds != sorted(kinds, reverse=True):
            yield f"messages[{at}]: tool_result blocks must stand before all others"


def paused(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of the API's own tools in a message that have no result there.

    They stand in the last message alone, which the model then goes on with.
    """
    if message.get("role") != "assistant":
        return []
    blocks = _blocks(message)
    answered = {one.get("tool_use_id") for one in blocks if not _is_result(one)}
    uses = [one for one in blocks if one.get("type") == "server_tool_use"]
    return [one for one in uses if one.get("id") not in answered]


def _server_tools(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A tool that the API runs has its result in the same turn, or in a later one of its own.

    Only results of the caller's tools may come between.
    """
    waiting: dict[str, str] = {}
    for at, message in enumerate(messages):
        if message.get("role") != "assistant":
            if waiting and not all(map(_is_result, _blocks(message))):
                for id_, name in waiting.items():
                    yield (
                        f"messages[{at}]: `{name}` tool use with id `{id_}` was found without a"
                        f" corresponding `{name}_tool_result` block"
                    )
                waiting = {}
            continue
        for block in _blocks(message):
            if _is_server_use(block):
                waiting[str(block.get("id"))] = str(block.get("name"))
            elif str(block.get("type")).endswith("_tool_result"):
                if str(block.get("tool_use_id")) not in waiting:
                    yield (
                        f"messages[{at}]: unexpected `tool_use_id` found in"
                        f" `{block.get('type')}` blocks: {block.get('tool_use_id')}"
                    )
                waiting.pop(str(block.get("tool_use_id")), None)


def _is_server_use(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")).endswith("_tool_use")


def _is_result(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_result"


def _block(block: Mapping[str, Any], role: str, where: str) -> Iterator[str]:
    match block.get("type"):
        case "text":
            text = block.get("text")
            if not isinstance(text, str) or not text.strip():
                yield f"{where}: text content blocks must contain non-whitespace text"
            if role == "user" and block.get("citations"):  # since version 2026-10-21
                yield f"{where}: citations stand in assistant messages"
        case "document":
            if role != "user":  # since version 2026-10-21
                yield f"{where}: documents stand in user messages"
        case "image":
            if role != "user":
                yield f"{where}: images stand in user messages"
            yield from _source(block.get("source") or {}, where)
        case "tool_use":
            if role != "assistant":
                yield f"{where}: tool_use blocks stand in assistant messages"
            if not _ID.match(str(block.get("id") or "")):
                yield f"{where}: tool_use.id must match {_ID.pattern}"
            if not isinstance(block.get("input"), Mapping):
                yield f"{where}: tool_use.input must be an object"
        case "tool_result":
            if role != "user":
                yield f"{where}: tool_result blocks stand in user messages"
            inner = block.get("content")
            for one in inner if isinstance(inner, list) else []:
                if one.get("type") not in _IN_RESULTS:
                    yield f"{where}: a tool_result holds no {one.get('type')}"
                yield from _block(one, role, where)
        case "thinking":
            if not block.get("signature") or not isinstance(block.get("thinking"), str):
                yield f"{where}: thinking goes back with its text and its signature"
        case "redacted_thinking":
            if not block.get("data"):
                yield f"{where}: redacted_thinking goes back with its data"
        case None:
            yield f"{where}: a block has a type"
    if str(block.get("type")).endswith("thinking") and role != "assistant":
        yield f"{where}: thinking stands in assistant messages"


def _source(source: Mapping[str, Any], where: str) -> Iterator[str]:
    match source.get("type"):
        case "base64":
            if source.get("media_type") not in _IMAGES or not source.get("data"):
                yield f"{where}: a base64 image has data and a type of {', '.join(sorted(_IMAGES))}"
        case "url":
            if not str(source.get("url") or "").startswith(("http://", "https://")):
                yield f"{where}: an image's url is an http address"
        case _:
            yield f"{where}: an image's source is base64 or url"


def _marks(body: Mapping[str, Any]) -> Iterator[str]:
    """Cache breakpoints: at most four, none on thinking or empty text, hours before minutes."""
    system = body.get("system")
    blocks = [*(body.get("tools") or []), *(system if isinstance(system, list) else [])]
    for message in body["messages"]:
        for block in _blocks(message):
            inner = block.get("content")
            blocks += [*(inner if isinstance(inner, list) else []), block]
    marked = [one for one in blocks if one.get("cache_control")]
    spans = [str(one["cache_control"].get("ttl", "5m")) for one in marked]
    if whole := body.get("cache_control"):
        span = str(whole.get("ttl", "5m"))
        own = (blocks[-1].get("cache_control") or {}).get(
            "ttl", "5m" if blocks[-1] in marked else ""
        )
        if own and own != span:
            yield (
                f"Top-level cache_control has ttl='{span}' but the target block already has"
                f" cache_control with ttl='{own}'"
            )
        spans += [] if own else [span]
    if len(spans) > _MOST_MARKS:
        yield (f"A maximum of 4 blocks with cache_control may be provided. Found {len(spans)}.")
    if spans != sorted(spans):  # "1h" sorts before "5m"
        yield (
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            " Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )
    for span in sorted({*spans} - {"5m", "1h"}):
        yield f"cache_control.ttl: Input should be '5m' or '1h', not {span!r}"
    for one in marked:
        if one["cache_control"].get("type") != "ephemeral":
            yield "cache_control.type: Input should be 'ephemeral'"
        if str(one.get("type")).endswith("thinking"):
            yield "cache_control cannot be set on thinking blocks"
        if one.get("type") == "text" and not one.get("text"):
            yield "cache_control cannot be set for empty text blocks"
