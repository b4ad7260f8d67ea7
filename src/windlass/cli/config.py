"""What holds before any session: `windlass config`, `windlass policies`, `windlass schema`."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from windlass.cascade.options import first_paragraph, meanings_of
from windlass.cascade.published_schema import json_schema
from windlass.cli.output import out, print_json, print_table, printed_as_json
from windlass.cli.store import read_settings
from windlass.errors import UsageError, did_you_mean
from windlass.history.clickhouse.layout import TableOptions, script
from windlass.tasks.parse import relax_ng
from windlass.window.options import OPTIONS, Policy
from windlass.window.profiles import ABOUT, PROFILES, RARE


def show_settings(store: str | None) -> None:
    """Print each setting with its value and origin."""
    rows = read_settings(store).rows()
    if printed_as_json(rows):
        return
    print_table(
        ["setting", "value", "origin", "meaning"],
        [[row.name, str(row.value), row.origin, row.help] for row in rows],
    )


def show_profile(name: str, *, every: bool) -> None:
    """Print the options of a profile with what they mean."""
    if name not in PROFILES:
        raise UsageError(f"there is no profile {name!r}; {did_you_mean(name, PROFILES)}")
    settings = Policy.of(name).settings()
    if printed_as_json(settings):
        return
    hidden = frozenset() if every or name == "spec" else RARE
    for line in _yaml(settings, Policy, hidden):
        out.print(line)
    if hidden:
        out.print("# windlass policies NAME --all also prints options that are rarely on")


def show_profiles() -> None:
    """Print what each profile is for, and where it differs from the default."""
    settings = {name: Policy.of(name).settings() for name in PROFILES}
    if printed_as_json(settings):
        return
    rows = [
        [name, ABOUT[name], ", ".join(_other(options, settings["default"])) or "-"]
        for name, options in settings.items()
    ]
    print_table(["profile", "what it is for", "other than the default"], rows)
    out.print("\nwindlass policies NAME prints the options of one")


def _other(options: Mapping[str, Any], default: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key, value in options.items():
        held = default.get(key)
        if isinstance(value, dict) and isinstance(held, dict):
            yield from _other(value, held, f"{at}{key}.")
        elif key != "profile" and value != held:
            yield f"{at}{key} {json.dumps(value)}"


def _yaml(
    settings: Mapping[str, Any], options: type, hidden: Container[str], inside: str = ""
) -> Iterator[str]:
    """The options as YAML that a cascade can take over, each with its meaning."""
    indent = "  " if inside else ""
    for name, meaning in meanings_of(options).items():
        value = settings[name]
        if f"{inside}{name}" in hidden:
            continue
        comment = f"# {first_paragraph(meaning)}"
        if isinstance(value, dict):
            yield f"{indent}{name}:  {comment}"
            yield from _yaml(value, OPTIONS[name].kind, hidden, f"{name}.")
        else:
            yield f"{f'{indent}{name}: {json.dumps(value)}':<32}  {comment}"


def print_schema(
    of: str, *, cluster: str | None, ttl_days: int | None, vectors: int | None
) -> None:
    """Print the schema of cascades or tasks, or the statements that make a store."""
    if of == "clickhouse":
        for name, value in (("--ttl-days", ttl_days), ("--vectors", vectors)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be a whole number from 1, not {value}")
        options = TableOptions(ttl_days=ttl_days, vectors=vectors, cluster=cluster)
        out.print(script(options), end="")
    elif of not in ("cascade", "operators"):
        names = ("cascade", "clickhouse", "operators")
        raise UsageError(f"no schema of {of!r}: {did_you_mean(of, names)}")
    elif cluster is not None or ttl_days is not None or vectors is not None:
        raise UsageError(
            "--cluster, --ttl-days and --vectors are for tables: windlass schema clickhouse"
        )
    elif of == "operators":
        out.print(relax_ng(), end="")
    else:
        print_json(json_schema())
