"""Set-ups of users who wrap a client: the ones that are named, and all that make sense.

A set-up is five values beside its model: what the system prompt is and what changes in it, whose
cache marks stand where and for how long, the tools, the shape of the work, and how a request is
sent. `SETUPS` are the named ones. `cover` are as few as have each pair of values of different
attributes that makes sense, `draw` is any.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

Api: TypeAlias = Literal["anthropic", "chat", "responses", "gemini"]
Form: TypeAlias = Literal["none", "text", "blocks", "listed"]
Change: TypeAlias = Literal["nothing", "end", "middle", "start", "notes"]
Tools: TypeAlias = Literal["fixed", "changing", "none"]
Shape: TypeAlias = Literal[
    "loop",
    "documents",
    "questions",
    "branches",
    "interleaved",
    "parallel",
    "edited",
    "trimmed",
    "breaks",
    "searches",
]
Results: TypeAlias = Literal["long", "short"]
Transport: TypeAlias = Literal["plain", "streamed", "raw", "async"]


@dataclass(frozen=True)
class Setup:
    """One user's program.

    Args:
        model: The model, by the name that the client is given.
        api: What is asked, and so which client.
        form: The system prompt: none, a text, blocks, or a message in the list.
        tokens: Its length in tokens.
        changes: What of it differs from call to call: a time at its end, in its middle or at its
            start, or `notes`: a long block behind the first.
        marks: Where the user sets cache marks, joined by "+": `system` (behind the part that does
            not change), `end` (the end of the system prompt), `tools`, `last` (the last message),
            `top` (the whole request); "" for none. `key`: OpenAI's `prompt_cache_key`.
        ttl: How long they ask for; `both`: an hour for all but the last message.
        tools: Offered as they are, another list at each call, or none.
        shape: `loop` (an agent), `documents` (single calls, each with a document of its own),
            `questions` (single calls), `branches` (several ways on from a common beginning),
            `interleaved` (three loops in turn), `parallel` (twelve calls a turn), `edited`
            (old results are cleared in place), `trimmed` (the oldest turns are cut off), `breaks`
            (ten minutes before every fifth call), `searches` (the vendor's own tool, which pauses).
        results: What the tool gives: logs of up to 60,000 characters, or always some 700.
        transport: How a request is sent.
        calls: How many.
    """

    model: str
    api: Api = "anthropic"
    form: Form = "text"
    tokens: int = 150
    changes: Change = "nothing"
    marks: str = ""
    ttl: Literal["5m", "1h", "both"] = "5m"
    tools: Tools = "fixed"
    shape: Shape = "loop"
    results: Results = "long"
    transport: Transport = "plain"
    calls: int = 26

    @property
    def places(self) -> frozenset[str]:
        """The places of the user's marks."""
        return frozenset(filter(None, self.marks.split("+")))

    @property
    def steady(self) -> bool:
        """Whether no call changes what stood before the replies to earlier ones."""
        changed = self.changes != "nothing" or self.tools == "changing"
        return not changed and self.shape not in ("edited", "trimmed")

    def makes_sense(self) -> bool:
        """Whether anybody would, and the vendor allows it."""
        marked, places = self.marks != "", self.places
        claude, writes = self.api == "anthropic", self.model.startswith(("gpt-5.6", "gpt-6"))
        rules = (
            self.api == _APIS[self.model] or (self.api == "responses" and "gpt" in self.model),
            claude or writes or not marked or (places == {"key"} and "gpt" in self.model),
            not claude or "key" not in places,
            claude or places <= {"key", "system", "last"},
            claude or self.ttl == "5m",
            self.ttl == "5m" or marked,
            self.ttl != "both" or ("last" in places and len(places) > 1),
            not places & {"system", "end"} or self.form == "blocks",
            "end" not in places or self.changes != "nothing",
            "tools" not in places or self.tools != "none",
            self.changes == "nothing" or self.form != "none",
            self.changes != "notes" or self.form == "blocks",
            self.form != "none" or self.tokens == 150,
            self.form != "listed" or self.api != "gemini",
            self.form != "listed" or not claude or self.model.startswith("claude-sonnet-5"),
            self.shape != "searches" or (claude and self.tools == "fixed" and self.steady),
            self.shape != "parallel" or self.tools != "none",
            self.transport != "raw" or self.api != "gemini",
            self.results == "long" or self.shape not in ("documents", "questions"),
        )
        return all(rules)

    @property
    def columns(self) -> tuple[str, str, str, str, str, str]:
        """In words: its model, system prompt, marks, tools, shape and transport."""
        system = "none" if self.form == "none" else f"{self.form}, {self.tokens:,} tokens"
        changes = "" if self.changes == "nothing" else f", changing: {self.changes}"
        marks = f"{self.marks} {self.ttl}".removesuffix(" 5m") if self.marks else "none"
        work = self.shape + (", short results" if self.results == "short" else "")
        about = f"{self.model}, {self.api}" if self.api == "responses" else self.model
        return about, system + changes, marks, self.tools, work, self.transport


_APIS: Final[Mapping[str, Api]] = {
    "claude-sonnet-5-5": "anthropic",
    "claude-sonnet-5": "anthropic",
    "claude-sonnet-4-5": "anthropic",
    "claude-haiku-5-5": "anthropic",
    "claude-sonnet-6": "anthropic",
    "team-sonnet": "anthropic",
    "gpt-5": "chat",
    "gpt-6-sol": "chat",
    "gemini-2.5-flash": "gemini",
}
"""Models, and what is asked of each. No table knows `claude-sonnet-6`, and `team-sonnet` is what a
gateway calls a Claude Sonnet 5."""

NEW, OLD, OLDER = "claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-5"
"""Thinking is bound by the first alone."""
_CLOCK: Final = Setup(OLDER, form="blocks", tokens=39_000, changes="end", marks="system", calls=15)

SETUPS: Final[Mapping[str, Setup]] = {
    # As the command always had them, without marks of the user's.
    "loop": Setup(OLD),
    "loop, bound": Setup(NEW),
    "loop, chat": Setup("gpt-5", "chat"),
    "loop, responses": Setup("gpt-5", "responses"),
    "loop, gemini": Setup("gemini-2.5-flash", "gemini"),
    # As most agents mark.
    "marked at its end": Setup(OLD, marks="last"),
    "marked at its end, bound": Setup(NEW, marks="last"),
    "marked as a whole": Setup(OLD, marks="top", transport="streamed"),
    "marked everywhere": Setup(NEW, form="blocks", tokens=5_000, marks="tools+system+last"),
    "marked for an hour": Setup(
        OLDER, form="blocks", tokens=5_000, marks="system+last", ttl="1h", transport="async"
    ),
    "an hour, then minutes": Setup(
        NEW, form="blocks", tokens=5_000, marks="tools+system+last", ttl="both"
    ),
    "tools for an hour": Setup(OLD, form="none", marks="tools", ttl="1h", transport="raw"),
    # The time in the system prompt.
    "the time behind the mark": replace(_CLOCK, tools="none", shape="questions"),
    "the time behind the mark, loop": _CLOCK,
    "the time behind the mark, bound": replace(_CLOCK, model=NEW, ttl="1h"),
    "the time in a text": Setup(OLD, tokens=5_000, changes="end", marks="last"),
    "the time in the middle": Setup(
        NEW, form="blocks", tokens=5_000, changes="middle", marks="system+last"
    ),
    "the time first": Setup(OLD, tokens=5_000, changes="start", transport="async"),
    "the time in the mark": replace(_CLOCK, marks="end", tokens=5_000),
    "notes behind the mark": replace(
        _CLOCK, changes="notes", tokens=5_000, shape="questions", transport="raw"
    ),
    "the time in a message": Setup(OLD, form="listed", changes="end", marks="last"),
    "the time, chat": Setup("gpt-5", "chat", form="listed", tokens=5_000, changes="end"),
    "the time, gemini": Setup("gemini-2.5-flash", "gemini", tokens=5_000, changes="start"),
    # Single calls.
    "twenty documents": Setup(OLDER, tools="none", shape="documents", calls=20),
    "twenty documents, tools": Setup(OLD, shape="documents", transport="async", calls=20),
    "twenty documents, chat": Setup("gpt-6-sol", "chat", tools="none", shape="documents", calls=20),
    "questions": Setup(OLD, tokens=5_000, tools="none", shape="questions", calls=20),
    "questions, marked": Setup(
        OLD, form="blocks", tokens=5_000, marks="system", tools="none", shape="questions", calls=20
    ),
    "questions, responses": Setup(
        "gpt-5", "responses", tokens=5_000, tools="none", shape="questions", calls=20
    ),
    # Other tools at each call.
    "tools that change": Setup(OLD, form="blocks", marks="system+last", tools="changing"),
    "tools that change, unmarked": Setup(NEW, tools="changing", transport="streamed"),
    "tools that change, chat": Setup("gpt-5", "chat", tools="changing", transport="raw"),
    # Other shapes.
    "a chat without tools": Setup(NEW, tools="none", transport="streamed"),
    "branches": Setup(OLD, marks="last", shape="branches"),
    "branches, unmarked": Setup(NEW, shape="branches", transport="raw"),
    "interleaved": Setup(OLD, marks="last", shape="interleaved", calls=27),
    "interleaved, responses": Setup("gpt-5", "responses", shape="interleaved", calls=27),
    "parallel calls": Setup(OLD, marks="last", shape="parallel", results="short"),
    "parallel calls, bound": Setup(
        NEW, form="blocks", tokens=5_000, marks="system+last", shape="parallel", results="short"
    ),
    "parallel calls, chat": Setup("gpt-6-sol", "chat", shape="parallel", results="short"),
    "results cleared in place": Setup(OLD, marks="last", shape="edited"),
    "results cleared, chat": Setup("gpt-5", "chat", shape="edited", transport="streamed"),
    "history cut off": Setup(OLD, marks="last", shape="trimmed"),
    "history cut off, gemini": Setup("gemini-2.5-flash", "gemini", shape="trimmed"),
    "breaks": Setup(OLD, marks="last", shape="breaks"),
    "breaks, an hour": Setup(NEW, marks="last", ttl="1h", shape="breaks"),
    "searches that pause": Setup(OLD, marks="last", shape="searches"),
    # Results that are short as they are: marks alone decide.
    "short results": Setup(OLD, results="short"),
    "short results, bound": Setup(NEW, results="short", transport="raw"),
    "short results, marked": Setup(OLD, marks="last", results="short"),
    "short results, an hour": Setup(
        OLDER, form="blocks", tokens=5_000, marks="system+last", ttl="1h", results="short"
    ),
    "short results, the time": replace(_CLOCK, tokens=5_000, results="short", calls=26),
    "short results, tools change": Setup(
        OLD, form="blocks", tokens=5_000, marks="system+last", tools="changing", results="short"
    ),
    "short results, branches": Setup(OLD, marks="last", shape="branches", results="short"),
    "short results, breaks": Setup(OLD, tokens=5_000, shape="breaks", results="short"),
    "short results, cleared": Setup(OLD, marks="top", shape="edited", results="short"),
    "short results, cut off": Setup(OLD, tokens=5_000, shape="trimmed", results="short"),
    "short results, chat": Setup("gpt-5", "chat", tools="none", results="short"),
    "short results, breakpoints": Setup("gpt-6-sol", "responses", results="short"),
    # Models that no table knows, and one that costs five times as much from 100,000 tokens on.
    "a model to come": Setup("claude-sonnet-6", marks="last"),
    "a model to come, unmarked": Setup("claude-sonnet-6", transport="streamed"),
    "a gateway's name": Setup("team-sonnet", form="blocks", tokens=5_000, marks="system+last"),
    "haiku": Setup("claude-haiku-5-5", marks="last"),
    # OpenAI's models that charge for writing.
    "breakpoints, chat": Setup("gpt-6-sol", "chat"),
    "breakpoints, responses": Setup("gpt-6-sol", "responses", transport="async"),
    "breakpoints of the user's": Setup(
        "gpt-6-sol", "chat", form="blocks", tokens=5_000, changes="end", marks="system"
    ),
    "a key of the user's": Setup("gpt-6-sol", "responses", marks="key", transport="streamed"),
}

_ATTRIBUTES: Final[Mapping[str, tuple[Any, ...]]] = {
    "model": tuple(_APIS),
    "api": ("anthropic", "chat", "responses", "gemini"),
    "form": ("none", "text", "blocks", "listed"),
    "tokens": (150, 5_000),
    "changes": ("nothing", "end", "middle", "start", "notes"),
    "marks": (
        *("", "system", "end", "tools", "last", "top", "key"),
        *("system+last", "tools+system+last", "end+last", "tools+last"),
    ),
    "ttl": ("5m", "1h", "both"),
    "tools": ("fixed", "changing", "none"),
    "shape": (
        *("loop", "documents", "questions", "branches", "interleaved", "parallel"),
        *("edited", "trimmed", "breaks", "searches"),
    ),
    "results": ("long", "short"),
    "transport": ("plain", "streamed", "raw", "async"),
}

_USUAL: Final = 0.8
"""How often a model is asked by its first API."""


def draw(rnd: random.Random, calls: int) -> Setup:
    """Any set-up that makes sense."""
    while True:
        values = {name: rnd.choice(options) for name, options in _ATTRIBUTES.items()}
        values["api"] = _APIS[values["model"]] if rnd.random() < _USUAL else values["api"]
        if (setup := Setup(**values, calls=calls)).makes_sense():
            return setup


def cover(calls: int, seed: int = 0) -> Iterator[Setup]:
    """Set-ups that have each pair of values that any of thousands has."""
    rnd = random.Random(seed)
    pool = list(dict.fromkeys(draw(rnd, calls) for _ in range(3_000)))
    pairs = [_pairs(setup) for setup in pool]
    left = set[Any]().union(*pairs)
    while left:
        best = max(range(len(pool)), key=lambda at: len(pairs[at] & left))
        left -= pairs[best]
        yield pool[best]


def _pairs(setup: Setup) -> frozenset[Any]:
    values = [(name, value) for name, value in asdict(setup).items() if name != "calls"]
    return frozenset(itertools.combinations(values, 2))
