"""The documents' own scenarios through the real runner: tokens a call, money, what calls saw.

Run: `python -m bench.bench_scenarios [SESSION ...] [--variant NAME=JSON ...]
[--prices NAME ...] [--counts-as gpt-4o] [--json FILE]`. Sessions: five_phases, research, loop,
five_soundings, refined_soundings.

A variant is settings laid over the cascade: an object with `cascade`, `phases` (put
into each phase) and `env`. `before` is untouched. Each is run once a price vector, planned
and billed at it; money is in fresh input tokens. A variant whose settings this version
does not know is named and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.scenarios.measure import Ran, Report, Variant, needs_by_call, report
from bench.scenarios.sessions import SESSIONS, Session

from windlass.errors import WindlassError
from windlass.replays.pricing import VECTORS, Vector

BEFORE: Final = Variant("before")

SHORT_RESULTS: Final = Variant(
    "auto, short results",
    cascade={
        "auto_context": {
            "intra_phase": {
                "cuts": None,
                "compress": {"above_chars": 3_000, "max_result_tokens": 500},
            }
        }
    },
)
"""What the 15 turns cost where large results are cut before they are first sent."""
LEAN: Final = Variant("auto lean", cascade={"auto_context": {"profile": "lean"}})
"""What the 10 attempts cost where earlier ones keep 200 characters."""

VARIANTS: Final = (
    Variant("strategy minimal", phases={"context_strategy": "minimal"}),
    Variant("strategy sliding", phases={"context_strategy": "sliding"}),
    Variant("keep 10 turns", env={"WINDLASS_KEEP_RECENT_TURNS": "10"}),
    Variant(
        "keep 10 turns, 3 images",
        env={"WINDLASS_KEEP_RECENT_TURNS": "10", "WINDLASS_KEEP_RECENT_IMAGES": "3"},
    ),
    Variant("auto", cascade={"auto_context": {}}),
    Variant("auto spec", cascade={"auto_context": {"profile": "spec"}}),
    Variant("auto at once", cascade={"auto_context": {"commit": "at_once"}}),
    LEAN,
    SHORT_RESULTS,
)


HEAD: Final = (
    f"{'variant':26} {'prices':10} {'in all':>9} {'last':>8} {'money':>9} {'/before':>7}"
    f" {'values':>9} {'lines':>7}"
)


def reports(
    session: Session, variants: Sequence[Variant], vectors: Sequence[Vector], counts_as: str
) -> Iterator[Report]:
    """The session untouched, and then under each variant that can be run."""
    untouched = Ran(session, BEFORE, vectors[0], counts_as)
    needs = needs_by_call(untouched)
    for vector in vectors:
        yield report(untouched, BEFORE, vector, needs)
    for variant in variants:
        try:
            for vector in vectors:
                yield report(Ran(session, variant, vector, counts_as), variant, vector, needs)
        except (WindlassError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            print(f"{session.name}, {variant.name}: left out, {reason}", file=sys.stderr)


def table(title: str, told: list[Report]) -> str:
    """One session's reports as text."""
    untouched = {one.vector: one.money for one in told if one.variant == BEFORE.name}
    documented = " ".join(f"{tokens:,}" for tokens in told[0].documented)
    lines = [f"{title}; documented: {documented or '-'}", HEAD]
    lines += [
        f"{one.variant:26} {one.vector:10} {one.total:9,} {one.last:8,} {one.money:9,.0f}"
        f" {one.money / untouched[one.vector]:7.3f}"
        f" {f'{one.values_seen}/{one.values}':>9} {f'{one.lines_seen}/{one.lines}':>7}"
        for one in told
    ]
    shown: set[tuple[str, tuple[int, ...]]] = set()
    for one in told:
        if (one.variant, tuple(one.tokens)) not in shown:
            shown.add((one.variant, tuple(one.tokens)))
            tokens = " ".join(f"{tokens:,}" for tokens in one.tokens)
            lines.append(f"{one.variant}, {one.vector}: {tokens}")
            lines += [f"  out of view: {text}" for text in one.missed[:5]]
    return "\n".join(lines) + "\n"


def parsed(text: str) -> Variant:
    """`NAME=JSON` as a variant."""
    name, _, settings = text.partition("=")
    return Variant(name, **json.loads(settings))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = {make.__name__: make for make in SESSIONS}
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help=", ".join(known))
    parser.add_argument("--variant", action="append", type=parsed, help="in place of the usual")
    prices = [vector.name for vector in VECTORS]
    parser.add_argument("--prices", action="append", choices=prices, help="default: all three")
    parser.add_argument("--counts-as", default="gpt-4o", help="the model whose tokens are counted")
    parser.add_argument("--json", type=Path, help="write the tables to this file as JSON")
    asked = parser.parse_args()
    if unknown := set(asked.sessions) - set(known):
        parser.error(f"no session {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    vectors = [one for one in VECTORS if one.name in (asked.prices or prices)]
    told: list[Report] = []
    for name in asked.sessions or known:
        session = known[name]()
        here = list(reports(session, asked.variant or VARIANTS, vectors, asked.counts_as))
        print(table(session.title, here))
        told += here
    if asked.json:
        rows = [asdict(one) for one in told]
        asked.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
