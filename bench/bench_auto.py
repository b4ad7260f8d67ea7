"""A ten-phase session that chooses its context, beside a snowball: tokens, sight, money.

Run: `python -m bench.bench_auto [--calls 1 3 10] [--source NAME ...] [--every N] [--most N]
[--variant NAME=JSON ...] [--json FILE]`. A session is one recorded run, cut into ten phases of so
many calls each and replayed through the real runner: the cascade's input is the recorded task, the
instructions of a phase are what the user says there, or what the agent says it sets out to do.
WINDLASS_DATA names the folder of the recordings.

For each variant: input tokens as a share of the snowball's, the share of the values and lines
that calls took out of earlier results and had in view (`bench/windows/needs.py`), and at each
price vector the bill as a share of the snowball's. Shares are means over the sessions, the long
ones counting no more than the others; beside the bill stands the dearest session's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from bench.scenarios.measure import Ran, Report, Variant, needs_by_call, report
from bench.scenarios.sessions import Session
from bench.windows.bill import VECTORS, Vector
from bench.windows.recordings import Chat, Recording, data_folder, load

from windlass.cascade.check import checked
from windlass.engine.cascade import run_cascade
from windlass.engine.recall import recall
from windlass.library import open_store, prepare
from windlass.messages import Message, ToolCall, ToolSpec, assistant
from windlass.prices import override
from windlass.providers.at_hand import Providers
from windlass.providers.scripted import Scripted
from windlass.settings import Settings
from windlass.tokens import FamilyCounter
from windlass.tools.base import Tool
from windlass.tools.registry import Registry, make_tool

PHASES: Final = 10
SOURCES: Final = ("swebench_mini", "claude_code_openagents", "swe_agent", "agentdojo", "intercode")
"""Sources of runs whose results are text."""
LEAST_TOKENS: Final = 30_000
"""Tokens of results: what is shorter fits the documented `max_tokens` as a whole."""
COUNTS_AS: Final = "gpt-4o"
MODEL: Final = "scripted/function"
GO_ON: Final = "Go on with the task."

BEFORE: Final = Variant("snowball")
_OFF: Final = {"intra_phase": False}
VARIANTS: Final = (
    Variant("chosen, at once", {"auto_context": {"commit": "at_once", **_OFF}}),
    Variant("chosen, priced", {"auto_context": _OFF}),
    Variant("chosen, windows, at once", {"auto_context": {"commit": "at_once"}}),
    Variant("chosen, windows, priced", {"auto_context": {}}),
)


@dataclass(frozen=True)
class Recorded(Session):
    """A session out of a recording: `results` are those of its calls, by name and arguments."""

    results: dict[tuple[str, str], list[str]]
    task: str


def session_of(recording: Recording, calls: int, phases: int = PHASES) -> Recorded | None:
    """The stretch of a recording with the most to read, as a cascade of ten phases.

    None: it has no `phases` times `calls` calls, or their results are too short for anything to
    be saved by choosing.
    """
    turns = list(_turns(recording.messages))
    count = phases * calls
    if len(turns) < count:
        return None
    count_of = FamilyCounter(COUNTS_AS).text
    sizes = [sum(map(count_of, turn.results)) for turn in turns]
    starts = range(len(turns) - count + 1)
    # What the last call brought is in no request.
    start = max(starts, key=lambda at: sum(sizes[at : at + count - 1]))
    turns = turns[start : start + count]
    if sum(sizes[start : start + count - 1]) < LEAST_TOKENS:
        return None
    system, task = _told(recording.messages)
    made: list[dict[str, Any]] = []
    for number in range(phases):
        own = turns[number * calls : (number + 1) * calls]
        users = [text for turn in own for text in turn.said]
        asked = "\n\n".join(users) or own[0].message.text or GO_ON
        made.append(
            {
                "name": f"p{number + 1}",
                "instructions": "{{ input.task }}" if not number else _raw(asked),
                "tackle": ["manifest"],
                "rules": {"max_turns": calls},
            }
        )
    names = sorted({call.name for turn in turns for call in turn.message.tool_calls})
    for phase in made:
        phase["tackle"] = names
    results: dict[tuple[str, str], list[str]] = {}
    for turn in turns:
        for call, text in zip(turn.message.tool_calls, turn.results, strict=True):
            results.setdefault((call.name, call.arguments), []).append(text)
    cascade: dict[str, Any] = {"cascade_id": "recorded", "model": MODEL, "phases": made}
    if system:
        cascade["system"] = _raw(system)
    replies = [turn.message for turn in turns]
    return Recorded(recording.id, recording.id, cascade, (), replies, (), results, task)


@dataclass(frozen=True)
class _Turn:
    """One call: what users said before it, the reply, and the results of its calls in order."""

    said: tuple[str, ...]
    message: Message
    results: tuple[str, ...]


def _turns(messages: Sequence[Chat]) -> Iterator[_Turn]:
    """The calls of a recording that used tools; what was only said goes with the next of them."""
    said: list[str] = []
    spoken: list[str] = []
    first = True
    for at, chat in enumerate(messages):
        text = _text(chat)
        if chat["role"] == "user" and not first:
            said.append(text)
        if chat["role"] != "assistant":
            continue
        first = False
        asked = chat.get("tool_calls") or ()
        if not asked:
            spoken.append(text)
            continue
        calls = [
            ToolCall(
                f"c{at}_{number}",
                "".join(c if c.isalnum() or c == "_" else "_" for c in one["function"]["name"]),
                json.dumps(json.loads(one["function"]["arguments"] or "{}"), sort_keys=True),
            )
            for number, one in enumerate(asked)
        ]
        results = {
            one["tool_call_id"]: _text(one)
            for one in messages[at + 1 : at + 1 + len(asked)]
            if one["role"] == "tool"
        }
        words = "\n\n".join(one for one in (*spoken, text) if one)
        yield _Turn(
            tuple(said),
            assistant(words, calls=calls),
            tuple(results.get(one["id"], "") for one in asked),
        )
        said, spoken = [], []


def _told(messages: Sequence[Chat]) -> tuple[str, str]:
    """The system prompt and the task: what was said before the first reply."""
    head: list[Chat] = []
    for chat in messages:
        if chat["role"] == "assistant":
            break
        head.append(chat)
    system = [_text(chat) for chat in head if chat["role"] in ("system", "developer")]
    return "\n\n".join(system), "\n\n".join(_text(c) for c in head if c["role"] == "user") or GO_ON


def _text(chat: Chat) -> str:
    content = chat.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _raw(text: str) -> str:
    return "{% raw %}" + text + "{% endraw %}"


class Replayed(Ran):
    """A finished run of a recorded session under a variant, planned at a price vector."""

    def __init__(self, session: Recorded, variant: Variant, vector: Vector) -> None:
        self.session = session
        self._counter = FamilyCounter(COUNTS_AS)
        replies = iter(session.replies)
        provider = Scripted(lambda _: next(replies), counts_as=COUNTS_AS, window=1_000_000)
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            Path("windlass.toml").write_text(
                f'[prices."{MODEL}"]\ninput = 1.0\noutput = 5.0\n'
                f"cache_read = {vector.read}\ncache_write = {vector.write}\n",
                encoding="utf-8",
            )
            asyncio.run(self._run(session, variant, provider))
        self.requests = provider.requests
        if len(self.requests) != len(session.replies):
            made = len(self.requests)
            raise RuntimeError(f"it made {made} calls in place of {len(session.replies)}")

    async def _run(self, session: Recorded, variant: Variant, provider: Scripted) -> None:
        settings = Settings.read({"store": ".windlass"}, {}, Path.cwd())
        left = {key: list(texts) for key, texts in session.results.items()}
        names = {name for name, _ in left}
        cascade = variant.over(session.cascade)
        registry = Registry()
        registry.register(make_tool(recall))
        for name in names:
            spec = ToolSpec(name, "A tool of the recording.", {"type": "object"})
            registry.register(Tool(spec, _replaying(name, left)))
        made = Providers({"scripted": provider}, settings)
        keeper = open_store(settings)
        try:
            with override(settings.prices):
                run = prepare(
                    checked(cascade, tools=registry),
                    {"task": session.task},
                    registry=registry,
                    settings=settings,
                    keeper=keeper,
                    resolve=made.resolve,
                    on_event=lambda _: None,
                )
                result = await run_cascade(run)
        finally:
            await made.close()
            keeper.close()
        if result.error is not None:
            raise RuntimeError(str(result.error))


def _replaying(name: str, left: dict[tuple[str, str], list[str]]) -> Any:
    async def replay(**arguments: Any) -> str:
        told = left[name, json.dumps(arguments, sort_keys=True)]
        return told.pop(0) if len(told) > 1 else told[0]

    return replay


@dataclass
class Line:
    """All sessions under one variant, with so many calls a phase."""

    calls: int
    variant: str
    sessions: int
    tokens: float
    values: float
    lines: float
    bill: dict[str, float]
    dearest: dict[str, float]
    missed: list[str]


def lines_of(
    sessions: Sequence[Recorded], calls: int, variants: Sequence[Variant], vectors: Sequence[Vector]
) -> Iterator[Line]:
    """One line for each variant."""
    told: dict[str, dict[str, list[Report]]] = {}
    for session in sessions:
        untouched = Replayed(session, BEFORE, vectors[0])
        needs = needs_by_call(untouched)
        for vector in vectors:
            before = report(untouched, BEFORE, vector, needs)
            told.setdefault(BEFORE.name, {}).setdefault(vector.name, []).append(before)
        for variant in variants:
            for vector in vectors:
                ran = Replayed(session, variant, vector)
                one = report(ran, variant, vector, needs)
                told.setdefault(variant.name, {}).setdefault(vector.name, []).append(one)
        print(f"{calls} calls a phase: {session.name}", file=sys.stderr)
    for name, by_vector in told.items():
        first = next(iter(by_vector.values()))
        wholes = told[BEFORE.name]
        values = sum(one.values for one in first)
        lines = sum(one.lines for one in first)
        yield Line(
            calls=calls,
            variant=name,
            sessions=len(first),
            tokens=_mean(first, wholes[vectors[0].name], "total"),
            values=sum(one.values_seen for one in first) / max(1, values),
            lines=sum(one.lines_seen for one in first) / max(1, lines),
            bill={v: _mean(by_vector[v], wholes[v], "money") for v in by_vector},
            dearest={
                v: max(o.money / w.money for o, w in zip(by_vector[v], wholes[v], strict=True))
                for v in by_vector
            },
            missed=[f"{one.session}, {text}" for one in first for text in one.missed],
        )


def _mean(ours: Sequence[Report], theirs: Sequence[Report], what: str) -> float:
    pairs = zip(ours, theirs, strict=True)
    return fmean(float(getattr(one, what)) / getattr(other, what) for one, other in pairs)


def table(lines: Sequence[Line]) -> str:
    """The lines as text."""
    vectors = list(lines[0].bill)
    head = f"{'calls':>5} {'variant':28} {'sessions':>8} {'tokens':>7} {'values':>7} {'lines':>7}"
    head += "".join(f" {f'{name} (dearest)':>22}" for name in vectors)
    told = [head]
    for one in lines:
        text = f"{one.calls:5} {one.variant:28} {one.sessions:8} {one.tokens:7.1%}"
        text += f" {one.values:7.2%} {one.lines:7.2%}"
        text += "".join(f" {one.bill[v]:13.3f} ({one.dearest[v]:.3f})" for v in vectors)
        told.append(text)
    return "\n".join(told)


def sessions_of(
    folder: Path, sources: Sequence[str], calls: int, every: int, most: int
) -> list[Recorded]:
    """Sessions out of the recordings that are long enough."""
    found: list[Recorded] = []
    for recording in load(folder, sources, every=every):
        session = session_of(recording, calls)
        if session is not None:
            found.append(session)
        if len(found) == most:
            break
    return found


def parsed(text: str) -> Variant:
    """`NAME=JSON` as a variant: the JSON is laid over the cascade."""
    name, _, settings = text.partition("=")
    return Variant(name, json.loads(settings))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 3, 10], help="a phase")
    parser.add_argument("--source", action="append", choices=SOURCES, help="default: all")
    parser.add_argument("--every", type=int, default=8, help="each N-th recording of a source")
    parser.add_argument("--most", type=int, default=40, help="sessions at most")
    parser.add_argument("--prices", action="append", choices=[one.name for one in VECTORS])
    parser.add_argument("--variant", action="append", type=parsed, help="in place of the usual")
    parser.add_argument("--missed", type=int, default=0, help="how many values out of view to list")
    parser.add_argument("--json", type=Path, help="write the lines to this file as JSON")
    asked = parser.parse_args()
    vectors = [one for one in VECTORS if asked.prices is None or one.name in asked.prices]
    lines: list[Line] = []
    for calls in asked.calls:
        found = sessions_of(data_folder(), asked.source or SOURCES, calls, asked.every, asked.most)
        lines += lines_of(found, calls, asked.variant or VARIANTS, vectors)
    print(table(lines))
    for one in lines:
        for text in one.missed[: asked.missed]:
            print(f"{one.calls} {one.variant}: {text}")
    if asked.json:
        told = json.dumps([asdict(one) for one in lines], indent=2)
        asked.json.write_text(told + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
