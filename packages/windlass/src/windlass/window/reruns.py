"""Calling a tool again: which calls give the same once more, and how a note asks for one.

Asked where a loop offers no way back to originals. What is known of a tool decides, in this order:
its annotations, the tools and shell commands that `kinds` knows, then its name, description and
parameters. Whatever might write, send, leave something to chance or answer only once is taken to
do so.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

from windlass.messages import ToolCall, ToolSpec
from windlass.window.encode.gutters import number_of
from windlass.window.kinds import (
    GETS,
    Kind,
    arguments_of,
    bare_name,
    command_of,
    file_access,
    reads_only,
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_READS: Final = _set(
    """cat count describe fetch find get glob grep inspect list look lookup ls peek query read
    retrieve search show stat tree view"""
)
"""Verbs of tools that read."""
_EFFECTS: Final = _set(
    """accept ack acknowledge add append apply approve archive ask assign book build buy cancel
    charge checkout claim clear click clone close commit compile configure confirm consume convert
    copy create deactivate decline delegate delete deploy dequeue disable dispatch drop edit email
    enable enqueue execute export fix flush forward generate grant import increment init insert
    install invite invoke issue kill launch lock login logout mark merge message modify move mutate
    navigate notify order patch pay pick place poll pop post press prompt publish purchase push put
    rate rebuild receive record redeem refund register reject release remove rename reopen replace
    reply reschedule reserve reset resolve restart restore resume retry revoke roll rollback rotate
    run save schedule scroll sell send set share shuffle sign sleep spawn start stop submit
    subscribe swap switch sync terminate toggle trade train transfer trigger undo unlock unsubscribe
    update upgrade upload upsert vote wait withdraw write"""
)
"""Verbs of tools that do something, or answer otherwise each time."""
_SAID_OF_READERS: Final = frozenset({"run", "execute"})
"""Those of them that descriptions of readers begin with, too."""
_ONCE: Final = _set(
    """agent agents approval assistant captcha challenge confirmation consent current dice feedback
    human input latest live llm new next nonce now once otp output passcode permission queue quiz
    random screen screenshot snapshot stream subagent token unread uuid"""
)
"""Words in the names of tools whose answer is chance, a person's, an agent's, or there once."""
_JOINS: Final = frozenset({"and", "or", "then"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ABOUT_CHARS: Final = 1_000
"""Characters of a description that are read."""
_CHANCE: Final = re.compile(
    r"\brandom(?:ly|ised|ized)?\b|\b(?:one|single)[- ](?:time|use)\b|\bonly once\b"
    r"|\bconsum(?:e|es|ing)\b|\beach (?:call|time|invocation)\b|\bsub-?agent\b",
    re.IGNORECASE,
)
"""What a description says of a tool that gives another answer each time."""
_ALSO: Final = re.compile(r"\b(?:and|then|or)\s+(?:also\s+)?([A-Za-z]+)")
_GIVEN: Final = _set(
    """amount body content contents message new_str new_text new_value patch payload recipient
    recipients"""
)
"""Parameters of what a tool does something with."""
_ORDERS: Final = _set(
    "ack acknowledge clear consume delete execute mark notify overwrite pop remove send"
)
"""Verbs that parameters begin with where a reader is told to do more than read."""
_ORDER: Final = re.compile(
    r"\s*(?:insert|update|delete|drop|alter|create|truncate|merge|grant|mutation)\b", re.IGNORECASE
)
"""How queries begin that change something."""
_METHODS: Final = ("method", "http_method")
_RANGES: Final = _set(
    """end_index end_line first_line from_line last_line limit line_end line_range line_start lines
    offset range start_index start_line to_line view_range"""
)
"""Parameters by which a tool gives a part of a file."""
_WRAPPED: Final = re.compile(r"\s*[<{\[]")
"""How results begin that are more than the text of a file or the output of a program."""
_NEAR: Final = 5
Span: TypeAlias = tuple[int, int]
"""The first and the last of some lines, counted from 1."""


@dataclass(frozen=True)
class Reruns:
    """What the tools of a loop give once more.

    Args:
        specs: What is known of the tools, by name; calls of others are judged by themselves.
    """

    specs: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])

    def give_again(self, call: ToolCall | None) -> bool:
        """Return whether the same call gives the same again, and does nothing else."""
        if call is None:
            return False
        spec = self.specs.get(call.name)
        said = _annotations(spec)
        again = said.get("idempotentHint") is True and said.get("destructiveHint") is False
        if not again and (said.get("readOnlyHint") is False or said.get("destructiveHint") is True):
            return False
        known = reads_only(call)
        if known is not None:
            return known or said.get("readOnlyHint") is True
        words = _words(bare_name(call.name))
        if not _ONCE.isdisjoint(words) or _CHANCE.search(_about(spec)):
            return False
        return again or said.get("readOnlyHint") is True or _reads(words, call, spec)

    def hint(
        self, call: ToolCall, kind: Kind, text: str, *, part: bool, lines: Span | None = None
    ) -> str:
        """Return how a note says to call the tool again.

        Args:
            call: The call whose result is not shown whole.
            kind: What the result is.
            text: The result as it came.
            part: Whether a part of it is shown.
            lines: The lines of the text that are not (None: not known).
        """
        name = call.name
        numbers = numbers_of(lines, text, call) if lines else None
        span = numbers and f"{numbers[0]}-{numbers[1]}"
        if command_of(call):
            again = f"run it again with {name}"
            if span:
                return f"{again} and a filter: lines {span} by sed -n '{span.replace('-', ',')}p'"
            return f"{again}, filtered or the same for all of it" if part else again
        if kind == "file" and span and self._takes(call, _RANGES):
            return f"read lines {span} again with {name}"
        again = f"call {name} again"
        if not part:
            return again
        if not self._takes(call):
            return f"{again} for all of it"
        less = "narrower" if kind in ("search", "listing") else "for less"
        return f"{again}, {less} or the same for all of it"

    def _takes(self, call: ToolCall, names: Collection[str] = ()) -> bool:
        """Say whether a tool takes one of these parameters, or without names one that is not given.

        One whose parameters are not known does.
        """
        if (spec := self.specs.get(call.name)) is None:
            return True
        taken = _parameters(spec)
        return not taken.isdisjoint(names) if names else bool(taken - arguments_of(call).keys())


def _annotations(spec: ToolSpec | None) -> Mapping[str, Any]:
    """Return what the list of tools says of a tool's effects, in MCP's words; empty: nothing."""
    if spec is None or spec.own is None or '"annotations"' not in spec.own.data:
        return {}
    own = json.loads(spec.own.data)
    held = (own.get("annotations"), (own.get("function") or {}).get("annotations"))
    return next((one for one in held if isinstance(one, dict)), {})


def _about(spec: ToolSpec | None) -> str:
    return spec.description[:_ABOUT_CHARS] if spec else ""


def _parameters(spec: ToolSpec | None) -> AbstractSet[str]:
    """Return the names of a tool's parameters."""
    held = spec.parameters.get("properties") if spec else None
    return held.keys() if isinstance(held, Mapping) else frozenset()


