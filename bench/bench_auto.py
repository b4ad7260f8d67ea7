"""A ten-phase session that chooses its context, beside a snowball: tokens, sight, money.

Run: `python -m bench.bench_auto [--calls 1 3 10] [--source NAME ...] [--every N] [--most N]
[--half even|odd] [--variant NAME=JSON ...] [--json FILE]`. A session is a stretch of a recorded run
(`bench/scenarios/recorded.py`), replayed through the real runner. WINDLASS_DATA names the folder of
the recordings.

For each variant, planned and billed at each price vector: input tokens as a share of the
snowball's, the share of the values and lines that calls took out of earlier results and had in
view (`windlass.replays.measure`), and the bill as a share of the snowball's. Tokens and bills are
means over the sessions, the long ones counting no more than the others; beside the bill stands
the dearest session's.
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

from bench.scenarios.measure import CLOSED, Ran, Report, Variant, needs_by_call, report
from bench.scenarios.recorded import COUNTS_AS, MODEL, Recorded, sessions_in
from bench.windows.recordings import Half, data_folder, load

from windlass.api.opening import open_store
from windlass.caching.rates import override
from windlass.cascade.load import from_python
from windlass.cascade.ready import ReadyCascade
from windlass.engine.cascade import run_cascade
from windlass.engine.cascade_run import Access
from windlass.engine.opening import open_session
from windlass.engine.session_tools import recall
from windlass.engine.setup import prepare
from windlass.messages import Message, ToolSpec
from windlass.providers.at_hand import Providers
from windlass.providers.scripted import Scripted
from windlass.replays.pricing import VECTORS, Vector
from windlass.settings.settings import Settings
from windlass.text.tokens import FamilyCounter
from windlass.tools.base import Tool
from windlass.tools.registry import Registry, make_tool
from windlass.wire.base import Request

SOURCES: Final = ("swebench_mini", "claude_code_openagents", "swe_agent", "agentdojo", "intercode")
"""Sources of runs whose results are text."""

BEFORE: Final = Variant("snowball")
_OFF: Final = {"intra_phase": False}
VARIANTS: Final = (
    Variant("chosen, at once", {"auto_context": {"commit": "at_once", **_OFF}}),
    Variant("chosen, priced", {"auto_context": _OFF}),
    Variant("chosen, windows, at once", {"auto_context": {"commit": "at_once"}}),
    Variant("chosen, windows, priced", {"auto_context": {}}),
)


class Replayed(Ran):
    """A finished run of a recorded session under a variant, planned at a price vector."""

    def __init__(self, session: Recorded, variant: Variant, vector: Vector) -> None:
        self.session = session
        self._counter = FamilyCounter(COUNTS_AS)
        replies = iter(session.replies)

        def reply(request: Request) -> Message | str:
            return CLOSED if _closes(request) else next(replies)

        provider = Scripted(reply, counts_as=COUNTS_AS, window=1_000_000)
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            Path("windlass.toml").write_text(
                f'[prices."{MODEL}"]\ninput = 1.0\noutput = 5.0\n'
                f"cache_read = {vector.read}\ncache_write = {vector.write}\n",
                encoding="utf-8",
            )
            asyncio.run(self._run(session, variant, provider))
        self.requests = [request for request in provider.requests if not _closes(request)]
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
        store = open_store(settings)
        try:
            with override(settings.prices), open_session(store) as opened:
                run = prepare(
                    ReadyCascade(from_python(cascade).cascade, registry, {}),
                    {"task": session.task},
                    opened,
                    settings=settings,
                    access=Access(made.resolve),
                    on_event=lambda _: None,
                )
                result = await run_cascade(run)
        finally:
            await made.close()
            store.close()
        if result.error is not None:
            raise RuntimeError(str(result.error))


def _closes(request: Request) -> bool:
    """Whether it closes a phase that ends with a call, as it may where it was cut out."""
    return request.tool_choice == "none"


def _replaying(name: str, left: dict[tuple[str, str], list[str]]) -> Any:
    async def replay(**arguments: Any) -> str:
        told = left[name, json.dumps(arguments, sort_keys=True)]
        return told.pop(0) if len(told) > 1 else told[0]

    return replay


@dataclass
class Line:
    """All sessions under one variant at one price vector, with so many calls a phase."""

    calls: int
    variant: str
    prices: str
    sessions: int
    tokens: float
    values: float
    lines: float
    bill: float
    dearest: float
    missed: list[str]


def lines_of(
    sessions: Sequence[Recorded], calls: int, variants: Sequence[Variant], vectors: Sequence[Vector]
) -> Iterator[Line]:
    """One line for each variant and price vector."""
    told: dict[tuple[str, str], list[Report]] = {}
    for session in sessions:
        untouched = Replayed(session, BEFORE, vectors[0])
        needs = needs_by_call(untouched)
        for variant in (BEFORE, *variants):
            for vector in vectors:
                ran = untouched if variant is BEFORE else Replayed(session, variant, vector)
                one = report(ran, variant, vector, needs)
                told.setdefault((variant.name, vector.name), []).append(one)
        print(f"{calls} calls a phase: {session.name}", file=sys.stderr)
    for (name, prices), reports in told.items():
        wholes = told[BEFORE.name, prices]
        bills = [one.money / whole.money for one, whole in zip(reports, wholes, strict=True)]
        values, lines = (sum(getattr(one, what) for one in reports) for what in ("values", "lines"))
        yield Line(
            calls=calls,
            variant=name,
            prices=prices,
            sessions=len(reports),
            tokens=fmean(o.total / w.total for o, w in zip(reports, wholes, strict=True)),
            values=sum(one.values_seen for one in reports) / max(1, values),
            lines=sum(one.lines_seen for one in reports) / max(1, lines),
            bill=fmean(bills),
            dearest=max(bills),
            missed=[f"{one.session}, {text}" for one in reports for text in one.missed],
        )


def table(lines: Sequence[Line]) -> str:
    """The lines as text."""
    head = f"{'calls':>5} {'sessions':>8} {'variant':28} {'prices':10}"
    told = [f"{head} {'tokens':>7} {'values':>7} {'lines':>7} {'bill (dearest)':>15}"]
    for one in lines:
        text = f"{one.calls:5} {one.sessions:8} {one.variant:28} {one.prices:10} {one.tokens:7.1%}"
        text += f" {one.values:7.2%} {one.lines:7.2%} {one.bill:7.3f} ({one.dearest:.3f})"
        told.append(text)
    return "\n".join(told)


def sessions_of(
    folder: Path, sources: Sequence[str], calls: int, *, every: int = 1, half: Half = "all"
) -> list[Recorded]:
    """Sessions out of the recordings that are long enough."""
    found: list[Recorded] = []
    for recording in load(folder, sources, half, every):
        found += sessions_in(recording, calls)
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
    parser.add_argument("--every", type=int, default=1, help="each N-th recording of a source")
    parser.add_argument("--half", choices=["all", "even", "odd"], default="all")
    parser.add_argument("--most", type=int, default=100, help="sessions at most")
    parser.add_argument("--prices", action="append", choices=[one.name for one in VECTORS])
    parser.add_argument("--variant", action="append", type=parsed, help="in place of the usual")
    parser.add_argument("--missed", type=int, default=0, help="how many values out of view to list")
    parser.add_argument("--json", type=Path, help="write the lines to this file as JSON")
    asked = parser.parse_args()
    vectors = [one for one in VECTORS if asked.prices is None or one.name in asked.prices]
    lines: list[Line] = []
    for calls in asked.calls:
        sources = asked.source or SOURCES
        found = sessions_of(data_folder(), sources, calls, every=asked.every, half=asked.half)
        lines += lines_of(found[: asked.most], calls, asked.variant or VARIANTS, vectors)
    print(table(lines))
    for one in lines:
        for text in one.missed[: asked.missed]:
            print(f"{one.calls} {one.variant}, {one.prices}: {text}")
    if asked.json:
        told = json.dumps([asdict(one) for one in lines], indent=2)
        asked.json.write_text(told + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
