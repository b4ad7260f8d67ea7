"""`windlass policies`."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Annotated, Any

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.output import out, printed_as_json
from windlass.errors import UsageError, did_you_mean


@command()
def policies(
    name: Annotated[str | None, Argument(help="A profile: its options.")] = None,
    *,
    every: Annotated[bool, Option("--all", help="Also options that are rarely on.")] = False,
) -> None:
    """List the window profiles, or print the options of one."""
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable
    from windlass.window.options import Policy
    from windlass.window.profiles import ABOUT, PROFILES, RARE

    if name is not None and name not in PROFILES:
        raise UsageError(f"there is no profile {name!r}; {did_you_mean(name, PROFILES)}")
    settings = {each: Policy.of(each).settings() for each in PROFILES}
    if printed_as_json(settings if name is None else settings[name]):
        return
    if name is None:
        rows = [
            [each, ABOUT[each], ", ".join(_other(options, settings["default"])) or "-"]
            for each, options in settings.items()
        ]
        print_table(CellTable(["profile", "what it is for", "other than the default"], rows))
        out.print("\nwindlass policies NAME prints the options of one")
        return
    hidden = frozenset() if every or name == "spec" else RARE
    for line in _yaml(settings[name], Policy, hidden):
        out.print(line)
    if hidden:
        out.print("# windlass policies NAME --all also prints options that are rarely on")


def _other(options: Mapping[str, Any], default: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """The options that differ from the default, with their values."""
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
    from windlass.cascade.options import first_paragraph
    from windlass.declared import meanings_in
    from windlass.window.options import options_of

    indent = "  " * inside.count(".")
    for name, meaning in meanings_in(options).items():
        value = settings[name]
        if f"{inside}{name}" in hidden:
            continue
        comment = f"# {first_paragraph(meaning)}"
        if isinstance(value, dict):
            yield f"{indent}{name}:  {comment}"
            yield from _yaml(value, options_of(options)[name].kind, hidden, f"{inside}{name}.")
        else:
            yield f"{f'{indent}{name}: {json.dumps(value)}':<32}  {comment}"
