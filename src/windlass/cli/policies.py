"""The command `policies`: the profiles of windows, and the options of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.cli.output import out, print_json, print_table
from windlass.errors import UsageError, did_you_mean
from windlass.window.options import Policy, options_of
from windlass.window.profiles import ABOUT, PROFILES


def policies_command(*, as_json: bool) -> None:
    """Print the profiles: what each is for, and where it differs from the default."""
    settings = {name: Policy.of(name).settings() for name in PROFILES}
    if as_json:
        print_json(settings)
        return
    rows = [
        [name, ABOUT[name], ", ".join(_other(options, settings["default"])) or "-"]
        for name, options in settings.items()
    ]
    print_table("", ["profile", "what it is for", "other than the default"], rows)
    out.print("\nwindlass policies NAME prints every option of one")


def _other(options: Mapping[str, Any], default: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key, value in options.items():
        held = default.get(key)
        if isinstance(value, dict) and isinstance(held, dict):
            yield from _other(value, held, f"{at}{key}.")
        elif key != "profile" and value != held:
            yield f"{at}{key} {json.dumps(value)}"


def policy_command(name: str, *, as_json: bool) -> None:
    """Print the options of a profile, with what they mean."""
    if name not in PROFILES:
        raise UsageError(f"there is no profile {name!r}; {did_you_mean(name, PROFILES)}")
    settings = Policy.of(name).settings()
    if as_json:
        print_json(settings)
        return
    for line in _yaml(settings, Policy):
        out.print(line, markup=False)


def _yaml(settings: Mapping[str, Any], options: type, indent: str = "") -> Iterator[str]:
    """The options as YAML that a cascade can take over, each with its meaning."""
    for name, option in options_of(options).items():
        value, kind = settings[name], option.metadata["kind"]
        meaning = f"# {option.metadata['meaning']}"
        if isinstance(value, dict):
            yield f"{indent}{name}:  {meaning}"
            yield from _yaml(value, kind, indent + "  ")
        else:
            yield f"{f'{indent}{name}: {json.dumps(value)}':<32}  {meaning}"
