"""Which providers there are, and what is known of one model."""

from __future__ import annotations

from os import environ
from typing import Any

from windlass.caching.provider_rules import AS_OF, NO_CACHE, CacheRules
from windlass.caching.rates import (
    age_note,
    cache_of,
    override,
    price_source,
    prices_of,
    rate,
    table_date,
)
from windlass.cli.output import out, printed_as_json
from windlass.cli.printed_tables import print_table
from windlass.providers import litellm
from windlass.providers.at_hand import Providers
from windlass.providers.catalog import LITELLM, ProviderEntry, catalog, find
from windlass.safety.redaction import redacted_url
from windlass.settings.settings import Settings
from windlass.text.cell_tables import Columns, table_of
from windlass.wire.base import SEQUENCES, SequenceRules
from windlass.wire.thinking import NO_THINKING, ThinkingRules, thinking_rules

_LOCAL = "in process"


def print_providers() -> None:
    """Print the providers: format, address, whether the key is there. Never a key."""
    entries = catalog(Settings.read({}).providers).values()
    rows = [_provider(entry) for entry in entries]
    if printed_as_json({"providers": rows, "prices": table_date()}):
        return
    columns: Columns[dict[str, Any]] = {
        "provider": lambda row: row["name"],
        "wire": lambda row: row["wire"] or _LOCAL,
        "key": _key_text,
        "base URL": lambda row: row["base_url"],
        "a minute": _limits_text,
    }
    print_table(table_of(rows, columns))
    out.print(f"\nprices: {table_date()}")
    out.print("what is known of one model: windlass models anthropic/claude-sonnet-5-5")


def _provider(entry: ProviderEntry) -> dict[str, Any]:
    key = entry.key(environ)
    package: dict[str, Any] = {}
    if entry.name == LITELLM:
        package = {"installed": litellm.installed(), "install": litellm.INSTALL}
    return {
        "name": entry.name,
        "wire": entry.wire,
        "base_url": redacted_url(entry.base_url),
        "key_variables": list(entry.keys),
        "key_found_in": key.variable if key else None,
        "key_missing": bool(entry.keys) and key is None,
        "requests_per_minute": entry.settings.requests_per_minute,
        "tokens_per_minute": entry.settings.tokens_per_minute,
        "defined": entry.defined,
        **package,
    }


def _key_text(row: dict[str, Any]) -> str:
    if "install" in row and row["installed"] is None:
        return f"not installed: {row['install']}"
    if row["key_found_in"]:
        return f"found in {row['key_found_in']}"
    if row["key_missing"]:
        return f"missing: {' or '.join(row['key_variables'])}"
    return f"as litellm {row['installed']} wants" if "install" in row else "not needed"


def _limits_text(row: dict[str, Any]) -> str:
    limits = ((row["requests_per_minute"], "requests"), (row["tokens_per_minute"], "tokens"))
    return ", ".join(f"{limit:,} {what}" for limit, what in limits if limit is not None)


