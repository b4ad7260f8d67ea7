"""Anthropic's prompt cache as its documentation tells of it, for what sets marks.

An entry is written only at a mark, and only where the prefix is long enough; it is looked for
at each mark and the blocks before it, twenty in all with the mark's own; it lives for five
minutes from its last use. Where sources leave a choice open the poorer one is taken: a mark
inside what was read writes nothing, and only the entries at marks and the one read are used.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

LOOKBACK = 20
TTL = 300.0
MOST = 4


def blocks_of(body: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The blocks of a body in the order of the cache, without marks; and which are marked."""
    found: list[tuple[str, dict[str, Any]]] = [("tools", one) for one in body.get("tools", ())]
    found += [("system", one) for one in body.get("system", ())]
    for turn in body["messages"]:
        found += [(turn["role"], one) for one in turn["content"]]
    texts = []
    for kind, block in found:
        bare = {key: value for key, value in block.items() if key != "cache_control"}
        texts.append(kind + json.dumps(bare))
    marked = [at for at, (_, block) in enumerate(found) if "cache_control" in block]
    return texts, marked


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
    """What one request found: blocks read, and the longest that any earlier request shares."""

    read: int
    shared: int
    blocks: int


@dataclass
class Cache:
    """The entries of one cache, by what they are the prefix of."""

    minimum: int = 0
    used: dict[str, float] = field(default_factory=dict)
    requests: list[tuple[float, list[str]]] = field(default_factory=list)

    def send(self, body: dict[str, Any], now: float) -> Read:
        texts, marked = blocks_of(body)
        assert len(marked) <= MOST
        prefixes, long = [], []
        digest, chars = hashlib.sha256(), 0
        for text in texts:
            digest.update(text.encode())
            chars += len(text)
            prefixes.append(digest.hexdigest())
            long.append(chars // 4 >= self.minimum)
        hit = -1
        for mark in marked:
            for at in range(mark, max(-1, mark - LOOKBACK), -1):
                last = self.used.get(prefixes[at])
                if last is not None and now - last <= TTL:
                    hit = max(hit, at)
                    break
        shared = max((self._shared(texts, long, sent, now) for sent in self.requests), default=0)
        for at in (*marked, hit):
            known = prefixes[at] in self.used and now - self.used[prefixes[at]] <= TTL
            if at >= 0 and long[at] and (at > hit or known):
                self.used[prefixes[at]] = now
        self.requests.append((now, texts))
        return Read(hit + 1, shared, len(texts))

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
