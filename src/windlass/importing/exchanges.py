"""Requests and answers as they went over the wire, put together to conversations.

A request continues the one with whose list its own begins. Before lists are compared, cache marks
are dropped and a list of one text becomes a plain text: clients move the marks and write a text
both ways, so that otherwise each request would look rewritten.

Logs of requests and answers, one JSON object a line: OpenAI's, Anthropic's and Gemini's.

Lists of messages without their answers: bodies of requests, one JSON text or one a line.

`windlass export --as openai|anthropic` writes such a file. Each message of the assistant was a
call whose usage is not known: a transcript.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final, cast

from windlass.importing.base import (
    MALFORMED,
    Answers,
    Records,
    dollars_of,
    model_of,
    object_of,
    read_list,
    read_tools,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import GRADES, Grade, Kind, RecordedCall, Recording
from windlass.importing.tree import ConversationTree
from windlass.messages import Message, ToolSpec, canonical_json
from windlass.safety.foreign import parse_recorded
from windlass.wire.base import Format, Refused, Request, Usage
from windlass.wire.forms import MODULES, FormName, form_of_list
from windlass.wire.usage import tier_of

PROVIDERS: Final[Mapping[FormName, str]] = {
    "openai": "openai",
    "responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
_FOLLOWING: Final = 500
"""Calls of one conversation whose lists nobody knows; for the next ones another begins. Each call's
list is compared with others, and one without contents says the less the longer it is."""
EVIDENCE: Final = "evidence"
"""The key under which a line of a log names its grade, if that is not A (`windlass export`)."""
_BILLING: Final = "x-anthropic-billing-header"
"""How the block of a system prompt begins that the client adds, and that changes."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and what came back."""

    request: Mapping[str, Any]
    response: Any = None
    key: str = ""
    """The client's name of the conversation (empty: none)."""
    time: float | None = None
    cost: float | None = None
    id: str = ""
    grade: Grade = "A"
    """How good the evidence is that exactly this was sent."""
    follows: bool = False
    """Whether its list is that of the request before it of its key that follows, too, and behind it
    its own two messages: the answer of then, and what was asked (which alone begins one)."""


@dataclass(slots=True, eq=False)
class _Chain:
    """A conversation, request by request; a lane of the tree."""

    key: str
    lane: str
    form: FormName
    first: _Chain | None = None
    reply: Message | None = None
    calls: int = 0
    tools: tuple[ToolSpec, ...] = ()
    grade: Grade = "A"


