"""The window profiles, as `windlass policies` prints them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from windlass.cascade.options import first_paragraph, meanings_of
from windlass.cli.output import out, printed_as_json
from windlass.cli.tables import print_table
from windlass.errors import UsageError, did_you_mean
from windlass.window.options import OPTIONS, Policy
from windlass.window.profiles import ABOUT, PROFILES, RARE


def print_profile(name: str, *, every: bool) -> None:
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


def print_profiles() -> None:
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
