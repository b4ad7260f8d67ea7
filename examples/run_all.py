"""Runs every example with the model on this machine into one store, and prints one table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import windlass
from windlass.api.opening import open_store
from windlass.cli.output import progress
from windlass.cli.printed_tables import print_table
from windlass.cli.progress import Progress
from windlass.errors import WindlassError
from windlass.report.costs import session_cost
from windlass.settings.settings import Settings
from windlass.text.cell_tables import CellTable, NumberCell

FOLDER = Path(__file__).parent
MODEL = "local/smollm2"
EXAMPLES: dict[str, dict[str, str]] = {
    "chart_analysis_pipeline.json": {"data": "data/sales.csv", "inventory": "data/inventory.csv"},
    "deep_research.json": {
        "topic": "what a cached token costs with Anthropic",
        "check": "a comparison of cache prices",
    },
    "iterative_refinement.json": {"inventory": "data/inventory.csv"},
    "fresh_perspective.yaml": {"problem": "the monthly report takes ten minutes to load"},
    "context_selective_demo.json": {"inventory": "data/inventory.csv"},
    "context_messages_demo.json": {"inventory": "data/inventory.csv"},
    "context_inject_demo.json": {"data": "data/sales.csv"},
    "memory_bank.json": {
        "lesson": "A cached prefix with Anthropic lives five minutes; each use begins them anew.",
        "question": "how long does a cached prefix live?",
    },
    "best_title.json": {"file": "corpus/time-to-live.md"},
    "injected_prompt.json": {
        "mail": "The lamp of my order came broken.",
        "order": "4711",
    },
    "sub_cascades/answer_mail.yaml": {"mail": "The lamp of my order came broken."},
}
"""From the file of a cascade to the input that its templates ask for."""
TASKS = tuple(sorted((FOLDER / "operators").glob("*.xml")))
"""Tasks in XML, which ask for no input."""


def main() -> None:
    """Run them one after the other; exit with 1 where one did not complete."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default=".windlass", help="folder of the history")
    store = parser.parse_args().store
    # web_search is told where to search by a setting.
    os.environ["WINDLASS_SEARCH_FOLDER"] = str(FOLDER / "corpus")
    try:
        rows = [run(name, given, store) for name, given in EXAMPLES.items()]
        rows += [run(f"operators/{file.name}", {}, store) for file in TASKS]
    except WindlassError as error:
        print(f"windlass: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    columns = ["example", "status", "phases", "calls", "tokens sent", "sending everything", "s"]
    print_table(CellTable(columns, [[*row[:2], *map(NumberCell, row[2:])] for row in rows]))
    print(f"\n.venv/bin/windlass sessions --store {store}")
    sys.exit(0 if all(row[1] == "completed" for row in rows) else 1)


def run(name: str, given: dict[str, str], store: str) -> list[str]:
    """Run one example with live progress; returns its row of the table."""
    progress.print(f"\n=== {name}", style="bold")
    started = time.perf_counter()
    carry_out = windlass.evaluate_sync if name.endswith(".xml") else windlass.run_sync
    result = carry_out(
        FOLDER / name, given, model=MODEL, store=store, root=FOLDER, on_event=Progress(progress)
    )
    seconds = time.perf_counter() - started
    if result.error is not None:
        print(f"{name}: {result.error}", file=sys.stderr)
    settings = Settings.read({"store": store})
    history = open_store(settings, existing=True)
    try:
        costs = session_cost(history, result.session_id, settings.price_as)
    finally:
        history.close()
    total = costs.total
    counts = [len(costs.phases), total.calls, total.tokens_in, total.snowball]
    return [name, result.status, *(f"{count:,}" for count in counts), f"{seconds:.0f}"]


if __name__ == "__main__":
    main()
