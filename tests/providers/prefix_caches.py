"""The prompt caches of OpenAI and Gemini, as their documents tell of them.

Most keep the longest beginning that a request shares with an earlier one, without marks, from a
minimum and in steps (`PrefixCache`). A request goes to the machine that its `prompt_cache_key` and
its first 256 tokens lead to, and finds nothing that others hold. OpenAI's models that charge for
writing (`MarkedCache`) keep a prefix where a breakpoint stands: at the newest message of the user
or of a tool, and at marks. An entry is found at a breakpoint of the request, or at the end of an
earlier message where an earlier request had its newest one; in the explicit mode at marks alone.
One token is four characters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.providers.tariffs import Counts, Tariff

Body = dict[str, Any]
_HEADS = ("tools", "systemInstruction", "instructions")
_LISTS = ("messages", "input", "contents")
_MARK = "prompt_cache_breakpoint"
_UNSAID = ("type", "id", "status")
"""What an item has beside what the model is shown of it."""
_ROUTED_BY = 1_024
_WRITES, _SEEN = 4, 80


def _common(one: str, other: str) -> int:
    """Characters that two texts begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


@dataclass
class PrefixCache:
    """The prompts that the machines of one model hold, each with the time of its last use."""

    asks: Tariff
    held: dict[tuple[Any, str], list[tuple[float, str]]] = field(default_factory=dict)

    def send(self, body: Body, now: float) -> Counts:
        prompt = "".join(text for text, *_ in _pieces(body))
        machine = body.get("prompt_cache_key"), prompt[:_ROUTED_BY]
        alive = [one for one in self.held.get(machine, []) if now - one[0] <= self.asks.lives]
        shared = [_common(prompt, text) for _, text in alive]
        longest = max(shared, default=0)
        if longest:
            at = shared.index(longest)
            alive[at] = now, alive[at][1]
        self.held[machine] = [*alive, (now, prompt)]
        read = longest // 4 // self.asks.step * self.asks.step
        return Counts(len(prompt) // 4, read if read >= self.asks.minimum else 0)


@dataclass
class MarkedCache:
    """The prefixes that the machines of one model hold, each with the time of its last use."""

    asks: Tariff
    held: dict[str, float] = field(default_factory=dict)

    def send(self, body: Body, now: float) -> Counts:
        explicit = (body.get("prompt_cache_options") or {}).get("mode") == "explicit"
        pieces = list(_pieces(body))
        machine = body.get("prompt_cache_key"), "".join(text for text, *_ in pieces)[:_ROUTED_BY]
        digest, chars = hashlib.sha256(repr(machine).encode()), 0
        places: list[tuple[str, int, bool, bool]] = []
        for text, marked, ends in pieces:
            digest.update(text.encode())
            chars += len(text)
            places.append((digest.hexdigest(), chars // 4, marked, ends))
        newest = [one for one in places if one[3]][-1:]
        looked = [one for one in places if one[2] or (one[3] and not explicit)][-_SEEN:]
        alive = [one for one in looked if now - self.held.get(one[0], -1e9) <= self.asks.lives]
        read = max((tokens for _, tokens, *_ in alive), default=0)
        marks = [one for one in places if one[2]]
        chosen = marks[-_WRITES:] if explicit else [*marks[-_WRITES + 1 :], *newest]
        written = [one for one in chosen if one[1] > read and one[1] >= self.asks.minimum]
        for prefix, *_ in (*alive, *written):
            self.held[prefix] = now
        total = places[-1][1] if places else 0
        return Counts(total, read, max((tokens for _, tokens, *_ in written), default=read) - read)


def _pieces(body: Body) -> Iterator[tuple[str, bool, bool]]:
    """The pieces of a prompt, a text and one part of text being the same.

    Each without marks, whether it had one, and whether it ends a message of the user or a tool.
    """
    yield "".join(json.dumps(body[key]) for key in _HEADS if body.get(key)), False, False
    listed = next(body[key] for key in _LISTS if body.get(key))
    for item in [{"role": "user", "content": listed}] if isinstance(listed, str) else listed:
        key = next((one for one in ("content", "output", "parts") if item.get(one)), "")
        parts = [{"text": item[key]}] if isinstance(item.get(key), str) else item.get(key) or []
        # Behind these a prefix may be kept.
        takes = item.get("role") in ("user", "tool") or key == "output"
        about = {name: one for name, one in item.items() if name not in (key, *_UNSAID)}
        yield json.dumps(about, sort_keys=True), False, False
        for at, part in enumerate(parts):
            bare = {name: one for name, one in part.items() if name != _MARK}
            text = part["text"] if part.get("text") else json.dumps(bare, sort_keys=True)
            marked = _MARK in part and item.get("role") != "assistant"  # it is not heeded there
            yield text, marked, takes and at == len(parts) - 1
