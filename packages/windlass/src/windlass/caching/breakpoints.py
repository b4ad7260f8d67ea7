"""Where cache marks belong in a request, by the rules of its provider's prompt cache.

A cache that needs marks keeps an entry only where a mark stood, and finds one only from a mark:
Anthropic's looks back a number of blocks from each mark, OpenAI's looks only at the marks. So marks
are set for two purposes: to read the longest entry that still holds (the last unchanged block,
where an edit or many results at once put it out of reach of the end), and to leave entries where
the next requests will branch off (the end; the block before what may be shortened next; the end of
tools and system prompt, for other conversations). Text after the last mark is not written, so that
is the best place for anything that the next request will show differently.

Pure: knows messages and earlier marks, but no wire format, and counts tokens only by `size`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from windlass.caching.provider_rules import cache_rules
from windlass.messages import Message, Picture, Text, ToolSpec, canonical_json
from windlass.text.tokens import CHARS_A_TOKEN, size

Place: TypeAlias = tuple[int, int]
"""Message and part, both from 0. Parts are counted through the message's parts, then its tool
calls; a result is marked as a whole, by its last part. Message `TOOLS` is the list of tools."""

TOOLS: Final = -1
_SHORTENED_CHARS: Final = 200
"""Policies leave results of fewer characters alone, so no entry there is worth a mark."""


@dataclass(frozen=True, slots=True)
class MarkRules:
    """The rules for the marks of a request.

    `most` is how many marks a request may write; `lookback` how many blocks the cache looks back
    from a mark, including the mark's own (None: only its own); `seen` how many marks it looks at if
    a request may hold more than it writes; `minimum` the fewest tokens of an entry; `replies`:
    whether an assistant's blocks can be marked. `ttl_s` and `ttl_long_s` are the seconds for which
    an entry is kept by default and at most (None: unknown, or no longer time exists).
    """

    most: int
    lookback: int | None
    minimum: int = 0
    seen: int = 0
    replies: bool = True
    ttl_s: float | None = None
    ttl_long_s: float | None = None


def mark_rules(provider: str, model: str) -> MarkRules | None:
    """Return the rules for `model` at `provider`; None where no marks are set.

    >>> mark_rules("openai", "gpt-4.1") is None
    True
    >>> mark_rules("anthropic", "claude-sonnet-5-5").lookback
    20
    """
    rules = cache_rules(provider, model)
    if not rules.breakpoints:
        return None
    return MarkRules(
        rules.breakpoints,
        rules.lookback,
        rules.minimum_for(model),
        rules.seen,
        # In chat form, a router's too, an assistant's calls take no keys of the provider's.
        replies=provider == "anthropic",
        ttl_s=rules.ttl_s,
        ttl_long_s=rules.ttl_long_s,
    )


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """The marks of one request, and what the marks of the next depend on.

    `places` are the request's marks, in order. `entries` are all places where a mark stood in
    this or an earlier request and before which nothing changed since: there may be an entry.
    `count` is how many messages the request had; `long` are those of the places whose entry is
    to be kept for the longer time; `cut_point` is the end of the user context, where one is marked.
    """

    places: tuple[Place, ...] = ()
    entries: tuple[Place, ...] = ()
    count: int = 0
    long: tuple[Place, ...] = ()
    cut_point: Place | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """What marks need to know of a list of tools: how many, and their tokens by size."""

    count: int
    tokens: int

    @classmethod
    def of(cls, tools: Sequence[ToolSpec]) -> Tools | None:
        """Return the `Tools` of a list; None if it is empty."""
        if not tools:
            return None
        texts = [spec.name + spec.description + canonical_json(spec.parameters) for spec in tools]
        return cls(len(tools), sum(map(len, texts)) // CHARS_A_TOKEN)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected of a request and of later ones."""

    soon: Sequence[int] = ()
    """The positions at which later requests are likely to differ, the likeliest first."""
    long: bool = False
    """Whether the head (tools and system prompt) is to be kept for the longer time."""
    cut_point: int = 0
    """How many messages the head and the user context are (0: there is none)."""
    tail: bool = False
    """Whether the last part of the last message changes at each call and is not cached."""
    until: int | None = None
    """How many messages are worth writing (None: all). Messages written before are read."""
    own: Sequence[Place] = ()
    """The caller's own marks. They stand, and the others are set in the places that are left."""
    bound: Place | None = None
    """The first place at which none of ours may stand: what changes with each call, or what nothing
    speaks for writing (None: there is none)."""


