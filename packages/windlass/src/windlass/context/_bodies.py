"""Requests of the official clients: what of a body is its context, and the body with a window.

Bodies are JSON as their client sends them. Decides nothing, and changes nothing but the context of
a request and its cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import is_
from typing import Any, Final

from windlass.caching.breakpoints import TOOLS, Place
from windlass.caching.prompt_cache import CachedPieces
from windlass.context.window import ChatWindow
from windlass.errors import UsageError
from windlass.wire.forms import FormName, as_json
from windlass.wire.marks import mark_key

_PATHS: Final[Mapping[str, FormName]] = {
    "/v1/messages": "anthropic",
    "/chat/completions": "openai",
    "/responses": "responses",
}
_GEMINI: Final = re.compile(r"(?:.*/)?models/(?P<model>[^/:]+):(?:generate|streamGenerate)Content")
_LISTS: Final[Mapping[str, str]] = {
    "anthropic": "messages",
    "openai": "messages",
    "responses": "input",
    "gemini": "contents",
}
_HEADS: Final[Mapping[str, str]] = {
    "anthropic": "system",
    "responses": "instructions",
    "gemini": "systemInstruction",
}
"""Where what stands in front of the list stands, by form."""
_ELSEWHERE: Final[Mapping[str, str]] = {
    "previous_response_id": "its earlier messages lie with the provider",
    "conversation": "its earlier messages lie with the provider",
    "cachedContent": "its earlier messages lie in a cache that was made before",
    "prompt": "its messages stand in a prompt of the provider's",
}
_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_ABSENT: Final = ("Omit", "NotGiven")
"""Classes by which clients say that an argument was not given."""
_HOLDERS: Final = ("parts", "content", "output")
"""Where the blocks of a message stand, by form."""
_PICTURES: Final = frozenset({"image", "image_url", "input_image", "inlineData", "inline_data"})
_PICTURE_TOKENS: Final = 1_105
_CHARS_A_TOKEN: Final = 4
_KEY_TOKENS: Final = 2.5


@dataclass(frozen=True, slots=True)
class OwnMark:
    """A cache mark that the caller set: at which message of head and list, on which block.

    Message `TOOLS` is the list of tools. `key` and `value` are the mark.
    """

    place: Place
    key: str
    value: Any

    @property
    def long(self) -> bool:
        """Return whether it asks for the longer time."""
        return _is_long(self.value)


def _is_long(mark: Any) -> bool:
    return isinstance(mark, Mapping) and mark.get("ttl") == "1h"


@dataclass(frozen=True, slots=True)
class OpenedRequest:
    """A request that was read.

    `raw` is its body as it came, `body` the same as JSON with a list of messages. `head` is what
    stands in front of the conversation, as messages without cache marks; `head_as_came` are those
    of them that stand in the list itself. `messages` are the conversation as it came, `bare` the
    same without cache marks, `digests` one for the bytes of each. `marks` are the caller's;
    `automatic_mark`: the body as a whole has one, which stands at its end.
    """

    form: FormName
    model: str
    raw: Mapping[str, Any]
    body: Mapping[str, Any]
    head: tuple[Mapping[str, Any], ...]
    head_as_came: list[Any]
    messages: list[Any]
    bare: list[Mapping[str, Any]]
    digests: list[bytes]
    tools: list[Any]
    marks: tuple[OwnMark, ...]
    automatic_mark: bool
    pieces: CachedPieces

    @property
    def in_list(self) -> int:
        """Return how many messages of the head stand in the list."""
        return len(self.head_as_came)

    @property
    def head_blocks(self) -> list[tuple[Place, str]]:
        """Return the texts in front of the conversation, by message and block."""
        return [
            ((at, block), text)
            for at, message in enumerate(self.head)
            for block, text in enumerate(_texts(message))
        ]

    @property
    def writes_long(self) -> bool:
        """Say whether the caller has the conversation written to the cache for the longer time."""
        behind = (len(self.head), 0)
        long = any(mark.long and mark.place >= behind for mark in self.marks)
        return long or _is_long(self.body.get("cache_control"))

    @property
    def offers_tools(self) -> bool:
        """Whether the model may call a tool or not: where it must, no loop is to be expected."""
        forced: Any = self.body.get("tool_choice")
        if isinstance(forced, Mapping):
            forced = forced.get("type")
        return bool(self.tools) and forced in (None, "auto")


def form_of_request(path: str, body: Any) -> tuple[FormName, str] | None:
    """Return the form and the model of a request for an answer.

    None: it asks for something else.
    """
    if not isinstance(body, Mapping):
        return None
    path = path.partition("?")[0]
    if found := _GEMINI.fullmatch(path):
        return "gemini", found["model"]
    form, model = _PATHS.get(path), body.get("model")
    return (form, model) if form is not None and isinstance(model, str) else None


def opened(form: FormName, model: str, body: Mapping[str, Any]) -> OpenedRequest:
    """A request, read. Raises UsageError for one whose messages lie elsewhere or are no list."""
    given = {key: one for key, one in body.items() if type(one).__name__ not in _ABSENT}
    for key, why in _ELSEWHERE.items():
        if given.get(key) is not None:
            raise UsageError(why)
    listed = given.get(_LISTS[form])
    if form == "responses" and isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    if form == "gemini" and isinstance(listed, Mapping):
        listed = [listed]
    if isinstance(listed, str | Mapping) or not isinstance(listed, Iterable):
        raise UsageError(f"its {_LISTS[form]} are no list")
    messages = given[_LISTS[form]] = [as_json(one) for one in listed]
    tools = given.get("tools")
    tools = [] if tools is None else [as_json(one) for one in tools]
    if tools:
        given["tools"] = tools
    front = _front(form, as_json(given.get(_HEADS.get(form, ""))))
    in_list = next(
        (at for at, one in enumerate(messages) if _role(one) not in ("system", "developer")),
        len(messages),
    )
    if in_list == len(messages):
        raise UsageError("it holds no conversation")
    head = (*front, *messages[:in_list])
    rest = messages[in_list:]
    bare = [_unmarked(one) for one in rest]
    marks = [
        *(OwnMark((TOOLS, at), *mark) for at, one in enumerate(tools) for mark in _mark_of(one)),
        *(
            OwnMark((at, block), *mark)
            for at, message in enumerate((*head, *rest))
            for block, mark in _marks_in(message)
        ),
    ]
    return OpenedRequest(
        form,
        model,
        body if isinstance(body.get(_LISTS[form]), list | tuple | str | Mapping) else given,
        given,
        tuple(_unmarked(one) for one in head),
        messages[:in_list],
        rest,
        bare,
        [_digest(one) for one in bare],
        [_without_marks(one) for one in tools],
        tuple(marks),
        "cache_control" in given,
        pieces_of(form, given),
    )


def with_window(
    request: OpenedRequest, window: ChatWindow, *, mark: bool
) -> tuple[Mapping[str, Any], int]:
    """Return the body with what a window shows, and how many cache marks were added.

    What a window shows as it came is the caller's own, and where nothing changes so is the body.
    `mark`: add marks to the caller's. Raises UsageError where the window does not begin with the
    head of the request.
    """
    form, ahead = request.form, len(request.head)
    if not window.begins_with(ahead):
        raise UsageError("its system prompt stands elsewhere in the window")
    front = ahead - request.in_list
    head = [*_front(form, request.body.get(_HEADS.get(form, ""))), *request.head_as_came]
    shown, tools = list(window.messages[ahead:]), list(request.body.get("tools") or ())
    places = (head, 0), (shown, ahead)

    def put(place: Place, key: str, value: Any) -> bool:
        if place[0] == TOOLS:
            if not 0 <= place[1] < len(tools) or _mark_of(tools[place[1]]):
                return False
            tools[place[1]] = {**tools[place[1]], key: value}
            return True
        side, first = places[place[0] >= ahead]
        marked = _with_mark(side[place[0] - first], place[1], key, value, form)
        if marked is not None:
            side[place[0] - first] = marked
        return marked is not None

    owns = window.own_breakpoints
    own_places = list(zip(request.marks, owns, strict=False))
    last_long = max((at for own, at in own_places if at and own.long), default=None)
    if _is_long(request.body.get("cache_control")):
        last_long = ahead + len(shown), 0
    for own, at in own_places:  # the window may show a marked message shortened
        if at is not None:
            put(at, own.key, own.value)
    added = 0
    if mark and (key := "cache_control" if form == "anthropic" else mark_key(request.model)):
        long = window.long_breakpoints
        for at in window.breakpoints:
            value = {"type": "ephemeral"}
            # Marks for an hour stand before the others, or the request is refused.
            if at in long or (last_long is not None and at < last_long):
                value["ttl"] = "1h"
            if key == "prompt_cache_breakpoint":
                value = {"mode": "explicit"}
            added += at not in owns and put(at, key, value)
    body = dict(request.body)
    if not _same(shown, request.messages) or not _same(head[front:], request.head_as_came):
        body[_LISTS[form]] = [*head[front:], *shown]
    if body == request.body and not added:
        return request.raw, 0
    if added and front and form == "anthropic":
        body["system"] = head[0]["content"]
    if added and tools:
        body["tools"] = tools
    if added and key == "prompt_cache_breakpoint":
        body.setdefault("prompt_cache_options", {"mode": "explicit"})
    return body, added


def _same(shown: Sequence[Any], messages: Sequence[Any]) -> bool:
    return len(shown) == len(messages) and all(map(is_, shown, messages))


def _with_mark(message: Any, block: int, key: str, value: Any, form: FormName) -> Any | None:
    """Return a message with a mark on one of its blocks; None where it takes none, or has one."""
    if not isinstance(message, Mapping):
        return None
    holder = "content" if "content" in message else "output"
    content = message.get(holder)
    if isinstance(content, str) and content.strip():
        kind = "input_text" if form == "responses" else "text"
        content = [{"type": kind, "text": content}]
    if not isinstance(content, list) or block >= len(content):
        return None
    one = content[block]
    if not isinstance(one, Mapping) or _mark_of(one) or _is_thinking(one):
        return None
    if form == "responses" and not str(one.get("type")).startswith("input_"):
        return None
    return {**message, holder: [*content[:block], {**one, key: value}, *content[block + 1 :]]}


def _is_thinking(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")).endswith("thinking")


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


def _front(form: FormName, given: Any) -> tuple[Mapping[str, Any], ...]:
    """Return what stands in front of a list, as messages."""
    if not given:
        return ()
    if form == "gemini":
        parts = given.get("parts") if isinstance(given, Mapping) else None
        if not isinstance(parts, list) or not all(set(part) == {"text"} for part in parts):
            raise UsageError("its system instruction holds more than text")
        return ({"role": "system", "content": [{"type": "text", **part} for part in parts]},)
    return ({"role": "system", "content": given},)


def _texts(message: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message of the head, by block."""
    content = message.get("content")
    if isinstance(content, list):
        return [one.get("text", "") if isinstance(one, Mapping) else "" for one in content]
    return [content] if isinstance(content, str) else [""]