class Exchanges:
    """Puts exchanges together to conversations, in their order."""

    def __init__(self, file: RecordedFile, answers: Answers, recorded: str) -> None:
        self._tree = ConversationTree(file, recorded, "openai")
        self._file = file
        self._answers = answers
        self._chains: dict[str, _Chain] = {}
        self._ends: dict[tuple[str, str], _Chain] = {}
        """The chains by their key and the digest of their list."""
        self._following: dict[str, _Chain] = {}
        self._first: dict[str, _Chain] = {}

    def add(self, exchange: Exchange) -> None:
        """Take in the next exchange; one that is malformed is counted."""
        try:
            self._add(exchange)
        except MALFORMED:
            self._file.skipped["requests and answers that are malformed"] += 1

    def _add(self, exchange: Exchange) -> None:
        request, skipped = exchange.request, self._file.skipped
        form = form_of_request(request, exchange.response)
        if form is None:
            skipped["requests of no known form"] += 1
            return
        items = items_of(request, form)
        reply, usage, ident, model = _answer(exchange.response, form, skipped)
        ident = exchange.id or ident
        answer = self._answers.claim(ident) if ident else None
        if ident and answer is None:
            skipped["answers that stand there twice"] += 1
            return
        if answer is not None and answer.usage is not None:
            usage = answer.usage
        if reply is None and usage is None:
            skipped["requests without an answer"] += 1
            return
        if not items:  # as where a log begins with an answer: that was paid for all the same
            skipped["requests whose messages were not recorded"] += 1
        if exchange.follows:
            chain, same = self._following.get(exchange.key), 0
            if chain is None or chain.calls >= _FOLLOWING:
                chain, same = self._new_chain(exchange.key, form), 1
                self._following[exchange.key] = chain
        else:
            digests = _digests(items)
            chain, same = self._chain(exchange.key, form, digests)
            self._ends[exchange.key, digests[-1] if digests else ""] = chain
        for item in items[same:]:
            self._tree.say(item, None, chain.lane, chain.form)
        chain.grade = max(chain.grade, exchange.grade, "C" if not items else "A")
        chain.tools = read_tools(request.get("tools"))
        chain.reply = reply
        chain.calls += 1
        model = model_of(request.get("model") or model, PROVIDERS[form])
        call = RecordedCall(0, model, usage, exchange.cost, exchange.time, ident)
        self._tree.add((), self._tree.tails.get(chain.lane), chain.lane, call)

    def _chain(self, key: str, form: FormName, digests: Sequence[str]) -> tuple[_Chain, int]:
        """The conversation that a list continues, and how many of its items are there already."""
        for at in range(len(digests) - 1, 0, -1):
            if chain := self._ends.pop((key, digests[at - 1]), None):
                return chain, at
        if key and (chain := self._ends.pop((key, ""), None)):
            return chain, 0
        return self._new_chain(key, form), 0

    def _new_chain(self, key: str, form: FormName) -> _Chain:
        chain = _Chain(key, str(len(self._chains) + 1), form, self._first.get(key))
        if key and chain.first is None:
            self._first[key] = chain
        self._chains[chain.lane] = chain
        return chain

    def recordings(self, grade: Grade = "A") -> Iterator[Recording]:
        """Yield the conversations, in the order of their first requests."""
        for chain in self._chains.values():
            if chain.reply is not None:
                self._tree.extend(self._tree.tails[chain.lane], chain.reply)
        for one in self._tree.paths(order=lambda node: (False, node.root, 0)):
            chain = self._chains[one.lane]
            name = chain.key or f"{self._file.path.stem}-{chain.lane}"
            kind: Kind = "session"
            if chain.first is not None:
                name, kind = f"{name}/{one.calls[0].id or chain.lane}", "branch"
            recording = self._tree.recording(one, name, kind, chain.key if chain.first else None)
            yield replace(recording, grade=max(grade, chain.grade), tools=chain.tools)


# ---- requests -----------------------------------------------------------------------


def form_of_request(request: Mapping[str, Any], response: Any = None) -> FormName | None:
    """Return the form of a request's body, by its keys and those of its answer.

    None: of no known form.
    """
    if isinstance(request.get("contents"), list):
        return "gemini"
    if "input" in request and "messages" not in request:
        return "responses"
    listed = request.get("messages")
    if not isinstance(listed, list):
        return None
    answer = object_of(response)
    if "system" in request or answer.get("type") == "message" or "anthropic_version" in request:
        return "anthropic"
    if isinstance(response, str) and "message_start" in response[:200]:
        return "anthropic"
    if "choices" in answer:
        return "openai"
    tools = request.get("tools")
    if isinstance(tools, list) and any(isinstance(t, dict) and "input_schema" in t for t in tools):
        return "anthropic"
    return "anthropic" if form_of_list(listed) == "anthropic" else "openai"


def items_of(request: Mapping[str, Any], form: FormName) -> list[Any]:
    """Return the list of a request with its system prompt in front, ready to be compared."""
    if form == "responses":
        listed = request["input"]
        listed = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed
        system: Any = request.get("instructions")
        head = [{"role": "developer", "content": system}] if system else []
    elif form == "gemini":
        listed = request["contents"]
        system = request.get("systemInstruction") or request.get("system_instruction")
        parts = system.get("parts") if isinstance(system, Mapping) else system
        texts = [parts] if isinstance(parts, str) else [text_of(one, "text") for one in parts or ()]
        head = [{"role": "system", "content": "\n".join(texts)}] if texts else []
    else:
        listed, system = request["messages"], request.get("system")
        if isinstance(system, list):
            system = [one for one in system if not _is_billing(one)]
        head = [{"role": "system", "content": system}] if system else []
    if not isinstance(listed, list):
        return []
    return [_without_marks(one) for one in [*head, *listed]]