def marks(
    messages: Sequence[Message],
    rules: MarkRules,
    before: Breakpoints,
    outlook: Outlook = Outlook(),
    *,
    shared: int,
    tools: Tools | None = None,
) -> Breakpoints:
    """Return the marks of a request.

    Args:
        messages: Its messages.
        rules: The provider's.
        before: The marks of the request before; `Breakpoints()` for the first.
        outlook: What is expected of it and of later requests.
        shared: How many messages at the beginning are those of the request before.
        tools: Its tools (None: it has none).

    It looks at new messages and back from there, so its cost does not grow with the request.
    """
    until, own = outlook.until, outlook.own
    entries = before.entries[: bisect_left(before.entries, (shared, 0))]
    end = _end(messages, rules, tail=outlook.tail)
    bound = (len(messages), 0)
    if until is not None and until < len(messages):
        end = max(filter(None, (_last(messages, until, rules), *entries[-1:])), default=None)
        if end is None and not own:
            return Breakpoints((), entries, len(messages))
        bound = end or (TOOLS, -1)
    fresh = list(_before_what_is_shortened(messages, rules))
    later = [_last(messages, at, rules) for at in outlook.soon if at < len(messages)]
    # Where blocks are written anew no entry is left; where they are read none can be written.
    anew = [place for place in later if place and shared <= place[0] < before.count]
    branch = _branch(messages, rules, entries, shared, end)
    head = _head(messages, rules, tools, outlook.bound)
    kept_long = (
        (head,) if outlook.long and head and head <= bound and not own else ()
    )  # each request must use it, or it is forgotten
    context = _last(messages, outlook.cut_point, rules) if outlook.cut_point else None
    ranked = (end, *kept_long, branch, *anew, *fresh[:1], head, context, *later, *fresh[1:])
    chosen = [place for place in dict.fromkeys(ranked) if place is not None and place <= bound]
    if outlook.bound is not None:
        chosen = [place for place in chosen if place < outlook.bound]
    left = max(0, rules.most - len(own))
    chosen = [*own, *[place for place in chosen if place not in own][:left]]
    if outlook.bound is None:
        chosen += _spread(messages, rules, range(shared, bound[0]), chosen)
    new = sorted(place for place in chosen if not _holds(entries, place))
    kept = bisect_left(entries, new[0]) if new else len(entries)
    held = (*entries[:kept], *sorted({*entries[kept:], *new}))
    # What is looked for at marks alone is marked again where it was marked before.
    places = held[-rules.seen :] if rules.lookback is None else tuple(sorted(chosen))
    return Breakpoints(
        places, held, len(messages), kept_long, context if context in places else None
    )


def _end(messages: Sequence[Message], rules: MarkRules, *, tail: bool) -> Place | None:
    """Return the end of the request, before a part that should not be cached.

    A tool's result is marked as a whole where calls and results are blocks: to leave all of it
    unwritten because of its last part would cost more than that part.
    """
    place = _last(messages, len(messages), rules)
    if not tail or place is None or not place[1]:
        return place
    whole = messages[place[0]].role == "tool" and rules.replies
    return place if whole or place[0] < len(messages) - 1 else (place[0], place[1] - 1)


def _holds(places: Sequence[Place], place: Place) -> bool:
    at = bisect_left(places, place)
    return at < len(places) and places[at] == place


def _branch(
    messages: Sequence[Message],
    rules: MarkRules,
    entries: Sequence[Place],
    shared: int,
    end: Place | None,
) -> Place | None:
    """Return the mark that reads the longest valid entry, if that is out of reach from the end."""
    if rules.lookback is None or not entries or end is None:
        return None
    entry = entries[-1]
    if _reaches(messages, entry, end, rules.lookback):
        return None
    place = _last(messages, shared, rules)
    reached = place is not None and _reaches(messages, entry, place, rules.lookback)
    return place if reached else entry