def print_model(name: str) -> None:
    """Print what is known of one model: prices, window, cache. Raises UsageError."""
    settings = Settings.read({})
    notes: list[str] = []
    with override(settings.prices):
        _, info = Providers({}, settings, warn=notes.append, keys=None).resolve(name)
        price, source = rate(name), price_source(name)
        entry = find(name, catalog(settings.providers))
        count = len(notes)  # of a model without a price the notes so far are enough
        units = prices_of(name, warn=notes.append)
        notes = notes if price is not None or info.free else notes[:count]
        cache = cache_of(name) if units.caches else NO_CACHE
    minimum = None if cache == NO_CACHE else cache.minimum_for(name)
    sequence = SEQUENCES.get(entry.wire)
    thinking = thinking_rules(name)
    if old := age_note():
        notes.append(old)
    key = _key_text(_provider(entry))
    facts = {
        "model": info.name,
        "window": info.window,
        "sees_pictures": info.sees_pictures,
        "prices": None
        if price is None
        else {
            "input": price.input,
            "cached": price.cache_read,
            "written": price.cache_write,
            "written_long": price.cache_write_long,
            "output": price.output,
            "tiers": price.tiers,
            "own": name in settings.prices,
        },
        "in_fresh_tokens": units,
        "cache_minimum": minimum,
        "cache": None if cache == NO_CACHE else cache,
        "cache_as_of": AS_OF,
        "thinking": None if thinking == NO_THINKING else thinking,
        "sequence": sequence,
        "base_url": redacted_url(entry.base_url),
        "key": key,
        "table": table_date(),
        "notes": notes,
    }
    if printed_as_json(facts):
        return

    def line(label: str, text: str) -> None:
        out.print(f"  {label:<15}{text}")

    out.print(info.name)
    if info.free:
        line("price", "none: it runs on this machine")
    elif price is None:
        line("price", "not known; costs are shown as 'no price', never as zero")
    else:
        out.print("  US dollars a million tokens", f"({source})")
        for what, dollars in (
            ("input", price.input),
            ("cached", price.cache_read),
            ("written", price.cache_write),
            ("written, 1 h", price.cache_write_long),
            ("output", price.output),
        ):
            if dollars is not None:
                out.print(f"    {what:<12} {dollars:g}")
        for above, factor in price.tiers:
            out.print(f"    input above {above:,} tokens: {factor:g} times as much")
    line("window", f"{info.window:,} tokens")
    line("cache", _cache_text(cache, minimum))
    if cache.source:
        line("", f"source: {cache.source}; as of {AS_OF}")
    if units.caches:
        long = "" if units.write_long is None else f", written for an hour {units.write_long:g}"
        line("a token", f"fresh 1, read {units.read:g}, written {units.write:g}{long}")
    if thinking != NO_THINKING:
        line("thinking", _thinking_text(thinking))
        line("", f"source: {thinking.source}")
    if sequence is not None:
        line("sequence", _sequence_text(sequence))
    line("pictures", "seen" if info.sees_pictures else "sent as a description")
    if entry.base_url:
        line("address", redacted_url(entry.base_url))
    line("key", key)
    for note in notes:
        out.print(f"note: {note}")


def _cache_text(cache: CacheRules, minimum: int | None) -> str:
    if minimum is None:
        return "none that is known"
    text = f"prefixes of {minimum:,} tokens and more" if minimum else "prefixes of any length"
    if cache.step > 1:
        text += f", in steps of {cache.step}"
    if cache.ttl_s is not None:
        text += f", for {cache.ttl_s / 60:g} minutes from the start of a request"
    return text if cache.automatic else f"{text}; up to {cache.breakpoints} marks say where"


def _thinking_text(rules: ThinkingRules) -> str:
    """Return what the model does with the signed thinking of its earlier replies."""
    if rules.bound:
        became = "bound to all before it: refused where that was changed since"
    elif rules.read:
        became = "of earlier turns is read, and paid for, whatever became of what stood before it"
    else:
        became = "of earlier turns is left out"
    facts = (
        (True, became),
        (rules.open_round, "that of a tool round that is not ended must come back"),
        (not rules.disables, "cannot be switched off"),
        (not rules.forces, "no tool can be forced (tool_choice)"),
    )
    return "; ".join(text for holds, text in facts if holds)


def _sequence_text(rules: SequenceRules) -> str:
    """Return what the wire format demands of the order of messages."""
    demands = (
        (rules.first_user, "the first message is the user's"),
        (rules.alternate, "roles alternate"),
        (rules.results_together, "all results of a turn follow its calls at once"),
        (rules.results_before_text, "results stand before text"),
        (rules.unique_ids, "call ids do not repeat"),
        (rules.longest_id > 0, f"call ids have up to {rules.longest_id} characters"),
        (not rules.empty_text, "no text is empty"),
        (not rules.prefill, "the last word is the user's"),
        (rules.text_results, "results are text"),
        (rules.signed_calls, "what a model signed goes back to it as it was"),
    )
    return "; ".join(text for holds, text in demands if holds)
