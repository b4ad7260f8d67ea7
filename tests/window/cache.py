"""Anthropic's prompt cache as its documentation tells of it.

An entry is written only at a mark, and only where the prefix is long enough; it is looked for
at each mark and the blocks before it, twenty in all with the mark's own. It lives for five minutes
or an hour, as its mark says, from the start of the last request that wrote or read it. A mark of
the whole request stands at its last block that can have one. Where sources leave a choice open the
poorer one is taken: a mark inside what was read writes nothing, only the entries at marks and the
one read are used, and an entry keeps the time that it was written for.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LOOKBACK = 20
TTL, TTL_LONG = 300.0, 3_600.0
MOST = 4
_SETTINGS = ("tool_choice", "thinking", "output_config")
"""What messages are kept by beside their blocks."""


def in_blocks(body: dict[str, Any]) -> dict[str, Any]:
    """The body with blocks where it has strings."""

    def blocks(content: Any) -> Any:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    turns = [{**one, "content": blocks(one["content"])} for one in body["messages"]]
    return {**body, "system": blocks(body.get("system") or []), "messages": turns}


def _blocks(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("tools", one) for one in body.get("tools") or ()]
    found += [("system", one) for one in body.get("system") or ()]
    for turn in body["messages"]:
        found += [(turn["role"], one) for one in turn["content"]]
    return found


def _bare(block: Any) -> Any:
    """A block, and those inside it, without marks; a text and one block of text are the same."""
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    inner = bare.get("content")
    if isinstance(inner, str):
        bare["content"] = [{"type": "text", "text": inner}]
    elif isinstance(inner, list):
        bare["content"] = [_bare(one) for one in inner]
    return bare


def _marks(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = block.get("content")
    for one in (*(inner if isinstance(inner, list) else ()), block):
        if mark := one.get("cache_control"):
            yield mark


def blocks_of(body: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The blocks of a body in the order of the cache, without marks; and which are marked."""
    found = _blocks(body)
    texts = [kind + json.dumps(_bare(block), sort_keys=True) for kind, block in found]
    return texts, [at for at, (_, block) in enumerate(found) if any(_marks(block))]


def lives(body: dict[str, Any]) -> dict[int, float]:
    """The seconds that each marked block of a body asks for."""
    found = _blocks(body)
    marks = [(at, mark) for at, (_, block) in enumerate(found) for mark in _marks(block)]
    whole = body.get("cache_control")
    if whole and (last := _last(found)) is not None:
        marks.append((last, whole))
    return {at: TTL_LONG if mark.get("ttl") == "1h" else TTL for at, mark in marks}


def _last(found: list[tuple[str, dict[str, Any]]]) -> int | None:
    """The last block that can be marked."""
    for at in range(len(found) - 1, -1, -1):
        kind, block = str(found[at][1].get("type")), found[at][1]
        if not kind.endswith("thinking") and (kind != "text" or block["text"]):
            return at
    return None


def marked_last_only(body: dict[str, Any]) -> dict[str, Any]:
    """The body as most agents send it: one mark, at its end."""
    bare = copy.deepcopy(body)
    for one in (*bare.get("tools", ()), *bare.get("system", ())):
        one.pop("cache_control", None)
    blocks = [block for turn in bare["messages"] for block in turn["content"]]
    for block in blocks:
        block.pop("cache_control", None)
    blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return bare


@dataclass
class Read:
    """What one request found: blocks read, and the longest that any earlier request shares.

    Its tokens are four characters each: all, those read, those written for either time.
    """

    read: int
    shared: int
    blocks: int
    tokens: int
    tokens_read: int
    tokens_written: int
    tokens_written_long: int


@dataclass
class Cache:
    """The entries of one cache, by what they are the prefix of: when used, and how long they live.

    `minimum` is in tokens.
    """

    minimum: int = 0
    used: dict[str, tuple[float, float]] = field(default_factory=dict)
    requests: list[tuple[float, list[str]]] = field(default_factory=list)

    def send(self, body: dict[str, Any], now: float) -> Read:
        texts, _ = blocks_of(body)
        marks = lives(body)
        assert len(marks) <= MOST
        prefixes, tokens = self._prefixes(body, texts)
        hit = -1
        for mark in marks:
            for at in range(mark, max(-1, mark - LOOKBACK), -1):
                if self._alive(prefixes[at], now):
                    hit = max(hit, at)
                    break
        long = [one >= self.minimum for one in tokens]
        shared = max((self._shared(texts, long, sent, now) for sent in self.requests), default=0)
        written = {at: ttl for at, ttl in marks.items() if at > hit and long[at]}
        for at in {*marks, hit} - {-1}:
            if self._alive(prefixes[at], now):
                self.used[prefixes[at]] = now, self.used[prefixes[at]][1]
            elif at in written:
                self.used[prefixes[at]] = now, written[at]
        self.requests.append((now, texts))
        read = tokens[hit] if hit >= 0 else 0
        end_long = max((tokens[at] for at in written if written[at] == TTL_LONG), default=read)
        end = max((tokens[at] for at in written), default=read)
        return Read(
            hit + 1,
            shared,
            len(texts),
            tokens[-1],
            read,
            tokens_written=end - end_long,
            tokens_written_long=end_long - read,
        )

    def _alive(self, prefix: str, now: float) -> bool:
        since, ttl = self.used.get(prefix, (0.0, -1.0))
        return now - since <= ttl

    @staticmethod
    def _prefixes(body: dict[str, Any], texts: list[str]) -> tuple[list[str], list[int]]:
        """What each prefix is known by, and its tokens.

        Messages are kept by their settings too, and by whether there is any picture.
        """
        settings = [body.get(key) for key in _SETTINGS]
        settings.append('"type": "image"' in json.dumps(body["messages"]))
        digest, chars = hashlib.sha256(str(body.get("model")).encode()), 0
        head = len(body.get("tools") or ()) + len(body.get("system") or ())
        prefixes, tokens = [], []
        for at, text in enumerate(texts):
            if at == head:
                digest.update(json.dumps(settings).encode())
            digest.update(text.encode())
            chars += len(text)
            prefixes.append(digest.hexdigest())
            tokens.append(chars // 4)
        return prefixes, tokens

    @staticmethod
    def _shared(
        texts: list[str], long: list[bool], sent: tuple[float, list[str]], now: float
    ) -> int:
        if now - sent[0] > TTL:
            return 0
        same = 0
        for mine, theirs in zip(texts, sent[1], strict=False):
            if mine != theirs:
                break
            same += 1
        return same if same and long[same - 1] else 0