def _spread(
    messages: Sequence[Message], rules: MarkRules, anew: range, chosen: Sequence[Place]
) -> Iterator[Place]:
    """Places for the remaining marks, spread over what is written again.

    They stand before messages of models and tools, because user messages are never shortened.
    """
    left = rules.most - len(chosen)
    if left <= 0:
        return
    free: dict[Place, None] = {}
    for at in anew:
        message = messages[at]
        if message.role in ("assistant", "tool"):
            place = _last(messages, at, rules)
            if place is not None and place[0] >= anew.start and place not in chosen:
                free[place] = None
    places = list(free)
    for number in range(min(left, len(places))):
        yield places[(number + 1) * len(places) // (min(left, len(places)) + 1)]


def _last(messages: Sequence[Message], end: int, rules: MarkRules) -> Place | None:
    """Return the last place before position `end` that can be marked."""
    for at in range(end - 1, -1, -1):
        message = messages[at]
        part = _part(message, rules)
        if part is not None:
            return at, part
    return None


def _part(message: Message, rules: MarkRules) -> int | None:
    """Return the last part of a message that can be marked: neither thinking nor empty text."""
    if message.role == "tool" and rules.replies:
        return max(0, len(message.parts) - 1)
    if message.role == "assistant":
        if not rules.replies:
            return None
        if message.tool_calls:
            return len(message.parts) + len(message.tool_calls) - 1
    for at in range(len(message.parts) - 1, -1, -1):
        match message.parts[at]:
            case Text(text) if text.strip():
                return at
            case Picture() if message.role == "user":
                return at
            case _:
                pass
    return None


def _before_what_is_shortened(messages: Sequence[Message], rules: MarkRules) -> Iterator[Place]:
    """The places before each message that no call has seen and that is likely to be shortened."""
    start = len(messages)
    while start > 0:
        message = messages[start - 1]
        if message.role == "assistant":
            break
        start -= 1
    for at in range(start, len(messages)):
        message = messages[at]
        long = message.role == "tool" and message.chars > _SHORTENED_CHARS
        if long or message.pictures:
            place = _last(messages, at, rules)
            if place is not None:
                yield place


def _head(
    messages: Sequence[Message],
    rules: MarkRules,
    tools: Tools | None,
    bound: Place | None = None,
) -> Place | None:
    """Give the end of the system prompt, or of the tools where there is none, if it is long enough.

    What stands at or behind `bound` does not belong to it.
    """
    tokens = tools.tokens if tools else 0
    place = (TOOLS, tools.count - 1) if tools and rules.replies else None
    for at in range(len(messages)):
        message = messages[at]
        if not message.is_system or (bound is not None and bound <= (at, 0)):
            break
        if bound is not None and bound[0] == at:
            message = message.with_parts(*message.parts[: bound[1]])
        tokens += size(message)
        part = _part(message, rules)
        if part is not None:
            place = at, part
    return place if tokens >= rules.minimum else None


def _reaches(messages: Sequence[Message], entry: Place, mark: Place, lookback: int) -> bool:
    """Return whether a mark finds an entry, by looking back `lookback` blocks from itself.

    A message has at most as many blocks as parts and calls, so counting these errs on the safe
    side.
    """
    if mark < entry:
        return False
    between = -_blocks(messages, entry[0], entry[1] + 1)
    for at in range(max(0, entry[0]), mark[0]):
        between += _blocks(messages, at)
        if between >= lookback:
            return False
    return between + _blocks(messages, mark[0], mark[1] + 1) < lookback


def _blocks(messages: Sequence[Message], at: int, parts: int | None = None) -> int:
    """Blocks of the message at a position, or of its first `parts` parts and calls."""
    message = messages[at] if at >= 0 else None
    if message is None:
        return 0
    if message.role == "tool":
        return 1
    return len(message.parts) + len(message.tool_calls) if parts is None else parts


def cache_key(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> str:
    """Return one key for all requests that begin with the same tools and system prompt.

    OpenAI sends requests with the same key to the same place, where their prefix is cached.
    """
    head: list[object] = [[spec.name, spec.description, spec.parameters] for spec in tools]
    for message in messages:
        if not message.is_system:
            break
        head.append(message.key)
    digest = hashlib.sha256(canonical_json(head).encode("ascii")).hexdigest()
    return f"windlass-{digest[:32]}"
