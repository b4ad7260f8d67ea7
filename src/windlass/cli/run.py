"""`windlass run` and `windlass evaluate`: input, progress, the tables at the end, the dry run."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.api.functions import evaluate, fork, resume, resume_task, run
from windlass.api.loading import load_cascade
from windlass.api.opening import open_store
from windlass.caching.rates import many, money, override
from windlass.cascade.source import read_yaml
from windlass.cli.answers import TypedLines, person_at
from windlass.cli.ending import finish
from windlass.cli.output import (
    note,
    out,
    plain,
    print_table,
    printed_as_json,
    progress,
    shorten,
)
from windlass.cli.progress import Progress, at_places
from windlass.cli.report import price_text, print_costs
from windlass.cli.store import open_marked
from windlass.cli.trust import (
    all_without_untrusted,
    asking_for_trust,
    print_unchecked,
    settings_to_run,
    unchecked,
)
from windlass.engine.result import Result
from windlass.engine.setup import check_models, prepare
from windlass.engine.turn.forecast import Forecast, forecast_cost
from windlass.errors import (
    AnswerNeeded,
    Interrupted,
    RunLimitReached,
    Unfinished,
    Unsure,
    UsageError,
    WindlassError,
    person_needed,
)
from windlass.history.base import Reason, in_words
from windlass.providers.at_hand import Providers
from windlass.report.costs import session_cost, task_costs
from windlass.safety.foreign import DeepValueError, parse_json
from windlass.settings.settings import Settings
from windlass.settings.trust import is_trusted

_PARTIAL = 20
"""Partial results that are listed where a task failed; `--json` has all."""


def run_cascade(
    cascade: Path,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    *,
    price_as: str | None = None,
    output_only: bool = False,
    **options: Any,
) -> None:
    """Run, print the output and the table, and raise what stopped the run.

    `flags` are those that are settings, `options` the other ones of `windlass.run`.
    """
    values = read_input(given or ())
    settings = settings_to_run({**flags, "price_as": price_as}, trusted=options.get("trust", False))
    work = partial(run, cascade, values, **flags, **options)
    again = command_again("run", cascade)
    _finish(work, settings, _print_run, output_only=output_only, again=again)


def resume_cascade(
    session: str,
    cascade: Path | None,
    flags: Mapping[str, Any],
    *,
    price_as: str | None = None,
    output_only: bool = False,
    **options: Any,
) -> None:
    """Go on with a session, print the output and the table, and raise what stopped the run."""
    settings = settings_to_run({**flags, "price_as": price_as}, trusted=options.get("trust", False))
    work = partial(resume, session, cascade, **flags, **options)
    again = command_again("run", cascade)
    _finish(work, settings, _print_run, output_only=output_only, again=again)


def fork_session(
    session: str,
    changes: Sequence[str],
    flags: Mapping[str, Any],
    *,
    price_as: str | None = None,
    output_only: bool = False,
    **options: Any,
) -> None:
    """Run a session anew from a call on, and show it as a run is shown."""
    settings = settings_to_run({**flags, "price_as": price_as}, trusted=options["trust"])
    for written in changes:
        if "=" not in written:
            raise UsageError(f"--set {written!r}: write KEY=VALUE, such as model=local/smollm2")
    pairs = (written.partition("=") for written in changes)
    values = {key.strip(): _value(text) for key, _, text in pairs}
    work = partial(fork, session, changes=values, **flags, **options)
    again = command_again("run", None)
    _finish(work, settings, _print_run, output_only=output_only, again=again)


def run_task(
    task: Path | None,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    *,
    context: Path | None,
    output_only: bool,
    resume: str | None,
    again: Sequence[str],
    accept: bool,
    session_id: str | None,
    **options: Any,
) -> None:
    """Run or resume, print the output and the table, and raise what stopped the run."""
    values = read_input(given or ())
    settings = settings_to_run(flags, trusted=options["trust"])
    text = "" if context is None else _context(context)
    work: Callable[..., Coroutine[Any, Any, Result]]
    if resume is not None:
        if values or text or session_id:
            raise UsageError(
                "a resumed session has its own input, context and name; leave them out"
            )
        options |= {"again": again, "accept": accept}
        work = partial(resume_task, resume, task, **flags, **options)
    elif task is None:
        raise UsageError("give a task file to run, or a session to resume")
    elif again or accept:
        raise UsageError("--again and --accept are for a session that is resumed; name it, too")
    else:
        options |= {"context": text, "session_id": session_id}
        work = partial(evaluate, task, values, **flags, **options)
    _finish(
        work, settings, _print_task, output_only=output_only, again=command_again("evaluate", task)
    )


def command_again(command: str, file: Path | None) -> str:
    """The command that goes on with a session, which stands in place of `{}`.

    A file that the user named is named again: a record alone may name no modules.
    """
    named = f"{shlex.quote(str(file))} " if file is not None else ""
    return f"windlass {command} {named.replace('{', '{{').replace('}', '}}')}--resume {{}}"


def _finish(
    work: Callable[..., Coroutine[Any, Any, Result]],
    settings: Settings,
    show: Callable[[Result, Settings, str], None],
    *,
    output_only: bool,
    again: str,
) -> None:
    """Wait for a run, show its result, and raise what stopped it, with its session.

    `output_only`: the output alone is shown, as it is, and none where the run was stopped.
    `again` resumes it, with the session in place of `{}`.
    """
    progress.quiet = progress.quiet or out.as_json or output_only
    watcher = Progress(progress, settings.addresses(), verbose=progress.verbose)
    try:
        result = asking_for_trust(
            lambda: finish(work(on_event=watcher, on_question=person_at(TypedLines())))
        )
    except WindlassError as error:
        error.session_id = watcher.session_id
        if error.session_id:
            go_on = again.format(error.session_id)
            if isinstance(error, Interrupted):
                error.args = (f"{error}; what was answered is kept: {go_on}",)
            else:
                error.again = go_on
        raise
    finally:
        watcher.end()
    try:
        if output_only:
            if result.error is None and result.output:
                out.print(result.output)
        else:
            with override(settings.prices):
                show(result, settings, again.format(result.session_id))
    except BrokenPipeError:
        if result.error is None:
            raise
    if result.status == "completed":
        return
    ended = result.error or unfinished(result, again)
    go_on = again.format(result.session_id)
    if (output_only or out.as_json) and go_on not in str(ended):  # else the tables' end told it
        ended.again = go_on
    raise ended


_BECAUSE: Final[Mapping[Reason, str]] = {
    "turns": "turns or attempts were used up",
    "length": "a reply was cut before its end",
    "empty": "the model said nothing",
    "refusal": "the model refused to answer",
    "filter": "the provider held the answer back",
    "money": "the money was used up",
    "tokens": "the tokens were used up",
    "time": "the time was up",
}


def unfinished(result: Result, again: str, *, resumes: bool = True) -> Unfinished:
    """What is said at the end of a run that neither failed nor completed; `again` goes on with it.

    `resumes`: it takes up what waits; else what is said next comes behind it.
    """
    go_on = again.format(result.session_id)
    because = f": {_BECAUSE[result.reason]}" if result.reason else ""
    if amounts := result.notes.get("budget"):
        because = f": {RunLimitReached(**amounts)}; go on from there: {go_on}"
    needed = person_needed(result.notes)
    if isinstance(needed, AnswerNeeded):
        because = f": {needed}; {_way_out(needed, go_on, resumes=resumes)}"
    elif isinstance(needed, Unsure):
        because = f": {needed}: {go_on} {needed.again}"
    ended = Unfinished(f"the run is {in_words(result.status, result.reason)}{because}")
    ended.session_id = result.session_id
    return ended


def _way_out(needed: AnswerNeeded, go_on: str, *, resumes: bool) -> str:
    """How what a run waits for is given."""
    tool, call = needed.details["tool"], needed.details["call"]
    if tool is not None:
        named = shlex.quote(call if resumes and call else tool)
        return f"let it run: {go_on} --approve {named}, or refuse it: {go_on} --deny {named}"
    return f"answer it: {go_on} --answer TEXT" if resumes else f"answer it at a terminal: {go_on}"


# ---- input --------------------------------------------------------------------------


def read_input(given: Sequence[str]) -> dict[str, Any]:
    """The input of a run: JSON objects, JSON or YAML files, and key=value, merged in order.

    In `key=value` the value is read as JSON where it is JSON (a number, true, a list),
    else it is text; `key=@file` is the text of a file. Raises UsageError.
    """
    values: dict[str, Any] = {}
    for item in given:
        stripped = item.strip()
        if stripped.startswith("{"):
            values.update(_object(stripped, "--input"))
        elif "=" in stripped and not _is_file(stripped):
            key, _, text = stripped.partition("=")
            values[key.strip()] = _value(text)
        else:
            values.update(_object(_file(stripped), stripped))
    return values


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a text too long, or with characters that no name has
        return False


def _value(text: str) -> Any:
    if text.startswith("@"):
        return _file(text[1:])
    try:
        return parse_json(text)
    except DeepValueError as error:
        raise UsageError(f"--input: {error}") from error
    except ValueError:
        return text


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--input {name!r} is not UTF-8 text (byte {error.start})") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--input {shorten(name, 80)!r} is neither JSON, key=value nor a file that can be"
            f" read ({reason})"
        ) from error


def _object(text: str, where: str) -> dict[str, Any]:
    if where.endswith((".yaml", ".yml")):
        value = read_yaml(text, where).data
    else:
        try:
            value = parse_json(text)
        except DeepValueError as error:
            raise UsageError(f"{where}: {error}") from error
        except ValueError as error:
            raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{where}: the input must be an object, not {type(value).__name__}")
    return value


def _context(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--context {str(path)!r} cannot be read as text: {error}") from error


# ---- results ------------------------------------------------------------------------


def _print_run(result: Result, settings: Settings, again: str) -> None:
    with open_marked(settings) as store:
        costs = session_cost(store, result.session_id, settings.price_as)
    if printed_as_json({**plain(result), "phases": costs}):
        return
    _print_output(result)
    out.print()
    print_costs(costs)
    if result.status != "completed":
        out.print(f"\ngo on from there: {again}")
    out.print(f"\nwhat each call saw: windlass show {result.session_id} --call 1")


def _print_task(result: Result, settings: Settings, again: str) -> None:
    with open_marked(settings) as store:
        lines, total = task_costs(store, result.session_id, settings.price_as)
    if printed_as_json({**plain(result), "tasks": lines}):
        return
    _print_output(result)
    _print_partial(result.notes.get("partialResults", ()))
    out.print()
    print_table(
        ["task", "runs", "calls", "tokens sent", "reported cached", "out", "cost"],
        [
            [
                line.task,
                f"{line.runs:,}",
                f"{line.calls:,}",
                f"{line.tokens_in:,}",
                f"{line.tokens_cached:,}",
                f"{line.tokens_out:,}",
                money(line.dollars),
            ]
            for line in [*lines, total]
        ],
        right=range(1, 7),
    )
    out.print(f"calls of a free model are priced as {settings.price_as}")
    if result.status != "completed":
        out.print(f"\ngo on from there: {again}")
    out.print(f"\nwhy each call saw what it saw: windlass explain {result.session_id} 1")


def _print_output(result: Result) -> None:
    if result.output:
        out.print()
        out.print(shorten(result.output, 4_000))


def _print_partial(results: Sequence[Mapping[str, Any]]) -> None:
    if not results:
        return
    out.print(f"\nfinished before it failed ({len(results):,}):")
    for result in results[:_PARTIAL]:
        name = result.get("step") or result.get("input")
        output = json.dumps(shorten(str(result["output"]), 160), ensure_ascii=False)
        out.print(f"  {result['index']} {name}: {output}")
    if len(results) > _PARTIAL:
        out.print(f"  and {len(results) - _PARTIAL:,} more (--json prints all)")


# ---- dry run ------------------------------------------------------------------------


def _warn(text: str) -> None:
    (progress.print if text.startswith("warning: ") else note)(text)


def forecast_run(
    cascade: Path,
    given: Sequence[str] | None,
    flags: Mapping[str, Any],
    *,
    auto: bool,
    trust: bool,
) -> None:
    """Show the first request, its tokens and price, and the largest possible cost.

    Nothing that the folder holds is run or started unless the user trusts it; a note lists what
    the request lacks for that.
    """
    values = read_input(given or ())
    settings = Settings.read(flags, trust=trust)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Settings.read({**flags, "store": folder}, trust=trust)
        ready = load_cascade(cascade, settings, auto=auto, trust=trust, input=values, warn=_warn)
        trusts = trust or is_trusted(cascade.resolve().parent)
        family = list(ready.walk())
        servers = () if trusts else [each.cascade for each in family]
        left_out = unchecked(settings, *(each.registry for each in family), left_out=servers)
        if left_out:
            ready = all_without_untrusted(ready, settings)
        providers = Providers({}, settings, warn=_warn, keys=None)
        for each in ready.walk():
            check_models(each.cascade, settings, providers.resolve)
        try:
            with open_store(scratch) as store, override(settings.prices):
                prepared = prepare(
                    ready.cascade,
                    values,
                    registry=ready.registry,
                    children=ready.children,
                    settings=settings,
                    store=store,
                    resolve=providers.resolve,
                )
                forecast = finish(forecast_cost(prepared, settings.price_as))
        finally:
            finish(providers.close())
    if printed_as_json({**plain(forecast), **({"unchecked": left_out} if left_out else {})}):
        return
    print_unchecked(left_out)
    with override(settings.prices):
        _print_forecast(forecast, settings.addresses())


def _print_forecast(forecast: Forecast, addresses: Mapping[str, str]) -> None:
    out.print(f"models that would see content: {at_places(forecast.models, addresses)}")
    out.print(
        f"first request: phase {forecast.phase}, {forecast.tokens:,} input tokens,"
        f" {money(forecast.dollars)}"
    )
    for message in forecast.messages:
        out.print(f"\n{message.role}:", style="bold")
        out.print(shorten(message.text, 2_000))
    if forecast.tools:
        out.print(f"\ntools: {', '.join(forecast.tools)}")
    out.print(
        f"\nat most {many(forecast.most_calls, 'call')} and {money(forecast.most_dollars)},"
        " if every call filled its window and no cache held any of it"
        f"\nprices: {price_text(forecast.priced_as)}"
    )
    if forecast.search is not None:
        out.print(f"not counted there: searches of the web by {forecast.search}")
