"""The command `run`: input, progress, the table at the end, and the dry run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from os import environ
from pathlib import Path
from typing import Any

from windlass.api import check_models, load_cascade, open_store, prepare
from windlass.api import run as run_cascade
from windlass.caching.rates import override, rate
from windlass.cascade.source import TOO_DEEP, read_yaml
from windlass.cli.look import open_marked
from windlass.cli.output import money, out, plain, print_json, print_table, progress, shorten
from windlass.cli.progress import Progress, at_places
from windlass.cli.trusting import settings_to_run, tell_unchecked, unchecked, without_untrusted
from windlass.cli.waiting import finish, wait_for
from windlass.engine.result import Result
from windlass.errors import UsageError
from windlass.providers.at_hand import Providers
from windlass.report.costs import SessionCost, session_cost
from windlass.report.forecast import Forecast, forecast_cost
from windlass.settings import Settings
from windlass.trust import is_trusted


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
        return json.loads(text)
    except (ValueError, RecursionError):
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
            value = json.loads(text)
        except ValueError as error:
            raise UsageError(f"{where}: not JSON: {error}") from error
        except RecursionError as error:
            raise UsageError(f"{where}: {TOO_DEEP}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{where}: the input must be an object, not {type(value).__name__}")
    return value


def run_command(
    cascade: Path,
    given: Sequence[str],
    flags: Mapping[str, Any],
    *,
    session: str | None,
    auto: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Run, print the output and the table, and raise what stopped the run."""
    values = read_input(given)
    settings = settings_to_run(flags, trusted=trust)
    watcher = Progress(progress, settings.addresses())
    if as_json:
        progress.quiet = True
    work = run_cascade(
        cascade,
        values,
        model=flags.get("model"),
        store=flags.get("store"),
        root=settings.root,
        search_folder=settings.search_folder,
        on_event=watcher,
        session_id=session,
        auto=auto,
        trust=trust,
    )
    result = wait_for(work, watcher)
    try:
        with override(settings.prices):
            _print_result(result, settings, as_json=as_json)
    except BrokenPipeError:
        if result.error is None:
            raise
    if result.error is not None:
        raise result.error


def _print_result(result: Result, settings: Settings, *, as_json: bool) -> None:
    keeper = open_marked(settings)
    try:
        costs = session_cost(keeper, result.session_id, settings.price_as)
    finally:
        keeper.close()
    if as_json:
        print_json({**plain(result), "phases": costs})
        return
    if result.output:
        out.print()
        out.print(shorten(result.output, 4_000), markup=False)
    out.print()
    print_costs(costs)
    out.print(f"\nwhat each call saw: windlass show {result.session_id} --call 1")


def print_costs(costs: SessionCost) -> None:
    """Print what each phase sent, beside what a snowball would have."""
    from windlass.caching.rates import table_date

    money_columns = ["cost", "snowball's cost"]
    if costs.billed:
        money_columns = ["billed", "simulated", "snowball, simulated"]
    print_table(
        "",
        [
            "phase",
            "calls",
            "tokens sent",
            "reported cached",
            "snowball would send",
            "out",
            *money_columns,
        ],
        [
            [
                line.phase,
                str(line.calls),
                f"{line.tokens_in:,}",
                f"{line.tokens_cached:,}",
                f"{line.snowball:,}",
                f"{line.tokens_out:,}",
                money(line.dollars),
                *([money(line.simulated_dollars)] if costs.billed else []),
                money(line.snowball_dollars),
            ]
            for line in [*costs.phases, costs.total]
        ],
        right=range(1, 6 + len(money_columns)),
    )
    if costs.billed:
        out.print(
            "billed: the usage that was reported, at its price; simulated: these messages, and a"
            " snowball's, by our count and with the model's prompt cache"
            f"\n{_priced(costs.priced_as)} ({table_date()})"
        )
    else:
        told = ", ".join(dict.fromkeys(costs.priced_as.values()))
        out.print(
            f"costs are what {told} would bill for these messages, pictures included and"
            f" its prompt cache counted ({table_date()})"
        )
    if windows := costs.windows:
        out.print(
            f"windows: saved {money(windows['saved'])} beside the same calls without them,"
            f" {money(windows['spent'])} spent on texts for them: net {money(windows['net'])}"
        )
    if (search := costs.search) is not None:
        out.print(
            f"beside them, searches of the web by {search.model}: {search.searches:,} searches,"
            f" {search.tokens_in:,} tokens sent, {search.tokens_out:,} out, {money(search.dollars)}"
        )


def _priced(names: Mapping[str, str]) -> str:
    """At whose prices each model is told: `local/smollm2 at those of openai/gpt-4o`."""
    told: list[str] = []
    for model, name in names.items():
        if rate(name) is None:
            told.append(f"{name} has no price")
        elif model == name:
            told.append(f"{model} at its own prices")
        else:
            told.append(f"{model} at the prices of {name}")
    return "; ".join(told)


def _warn(text: str) -> None:
    told = text if text.startswith("warning: ") else f"note: {text}"
    progress.print(told, markup=False)


def dry_run_command(
    cascade: Path,
    given: Sequence[str],
    flags: Mapping[str, Any],
    *,
    auto: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Show the first request, its tokens and price, and the largest possible cost.

    Nothing that the folder holds is run or started unless the user trusts it: what is left out
    of the request for that is told.
    """
    values = read_input(given)
    settings = Settings.read(flags, environ, Path.cwd(), trust=trust)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Settings.read({**flags, "store": folder}, environ, Path.cwd(), trust=trust)
        loaded, registry = load_cascade(
            cascade, settings, auto=auto, trust=trust, input=values, warn=_warn
        )
        trusts = trust or is_trusted(cascade.resolve().parent)
        left_out = unchecked(settings, registry, None if trusts else loaded)
        if left_out:
            loaded = without_untrusted(loaded, registry, settings)
        providers = Providers({}, settings, warn=_warn, keys=None)
        check_models(loaded, settings, providers.resolve)
        keeper = open_store(scratch)
        try:
            run = prepare(
                loaded,
                values,
                registry=registry,
                settings=settings,
                keeper=keeper,
                resolve=providers.resolve,
            )
            with override(settings.prices):
                forecast = finish(forecast_cost(run, settings.price_as))
        finally:
            keeper.close()
            finish(providers.close())
    if as_json:
        print_json({**plain(forecast), **({"unchecked": left_out} if left_out else {})})
        return
    tell_unchecked(left_out)
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
        out.print(shorten(message.text, 2_000), markup=False)
    if forecast.tools:
        out.print(f"\ntools: {', '.join(forecast.tools)}")
    out.print(
        f"\nat most {forecast.most_calls:,} calls and {money(forecast.most_dollars)}, if every"
        f" call filled its window\nprices: {_priced(forecast.priced_as)}"
    )
    if forecast.search is not None:
        out.print(f"not counted there: searches of the web by {forecast.search}")
