"""One session run by Windlass under a variant of its settings: tokens, money, what calls saw.

Tokens are Windlass' own count for the family that is asked for; money follows the
definitions of `bench/windows`, with the tool list as the head of each request.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.scenarios.sessions import Session
from bench.windows.recordings import Chat, Recording

import windlass
from windlass.providers.scripted import Scripted
from windlass.replays.measure import NeededText, needs_of
from windlass.replays.numbered import NumberedMessages
from windlass.replays.pricing import Vector, measure_calls
from windlass.text.tokens import FamilyCounter
from windlass.wire.base import Request
from windlass.wire.openai import to_openai


@dataclass(frozen=True)
class Variant:
    """Settings laid over a cascade. `phases` goes into each phase, `env` into the environment."""

    name: str
    cascade: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def over(self, cascade: Mapping[str, Any]) -> dict[str, Any]:
        """The cascade with these settings."""
        made = merged(cascade, self.cascade)
        made["phases"] = [merged(phase, self.phases) for phase in made["phases"]]
        return made


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """`one` with the keys of `other`, objects key by key."""
    made = dict(one)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = merged(made[key], value) if both else value
    return made


@dataclass
class Report:
    """A session under a variant, planned and billed at one price vector.

    `tokens` are each call's input tokens, `money` is in fresh input tokens.
    """

    session: str
    variant: str
    vector: str
    documented: list[int]
    tokens: list[int]
    total: int
    last: int
    money: float
    values: int
    values_seen: int
    lines: int
    lines_seen: int
    missed: list[str]


CLOSED: Final = "Noted."
"""The reply that closes a phase of a recording, in which it is no call."""


class Ran:
    """A finished run: its requests, as chat messages with their tools in front.

    Raises RuntimeError where the run failed or did not make the session's calls.
    """

    def __init__(self, session: Session, variant: Variant, vector: Vector, counts_as: str) -> None:
        replies = iter(session.replies)
        provider = Scripted(lambda _: next(replies), counts_as=counts_as)
        with tempfile.TemporaryDirectory() as folder, _environment(variant.env), chdir(folder):
            # Dollars a million tokens, a fresh one 1: the run plans at these prices.
            Path("windlass.toml").write_text(
                f'[prices."{session.cascade["model"]}"]\ninput = 1.0\noutput = 5.0\n'
                f"cache_read = {vector.read}\ncache_write = {vector.write}\n",
                encoding="utf-8",
            )
            result = windlass.run_sync(
                variant.over(session.cascade),
                {"question": "How do prices of homes move?"},
                store=".windlass",
                tools=session.tools,
                providers={"scripted": provider},
            )
        if result.error is not None:
            raise RuntimeError(str(result.error))
        self.requests = provider.requests
        if len(self.requests) != len(session.replies):
            made = len(self.requests)
            raise RuntimeError(f"it made {made} calls in place of {len(session.replies)}")
        self._counter = FamilyCounter(counts_as)
        self.session = session

    def recording(self, number: int) -> Recording:
        """What a call was sent, by its number from 0, and its reply."""
        chats = [to_openai(message, _load) for message in self.requests[number].messages]
        last = self.session.replies[number]
        reply = {"role": "assistant", "content": last} if isinstance(last, str) else to_openai(last)
        return Recording(self.session.name, "scenario", (*chats, reply))

    def numbers(self, request: Request, shown: NumberedMessages) -> list[int]:
        """The request in numbers of `shown`, whose tokens become Windlass' own count."""
        tools = json.dumps([spec.to_openai() for spec in request.tools])
        head: Chat = {"role": "tools", "content": tools}
        made = [shown.number(head)]
        shown.tokens[made[0]] = self._counter.tools(request.tools) + self._counter.opening
        for message in request.messages:
            number = shown.number(to_openai(message, _load))
            shown.tokens[number] = self._counter.message(message)
            made.append(number)
        return made


def needs_by_call(untouched: Ran) -> list[list[NeededText]]:
    """What each call needed, by its number, read off the untouched run."""
    recordings = map(untouched.recording, range(len(untouched.requests)))
    return [needs_of(each).get(len(each.messages) - 1, []) for each in recordings]


def report(ran: Ran, variant: Variant, vector: Vector, needs: list[list[NeededText]]) -> Report:
    """The figures of a run; `needs` are those of the untouched one."""
    shown = NumberedMessages()
    windows = [ran.numbers(request, shown) for request in ran.requests]
    calls = measure_calls(windows, shown)
    missed = [
        (need, number)
        for number, (window, wanted) in enumerate(zip(windows, needs, strict=True))
        for need in wanted
        if not any(shown.holds(one, need.text) for one in window)
    ]
    tokens = [round(call.tokens) for call in calls]
    kinds = [need.kind for wanted in needs for need in wanted]
    lost = [need.kind for need, _ in missed]
    return Report(
        session=ran.session.name,
        variant=variant.name,
        vector=vector.name,
        documented=list(ran.session.documented),
        tokens=tokens,
        total=sum(tokens),
        last=tokens[-1],
        money=sum(call.units(vector) for call in calls),
        values=kinds.count("value"),
        values_seen=kinds.count("value") - lost.count("value"),
        lines=kinds.count("line"),
        lines_seen=kinds.count("line") - lost.count("line"),
        missed=[f"call {number + 1}: {need.text}" for need, number in missed],
    )


def _load(sha256: str) -> bytes:
    # Only told apart by their hash; the bytes are in the store and not needed.
    return sha256.encode()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
