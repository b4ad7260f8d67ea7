"""The report of the documented five-phase session, beside the document's own numbers.

    python -m bench.bench_report [--price-as MODEL]

The session is rebuilt from the figures of `context-accumulation-analysis.md` and run by the real
runner. Then each finding that names a setting is put to the test: the session is run with that
setting and those of the findings above it, and its bill stands beside the one that the report
foretold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.scenarios.measure import Variant, merged
from bench.scenarios.sessions import five_phases

import windlass
from windlass.history.places import open_place
from windlass.providers.scripted import Scripted
from windlass.report._findings import AUTO, MINIMAL
from windlass.report.contents import ContextReport, call_report
from windlass.report.session_costs import SessionReport, session_report

DOCUMENTED: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...], int | None]]] = {
    "discover_schema": ((345,), (71_545,), 71_200),
    "write_query": ((72_452,), (74_266,), 1_814),
    "analyze_results": ((74_622,), (), None),
    "create_initial_chart": ((75_739,), (80_371, 84_385, 89_945), 14_206),
    "say_summary_summarize": ((93_029,), (93_301,), 272),
}
"""Agent calls, follow-ups and delta of each phase; the document calls the second and third call of
the chart phase agent calls, too."""
RUNS: Final = {
    AUTO: Variant(AUTO, cascade={"auto_context": {"inter_phase": False}}),
    MINIMAL: Variant(MINIMAL, phases={"context_strategy": "minimal"}),
}
"""What each setting of a finding is, laid over the cascade."""
UNCACHED: Final = 3.0
"""US dollars a million input tokens, as the document's 93,301 tokens for $0.28 come to."""


def report_of(variant: Variant, price_as: str) -> tuple[SessionReport, ContextReport]:
    """The report of the session under a variant, and of its tenth call, the document's largest."""
    session = five_phases()
    replies = iter(session.replies)
    provider = Scripted(lambda _: next(replies), counts_as="gpt-4o")
    with tempfile.TemporaryDirectory() as folder:
        result = windlass.run_sync(
            variant.over(session.cascade),
            {"question": "How do prices of homes move?"},
            store=folder,
            tools=session.tools,
            providers={"scripted": provider},
        )
        assert result.status == "completed", result.error
        with open_place(Path(folder), {}, existing=True) as store:
            report = session_report(store, result.session_id, price_as)
            return report, call_report(store, result.session_id, 10, price_as)


def numbers(tokens: tuple[int, ...]) -> str:
    return " ".join(f"{each:,}" for each in tokens) or "-"


def line(name: str, documented: Any, reported: Any) -> None:
    print(f"{name:42} {documented!s:>30} {reported!s:>30}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--price-as", default="anthropic/claude-sonnet-4-5")
    price_as: str = parser.parse_args().price_as
    report, last = report_of(Variant("as documented"), price_as)
    line("", "document", "report")
    for growth in report.growth:
        agent, follow_ups, delta = DOCUMENTED[growth.phase]
        line(f"{growth.phase}, agent", numbers(agent), numbers(growth.agent))
        line(f"{growth.phase}, follow-ups", numbers(follow_ups), numbers(growth.follow_ups))
        if delta is not None:
            line(f"{growth.phase}, delta", f"{delta:+,}", f"{growth.delta or 0:+,}")
    tokens = report.costs.total.tokens_in
    documented = sum(sum(agent) + sum(more) for agent, more, _ in DOCUMENTED.values())
    line("input tokens", f"{documented:,}", f"{tokens:,}")
    most = max(call.tokens_in for call in report.calls)
    line("dearest call without a cache", "$0.28", f"${most * UNCACHED / 1e6:.2f}")
    line("input without a cache", "about $2.15", f"${tokens * UNCACHED / 1e6:.2f}")
    cached = f"${report.costs.total.dollars or 0:.2f}"
    line(f"with the cache of {price_as}", "-", cached)
    messages = sum(part.messages for part in last.parts if part.kind not in ("tools", "pictures"))
    line("last phase: messages", 23, messages)
    results = [each.chars for each in last.messages if each.what.startswith("the result of")]
    by_size = tuple(sorted((size for size in results if size > 5_000), reverse=True))
    line("last phase: results over 5,000 characters", "221,143 37,936 8,969", numbers(by_size))
    pictures = sum(part.messages for part in last.parts if part.kind == "pictures")
    line("last phase: pictures", 2, pictures)
    print("\nfindings of the report:")
    for finding in report.findings:
        print(f"- {finding.text}")
        for part in finding.parts:
            print(f"  - of this, {part.text}")
    print()
    line("", "foretold by the report", "billed when run with it")
    settings = Variant("all up to here")
    for finding in report.findings:
        more = RUNS[finding.setting]
        settings = Variant(
            settings.name,
            merged(settings.cascade, more.cascade),
            merged(settings.phases, more.phases),
        )
        ran, _ = report_of(settings, price_as)
        name = finding.setting if finding is report.findings[0] else f"and {finding.setting}"
        line(name, f"${finding.would_be:.4f}", f"${ran.costs.total.dollars or 0:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