def _is_billing(block: object) -> bool:
    return isinstance(block, Mapping) and str(block.get("text")).startswith(_BILLING)


def _without_marks(value: Any) -> Any:
    """Return JSON data without cache marks; a list of one plain text becomes that text."""
    if isinstance(value, Mapping):
        clean = {key: _without_marks(one) for key, one in value.items() if key != "cache_control"}
        content = clean.get("content")
        if isinstance(content, list) and len(content) == 1 and _is_plain(content[0]):
            clean["content"] = content[0]["text"]
        return clean
    return [_without_marks(one) for one in value] if isinstance(value, list) else value


def _is_plain(block: Any) -> bool:
    return isinstance(block, dict) and block.keys() == {"type", "text"} and block["type"] == "text"


def _digests(listed: Sequence[Any]) -> list[str]:
    """For each place of a list, the digest of all up to it."""
    digest = hashlib.sha256()
    digests: list[str] = []
    for one in listed:
        digest.update(canonical_json(one).encode())
        digest.update(b"\n")
        digests.append(digest.copy().hexdigest())
    return digests


# ---- answers ------------------------------------------------------------------------


def _answer(
    response: Any, form: FormName, skipped: Counter[str]
) -> tuple[Message | None, Usage | None, str, str]:
    """Return the message of an answer, its usage, its id and its model."""
    if isinstance(response, str):
        return _read_stream(response, form, skipped)
    if not isinstance(response, Mapping):
        return None, None, "", ""
    items: list[Any] = []
    match form:
        case "openai":
            options = response.get("choices")
            choices = options if isinstance(options, list) else []
            items = [object_of(one).get("message") for one in choices[:1]]
        case "responses":
            items = response.get("output") or []
        case "anthropic":
            items = [{"role": "assistant", "content": response.get("content")}]
        case "gemini":
            options = response.get("candidates")
            items = [one.get("content") for one in options or () if isinstance(one, Mapping)][:1]
    messages = read_list(form, [_without_none(item) for item in items if item], skipped)
    counts = response.get("usage") or response.get("usageMetadata")
    usage = usage_of(counts)
    if usage is not None:
        usage = replace(usage, tier=tier_of(object_of(counts), response))
    return (
        messages[0] if messages else None,
        usage,
        text_of(response, "id", "responseId"),
        text_of(response, "model"),
    )