def _words(name: str) -> list[str]:
    """Return the words of a name, in small letters, however they are joined."""
    return [word.lower() for word in _WORD.findall(name)]


def _acts(word: str) -> bool:
    """Return whether a word of a description says that the tool does something (`sends`)."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es")}
    return not (_EFFECTS - _SAID_OF_READERS).isdisjoint(stems)


def _reads(words: Sequence[str], call: ToolCall, spec: ToolSpec | None) -> bool:
    """Return whether a tool that is not known only reads, by name, description and parameters."""
    verb = next((at for at, word in enumerate(words) if word in _READS or word in _EFFECTS), None)
    if verb is None or words[verb] in _EFFECTS or words == ["get"]:
        return False
    rest = words[verb + 1 :]
    if not _JOINS.isdisjoint(rest) and not _EFFECTS.isdisjoint(rest):
        return False  # get_or_create
    about = _about(spec)
    told = [*_words(about)[:1], *(also[1].lower() for also in _ALSO.finditer(about))]
    arguments = arguments_of(call)
    parameters = _parameters(spec) | arguments.keys()
    orders = {word for name in parameters for word in _words(name)[:1]}
    if any(map(_acts, told)) or not (_GIVEN.isdisjoint(parameters) and _ORDERS.isdisjoint(orders)):
        return False
    methods = (str(arguments.get(name) or "").upper() for name in _METHODS)
    texts = (one for one in arguments.values() if isinstance(one, str))
    return all(one in GETS for one in methods) and not any(map(_ORDER.match, texts))


def numbers_of(lines: Span, text: str, call: ToolCall) -> Span | None:
    """Return the numbers by which a call asks for some lines of its result.

    None: they are not known.

    Those of the file where it was read with a tool, those of the output where a command ran.
    """
    shown = text.split("\n")
    if not command_of(call):
        places = range(lines[0] - 1, min(lines[1], len(shown)))
        ends = (places[:_NEAR], places[: -_NEAR - 1 : -1])
        numbers = [
            next(((at, no) for at in end if (no := number_of(shown[at])) is not None), None)
            for end in ends
        ]
        match numbers:
            case [(int(low), int(first)), (int(high), int(last))] if last - first == high - low:
                return first, last
    if _WRAPPED.match(text):
        return None
    reads = None if command_of(call) else file_access(call).reads
    ahead_of = reads.first - 1 if reads else 0
    return lines[0] + ahead_of, lines[1] + ahead_of


def lines_left_out(text: str, shown: str, starts: Sequence[int] | None) -> Span | None:
    """Return the longest run of lines of a text that a shorter form of it has not.

    None: there is none.

    `starts` says at which line of the original each of its lines begins (None: they are none).
    """
    if starts is None:
        return None
    places: dict[str, list[int]] = {}
    for at, line in enumerate(text.split("\n")):
        places.setdefault(line, []).append(at)
    ends = [0]
    for line in shown.split("\n"):
        known = places.get(line, ())
        next_one = bisect_left(known, ends[-1])
        if next_one < len(known):
            ends.append(known[next_one] + 1)
    gaps = [(end - 1 - begin, begin) for begin, end in pairwise([*ends, len(starts) + 1])]
    count, begin = max(gaps, key=lambda gap: gap[0])
    if count < 1:
        return None
    after = begin + count
    last = starts[after] - 1 if after < len(starts) else starts[-1]
    return starts[begin], max(last, starts[begin])
