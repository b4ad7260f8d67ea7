"""`windlass batch`."""

from __future__ import annotations

from functools import partial

from windlass.cli.command import command
from windlass.cli.options import Auto, CascadeFile, InputsFile, Lenient, RowOptions
from windlass.cli.output import out, printed_as_json


@command(has_verbose=True)
def batch(
    cascade: CascadeFile,
    inputs: InputsFile,
    *,
    auto: Auto = False,
    lenient: Lenient = False,
    shared: RowOptions,
) -> None:
    """Run a cascade on many inputs side by side, and go on where it ended."""
    from windlass.api import functions
    from windlass.caching.rates import many, money_but_for
    from windlass.cli.many_runs import WrittenCommand, describe_unfinished, print_troubles, run_rows
    from windlass.cli.untrusted import read_trusted_settings

    options = {**shared.for_library(), "auto": auto, "lenient": lenient}
    settings = read_trusted_settings(shared.settings.flags(), trusted=shared.trust)
    line = WrittenCommand(["batch", str(cascade), str(inputs)], options)
    result = run_rows(partial(functions.batch, cascade, inputs, **options), settings, line)
    tokens = result.tokens_in + result.tokens_out
    if not printed_as_json(result):
        print_troubles(result.troubles)
        out.print(
            f"\n{result.completed:,} of {many(result.rows, 'row')} completed,"
            f" {money_but_for(result.cost, result.unpriced, 'run')}, {result.tokens_in:,} tokens"
            f" in, {result.tokens_out:,} out;"
            f" results: {result.out}"
        )
    if result.completed == result.rows:
        return
    counts = {"failed": result.failed, "incomplete": result.incomplete}
    counts["not started"] = result.rows - result.completed - sum(counts.values())
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    text = f"of {many(result.rows, 'row')} {told}"
    spent = {"money": result.cost or 0.0, "tokens": tokens}
    raise describe_unfinished(text, line, result.reason, spent, again=result.again)