# ---- cache marks ------------------------------------------------------------------------------


def _mark_of(block: Any) -> list[tuple[str, Any]]:
    """Return the mark of a block or a tool, or of one that it holds."""
    if not isinstance(block, Mapping):
        return []
    marks = [(key, block[key]) for key in _MARKS if block.get(key) is not None]
    inner = block.get("content")
    if not marks and isinstance(inner, list):
        marks = [mark for one in inner for mark in _mark_of(one)]
    return marks[-1:]


def _marks_in(message: Any) -> Iterator[tuple[int, tuple[str, Any]]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if content is None and isinstance(message, Mapping):
        content = message.get("output")
    for at, block in enumerate(content if isinstance(content, list) else ()):
        for mark in _mark_of(block):
            yield at, mark


def _unmarked(message: Any) -> Any:
    """Return a message without cache marks; text that stands alone is a string then."""
    if not isinstance(message, Mapping):
        return message
    if isinstance(output := message.get("output"), list):
        message = {**message, "output": [_without_marks(block) for block in output]}
    content = message.get("content")
    if not isinstance(content, list):
        return _without_marks(message)
    blocks = [_without_marks(block) for block in content]
    alone = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], Mapping) else {}
    if alone.keys() == {"type", "text"} and alone["type"] == "text":
        return {**_without_marks(message), "content": alone["text"]}
    return {**_without_marks(message), "content": blocks}


