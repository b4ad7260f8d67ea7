"""`windlass compare`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Option

from windlass.cli.command import command
from windlass.cli.options import CascadeFile, InputsFile, Lenient, RowOptions
from windlass.cli.output import printed_as_json


@command()
def compare(
    cascade: CascadeFile,
    inputs: InputsFile,
    *,
    policies: Annotated[
        list[str] | None,
        Option(
            "--policy",
            help="A profile, `everything` or a file with `auto_context`; at least two. The others"
            " are compared with the first.",
        ),
    ] = None,
    judge: Annotated[
        str,
        Option(
            help="What says how good an answer is: validator, module:function, or provider/model."
        ),
    ] = "validator",
    repeat: Annotated[int, Option(min=1, help="How often each input runs under each policy.")] = 1,
    margin: Annotated[
        float, Option(help="The smallest difference of rates or scores that matters.")
    ] = 0.05,
    lenient: Lenient = False,
    shared: RowOptions,
) -> None:
    """Compare policies on the same inputs: do answers get worse, and what is saved?"""
    from windlass.api import functions
    from windlass.caching.rates import many
    from windlass.cli.comparison_tables import print_comparison
    from windlass.cli.many_runs import WrittenCommand, describe_unfinished, run_rows
    from windlass.cli.untrusted import read_trusted_settings

    named = policies or []
    options = {
        **shared.for_library(),
        "judge": judge,
        "repeat": repeat,
        "margin": margin,
        "lenient": lenient,
    }
    settings = read_trusted_settings(shared.settings.flags(), trusted=shared.trust)
    words = [word for name in named for word in ("--policy", name)]
    line = WrittenCommand(["compare", str(cascade), str(inputs), *words], options)
    work = partial(functions.compare, cascade, inputs, named, **options)
    result = run_rows(work, settings, line)
    if not printed_as_json(result):
        print_comparison(result)
    left = {"to be run": result.again, "to be judged": result.unjudged, "waiting": result.waiting}
    if not any(left.values()):
        return
    told = ", ".join(f"{count:,} are {name}" for name, count in left.items() if count)
    text = f"of {many(result.runs, 'run')} {told}"
    spent = {"money": result.spent or 0.0, "tokens": result.tokens}
    raise describe_unfinished(
        text, line, result.reason, spent, again=result.again + result.unjudged
    )