def _without_none(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    return {key: one for key, one in item.items() if one is not None or key == "content"}


def _read_stream(
    text: str, form: FormName, skipped: Counter[str]
) -> tuple[Message | None, Usage | None, str, str]:
    """Return an answer that was recorded as the text of its events."""
    module = cast("Format", import_module(MODULES[form]))
    ident = ""
    try:
        events = [
            parse_recorded(line.removeprefix("data:"))
            for line in text.splitlines()
            if line.startswith("data:") and line.removeprefix("data:").strip() != "[DONE]"
        ]
        if form == "responses":  # the last event holds the whole answer
            whole = events[-1]["response"]
            return _answer(whole, form, skipped)
        reader = module.reader(Request("recorded", (), 1))
        for event in events:
            ident = ident or text_of(event.get("message") or event, "id", "responseId")
            reader.feed(event)
        reply = reader.reply()
    except (*MALFORMED, Refused):
        skipped["streamed answers that are cut or failed"] += 1
        return None, None, ident, ""
    return reply.message, None if reply.estimated else reply.usage, ident, reply.model


# ---- records of logs ----------------------------------------------------------------

_REQUESTS: Final = ("request", "request_body", "requestBody", "req", "input", "body")
_RESPONSES: Final = (
    *("response", "response_body", "responseBody", "resp", "output", "completion", "result"),
)
_KEYS: Final = (
    *("session_id", "sessionId", "session", "conversation_id", "thread_id", "trace_id"),
)
_HEADERS: Final = (
    *("x-claude-code-session-id", "session-id", "session_id", "thread-id", "x-session-id"),
)


def exchange_of(record: Mapping[str, Any]) -> Exchange | None:
    """Return the exchange in a line of a log; None: it holds none.

    The body of the request stands under `request`, `request_body` or `body`, perhaps as the `body`
    of an object there, or in the record itself; the answer likewise under `response`.
    """
    request = next(
        (body for key in _REQUESTS if _is_request(body := _body(record.get(key)))), record
    )
    if not _is_request(request):
        return None
    response = _body(next((record[key] for key in _RESPONSES if record.get(key) is not None), None))
    when = next(
        (record[key] for key in ("timestamp", "time", "created_at", "startTime") if key in record),
        None,
    )
    if when is None and isinstance(response, Mapping):
        when = response.get("created") or response.get("created_at")
    return Exchange(
        request,
        response,
        _key_of(record, request),
        time_of(when),
        dollars_of(record.get("cost") or record.get("response_cost") or record.get("cost_usd")),
        grade=next((grade for grade in GRADES if grade == record.get(EVIDENCE)), "A"),
    )


def _body(value: Any) -> Any:
    """Return a body, taken out of the text or the object that it stands in."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = parse_recorded(value)
        except ValueError:
            return value
    if isinstance(value, Mapping):
        for key in ("body", "json", "data"):
            if isinstance(value.get(key), Mapping | str):
                return _body(value[key])
    return value


def _is_request(body: Any) -> bool:
    return isinstance(body, Mapping) and (
        isinstance(body.get("messages"), list)
        or isinstance(body.get("contents"), list)
        or ("model" in body and isinstance(body.get("input"), list | str))
    )


def _key_of(record: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """Return the client's name of the conversation; empty where there is none."""
    headers = record.get("headers") or record.get("request_headers")
    if headers is None:
        headers = object_of(record.get("request")).get("headers")
    if isinstance(headers, Mapping):
        lower = {str(key).lower(): value for key, value in headers.items()}
        key = text_of(lower, *_HEADERS)
        agent = text_of(lower, "x-claude-code-agent-id")
        if key:
            return f"{key}/{agent}" if agent else key
    return text_of(record, *_KEYS) or text_of(request, "prompt_cache_key")


def recognises_log(records: Records) -> bool:
    """Return whether a record holds a request with its answer."""
    exchanges = [exchange_of(record) for record in records]
    return any(
        one is not None and one.response is not None and form_of_request(one.request, one.response)
        for one in exchanges
    )


def read_log(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the conversations of a log: exact requests."""
    exchanges = Exchanges(file, answers, "request-log")
    for record in file.records():
        exchange = exchange_of(record)
        if exchange is None:
            file.skipped["records that hold no request"] += 1
        else:
            exchanges.add(exchange)
    yield from exchanges.recordings()


def recognises_messages(records: Records) -> bool:
    """Return whether a record holds a list of messages with an answer."""
    return any(
        isinstance(listed := one.get("messages"), list)
        and any(isinstance(each, Mapping) and each.get("role") == "assistant" for each in listed)
        for one in records
    )


def read_messages(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield a recording for each list."""
    del answers
    limit = MemoryLimit(file.path)
    for number, record in enumerate(file.records(), 1):
        exchange = exchange_of(record)
        form = None if exchange is None else form_of_request(exchange.request)
        if exchange is None or form is None:
            file.skipped["records that hold no list of messages"] += 1
            continue
        messages = read_list(form, items_of(exchange.request, form), file.skipped, limit)
        model = model_of(text_of(exchange.request, "model"), PROVIDERS[form])
        calls = [
            RecordedCall(at, model, time=exchange.time)
            for at, message in enumerate(messages)
            if message.role == "assistant"
        ]
        if not calls:
            file.skipped["lists of messages without an answer"] += 1
            continue
        file.skipped["usage of calls, which lists of messages do not tell"] += len(calls)
        tools = exchange.request.get("tools")
        yield Recording(
            exchange.key or f"{file.path.stem}-{number}",
            "chat",
            "C",
            model,
            tuple(messages),
            tuple(calls),
            tools=None if tools is None else read_tools(tools),
            skipped=file.take_skipped(),
            source=str(file.path),
        )