def _without_marks(block: Any) -> Any:
    """Return a block, and those that it holds, without marks; what a model or tool said stays."""
    if not isinstance(block, Mapping):
        return block
    bare = {key: value for key, value in block.items() if key not in _MARKS}
    if isinstance(inner := bare.get("content"), list):
        bare["content"] = [_without_marks(one) for one in inner]
    return bare


# ---- what a cache compares --------------------------------------------------------------------


def _bytes(value: Any) -> bytes:
    """Return JSON as it is sent. Raises UsageError for what is none."""
    try:
        return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    except (TypeError, ValueError) as error:
        raise UsageError(f"it holds what is no JSON: {error}") from error


def _digest(message: Any) -> bytes:
    """Return what tells a message from all others, to the byte."""
    return blake2b(_bytes(message), digest_size=16).digest()


def pieces_of(form: FormName, body: Mapping[str, Any]) -> CachedPieces:
    """Return a body as its provider's cache compares it: a piece for each tool and each block."""
    pieces: list[tuple[bytes, float]] = []
    marks: dict[int, bool] = {}

    def add(holder: str, block: Any) -> None:
        for _, value in _mark_of(block):
            marks[len(pieces)] = _is_long(value)
        bare = _without_marks(block)
        pieces.append((holder.encode() + _bytes(bare), _tokens(bare)))

    for tool in body.get("tools") or ():
        add("tool", tool)
    for message in (*_front(form, body.get(_HEADS.get(form, ""))), *body[_LISTS[form]]):
        if not isinstance(message, Mapping):
            add("", message)
            continue
        holder = next((key for key in _HOLDERS if key in message), "content")
        content = message.get(holder)
        rest = {key: one for key, one in message.items() if key not in (holder, *_MARKS)}
        about = _bytes(rest).decode(errors="surrogatepass")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        first = len(pieces)
        for block in content if isinstance(content, list) and content else [content]:
            add(about, block)
        pieces[first] = pieces[first][0], pieces[first][1] + _tokens(rest)
    options = body.get("prompt_cache_options")
    explicit = isinstance(options, Mapping) and options.get("mode") == "explicit"
    if marks and form in ("openai", "responses") and not explicit:
        marks.setdefault(len(pieces) - 1, False)  # the provider's own, at the newest message
    if "cache_control" in body and pieces:
        marks[len(pieces) - 1] = _is_long(body["cache_control"])
    return CachedPieces.of(pieces, marks)


def _tokens(block: Any) -> float:
    """About how many tokens a block is: by the characters of its texts; pictures have their own."""
    if isinstance(block, str):
        return len(block) / _CHARS_A_TOKEN
    if isinstance(block, Mapping):
        if not _PICTURES.isdisjoint(block) or block.get("type") in _PICTURES:
            return _PICTURE_TOKENS
        return _KEY_TOKENS * len(block) + sum(map(_tokens, block.values()))
    return sum(map(_tokens, block)) if isinstance(block, list) else 1.0


def usage_of(answer: Any) -> Mapping[str, Any] | None:
    """Return what an answer, or an event of a streamed one, says of its usage (None: nothing).

    It is in its provider's words, without what is null.
    """
    for holder in (answer, _held(answer, "message"), _held(answer, "response")):
        for name in ("usage", "usageMetadata"):
            usage = as_json(_held(holder, name))
            if isinstance(usage, Mapping):
                tier = {"service_tier": _held(holder, "service_tier")}
                return {key: each for key, each in {**tier, **usage}.items() if each is not None}
    return None


def _held(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
